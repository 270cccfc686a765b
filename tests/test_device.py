"""Choosing a device."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nnet3py.errors import DeviceError
from nnet3py.ops import device, get_ops


def test_cpu_is_always_there():
    assert get_ops("cpu").device == "cpu"
    assert device.describe("cpu").startswith("cpu (")


@pytest.mark.parametrize("choose", [get_ops, device.describe])
def test_unknown_device(choose):
    with pytest.raises(DeviceError, match="unknown device 'gpu', expected 'cpu' or 'cuda'"):
        choose("gpu")


@pytest.mark.skipif(device.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("choose", [get_ops, device.describe])
def test_cuda_without_a_gpu(choose):
    with pytest.raises(DeviceError, match="device 'cuda' cannot be used: .*device='cpu'") as caught:
        choose("cuda")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


def test_simulator_counts_as_a_device():
    code = "from nnet3py.ops import device, get_ops; print(device.describe('cuda'), get_ops('cuda').device)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"})
    assert result.stdout.split("\n")[0] == "cuda (numba's simulator) cuda", result.stderr


def test_only_device_imports_numba_cuda():
    package = Path(device.__file__).parents[1]
    importers = {str(path.relative_to(package)) for path in package.rglob("*.py")
                 if any(text in path.read_text() for text in ("import numba.cuda", "from numba import cuda",
                                                              "from numba.cuda import"))}
    assert importers == {"ops/device.py"}


class Cards:
    """As much of numba.cuda and of the driver as choosing a GPU needs; ``free`` is None for a GPU that others hold."""

    def __init__(self, *free) -> None:
        self.gpus, self.selected, self.contexts = list(free), -1, []

    def is_available(self):
        return True

    def select_device(self, number):
        self.selected = number

    def current_context(self):
        if self.gpus[self.selected] is None:
            raise RuntimeError("CUDA_ERROR_DEVICE_UNAVAILABLE")

    def cuInit(self, flags):
        return 0

    def cuDeviceGet(self, ordinal, number):
        ordinal._obj.value = number
        return 0

    def cuDevicePrimaryCtxRetain(self, context, ordinal):
        if self.gpus[ordinal.value] is None:
            return 46
        self.contexts.append(ordinal.value)
        return 0

    def cuCtxPushCurrent_v2(self, context):
        return 0

    cuCtxPopCurrent_v2 = cuCtxPushCurrent_v2

    def cuMemGetInfo_v2(self, free, total):
        free._obj.value = self.gpus[self.contexts[-1]]
        return 0

    def cuDevicePrimaryCtxRelease_v2(self, ordinal):
        self.contexts.remove(ordinal.value)
        return 0


@pytest.fixture
def cards(monkeypatch):
    def made(*free):
        found = Cards(*free)
        for name in ("cuda", "driver_library"):
            monkeypatch.setattr(device, name, lambda: found)
        return found

    monkeypatch.setattr(device, "_selected", None)
    return made


@pytest.mark.parametrize(("free", "chosen"), [((5,), 0), ((5, 9, 9), 1), ((None, 3), 1), ((7, None), 0)])
def test_the_gpu_with_the_most_free_memory_is_taken(cards, free, chosen):
    found = cards(*free)
    device.require_cuda()
    assert found.selected == chosen and not found.contexts
    found.gpus[chosen] = 1
    found.selected = -1
    device.require_cuda()
    assert found.selected == chosen, "other threads use the same one"


def test_gpus_that_others_hold(cards):
    found = cards(None, None)
    with pytest.raises(device.DeviceBusy, match="GPU 0: cuDevicePrimaryCtxRetain returns 46; GPU 1: cuDevice"):
        device.require_cuda()
    found.gpus[1] = 8
    device.require_cuda()
    assert found.selected == 1
    found.gpus[1] = None
    with pytest.raises(device.DeviceBusy, match="GPU 1"):
        device.require_cuda()
    found.gpus[0] = 3
    device.require_cuda()
    assert found.selected == 0, "it is looked for anew"


def test_numba_cuda_finds_row_stack(monkeypatch):
    """numpy 2.5 lacks it; what stands in its place is what it was."""
    monkeypatch.delattr(np, "row_stack", raising=False)
    device._restore_row_stack()
    assert np.row_stack is np.vstack
    monkeypatch.setattr(np, "row_stack", len)
    device._restore_row_stack()
    assert np.row_stack is len
