"""Copies of nearly all rows of a matrix become copies of all, so that the two matrices can be merged."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.computation import Command, CommandType, Computation, MatrixDebugInfo, SubMatrix, command
from nnet3py.compiler.optimize.command_lists import replace_commands
from nnet3py.compiler.tables import command_table, matrix_sizes, submatrix_table, whole_submatrices
from nnet3py.index import NO_TIME
from nnet3py.network.nnet import Nnet

LEAST_SHARE = 0.8       # of a matrix's rows that have to be copied already

_SIZING = (CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX, CommandType.SWAP_MATRIX)
_IO = (CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT)


def extend_matrices(computation: Computation, nnet: Nnet) -> Computation:
    """Add rows that nobody uses to the end of matrices into which the first rows of another matrix are copied.

    Then all rows are copied, and merging can take the other matrix for this one. Kaldi: ExtendMatrices.
    """
    candidates = _candidates(computation)
    if not len(candidates):
        return computation
    out = computation.copy()
    new: dict[int, Command] = {}
    for c in candidates.tolist():
        original = computation.commands[c]
        if _is_extensible(out, original):
            new[c] = _extend(out, original)
    larger = [m for m, (size, was) in enumerate(zip(out.matrices, computation.matrices, strict=True)) if size != was]
    _use_whole(computation, out, larger, new)
    _pad_debug_info(out, larger)
    return replace_commands(out, new)


def _candidates(computation: Computation) -> np.ndarray:
    """The copies from the first rows of a matrix to the last of another; none if no source has further rows."""
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


def _is_extensible(out: Computation, original: Command) -> bool:
    """Whether this candidate copies not all rows, but enough; the source may have been extended by now."""
    source = out.submatrices[original.args[1]]
    rows = out.matrices[source.matrix].num_rows
    return LEAST_SHARE * rows <= source.num_rows < rows


def _extend(out: Computation, copy: Command) -> Command:
    """Enlarge the matrix that is copied to; returns the copy of all rows."""
    to, source = (out.submatrices[s] for s in copy.args[:2])
    rows = out.matrices[source.matrix].num_rows
    size = out.matrices[to.matrix]
    out.matrices[to.matrix] = size._replace(num_rows=max(size.num_rows, to.row_offset + rows))
    out.submatrices += [to._replace(num_rows=rows), source._replace(num_rows=rows)]
    return command(copy.type, len(out.submatrices) - 2, len(out.submatrices) - 1, alpha=copy.alpha)


def _use_whole(before: Computation, out: Computation, larger: list[int], new: dict[int, Command]) -> None:
    """Let sizing and the zeroing of whole matrices refer to the larger matrices."""
    table, matrix_of, is_whole = command_table(before), submatrix_table(before)[:, 0], whole_submatrices(before)
    is_larger = np.zeros(len(out.matrices), bool)
    is_larger[larger] = True
    whole = dict(zip(larger, range(len(out.submatrices), len(out.submatrices) + len(larger)), strict=True))
    out.submatrices += [SubMatrix(m, 0, out.matrices[m].num_rows, 0, out.matrices[m].num_cols) for m in larger]
    for kind in (*_SIZING, CommandType.SET_CONST):
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
    """Describe the new rows as copies of those just before, so with their sequences, at no time."""
    if len(out.debug_info) != len(out.matrices):
        return
    for m in larger:
        info = out.debug_info[m]
        rows = np.arange(len(info.nodes) - out.matrices[m].num_rows, 0) % len(info.nodes)
        added = info.indexes[rows]
        added[:, 1] = NO_TIME
        out.debug_info[m] = MatrixDebugInfo(np.append(info.nodes, info.nodes[rows]),
                                            np.concatenate((info.indexes, added)), info.is_deriv)
