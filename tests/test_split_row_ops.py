"""nnet3py/compiler/optimize/split_row_ops.py: commands on rows of one or two matrices become commands on windows."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import TDNN

from nnet3py.compiler.commands import CommandType as C
from nnet3py.compiler.commands import command
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.optimize.split_row_ops import split_row_ops
from nnet3py.network.nnet import Nnet

NNET = Nnet.from_config(TDNN)


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
