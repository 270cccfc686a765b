"""nnet3py/compiler/optimize/snip_row_ops.py: row commands without the rows at both ends that get nothing."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import TDNN

from nnet3py.compiler.commands import CommandType as C
from nnet3py.compiler.commands import command
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.optimize.snip_row_ops import snip_row_ops
from nnet3py.network.nnet import Nnet

NNET = Nnet.from_config(TDNN)
NONE = [-1, -1]
LISTS = {C.ADD_ROWS: ("indexes", 2), C.COPY_ROWS: ("indexes", 2), C.ADD_ROW_RANGES: ("indexes_ranges", 2)}


def snipped(kind: C, entry: list) -> tuple[tuple[int, int], list]:
    """The window's first row and size, and what is left of ``entry``, of a command with 5 rows."""
    name, place = LISTS.get(kind, ("indexes_multi", 1))
    computation = Computation(**{name: [np.array(entry, np.int32)]})
    a, b = computation.new_matrix(5, 2), computation.new_matrix(8, 2)
    args = (a, b, 0) if place == 2 else (a, 0)
    computation.commands = [command(kind, *args, alpha=0.5)]
    found = snip_row_ops(computation, NNET)
    one = found.commands[0]
    assert one.type == kind and one.alpha == 0.5 and len(computation.submatrices) == 3
    sub = found.submatrices[one.args[0]]
    assert sub.matrix == 1 and (sub.col_offset, sub.num_cols) == (0, 2)
    return (sub.row_offset, sub.num_rows), getattr(found, name)[one.args[place]].tolist()


def test_rows() -> None:
    assert snipped(C.ADD_ROWS, [-1, 3, -1, 4, -1]) == ((1, 3), [3, -1, 4])
    assert snipped(C.ADD_ROWS, [-1, -1, -1, -1, 0]) == ((4, 1), [0])
    assert snipped(C.ADD_ROWS, [2, -1, -1, -1, -1]) == ((0, 1), [2])


@pytest.mark.parametrize("kind", [C.ADD_ROWS_MULTI, C.ADD_TO_ROWS_MULTI, C.COPY_TO_ROWS_MULTI])
def test_pairs(kind: C) -> None:
    assert snipped(kind, [NONE, [2, 1], NONE, [2, 0], NONE]) == ((1, 3), [[2, 1], NONE, [2, 0]])


def test_ranges() -> None:
    assert snipped(C.ADD_ROW_RANGES, [NONE, NONE, [1, 3], [4, 8], NONE]) == ((2, 2), [[1, 3], [4, 8]])


def test_a_copy_sets_its_other_rows_to_zero() -> None:
    assert snipped(C.COPY_ROWS, [-1, 3, -1, 4, -1]) == ((0, 5), [-1, 3, -1, 4, -1])
    pairs = [NONE, [2, 1], NONE, [2, 0], NONE]
    assert snipped(C.COPY_ROWS_MULTI, pairs) == ((0, 5), pairs)


def test_nothing_to_do() -> None:
    computation = Computation(indexes=[np.array([1, -1, 0], np.int32), np.full(3, -1, np.int32)])
    a, b = computation.new_matrix(3, 2), computation.new_matrix(3, 2)
    computation.commands = [command(C.ADD_ROWS, a, b, 0), command(C.ADD_ROWS, a, b, 1)]
    assert snip_row_ops(computation, NNET) is computation
