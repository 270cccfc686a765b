"""The team of threads: every row is done once, sleepers wake, a busy team does no harm, and forks start without one."""
from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from nnet3py.engine import team, threads
from nnet3py.ops import get_ops

WIDE = (3001, 129)        # enough rows for many chunks, and no round number of them
LONGER_THAN_WATCHING = 0.01   # seconds: by then workers sleep

pytestmark = pytest.mark.usefixtures("threads_as_before")


def add_once(rows: int = WIDE[0]) -> None:
    """Add to a matrix with all threads; every element must have been done exactly once."""
    dst = np.arange(rows * WIDE[1], dtype=np.float32).reshape(rows, WIDE[1])
    wanted = dst + 2.0
    get_ops().add_mat(dst, np.ones_like(dst), 2.0)
    np.testing.assert_array_equal(dst, wanted)


def in_three_threads(work: Callable[[], None]) -> None:
    callers = [threading.Thread(target=work) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_row_is_done_once(count):
    threads.set_num_threads(count)
    for rows in (*range(1, 2000, 333), WIDE[0]):
        add_once(rows)


def test_workers_that_sleep_wake_up():
    threads.set_num_threads(3)
    for _ in range(5):
        time.sleep(LONGER_THAN_WATCHING)
        for _ in range(20):
            add_once()


def test_results_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((700, 500), (500, 330)))
    found = []
    for count in (1, 2, 5):
        threads.set_num_threads(count)
        ops = get_ops()
        product, sums = np.empty((700, 330), np.float32), np.empty(500, np.float32)
        ops.add_mat_mat(product, a, b, 1.0, 0.0)
        ops.add_row_sum(sums, a, 1.0, 0.0)
        found.append((product, sums, ops.sum_product(a, a)))
    for product, sums, total in found[1:]:
        assert np.array_equal(product, found[0][0]) and np.array_equal(sums, found[0][1]) and total == found[0][2]


def test_kernels_of_several_python_threads_at_once():
    threads.set_num_threads(2)
    failures = []

    def work() -> None:
        try:
            for _ in range(200):
                add_once()
        except AssertionError as failure:
            failures.append(failure)

    in_three_threads(work)
    assert not failures


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_computes_alone():
    threads.set_num_threads(2)
    add_once()
    child = multiprocessing.get_context("fork").Process(target=_in_child)
    child.start()
    child.join(60)
    assert child.exitcode == 0 and team.size() == 2


def _in_child() -> None:
    assert team.size() == 1
    add_once()
