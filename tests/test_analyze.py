"""Variables, accesses and the optimizer's questions, on a small list of commands."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import TDNN

from nnet3py.compiler.analyze import READ, READ_WRITE, WRITE, Analysis
from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.computation import Computation, command
from nnet3py.network.nnet import Nnet


@pytest.fixture
def analysis() -> Analysis:
    made = Computation()
    given = made.new_matrix(4, 6)                      # 1
    work = made.new_matrix(4, 6)                       # 2
    result = made.new_matrix(4, 3)                     # 3
    left = made.new_submatrix(work, 0, -1, 0, 2)       # 4
    right = made.new_submatrix(work, 0, -1, 2, 4)      # 5
    part = made.new_submatrix(given, 0, -1, 0, 2)      # 6
    rest = made.new_submatrix(given, 0, -1, 2, 4)      # 7
    made.new_submatrix(result, 0, 1, 0, 3)       # 8
    made.indexes = [np.array([0, 1, 2, 3]), np.array([0, -1, 2, 3])]
    made.indexes_multi = [np.array([[8, 0], [8, 0], [-1, -1], [8, 0]])]
    made.commands = [
        command(C.ACCEPT_INPUT, given, 0),             # 0
        command(C.ALLOC_MATRIX, work),                 # 1
        command(C.SET_CONST, work, alpha=0.0),         # 2
        command(C.MATRIX_ADD, left, part),             # 3
        command(C.COPY_ROWS, right, rest, 1),          # 4
        command(C.ALLOC_MATRIX, result),               # 5
        command(C.PROPAGATE, 0, 0, work, result, 0, 0),  # 6
        command(C.DEALLOC_MATRIX, work),               # 7
        command(C.ADD_ROWS_MULTI, result, 0),          # 8
        command(C.PROVIDE_OUTPUT, result, 7),          # 9
    ]
    return Analysis(made, Nnet.from_config(TDNN))


def accesses(analysis: Analysis, s: int) -> list[list[tuple[int, int]]]:
    return [list(zip(*(a.tolist() for a in analysis.accesses.of(v)), strict=True))
            for v in analysis.variables.of(s).tolist()]


def test_variables_are_the_pieces_that_submatrices_cut(analysis: Analysis) -> None:
    assert analysis.variables.count == 6
    assert [analysis.variables.of(s).tolist() for s in range(9)] == [
        [], [0, 1], [2, 3], [4, 5], [2], [3], [0], [1], [4]]
    assert [analysis.variables.text(v) for v in range(6)] == [
        "m1(:,0:1)", "m1(:,2:5)", "m2(:,0:1)", "m2(:,2:5)", "m3(0:0,:)", "m3(1:3,:)"]


def test_accesses(analysis: Analysis) -> None:
    assert accesses(analysis, 4) == [[(2, WRITE), (3, READ_WRITE), (6, READ)]]
    assert accesses(analysis, 5) == [[(2, WRITE), (4, READ_WRITE), (6, READ)]]     # row 1 is not copied
    assert accesses(analysis, 6) == [[(0, WRITE), (3, READ)]]
    assert accesses(analysis, 3) == [[(6, WRITE), (8, READ_WRITE), (9, READ)]] * 2
    commands, kinds = analysis.matrix_accesses.of(2)
    assert commands.tolist() == [2, 3, 4, 6]
    assert kinds.tolist() == [WRITE, READ_WRITE, READ_WRITE, READ]


def test_sizing(analysis: Analysis) -> None:
    assert analysis.allocated.tolist() == [-1, 0, 1, 5]
    assert analysis.freed.tolist() == [-1, -1, 7, -1]
    assert analysis.is_input.tolist() == [False, True, False, False]
    assert analysis.is_output.tolist() == [False, False, False, True]


def test_first_accesses(analysis: Analysis) -> None:
    assert analysis.first_nontrivial_accesses().tolist() == [10, 0, 3, 6, 3, 4, 0, 0, 6]
