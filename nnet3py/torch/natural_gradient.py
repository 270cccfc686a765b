"""Kaldi's natural gradient and max-change as an optimizer of PyTorch, and the orthonormal constraint."""
from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from nnet3py import extras
from nnet3py.components.natural_gradient import OnlineNaturalGradient, natural_gradient_step
from nnet3py.components.updatable import default_rank_in, default_rank_out
from nnet3py.errors import ShapeError, UsageError, within
from nnet3py.network.whole_model import check_ratio, constrain_matrix
from nnet3py.runtime.parameter_store import limiting_factors
from nnet3py.torch.memory import matrix_of, operations_for, wait

if TYPE_CHECKING:
    import torch as _torch
    from torch.nn import functional as _functional
else:
    _torch = extras.load("torch", "nnet3py.torch needs", "torch")
    _functional = extras.load("torch.nn.functional", "nnet3py.torch needs", "torch", "torch")

logger = logging.getLogger(__name__)

UPDATE_PERIOD = 4        # Kaldi's for layers
T = TypeVar("T")         # result of a closure: the loss


@dataclass
class _Layer:
    """Trainable parameters of one module, in Kaldi a component."""

    name: str
    module: Any
    parameters: list[Any]
    preconditioners: tuple[OnlineNaturalGradient, OnlineNaturalGradient] | None = None
    rows: list[tuple[Any, Any]] = field(default_factory=list)      # inputs and derivatives at the output


class NaturalGradient(_torch.optim.Optimizer):        # type: ignore[misc, name-defined]
    """Gradient descent as Kaldi's trainer: with natural gradient, momentum and limits on parameter changes.

    The inputs (rows) of each ``Linear`` and ``Conv1d`` of the module, and the derivatives at its output, are
    preconditioned by Kaldi's ``OnlineNaturalGradient``. They are recorded when the module runs in training mode, so
    changes of ``.grad`` only affect other parameters, among them those of convolutions in groups or with padding other
    than zeros, which have plain derivatives. Estimates are not in ``state_dict``: as in Kaldi, a resumed training
    estimates them anew.

    Parameters
    ----------
    module : module whose trainable parameters are changed; weight and bias of a layer share one limit
    lr : learning rate; Kaldi's are for derivatives that are summed over frames, see :meth:`step`
    momentum : 0 or more and below 1; as in Kaldi, changes are scaled by (1 - momentum)
    max_change_per_layer : limit on the 2-norm of a layer's change; 0 for none. The default is xconfig's for most layers
    max_change : limit on the 2-norm of the whole change; 0 for none
    rank_in, rank_out : ranks of the estimates for inputs and derivatives; None for 20 and 80, or half of the dimension
    num_samples_history : number of rows after which old rows hardly count
    alpha : smoothing with the unit matrix
    update_period : steps between two updates of the estimates

    Raises
    ------
    UsageError : an argument that is not a module, a module without parameters, or invalid options
    """

    def __init__(self, module: _torch.nn.Module, lr: float, *, momentum: float = 0.0,
                 max_change_per_layer: float = 0.75, max_change: float = 2.0, rank_in: int | None = None,
                 rank_out: int | None = None, num_samples_history: float = 2000.0, alpha: float = 4.0,
                 update_period: int = UPDATE_PERIOD) -> None:
        if not isinstance(module, _torch.nn.Module):
            raise UsageError(f"found a {type(module).__name__}, expected a module of PyTorch",
                             "give NaturalGradient the module itself, not its parameters()")
        for name, value, holds, wanted in (
                ("lr", lr, 0.0 <= lr < math.inf, "0 or more"), ("momentum", momentum, 0.0 <= momentum < 1.0, "0 to 1"),
                ("max_change_per_layer", max_change_per_layer, max_change_per_layer >= 0.0, "0 (no limit) or more"),
                ("max_change", max_change, max_change >= 0.0, "0 (no limit) or more")):
            if not holds:
                raise UsageError(f"{name}={value:g} must be {wanted}")
        self._layers = _layers_of(module)
        if not self._layers:
            raise UsageError(f"the module {type(module).__name__} has no parameters that require a gradient")

        def preconditioner(rank: int) -> OnlineNaturalGradient:
            try:
                return OnlineNaturalGradient(rank, update_period, num_samples_history, alpha)
            except ValueError as error:
                raise UsageError(str(error)) from error

        for layer in self._layers:
            if _is_preconditioned(layer.module):
                weight = layer.module.weight
                ranks = (default_rank_in(weight[0].numel()) if rank_in is None else rank_in,
                         default_rank_out(len(weight)) if rank_out is None else rank_out)
                layer.preconditioners = preconditioner(ranks[0]), preconditioner(ranks[1])
                layer.module.register_forward_hook(_Note(layer))
        self.max_change = max_change
        super().__init__([{"params": layer.parameters, "layer": layer.name} for layer in self._layers],
                         {"lr": lr, "momentum": momentum, "max_change": max_change_per_layer})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Discard derivatives and recorded rows."""
        super().zero_grad(set_to_none)
        for layer in self._layers:
            layer.rows.clear()

    @overload
    def step(self, closure: None = None, *, num_frames: float = 1.0) -> None: ...
    @overload
    def step(self, closure: Callable[[], T], *, num_frames: float = 1.0) -> T: ...

    def step(self, closure: Callable[[], T] | None = None, *, num_frames: float = 1.0) -> T | None:
        """Change the parameters, with all rows that were recorded since the last step.

        Parameters
        ----------
        closure : function that computes the loss and its derivatives; None if this was done before
        num_frames : divisor of the loss, such as ``loss.sums.weight``, with which the step equals Kaldi's

        Returns the result of ``closure``. An infinite change is skipped, with a warning.

        Raises
        ------
        NumericError : NaN or infinity in recorded rows; no parameter was changed
        """
        value = None
        if closure is not None:
            with _torch.enable_grad():
                value = closure()
        with _torch.no_grad():
            self._change([self._direction(layer, group, num_frames)
                          for layer, group in zip(self._layers, self.param_groups, strict=True)])
        for layer in self._layers:
            layer.rows.clear()
        return value

    def _direction(self, layer: _Layer, group: dict[str, Any], num_frames: float) -> list[Any]:
        """Return the change of a layer with momentum, before the limits: a float32 tensor for each parameter."""
        if layer.preconditioners is None:
            changes = [_torch.zeros_like(parameter, dtype=_torch.float32) if parameter.grad is None
                       else parameter.grad.float() * (-group["lr"] * num_frames) for parameter in layer.parameters]
        else:
            with within(f"layer {layer.name}"):
                changes = _preconditioned(layer, *layer.preconditioners, group["lr"], num_frames)
        if group["momentum"]:
            for parameter, change in zip(layer.parameters, changes, strict=True):
                before = self.state[parameter].get("change")
                if before is not None:
                    change.add_(before, alpha=group["momentum"])
        return changes

    def _change(self, directions: list[list[Any]]) -> None:
        groups = self.param_groups
        scales = np.array([1.0 - group["momentum"] for group in groups])
        squares = [sum(float(change.double().square().sum()) for change in changes) for changes in directions]
        factors = limiting_factors(np.array(squares) * scales**2, np.array([group["max_change"] for group in groups]),
                                   self.max_change, 1.0)
        is_finite = math.isfinite(sum(squares))
        if not is_finite:
            logger.warning("Infinite parameter change, will not apply.")
        for group, changes, factor in zip(groups, directions, factors[:-1] * factors[-1] * scales, strict=True):
            for parameter, change in zip(group["params"], changes, strict=True):
                if is_finite:
                    parameter.add_(change.to(parameter.dtype), alpha=float(factor))
                if group["momentum"] and is_finite:
                    self.state[parameter]["change"] = change
                else:
                    self.state[parameter].pop("change", None)


class _Note:
    """Forward hook that records inputs and output derivatives of a layer; in a copy of the module it does nothing."""

    def __init__(self, layer: _Layer) -> None:
        self._layer = layer

    def __call__(self, module: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if module.training and output.requires_grad and module.weight.requires_grad:
            x = inputs[0].detach()
            output.register_hook(lambda deriv: self._layer.rows.append((x, deriv.detach())))

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return _note_of_a_copy, ()


def _note_of_a_copy() -> Callable[..., None]:
    return _note_nothing


def _note_nothing(*_: Any) -> None:
    return


def _layers_of(module: Any) -> list[_Layer]:
    """Return the modules that have trainable parameters of their own; a shared one belongs to its first module."""
    layers, taken = [], set()
    for name, part in module.named_modules():
        own = [parameter for parameter in part.parameters(recurse=False)
               if parameter.requires_grad and id(parameter) not in taken]
        taken |= {id(parameter) for parameter in own}
        if own:
            layers.append(_Layer(name or type(module).__name__, part, own))
    return layers


def _is_preconditioned(module: Any) -> bool:
    if type(module) is _torch.nn.Conv1d and (module.groups != 1 or module.padding_mode != "zeros"):
        return False
    return type(module) in (_torch.nn.Linear, _torch.nn.Conv1d) and all(p.requires_grad for p in module.parameters())


def _preconditioned(layer: _Layer, inner: OnlineNaturalGradient, outer: OnlineNaturalGradient, lr: float,
                    num_frames: float) -> list[Any]:
    """Return the change of weight and bias by natural gradient; zeros without recorded rows."""
    module, weight, bias = layer.module, layer.module.weight, layer.module.bias
    is_conv = weight.ndim == 3
    by_offset = weight.permute(0, 2, 1) if is_conv else weight
    change = _torch.zeros(by_offset.shape, dtype=_torch.float32, device=weight.device)
    bias_change = None if bias is None else _torch.zeros(bias.shape, dtype=_torch.float32, device=weight.device)
    if layer.rows:
        rows = [_conv_rows(module, *pair) if is_conv else pair for pair in layer.rows]
        x, deriv = (_torch.cat([part.reshape(-1, part.shape[-1]).float() for part in parts])
                    for parts in zip(*rows, strict=True))
        deriv = deriv * -num_frames
        ops = operations_for(weight)
        wait(weight)
        mark = ops.mark_scratch()
        try:
            natural_gradient_step(ops, matrix_of(change.reshape(len(change), -1)),
                                  None if bias_change is None else matrix_of(bias_change), lr, inner, outer,
                                  (matrix_of(x.contiguous()),), matrix_of(deriv.contiguous()))
        finally:
            ops.release_scratch(mark)
        wait(weight)
        for preconditioner in (inner, outer):
            preconditioner.check(ops)
    return [change.permute(0, 2, 1) if is_conv else change, *([] if bias_change is None else [bias_change])]


def _conv_rows(conv: Any, x: Any, deriv: Any) -> tuple[Any, Any]:
    """Return the inputs and output derivatives of a convolution as matrices, as in Kaldi's TDNN layers.

    Both are matrices with a row for each output frame; a row of the first has the inputs at all offsets, concatenated.
    ``x`` and ``deriv`` are (sequences, channels, frames), or without the first axis.
    """
    x, deriv = (tensor[None] if tensor.ndim == 2 else tensor for tensor in (x, deriv))
    width, dilation = conv.kernel_size[0], conv.dilation[0]
    if conv.padding == "same":
        before, total = dilation * (width - 1) // 2, dilation * (width - 1)
        x = _functional.pad(x, (before, total - before))
    elif conv.padding != "valid" and conv.padding[0]:
        x = _functional.pad(x, (conv.padding[0],) * 2)
    num_frames, step = deriv.shape[2], conv.stride[0]
    last = step * (num_frames - 1) + 1
    shifted = [x[:, :, dilation * k:dilation * k + last:step].transpose(1, 2) for k in range(width)]
    return _torch.cat(shifted, dim=2), deriv.transpose(1, 2)


def orthonormal_constraint_(weight: _torch.Tensor, scale: float = -1.0) -> _torch.Tensor:
    """Move a matrix M a step towards M Mᵀ = s² I, in place. Kaldi: ``ConstrainOrthonormal``.

    Kaldi does this in about one of four minibatches, chosen at random.

    Parameters
    ----------
    weight : (rows, cols) of floats; or the weight of a ``Conv1d``, (outputs, channels, width), with a row for each
        output. With more rows than columns, M is the transpose
    scale : s; negative for the s that keeps the size of M, as in most recipes; 0 to do nothing

    Returns
    -------
    ``weight``

    Raises
    ------
    ShapeError : a tensor that is not a matrix
    NumericError : a matrix that is not finite; it is left unchanged
    """
    if not isinstance(weight, _torch.Tensor) or not weight.is_floating_point() or weight.ndim not in (2, 3):
        shape = tuple(weight.shape) if isinstance(weight, _torch.Tensor) else type(weight).__name__
        raise ShapeError(f"found {shape}, expected a matrix of floats, or the weight of a Conv1d")
    if scale == 0.0:
        return weight
    with _torch.no_grad():
        matrix = weight.detach().reshape(len(weight), -1).to(_torch.float32, copy=True).contiguous()
        wait(weight)
        ratio = constrain_matrix(operations_for(weight), matrix_of(matrix), scale)()
        check_ratio(float(ratio[0]), f"of shape {tuple(weight.shape)}")
        wait(weight)
        weight.copy_(matrix.reshape(weight.shape))
    return weight
