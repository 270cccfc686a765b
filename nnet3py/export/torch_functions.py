"""Functions that the generated torch modules call: checks of inputs, sums over windows, recurrences of any length.

TorchScript compiles these functions and reads their annotations, which therefore are not strings, and use the syntax of
PyTorch 2.1. Errors in TorchScript have no separate hint, so hints are in the messages. Files of modules name this file.
"""
from collections.abc import Callable
from typing import Any, Optional

import torch
from torch import Tensor

from nnet3py.errors import ShapeError, UsageError

# -- checks ------------------------------------------------------------------------------------------------------------


def check_tensors(given: list[tuple[str, Any]], like: Any) -> None:
    """Raise UsageError for an input that is not a tensor, or has another dtype than the module.

    Not for TorchScript, which checks types itself.

    Parameters
    ----------
    given : names and inputs
    like : parameter of the module; not a tensor if there is none, or if layers were replaced
    """
    for name, x in given:
        if not isinstance(x, Tensor):
            kind = f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")
            raise UsageError(f"'{name}' is a {kind}, expected a torch.Tensor", "torch.from_numpy makes one of an array")
        if not x.is_floating_point():
            raise UsageError(f"'{name}' has dtype {x.dtype}, expected numbers such as float32", f"give {name}.float()")
        if isinstance(like, Tensor) and x.dtype != like.dtype and not _is_autocast(x):
            raise UsageError(f"'{name}' has dtype {x.dtype}, expected that of the module's parameters, {like.dtype}",
                             f"give {name}.to({like.dtype})")


def _is_autocast(x: Tensor) -> bool:
    """Return whether ``torch.autocast`` will convert x to the dtype that a layer needs; not for float64."""
    if x.dtype == torch.float64:
        return False
    try:
        return torch.is_autocast_enabled(x.device.type)
    except TypeError:                  # before PyTorch 2.4
        return torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled()


def check_frames(x: Tensor, name: str, dim: int, least: int, context: int) -> None:
    """Raise ShapeError unless x is (sequences, frames, dim), with enough frames.

    ``least`` : least number of frames, including ``context`` frames around those of the outputs.
    """
    if x.dim() != 3 or x.size(2) != dim:
        hint = ""
        if x.dim() == 2 and x.size(1) == dim:
            hint = f" (give one sequence as {name}.unsqueeze(0))"
        elif x.dim() == 3 and x.size(1) == dim:
            hint = f" (columns are the last axis: give {name}.transpose(1, 2))"
        raise ShapeError(f"'{name}' has shape {shape_text(x)}, expected (sequences, frames, {dim}){hint}")
    if x.size(1) < least:
        hint = f", {context} of them context around those of the outputs" if context > 0 else ""
        frames = "1 frame" if least == 1 else f"{least} frames"
        raise ShapeError(f"'{name}' has shape {shape_text(x)}, expected {frames} or more{hint}")


def check_same_frames(x: Tensor, name: str, dim: int, first: Tensor, first_name: str) -> None:
    """Raise ShapeError unless x is (sequences, frames, dim), with the sequences and frames of another input."""
    if x.dim() != 3 or x.size(2) != dim or x.size(0) != first.size(0) or x.size(1) != first.size(1):
        raise ShapeError(f"'{name}' has shape {shape_text(x)}, expected ({first.size(0)}, {first.size(1)}, {dim}): the "
                         f"sequences and frames of '{first_name}'")


def check_vectors(x: Tensor, name: str, dim: int, first: Tensor, first_name: str) -> None:
    """Raise ShapeError unless x is (sequences, dim), or (sequences, 1, dim), with the sequences of another input."""
    is_right = x.dim() == 2 or (x.dim() == 3 and x.size(1) == 1)
    if not is_right or x.size(x.dim() - 1) != dim or x.size(0) != first.size(0):
        raise ShapeError(f"'{name}' has shape {shape_text(x)}, expected ({first.size(0)}, {dim}): a row for each "
                         f"sequence of '{first_name}'")


def check_not_given(x: Optional[Tensor], name: str) -> None:  # noqa: UP007, UP045
    """Raise ShapeError for an input that the network does not have."""
    if x is not None:
        raise ShapeError(f"'{name}' is given, but the network has no input of that name")


def shape_text(x: Tensor) -> str:
    """Format a shape as a tuple of Python."""
    return "(" + ", ".join([str(size) for size in x.shape]) + (",)" if x.dim() == 1 else ")")


# -- sums over windows -------------------------------------------------------------------------------------------------


def windows(x: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Return sums of the frames first to last of x (N, frames, columns), as (N, windows, columns).

    The sum is 0 where last < first.
    """
    sums = torch.nn.functional.pad(torch.cumsum(x, 1), (0, 0, 1, 0))
    begin = torch.clamp(first, max=x.size(1))
    return sums.index_select(1, torch.maximum(last + 1, begin)) - sums.index_select(1, begin)


# -- recurrences -------------------------------------------------------------------------------------------------------


@torch.jit.unused
def is_exporting() -> bool:
    """Return whether ``torch.export`` traces the module; False for versions of PyTorch that cannot tell.

    Only then is a recurrence a ``while_loop``, which can have any length and is traced as one step; a loop of Python
    would be traced step by step. Without tracing, ``while_loop`` would be slower.
    """
    ask = getattr(torch.compiler, "is_exporting", None)
    return ask is not None and bool(ask())


def loop_of_any_length(step: Callable[..., list[Tensor]], like: Tensor, scanned: list[Tensor], others: list[Tensor],
                       dims: tuple[list[int], list[int]], fold: int, is_backward: bool) -> list[Tensor]:
    """Run a recurrence as PyTorch's ``while_loop``, for a number of frames that is unknown during tracing.

    Sizes are only sums of the number of frames and constants, since ``torch.export`` fails on quotients: each step
    indexes its frames, and a last incomplete step writes into a margin that is cut off afterwards.

    Parameters
    ----------
    step : function of ``like``, ``fold`` frames of each of ``scanned``, states and ``others``, that returns the results
        and the next states
    like : float (N, ...); results and states have its N, dtype and device
    scanned : float (N or 1, frames, columns), with equal numbers of frames
    others : further arguments of each step, unchanged
    dims : columns of the results, and of the states, which are zero at first
    fold : frames of a step
    is_backward : whether the steps go from the last frame to the first

    Returns
    -------
    The results, (N, frames, columns).
    """
    from torch._higher_order_ops.while_loop import while_loop

    count, margin = len(dims[0]), fold - 1
    rows = scanned[0].size(1)
    steps = (rows + margin) // fold
    within = torch.arange(fold, device=like.device)
    scanned, others = [x.clone() for x in scanned], [x.clone() for x in others]        # none may be another's memory

    def is_left(number: Tensor, *values: Tensor) -> Tensor:
        return number[0] < steps

    def next_step(number: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        at = (rows - fold - number * fold if is_backward else number * fold) + within
        inside = torch.clamp(at, 0, rows - 1)
        made = step(like, *(x.index_select(1, inside) for x in scanned), *values[count:], *others)
        kept = at + margin if is_backward else at
        collected = [all_rows.index_copy(1, kept, new) for all_rows, new in zip(values, made[:count], strict=False)]
        return number + 1, *collected, *(state.clone() for state in made[count:])

    begin = [like.new_zeros(like.size(0), rows + margin, dim) for dim in dims[0]]
    states = [like.new_zeros(like.size(0), fold, dim) for dim in dims[1]]
    first = torch.zeros(1, dtype=torch.long, device=like.device)
    _, *results = while_loop(is_left, next_step, (first, *begin, *states))
    return [x[:, margin:] if is_backward else x[:, :rows] for x in results[:count]]
