"""Choosing a device."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
