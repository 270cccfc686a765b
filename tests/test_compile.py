"""From requests to command lists: Kaldi's own listings, the splitting of locations, caching."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from compiler_cases import (
    RNN,
    TDNN,
    assert_same_results,
    product,
    read_request,
    recorded_case,
    recorded_names,
    request,
    run,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import shared_golden
from random_networks import config, few_waves, rows

import nnet3py
from nnet3py.compiler import OptimizeOptions, compile
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import CommandType
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.locations import (
    compact,
    contiguous_ranges,
    only_matrix,
    split_locations,
    split_locations_backward,
)
from nnet3py.errors import CompileError, Nnet3Error, NotComputableError
from nnet3py.network.nnet import Nnet

# In Kaldi the order of two additions of equal weight is that of a hash table.
OTHER_ORDER = {"net-lstm"}
AFFINE = "type=NaturalGradientAffineComponent input-dim=2 output-dim=2"


@pytest.mark.parametrize("name", recorded_names())
def test_listings_are_kaldis(name: str) -> None:
    nnet, asked, expected = recorded_case(name)
    assert compile(nnet, asked, optimize=False).describe(nnet) == expected
    assert compile(nnet, asked, optimize=False, shortcut=False).describe(nnet) == expected


def test_all_recorded_listings_are_kaldis() -> None:
    compared, unknown = 0, []
    for folder in sorted((shared_golden() / "cases").iterdir()):
        listing = folder / "computation-unoptimized.txt"
        if not listing.exists() or folder.name in OTHER_ORDER:
            continue
        try:
            nnet = nnet3py.read_nnet(str(folder / "nnet.raw"))
        except Nnet3Error as error:      # a component type that does not exist yet
            assert "unknown component type" in str(error)
            unknown.append(folder.name)
            continue
        found = compile(nnet, read_request(folder / "request.txt"), optimize=False).describe(nnet)
        assert found == listing.read_text(), folder.name
        compared += 1
    assert compared >= 45, f"not compared: {unknown}"


def test_a_learning_rate_of_zero_stops_derivatives() -> None:
    asked = request(product([0], range(-4, 6)), product([0], range(4)), train=True)
    nnet = Nnet.from_config(TDNN)
    all_trained = generate_computation(nnet, asked)
    nnet.component("a").learning_rate = 0.0
    frozen = generate_computation(nnet, asked)
    assert len(frozen.matrices) == len(all_trained.matrices) - 4      # a_input, a, r_input, r
    backprops = [one for one in frozen.commands if one.type == CommandType.BACKPROP]
    assert [nnet.component_names[one.args[0]] for one in backprops] == ["b"]


def test_an_output_without_derivative_sends_nothing_back() -> None:
    nnet = Nnet.from_config(TDNN + "output-node name=other input=r\n")
    io = nnet3py.IoSpecification
    asked = nnet3py.ComputationRequest(
        [io("input", product([0], range(-4, 6)))],
        [io("output", product([0], range(4)), has_deriv=True), io("other", product([0], range(3)))], True)
    computation = compile(nnet, asked)
    accepted = [one.args[1] for one in computation.commands if one.type == CommandType.ACCEPT_INPUT]
    assert accepted == [nnet.node_index("input"), nnet.node_index("output")]


def test_one_node_with_two_scales_in_a_part_is_an_error() -> None:
    nnet = Nnet.from_config(TDNN.replace("name=output input=b", "name=output input=Sum(b, Scale(0.5, Offset(b, 1)))"))
    with pytest.raises(Nnet3Error, match="scales"):
        compile(nnet, request(product([0], range(-4, 8)), product([0], range(4))))


def test_scales_and_constants_become_factors() -> None:
    nnet = Nnet.from_config(TDNN.replace("name=output input=b",
                                         "name=output input=Sum(Const(2, 2), Sum(Scale(0.5, b), Scale(3, input)))"))
    asked = request(product([0], range(-4, 6)), product([0], range(4)), train=True, input_deriv=True)
    text = compile(nnet, asked, optimize=False).describe(nnet)
    assert "m15.set(2) [dim = 4 x 2];" in text
    assert "m15 += 0.5 * m13" in text
    assert "m15.AddRows(3, m1[4:7])" in text
    assert "m14 += 0.5 * m16" in text


@settings(deadline=None, max_examples=25)
@given(config(component=AFFINE), rows(1, 4), st.booleans())
def test_random_networks_give_sound_computations_with_equal_results(text: str, wanted: dict, input_deriv: bool) -> None:
    nnet = Nnet.from_config(text)
    asked = request(np.array(wanted["input"], np.int32), np.array(wanted["output"], np.int32), True, input_deriv)
    try:
        with few_waves():
            plain = compile(nnet, asked, optimize=False, shortcut=False)
    except (NotComputableError, CompileError):
        return
    check_computation(generate_computation(nnet, asked), nnet, check_rewrite=True, thorough=True)
    assert compile(nnet, asked, optimize=False).describe(nnet) == plain.describe(nnet)
    assert_same_results(run(nnet, plain, asked), run(nnet, compile(nnet, asked), asked))


# -- locations -------------------------------------------------------------------------------------------------------

terms = st.integers(1, 12).flatmap(lambda num_rows: st.lists(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=3), min_size=num_rows, max_size=num_rows))


def as_arrays(lists: list[list[tuple[int, int]]]) -> tuple[np.ndarray, np.ndarray]:
    matrices, numbers = np.full((3, len(lists)), -1), np.full((3, len(lists)), -1)
    for row, pairs in enumerate(lists):
        for k, (matrix, number) in enumerate(pairs):
            matrices[k, row], numbers[k, row] = matrix, number
    return compact(matrices, numbers)


def pairs_of(columns: list, row: int) -> list[tuple[int, int]]:
    return sorted((int(m[row]), int(r[row])) for m, r in columns if m[row] >= 0)


@settings(deadline=None)
@given(terms)
def test_splitting_keeps_every_term(lists: list[list[tuple[int, int]]]) -> None:
    columns = split_locations(*as_arrays(lists))
    for row, pairs in enumerate(lists):
        assert pairs_of(columns, row) == sorted(pairs)
    if len(columns) > 1:
        for matrix in range(1, 4):
            count = sum(pair[0] == matrix for pairs in lists for pair in pairs)
            alone = [c for c in columns if only_matrix(c[0]) == matrix]
            assert count <= len(lists) // 2 or alone


@settings(deadline=None)
@given(terms)
def test_backward_columns_can_be_added_in_one_command(lists: list[list[tuple[int, int]]]) -> None:
    columns = split_locations_backward(*as_arrays(lists))
    for row, pairs in enumerate(lists):
        assert pairs_of(columns, row) == sorted(pairs)
    for matrices, numbers in columns:
        assert (matrices >= 0).any()
        if only_matrix(matrices) >= 0:
            assert contiguous_ranges(numbers, 5) is not None
        else:
            used = [(m, r) for m, r in zip(matrices.tolist(), numbers.tolist(), strict=True) if m >= 0]
            assert len(set(used)) == len(used)


def test_contiguous_ranges() -> None:
    found = contiguous_ranges(np.array([-1, 2, 2, -1, 0, -1]), 4)
    assert found is not None
    assert found.tolist() == [[4, 5], [-1, -1], [1, 3], [-1, -1]]
    assert contiguous_ranges(np.array([1, 0, 1]), 2) is None


# -- the cache -------------------------------------------------------------------------------------------------------


def test_equal_requests_share_a_computation_until_the_network_changes(caplog: pytest.LogCaptureFixture) -> None:
    nnet = Nnet.from_config(RNN)
    compiler = CachingCompiler(nnet, capacity=2)
    first = compiler.compile(request(product([0], range(4)), product([0], range(4))))
    assert compiler.compile(request(product([0], range(4)), product([0], range(4)))) is first
    for length in (5, 6):
        compiler.compile(request(product([0], range(length)), product([0], range(length))))
    assert compiler.compile(request(product([0], range(4)), product([0], range(4)))) is not first     # was dropped
    second = compiler.compile(request(product([0], range(4)), product([0], range(4))))
    nnet.structure_changed()
    assert compiler.compile(request(product([0], range(4)), product([0], range(4)))) is not second
    with caplog.at_level(logging.INFO, logger="nnet3py"):
        compiler.log_time()
    assert "seconds taken in nnet3 compilation total (breakdown: " in caplog.text


def test_a_cache_needs_room_and_options_are_taken() -> None:
    nnet = Nnet.from_config(TDNN)
    with pytest.raises(Nnet3Error, match="cache"):
        CachingCompiler(nnet, capacity=0)
    asked = request(product([0], range(-4, 6)), product([0], range(4)))
    plain = compile(nnet, asked, optimize=OptimizeOptions(convert_addition=False))
    assert any(one.type == CommandType.MATRIX_ADD for one in plain.commands)
    assert not any(one.type == CommandType.MATRIX_ADD for one in compile(nnet, asked).commands)


def test_limits_of_derivatives_count_from_the_last_output() -> None:
    nnet = Nnet.from_config(TDNN)
    asked = request(product([0, 1, 2], range(-4, 6)), product([0, 1, 2], range(4)), train=True)
    relative = CachingCompiler(nnet, OptimizeOptions(min_deriv_time=1, max_deriv_time_relative=-1))
    absolute = CachingCompiler(nnet, OptimizeOptions(min_deriv_time=1, max_deriv_time=2))
    times = [info.indexes[:, 1] for info in relative.compile(asked).debug_info
             if info.is_deriv and nnet.node_names[int(info.nodes[0])] != "output"]
    assert times and min(t.min() for t in times) == 1 and max(t.max() for t in times) == 2
    assert relative.compile(asked).describe(nnet) == absolute.compile(asked).describe(nnet)
