"""The team on machines with more cores, and with more threads than cores: who does how much, and how they wait.

A core of one's own is stood for by waiting instead of computing: 16 threads can wait at once on any machine.
"""
from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from numba.core import types
from paths import ROOT

from nnet3py.engine import interface, team, team_code, threads
from nnet3py.engine.jit import Kernel, Shared
from nnet3py.engine.kernel_files import provide
from nnet3py.engine.team import SLEEPING, WATCH, words
from nnet3py.ops import get_ops
from nnet3py.system import available_cores

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="usleep and pthread_self are POSIX's"),
              pytest.mark.usefixtures("threads_as_before")]

MANY = [4, 8, 16]
ROW_TIME = 0.004            # seconds that a row is waited for
ROWS_EACH = 12              # of a thread: 3 rows in each of 4 chunks
TRIES = 8                   # a busy machine may wake a thread late
PATIENCE = 20               # seconds

_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
_pthread_self = types.ExternalFunction("pthread_self", types.intp())
_MICROSECONDS = int(1e6 * ROW_TIME)
provide([interface.SHARE])


def _visit(first, last, rows, visitors):
    """Note which thread does each row, and wait as long as its work would take on a core."""
    for i in range(first, last):
        visitors[i] = _pthread_self()
    _usleep((last - first) * _MICROSECONDS)


def _cut(count, work, multiple):
    """Rows or columns of a chunk of a product."""
    return team_code._chunk_size(count, work, multiple, team_code.CHUNKS_PER_THREAD)


visit = Kernel(_visit, "mat lvec", False, Shared("rows", 0, team_code.LEAST_WORK))
cut = Kernel(_cut, "int int int", False, None)


def wait_until_asleep(workers: int) -> None:
    """Until so many workers, at least, sleep."""
    end = time.monotonic() + PATIENCE
    while words[SLEEPING] < workers and time.monotonic() < end:
        time.sleep(0.001)
    assert words[SLEEPING] >= workers


@pytest.mark.parametrize("count", MANY)
def test_each_thread_has_its_share_and_all_work_at_once(count: int) -> None:
    threads.set_num_threads(count)
    rows = np.zeros((count * ROWS_EACH, 1), np.float32)
    visitors = np.zeros(len(rows), np.int64)
    found = []
    for _ in range(TRIES):
        visitors[:] = 0
        begin = time.monotonic()
        visit(rows, visitors)
        seconds = time.monotonic() - begin
        assert visitors.all()
        shares = np.unique(visitors, return_counts=True)[1]
        found.append((len(shares), shares.min(), shares.max(), seconds))
        if np.array_equal(shares, [ROWS_EACH] * count) and seconds < 2 * ROWS_EACH * ROW_TIME:
            return
    pytest.fail(f"threads, least and most rows of one, seconds: {found}")


@pytest.mark.parametrize("count", [2, *MANY])
def test_products_are_cut_evenly(count: int) -> None:
    """Rows of a result that give each thread work: nobody has an eighth more than the others, or it cannot be helped.

    It cannot where one chunk each is not more even, because chunks are multiples of what tiles compute at once.
    """
    threads.set_num_threads(count)
    for rows in (*range(256, 4000, 173), 1000, 2048, 3712, 6400):
        for multiple in (8, 48, 64):
            size = cut(rows, 100 * team_code.LEAST_WORK, multiple)
            chunks = -(-rows // size)
            most = -(-chunks // count) * size
            one_each = -(-rows // (count * multiple)) * multiple
            assert size % multiple == 0 and chunks <= team_code.CHUNKS_PER_THREAD * count
            assert 7 * most <= 8 * max(one_each, rows / count), (rows, multiple, size)


@pytest.mark.parametrize("count", MANY)
def test_results_are_those_of_one_thread(count: int) -> None:
    rng = np.random.default_rng(count)
    ops = get_ops("cpu")
    for m, k, n in ((512, 96, 256), (64, 130, 1024), (999, 40, 60), (300, 300, 31)):
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
        results = []
        for number in (1, count):
            threads.set_num_threads(number)
            product, sums = np.empty((m, n), np.float32), np.empty(n, np.float32)
            ops.add_mat_mat(product, a, b, 1.0, 0.0)
            ops.add_row_sum(sums, product, 1.0, 0.0)
            results.append((product, sums, ops.sum_product(product, product)))
        (product, sums, total), (other, other_sums, other_total) = results
        assert np.array_equal(product, other) and np.array_equal(sums, other_sums) and total == other_total


def test_only_so_many_are_woken_as_there_are_chunks() -> None:
    threads.set_num_threads(16)
    wait_until_asleep(team.size() - 1)
    before, rows = int(words[SLEEPING]), np.zeros((3, 1), np.float32)
    visitors = np.zeros(3, np.int64)
    asleep = []
    watcher = threading.Thread(target=lambda: (time.sleep(ROW_TIME / 2), asleep.append(int(words[SLEEPING]))))
    watcher.start()
    visit(rows, visitors)
    watcher.join()
    assert asleep[0] >= before - 2, "two of three chunks are for others than the caller"


# products of a quarter of a millisecond with pauses, after which workers sleep; processor time of all threads
MANY_JOBS = """
import sys, time
import numpy as np
from nnet3py.engine.threads import set_num_threads
from nnet3py.ops import get_ops
set_num_threads(int(sys.argv[1]))
a, b, dst = np.ones((128, 128), np.float32), np.ones((128, 256), np.float32), np.empty((128, 256), np.float32)
multiply = get_ops("cpu").add_mat_mat
multiply(dst, a, b, 1.0, 0.0)
before = time.process_time()
for i in range(1500):
    multiply(dst, a, b, 1.0, 0.0)
    if i % 3 == 0:
        time.sleep(2e-4)
print(time.process_time() - before)
"""


def test_more_threads_than_cores_take_hardly_more_processor_time() -> None:
    def processor_time(count: int) -> float:
        done = subprocess.run([sys.executable, "-c", MANY_JOBS, str(count)], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    cores = available_cores()
    few, many = [], []
    for _ in range(TRIES):
        few.append(processor_time(min(2, cores)))
        many.append(processor_time(8 * cores))
        if min(many) < 1.5 * min(few):
            return
    pytest.fail(f"processor time of {min(2, cores)} threads: {few} s; of {8 * cores}: {many} s")


def test_nobody_watches_where_threads_are_more_than_cores() -> None:
    cores = available_cores()
    threads.set_num_threads(cores)
    assert words[WATCH] > 1000
    threads.set_num_threads(cores + 1)
    assert words[WATCH] == 0


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of threads are POSIX's")
def test_a_signal_does_not_make_a_sleeper_count_twice() -> None:
    threads.set_num_threads(available_cores() + 2)
    wait_until_asleep(team.size() - 1)
    asleep = int(words[SLEEPING])
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        for _ in range(20):
            for thread in threading.enumerate():
                if thread.name.startswith("nnet3py-"):
                    signal.pthread_kill(thread.ident, signal.SIGUSR1)
            time.sleep(0.002)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert words[SLEEPING] == asleep


@pytest.mark.slow
def test_many_jobs_of_changing_teams_come_to_an_end() -> None:
    rng, ops = np.random.default_rng(1), get_ops("cpu")
    for _ in range(3000):
        threads.set_num_threads(int(rng.choice([1, 2, 3, *MANY])))
        rows = int(rng.integers(1, 3000))
        dst = np.zeros((rows, 65), np.float32)
        ops.add_mat(dst, np.ones_like(dst), 2.0)
        assert (dst == 2.0).all()
        if rng.random() < 0.1:
            time.sleep(rng.random() * 1e-3)
