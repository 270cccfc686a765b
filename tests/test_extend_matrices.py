"""nnet3py/compiler/optimize/extend_matrices.py: copies of nearly all rows become copies of all."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import TDNN, assert_same_results, product, request, run

from nnet3py.compiler import check
from nnet3py.compiler.check_accesses import parts_are_in_order
from nnet3py.compiler.commands import CommandType as C
from nnet3py.compiler.commands import command
from nnet3py.compiler.computation import Computation, MatrixDebugInfo
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.optimize.consolidate_io import consolidate_io
from nnet3py.compiler.optimize.extend_matrices import extend_matrices
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.index import NO_TIME
from nnet3py.network.nnet import Nnet

NNET = Nnet.from_config(TDNN)


def copying(rows: int = 4, alpha: float = 1.0, first: int = 0, columns: int = 2, target_first: int = 0,
            provided: bool = False) -> Computation:
    """m2(target_first + 0…, 0…) = m1(first…) of m1's 5 rows; m2 has two columns more and as many rows as are copied."""
    computation = Computation()
    source, target = computation.new_matrix(5, 2), computation.new_matrix(rows + target_first, 4)
    window = computation.new_submatrix(source, first, rows, 0, columns)
    part = computation.new_submatrix(target, target_first, rows, 0, columns)
    other = computation.new_submatrix(target, 0, -1, 2, 2)
    computation.commands = [
        command(C.ALLOC_MATRIX, source), command(C.SET_CONST, source, alpha=0.0), command(C.ALLOC_MATRIX, target),
        command(C.SET_CONST, target, alpha=0.0), command(C.MATRIX_COPY, part, window, alpha=alpha),
        command(C.SET_CONST, other, alpha=1.0), command(C.DEALLOC_MATRIX, source)]
    computation.commands.append(command(C.PROVIDE_OUTPUT if provided else C.DEALLOC_MATRIX, target,
                                        *((NNET.node_index("output"),) if provided else ())))
    for info in computation.matrices[1:]:
        n = np.arange(info.num_rows) % 2
        indexes = np.stack((n, np.arange(info.num_rows), 0 * n), axis=1).astype(np.int32)
        computation.debug_info.append(MatrixDebugInfo(np.full(info.num_rows, 3, np.int32), indexes, False))
    return computation


def test_the_matrix_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    found = extend_matrices(copying(), NNET)
    assert [info[:2] for info in found.matrices[1:]] == [(5, 2), (5, 4)]
    copy = next(one for one in found.commands if one.type == C.MATRIX_COPY)
    assert found.is_whole(copy.args[1]) and found.submatrices[copy.args[0]][1:] == (0, 5, 0, 2)
    zeroed = [one.args[0] for one in found.commands if one.type == C.SET_CONST]
    assert [found.is_whole(s) for s in zeroed] == [True, True, False]
    assert found.submatrices[zeroed[2]].num_rows == 4
    info = found.debug_info[2]
    assert info.indexes[-1].tolist() == [1, NO_TIME, 0] and info.nodes.tolist() == [3] * 5
    monkeypatch.setattr(check, "RULES", [rule for rule in check.RULES if rule is not parts_are_in_order])
    check.check_computation(found, NNET, thorough=True)         # a piece of a computation, without inputs and outputs


def test_no_place_to_grow() -> None:
    for computation in (copying(rows=3), copying(alpha=2.0), copying(first=1), copying(columns=1), copying(rows=5),
                        copying(provided=True)):
        assert extend_matrices(computation, NNET) is computation
    part = copying(rows=4, target_first=1)
    assert extend_matrices(part, NNET).matrices[2].num_rows == 6
    shortened = part.copy()
    target = shortened.submatrices[4]._replace(row_offset=0)
    shortened.submatrices[4] = target          # ends before the last row of its matrix
    assert extend_matrices(shortened, NNET) is shortened


def test_results_stay() -> None:
    asked = request(product([0, 1], range(-4, 30)), product([0, 1], range(25)), train=True, input_deriv=True)
    computation = generate_computation(NNET, asked)
    grown = 0
    for name, found in optimization_steps(computation, NNET, OptimizeOptions()):
        check.check_computation(found, NNET, thorough=True)
        grown += name == "extend-matrices" and any((info.indexes[:, 1] == NO_TIME).any() for info in found.debug_info)
    assert grown == 1
    assert_same_results(run(NNET, consolidate_io(computation), asked), run(NNET, found, asked))
