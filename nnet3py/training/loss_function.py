"""Losses defined by users: functions of numpy arrays, or functions or modules of torch."""
from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.formats.general import check_finite
from nnet3py.training.targets import NO_TARGET, as_array, import_torch, is_array, is_module, is_tensor

if TYPE_CHECKING:
    from nnet3py.training.minibatches import LossFunction

_PAIR = "(value, derivative), a number and an array of the output's shape"
_DIVERGED = "has the training diverged? try a lower learning rate; or does the loss take the logarithm of 0?"


class Loss:
    """A loss defined by you, which :func:`nnet3py.train` and :class:`nnet3py.Trainer` minimize.

    Both convert a function to a ``Loss``; make the ``Loss`` yourself to choose its settings:

    >>> nnet3py.train(nnet, feats, classes, loss=nnet3py.Loss(focal_loss, tensors=True))

    Parameters
    ----------
    function : called as ``function(output, target)`` for each minibatch of N sequences of T frames. ``output`` is
        float32 (N, T, dim). ``target`` is int64 (N, T), where the targets are classes, -1: the frame does not count;
        else float32 (N, T, width). The function returns the value and the derivative with respect to the output, an
        array of the output's shape; or, where it computes with ``tensors``, the value alone, a tensor of one number.
        Losses of torch itself, such as ``torch.nn.CrossEntropyLoss()``, are called with the frames that count as rows:
        float32 (rows, dim), int64 (rows,) or float32 (rows, width)
    tensors : whether the function is called with tensors of torch, which then computes the derivative; None: True for a
        module or a function of torch itself
    reduction : "mean" if the value is per frame, a mean over the frames that count; "sum" if it is a sum over them.
        Derivatives of a mean are multiplied by the number of frames, so that learning rates are those of Kaldi, whose
        derivatives are sums. None: the ``reduction`` of a loss of torch, else "mean"
    classes : whether targets of examples, of which at most one per frame is not 0, are given as classes, int64 (N, T);
        False: as rows of numbers, float32 (N, T, dim). None: as classes if those of the first minibatch can be

    Raises
    ------
    UsageError : an object that cannot be called, a reduction that does not exist
    """

    def __init__(self, function: LossFunction, *, tensors: bool | None = None, reduction: str | None = None,
                 classes: bool | None = None) -> None:
        if not callable(function):
            raise UsageError(f"loss={function!r} is a {type(function).__name__}, expected a function (output, target)",
                             f"a function that returns {_PAIR}; or a module of torch, such as "
                             "torch.nn.CrossEntropyLoss()")
        self.function: Callable[..., Any] = function
        if isinstance(function, type):
            raise UsageError(f"the loss is the class {function.__name__}, expected an object of it",
                             f"loss={function.__name__}(…)")
        self.classes = classes
        inner = function.func if isinstance(function, functools.partial) else function
        self.name = getattr(inner, "__name__", type(inner).__name__)
        self.takes_rows = _is_of_torch(inner) and tensors is not False
        self.tensors = self.takes_rows or is_module(inner) if tensors is None else tensors
        self.reduction = reduction or _reduction_of(function)
        if self.reduction not in ("mean", "sum"):
            raise UsageError(f"the loss {self.name} has the reduction {self.reduction!r}, expected 'mean' or 'sum'",
                             "one number is minimized")

    def __repr__(self) -> str:
        kind = "tensors" if self.tensors else "arrays"
        return f"<Loss {self.name}: of {kind}, a {self.reduction} over frames>"

    def __call__(self, output: np.ndarray, target: object, *, where: str = "the output",
                 with_derivative: bool = True) -> tuple[float, np.ndarray | None]:
        """Return the loss, and its derivative with respect to the output, as the function computes them.

        Parameters
        ----------
        output : float32 (N, T, dim); the function may change it
        target : int64 (N, T), float32 (N, T, width), or anything else that the function takes
        where : the name of the output in messages
        with_derivative : whether to compute the derivative; None is returned for it if not

        Raises
        ------
        UsageError : the function does not return a value and a derivative
        ShapeError : a value that is more than one number, a derivative of another shape than the output's
        NumericError : NaN or infinity in value or derivative
        """
        what = f"the loss {self.name} of {where}"
        value, derivative = (self._of_tensors if self.tensors else self._of_arrays)(output, target, what,
                                                                                    with_derivative)
        if not np.isfinite(value):
            raise NumericError(f"{what} is {value:g}", _DIVERGED)
        if derivative is not None:
            check_finite(derivative.reshape(-1, derivative.shape[-1]), f"the derivative of {what}")
        return value, derivative

    def _of_arrays(self, output: np.ndarray, target: Any, what: str,
                   with_derivative: bool) -> tuple[float, np.ndarray | None]:
        shape = output.shape
        try:
            pair = self.function(output, target)
        except (TypeError, AttributeError) as error:
            if sys.modules.get("torch") is None:
                raise
            raise UsageError(f"{what} failed with numpy arrays: {type(error).__name__}: {error}",
                             _tensors_hint(self.name)) from error
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise UsageError(f"{what} returned {_kind(pair)}, expected {_PAIR}",
                             _tensors_hint(self.name) if is_tensor(pair) else None)
        value = _number(as_array(pair[0]), what)
        if not with_derivative:
            return value, None
        derivative = np.asarray(as_array(pair[1]))
        if derivative.dtype.kind not in "fiub":
            raise UsageError(f"{what} returned a derivative of type {_kind(pair[1])}, expected {_PAIR}")
        if derivative.shape != shape:
            raise ShapeError(f"{what} returned a derivative of shape {derivative.shape}, expected the output's shape "
                             f"{shape}")
        return value, derivative

    def _of_tensors(self, output: np.ndarray, target: Any, what: str,
                    with_derivative: bool) -> tuple[float, np.ndarray | None]:
        torch = import_torch()
        tensor = torch.from_numpy(np.ascontiguousarray(output)).requires_grad_(with_derivative)
        wanted = torch.from_numpy(np.array(as_array(target))) if is_array(target) else target
        with torch.set_grad_enabled(with_derivative):
            value = self.function(*(_rows(tensor, wanted) if self.takes_rows else (tensor, wanted)))
            if not is_tensor(value):
                raise UsageError(f"{what} returned {_kind(value)}, expected a tensor of one number, as it is given "
                                 "tensors", f"loss=nnet3py.Loss({self.name}, tensors=False) is given arrays")
            number = _number(as_array(value), what)
            if not with_derivative:
                return number, None
            if value.requires_grad:
                value.sum().backward()
        if tensor.grad is None:
            raise UsageError(f"{what} does not depend on the output, so it has no derivative",
                             "leave out detach(), numpy() and torch.no_grad() between the output and the value")
        return number, tensor.grad.numpy()


def _rows(output: Any, target: Any) -> tuple[Any, Any]:
    """Return the frames that count as rows: losses of torch itself have their classes on the second axis."""
    output = output.flatten(0, 1)
    if not is_tensor(target):
        return output, target
    target = target.flatten(0, 1)
    if target.ndim > 1 or target.is_floating_point():
        return output, target
    counts = target != NO_TARGET
    return output[counts], target[counts]


def _is_of_torch(function: Any) -> bool:
    """Return whether a function, or the class of a module, is defined in torch itself."""
    module = getattr(type(function) if is_module(function) else function, "__module__", None) or ""
    return module.split(".")[0] == "torch"


def _reduction_of(function: Any) -> str:
    """Return the ``reduction`` of a loss of torch, else "mean"; torch's "batchmean" is a mean over rows."""
    named = function.keywords.get("reduction") if isinstance(function, functools.partial) else None
    reduction = named or getattr(function, "reduction", None) or "mean"
    return "mean" if reduction == "batchmean" else str(reduction)


def _tensors_hint(name: str) -> str:
    return f"if it computes with tensors of torch: loss=nnet3py.Loss({name}, tensors=True)"


def _number(value: Any, what: str) -> float:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise UsageError(f"{what} has a value of type {_kind(value)}, expected a number")
    if array.size != 1:
        raise ShapeError(f"{what} has a value of shape {array.shape}, expected one number",
                         "take its mean() over the frames; or its sum(), with nnet3py.Loss(…, reduction='sum')")
    return float(array.reshape(()))


def _kind(value: Any) -> str:
    if is_array(value):
        return f"{'a tensor' if is_tensor(value) else 'an array'} of shape {tuple(value.shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return type(value).__name__
