"""Batches of streams: a chunk of each of several streams, computed together.

A looped computation for N sequences is bound once. Before a chunk is computed, the state of each of the N streams is
copied from its row in :class:`StreamStates` into the rows of the matrices where the chunk expects it, and afterwards
from where the chunk left it back to the streams' rows. So any N streams that are at the same chunk of the loop can be
computed together. The last stage of a looped computation, which moves matrices to where the next round expects them, is
not needed if it computes the same as the chunk that it jumps to.
"""
from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from nnet3py.compiler.computation import Computation
from nnet3py.compiler.looped import CarriedRows, CarriedState
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.binding import ALIGNMENT, Arena, BoundComputation, Stage
from nnet3py.runtime.computer import log_preamble, run_traced

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops

class ChunkBatch:
    """A computer of one chunk of each of up to ``size`` streams.

    Parameters
    ----------
    computation : a looped computation for ``size`` sequences, with fused commands
    carried : the rows that it carries, from :func:`nnet3py.compiler.looped.carried_state`
    nnet, ops, arena : as for :class:`~nnet3py.runtime.binding.BoundComputation`
    states : the states of the streams
    debug : whether to log every command as it runs
    """

    def __init__(self, computation: Computation, carried: CarriedState, nnet: Nnet, ops: Ops, arena: Arena,
                 states: StreamStates, debug: bool = False) -> None:
        self.computation, self.size = computation, len(carried.chunks[0].after.rows(computation))
        self._ops, self._states, self._debug = ops, states, debug
        self._bound = BoundComputation(computation, nnet, ops, arena, None, None)
        self._copies = [tuple(_StateCopies(rows, computation, self.size) for rows in chunk) for chunk in carried.chunks]
        self._windows: dict[_RowCopy, Any] = {}
        self._buffer: Any = None                                 # the arena's block that the windows are of
        self._host_inputs: dict[tuple[int, str], np.ndarray] = {}
        self._slots = np.full(self.size + 1, -1, np.int64)
        if debug:
            log_preamble(self._bound)

    def run(self, number: int, slots: Sequence[int], inputs: Mapping[str, Sequence[np.ndarray]],
            targets: Sequence[int] | None = None) -> list[np.ndarray]:
        """Compute a chunk of each stream.

        Parameters
        ----------
        number : the number of the chunk in the computation
        slots : the streams' rows in ``states``, at most ``size``
        inputs : for each input a matrix (rows, dim) of each stream, or a vector (dim,) for all its rows
        targets : the rows to store the streams' states in after the chunk; None: ``slots``

        Returns
        -------
        list : for each stream float32 (rows, dim), the rows of ``output``
        """
        stage = self._bound.stages()[number]
        self._states.reserve()
        for name, view in stage.inputs.items():
            self._ops.copy_in(view, self._host_input(number, name, view, inputs[name]))
        before, after = self._copies[number]
        sources = before.offsets_for(self._state_offsets(slots))
        kept = after.offsets_for(self._state_offsets(slots if targets is None else targets))
        with self._ops.staged(sources, kept) as (read, written):
            for copy in before.copies:
                self._ops.copy_rows_multi(self._window(copy), self._states.buffer, read[copy.begin:copy.end], 1.0)
            self._run(stage)
            for copy in after.copies:
                self._ops.copy_to_rows_multi(self._states.buffer, written[copy.begin:copy.end], self._window(copy))
        output = self._ops.copy_out(stage.outputs["output"])
        outputs: list[np.ndarray] = list(output.reshape(self.size, -1, output.shape[1]))
        return outputs[:len(slots)]

    def _state_offsets(self, slots: Sequence[int]) -> np.ndarray:
        """Return the element offsets of the states of ``slots``, int64 (size + 1,), padded with row 0; the last is -1.

        The array is overwritten by the next call.
        """
        self._slots[:-1] = 0
        self._slots[:len(slots)] = slots
        self._slots[:-1] *= self._states.width
        return self._slots

    def _run(self, stage: Stage) -> None:
        if self._debug:
            run_traced(self._bound, stage)
        else:
            stage.run()

    def _window(self, copy: _RowCopy) -> Any:
        """Return the rows of a matrix that a copy writes or reads."""
        if self._buffer is not self._bound.arena.buffer:
            self._windows, self._buffer = {}, self._bound.arena.buffer
        if copy not in self._windows:
            matrix = self._bound.whole_matrix(copy.matrix)
            self._windows[copy] = matrix[copy.first_row:copy.first_row + copy.end - copy.begin]
        return self._windows[copy]

    def _host_input(self, number: int, name: str, view: Any, given: Sequence[np.ndarray]) -> np.ndarray:
        """Return the rows of an input of all streams, one stream after the other, in memory that is reused."""
        key = number, name
        if key not in self._host_inputs:
            self._host_inputs[key] = np.zeros((self.size, view.shape[0] // self.size, view.shape[1]), np.float32)
        host = self._host_inputs[key]
        for place, matrix in zip(host, given, strict=False):
            place[...] = matrix
        return host.reshape(-1, host.shape[2])


class _RowCopy(NamedTuple):
    """A copy of consecutive rows of one matrix.

    Attributes
    ----------
    matrix, first_row : the matrix and the first of the rows
    begin, end : the range of the rows' offsets in the result of ``offsets_for``
    """

    matrix: int
    first_row: int
    begin: int
    end: int


class _StateCopies:
    """The copies between the matrices of a computation and the states of streams, before or after a chunk."""

    def __init__(self, carried: CarriedRows, computation: Computation, size: int) -> None:
        rows = carried.rows(computation)
        widths = np.array([computation.matrices[m].num_cols for m in carried.matrices.tolist()], np.int64)
        places = np.cumsum(widths) - widths                     # of the rows of one stream in its state
        self.copies: list[_RowCopy] = []
        streams, offsets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for m in sorted(set(carried.matrices.tolist())):
            here = carried.matrices == m
            first, last = int(rows[:, here].min()), int(rows[:, here].max())
            stream, offset = np.full(last + 1 - first, size), np.zeros(last + 1 - first, np.int64)
            stream[rows[:, here] - first] = np.arange(size)[:, None]
            offset[rows[:, here] - first] = places[here]
            begin = self.copies[-1].end if self.copies else 0
            self.copies.append(_RowCopy(m, first, begin, begin + len(stream)))
            streams.append(stream)
            offsets.append(offset)
        self._streams, self._places = np.concatenate(streams), np.concatenate(offsets)
        self._offsets = np.zeros_like(self._places)

    def offsets_for(self, slots: np.ndarray) -> np.ndarray:
        """Return the element offset of each row in the memory of states, int64 (rows,); -1 for a row of no stream.

        ``slots`` is the result of ``_state_offsets``. The array is overwritten by the next call.
        """
        np.take(slots, self._streams, out=self._offsets)
        self._offsets += self._places
        return self._offsets


# -- states of streams -------------------------------------------------------------------------------------------------


_FIRST_ROOM = 4      # rows of the first block of memory


class StreamState:
    """The state of one stream: its row in a :class:`StreamStates`, and how many chunks of it have been computed.

    Attributes
    ----------
    slot : the number of the row
    num_chunks : the number of chunks that have been computed
    """

    def __init__(self, states: StreamStates) -> None:
        self.slot = states.take()
        self.num_chunks = 0
        weakref.finalize(self, states.give_back, self.slot).atexit = False

    def restart(self) -> None:
        """Begin another stream in this row."""
        self.num_chunks = 0


class StreamStates:
    """The states of all streams of one network: one row of a block of device memory for each stream.

    Row 0 belongs to no stream: it pads batches. Memory grows by doubling; rows of finished streams are reused.

    Parameters
    ----------
    ops : the operations of the device with the memory
    width : number of elements of a state
    """

    def __init__(self, ops: Ops, width: int) -> None:
        self._ops = ops
        self.width = -(-max(width, 1) // ALIGNMENT) * ALIGNMENT
        self._num_rows = 1
        self._free: list[int] = []
        self._taking = threading.Lock()
        self.buffer: Any = None
        self.reserve()

    def take(self) -> int:
        """Reserve a row for a new stream; returns its number. May be called from any thread."""
        try:
            return self._free.pop()
        except IndexError:
            with self._taking:
                self._num_rows += 1
                return self._num_rows - 1

    def give_back(self, slot: int) -> None:
        """Free the row of a finished stream. May be called from any thread."""
        self._free.append(slot)

    def reserve(self) -> None:
        """Allocate memory for all reserved rows."""
        room = 0 if self.buffer is None else self.buffer.size // self.width
        if self._num_rows <= room:
            return
        while room < self._num_rows:
            room = 2 * room or _FIRST_ROOM
        old, self.buffer = self.buffer, self._ops.new_vector(room * self.width)
        matrix = self.buffer.reshape(room, self.width)
        self._ops.set_const(matrix, 0.0)
        if old is not None:
            rows = old.size // self.width
            self._ops.copy_mat(matrix[:rows], old.reshape(rows, self.width), 1.0)


# -- requests of several threads ---------------------------------------------------------------------------------------


Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


class _ThreadTasks(Generic[Task, Outcome]):
    """The tasks of one thread, and their results."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.outcomes: list[Outcome] | None = None
        self.error: BaseException | None = None


class WaitingLine(Generic[Task, Outcome]):
    """A queue of threads with tasks: one thread at a time does the work of all that wait.

    The next waiting thread does the tasks of all waiting threads, so that a single thread never waits, and with many
    threads many tasks are done together.

    Parameters
    ----------
    work : a function of tasks that returns an outcome for each
    """

    def __init__(self, work: Callable[[Sequence[Task]], list[Outcome]]) -> None:
        self._work = work
        self._turn = threading.Lock()
        self._waiting: list[_ThreadTasks[Task, Outcome]] = []

    def wait_for(self, tasks: Sequence[Task]) -> list[Outcome]:
        """Return the outcomes of these tasks. An exception from ``work`` is raised in each thread with a task in it."""
        place: _ThreadTasks[Task, Outcome] = _ThreadTasks(tasks)
        self._waiting.append(place)
        with self._turn:
            if place.outcomes is None and place.error is None:
                self._serve()
        if place.error is not None:
            raise place.error
        assert place.outcomes is not None
        return place.outcomes

    def _serve(self) -> None:
        places = self._waiting[:]
        del self._waiting[:len(places)]
        try:
            outcomes = iter(self._work([task for place in places for task in place.tasks]))
            for place in places:
                place.outcomes = [next(outcomes) for _ in place.tasks]
        except BaseException as error:
            for place in places:
                place.error = error
            raise
