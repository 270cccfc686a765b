"""nnet3py/runtime/stage_runners.py: recorded operations repeat what was called; what cannot be repeated is not."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from nnet3py.ops import get_ops
from nnet3py.runtime.stage_runners import RecordedStage, RecordingOps

Work = Callable[[RecordingOps, np.ndarray, np.ndarray], None]


@pytest.fixture
def ops() -> RecordingOps:
    get_ops("cpu")                      # threads are set up
    return RecordingOps()


def doubled_in_scratch(ops: RecordingOps, y: np.ndarray, x: np.ndarray) -> None:
    ops.reset_scratch()
    between = ops.scratch(*x.shape)
    ops.copy_mat(between, x, 1.0)
    ops.add_mat(between, x, 1.0)
    ops.copy_mat(y, between, 1.0)


def drawn(ops: RecordingOps, y: np.ndarray, x: np.ndarray) -> None:
    ops.random.fill_uniform(y)


def through_the_host(ops: RecordingOps, y: np.ndarray, x: np.ndarray) -> None:
    ops.copy_in(y, ops.copy_out(x) * 2)


def run_four_times(ops: RecordingOps, work: Work) -> tuple[int, list[np.ndarray]]:
    """How often the work was asked for, and what came out each time, of other inputs."""
    asked, x, y = [], np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)

    def call() -> None:
        asked.append(1)
        work(ops, y, x)

    stage, results = RecordedStage(ops, [(call, ())]), []
    for number in range(4):
        x[...] = number
        stage()
        results.append(y.copy())
    return len(asked), results


@pytest.mark.parametrize(("work", "times"), [(doubled_in_scratch, 2), (through_the_host, 4)])
def test_what_comes_out_is_the_same(ops: RecordingOps, work: Work, times: int) -> None:
    asked, results = run_four_times(ops, work)
    assert asked == times
    assert [result.tolist() for result in results] == [[[2.0 * number] * 3] * 2 for number in range(4)]


def later(ops: RecordingOps, y: np.ndarray, x: np.ndarray) -> None:
    ops.copy_mat(y, np.full_like(x, ops.read_later(x)()[0, 0]), 2.0)


def uploaded(ops: RecordingOps, y: np.ndarray, x: np.ndarray) -> None:
    ops.copy_mat(y, ops.upload(x + x), 1.0)


def kept(ops: RecordingOps, y: np.ndarray, x: np.ndarray) -> None:
    ops.copy_mat(y, ops.keep(x + x), 1.0)


def given_back(ops: RecordingOps, y: np.ndarray, x: np.ndarray) -> None:
    ops.set_const(y, 2.0 * math.sqrt(ops.sum_product(x, x) / x.size))


def with_a_draw(ops: RecordingOps, y: np.ndarray, x: np.ndarray) -> None:
    """The host may draw another number for each call."""
    ops.copy_mat(y, x, 2.0)
    ops.output_deriv_stats(np.zeros(3), np.zeros(2), x, int(x[0, 0]))


@pytest.mark.parametrize("work", [later, uploaded, kept, given_back, with_a_draw])
def test_what_the_host_sees_is_looked_at_each_time(ops: RecordingOps, work: Work) -> None:
    asked, results = run_four_times(ops, work)
    assert asked == 4
    assert [result.tolist() for result in results] == [[[2.0 * number] * 3] * 2 for number in range(4)]


def test_random_numbers_are_drawn_anew(ops: RecordingOps) -> None:
    asked, results = run_four_times(ops, drawn)
    assert asked == 4 and len({result.tobytes() for result in results}) == 4


def test_a_run_that_fails_is_not_repeated(ops: RecordingOps) -> None:
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    fails = [False, True, False, False]

    def call() -> None:
        doubled_in_scratch(ops, y, x)
        if fails.pop(0):
            raise ValueError

    stage = RecordedStage(ops, [(call, ())])
    stage()
    with pytest.raises(ValueError):
        stage()
    y[...] = 0.0
    stage()
    stage()
    assert y.tolist() == [[2.0] * 3] * 2 and not fails
