"""Numbers of jobs, learning rates, dropout, models to combine: against values worked out by hand, and properties."""
from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import DATA

from nnet3py.drivers.schedules import (
    DropoutSchedule,
    Plan,
    accepted_jobs,
    archive_and_pass,
    halved_minibatch_size,
    models_to_combine,
    presoftmax_prior_scale,
    proportional_shrink,
    saturation,
)
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.model_info import info
from nnet3py.network.model_file import read_nnet

EXACT = 1e-12           # double arithmetic in another order
SHOWN_DIGITS = 2e-3     # nnet3-info shows three digits of a mean derivative


def plan(archives: int = 3, passes: int = 8, epochs: float = 0.5, jobs: tuple[int, int, int] = (1, 2, 1)) -> Plan:
    return Plan(archives, passes, epochs, *jobs, 0.0003, 0.00003)


def test_a_plan_worked_by_hand() -> None:
    worked = plan()
    assert (worked.expanded_archives, worked.to_process, worked.num_iters) == (24, 12, 8)
    assert [worked.jobs(number) for number in range(8)] == [1, 1, 1, 1, 2, 2, 2, 2]      # 1.5 at iteration 4
    assert [worked.processed(number) for number in range(9)] == [0, 1, 2, 3, 4, 6, 8, 10, 12]
    assert worked.learning_rate(0) == 0.0003
    assert worked.learning_rate(1) == pytest.approx(0.0003 * 10 ** (-1 / 12), rel=EXACT)
    assert worked.learning_rate(4) == pytest.approx(2 * 0.0003 * 10 ** (-4 / 12), rel=EXACT)
    assert worked.learning_rate(7) == 2 * 0.00003                                         # the last is the final one
    assert models_to_combine(worked, 20) == [5, 6, 7, 8]
    assert models_to_combine(worked, 3) == [5, 6, 7, 8]     # 7 of 4 allowed: every (4 // 3)-th


def test_jobs_in_steps() -> None:
    stepped = plan(archives=20, epochs=10, jobs=(2, 16, 4))
    numbers = [stepped.jobs(number) for number in range(stepped.num_iters)]
    assert numbers[0] == 2 and numbers[-1] == 16
    assert {number % 4 for number in numbers if number >= 4} == {0}
    assert 3 in numbers         # below a step they are rounded to whole numbers


def test_combining_of_a_long_training_leaves_models_out() -> None:
    long = plan(archives=100, passes=8, epochs=4, jobs=(2, 4, 1))
    assert long.num_iters == 1066
    chosen = models_to_combine(long, 20)           # half an epoch is 101 models; every 5th of them, and the last
    assert chosen[0] == 1066 - 101 + 1 and chosen[1] - chosen[0] == 5 and chosen[-1] == 1066
    assert len(chosen) == 21


def test_one_iteration_is_combined_with_nothing() -> None:
    assert models_to_combine(plan(archives=1, passes=1, epochs=1, jobs=(1, 1, 1)), 20) == [1]


@given(st.integers(1, 30), st.integers(1, 8), st.floats(0.5, 20), st.integers(1, 8), st.integers(1, 8),
       st.integers(1, 40))
@settings(max_examples=60)
def test_plans_use_up_the_data(archives: int, passes: int, epochs: float, first: int, last: int,
                               max_models: int) -> None:
    try:
        any_plan = plan(archives, passes, epochs, (first, last, 1))
    except UsageError:
        assert max(first, last) > archives or epochs * archives * passes * 2 / (first + last) < 1 + max(first, last)
        return
    num_iters = any_plan.num_iters
    assert {any_plan.jobs(number) for number in range(num_iters)} <= set(range(min(first, last), max(first, last) + 1))
    assert abs(any_plan.processed(num_iters) - any_plan.to_process) <= num_iters + first + last
    rates = [any_plan.learning_rate(number) / any_plan.jobs(number) for number in range(num_iters)]
    assert all(after <= before * (1 + EXACT) or number == num_iters - 2
               for number, (before, after) in enumerate(zip(rates, rates[1:], strict=False)))
    chosen = models_to_combine(any_plan, max_models)
    assert chosen == sorted(set(chosen)) and chosen[-1] == num_iters and chosen[0] >= 1


@given(st.integers(1, 12), st.integers(1, 8))
def test_an_epoch_goes_through_every_frame_of_every_archive(archives: int, passes: int) -> None:
    seen = [archive_and_pass(number, archives, passes) for number in range(archives * passes)]
    assert sorted(seen) == [(archive, frame) for archive in range(1, archives + 1) for frame in range(passes)]
    assert seen[0] == (1, 1 % passes)


@pytest.mark.parametrize("change, what", [
    ({"archives": 1}, "more than the 1 archives"), ({"epochs": 0.01}, "less than one iteration")])
def test_plans_that_cannot_be(change: dict, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        plan(**change)



def test_proportional_shrink() -> None:
    assert proportional_shrink(0.0, 0.1) == 1.0
    assert proportional_shrink(10.0, 0.004) == pytest.approx(0.96, rel=EXACT)
    with pytest.raises(UsageError, match=r"by 0\.5; expected above 0\.5"):
        proportional_shrink(125.0, 0.004)


def test_dropout_schedules_of_the_sheet() -> None:
    schedule = DropoutSchedule("*=0.0,0.5,0.0 lstm.*=0.0,0.3@0.75,0.0")
    assert schedule.proportions(0.25) == [("*", 0.25), ("lstm.*", pytest.approx(0.1, rel=EXACT))]
    assert schedule.edits(1.0) == ("set-dropout-proportion name=* proportion=0.0;"
                                   "set-dropout-proportion name=lstm.* proportion=0.0")
    flat = DropoutSchedule("0,0.3@0.20,0.3@0.50,0")
    assert [flat.proportions(x)[0][1] for x in (0.0, 0.1, 0.2, 0.4, 0.5, 0.75, 1.0)] == pytest.approx(
        [0.0, 0.15, 0.3, 0.3, 0.3, 0.15, 0.0], rel=EXACT)


def test_dropout_values_without_a_place_stand_in_the_middle() -> None:
    two = DropoutSchedule("0.1,0.4,0.8,0.2")
    assert two.proportions(0.5)[0][1] == 0.8            # both at 0.5: the later one holds
    assert two.proportions(0.25)[0][1] == pytest.approx(0.25, rel=EXACT)
    assert DropoutSchedule("0.5,0.1").proportions(0.5)[0][1] == pytest.approx(0.3, rel=EXACT)


@pytest.mark.parametrize("text", ["", "0.5", "0,2", "0,-0.1", "0,x", "0,0.3@0.6,0.3@0.4,0", "0,0.3@1.5,0", "=0,1",
                                  "0@0.1,0", "0,nan", "a=0"])
def test_dropout_schedules_that_cannot_be(text: str) -> None:
    with pytest.raises(UsageError, match="dropout-schedule"):
        DropoutSchedule(text)


@pytest.mark.parametrize("text, half", [
    ("512", "256"), ("1", "1"), ("64:128,7", "32:64,3"), ("128=64:32,16/256=40", "128=32:16,8/256=20")])
def test_halved_minibatches(text: str, half: str) -> None:
    assert halved_minibatch_size(text) == half


def test_jobs_far_below_the_best_are_left_out() -> None:
    assert accepted_jobs({1: -2.0, 2: -1.5, 3: -2.6, 4: -2.5}) == ([1, 2, 4], 2)     # exactly 1 below is accepted
    assert accepted_jobs({1: float("nan"), 2: -3.0}) == ([2], 2)
    assert accepted_jobs({1: float("-inf"), 2: float("nan")}) == ([1, 2], 1)


def test_prior_scales_are_one_on_average() -> None:
    scales = presoftmax_prior_scale([100.9, 400, 0], -0.25)
    raw = [(count + 0.01 * 500 / 3) ** -0.25 for count in (100, 400, 0)]
    assert scales == pytest.approx([3 * one / sum(raw) for one in raw], rel=EXACT)
    assert math.isclose(sum(scales) / 3, 1.0)
    with pytest.raises(Nnet3Error, match="no class occurs"):
        presoftmax_prior_scale([0, 0], -0.25)


PERCENTILES = "percentiles(0,1,2,5 10,20,50,80,90 95,98,99,100)=(0,0,0,0 0,0,0,0,0 0,0,0,0)"


def test_saturation_of_sigmoids_tanhs_and_cells() -> None:
    def statistics(mean: float) -> str:
        return f"value-avg=[{PERCENTILES}, mean=0.5, stddev=0.1], deriv-avg=[{PERCENTILES}, mean={mean}, stddev=0.1]"

    sigmoid = f"component name=s type=SigmoidComponent, dim=20, count=3, {statistics(0.1)}"
    tanh = f"component name=t type=TanhComponent, dim=20, count=3, {statistics(0.3)}"
    relu = f"component name=r type=RectifiedLinearComponent, dim=20, count=3, {statistics(0.01)}"
    short = "component name=u type=TanhComponent, dim=2, count=3, deriv-avg=[ 0.1 0.2 ]"
    cell = ("component name=c type=LstmNonlinearityComponent, cell-dim=12, "
            f"i_t_sigmoid={{ {statistics(0.2)} }}, c_t_tanh={{ {statistics(0.6)} }}")
    assert saturation(sigmoid) == pytest.approx(0.6)
    assert saturation("\n".join([sigmoid, tanh, relu, short])) == pytest.approx((0.6 + 0.7) / 2)
    assert saturation(cell) == pytest.approx((0.2 + 0.4) / 2)
    assert saturation(relu) == 0.0


def test_saturation_of_a_trained_cell() -> None:
    """What nnet3-info prints is understood: each of the five gates counts as the statistics in the file have it."""
    nnet = read_nnet(str(DATA / "nets" / "net-lstm" / "updated.raw"))
    cell = nnet.component("lstm1.lstm_nonlin")
    largest = [0.25, 0.25, 1.0, 0.25, 1.0]            # gates i, f, c, o, m
    means = cell.deriv_sum.mean(axis=1) / cell.count
    expected = sum(1.0 - mean / bound for mean, bound in zip(means, largest, strict=True)) / 5
    assert saturation(info(nnet)) == pytest.approx(expected, abs=SHOWN_DIGITS)
