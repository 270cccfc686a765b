"""Passes on allocations: sizes, zeroing, times, and the swaps and memory compression of Kaldi's files."""
from __future__ import annotations

import logging
from collections import defaultdict

import numpy as np

from nnet3py.compiler.analyze import READ, Analysis
from nnet3py.compiler.computation import (
    BACKPROPS,
    SIZING,
    Command,
    CommandType,
    Computation,
    MatrixDebugInfo,
    MatrixInfo,
    SubMatrix,
    command,
)
from nnet3py.compiler.tables import (
    command_table,
    drop_commands,
    greatest_at,
    least_at,
    matrix_sizes,
    replace_commands,
    sort_commands,
    submatrix_table,
    substitute_commands,
    whole_submatrices,
)
from nnet3py.index import NO_TIME
from nnet3py.network.nnet import Nnet

LEAST_SHARE = 0.8       # of the source's rows that have to be copied already

_IO = (CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT)


def extend_matrices(computation: Computation, nnet: Nnet) -> Computation:
    """Add unused rows to the end of matrices into which nearly all rows of another matrix are copied.

    Then all rows are copied, so that the two matrices can be merged. Kaldi: ExtendMatrices.
    """
    candidates = _candidates(computation)
    if not len(candidates):
        return computation
    out = computation.copy()
    new: dict[int, Command] = {}
    for c in candidates.tolist():
        original = computation.commands[c]
        source = out.submatrices[original.args[1]]
        rows = out.matrices[source.matrix].num_rows
        if LEAST_SHARE * rows <= source.num_rows < rows:       # the source may have been extended by now
            new[c] = _extend(out, original)
    larger = [m for m, (size, was) in enumerate(zip(out.matrices, computation.matrices, strict=True)) if size != was]
    _resize_whole_submatrices(computation, out, larger, new)
    _pad_debug_info(out, larger)
    return replace_commands(out, new)


def _candidates(computation: Computation) -> np.ndarray:
    """Return the copies from the first rows of a matrix to the last rows of another."""
    table, subs, sizes = command_table(computation), submatrix_table(computation), matrix_sizes(computation)
    numbers, args = table.numbers[CommandType.MATRIX_COPY], table.args[CommandType.MATRIX_COPY]
    fixed = np.zeros(len(sizes), bool)
    for kind in _IO:
        fixed[subs[table.args[kind][:, 0], 0]] = True
    to, source = subs[args[:, 0]], subs[args[:, 1]]
    size = sizes[source[:, 0]]
    fine = (table.alphas[numbers] == 1.0) & ~fixed[to[:, 0]] & (to[:, 0] != source[:, 0])
    fine &= (to[:, 1] + to[:, 2] == sizes[to[:, 0], 0]) & (source[:, 1] == 0) & (source[:, 3] == 0)
    fine &= (source[:, 4] == size[:, 1]) & (LEAST_SHARE * size[:, 0] <= source[:, 2])
    return numbers[fine] if (fine & (source[:, 2] < size[:, 0])).any() else numbers[:0]


def _extend(out: Computation, copy: Command) -> Command:
    """Enlarge the matrix that is copied to; returns the copy of all rows."""
    to, source = (out.submatrices[s] for s in copy.args[:2])
    rows = out.matrices[source.matrix].num_rows
    size = out.matrices[to.matrix]
    out.matrices[to.matrix] = size._replace(num_rows=max(size.num_rows, to.row_offset + rows))
    out.submatrices += [to._replace(num_rows=rows), source._replace(num_rows=rows)]
    return command(copy.type, len(out.submatrices) - 2, len(out.submatrices) - 1, alpha=copy.alpha)


def _resize_whole_submatrices(before: Computation, out: Computation, larger: list[int],
                              new: dict[int, Command]) -> None:
    """Let allocations and zeroing of whole matrices refer to the enlarged matrices."""
    table, matrix_of, is_whole = command_table(before), submatrix_table(before)[:, 0], whole_submatrices(before)
    is_larger = np.zeros(len(out.matrices), bool)
    is_larger[larger] = True
    whole = dict(zip(larger, range(len(out.submatrices), len(out.submatrices) + len(larger)), strict=True))
    out.submatrices += [SubMatrix(m, 0, out.matrices[m].num_rows, 0, out.matrices[m].num_cols) for m in larger]
    for kind in (*SIZING, CommandType.SET_CONST):
        args = table.args[kind][:, :2]
        given = args > 0
        concerned = (given & is_larger[matrix_of[np.where(given, args, 0)]]).any(axis=1)
        if kind == CommandType.SET_CONST:
            concerned &= is_whole[args[:, 0]]
        for c in table.numbers[kind][concerned].tolist():
            original = before.commands[c]
            new[c] = original._replace(args=tuple(whole.get(int(matrix_of[s]), s) if s > 0 else s
                                                  for s in original.args))


def _pad_debug_info(out: Computation, larger: list[int]) -> None:
    """Describe the added rows like the rows just before them, but with t = NO_TIME."""
    if len(out.debug_info) != len(out.matrices):
        return
    for m in larger:
        info = out.debug_info[m]
        rows = np.arange(len(info.nodes) - out.matrices[m].num_rows, 0) % len(info.nodes)
        added = info.indexes[rows]
        added[:, 1] = NO_TIME
        out.debug_info[m] = MatrixDebugInfo(np.append(info.nodes, info.nodes[rows]),
                                            np.concatenate((info.indexes, added)), info.is_deriv)


# -- initialize-undefined ----------------------------------------------------------------------------------------------


def remove_unnecessary_zeroing(computation: Computation, nnet: Nnet) -> Computation:
    """Leave matrices undefined that are written before they are read. Kaldi: RemoveUnnecessaryZeroing."""
    analysis = Analysis(computation, nnet)
    zeroing = np.flatnonzero(analysis.is_zeroing)
    s = analysis.table.rows[zeroing, 0]
    comes_first = analysis.first_of_matrices()[analysis.matrix_of[s]] == zeroing
    zeroing, s = (array[comes_first & analysis.is_whole[s]] for array in (zeroing, s))

    others = np.ones(analysis.num_commands, bool)
    others[zeroing] = False
    first, just_writes = analysis.first_of_variables(others[analysis.commands])
    owner = analysis.variables.matrix
    is_set = np.where(first < analysis.num_commands, just_writes, ~analysis.is_output[owner])
    read = np.zeros(len(computation.matrices), bool)
    read[owner[~is_set]] = True
    return drop_commands(computation, zeroing[~read[analysis.matrix_of[s]]])


# -- move-sizing-commands ----------------------------------------------------------------------------------------------


def move_sizing_commands(computation: Computation, nnet: Nnet) -> Computation:
    """Allocate matrices just before their first use and free them just after their last. Kaldi: MoveSizingCommands."""
    analysis = Analysis(computation, nnet)
    args, numbers = analysis.table.rows[:, 0], analysis.table.numbers
    first, last = analysis.first_of_matrices(), analysis.last_of_matrices()
    later = analysis.commands > first[analysis.matrices]
    second = least_at(len(first), analysis.matrices[later], analysis.commands[later], analysis.num_commands)
    places = 3 * np.arange(analysis.num_commands)      # there is room for one command on either side

    freed = _with_used_matrix(numbers[CommandType.DEALLOC_MATRIX], analysis, last)
    places[freed] = 3 * last[analysis.matrix_of[args[freed]]] + 1

    allocated = _with_used_matrix(numbers[CommandType.ALLOC_MATRIX], analysis, last)
    m = analysis.matrix_of[args[allocated]]
    zeroed_next = (first[m] == allocated + 1) & analysis.is_zeroing[first[m]] & (args[first[m]] == args[allocated])
    moves_both = zeroed_next & (second[m] < analysis.num_commands)
    use = np.where(moves_both, second[m], first[m])
    places[allocated[moves_both] + 1] = 3 * use[moves_both] - 1      # the zeroing follows the allocation
    moves = moves_both | ~zeroed_next
    places[allocated[moves]] = 3 * use[moves] - 1
    return sort_commands(computation, places)


def _with_used_matrix(numbers: np.ndarray, analysis: Analysis, last: np.ndarray) -> np.ndarray:
    """Return the sizing commands (``numbers``) of matrices that some command uses."""
    return np.asarray(numbers[last[analysis.matrix_of[analysis.table.rows[numbers, 0]]] >= 0])


# -- allocate-from-other -----------------------------------------------------------------------------------------------


def allocate_from_other(computation: Computation, nnet: Nnet) -> Computation:
    """Replace a deallocation and a later allocation of the same size by one swap.

    From the last matrix freed to the first, each is swapped with the next allocated matrix that has no swap yet. For
    computations in Kaldi's form only: the runtime's memory plan reuses memory anyway. Kaldi:
    RemoveUnnecessaryAllocation.
    """
    table = command_table(computation)
    sizing = np.sort(np.concatenate([table.numbers[kind] for kind in (
        CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX)]))[::-1]
    submatrices = table.rows[sizing, 0]
    matrices = submatrix_table(computation)[submatrices, 0].tolist()
    allocates = (table.types[sizing] == CommandType.ALLOC_MATRIX).tolist()

    untaken: defaultdict[MatrixInfo, list[tuple[int, int]]] = defaultdict(list)   # allocations by size, next one last
    swaps: dict[int, Command] = {}                                                # in place of allocations
    freed: list[int] = []
    for c, s, m, is_allocation in zip(sizing.tolist(), submatrices.tolist(), matrices, allocates, strict=True):
        same_size = untaken[computation.matrices[m]]
        if is_allocation:
            same_size.append((c, s))
        elif same_size:
            allocation, taker = same_size.pop()
            swaps[allocation] = command(CommandType.SWAP_MATRIX, taker, s)
            freed.append(c)
    return drop_commands(replace_commands(computation, swaps), freed)


# -- memory-compression-level, and Kaldi's form ------------------------------------------------------------------------


logger = logging.getLogger(__name__)

UINT8, INT16 = 2, 3              # the numbers of Kaldi's compression types
INT16_RANGE = 10.0               # values beyond this are cut off at level 2


def compress_memory(computation: Computation, nnet: Nnet, level: int = 1) -> Computation:
    """Insert commands that compress a matrix after the forward pass and decompress it in the backward pass.

    Level 1: outputs of rectified linear components, of which the backward pass needs the sign only; level 2: all
    matrices that both passes use. For computations in Kaldi's form only: the runtime ignores these commands. Kaldi:
    OptimizeMemoryCompression.
    """
    markers = command_table(computation).numbers[CommandType.NO_OPERATION_MARKER]
    if level <= 0 or len(markers) != 1:
        if level > 0 and len(markers) > 1:
            logger.warning("Not compressing memory: the computation has %d segments", len(markers))
        return computation
    before: dict[int, list[Command]] = {}       # the commands to insert before each command
    out = computation.copy()
    whole: list[int] = []
    for m, forward, backward, is_read_once in _waiting_matrices(Analysis(computation, nnet), int(markers[0])):
        only_sign = is_read_once and _is_relu_backprop(computation.commands[backward], nnet)
        if only_sign or level >= 2:
            whole = whole or out.whole_submatrices()
            compression = ((UINT8, 0.0) if only_sign else (INT16, INT16_RANGE))
            before.setdefault(forward + 1, []).append(
                command(CommandType.COMPRESS_MATRIX, whole[m], compression[0], 1, alpha=compression[1]))
            before.setdefault(backward, []).append(command(CommandType.DECOMPRESS_MATRIX, whole[m]))
    if not before:
        return computation
    return substitute_commands(out, {c: [*added, *out.commands[c:c + 1]] for c, added in before.items()})


def _waiting_matrices(analysis: Analysis, marker: int) -> list[tuple[int, int, int, bool]]:
    """Return the matrices used both before and after the marker, which are not outputs.

    Each has the number of the matrix, its last use before the marker, its first use after it, and whether that use only
    reads and is the last one.
    """
    count, commands, matrices = len(analysis.is_output), analysis.commands, analysis.matrices
    is_forward = commands < marker
    forward = greatest_at(count, matrices[is_forward], commands[is_forward])
    backward = least_at(count, matrices[~is_forward], commands[~is_forward], analysis.num_commands)
    ours = commands == backward[matrices]
    changed = np.zeros(count, bool)
    changed[matrices[ours & (analysis.matrix_kinds != READ)]] = True
    m = np.flatnonzero((forward >= 0) & (backward < analysis.num_commands) & ~analysis.is_output)
    is_last = analysis.last_of_matrices() == backward
    return list(zip(m.tolist(), forward[m].tolist(), backward[m].tolist(), (is_last[m] & ~changed[m]).tolist(),
                    strict=True))


def _is_relu_backprop(original: Command, nnet: Nnet) -> bool:
    return (original.type in BACKPROPS
            and type(nnet.components[original.args[0]]).__name__ == "RectifiedLinearComponent")


def has_marks(computation: Computation) -> bool:
    """Return whether the computation has commands that compress memory."""
    return len(command_table(computation).numbers[CommandType.COMPRESS_MATRIX]) > 0


def from_kaldi_form(computation: Computation, nnet: Nnet) -> Computation:
    """Undo :func:`allocate_from_other` and :func:`compress_memory`; not for looped computations.

    The swapped matrix is freed after its last use instead.
    """
    numbers = command_table(computation).numbers
    marks = np.concatenate((numbers[CommandType.COMPRESS_MATRIX], numbers[CommandType.DECOMPRESS_MATRIX]))
    swaps = numbers[CommandType.SWAP_MATRIX].tolist()
    if len(computation.loop_swaps()) or not len(marks) + len(swaps):
        return computation
    new: dict[int, list[Command]] = dict.fromkeys(marks.tolist(), [])
    for c in swaps:
        taker, giver = computation.commands[c].args[:2]
        new[c] = [command(CommandType.DEALLOC_MATRIX, giver), command(CommandType.ALLOC_MATRIX, taker)]
    plain = substitute_commands(computation, new)
    return move_sizing_commands(plain, nnet) if swaps else plain
