"""Shortcut compilation: when it applies, and that it gives what compiling everything gives."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from compiler_cases import RNN, TDNN, assert_same_results, product, read_request, request, run
from component_forms import FORM_NAMES, FORMS, make
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import shared_golden
from random_networks import config, few_waves

import nnet3py
from nnet3py.compiler import compile
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import Computation, MatrixDebugInfo, SubMatrix
from nnet3py.compiler.shortcut import decompose, expand_computation, expand_indexes, n_stride
from nnet3py.errors import CompileError, Nnet3Error, NotComputableError
from nnet3py.index import NO_TIME
from nnet3py.network.nnet import Nnet

AFFINE = "type=NaturalGradientAffineComponent input-dim=2 output-dim=2"
LSTM = """
input-node name=input dim=2
component name=w type=NaturalGradientAffineComponent input-dim=5 output-dim=12
component name=nonlin type=LstmNonlinearityComponent cell-dim=3
component name=trunc type=BackpropTruncationComponent dim=6 clipping-threshold=30 zeroing-threshold=15 \
zeroing-interval=4 recurrence-interval=2
component-node name=w component=w input=Append(input, IfDefined(Offset(m_trunc, -2)))
component-node name=nonlin component=nonlin input=Append(w, IfDefined(Offset(c_trunc, -2)))
component-node name=trunc component=trunc input=nonlin
dim-range-node name=c_trunc input-node=trunc dim-offset=0 dim=3
dim-range-node name=m_trunc input-node=trunc dim-offset=3 dim=3
output-node name=output input=nonlin
"""


def by_blocks(num_sequences: int, times: list[int], stride: int) -> np.ndarray:
    """int32 (rows, 3) of the given stride, which divides the number of times."""
    blocks = [product(range(num_sequences), times[at:at + stride]) for at in range(0, len(times), stride)]
    return np.concatenate(blocks)


def assert_equal(nnet: Nnet, first: Computation, second: Computation) -> None:
    """The same listing, and the same precomputed indexes."""
    assert first.describe(nnet) == second.describe(nnet)
    assert len(first.precomputed_indexes) == len(second.precomputed_indexes)
    for one, other in zip(first.precomputed_indexes, second.precomputed_indexes, strict=True):
        assert type(one) is type(other)
        if one is not None:
            np.testing.assert_equal(dataclasses.asdict(one), dataclasses.asdict(other))


# -- strides and requests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_sequences", "times", "stride"),
                         [(3, 4, 1), (3, 4, 4), (5, 12, 3), (2, 12, 6), (4, 1, 1)])
def test_strides(num_sequences: int, times: int, stride: int) -> None:
    indexes = by_blocks(num_sequences, list(range(-2, times - 2)), stride)
    assert n_stride(indexes) == stride
    two = by_blocks(2, list(range(-2, times - 2)), stride)
    np.testing.assert_array_equal(expand_indexes(two, stride, num_sequences), indexes)


def test_padding_is_regular() -> None:
    indexes = by_blocks(3, [0, 1, 2, 3], 2)
    indexes[6:, 1] = NO_TIME
    assert n_stride(indexes) == 2


@pytest.mark.parametrize("indexes", [
    product([0], range(4)), product([1, 2], range(4)), product([1, 0], range(4)), product([0, 1, 2], range(3))[:-1],
    product([0, 2], range(3)), product([0, 1, 3], range(4)),
    np.concatenate((product([0, 1], [0]), product([0, 1], [1, 2]))),
    np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 2, 0)], np.int32), np.zeros((0, 3), np.int32),
    np.array([(0, 0, 0), (0, 1, 0), (1, 1, 0), (1, 0, 0)], np.int32)])
def test_what_is_irregular_has_no_stride(indexes: np.ndarray) -> None:
    assert n_stride(indexes) == 0


def test_a_request_is_cut_down_to_two_sequences() -> None:
    io = nnet3py.IoSpecification
    asked = nnet3py.ComputationRequest(
        [io("input", by_blocks(5, [0, 1, 2, 3], 2), has_deriv=True), io("ivector", product(range(5), [0]))],
        [io("output", by_blocks(5, [1, 2], 1), has_deriv=True)], need_model_derivative=True, store_component_stats=True)
    expected = nnet3py.ComputationRequest(
        [io("input", by_blocks(2, [0, 1, 2, 3], 2), has_deriv=True), io("ivector", product(range(2), [0]))],
        [io("output", by_blocks(2, [1, 2], 1), has_deriv=True)], need_model_derivative=True, store_component_stats=True)
    assert decompose(asked) == (expected, 5)


@pytest.mark.parametrize(("inputs", "outputs"), [
    (product(range(2), range(4)), product(range(2), range(3))),                    # two sequences: nothing to save
    (product(range(4), range(4)), product(range(3), range(3))),                    # a sequence that is not wanted
    (product([0, 1, 3], range(4)), product([0, 1, 3], range(3))),
    (product(range(3), range(4)), product(range(3), range(3))[::-1]),
    (np.concatenate((product([0], range(5)), product([1, 2], range(4)))), product(range(3), range(3)))])
def test_other_requests_are_compiled_whole(inputs: np.ndarray, outputs: np.ndarray) -> None:
    asked = request(inputs, outputs)
    assert decompose(asked) is None
    nnet = Nnet.from_config(RNN)
    if set(outputs[:, 0]) == set(inputs[:, 0]):
        assert compile(nnet, asked).describe(nnet) == compile(nnet, asked, shortcut=False).describe(nnet)


def test_the_computation_for_two_sequences_is_kept_too() -> None:
    nnet = Nnet.from_config(TDNN)
    compiler = CachingCompiler(nnet)
    two = request(product(range(2), range(-4, 6)), product(range(2), range(4)))
    many = request(product(range(7), range(-4, 6)), product(range(7), range(4)))
    compiler.compile(many)
    assert compiler.compile(two) is compiler.compile(two)
    assert compiler.seconds["shortcut expansion"] > 0
    assert compiler.compile(many).matrices[1].num_rows == 70


# -- the same as without ---------------------------------------------------------------------------------------------


def test_reference_requests_give_the_same_listing() -> None:
    compared = 0
    for folder in sorted((shared_golden() / "cases").iterdir()):
        path = folder / "request.txt"
        if not path.exists():
            continue
        asked = read_request(path)
        if decompose(asked) is None:
            continue
        nnet = nnet3py.read_nnet(str(folder / "nnet.raw"))
        for optimize in (True, False):
            assert_equal(nnet, compile(nnet, asked, optimize), compile(nnet, asked, optimize, shortcut=False))
        compared += 1
    assert compared >= 5


@pytest.mark.parametrize(("type_name", "line"), FORMS, ids=FORM_NAMES)
def test_every_component_gives_the_same(type_name: str, line: str) -> None:
    dim = make(type_name, line).input_dim
    nnet = Nnet.from_config(f"""
        input-node name=input dim={dim}
        component name=c type={type_name} {line}
        component-node name=c component=c input=input
        output-node name=output input=c""")
    times = range(-12, 25)
    for inputs, outputs in ((product(range(4), times), product(range(4), [0, 12])),
                            (by_blocks(3, list(times), 1), by_blocks(3, [0, 12], 1))):
        asked = request(inputs, outputs, train=True, input_deriv=True)
        whole = compile(nnet, asked, shortcut=False)
        found = compile(nnet, asked)
        assert_equal(nnet, found, whole)
        check_computation(found, nnet, thorough=True)


@pytest.mark.parametrize("text", [TDNN, RNN, LSTM])
@pytest.mark.parametrize("stride", [1, 2, 6])
def test_networks_give_the_same(text: str, stride: int) -> None:
    nnet = Nnet.from_config(text)
    asked = request(by_blocks(3, list(range(-4, 8)), stride), by_blocks(3, list(range(6)), stride), True, True)
    for optimize in (True, False):
        whole, found = compile(nnet, asked, optimize, shortcut=False), compile(nnet, asked, optimize)
        assert_equal(nnet, found, whole)
        assert_same_results(run(nnet, whole, asked), run(nnet, found, asked))


@settings(deadline=None, max_examples=60)
@given(config(component=AFFINE), st.integers(3, 5), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]),
       st.booleans())
def test_random_networks_give_the_same(text: str, num_sequences: int, stride: int, output_stride: int,
                                       input_deriv: bool) -> None:
    nnet = Nnet.from_config(text)
    asked = request(by_blocks(num_sequences, list(range(-4, 4)), stride),
                    by_blocks(num_sequences, list(range(4)), output_stride), True, input_deriv)
    try:
        with few_waves():
            whole = compile(nnet, asked, shortcut=False)
    except (NotComputableError, CompileError):
        return
    found = compile(nnet, asked)
    check_computation(found, nnet, thorough=True)
    assert_equal(nnet, found, whole)
    assert_same_results(run(nnet, whole, asked), run(nnet, found, asked))


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small() -> tuple[Nnet, Computation]:
    nnet = Nnet.from_config(TDNN)
    return nnet, compile(nnet, request(product(range(2), range(-4, 6)), product(range(2), range(4))))


def test_a_matrix_without_equal_sequences_is_an_error(small: tuple[Nnet, Computation]) -> None:
    nnet, computation = small
    info = computation.debug_info[1]
    changed = info.indexes.copy()
    changed[3, 1] += 1
    computation.debug_info[1] = MatrixDebugInfo(info.nodes, changed, info.is_deriv)
    with pytest.raises(CompileError, match=r"m1 .*\n?.*--use-shortcut=false"):
        expand_computation(computation, nnet, 3)
    nodes = info.nodes.copy()
    nodes[0] += 1
    computation.debug_info[1] = MatrixDebugInfo(nodes, info.indexes, info.is_deriv)
    with pytest.raises(CompileError, match="m1"):
        expand_computation(computation, nnet, 3)


def test_a_window_that_cuts_sequences_is_an_error(small: tuple[Nnet, Computation]) -> None:
    nnet, computation = small
    computation.submatrices.append(SubMatrix(1, 1, 1, 0, 2))
    with pytest.raises(CompileError, match="does not reach from the first sequence"):
        expand_computation(computation, nnet, 3)


def test_a_row_of_another_sequence_is_an_error(small: tuple[Nnet, Computation]) -> None:
    nnet, computation = small
    rows = computation.indexes[0].copy()
    rows[0] = 10      # the first row of the second sequence of the input
    computation.indexes[0] = rows
    with pytest.raises(Nnet3Error, match="another sequence"):
        expand_computation(computation, nnet, 3)
