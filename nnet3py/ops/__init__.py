"""The matrix operations, the same names and arguments on every device.

``get_ops("cpu")`` gives the object that components and the executor compute with. Importing this module imports
neither numba nor numpy.
"""
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

from nnet3py.errors import DeviceError

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops

_local = threading.local()


def get_ops(device: str = "cpu") -> Ops:
    """The operations of a device, one object per device and thread.

    Parameters
    ----------
    device : ``"cpu"`` or ``"cuda"``

    Raises
    ------
    DeviceError
        The device is unknown, or there is no such device here.
    """
    by_device = _local.__dict__.setdefault("ops", {})
    if device not in by_device:
        by_device[device] = _make_ops(device)
    return cast("Ops", by_device[device])        # on its own device's arrays; __getattr__ finds operations by the table


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
