"""nnet3py/compiler/optimize/row_ops.py: row commands on fewer rows, and between whole windows of two matrices."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import TDNN

from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.computation import Computation, command
from nnet3py.compiler.optimize.row_ops import snip_row_ops, split_row_ops
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


# -- commands on rows of one or two matrices become commands on windows ------------------------------------------------




def listing(kind: C, pairs: list[list[int]]) -> list[str]:
    """Commands, as Kaldi prints them, made of one on ``m1`` whose pairs refer to m2 and m3 (sub-matrices 2 and 3)."""
    computation = Computation(indexes_multi=[np.array(pairs, np.int32)])
    a = computation.new_matrix(len(pairs), 2)
    computation.new_matrix(9, 2)
    computation.new_matrix(9, 2)
    computation.commands = [command(kind, a, 0, alpha=1.0 if kind == C.COPY_TO_ROWS_MULTI else 0.5)]
    before = computation.describe(NNET)
    found = split_row_ops(computation, NNET)
    assert computation.describe(NNET) == before
    if found is computation:
        return []
    return [line.split(": ", 1)[1] for line in found.describe(NNET).splitlines() if line.startswith("c")]


RUNS = [[2, 4], [2, 5], [3, 0], [3, 1]]


@pytest.mark.parametrize(("kind", "lines"), [
    (C.ADD_ROWS_MULTI, ["m1(0:1, 0:1) += 0.5 * m2(4:5, 0:1)", "m1(2:3, 0:1) += 0.5 * m3(0:1, 0:1)"]),
    (C.COPY_ROWS_MULTI, ["m1(0:1, 0:1) = 0.5 * m2(4:5, 0:1)", "m1(2:3, 0:1) = 0.5 * m3(0:1, 0:1)"]),
    (C.ADD_TO_ROWS_MULTI, ["m2(4:5, 0:1) += 0.5 * m1(0:1, 0:1)", "m3(0:1, 0:1) += 0.5 * m1(2:3, 0:1)"]),
    (C.COPY_TO_ROWS_MULTI, ["m2(4:5, 0:1) = m1(0:1, 0:1)", "m3(0:1, 0:1) = m1(2:3, 0:1)"])])
def test_two_runs(kind: C, lines: list[str]) -> None:
    assert listing(kind, RUNS) == lines


@pytest.mark.parametrize(("kind", "lines"), [
    (C.ADD_ROWS_MULTI, ["m1.AddRows(0.5, m2(3:5, 0:1)[2, 0])"]),
    (C.COPY_ROWS_MULTI, ["m1.CopyRows(0.5, m2(3:5, 0:1)[2, 0])"]),
    (C.ADD_TO_ROWS_MULTI, ["m2(3:5, 0:1).AddRows(0.5, m1[1, -1, 0])"]),
    (C.COPY_TO_ROWS_MULTI, [])])
def test_rows_close_together(kind: C, lines: list[str]) -> None:
    assert listing(kind, [[2, 5], [2, 3]]) == lines


@pytest.mark.parametrize("pairs", [
    [[2, 0], [3, 0], [2, 1]], [[2, 0], [-1, -1]], [[-1, -1], [2, 0]], [[2, 0], [2, 5]], [[2, 0], [3, 0], [3, 4]]])
def test_kept_as_they_are(pairs: list[list[int]]) -> None:
    assert listing(C.ADD_ROWS_MULTI, pairs) == []
