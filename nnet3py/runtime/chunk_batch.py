"""One chunk of each of several streams, computed together.

A looped computation for N sequences is bound once. Before a chunk is computed, the state of each of the N streams is
copied from its place in :class:`~nnet3py.runtime.stream_states.StreamStates` into the rows of the matrices where the
chunk expects it, and afterwards from where the chunk left it back to the streams' places. So any N streams that are at
the same chunk of the loop can be computed together, different ones each time, and one binding serves any number.

The last stage of a looped computation, in which matrices are passed on to the next round, is only run where it is
more than the chunk to which it jumps: copying to the streams' places and back does this.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnet3py.compiler.carried import CarriedRows, CarriedState
from nnet3py.compiler.computation import Computation
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.binding import Arena, BoundComputation, Stage
from nnet3py.runtime.stream_states import StreamStates
from nnet3py.runtime.trace import log_preamble, run_traced

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops


class ChunkBatch:
    """Computes one chunk of each of ``size`` streams.

    Parameters
    ----------
    computation : a looped computation for ``size`` sequences, in its final form
    carried : what it carries, :func:`nnet3py.compiler.carried.carried_state`
    nnet, ops, arena : as for :class:`~nnet3py.runtime.binding.BoundComputation`
    states : where streams keep what they carry
    debug : log every command as it runs
    """

    def __init__(self, computation: Computation, carried: CarriedState, nnet: Nnet, ops: Ops, arena: Arena,
                 states: StreamStates, debug: bool = False) -> None:
        self.computation, self.size = computation, len(carried.chunks[0].after.rows(computation))
        self._ops, self._states, self._debug = ops, states, debug
        self._bound = BoundComputation(computation, nnet, ops, arena, None, None)
        self._moves = [(_Moves(chunk.before, computation, self.size), _Moves(chunk.after, computation, self.size))
                       for chunk in carried.chunks]
        self._windows: dict[_Move, Any] = {}
        self._buffer: Any = None                                 # where the windows are
        self._host_inputs: dict[tuple[int, str], np.ndarray] = {}
        self._slots = np.full(self.size + 1, -1, np.int64)
        if debug:
            log_preamble(self._bound)

    def run(self, number: int, slots: Sequence[int], inputs: Mapping[str, Sequence[np.ndarray]],
            targets: Sequence[int] | None = None) -> list[np.ndarray]:
        """Compute a chunk of each stream.

        Parameters
        ----------
        number : which of the computation's chunks
        slots : the streams' rows among the states, at most ``size``
        inputs : for each input a matrix (rows, dim) of each stream, or a vector (dim,) for all its rows
        targets : the rows where what the streams then carry is kept; None: those of ``slots``

        Returns
        -------
        for each stream float32 (rows, dim), the rows of ``output``
        """
        stage = self._bound.stages()[number]
        self._states.reserve()
        for name, view in stage.inputs.items():
            self._ops.copy_in(view, self._host_input(number, name, view, inputs[name]))
        before, after = self._moves[number]
        sources = before.offsets_for(self._begins(slots))
        kept = after.offsets_for(self._begins(slots if targets is None else targets))
        with self._ops.staged(sources, kept) as (read, written):
            for move in before.moves:
                self._ops.copy_rows_multi(self._window(move), self._states.buffer, read[move.begin:move.end], 1.0)
            self._run(stage)
            for move in after.moves:
                self._ops.copy_to_rows_multi(self._states.buffer, written[move.begin:move.end], self._window(move))
        output = self._ops.copy_out(stage.outputs["output"])
        outputs: list[np.ndarray] = list(output.reshape(self.size, -1, output.shape[1]))
        return outputs[:len(slots)]

    def _begins(self, slots: Sequence[int]) -> np.ndarray:
        """Where rows of the states begin, those that fill up the batch included, and -1 at the end; overwritten."""
        self._slots[:-1] = 0
        self._slots[:len(slots)] = slots
        self._slots[:-1] *= self._states.width
        return self._slots

    def _run(self, stage: Stage) -> None:
        if self._debug:
            run_traced(self._bound, stage)
        else:
            stage.run()

    def _window(self, move: _Move) -> Any:
        """The rows that a copy writes or reads."""
        if self._buffer is not self._bound.arena.buffer:
            self._windows, self._buffer = {}, self._bound.arena.buffer
        if move not in self._windows:
            matrix = self._bound.whole_matrix(move.matrix)
            self._windows[move] = matrix[move.first_row:move.first_row + move.end - move.begin]
        return self._windows[move]

    def _host_input(self, number: int, name: str, view: Any, given: Sequence[np.ndarray]) -> np.ndarray:
        """The rows of all streams, one stream after the other; always the same memory."""
        key = number, name
        if key not in self._host_inputs:
            self._host_inputs[key] = np.zeros((self.size, view.shape[0] // self.size, view.shape[1]), np.float32)
        host = self._host_inputs[key]
        for place, matrix in zip(host, given, strict=False):
            place[...] = matrix
        return host.reshape(-1, host.shape[2])


class _Move(NamedTuple):
    """A copy of consecutive rows of one matrix.

    Attributes
    ----------
    matrix, first_row : where
    begin, end : which of the offsets, one for each row
    """

    matrix: int
    first_row: int
    begin: int
    end: int


class _Moves:
    """The copies between a computation's matrices and what streams carry, at one point of the loop."""

    def __init__(self, carried: CarriedRows, computation: Computation, size: int) -> None:
        rows = carried.rows(computation)
        widths = np.array([computation.matrices[m].num_cols for m in carried.matrices.tolist()], np.int64)
        places = np.cumsum(widths) - widths                     # of the rows of one stream in its state
        self.moves: list[_Move] = []
        streams, offsets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for m in sorted(set(carried.matrices.tolist())):
            here = carried.matrices == m
            first, last = int(rows[:, here].min()), int(rows[:, here].max())
            stream, offset = np.full(last + 1 - first, size), np.zeros(last + 1 - first, np.int64)
            stream[rows[:, here] - first] = np.arange(size)[:, None]
            offset[rows[:, here] - first] = places[here]
            begin = self.moves[-1].end if self.moves else 0
            self.moves.append(_Move(m, first, begin, begin + len(stream)))
            streams.append(stream)
            offsets.append(offset)
        self._streams, self._places = np.concatenate(streams), np.concatenate(offsets)
        self._offsets = np.zeros_like(self._places)

    def offsets_for(self, slots: np.ndarray) -> np.ndarray:
        """int64 (rows,): where each row's elements are among the states, -1 for a row that no stream carries.

        ``slots`` are where the streams' rows begin, and -1. The array is overwritten by the next call.
        """
        np.take(slots, self._streams, out=self._offsets)
        self._offsets += self._places
        return self._offsets
