"""nnet3py/compiler/optimize/renumber.py: what is unused goes, what is there twice becomes one."""
from __future__ import annotations

import numpy as np
from compiler_cases import RNN, TDNN, assert_same_results, product, request, run

from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.computation import Computation, command
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize.consolidate import consolidate_io
from nnet3py.compiler.optimize.renumber import renumber
from nnet3py.compiler.optimize.row_ops import snip_row_ops, split_row_ops
from nnet3py.network.nnet import Nnet


def rows(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_submatrices_and_matrices() -> None:
    computation = Computation()
    unused, a, b = (computation.new_matrix(n, 2) for n in (9, 4, 5))
    window, same, whole = (computation.new_submatrix(s, 0, n, 0, -1) for s, n in ((b, 2), (b, 2), (a, 4)))
    computation.commands = [command(C.ALLOC_MATRIX, a), command(C.MATRIX_COPY, window, same, alpha=0.5),
                            command(C.SET_CONST, whole), command(C.DEALLOC_MATRIX, a)]
    found = renumber(computation)
    assert [info[:2] for info in found.matrices] == [(0, 0), (4, 2), (5, 2)]
    assert found.submatrices == [(0, 0, 0, 0, 0), (1, 0, 4, 0, 2), (2, 0, 2, 0, 2)]
    assert [one.args[:2] for one in found.commands] == [(1, -1), (2, 2), (1, -1), (1, -1)]
    assert found.commands[1].alpha == 0.5
    assert len(computation.matrices) == 4 and computation.commands[0].args[0] == a and unused == 1


def test_lists_of_rows() -> None:
    computation = Computation(
        indexes=[rows(0, 0), rows(1, 1), rows(0, 0), rows(0, 1)],
        indexes_multi=[np.array([[1, 0]], np.int32), np.array([[3, 1], [-1, -1]], np.int32),
                       np.array([[4, 1], [-1, -1]], np.int32)],
        indexes_ranges=[np.array([[0, 1], [1, 2]], np.int32)] * 2)
    a, b = computation.new_matrix(2, 2), computation.new_matrix(2, 2)
    c, same_as_c = computation.new_submatrix(b, 0, 2, 0, 1), computation.new_submatrix(b, 0, 2, 0, 1)
    assert (c, same_as_c) == (3, 4)
    computation.commands = [
        command(C.ADD_ROWS, a, b, 0), command(C.ADD_ROWS, a, b, 2), command(C.COPY_ROWS, a, b, 3),
        command(C.ADD_ROWS_MULTI, a, 1), command(C.ADD_TO_ROWS_MULTI, a, 2), command(C.ADD_ROW_RANGES, a, b, 1)]
    found = renumber(computation)
    assert [one.args[2] for one in found.commands[:3]] == [0, 0, 1]
    assert [entry.tolist() for entry in found.indexes] == [[0, 0], [0, 1]]
    assert [one.args[1] for one in found.commands[3:5]] == [0, 0]
    assert [entry.tolist() for entry in found.indexes_multi] == [[[3, 1], [-1, -1]]]
    assert found.commands[5].args[2] == 0 and len(found.indexes_ranges) == 1
    assert computation.indexes_multi[2].tolist() == [[4, 1], [-1, -1]]      # arrays are shared and left alone


def test_memos_are_numbered_in_order() -> None:
    computation = Computation()
    a, b = computation.new_matrix(2, 2), computation.new_matrix(2, 2)
    computation.commands = [command(C.PROPAGATE, 0, 0, a, b, 7, 0), command(C.PROPAGATE, 0, 0, a, b, 0, 0),
                            command(C.PROPAGATE, 0, 0, a, b, 3, 0), command(C.BACKPROP, 0, 0, a, b, b, a, 3),
                            command(C.BACKPROP, 0, 0, a, b, b, a, 7)]
    found = renumber(computation)
    assert [one.args[4] for one in found.commands[:3]] == [1, 0, 2]
    assert [one.args[6] for one in found.commands[3:]] == [2, 1]


def test_nothing_to_do() -> None:
    nnet = Nnet.from_config(TDNN)
    computation = renumber(generate_computation(nnet, request(product([0], range(-4, 6)), product([0], range(4)))))
    assert renumber(computation) is computation


def test_results_stay() -> None:
    nnet = Nnet.from_config(RNN)
    asked = request(product([0, 1], range(5)), product([0, 1], range(5)), train=True, input_deriv=True)
    computation = split_row_ops(snip_row_ops(generate_computation(nnet, asked), nnet), nnet)
    found = renumber(computation)
    check_computation(found, nnet, thorough=True)
    assert len(found.indexes) + len(found.indexes_multi) < len(computation.indexes) + len(computation.indexes_multi)
    assert_same_results(run(nnet, consolidate_io(computation), asked), run(nnet, consolidate_io(found), asked))
