"""Tensors, data sets and loaders of PyTorch as training data: recognized without importing torch, read as arrays."""
from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from nnet3py import extras


def import_torch() -> Any:
    """The torch package. Raises Nnet3Error with the command that installs it."""
    return extras.load("torch", "a loss that computes with tensors needs", "torch")


def _is_of(value: Any, module: str, name: str) -> bool:
    """Whether a value is of a class of torch; what has not been imported has no instances."""
    loaded = sys.modules.get(module)
    kind = getattr(loaded, name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of torch."""
    return _is_of(value, "torch", "Tensor")


def is_module(value: Any) -> bool:
    """Whether it is a module of torch."""
    return _is_of(value, "torch.nn", "Module")


def is_loader(value: Any) -> bool:
    """Whether it is a ``DataLoader`` of torch, whose items are minibatches."""
    return _is_of(value, "torch.utils.data", "DataLoader")


def is_array(value: Any) -> bool:
    """Whether it is a numpy array or a tensor."""
    return isinstance(value, np.ndarray) or is_tensor(value)


def as_array(value: Any) -> Any:
    """A tensor as a numpy array: float32 if it is of floats, else of its type; anything else as it is.

    Where it can, the array shares the tensor's memory.
    """
    if not is_tensor(value):
        return value
    tensor = value.detach().cpu()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def items_of(data: Any) -> Any:
    """The items of a data set of torch that is read by numbers, as an iterable; anything else as it is."""
    if _is_of(data, "torch.utils.data", "Dataset") and not isinstance(data, Iterable):
        return (data[number] for number in range(len(data)))
    return data
