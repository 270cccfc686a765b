"""The matrix operations that networks compute with, with the same names and arguments on every device.

The three most important names: ``get_ops("cpu")`` returns the object that components and the executor compute with,
``table.Ops`` is its type, and ``table.FAMILIES`` lists the operations. ``README.md`` in this folder is the contract.

The package imports the engine and no code of networks. Importing this module imports neither numba nor numpy. The
operations could be numpy's on a CPU, or PyTorch's or CuPy's on both devices: numpy makes a temporary array for every
step of a formula and has no fused kernels, and the other two are far larger than this package; here a GPU needs only
numba's CUDA target and cuBLAS.
"""
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

from nnet3py.errors import DeviceError

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops

_local = threading.local()


def get_ops(device: str = "cpu") -> Ops:
    """Return the operations of a device, one object per device and thread.

    Parameters
    ----------
    device : ``"cpu"`` or ``"cuda"``

    Raises
    ------
    DeviceError
        The device is unknown, or this machine has no usable device of this kind.
    """
    by_device = _local.__dict__.setdefault("ops", {})
    if device not in by_device:
        by_device[device] = _make_ops(device)
    return cast("Ops", by_device[device])        # __getattr__ finds operations by the table


def _make_ops(device: str) -> object:
    if device == "cpu":
        from nnet3py.engine import threads
        from nnet3py.ops.cpu import CpuOps
        threads.apply()
        return CpuOps()
    if device == "cuda":
        from nnet3py.ops.device import require_cuda
        require_cuda()
        from nnet3py.ops.cuda import CudaOps
        return CudaOps()
    raise DeviceError(f"unknown device {device!r}, expected 'cpu' or 'cuda'")
