"""Looped compilation: a computation over the chunks of an endless stream, and the state that it carries between them.

The requests of the first few chunks are compiled as segments of one computation (build_graph.py); when the last ones
are alike, the optimizer ends it with a jump back (optimize/form_loop.py). Kaldi: nnet-compile-looped.h.

The state is the rows of matrices that a later chunk reads, found by going through the commands backwards. If some
columns of a row are read, the whole row belongs to the state.
"""
from __future__ import annotations

import copy
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from nnet3py.compiler.check import check_computation, check_loaded_loop
from nnet3py.compiler.computation import COMMANDS, WITHOUT_CALL, Command, CommandType, Computation, Role, gc_paused
from nnet3py.compiler.disk_cache import disk_cache, flags_of, looped_key, structure_of
from nnet3py.compiler.generate import generate_segments
from nnet3py.compiler.optimize import OptimizeOptions, optimize
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.base import Properties
from nnet3py.errors import CompileError, Nnet3Error
from nnet3py.network.descriptor import Descriptor, Part, ReplaceIndex, Round
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import DescriptorNode

logger = logging.getLogger(__name__)

NUM_REQUESTS = (5, 10, 20, 40, 80)      # numbers of chunks that are tried, until two chunks are alike


def looped_chunk_size(nnet: Nnet, frames_per_chunk: int, frame_subsampling_factor: int = 1) -> int:
    """Return the least number of frames, not less than ``frames_per_chunk``, after which chunks can repeat.

    Kaldi: GetChunkSize.
    """
    if frames_per_chunk < 1 or frame_subsampling_factor < 1:
        raise Nnet3Error(f"chunks of {frames_per_chunk} frames with a frame subsampling factor of "
                         f"{frame_subsampling_factor}: both numbers must be 1 or more")
    unit = math.lcm(nnet.modulus(), frame_subsampling_factor)
    return -(-frames_per_chunk // unit) * unit


def with_ivector_period(nnet: Nnet, period: int) -> Nnet:
    """Return a copy of a network that reads rows at the last multiple of ``period`` in place of rows at t = 0.

    This lets the i-vector change with each chunk. Parameters and components are shared. Kaldi: ModifyNnetIvectorPeriod.
    Raises CompileError: a ``ReplaceIndex`` to another time.
    """

    def changed(part: Any) -> Any:
        if isinstance(part, ReplaceIndex) and part.variable == "t":
            if part.value != 0:
                raise CompileError(f"'{part.text(nnet.node_names)}' always reads the same frame, which a looped "
                                   "computation cannot keep", "only ReplaceIndex(…, t, 0) can be looped")
            return Round(changed(part.child), period)
        fields = {name: tuple(map(changed, value)) if isinstance(value, tuple) else changed(value)
                  for name, value in vars(part).items() if isinstance(value, Part | tuple)}
        return replace(part, **fields) if fields else part

    out = copy.copy(nnet)
    out.nodes, out.components = list(nnet.nodes), list(nnet.components)
    for i, node in enumerate(nnet.nodes):
        if isinstance(node, DescriptorNode) and out.is_component_input(i):
            out.nodes[i] = replace(node, descriptor=Descriptor(tuple(map(changed, node.descriptor.parts))))
    out.structure_changed()
    return out


def looped_requests(nnet: Nnet, chunk_size: int, left_context: int, right_context: int,
                    frame_subsampling_factor: int = 1, num_sequences: int = 1) -> list[ComputationRequest]:
    """Return the requests for the first three chunks. Kaldi: CreateLoopedComputationRequest.

    Parameters
    ----------
    nnet : a simple network, as :func:`with_ivector_period` made it if it has an input ``ivector``
    chunk_size : frames in a chunk, which has one i-vector; see :func:`looped_chunk_size`
    left_context : frames of input before the first output
    right_context : frames of input after the last output of each chunk
    num_sequences : sequences, of the same times, that are computed together; the rows of each stand together
    """
    has_ivector = nnet.input_dim("ivector") > 0
    requests = []
    given: set[int] = set()          # the times of i-vectors in earlier requests
    begin = -left_context
    for number in range(3):
        end = (number + 1) * chunk_size + right_context
        frames = np.arange(begin, end)
        inputs = [IoSpecification("input", _product(frames, num_sequences))]
        times = sorted(set((frames - frames % chunk_size).tolist()) - given)
        if has_ivector and times:
            inputs.append(IoSpecification("ivector", _product(np.array(times), num_sequences)))
        given.update(times)
        outputs = np.arange(number * chunk_size, (number + 1) * chunk_size, frame_subsampling_factor)
        requests.append(ComputationRequest(inputs, [IoSpecification("output", _product(outputs, num_sequences))]))
        begin = end
    return requests


def _product(times: np.ndarray, num_sequences: int) -> np.ndarray:
    """Return all times of the first sequence, then of the next, int32 (rows, 3)."""
    indexes = np.zeros((len(times) * num_sequences, 3), np.int32)
    indexes[:, 0] = np.repeat(np.arange(num_sequences), len(times))
    indexes[:, 1] = np.tile(times, num_sequences)
    return indexes


def find_looped(nnet: Nnet, requests: Sequence[ComputationRequest], options: OptimizeOptions | None = None,
                cache_dir: str | os.PathLike[str] | None = None) -> Computation:
    """Return an endless computation in Kaldi's commands, from the folder ``cache_dir``, or compiled and stored there.

    Kaldi: CompileLooped.

    Parameters
    ----------
    requests : those for the first chunks, three or more; each later one is the last one moved in time, by the distance
        between the last two
    cache_dir : as for :class:`~nnet3py.compiler.cache.CachingCompiler`

    Raises
    ------
    CompileError : the last two requests differ by more than time, or no two chunks are computed alike
    NotComputableError : an output cannot be computed from the inputs up to its chunk
    """
    options = options or OptimizeOptions()
    disk = disk_cache(cache_dir)
    if disk is None:
        return _compile(nnet, requests, options)
    key = looped_key(structure_of(nnet), flags_of(nnet), requests, options)
    computation = disk.load(key, lambda loaded: check_loaded_loop(loaded, nnet, lambda k: _request_number(requests, k)))
    if computation is None:
        computation = _compile(nnet, requests, options)
        disk.store(key, computation)
    return computation


@gc_paused
def _compile(nnet: Nnet, requests: Sequence[ComputationRequest], options: OptimizeOptions) -> Computation:
    start = perf_counter()
    for count in NUM_REQUESTS:
        computation = optimize(generate_segments(nnet, _extrapolated(requests, count)), nnet, options, looped=True)
        check_computation(computation, nnet)
        if computation.commands[-1].type == CommandType.GOTO_LABEL:
            computation.invalidate_caches()
            logger.info("Spent %.3g seconds in looped compilation.", perf_counter() - start)
            return computation
        logger.debug("Looped compilation failed with %d requests", count)
    raise CompileError(f"Looped compilation failed with {NUM_REQUESTS[-1]} requests, which is expected to be enough: "
                       "no two chunks of the network are computed alike",
                       "check that the network's context to the left and right is finite")


def _extrapolated(requests: Sequence[ComputationRequest], count: int) -> list[ComputationRequest]:
    """Return ``count`` requests, of which the first are given. Kaldi: ExtrapolateComputationRequest."""
    before, last = requests[-2:]
    if _shifted(before, _time_shift(requests)) != last:
        raise CompileError("the last two requests of a looped computation differ by more than their time",
                           "all chunks but the first must have the same size")
    return [_request_number(requests, number) for number in range(count)]


def _request_number(requests: Sequence[ComputationRequest], number: int) -> ComputationRequest:
    """Return the request for chunk ``number``: one of the given ones, or the last of them moved to a later time."""
    later = number + 1 - len(requests)
    return requests[number] if later <= 0 else _shifted(requests[-1], later * _time_shift(requests))


def _time_shift(requests: Sequence[ComputationRequest]) -> int:
    before, last = requests[-2:]
    return int(last.outputs[0].indexes[0, 1]) - int(before.outputs[0].indexes[0, 1])


def _shifted(request: ComputationRequest, offset: int) -> ComputationRequest:
    """Return the request ``offset`` frames later."""
    inputs, outputs = ([IoSpecification(io.name, io.indexes + np.array([0, offset, 0], np.int32), io.has_deriv)
                        for io in ios] for ios in (request.inputs, request.outputs))
    return ComputationRequest(inputs, outputs, request.need_model_derivative, request.store_component_stats)


# -- state carried from chunk to chunk ---------------------------------------------------------------------------------


_WRITTEN = frozenset((Role.WRITE, Role.PROPAGATED))
_READ = frozenset((Role.READ, Role.READ_WRITE))


class CarriedRows(NamedTuple):
    """The rows of matrices that one sequence carries from chunk to chunk; all sequences carry the same ones.

    Attributes
    ----------
    matrices : int64 (rows,), ascending
    places : int64 (rows,), the place of the row among those of its sequence in the matrix
    """

    matrices: np.ndarray
    places: np.ndarray

    def rows(self, computation: Computation) -> np.ndarray:
        """Return the numbers of these rows in the matrices of ``computation``, int64 (sequences, rows)."""
        count = num_sequences(computation)
        rows = np.zeros((count, len(self.matrices)), np.int64)
        for m in set(self.matrices.tolist()):
            here = self.matrices == m
            rows[:, here] = _rows_of_sequences(computation, m, count)[:, self.places[here]]
        return rows

    def width(self, computation: Computation) -> int:
        """Return the number of elements of these rows of one sequence."""
        return sum(computation.matrices[m].num_cols for m in self.matrices.tolist())


class Chunk(NamedTuple):
    """The rows carried to a chunk, and from it to the next one; in equal order if the chunk is repeated."""

    before: CarriedRows
    after: CarriedRows


class CarriedState(NamedTuple):
    """The rows carried to and from each chunk, and the chunk at which the loop begins.

    Attributes
    ----------
    chunks : the first chunks of a stream; after the last of them chunk number ``loop_begin`` comes again
    width : the largest number of elements that are carried for one sequence
    """

    chunks: list[Chunk]
    loop_begin: int
    width: int

    def number_of(self, count: int) -> int:
        """Return the index in ``chunks`` of the chunk that comes after ``count`` chunks of a stream."""
        period = len(self.chunks) - self.loop_begin
        return count if count < self.loop_begin else self.loop_begin + (count - self.loop_begin) % period


def num_sequences(computation: Computation) -> int:
    """Return the number of sequences that a computation computes together: those in any of its inputs."""
    taken = next(command.args[0] for command in computation.commands if command.type == CommandType.ACCEPT_INPUT)
    return 1 + int(computation.debug_info[computation.submatrices[taken].matrix].indexes[:, 0].max())


def carried_state(computation: Computation, nnet: Nnet) -> CarriedState:
    """Return the state that a looped computation, which ends with a jump, carries from chunk to chunk."""
    rows = _LiveRows(computation.unfused(), nnet)
    loop_begin, live = rows.at_chunks()
    before = [rows.carried(live_rows) for live_rows in live]
    if rows.last_is_begin_again(loop_begin):
        before.pop()
        last = rows.handed_over(before[loop_begin])
    else:
        loop_begin += 1
        last = before[loop_begin]
    chunks = [Chunk(*pair) for pair in zip(before, [*before[1:], last], strict=True)]
    return CarriedState(chunks, loop_begin, max(chunk.after.width(computation) for chunk in chunks))


class _LiveRows:
    """The rows of all matrices that are read later (*live* rows), as one bool vector over all rows."""

    def __init__(self, computation: Computation, nnet: Nnet) -> None:
        self.computation, self.nnet = computation, nnet
        self.starts = np.cumsum([0, *(info.num_rows for info in computation.matrices)])
        self.ranges = [(int(self.starts[sub.matrix]) + sub.row_offset,
                        int(self.starts[sub.matrix]) + sub.row_offset + sub.num_rows,
                        sub.num_cols == computation.matrices[sub.matrix].num_cols)
                       for sub in computation.submatrices]      # the rows, and whether they are as wide as the matrix
        self.begins = _chunk_begins(computation.commands)
        self.firsts = np.array([first for first, _, _ in self.ranges])

    def at_chunks(self) -> tuple[int, list[np.ndarray]]:
        """Return the number of the chunk to which the jump goes, and the live rows before each chunk, bool (rows,).

        The jump goes from the last chunk to the same point of the target chunk, just after its inputs.
        """
        commands, begins = self.computation.commands, self.begins
        label = commands[-1].args[0]
        loop_begin = int(np.searchsorted(begins, label)) - 1
        live = np.zeros(self.starts[-1], bool)
        by_command: dict[int, np.ndarray] = {}
        at_label = live
        while True:                             # until the rows that the last chunk hands over are live at the label
            live = at_label.copy()
            for c in range(len(commands) - 2, label - 1, -1):
                self._before(commands[c], live)
                if c in begins:
                    by_command[c] = live.copy()
            if (live == at_label).all():
                break
            at_label = live
        for c in range(label - 1, -1, -1):
            self._before(commands[c], live)
            if c in begins:
                by_command[c] = live.copy()
        return loop_begin, [by_command[c] for c in begins]

    def _before(self, command: Command, live: np.ndarray) -> None:
        """Change ``live``, the live rows after a command, to those before it, in place."""
        kind, _, args = command
        if kind == CommandType.SWAP_MATRIX:
            (a, b, _), (c, d, _) = self.ranges[args[0]], self.ranges[args[1]]
            live[a:b], live[c:d] = live[c:d].copy(), live[a:b].copy()
            return
        adds = kind == CommandType.PROPAGATE and self.nnet.components[args[0]].has(Properties.PROPAGATE_ADDS)
        self._without_written(command, live, adds)
        self._with_read(command, live, adds)

    def _without_written(self, command: Command, live: np.ndarray, adds: bool) -> None:
        """Clear in ``live`` the rows that a command overwrites; ``adds``: its component adds to the output."""
        kind, _, args = command
        if kind == CommandType.ALLOC_MATRIX:
            first, end, _ = self.ranges[args[0]]
            live[first:end] = False
        for role, value in zip(COMMANDS[kind].roles, args, strict=False):
            if role in _WRITTEN and value > 0 and not (adds and role == Role.PROPAGATED):
                first, end, is_wide = self.ranges[value]
                if is_wide:
                    live[first:end] = False

    def _with_read(self, command: Command, live: np.ndarray, adds: bool) -> None:
        """Set in ``live`` the rows that a command reads; ``adds``: its component adds to the output."""
        kind, _, args = command
        roles = COMMANDS[kind].roles
        chosen = Role.ROWS in roles or Role.RANGES in roles          # whether only some rows are read
        for place, (role, value) in enumerate(zip(roles, args, strict=False)):
            if (role in _READ and value > 0 and not (chosen and place == 1)) or (adds and role == Role.PROPAGATED):
                first, end, _ = self.ranges[value]
                live[first:end] = True
            elif role in (Role.READ_PAIRS, Role.CHANGED_PAIRS):
                pairs = self.computation.indexes_multi[value]
                pairs = pairs[pairs[:, 0] > 0]
                live[self.firsts[pairs[:, 0]] + pairs[:, 1]] = True
            elif role == Role.ROWS:
                indexes = self.computation.indexes[value]
                live[self.firsts[args[1]] + indexes[indexes >= 0]] = True
            elif role == Role.RANGES:
                for begin, end in self.computation.indexes_ranges[value].tolist():
                    live[self.firsts[args[1]] + max(begin, 0):self.firsts[args[1]] + max(end, 0)] = True

    def carried(self, live: np.ndarray) -> CarriedRows:
        """Return the rows that are live in any sequence; ``live`` is bool (rows of all matrices,)."""
        matrices, places, count = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], num_sequences(self.computation)
        for m in sorted(set((np.searchsorted(self.starts, np.flatnonzero(live), "right") - 1).tolist())):
            mine = live[self.starts[m]:self.starts[m + 1]][_rows_of_sequences(self.computation, m, count)]
            places.append(np.flatnonzero(mine.any(axis=0)))
            matrices.append(np.full(len(places[-1]), m))
        return CarriedRows(np.concatenate(matrices), np.concatenate(places))

    def last_is_begin_again(self, loop_begin: int) -> bool:
        """Return whether the last chunk equals the one to which it jumps, except for its inputs."""
        commands, givers = self.computation.commands, self._givers()
        label, begin = commands[-1].args[0], self.begins[loop_begin]
        between = {command.type for command in commands[begin:label]} - WITHOUT_CALL - {CommandType.ACCEPT_INPUT}
        own, theirs = self._inputs(self.begins[-1], len(commands)), self._inputs(begin, label)
        return not between and own == {node: givers.get(m) for node, m in theirs.items()}

    def _inputs(self, begin: int, end: int) -> dict[int, int]:
        """Return the inputs accepted by the commands from ``begin`` to ``end``: node -> matrix."""
        return {command.args[1]: self.computation.submatrices[command.args[0]].matrix
                for command in self.computation.commands[begin:end] if command.type == CommandType.ACCEPT_INPUT}

    def handed_over(self, taken: CarriedRows) -> CarriedRows:
        """Return the rows whose contents the swaps at the end move to the rows ``taken``."""
        givers = self._givers()
        matrices = np.array([givers.get(m, m) for m in taken.matrices.tolist()], np.int64)
        return CarriedRows(matrices, taken.places)

    def _givers(self) -> dict[int, int]:
        """Return the swaps at the end: matrix -> matrix whose contents it receives."""
        computation = self.computation
        swaps = (computation.commands[c].args for c in computation.loop_swaps())
        return {computation.submatrices[a].matrix: computation.submatrices[b].matrix for a, b, *_ in swaps}


def _chunk_begins(commands: list[Command]) -> list[int]:
    """Return for each chunk the number of the command that accepts its first input."""
    begins, exchanges = [0], CommandType.ACCEPT_INPUT
    for c, command in enumerate(commands):
        if command.type == CommandType.ACCEPT_INPUT and exchanges == CommandType.PROVIDE_OUTPUT:
            begins.append(c)
        if command.type in (CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT):
            exchanges = command.type
    return begins


def _rows_of_sequences(computation: Computation, m: int, count: int) -> np.ndarray:
    """Return the rows of matrix ``m`` of each sequence, in order, int64 (sequences, rows of each)."""
    n = computation.debug_info[m].indexes[:, 0]
    return np.argsort(n, kind="stable").reshape(count, -1)
