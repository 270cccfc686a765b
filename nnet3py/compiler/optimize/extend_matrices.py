"""Copies of nearly all rows of a matrix become copies of all, so that the two matrices can be merged."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.computation import Command, CommandType, Computation, MatrixDebugInfo
from nnet3py.compiler.optimize.renumber import renumber
from nnet3py.index import NO_TIME
from nnet3py.network.nnet import Nnet

LEAST_SHARE = 0.8       # of a matrix's rows that have to be copied already

_SIZING = frozenset((CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX, CommandType.SWAP_MATRIX))
_IO = frozenset((CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT))


def extend_matrices(computation: Computation, nnet: Nnet) -> Computation:
    """Add rows that nobody uses to the end of matrices into which the first rows of another matrix are copied.

    Then all rows are copied, and merging can take the other matrix for this one. Kaldi: ExtendMatrices.
    """
    fixed = {computation.submatrices[one.args[0]].matrix for one in computation.commands if one.type in _IO}
    out = computation.copy()
    for c, one in enumerate(computation.commands):
        if (one.type == CommandType.MATRIX_COPY and one.alpha == 1.0
                and computation.submatrices[one.args[0]].matrix not in fixed and _is_extensible(computation, out, one)):
            _extend(out, c, one)
    if out.matrices == computation.matrices:
        return computation
    _use_whole(computation, out)
    _pad_debug_info(out)
    return renumber(out)


def _is_extensible(before: Computation, out: Computation, one: Command) -> bool:
    to, source = (before.submatrices[s] for s in one.args[:2])
    size = out.matrices[source.matrix]
    return (to.matrix != source.matrix and source.row_offset == source.col_offset == 0
            and source.num_cols == size.num_cols and LEAST_SHARE * size.num_rows <= source.num_rows < size.num_rows
            and to.row_offset + to.num_rows == before.matrices[to.matrix].num_rows)


def _extend(out: Computation, c: int, one: Command) -> None:
    to, source = (out.submatrices[s] for s in one.args[:2])
    rows = out.matrices[source.matrix].num_rows
    size = out.matrices[to.matrix]
    out.matrices[to.matrix] = size._replace(num_rows=max(size.num_rows, to.row_offset + rows))
    out.submatrices += [to._replace(num_rows=rows), source._replace(num_rows=rows)]
    args = len(out.submatrices) - 2, len(out.submatrices) - 1, *one.args[2:]
    out.commands[c] = Command(one.type, one.alpha, args)


def _use_whole(before: Computation, out: Computation) -> None:
    """Let sizing and the zeroing of whole matrices refer to the larger matrices."""
    whole = out.whole_submatrices()
    for c, one in enumerate(out.commands):
        if one.type in _SIZING or (one.type == CommandType.SET_CONST and before.is_whole(one.args[0])):
            args = tuple(whole[before.submatrices[s].matrix] if s > 0 else s for s in one.args)
            out.commands[c] = Command(one.type, one.alpha, args)


def _pad_debug_info(out: Computation) -> None:
    """Describe the new rows as copies of those just before, so with their sequences, at no time."""
    if len(out.debug_info) != len(out.matrices):
        return
    for m, (size, info) in enumerate(zip(out.matrices, out.debug_info, strict=True)):
        missing = size.num_rows - len(info.nodes)
        if missing:
            rows = np.arange(-missing, 0) % len(info.nodes)
            added = info.indexes[rows]
            added[:, 1] = NO_TIME
            out.debug_info[m] = MatrixDebugInfo(np.append(info.nodes, info.nodes[rows]),
                                                np.concatenate((info.indexes, added)), info.is_deriv)
