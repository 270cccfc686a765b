"""The checker's first rule: every argument of every command is in range, and they fit each other."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnet3py.compiler.analyze import CommandTable
from nnet3py.compiler.commands import COMMANDS, SUBMATRIX_ROLES, CommandType, Role
from nnet3py.compiler.computation import Computation
from nnet3py.components.base import Component, Properties
from nnet3py.errors import CheckError
from nnet3py.network.nnet import Nnet

LARGEST_RANGE = 1000.0      # of a compressed matrix
_BACKPROPS = (CommandType.BACKPROP, CommandType.BACKPROP_NO_MODEL_UPDATE)


def check_arguments(computation: Computation, nnet: Nnet, table: CommandTable) -> None:
    """Raise CheckError for the first command whose arguments are wrong."""
    checker = _ArgumentChecker(computation, nnet, table)
    checker.check_submatrices()
    for kind in CommandType:
        if len(table.numbers[kind]):
            checker.check_ranges(kind)
            check = _CHECKS.get(kind)
            if check is not None:
                check(checker, kind)


class _ArgumentChecker:
    def __init__(self, computation: Computation, nnet: Nnet, table: CommandTable) -> None:
        self.computation, self.nnet, self.table = computation, nnet, table
        subs = np.array(computation.submatrices, dtype=np.int64)
        self.rows, self.cols, self.subs = subs[:, 2], subs[:, 4], subs

    def require(self, fine: np.ndarray, kind: CommandType, what: str) -> None:
        """Raise unless ``fine`` (bool, one per command of this type) is all true."""
        if not np.all(fine):
            c = int(self.table.numbers[kind][np.flatnonzero(~np.asarray(fine))[0]])
            raise CheckError(f"command c{c} ({COMMANDS[kind].name} {self.computation.commands[c].args}): {what}")

    def check_submatrices(self) -> None:
        """Sub-matrices lie inside their matrices."""
        sizes = np.array([info[:2] for info in self.computation.matrices], dtype=np.int64)
        if (self.subs < 0).any() or (self.subs[:, 0] >= len(sizes)).any():
            raise CheckError("a sub-matrix has a negative size or refers to no matrix")
        inside = ((self.subs[:, 1] + self.rows <= sizes[self.subs[:, 0], 0])
                  & (self.subs[:, 3] + self.cols <= sizes[self.subs[:, 0], 1]))
        if not inside.all() or (self.subs[1:, [2, 4]] == 0).any():
            raise CheckError(f"sub-matrix {np.flatnonzero(~inside)[:1].tolist()} is empty or reaches beyond its matrix")

    def check_ranges(self, kind: CommandType) -> None:
        """Every argument refers to something that exists."""
        computation, info, args = self.computation, COMMANDS[kind], self.table.args[kind]
        limits = {Role.COMPONENT: len(self.nnet.components), Role.PRECOMPUTED: len(computation.precomputed_indexes),
                  Role.NODE: len(self.nnet.nodes), Role.ROWS: len(computation.indexes), Role.FLAG: 2,
                  Role.READ_PAIRS: len(computation.indexes_multi), Role.CHANGED_PAIRS: len(computation.indexes_multi),
                  Role.RANGES: len(computation.indexes_ranges), Role.COMMAND: len(computation.commands),
                  Role.COMPRESSION: 5}
        optional = kind == CommandType.PROPAGATE or kind in _BACKPROPS      # 0: no matrix
        for place, role in enumerate(info.roles):
            column = args[:, place]
            if role in SUBMATRIX_ROLES:
                least = 0 if optional else 1
                self.require((column >= least) & (column < len(self.subs)), kind,
                             f"argument {place + 1} is no sub-matrix")
                if info.whole:
                    whole = np.array([computation.is_whole(s) for s in column.tolist()], bool)
                    self.require(whole, kind, f"argument {place + 1} is not a whole matrix")
            elif role in limits:
                self.require((column >= 0) & (column < limits[role]), kind, f"argument {place + 1} is out of range")

    # -- one check per form of command -----------------------------------------------------------------------------

    def check_swap(self, kind: CommandType) -> None:
        first, second = self.table.args[kind][:, 0], self.table.args[kind][:, 1]
        same_size = (self.rows[first] == self.rows[second]) & (self.cols[first] == self.cols[second])
        self.require(same_size & (first != second), kind, "the two matrices have different sizes, or are the same")

    def check_propagate(self, kind: CommandType) -> None:
        for c, args in zip(self.table.numbers[kind].tolist(), self.table.args[kind].tolist(), strict=True):
            component_index, precomputed, x, y = args[:4]
            component = self.nnet.components[component_index]
            self._check_component(c, component, precomputed, x, y)
            if x == y and not component.has(Properties.PROPAGATE_IN_PLACE):
                raise CheckError(f"command c{c}: this component cannot propagate in place")

    def check_backprop(self, kind: CommandType) -> None:
        for c, args in zip(self.table.numbers[kind].tolist(), self.table.args[kind].tolist(), strict=True):
            component_index, precomputed, x, y, dy, dx = args[:6]
            component = self.nnet.components[component_index]
            self._check_component(c, component, precomputed, dx, dy)
            # A component that is not simple may have no input rows at all.
            lacks_input = component.has(Properties.BACKPROP_NEEDS_INPUT) and component.has(Properties.SIMPLE) and not x
            if lacks_input or (component.has(Properties.BACKPROP_NEEDS_OUTPUT) and not y):
                raise CheckError(f"command c{c}: the component needs a value for its backprop that is not given")
            for value, deriv in ((x, dx), (y, dy)):
                if value and deriv and self.rows[value] != self.rows[deriv]:
                    raise CheckError(f"command c{c}: a value has {self.rows[value]} rows, its derivative "
                                     f"{self.rows[deriv]}")
            if not dx and not component.has(Properties.UPDATABLE):
                raise CheckError(f"command c{c}: Backprop is done but has no effect.")
            if dx == dy and not component.has(Properties.BACKPROP_IN_PLACE):
                raise CheckError(f"command c{c}: this component cannot backpropagate in place")

    def _check_component(self, c: int, component: Component, precomputed: int, x: int, y: int) -> None:
        """``x`` and ``y`` are values or derivatives at the component's input (0: none) and output."""
        simple = component.has(Properties.SIMPLE)
        if simple and precomputed:
            raise CheckError(f"command c{c}: a simple component has precomputed indexes")
        if not y or self.cols[y] != component.output_dim or (x and self.cols[x] != component.input_dim):
            raise CheckError(f"command c{c}: {type(component).__name__} has dimensions {component.input_dim} and "
                             f"{component.output_dim}, its matrices {self.cols[x]} and {self.cols[y]}")
        if simple and x and self.rows[x] != self.rows[y]:
            raise CheckError(f"command c{c}: a simple component has {self.rows[x]} rows of input, "
                             f"{self.rows[y]} of output")

    def check_whole_matrices(self, kind: CommandType) -> None:
        dst, src = self.table.args[kind][:, 0], self.table.args[kind][:, 1]
        self.require((self.rows[dst] == self.rows[src]) & (self.cols[dst] == self.cols[src]), kind, "sizes differ")
        alpha = np.array([self.computation.commands[c].alpha for c in self.table.numbers[kind].tolist()])
        self.require((dst != src) | ((kind == CommandType.MATRIX_COPY) & (alpha != 1.0)), kind,
                     "a matrix is copied or added to itself")

    def check_rows(self, kind: CommandType) -> None:
        dst, src, entry = self.table.args[kind][:, :3].T
        self.require((self.cols[dst] == self.cols[src]) & (dst != src), kind,
                     "columns differ, or the matrices are the same")
        lengths, greatest = self._extent(self.computation.indexes)
        self.require((lengths[entry] == self.rows[dst]) & (greatest[entry] < self.rows[src]), kind,
                     "the row numbers do not fit the matrices")

    def _extent(self, entries: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Length and greatest value of each."""
        return (np.array([len(entry) for entry in entries], np.int64),
                np.array([entry.max(initial=-1) for entry in entries], np.int64))

    def check_rows_multi(self, kind: CommandType) -> None:
        changes = COMMANDS[kind].roles[1] == Role.CHANGED_PAIRS
        for c, (s, entry) in zip(self.table.numbers[kind].tolist(), self.table.args[kind][:, :2].tolist(), strict=True):
            pairs = self.computation.indexes_multi[entry].astype(np.int64)
            real = pairs[pairs[:, 0] >= 0]
            if len(pairs) != self.rows[s]:
                raise CheckError(f"command c{c}: {len(pairs)} pairs for {self.rows[s]} rows")
            if (real[:, 0] == 0).any() or (real[:, 0] >= len(self.subs)).any() or (real < 0).any():
                raise CheckError(f"command c{c}: a pair refers to no sub-matrix")
            if (real[:, 1] >= self.rows[real[:, 0]]).any() or (self.cols[real[:, 0]] != self.cols[s]).any():
                raise CheckError(f"command c{c}: a pair refers to a row that does not exist or has other columns")
            if (real[:, 0] == s).any():
                raise CheckError(f"command c{c}: a sub-matrix is copied or added to itself")
            if changes and len(np.unique(real[:, 0] * (1 << 32) + real[:, 1])) < len(real):
                raise CheckError(f"command c{c}: the same row is changed twice")
        if kind == CommandType.COPY_TO_ROWS_MULTI:
            alphas = [self.computation.commands[c].alpha for c in self.table.numbers[kind].tolist()]
            self.require(np.array(alphas) == 1.0, kind, "this command has no factor")

    def check_row_ranges(self, kind: CommandType) -> None:
        for c, (dst, src, entry) in zip(self.table.numbers[kind].tolist(), self.table.args[kind][:, :3].tolist(),
                                        strict=True):
            ranges = self.computation.indexes_ranges[entry]
            begin, end = ranges[:, 0], ranges[:, 1]
            empty = (begin == -1) & (end == -1)
            if len(ranges) != self.rows[dst] or self.cols[dst] != self.cols[src] or dst == src:
                raise CheckError(f"command c{c}: the ranges or the matrices do not fit each other")
            if not (empty | ((begin >= 0) & (begin < end) & (end <= self.rows[src]))).all():
                raise CheckError(f"command c{c}: a range lies outside of the matrix")

    def check_compress(self, kind: CommandType) -> None:
        alpha = np.array([self.computation.commands[c].alpha for c in self.table.numbers[kind].tolist()])
        types = self.table.args[kind][:, 1]
        self.require((types >= 1) & (alpha >= 0.0) & (alpha <= LARGEST_RANGE) & ((alpha > 0.0) | (types == 2)), kind,
                     "wrong type or range of compression")

    def check_io(self, kind: CommandType) -> None:
        nodes = self.table.args[kind][:, 1].tolist()
        self.require(np.array([self.nnet.is_input(node) or self.nnet.is_output(node) for node in nodes]), kind,
                     "the node is neither an input nor an output")

    def check_goto(self, kind: CommandType) -> None:
        commands = self.computation.commands
        last = self.table.numbers[kind] == len(commands) - 1
        labels = np.array([commands[target].type == CommandType.NO_OPERATION_LABEL
                           for target in self.table.args[kind][:, 0].tolist()])
        self.require(last & labels, kind, "a jump must be the last command and lead to a label")


_Check = Callable[[_ArgumentChecker, CommandType], None]

_CHECKS: dict[CommandType, _Check] = {
    CommandType.SWAP_MATRIX: _ArgumentChecker.check_swap,
    CommandType.PROPAGATE: _ArgumentChecker.check_propagate,
    **dict.fromkeys(_BACKPROPS, _ArgumentChecker.check_backprop),
    **dict.fromkeys((CommandType.MATRIX_COPY, CommandType.MATRIX_ADD), _ArgumentChecker.check_whole_matrices),
    **dict.fromkeys((CommandType.COPY_ROWS, CommandType.ADD_ROWS), _ArgumentChecker.check_rows),
    **dict.fromkeys((CommandType.COPY_ROWS_MULTI, CommandType.ADD_ROWS_MULTI, CommandType.COPY_TO_ROWS_MULTI,
                     CommandType.ADD_TO_ROWS_MULTI), _ArgumentChecker.check_rows_multi),
    CommandType.ADD_ROW_RANGES: _ArgumentChecker.check_row_ranges,
    CommandType.COMPRESS_MATRIX: _ArgumentChecker.check_compress,
    **dict.fromkeys((CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT), _ArgumentChecker.check_io),
    CommandType.GOTO_LABEL: _ArgumentChecker.check_goto,
}
