"""Parts of device arrays, found without a GPU: only their addresses, shapes and strides matter."""
from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

ADDRESS = 4096


@pytest.fixture
def make(monkeypatch):
    """Makes a device array that claims to lie where nothing is."""
    from nnet3py.ops import device
    from nnet3py.ops.cuda.memory import array_class

    module = device.cuda().cudadrv
    monkeypatch.setattr(module.devices, "get_context", lambda: SimpleNamespace())

    def made(shape):
        host = np.empty(shape, np.float32)
        # memory of another owner, as that of PyTorch or CuPy would be
        binding = getattr(module.driver, "binding", None)       # NVIDIA's, which the package numba-cuda uses
        pointer = ctypes.c_void_p(ADDRESS) if binding is None else binding.CUdeviceptr(ADDRESS)
        data = module.driver.MemoryPointer(None, pointer, host.nbytes, owner=SimpleNamespace())
        return host, array_class()(host.shape, host.strides, host.dtype, gpu_data=data)

    return made


def check(host, part, array):
    assert array.shape == part.shape and array.size == part.size
    if part.size:
        assert array.strides == part.strides
        assert array.gpu_data.device_pointer_value - ADDRESS == part.ctypes.data - host.ctypes.data
        assert array.alloc_size == part.strides[0] * (part.shape[0] - 1) + (
            part.strides[1] * (part.shape[1] - 1) if part.ndim == 2 else 0) + part.itemsize
        assert array.is_c_contiguous() == part.flags.c_contiguous


def random_slice(rng, size: int, with_step: bool) -> slice:
    first, last = sorted(int(n) for n in rng.integers(0, size + 1, 2))
    return slice(first or None, last, int(rng.integers(1, 4)) if with_step else None)


def test_slices_of_slices(make):
    rng = np.random.default_rng(0)
    for _ in range(300):
        rows, cols = (int(n) for n in rng.integers(1, 9, 2))
        host, array = make((rows, cols))
        part = host
        for _ in range(2):
            item = random_slice(rng, part.shape[0], True), random_slice(rng, part.shape[1], False)
            part, array = part[item], array[item]
            check(host, part, array)


def test_vectors_rows_and_reshaping(make):
    host, array = make(60)
    check(host, host[4:44].reshape(5, 8)[:, 2:5], array[4:44].reshape(5, 8)[:, 2:5])
    check(host, host[4:44].reshape(-1, 1), array[4:44].reshape(-1, 1))
    check(host, host[7:7], array[7:7])
    check(host, host[8:40].view(np.float64).reshape(4, 4)[1:, 2:], array[8:40].view(np.float64).reshape(4, 4)[1:, 2:])
    host, array = make((6, 4))
    check(host, host[2:], array[2:])
    check(host, host[1:2, :3], array[1:2, :3])
