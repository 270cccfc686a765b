"""The end of a computation over equal chunks of time becomes a jump back: it can then go on for ever.

Once the start is over, every chunk is computed like the one before, some frames later. Where the matrices that are
still needed are the same at the same point of two chunks, but for the time of their rows, the second chunk and all
that follow are left out: each matrix of the first takes over what is in its counterpart, and the first chunk is
computed again.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.computation import CommandType, Computation, command
from nnet3py.compiler.optimize.renumber import renumber
from nnet3py.index import NO_TIME
from nnet3py.network.nnet import Nnet


def form_loop(computation: Computation, nnet: Nnet) -> Computation:
    """End with a jump back to an earlier chunk, or return ``computation`` itself if no two chunks are alike.

    Takes a computation with one segment for each chunk, in each the inputs first and the outputs last, and with every
    matrix allocated (and zeroed, if at all) just before its first use. Kaldi: OptimizeLoopedComputation.
    """
    analysis = Analysis(computation, nnet)
    splices = analysis.table.numbers[CommandType.NO_OPERATION_PERMANENT].tolist()
    shift = _time_shift(computation, analysis)
    if len(splices) < 2 or shift == 0:
        return computation
    describe = _Description(computation)
    states = [sorted(describe.matrix(m) for m in _active(analysis, c)) for c in splices]
    for i, first in enumerate(states):
        for j in range(i + 1, len(states)):
            if _repeats(first, states[j], (j - i) * shift):
                pairs = [(a.matrix, b.matrix) for a, b in zip(first, states[j], strict=True) if a.matrix != b.matrix]
                return _looped(computation, splices[i], splices[j], pairs)
    return computation


class _Matrix(NamedTuple):
    """What is in a matrix (a number for its size, nodes and indexes, counting time from the first row), and when."""

    contents: int
    first_t: int
    matrix: int


class _Description:
    """Numbers for what is in matrices, equal if only the time differs."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self._numbers: dict[tuple[object, ...], int] = {}

    def matrix(self, m: int) -> _Matrix:
        nodes, indexes, is_deriv = self.computation.debug_info[m]
        real = indexes[:, 1] != NO_TIME
        first_t = int(indexes[real, 1][0]) if real.any() else 0
        relative = indexes.copy()
        relative[real, 1] -= first_t
        key = self.computation.matrices[m], nodes.tobytes(), relative.tobytes(), is_deriv
        return _Matrix(self._numbers.setdefault(key, len(self._numbers)), first_t, m)


def _time_shift(computation: Computation, analysis: Analysis) -> int:
    """How much later the third chunk's output is than the second's; 0 if there are fewer chunks."""
    markers = analysis.table.numbers[CommandType.NO_OPERATION_MARKER]
    provided = analysis.table.numbers[CommandType.PROVIDE_OUTPUT]
    matrices = analysis.matrix_of[analysis.table.args[CommandType.PROVIDE_OUTPUT][:, 0]]
    segment = np.searchsorted(markers, provided)
    at = [np.flatnonzero(segment == number) for number in (1, 2)]
    if not all(len(found) for found in at):
        return 0
    second, third = (int(computation.debug_info[matrices[found[0]]].indexes[0, 1]) for found in at)
    return third - second


def _active(analysis: Analysis, c: int) -> list[int]:
    """The matrices that hold something at command ``c`` that is used later."""
    accesses = analysis.matrix_accesses
    first = accesses.first(~analysis.is_zeroing[accesses.commands], analysis.num_commands)
    last = accesses.last(np.ones(len(accesses.commands), bool))
    return np.flatnonzero((first < c) & (last > c)).tolist()


def _repeats(first: list[_Matrix], second: list[_Matrix], shift: int) -> bool:
    """Whether the same is there ``shift`` frames later; what stays at its time has to stay where it is."""
    return len(first) == len(second) and all(
        a.contents == b.contents and (b.first_t - a.first_t == shift or (a.first_t, a.matrix) == (b.first_t, b.matrix))
        for a, b in zip(first, second, strict=True))


def _looped(computation: Computation, begin: int, end: int, pairs: list[tuple[int, int]]) -> Computation:
    out = computation.copy()
    whole = out.whole_submatrices()
    swaps = [command(CommandType.SWAP_MATRIX, whole[a], whole[b]) for a, b in _in_order(pairs)]
    out.commands = [*computation.commands[:begin], command(CommandType.NO_OPERATION_LABEL),
                    *computation.commands[begin:end], *swaps, command(CommandType.GOTO_LABEL, begin)]
    return renumber(out)


def _in_order(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs (taker, giver) such that a matrix gives before it takes. Givers are later, so there is no circle."""
    ordered = []
    waiting = dict(pairs)
    while waiting:
        givers = set(waiting.values())
        ready = [taker for taker in waiting if taker not in givers]
        ordered += [(taker, waiting.pop(taker)) for taker in ready]
    return ordered
