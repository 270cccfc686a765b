"""Binding: turns a list of commands into prepared calls, one for each command, on matrices placed in memory.

A bound computation is a list of stages. A stage reads its inputs, runs its calls, and then has its outputs: the forward
pass is one stage, the backward pass the next. Views, index tables and components are looked up once; running a stage
allocates nothing.

A matrix lives from its allocation (or the acceptance of its input) to its deallocation; two matrices that never live at
the same time may share memory. Matrices that a loop passes to its next round share memory with no other. Matrices are
placed in order of allocation, each into the smallest free hole that is large enough (best fit).
"""
from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.computation import (
    BACKPROPS,
    WITHOUT_CALL,
    Command,
    CommandType,
    Computation,
    SubMatrix,
)
from nnet3py.components.base import Component, Memo, Precomputed, Properties
from nnet3py.errors import CompileError, Nnet3Error
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.blas_threads import BlasAlone
from nnet3py.runtime.calls import FUSED_CALLS, BackpropCall, Call, PropagateCall
from nnet3py.runtime.parameter_store import ParameterStore, host_of, on_device
from nnet3py.runtime.stage_runners import RecordedStage, RecordingOps, StageRunner

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)

LEAST_LOGGED = 2**22       # elements of matrices (16 MB) from which on their memory is logged


class Arena:
    """A growing block of float32 memory, shared by the computations bound to it, which never run simultaneously."""

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        self._bound: weakref.WeakSet[BoundComputation] = weakref.WeakSet()
        self.buffer = ops.new_vector(0)

    def reserve(self, size: int, computation: BoundComputation | None = None) -> None:
        """Make room for ``size`` elements. If that needs a new block, bound computations bind their views again."""
        if size > self.buffer.size:
            for other in self._bound:
                other.release()
            self.buffer = self._ops.new_vector(0)       # free the old block first: there may not be room for both
            _log_memory(self._ops, size)
            self.buffer = self._ops.new_vector(size)
        if computation is not None:
            self._bound.add(computation)


_largest_logged = 0


def _log_memory(ops: Ops, size: int) -> None:
    """Log the memory of a minibatch's matrices; on a GPU only if it is more than was logged before."""
    global _largest_logged
    megabytes = 4 * size / 2**20
    if ops.device != "cuda":
        if size >= LEAST_LOGGED:
            logger.info("The matrices of a minibatch take %.0f MB of memory", megabytes)
        return
    free, total = ops.free_memory()
    if size > _largest_logged and total:
        _largest_logged = size
        logger.info("The matrices of a minibatch take %.0f MB of the GPU's memory, of which %.0f MB of %.0f are free",
                    megabytes, free / 2**20, total / 2**20)


@dataclass
class Stage:
    """The calls between two points where inputs and outputs are exchanged with the caller.

    Attributes
    ----------
    inputs : for each input node the view to fill
    calls : the prepared calls
    commands : for each call the number of its command
    outputs : for each output node the view to read
    next_stage : the number of the stage to run next; -1: the following one
    runner : a function that runs all calls faster (recorded, or as CUDA graphs); None: they run one after the other
    """

    inputs: dict[str, DeviceArray] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    commands: list[int] = field(default_factory=list)
    outputs: dict[str, DeviceArray] = field(default_factory=dict)
    next_stage: int = -1
    runner: Callable[[], None] | None = None

    def run(self) -> None:
        """Run all calls."""
        with BlasAlone():
            if self.runner is not None:
                self.runner()
                return
            for function, args in self.calls:
                function(*args)


class BoundComputation:
    """A computation bound to a network, the operations of one device and an arena.

    Parameters
    ----------
    computation : the command list
    nnet : the network that propagates, or its store on the device
    ops : the operations of the device
    arena : the memory for the matrices
    update : the network that receives parameter updates, or None
    stats : the network that receives statistics, or None

    Raises
    ------
    Nnet3Error : a network that the computation needs is not given, or was changed after the computation was compiled
    """

    def __init__(self, computation: Computation, nnet: Nnet | ParameterStore, ops: Ops, arena: Arena,
                 update: Nnet | ParameterStore | None, stats: Nnet | ParameterStore | None) -> None:
        if computation.need_model_derivative and update is None:
            raise Nnet3Error("the computation updates a model, but none was given to update",
                             "give update=nnet or update=nnet.as_gradient()")
        self.computation, self.ops, self.arena = computation, ops, arena
        self.host = host_of(nnet)
        self.nnet = on_device(nnet, ops)
        self.update, self.stats = (None if network is None else on_device(network, ops) for network in (update, stats))
        self.stores = list({id(store): store for store in (self.nnet, self.update, self.stats)
                            if store is not None}.values())
        self.plan: MemoryPlan = plan_memory(computation)
        self.versions = [store.version for store in self.stores]
        self._bind()

    def stages(self) -> list[Stage]:
        """Return the stages; they are bound again if the arena's block was replaced.

        Raises Nnet3Error: a network was edited (nodes or components added, removed or replaced) after binding; or a
        component that only copied its input, such as dropout with proportion 0, no longer does.
        """
        if [store.version for store in self.stores] != self.versions:
            raise Nnet3Error("the network was edited after this computation was bound to it",
                             "compile and bind again after an edit")
        if not self.computation.fits(self.host):
            raise Nnet3Error("a component that only copied its input, such as dropout with proportion 0, was left "
                             "out when this was compiled; now it changes its input",
                             "compile and bind again after such a change, or compile with OptimizeOptions(fuse='none')")
        if self._buffer is not self.arena.buffer:
            self._bind()
        return self._stages

    def take_settings(self) -> None:
        """Copy the settings of the networks' components to the device."""
        for store in self.stores:
            store.take_settings()

    # -- binding ---------------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        self.take_settings()
        self.arena.reserve(self.plan.size, self)
        self._buffer = self.arena.buffer
        self._views: dict[SubMatrix, DeviceArray] = {}
        self._memos: dict[int, Memo] = {}
        self._num_streams: dict[int, int] = {}   # streams of random numbers by component: each call has its own
        self._stages = [Stage()]
        self._label = 0, 0                       # the label's stage, and its place among the stage's calls
        self._loop_swaps = self.computation.loop_swaps()
        for c, command in enumerate(self.computation.commands):
            self._bind_command(c, command)
        if self.ops.device == "cuda":
            for stage in self._stages:
                stage.runner = StageRunner(self.ops, stage.calls, self.stores)
        elif isinstance(self.ops, RecordingOps):
            for stage in self._stages:
                stage.runner = RecordedStage(self.ops, stage.calls)

    def _bind_command(self, c: int, command: Command) -> None:
        stage = self._stages[-1]
        if command.type == CommandType.NO_OPERATION_LABEL:
            self._label = len(self._stages) - 1, len(stage.calls)
        elif command.type == CommandType.GOTO_LABEL:
            self._bind_jump(stage)
        elif command.type == CommandType.ACCEPT_INPUT:
            if stage.calls or stage.outputs:
                stage = self._new_stage()
            stage.inputs[self.host.node_names[command.args[1]]] = self.given_view(command.args[0])
        elif command.type == CommandType.PROVIDE_OUTPUT:
            stage.outputs[self.host.node_names[command.args[1]]] = self.given_view(command.args[0])
        else:
            call = self._call(command)
            if c in self._loop_swaps:      # copied, so that each matrix keeps its address in all rounds
                call = self.ops.copy_mat, (self.view(command.args[0]), self.view(command.args[1]), 1.0)
            if call is None:
                return
            if stage.outputs:
                stage = self._new_stage()
            stage.calls.append(call)
            stage.commands.append(c)

    def _bind_jump(self, stage: Stage) -> None:
        """Append to the last stage the calls after the label, and give it the outputs of the label's stage."""
        number, place = self._label
        target = self._stages[number]
        if target is stage:
            raise CompileError("a loop takes no input", "this is a fault of the compiler: please report it")
        stage.calls.extend(target.calls[place:])
        stage.commands.extend(target.commands[place:])
        stage.outputs = target.outputs
        stage.next_stage = number + 1

    def release(self) -> None:
        """Free the references to the arena's block."""
        self._buffer = self.ops.new_vector(0)
        self._views, self._memos, self._stages = {}, {}, []

    def _new_stage(self) -> Stage:
        self._stages.append(Stage())
        return self._stages[-1]

    def _call(self, command: Command) -> Call | None:
        """Return the call that runs a command, None if it needs none."""
        if command.type == CommandType.PROPAGATE:
            return self._bind_propagate(command)
        if command.type in BACKPROPS:
            return self._bind_backprop(command)
        if command.type == CommandType.FUSED:
            return self._bind_fused(command)
        return None if command.type in WITHOUT_CALL else _ROW_COMMANDS[command.type](self, command)

    def _bind_fused(self, command: Command) -> Call:
        name, commands = self.computation.parts[command.args[0]]
        parts = [call for part in commands if (call := self._call(part)) is not None]
        return FUSED_CALLS[name](self.ops, parts)

    def view(self, s: int) -> DeviceArray | None:
        """Return the matrix view of sub-matrix ``s``, None for 0; equal rectangles have the same object."""
        return self.given_view(s) if s > 0 else None

    def given_view(self, s: int) -> DeviceArray:
        """Return the matrix view of sub-matrix ``s``, which must not be 0."""
        sub = self.computation.submatrices[s]
        if sub not in self._views:
            self._views[sub] = self.whole_view(s)[sub.row_offset:sub.row_offset + sub.num_rows,
                                                  sub.col_offset:sub.col_offset + sub.num_cols]
        return self._views[sub]

    def whole_view(self, s: int) -> DeviceArray:
        """Return the whole matrix of sub-matrix ``s``, or a view of the matrix whose memory it shares."""
        matrix = self.computation.submatrices[s].matrix
        place = self.computation.places.get(matrix)
        return self.whole_matrix(matrix) if place is None else self.given_view(place)

    def whole_matrix(self, matrix: int) -> DeviceArray:
        """Return the matrix with number ``matrix``."""
        info, start = self.computation.matrices[matrix], int(self.plan.offsets[matrix])
        return self._buffer[start:start + info.num_rows * info.num_cols].reshape(info.num_rows, info.num_cols)

    def _row_offsets(self, pairs: np.ndarray) -> DeviceArray:
        """Return the offset in the arena, in elements, of each (sub-matrix, row) pair's row, int64; -1 for (-1, -1)."""
        strides = [info.num_cols for info in self.computation.matrices]
        table = np.array([(self.plan.offsets[sub.matrix] + sub.row_offset * strides[sub.matrix] + sub.col_offset,
                           strides[sub.matrix]) for sub in self.computation.submatrices], dtype=np.int64)
        s, row = pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)
        return np.asarray(self.ops.upload(np.where(s < 0, -1, table[s, 0] + row * table[s, 1])))

    # -- components ------------------------------------------------------------------------------------------------

    def _stream(self, component_index: int, count: int) -> int:
        """Reserve ``count`` streams of random numbers for a component; returns the number of the first."""
        number = self._num_streams.get(component_index, 0)
        self._num_streams[component_index] = number + count
        return number

    def _bind_propagate(self, command: Command) -> Call:
        c, precomputed, x, y, memo_index, store_stats = command.args[:6]
        component = self.nnet.components[c]
        memo = None
        if component.has(Properties.USES_MEMO):
            memo = component.new_memo(self.ops, self.computation.submatrices[y].num_rows)
            if memo_index > 0:
                self._memos[memo_index] = memo
        stats = None
        if store_stats == 1 and self.stats is not None and component.has(Properties.STORES_STATS):
            stats = self.stats.components[c]
        call = PropagateCall(self.ops, component, stats, c, self._stream(c, 1 if stats is None else 2))
        return call, (self._indexes_of(precomputed), self.view(x), self.view(y), memo)

    def _bind_backprop(self, command: Command) -> Call:
        c, precomputed, x, y, dy, dx, memo_index = command.args[:7]
        component, memo = self.nnet.components[c], self._memos.get(memo_index)
        if memo is None and component.has(Properties.USES_MEMO):
            raise Nnet3Error(f"component '{self.host.component_names[c]}' was in test mode when this was compiled, and "
                             "is no longer", "compile and bind again after such a change")
        call = BackpropCall(self.ops, component, c, self._stream(c, 1))
        return call, (self._indexes_of(precomputed), self.view(x), self.view(y), self.view(dy), memo,
                      self._updated_component(command, c), self.view(dx))

    def _indexes_of(self, precomputed: int) -> Precomputed:
        """Return precomputed indexes, with their arrays copied to the device."""
        indexes = self.computation.precomputed_indexes[max(precomputed, 0)]
        for value in vars(indexes).values() if hasattr(indexes, "__dict__") else ():
            if isinstance(value, np.ndarray):
                self.ops.keep(value)
        return indexes

    def _updated_component(self, command: Command, c: int) -> Component | None:
        """Return the component that a backward command changes: of ``update``, or of ``stats`` if not trainable."""
        if command.type == CommandType.BACKPROP_NO_MODEL_UPDATE:
            return None
        if self.nnet.components[c].has(Properties.UPDATABLE):
            wanted = self.computation.need_model_derivative and self.update is not None
            return self.update.components[c] if wanted and self.update is not None else None
        return self.stats.components[c] if self.stats is not None else None

    # -- row commands ----------------------------------------------------------------------------------------------

    def _indexes(self, command: Command) -> DeviceArray:
        return self.ops.upload(np.ascontiguousarray(self.computation.indexes[command.args[2]], dtype=np.int32))


def _two_matrices(operation: str) -> Callable[[BoundComputation, Command], Call]:
    return lambda bound, command: (getattr(bound.ops, operation), (
        bound.view(command.args[0]), bound.view(command.args[1]), command.alpha))


def _indexed_rows(operation: str) -> Callable[[BoundComputation, Command], Call]:
    return lambda bound, command: (getattr(bound.ops, operation), (
        bound.view(command.args[0]), bound.view(command.args[1]), bound._indexes(command), command.alpha))


def _from_many(operation: str) -> Callable[[BoundComputation, Command], Call]:
    return lambda bound, command: (getattr(bound.ops, operation), (
        bound.view(command.args[0]), bound._buffer,
        bound._row_offsets(bound.computation.indexes_multi[command.args[1]]), command.alpha))


def _add_to_many(bound: BoundComputation, command: Command) -> Call:
    offsets = bound._row_offsets(bound.computation.indexes_multi[command.args[1]])
    return bound.ops.add_to_rows_multi, (bound._buffer, offsets, bound.view(command.args[0]), command.alpha)


def _copy_to_many(bound: BoundComputation, command: Command) -> Call:
    offsets = bound._row_offsets(bound.computation.indexes_multi[command.args[1]])
    return bound.ops.copy_to_rows_multi, (bound._buffer, offsets, bound.view(command.args[0]))


def _row_ranges(bound: BoundComputation, command: Command) -> Call:
    ranges = bound.ops.upload(np.ascontiguousarray(bound.computation.indexes_ranges[command.args[2]], dtype=np.int32))
    return bound.ops.add_row_ranges, (bound.view(command.args[0]), bound.view(command.args[1]), ranges, command.alpha)


_ROW_COMMANDS: dict[CommandType, Callable[[BoundComputation, Command], Call]] = {
    CommandType.SET_CONST: lambda bound, command: (bound.ops.set_const, (bound.view(command.args[0]), command.alpha)),
    CommandType.MATRIX_COPY: _two_matrices("copy_mat"),
    CommandType.MATRIX_ADD: _two_matrices("add_mat"),
    CommandType.COPY_ROWS: _indexed_rows("copy_rows"),
    CommandType.ADD_ROWS: _indexed_rows("add_rows"),
    CommandType.COPY_ROWS_MULTI: _from_many("copy_rows_multi"),
    CommandType.ADD_ROWS_MULTI: _from_many("add_rows_multi"),
    CommandType.COPY_TO_ROWS_MULTI: _copy_to_many,
    CommandType.ADD_TO_ROWS_MULTI: _add_to_many,
    CommandType.ADD_ROW_RANGES: _row_ranges,
}


# -- the places of matrices in memory ----------------------------------------------------------------------------------


ALIGNMENT = 16   # elements: 64 bytes, a cache line, so that no two matrices share one


@dataclass(frozen=True)
class MemoryPlan:
    """The offsets of matrices in a block of memory.

    Attributes
    ----------
    offsets : int64 (matrices,), in elements; -1 for the empty matrix 0
    size : elements of the block
    """

    offsets: np.ndarray
    size: int


class _Holes:
    """The free parts (offset, size) of a block that grows at its end, sorted; adjacent ones are joined."""

    def __init__(self) -> None:
        self.holes: list[tuple[int, int]] = []
        self.end = 0

    def take(self, size: int) -> int:
        """Reserve ``size`` elements in the smallest hole that has as many, else at the end; returns their offset."""
        fitting = [hole for hole in self.holes if hole[1] >= size]
        if not fitting:
            return self._take_at_end(size)
        offset, room = min(fitting, key=lambda hole: (hole[1], hole[0]))
        self.holes.remove((offset, room))
        if room > size:
            self.holes.append((offset + size, room - size))
            self.holes.sort()
        return offset

    def _take_at_end(self, size: int) -> int:
        offset = self.end
        if self.holes and sum(self.holes[-1]) == self.end:
            offset = self.holes.pop()[0]
        self.end = offset + size
        return offset

    def give_back(self, offset: int, size: int) -> None:
        """Free ``size`` elements at ``offset``, and join the hole with adjacent ones."""
        merged = []
        for start, room in self.holes:
            if start + room == offset:
                offset, size = start, size + room
            elif offset + size == start:
                size += room
            else:
                merged.append((start, room))
        merged.append((offset, size))
        self.holes = sorted(merged)


def plan_memory(computation: Computation) -> MemoryPlan:
    """Place the matrices of a computation in one block, by lifetime.

    The computation must have passed the checker: every matrix is allocated once, and freed while it is alive.
    """
    matrices, submatrices = computation.matrices, computation.submatrices
    sizes = [-(-max(m.num_rows * m.num_cols, 1) // ALIGNMENT) * ALIGNMENT for m in matrices]
    offsets = np.full(len(matrices), -1, dtype=np.int64)
    alive: set[int] = set()
    holes = _Holes()
    loop_swaps = computation.loop_swaps()
    kept = {submatrices[computation.commands[c].args[0]].matrix for c in loop_swaps}

    def take(matrix: int) -> None:
        if matrix not in alive:
            offsets[matrix] = holes.take(sizes[matrix])
            alive.add(matrix)

    def give_back(matrix: int) -> None:
        alive.remove(matrix)
        holes.give_back(int(offsets[matrix]), sizes[matrix])

    for c, command in enumerate(computation.commands):
        if command.type in (CommandType.ALLOC_MATRIX, CommandType.ACCEPT_INPUT):
            take(submatrices[command.args[0]].matrix)
        elif command.type == CommandType.DEALLOC_MATRIX:
            if submatrices[command.args[0]].matrix not in kept:
                give_back(submatrices[command.args[0]].matrix)
        elif command.type == CommandType.SWAP_MATRIX and c not in loop_swaps:
            # In a loop's swaps, the giver's contents are copied instead, and the taker keeps its place.
            taker, giver = (submatrices[s].matrix for s in command.args[:2])
            alive.remove(giver)
            offsets[taker] = offsets[giver]
            alive.add(taker)
    return MemoryPlan(offsets, holes.end)
