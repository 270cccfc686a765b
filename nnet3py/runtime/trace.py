"""Running a bound computation with a log line for every command. Kaldi: ``--computation.debug``.

A line holds the command's text, the root mean square before and after of each matrix that the command writes, for an
update the same for the component's parameters, and the seconds that the command took.
"""
from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.commands import COMMANDS, Command, CommandType, Role
from nnet3py.compiler.describe import CommandPrinter, describe_computation, submatrix_text
from nnet3py.components.base import Component, Properties
from nnet3py.log import kaldi_place
from nnet3py.runtime.binding import BoundComputation, Stage
from nnet3py.runtime.blas_threads import BlasAlone

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)

_PLACE = kaldi_place("DebugAfterExecute", "nnet-compute.cc", 144)      # scripts that sum up the times look for it
_WRITTEN = frozenset((Role.WRITE, Role.READ_WRITE, Role.PROPAGATED, Role.BACKPROPAGATED))


def log_preamble(bound: BoundComputation) -> None:
    """Log the matrices of a computation: what the lines of its commands refer to."""
    text = describe_computation(bound.computation, bound.host)
    logger.info("%s", text.split("# begin forward commands", 1)[0].rstrip("\n"))


def run_traced(bound: BoundComputation, stage: Stage) -> None:
    """Run a stage's calls, a log line for each."""
    printer = CommandPrinter(bound.computation, bound.host)
    for (function, args), c in zip(stage.calls, stage.commands, strict=True):
        command = bound.computation.commands[c]
        watched = _watched(bound, command)
        before = [_rms(bound.ops, value) for _, value in watched]
        with BlasAlone():
            start = time.perf_counter()
            function(*args)
            elapsed = time.perf_counter() - start
        changes = " ".join(f"{name}: {old:.6g}->{_rms(bound.ops, value):.6g}"
                           for (name, value), old in zip(watched, before, strict=True))
        logger.info("%s\t|\t%s\t|\t time: %.3g secs", printer.line(c).rstrip("\n"), changes, elapsed, extra=_PLACE)


def _watched(bound: BoundComputation, command: Command) -> list[tuple[str, DeviceArray | Component]]:
    """Names and arrays of what a command changes."""
    views: list[tuple[str, DeviceArray | Component]] = []
    for s in _written_submatrices(bound, command):
        whole = bound.whole_view(s)
        views.append((f"m{bound.computation.submatrices[s].matrix}", whole))
        if not bound.computation.is_whole(s):
            views.append((submatrix_text(bound.computation, bound.computation.submatrices[s]), bound.given_view(s)))
    for part in bound.computation.parts_of(command):
        if part.type == CommandType.BACKPROP and bound.update is not None:
            component = bound.update.components[part.args[0]]
            if component.has(Properties.UPDATABLE):
                views.append((bound.update.component_names[part.args[0]], component))
    return views


def _written_submatrices(bound: BoundComputation, command: Command) -> list[int]:
    written = []
    for part in bound.computation.parts_of(command):
        for role, value in zip(COMMANDS[part.type].roles, part.args, strict=False):
            if role in _WRITTEN and value > 0:
                written.append(value)
            elif role == Role.CHANGED_PAIRS:
                pairs = bound.computation.indexes_multi[value]
                written += np.unique(pairs[pairs[:, 0] > 0, 0]).tolist()
    return list(dict.fromkeys(written))


def _rms(ops: Ops, value: DeviceArray | Component) -> float:
    """Root mean square of a matrix, or of all parameters of a component."""
    watched = list(value.parameters().values()) if isinstance(value, Component) else [value]
    arrays = [ops.copy_out(array) for array in watched]
    count = sum(array.size for array in arrays)
    with np.errstate(all="ignore"):      # a matrix that is only allocated may hold anything
        total = sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays)
    return float(np.sqrt(total / count)) if count else 0.0
