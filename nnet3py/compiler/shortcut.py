"""Shortcut compilation: a request for many sequences of one shape is compiled for two, and the result is extended.

All sequences but the last are computed like the first, and the last like the second: the optimized commands stay as
they are, and only matrices, windows and index lists grow.

In an index list with *stride* q, blocks of q rows of sequence 0, then the same q of sequence 1, … follow each other.
Lists that the compiler makes have stride 1; those of a request, all of sequence 0 first, have its number of rows.

Kaldi: ``RequestIsDecomposable``, ``ExpandComputation`` (nnet-optimize-utils.h).
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from nnet3py.compiler.computation import (
    BACKPROPS,
    COMMANDS,
    PAIR_ROLES,
    Command,
    CommandType,
    Computation,
    MatrixDebugInfo,
    MatrixInfo,
    Role,
    SubMatrix,
    gc_paused,
)
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.compiler.tables import submatrix_table
from nnet3py.errors import CompileError
from nnet3py.network.nnet import Nnet

_INDEX_ROLES = (Role.ROWS, *PAIR_ROLES, Role.RANGES)
_HINT = "compile without the shortcut: --use-shortcut=false, or shortcut=False in Python"


# -- requests --------------------------------------------------------------------------------------------------------


def n_stride(indexes: np.ndarray) -> int:
    """Return the stride of int32 indexes (rows, 3): the distance of the sequences of one t and x; 0 if it varies.

    The sequences must be 0, 1, …, at least two, all with the same t and x. Kaldi: FindNStride.
    """
    size = len(indexes)
    num_sequences = int(indexes[-1, 0]) + 1 if size else 0
    if num_sequences <= 1 or size % num_sequences or indexes[0, 0] != 0:
        return 0
    per_sequence = size // num_sequences
    second = indexes[0] + np.array([1, 0, 0], np.int32)
    places = np.flatnonzero((indexes[:per_sequence + 1] == second).all(axis=1)).tolist()
    candidates = [*(place for place in (1, per_sequence) if place in places), *places]
    stride = next((place for place in candidates if size % place == 0), 0)
    if not stride or per_sequence % stride:
        return 0
    blocks = indexes.reshape(-1, num_sequences, stride, 3)
    is_regular = ((blocks[..., 0] == np.arange(num_sequences)[:, None]).all()
                  and (blocks[..., 1:] == blocks[:, :1, :, 1:]).all())
    return stride if is_regular else 0


def decompose(request: ComputationRequest) -> tuple[ComputationRequest, int] | None:
    """Return the request for the first two sequences, and the number of sequences.

    None if there are two or fewer, or if they differ. Kaldi: RequestIsDecomposable.
    """
    ios = (*request.inputs, *request.outputs)
    num_sequences = int(ios[0].indexes[-1, 0]) + 1
    if num_sequences <= 2 or any(int(io.indexes[-1, 0]) + 1 != num_sequences for io in ios):
        return None
    strides = [n_stride(io.indexes) for io in ios]
    if 0 in strides:
        return None
    blocks = [io.indexes.reshape(-1, num_sequences, stride, 3) for io, stride in zip(ios, strides, strict=True)]
    small = [IoSpecification(io.name, rows[:, :2].reshape(-1, 3), io.has_deriv)
             for io, rows in zip(ios, blocks, strict=True)]
    count = len(request.inputs)
    return ComputationRequest(small[:count], small[count:], request.need_model_derivative,
                              request.store_component_stats), num_sequences


def expand_indexes(indexes: np.ndarray, stride: int, num_sequences: int) -> np.ndarray:
    """Return indexes int32 (rows, 3) for ``num_sequences``, from those of two sequences."""
    first = indexes.reshape(-1, 2, stride, 3)[:, :1]
    out = np.repeat(first, num_sequences, axis=1)
    out[..., 0] = np.arange(num_sequences, dtype=np.int32)[:, None]
    return out.reshape(-1, 3)


# -- computations ----------------------------------------------------------------------------------------------------


@gc_paused
def expand_computation(small: Computation, nnet: Nnet, num_sequences: int) -> Computation:
    """Return the computation for ``num_sequences`` sequences, from that for two of them. Kaldi: ExpandComputation.

    Raises CompileError: the rows of a matrix are not those of two equal sequences, or a row needs another sequence.
    """
    return _Expander(small, nnet, num_sequences).expand()


class _Expander:
    def __init__(self, small: Computation, nnet: Nnet, num_sequences: int) -> None:
        self.small, self.nnet, self.num_sequences = small, nnet, num_sequences
        self._lists = _IndexLists([*(info.indexes for info in small.debug_info[1:]),
                                   *(rows for pair in small.precomputed_rows[1:] for rows in pair)], num_sequences)
        self._nodes: dict[tuple[int, int], np.ndarray] = {}     # by the identity of the list, and stride
        self._strides = np.array([1, *(self._stride(m) for m in range(1, len(small.matrices)))])
        subs = submatrix_table(small)
        self._matrix, self._first = subs[:, 0], subs[:, 1]
        self._sub_stride = self._strides[self._matrix]
        self._new_first, self._new_rows = self._windows(subs)

    def expand(self) -> Computation:
        """Return the large computation, with new lists; both computations have no cached data afterwards."""
        small = self.small
        large = small.copy()
        large.matrices = [MatrixInfo(num_rows // 2 * self.num_sequences, num_cols, contiguous)
                          for num_rows, num_cols, contiguous in small.matrices]
        subs = submatrix_table(small).copy()
        subs[:, 1], subs[:, 2] = self._new_first, self._new_rows
        large.submatrices = list(map(partial(tuple.__new__, SubMatrix), subs.tolist()))
        large.debug_info = [small.debug_info[0], *map(self._debug_info, small.debug_info[1:])]
        large.indexes, large.indexes_multi, large.indexes_ranges = [], [], []
        large.commands = [self._command(command, large) if command[0] in _INDEXED else command
                          for command in small.commands]
        self._expand_precomputed(large)
        for computation in (small, large):      # both are kept, and neither is changed any more
            computation.invalidate_caches()
        return large

    # -- matrices --------------------------------------------------------------------------------------------------

    def _stride(self, m: int) -> int:
        info = self.small.debug_info[m]
        stride = self._lists.stride(info.indexes)
        if (not stride or len(info.indexes) != self.small.matrices[m].num_rows
                or self._new_nodes(info.nodes, stride) is None):
            raise CompileError(f"matrix m{m} does not have the rows of two equal sequences", _HINT)
        return stride

    def _new_nodes(self, nodes: np.ndarray, stride: int) -> np.ndarray | None:
        """Return the nodes of the rows of the large matrix; None if the two sequences have different nodes."""
        key = id(nodes), stride
        if key not in self._nodes:
            blocks = nodes.reshape(-1, 2, stride)
            if (blocks[:, 0] != blocks[:, 1]).any():
                return None
            self._nodes[key] = np.repeat(blocks[:, :1], self.num_sequences, axis=1).ravel()
        return self._nodes[key]

    def _debug_info(self, info: MatrixDebugInfo) -> MatrixDebugInfo:
        nodes = self._new_nodes(info.nodes, self._lists.stride(info.indexes))
        assert nodes is not None
        return MatrixDebugInfo(nodes, self._lists.expanded(info.indexes), info.is_deriv)

    def _windows(self, subs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return first row and number of rows of every sub-matrix in the large computation."""
        begin, size = subs[1:, 1], subs[1:, 2]
        stride = self._sub_stride[1:]
        last = begin + size - 1
        if (_sequence(begin, stride) != 0).any() or (_sequence(last, stride) != 1).any():
            raise CompileError("a sub-matrix does not reach from the first sequence to the last", _HINT)
        first = self._place(begin, stride)
        end = self._place(last, stride) + (self.num_sequences - 1) * stride + 1
        return np.concatenate(([0], first)), np.concatenate(([0], end - first))

    def _place(self, rows: np.ndarray, stride: np.ndarray | int) -> np.ndarray:
        """Return the row of the large matrix for sequence 0 and the t and x of each of ``rows``."""
        return np.asarray(rows // (2 * stride) * (self.num_sequences * stride) + rows % stride)

    # -- commands with index lists ---------------------------------------------------------------------------------

    def _command(self, command: Command, large: Computation) -> Command:
        """Return the command for the large computation, and add its lists of rows to ``large``."""
        position, role = _INDEXED[command.type]
        s, entry = command.args[0], command.args[position]
        if role == Role.ROWS:
            source = command.args[1]
            rows = self.small.indexes[entry].astype(np.int64)
            target, (values,) = self._follow(s, np.full(len(rows), source), [rows])
            lists, new = large.indexes, np.full(self._new_rows[s], -1, np.int32)
            new[target] = values
        elif role == Role.RANGES:
            begin, end = self.small.indexes_ranges[entry].T.astype(np.int64)
            target, (first, last) = self._follow(s, np.full(len(begin), command.args[1]),
                                                 [begin, np.maximum(end, 0) - 1])
            lists, new = large.indexes_ranges, np.full((self._new_rows[s], 2), -1, np.int32)
            new[target, 0], new[target, 1] = first, last + 1
        else:
            matrices, rows = self.small.indexes_multi[entry].T.astype(np.int64)
            target, (values,) = self._follow(s, matrices, [rows])
            lists, new = large.indexes_multi, np.full((self._new_rows[s], 2), -1, np.int32)
            chosen = self._chosen(s, rows)
            new[target, 0], new[target, 1] = matrices[chosen], values
        lists.append(new)
        return command._replace(args=(*command.args[:position], len(lists) - 1, *command.args[position + 1:]))

    def _chosen(self, s: int, rows: np.ndarray) -> np.ndarray:
        """Return the positions in ``rows`` that belong to sequence 0 of ``s`` and are not -1."""
        own = self._first[s] + np.arange(len(rows))
        return np.flatnonzero((_sequence(own, self._sub_stride[s]) == 0) & (rows >= 0))

    def _follow(self, s: int, partners: np.ndarray,
                columns: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return rows in the large matrices: of ``s``, and those that they refer to; (sequences, chosen rows) each.

        Row i of ``s`` refers to rows ``columns[k][i]`` (-1: none) of sub-matrix ``partners[i]``. Chosen are the rows of
        sequence 0 that refer to any.
        """
        chosen = self._chosen(s, columns[0])
        n = np.arange(self.num_sequences)[:, None]
        stride = self._sub_stride[s]
        target = self._place(self._first[s] + chosen, stride) - self._new_first[s] + n * stride
        partners = partners[chosen]
        strides = self._sub_stride[partners]
        places = []
        for column in columns:
            rows = self._first[partners] + column[chosen]
            if (_sequence(rows, strides) != 0).any():
                raise CompileError("a row of one sequence depends on another sequence", _HINT)
            places.append(self._place(rows, strides) - self._new_first[partners] + n * strides)
        return target, places

    # -- precomputed indexes ---------------------------------------------------------------------------------------

    def _expand_precomputed(self, large: Computation) -> None:
        components: dict[int, int] = {}
        with_backprop = set()
        for kind, _, (component, entry, *_) in large.commands:
            if (kind == CommandType.PROPAGATE or kind in BACKPROPS) and entry > 0:
                components[entry] = component
                if kind != CommandType.PROPAGATE:
                    with_backprop.add(entry)
        large.precomputed_rows = list(large.precomputed_rows)
        for entry, component in components.items():
            large.precomputed_rows[entry] = rows = self._precomputed_rows(entry)
            large.precomputed_indexes[entry] = self.nnet.components[component].precompute_indexes(
                *rows, entry in with_backprop)

    def _precomputed_rows(self, entry: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self.small.precomputed_rows[entry]
        if not all(self._lists.stride(indexes) for indexes in rows):
            raise CompileError("the rows of a component are not those of two equal sequences", _HINT)
        inputs, outputs = (self._lists.expanded(indexes) for indexes in rows)
        return inputs, outputs


class _IndexLists:
    """The strides of index lists of two sequences, and the expanded lists, by identity: many are shared."""

    def __init__(self, lists: Sequence[np.ndarray], num_sequences: int) -> None:
        self._num_sequences = num_sequences
        self._stride_of: dict[int, int] = {}
        self._expanded: dict[int, np.ndarray] = {}
        self._add_interleaved(list({id(rows): rows for rows in lists if len(rows) and len(rows) % 2 == 0}.values()))

    def _add_interleaved(self, lists: list[np.ndarray]) -> None:
        """Find the lists of stride 1 (the most common case), and expand them all at once."""
        if not lists:
            return
        pairs = np.concatenate(lists).reshape(-1, 2, 3)
        bounds = np.cumsum([0, *(len(rows) // 2 for rows in lists)])
        is_regular = ((pairs[:, :, 0] == (0, 1)) & (pairs[:, :1, 1:] == pairs[:, 1:, 1:]).all(axis=2)).all(axis=1)
        expanded = expand_indexes(pairs.reshape(-1, 3), 1, self._num_sequences)
        bounds_expanded = (bounds * self._num_sequences).tolist()
        for rows, regular, begin, end in zip(lists, np.logical_and.reduceat(is_regular, bounds[:-1]).tolist(),
                                             bounds_expanded[:-1], bounds_expanded[1:], strict=True):
            if regular:
                self._stride_of[id(rows)], self._expanded[id(rows)] = 1, expanded[begin:end]

    def stride(self, indexes: np.ndarray) -> int:
        """Return the stride of a list, 0 if it is irregular."""
        if id(indexes) not in self._stride_of:
            self._stride_of[id(indexes)] = n_stride(indexes)
        return self._stride_of[id(indexes)]

    def expanded(self, indexes: np.ndarray) -> np.ndarray:
        """Return a regular list, expanded to all sequences."""
        if id(indexes) not in self._expanded:
            self._expanded[id(indexes)] = expand_indexes(indexes, self.stride(indexes), self._num_sequences)
        return self._expanded[id(indexes)]


_INDEXED = {kind: (position, role) for kind, info in COMMANDS.items() for position, role in enumerate(info.roles)
            if role in _INDEX_ROLES}


def _sequence(rows: np.ndarray, stride: np.ndarray | int) -> np.ndarray:
    """Return the sequence of each row, 0 or 1."""
    return rows // stride % 2
