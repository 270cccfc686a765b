"""Each pass alone and all together: sound lists, equal results, and the effect that it is for."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from compiler_cases import RNN, TDNN, assert_same_results, product, request, run
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import config, few_waves, rows

from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.computation import Computation, command
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize import OptimizeOptions, optimize
from nnet3py.compiler.optimize.consolidate import consolidate_io, consolidate_model_update
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.compiler.optimize.row_ops import convert_addition, replace_row_ops
from nnet3py.compiler.optimize.sizing import move_sizing_commands, remove_unnecessary_zeroing
from nnet3py.errors import CompileError, NotComputableError
from nnet3py.network.nnet import Nnet

AFFINE = "type=NaturalGradientAffineComponent input-dim=2 output-dim=2"
SWITCHES = [f.name for f in dataclasses.fields(OptimizeOptions) if f.type == "bool" and f.name != "optimize"]
MERGING = ["remove_assignments", "propagate_in_place", "backprop_in_place"]
WAYS = ["allow_left_merge", "allow_right_merge"]
ALONE = [[name] for name in SWITCHES if name not in MERGING + WAYS] + [[name, *WAYS] for name in MERGING]


def only(names: list[str]) -> OptimizeOptions:
    return OptimizeOptions(**{name: name in names for name in SWITCHES})


def trained(config_text: str, input_deriv: bool = True) -> tuple[Nnet, Computation]:
    nnet = Nnet.from_config(config_text)
    asked = request(product([0, 1, 2], range(-4, 6)), product([0, 1, 2], range(4)), train=True, input_deriv=input_deriv)
    return nnet, generate_computation(nnet, asked)


@pytest.mark.parametrize("names", [*ALONE, SWITCHES], ids=lambda names: names[0] if len(names) < 4 else "all")
@pytest.mark.parametrize("text", [TDNN, RNN])
def test_passes_change_no_result(text: str, names: list[str]) -> None:
    nnet = Nnet.from_config(text)
    asked = request(product([0, 1, 2], range(-4, 6)), product([0, 1, 2], range(4)), train=True, input_deriv=True)
    computation = generate_computation(nnet, asked)
    before = computation.describe(nnet)
    for _, optimized in optimization_steps(computation, nnet, only(names)):
        check_computation(optimized, nnet, thorough=True)
    assert computation.describe(nnet) == before                # a pass leaves what it is given as it is
    assert_same_results(run(nnet, consolidate_io(computation), asked), run(nnet, optimized, asked))


@settings(deadline=None, max_examples=60)
@given(config(component=AFFINE), rows(1, 4), st.sets(st.sampled_from(SWITCHES)).map(sorted))
def test_random_networks_and_passes(text: str, wanted: dict, names: list[str]) -> None:
    nnet = Nnet.from_config(text)
    asked = request(np.array(wanted["input"], np.int32), np.array(wanted["output"], np.int32), True, True)
    try:
        with few_waves():
            computation = generate_computation(nnet, asked)
    except (NotComputableError, CompileError):
        return
    for _, optimized in optimization_steps(computation, nnet, only(names)):
        check_computation(optimized, nnet, thorough=True)
    assert_same_results(run(nnet, consolidate_io(computation), asked), run(nnet, optimized, asked))


def test_every_option_of_kaldi_is_there() -> None:
    options = OptimizeOptions()
    assert all(getattr(options, name) for name in SWITCHES)
    assert (options.min_deriv_time, options.max_deriv_time, options.max_deriv_time_relative) == (
        -2**31, 2**31 - 1, 2**31 - 1)
    assert options.memory_compression_level == 1


def kinds(computation: Computation) -> list[C]:
    return [one.type for one in computation.commands]


def test_consolidation_updates_each_component_once() -> None:
    nnet, computation = trained(RNN)
    one_update = consolidate_model_update(computation, nnet)
    a = nnet.component_index("a")
    updates = [one for one in one_update.commands if one.type == C.BACKPROP and one.args[0] == a]
    assert len(updates) == 1
    rows = one_update.submatrices[updates[0].args[4]].num_rows
    assert rows == sum(computation.submatrices[one.args[4]].num_rows for one in computation.commands
                       if one.type == C.BACKPROP and one.args[0] == a)
    assert updates[0].args[3] == updates[0].args[5] == 0         # needs no output value; wants no input derivative
    assert len(one_update.debug_info) == len(one_update.matrices)
    assert len(one_update.debug_info[-1].nodes) == rows
    check_computation(one_update, nnet, thorough=True)
    plain_nnet, plain = trained(TDNN)
    assert consolidate_model_update(plain, plain_nnet) is plain   # each component has one update already


def test_first_additions_become_copies() -> None:
    nnet, computation = trained(TDNN)
    copies = kinds(convert_addition(computation, nnet))
    assert C.COPY_ROWS in copies and C.MATRIX_COPY in copies
    # In the forward pass every addition is the first; going back, two parts add to the same derivative.
    forward, backward = (copies[:copies.index(C.NO_OPERATION_MARKER)], copies[copies.index(C.NO_OPERATION_MARKER):])
    assert C.ADD_ROWS not in forward and C.MATRIX_ADD not in forward
    assert C.ADD_ROWS in backward


@pytest.mark.parametrize(("rows", "windows"), [
    ([2, 3, 4], ("m2", "m1(2:4, 0:1)")), ([-1, 0, 1], ("m2(1:2, 0:1)", "m1(0:1, 0:1)")),
    ([-1, 4, -1], ("m2(1:1, 0:1)", "m1(4:4, 0:1)")), ([3, -1, -1], ("m2(0:0, 0:1)", "m1(3:3, 0:1)")),
    ([0, -1, 1], None), ([0, 2, 3], None), ([1, 0, -1], None), ([1, 1, 2], None)])
def test_runs_of_rows_become_windows(rows: list[int], windows: tuple[str, str] | None) -> None:
    nnet = Nnet.from_config(TDNN)
    computation = Computation(indexes=[np.array(rows, np.int32)])
    source, target = computation.new_matrix(5, 2), computation.new_matrix(3, 2)
    computation.commands = [command(C.ADD_ROWS, target, source, 0, alpha=0.5)]
    last = replace_row_ops(computation, nnet).describe(nnet).splitlines()[-1]
    if windows is None:
        assert "AddRows(0.5, m1[" in last
    else:
        assert last == f"c0: {windows[0]} += 0.5 * {windows[1]}"


def test_zeroing_stays_only_where_something_is_added() -> None:
    nnet, computation = trained(TDNN)
    zeroed = kinds(computation).count(C.SET_CONST)
    fewer = remove_unnecessary_zeroing(convert_addition(computation, nnet), nnet)
    left = {fewer.submatrices[one.args[0]].matrix for one in fewer.commands if one.type == C.SET_CONST}
    assert len(left) < zeroed / 2
    names = {nnet.node_names[int(fewer.debug_info[m].nodes[0])] for m in left}
    assert names <= {"input", "r", "a_input", "b_input", "output"}
    check_computation(fewer, nnet, thorough=True)


def test_memory_is_held_for_a_shorter_time() -> None:
    nnet, computation = trained(TDNN)

    def most_held(c: Computation) -> int:
        held = most = 0
        for one in c.commands:
            sub = c.submatrices[max(one.args[0], 0)]
            if one.type in (C.ALLOC_MATRIX, C.ACCEPT_INPUT):
                held += sub.num_rows * sub.num_cols
            elif one.type == C.DEALLOC_MATRIX:
                held -= sub.num_rows * sub.num_cols
            most = max(most, held)
        return most

    moved = move_sizing_commands(computation, nnet)
    assert most_held(moved) < most_held(computation)
    assert sorted(moved.commands) == sorted(computation.commands)
    check_computation(moved, nnet, thorough=True)


def test_input_comes_first_and_output_last_in_each_part() -> None:
    marker, permanent = command(C.NO_OPERATION_MARKER), command(C.NO_OPERATION_PERMANENT)
    accept = command(C.ACCEPT_INPUT, 1, 0)
    provide, work, other = command(C.PROVIDE_OUTPUT, 2, 7), command(C.SET_CONST, 1), command(C.ACCEPT_INPUT, 3, 7)
    computation = Computation(commands=[permanent, accept, provide, work, marker, work, provide, other, work])
    assert consolidate_io(computation).commands == [
        accept, permanent, work, provide, marker, other, work, work, provide]


def test_memory_compression_marks_what_waits_for_the_backward_pass() -> None:
    nnet, computation = trained(TDNN)
    sizes = []
    for level in (0, 1, 2):
        marked = optimize(computation, nnet, OptimizeOptions(optimize=False, memory_compression_level=level))
        check_computation(marked, nnet, thorough=True)
        sizes.append(kinds(marked).count(C.COMPRESS_MATRIX))
        assert kinds(marked).count(C.DECOMPRESS_MATRIX) == sizes[-1]
    assert sizes[0] == 0 and sizes[1] == 1 and sizes[2] > 1
