"""Tensors as matrices for nnet3py's operations, in the same memory."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def operations_for(tensor: _torch.Tensor) -> Ops:
    """This thread's operations on the device where a tensor lies.

    DeviceError for a device that nnet3py does not compute on, and for another GPU than the one that it has taken.
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
    """A contiguous float32 tensor, whose last axis becomes the columns, as an array for operations; None of None."""
    if tensor is None:
        return None
    flat = tensor if tensor.ndim < 2 else tensor.reshape(-1, tensor.shape[-1])
    return cuda().as_cuda_array(flat) if flat.is_cuda else flat.numpy()


def wait(tensor: _torch.Tensor) -> None:
    """Wait for a GPU where a tensor lies: PyTorch and nnet3py queue on streams of their own."""
    if tensor.is_cuda:
        _torch.cuda.synchronize(tensor.device)
