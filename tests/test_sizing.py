"""nnet3py/compiler/optimize/sizing.py: swaps in place of allocations, and matrices with rows added for merging."""
from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from compiler_cases import TDNN, assert_same_results, product, request, run
from fuse_cases import LAYER

from nnet3py.compiler import check
from nnet3py.compiler.check_accesses import parts_are_in_order
from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.computation import Computation, MatrixDebugInfo, command
from nnet3py.compiler.fuse import fuse
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.optimize.consolidate import consolidate_io
from nnet3py.compiler.optimize.passes import optimization_steps, to_kaldi_form
from nnet3py.compiler.optimize.sizing import allocate_from_other, extend_matrices, from_kaldi_form
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.index import NO_TIME
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.binding import plan_memory

NNET = Nnet.from_config(TDNN)


def sizing(text: str, sizes: dict[str, tuple]) -> tuple[Computation, list[str]]:
    """A computation of allocations (``+a``) and deallocations (``-a``), and what the pass makes of it."""
    computation, names = Computation(), list(sizes)
    s = {name: computation.new_matrix(*size) for name, size in sizes.items()}
    kinds = {"+": C.ALLOC_MATRIX, "-": C.DEALLOC_MATRIX}
    computation.commands = [command(kinds[word[0]], s[word[1]]) for word in text.split()]
    found = allocate_from_other(computation, NNET)
    signs = {C.ALLOC_MATRIX: "+", C.DEALLOC_MATRIX: "-", C.SWAP_MATRIX: ""}
    texts = [signs[one.type] + "<".join(names[i - 1] for i in one.args[:2] if i > 0) for one in found.commands]
    return computation, texts if found is not computation else []


def test_pairs() -> None:
    sizes = dict.fromkeys("abcd", (3, 2))
    assert sizing("+a -a +b -b", sizes)[1] == ["+a", "b<a", "-b"]
    assert sizing("+a +b -a -b +c +d", sizes)[1] == ["+a", "+b", "c<b", "d<a"]
    assert sizing("+a -a +b -b +c +d", sizes)[1] == ["+a", "b<a", "c<b", "+d"]


def test_other_sizes_and_order() -> None:
    assert sizing("+a -a +b", {"a": (3, 2), "b": (2, 3)})[1] == []
    assert sizing("+a -a +b", {"a": (3, 2), "b": (3, 2, True)})[1] == []       # contiguous rows, or not
    computation, texts = sizing("+a +b -a", {"a": (3, 2), "b": (3, 2)})
    assert texts == [] and allocate_from_other(computation, NNET) is computation


# -- copies of nearly all rows become copies of all --------------------------------------------------------------------




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


# -- Kaldi's form ------------------------------------------------------------------------------------------------------


def test_swaps_and_marks_of_kaldis_form_are_made_and_taken_back() -> None:
    """A list in Kaldi's form, as from a cache file, is fused into one that needs no more memory than any other."""
    nnet, options = Nnet.from_config(LAYER, 3), OptimizeOptions()
    plain = list(optimization_steps(generate_computation(nnet, training_request(nnet)), nnet, options))[-1][1]
    kaldi = to_kaldi_form(plain, nnet, options)
    assert {C.SWAP_MATRIX, C.COMPRESS_MATRIX, C.DECOMPRESS_MATRIX} <= {one.type for one in kaldi.commands}
    assert to_kaldi_form(kaldi, nnet, options) is kaldi and from_kaldi_form(plain, nnet) is plain
    assert Counter(from_kaldi_form(kaldi, nnet).commands) == Counter(plain.commands)
    fused = [fuse(computation, nnet) for computation in (plain, kaldi)]
    assert fused[0].parts == fused[1].parts and plan_memory(fused[0]).size == plan_memory(fused[1]).size


def training_request(nnet: Nnet) -> ComputationRequest:
    return ComputationRequest([IoSpecification.frames("input", 2, -1, 12)],
                              [IoSpecification.frames("output", 2, 0, 10, has_deriv=True)], need_model_derivative=True)
