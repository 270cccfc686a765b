"""Tensors as matrices for nnet3py's operations, in the same memory."""
from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py import extras
from nnet3py.errors import DeviceError
from nnet3py.ops import get_ops
from nnet3py.ops.device import cuda

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops

if TYPE_CHECKING:
    import torch as _torch
else:
    _torch = extras.load("torch", "nnet3py.torch needs", "torch")

_ONLY_HERE = 2          # references to an array that one list holds, as sys.getrefcount counts

class ReusedMemory:
    """Cache of memory of large float32 tensors on the CPU, reused after the last reference is gone.

    PyTorch returns large blocks to the system at once, and filling new ones costs six times as much as reusing old
    ones, since the system clears them page by page. On a GPU PyTorch has a cache itself.
    """

    MOST_BLOCKS = 4

    def __init__(self) -> None:
        self._blocks: list[np.ndarray] = []
        self._lock = threading.Lock()        # backward passes may run in a thread of their own

    def empty(self, shape: tuple[int, ...], device: _torch.device) -> _torch.Tensor:
        """Return an uninitialized float32 tensor."""
        if device.type != "cpu":
            return _torch.empty(shape, dtype=_torch.float32, device=device)
        size = int(np.prod(shape))
        with self._lock:
            block = self._unused(size)
            # PyTorch holds the array as long as any tensor lies in it, which is what _unused() asks.
            return _torch.from_numpy(block)[:size].reshape(shape)

    def _unused(self, size: int) -> np.ndarray:
        """Return an unused block of ``size`` to 2 ``size`` numbers; make a new one if there is none."""
        free = [place for place in range(len(self._blocks)) if sys.getrefcount(self._blocks[place]) <= _ONLY_HERE]
        fitting = [place for place in free if size <= len(self._blocks[place]) <= 2 * size]
        if fitting:
            return self._blocks[min(fitting, key=lambda place: len(self._blocks[place]))]
        if len(self._blocks) >= self.MOST_BLOCKS:
            self._blocks = [block for place, block in enumerate(self._blocks) if place not in free]
        block = np.empty(size, np.float32)
        if len(self._blocks) < self.MOST_BLOCKS:
            self._blocks.append(block)
        return block


def operations_for(tensor: _torch.Tensor) -> Ops:
    """Return this thread's operations on the device of a tensor.

    Raises DeviceError for a device that nnet3py does not compute on, and for another GPU than the one in use.
    """
    if tensor.device.type == "cpu":
        return get_ops("cpu")
    if tensor.device.type != "cuda":
        raise DeviceError(f"a tensor is on the device {tensor.device}, expected the CPU or a CUDA GPU",
                          "call cpu() of it first")
    ops = get_ops("cuda")
    own = cuda().get_current_device().id
    if tensor.device.index != own:
        raise DeviceError(f"a tensor is on GPU {tensor.device.index}, but nnet3py uses GPU {own}",
                          f"move the module to cuda:{own}, or show one GPU by CUDA_VISIBLE_DEVICES")
    return ops


def matrix_of(tensor: Any) -> Any:
    """Return a contiguous float32 tensor as an array for operations; the last axis becomes the columns.

    None stays None.
    """
    if tensor is None:
        return None
    flat = tensor if tensor.ndim < 2 else tensor.reshape(-1, tensor.shape[-1])
    return cuda().as_cuda_array(flat) if flat.is_cuda else flat.numpy()


def wait(tensor: _torch.Tensor) -> None:
    """Wait for the GPU of a tensor, since PyTorch and nnet3py use streams of their own."""
    if tensor.is_cuda:
        _torch.cuda.synchronize(tensor.device)
