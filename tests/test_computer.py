"""nnet3py/runtime/computer.py: what it asks of its caller, and the numbers that come out."""
from __future__ import annotations

import logging
import re
from types import SimpleNamespace

import numpy as np
import pytest
from runtime_cases import (
    LSTM,
    TDNN,
    assert_close,
    computer_for,
    forward_request,
    matrices_for,
    parameters,
    run_both,
    training_request,
)

import nnet3py
from nnet3py.compiler import compile
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.errors import Nnet3Error, NumericError, ShapeError
from nnet3py.network.edits import apply_edits
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.runtime import computer
from nnet3py.runtime.binding import Arena
from nnet3py.runtime.computer import Computer, ComputerCache, check_finite

FINITE_DIFFERENCE = 1e-2  # of the largest derivative: rounding of float32 outputs over twice the step
STEP = 1e-2

# -- protocol ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def ready():
    """A bound TDNN, its gradient, and matrices for it."""
    nnet = Nnet.from_config(TDNN)
    request, gradient = training_request(), nnet.as_gradient()
    return computer_for(nnet, request, gradient), gradient, matrices_for(nnet, request)


def test_unexpected_nodes_are_refused(ready):
    computer, _, given_ = ready
    with pytest.raises(Nnet3Error, match=r"Could not accept input for network node output \(it is not expected at this "
                                         r"point in the computation\) \(expected now: input\)"):
        computer.accept_input("output", given_["output"])
    with pytest.raises(Nnet3Error, match="Could not accept input for network node nobody"):
        computer.accept_input("nobody", given_["input"])
    with pytest.raises(Nnet3Error, match="Could not provide output for network node output .*ready now: nothing"):
        computer.output("output")
    computer.accept_input("input", given_["input"])
    computer.run()
    with pytest.raises(Nnet3Error, match="Could not provide output for network node input .*ready now: output"):
        computer.output("input")
    with pytest.raises(Nnet3Error, match="Could not accept input for network node input .*expected now: output"):
        computer.accept_input("input", given_["input"])


def test_runs_only_with_all_inputs_and_only_to_the_end(ready):
    computer, _, given_ = ready
    with pytest.raises(Nnet3Error, match="Cannot run computation-- we did not get input for node 'input'"):
        computer.run()
    computer.accept_input("input", given_["input"])
    computer.run()
    with pytest.raises(Nnet3Error, match="we did not get input for node 'output'"):
        computer.run()
    computer.accept_input("output", given_["output"])
    computer.run()
    with pytest.raises(Nnet3Error, match="run to its end"):
        computer.run()


@pytest.mark.parametrize(("shape", "message"), [
    ((27, 3), "Num-rows mismatch for input 'input': 28 in computation-request, 27 provided."),
    ((28, 4), "Num-cols mismatch for input 'input': 3 in computation-request, 4 provided."),
    ((28,), "Num-rows mismatch for input 'input': 28 in computation-request, 28 provided."),
    ((), "Num-rows mismatch for input 'input': 28 in computation-request, 0 provided."),
])
def test_wrong_shapes(ready, shape, message):
    with pytest.raises(ShapeError) as caught:
        ready[0].accept_input("input", np.zeros(shape, dtype=np.float32))
    assert message in str(caught.value)


@pytest.mark.parametrize(("value", "text"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_bad_numbers_are_named(ready, value, text):
    computer, _, given_ = ready
    given_["input"][5, 2] = given_["input"][9, 0] = value
    with pytest.raises(NumericError, match=rf"input 'input' has {text} in row 5, column 2 \(2 such elements\)"):
        computer.accept_input("input", given_["input"])
    with pytest.raises(Nnet3Error, match="did not get input"):   # it was not taken
        computer.run()


def test_numbers_too_large_for_float32_are_named(ready):
    computer, _, given_ = ready
    large = given_["input"].astype(np.float64)
    large[4, 1] = 1e300
    with pytest.raises(NumericError, match="row 4, column 1"):
        computer.accept_input("input", large)


def test_opposite_infinities_and_large_sums():
    check_finite(np.full((3, 3), 3e38, dtype=np.float32), "x")
    with pytest.raises(NumericError, match="row 0, column 1"):
        check_finite(np.array([[0.0, np.inf], [-np.inf, 0.0]]), "x")


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_inputs_of_any_type_and_layout(dtype):
    nnet, request = Nnet.from_config(TDNN), forward_request()
    whole = np.round(matrices_for(nnet, request)["input"] * 3)
    expected = computer_for(nnet, request)
    expected.accept_input("input", whole)
    expected.run()
    for layout in (np.asfortranarray(whole.astype(dtype)), np.repeat(whole, 2, axis=0).astype(dtype)[::2]):
        computer = computer_for(nnet, request)
        computer.accept_input("input", layout)
        computer.run()
        np.testing.assert_array_equal(computer.output("output"), expected.output("output"))


def test_output_is_a_copy_and_can_be_read_again(ready):
    computer, _, given_ = ready
    computer.accept_input("input", given_["input"])
    computer.run()
    first = computer.output("output")
    kept = first.copy()
    first[:] = 7
    np.testing.assert_array_equal(computer.output("output"), kept)
    assert first.dtype == np.float32 and first.flags.c_contiguous and first.flags.writeable


def test_an_output_need_not_be_copied(ready):
    computer, _, given_ = ready
    computer.accept_input("input", given_["input"])
    computer.run()
    mine, kept = computer.output("output", copy=False), computer.output("output")
    assert isinstance(mine, np.ndarray) and mine.dtype == np.float32
    np.testing.assert_array_equal(mine, kept)
    if isinstance(computer.output_view("output"), np.ndarray):        # on a GPU it is copied all the same
        assert np.shares_memory(mine, computer.output("output", copy=False))
    assert not np.shares_memory(kept, computer.output("output"))


def test_model_derivative_needs_something_to_update():
    nnet = Nnet.from_config(TDNN)
    with pytest.raises(Nnet3Error, match="updates a model, but none was given.*update=nnet.as_gradient"):
        Computer(compile(nnet, training_request()), nnet)


def test_input_derivatives_need_no_update():
    nnet = Nnet.from_config(TDNN)
    both, alone = training_request(), training_request(model_deriv=False)
    given_ = matrices_for(nnet, both)
    _, expected = run_both(computer_for(nnet, both, nnet.as_gradient()), given_)
    _, found = run_both(computer_for(nnet, alone), given_)
    assert_close(found, expected)


@pytest.mark.parametrize("edited", ["nnet", "gradient"])
def test_structural_edits_stop_it(edited):
    nnet, request = Nnet.from_config(TDNN), training_request()
    gradient = nnet.as_gradient()
    computer, given_ = computer_for(nnet, request, gradient), matrices_for(nnet, request)
    computer.accept_input("input", given_["input"])
    apply_edits(nnet if edited == "nnet" else gradient, "rename-node old-name=a new-name=b2")
    for call in (computer.run, computer.restart, lambda: computer.accept_input("input", given_["input"])):
        with pytest.raises(Nnet3Error, match="was edited after this computation was bound.*compile and bind again"):
            call()


def test_values_may_be_edited_between_runs():
    nnet, request = Nnet.from_config(TDNN), forward_request()
    computer, given_ = computer_for(nnet, request), matrices_for(nnet, request)
    nnet.component("c").parameters()["bias_params"][:] += np.float32(0.5) * np.arange(4, dtype=np.float32)
    computer.accept_input("input", given_["input"])
    computer.run()
    fresh = computer_for(nnet, request)
    fresh.accept_input("input", given_["input"])
    fresh.run()
    np.testing.assert_array_equal(computer.output("output"), fresh.output("output"))


# -- again and together ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TDNN, LSTM])
def test_running_again_is_like_a_fresh_one(text):
    nnet, request = Nnet.from_config(text), training_request()
    used_gradient, gradient = nnet.as_gradient(), nnet.as_gradient()
    used = computer_for(nnet, request, used_gradient)
    run_both(used, matrices_for(nnet, request, seed=1))
    used.accept_input("input", matrices_for(nnet, request, seed=2)["input"])   # a pass that is given up half way
    used.run()
    used.restart()
    used_gradient.scale(0.0)
    given_ = matrices_for(nnet, request, seed=3)
    for found, expected in zip(run_both(used, given_), run_both(computer_for(nnet, request, gradient), given_),
                               strict=True):
        np.testing.assert_array_equal(found, expected)
    for name, value in parameters(gradient).items():
        np.testing.assert_array_equal(parameters(used_gradient)[name], value, err_msg=name)


def test_computers_share_an_arena():
    nnet = Nnet.from_config(LSTM)
    ops = get_ops("cpu")
    arena = Arena(ops)
    requests = [training_request(1), training_request(5), training_request(2)]
    computers = [computer_for(nnet, r, nnet.as_gradient(), ops=ops, arena=arena) for r in requests]
    size = arena.buffer.size
    for i in (0, 1, 2, 0, 1):
        given_ = matrices_for(nnet, requests[i], seed=i)
        alone = run_both(computer_for(nnet, requests[i], nnet.as_gradient()), given_)
        computers[i].restart()
        for found, expected in zip(run_both(computers[i], given_), alone, strict=True):
            np.testing.assert_array_equal(found, expected)
    assert arena.buffer.size == size


def test_gradients_add_up_over_runs():
    nnet, request = Nnet.from_config(TDNN), training_request()
    gradient = nnet.as_gradient()
    computer, given_ = computer_for(nnet, request, gradient), matrices_for(nnet, request)
    run_both(computer, given_)
    once = parameters(gradient)
    run_both(computer, given_)
    for name, value in parameters(gradient).items():
        assert_close(value, 2 * once[name])


@pytest.mark.parametrize("text", [TDNN, LSTM])
def test_update_in_place_is_a_step_along_the_gradient(text):
    """Without natural gradient; with the model updated in one go at the end, as after optimization."""
    request, rate = training_request(), 0.1
    nnet, trained = Nnet.from_config(text), Nnet.from_config(text)
    gradient, given_ = nnet.as_gradient(), matrices_for(nnet, request)
    run_both(computer_for(nnet, request, gradient), given_)
    run_both(computer_for(trained, request, trained), given_)
    before, slope, after = parameters(nnet), parameters(gradient), parameters(trained)
    for name, value in before.items():
        if not name.startswith("cell."):      # its update has a natural gradient of its own
            assert_close(after[name] - value, rate * slope[name], tolerance=1e-4)   # a difference of rounded numbers
    assert any(np.abs(value).max() > 1e-2 for value in slope.values())


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TDNN, LSTM])
def test_derivatives_by_finite_differences(text):
    """Along random directions of the input and of each component's parameters."""
    nnet, request = Nnet.from_config(text), training_request()
    gradient, given_ = nnet.as_gradient(), matrices_for(nnet, request)
    _, input_deriv = run_both(computer_for(nnet, request, gradient), given_)
    forward, rng = computer_for(nnet, forward_request()), np.random.default_rng(0)

    def objective() -> float:
        forward.restart()
        forward.accept_input("input", given_["input"])
        forward.run()
        return float(np.vdot(forward.output("output").astype(np.float64), given_["output"]))

    places = [(given_["input"], input_deriv)]
    places += [(value, gradient.component(name).parameters()[key]) for name in nnet.component_names
               for key, value in nnet.component(name).parameters().items()]
    for value, slope in places:
        for _ in range(3):
            start = value.copy()
            direction = rng.standard_normal(value.shape).astype(np.float32)
            direction /= np.linalg.norm(direction)
            value += STEP * direction
            high = objective()
            value[...] = start - STEP * direction
            low = objective()
            value[...] = start
            assert abs((high - low) / (2 * STEP) - np.vdot(slope, direction)) <= FINITE_DIFFERENCE * max(
                float(np.linalg.norm(slope)), 1.0)


def test_each_sequence_is_computed_for_itself():
    nnet, request = Nnet.from_config(LSTM), forward_request(4)
    given_ = matrices_for(nnet, request)["input"]
    together = computer_for(nnet, request)
    together.accept_input("input", given_)
    together.run()
    for n in range(4):
        alone = computer_for(nnet, forward_request(1))
        alone.accept_input("input", given_[n::4])
        alone.run()
        assert_close(together.output("output")[n::4], alone.output("output"))


# -- one computer per request, the most recently used kept -------------------------------------------------------------


def cache_of(nnet: Nnet, capacity: int = 64, update: Nnet | None = None) -> ComputerCache:
    return ComputerCache(nnet, CachingCompiler(nnet), update=update, capacity=capacity)


def test_equal_requests_get_the_same_computer_ready_to_start():
    nnet = Nnet.from_config(TDNN)
    cache, request = cache_of(nnet), forward_request()
    given = matrices_for(nnet, request)["input"]
    computer = cache.computer(request)
    computer.accept_input("input", given)
    computer.run()
    first = computer.output("output")
    again = cache.computer(forward_request())
    assert again is computer
    with pytest.raises(Nnet3Error, match="not expected at this point"):
        again.output("output")
    again.accept_input("input", given)
    again.run()
    np.testing.assert_array_equal(again.output("output"), first)


def test_computations_of_all_sizes_share_the_arena():
    nnet = Nnet.from_config(TDNN)
    cache = cache_of(nnet, update=nnet.as_gradient())
    for n in (1, 4, 2, 4, 1):
        request = training_request(n)
        given = matrices_for(nnet, request, seed=n)
        alone = run_both(computer_for(nnet, request, nnet.as_gradient()), given)
        for found, expected in zip(run_both(cache.computer(request), given), alone, strict=True):
            np.testing.assert_array_equal(found, expected)
    sizes = [computer._bound.plan.size for computer in cache._computers.values()]
    assert len(sizes) == 3 and cache.arena.buffer.size == max(sizes)


def test_the_least_recently_used_goes():
    nnet = Nnet.from_config(TDNN)
    cache = cache_of(nnet, capacity=2)
    one, two = cache.computer(forward_request(1)), cache.computer(forward_request(2))
    assert cache.computer(forward_request(1)) is one
    cache.computer(forward_request(3))                       # two goes
    assert cache.computer(forward_request(1)) is one
    assert cache.computer(forward_request(2)) is not two


def test_a_structural_edit_is_not_overlooked():
    nnet = Nnet.from_config(TDNN)
    cache = cache_of(nnet)
    cache.computer(forward_request())
    apply_edits(nnet, "rename-node old-name=a new-name=b2")
    with pytest.raises(Nnet3Error, match="was edited after"):
        cache.computer(forward_request())


# -- the log of a computation, command by command ----------------------------------------------------------------------


CONFIG = """
input-node name=input dim=3
component name=r type=RectifiedLinearComponent dim=4
component name=a type=AffineComponent input-dim=6 output-dim=4
component-node name=a component=a input=Append(input, Offset(input, 1))
component-node name=r component=r input=a
output-node name=output input=r
"""


def run_with_debug(caplog, debug: bool) -> tuple[np.ndarray, np.ndarray, list[str]]:
    nnet = nnet3py.Nnet.from_config(CONFIG, seed=3)
    t = np.arange(5)
    indexes = np.stack([0 * t, t, 0 * t], axis=1)
    request = nnet3py.ComputationRequest([nnet3py.IoSpecification("input", indexes, has_deriv=True)],
                                         [nnet3py.IoSpecification("output", indexes[:4], has_deriv=True)],
                                         need_model_derivative=True)
    gradient = nnet.as_gradient()
    computer = Computer(nnet3py.compile(nnet, request), nnet, update=gradient, debug=debug)
    with caplog.at_level(logging.INFO, logger="nnet3py.runtime.computer"):
        computer.accept_input("input", np.random.default_rng(1).standard_normal((5, 3)))
        computer.run()
        output = computer.output("output")
        computer.accept_input("output", np.ones((4, 4)))
        computer.run()
    return output, computer.output("input"), [record.getMessage() for record in caplog.records]


def test_a_line_for_each_command_with_sizes_before_and_after(caplog):
    _, _, lines = run_with_debug(caplog, debug=True)
    traced = [line for line in lines if re.match(r"c\d+: ", line)]
    assert any("a.Propagate(" in line for line in traced) and any("a.Backprop(" in line for line in traced)
    for line in traced:
        command, changes, elapsed = line.split("\t|\t")
        assert command and re.fullmatch(r"(\S+(, \S+)?: \S+->\S+ ?)+", changes)
        assert re.fullmatch(r" time: \S+ secs", elapsed)
    parts = [line for line in traced if re.search(r"m\d+\(", line.split("\t|\t")[1])]
    assert parts and len(parts) < len(traced)
    for line in parts:                    # of a part, the whole matrix and the part; else the matrix only
        assert re.search(r"(^|, | )m(\d+): \S+ m\2\([0-9:]+, [0-9:]+\): ", line.split("\t|\t")[1])
    update = next(line for line in traced if "[component-pointer]" in line and line.split(": ", 1)[1].startswith("a."))
    assert re.search(r" a: 0->[0-9.e-]+", update) or re.search(r"\ta: 0->[0-9.e-]+", update)


def test_results_do_not_depend_on_it(caplog):
    output, deriv, _ = run_with_debug(caplog, debug=True)
    plain_output, plain_deriv, _ = run_with_debug(caplog, debug=False)
    np.testing.assert_array_equal(output, plain_output)
    np.testing.assert_array_equal(deriv, plain_deriv)


def test_what_a_matrix_holds_before_it_is_set_does_not_disturb():
    """A matrix that is only allocated holds whatever was in memory: here, what makes squaring complain."""
    signaling_nan = 0x7F800001
    value = np.full((2, 3), signaling_nan, np.uint32).view(np.float32)
    with np.errstate(all="raise"):
        assert np.isnan(computer._rms(SimpleNamespace(copy_out=np.array), value))
