"""Operations against numpy: medians of one run, as ratios.

    python benchmarks/ops.py [--threads N] [--runs N]

``ratio`` is numpy's time over ours: above 1 we are faster. numpy gets the same number of threads while it is measured.
The numpy way allocates nothing either, where numpy can: ``out=`` into a scratch matrix, then an addition in place.
"""
from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import threadpoolctl

from nnet3py.engine import threads
from nnet3py.ops import device, get_ops

PRODUCTS = [(3712, 192, 768), (64, 640, 2048), (2048, 600, 128), (64, 128, 512), (8, 16, 16)]
SHAPE = (3712, 768)         # a TDNN-F layer's activations in a minibatch of 32 sequences


def median_time(function: Callable[[], object], runs: int) -> float:
    """Seconds of one call, the median of ``runs`` measurements of at least 200 microseconds each."""
    function()
    repeat = 1
    while True:
        start = time.perf_counter()
        for _ in range(repeat):
            function()
        if time.perf_counter() - start > 2e-4:
            break
        repeat *= 2
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(repeat):
            function()
        times.append((time.perf_counter() - start) / repeat)
    return float(np.median(times))


def give_blas_threads(count: int) -> None:
    """Let every BLAS of the process, numpy's among them, compute with ``count`` threads."""
    for library in threadpoolctl.ThreadpoolController().lib_controllers:
        if library.user_api == "blas":
            library.set_num_threads(count)


def report(name: str, ours: Callable[[], object], numpys: Callable[[], object], runs: int, rate: str = "",
           work: float = 0.0) -> None:
    """Print one line: our time, numpy's, their ratio, and our rate."""
    threads.apply()         # one thread for every BLAS: ours are the only ones
    mine = median_time(ours, runs)
    give_blas_threads(threads.num_threads())
    other = median_time(numpys, runs)
    print(f"{name:44s} {mine * 1e6:10.1f} {other * 1e6:10.1f} {other / mine:7.2f}   {work / mine / 1e9:7.1f} {rate}")


def products(ops, rng: np.random.Generator, runs: int) -> None:
    for m, k, n in PRODUCTS:
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
        dst = np.zeros((m, n + 64), np.float32)[:, :n]
        scratch = np.zeros((m, n), np.float32)

        def add_by_numpy(a=a, b=b, dst=dst, scratch=scratch):
            np.matmul(a, b, out=scratch)
            np.add(dst, scratch, out=dst)

        report(f"add_mat_mat {m} x {k} x {n}, beta 0", lambda a=a, b=b, dst=dst: ops.add_mat_mat(dst, a, b, 1.0, 0.0),
               lambda a=a, b=b, dst=dst: np.matmul(a, b, out=dst), runs, "GFLOP/s", 2.0 * m * k * n)
        report(f"add_mat_mat {m} x {k} x {n}, beta 1", lambda a=a, b=b, dst=dst: ops.add_mat_mat(dst, a, b, 1e-3, 1.0),
               add_by_numpy, runs, "GFLOP/s", 2.0 * m * k * n)


def memory_bound(ops, rng: np.random.Generator, runs: int) -> None:
    rows, cols = SHAPE
    dst, a, b = (rng.standard_normal((rows, cols + 32)).astype(np.float32)[:, :cols] for _ in range(3))
    scratch, sums, doubles = np.empty(SHAPE, np.float32), np.empty(cols, np.float32), np.zeros(cols)
    vec = rng.standard_normal(cols).astype(np.float32)
    indexes = rng.permutation(rows).astype(np.int32)
    generator = np.random.default_rng(0)
    size = 4.0 * rows * cols
    cases = [
        ("copy_mat", lambda: ops.copy_mat(dst, a, 1.0), lambda: np.copyto(dst, a), 2),
        ("add_mat", lambda: ops.add_mat(dst, a, 0.5),
         lambda: np.add(dst, np.multiply(a, np.float32(0.5), out=scratch), out=dst), 3),
        ("copy_rows", lambda: ops.copy_rows(dst, a, indexes, 1.0), lambda: np.copyto(dst, a[indexes]), 2),
        ("add_rows", lambda: ops.add_rows(dst, a, indexes, 1.0), lambda: np.add(dst, a[indexes], out=dst), 3),
        ("mul_elements", lambda: ops.mul_elements(dst, a, b), lambda: np.multiply(a, b, out=dst), 3),
        ("mul_cols_vec", lambda: ops.mul_cols_vec(dst, a, vec), lambda: np.multiply(a, vec, out=dst), 2),
        ("add_row_sum", lambda: ops.add_row_sum(sums, a, 1.0, 0.0), lambda: np.sum(a, axis=0, out=sums), 1),
        ("add_row_sum_sq_double", lambda: ops.add_row_sum_sq_double(doubles, a, 1.0),
         lambda: np.add(doubles, np.sum(np.multiply(a, a, out=scratch), axis=0, dtype=np.float64), out=doubles), 1),
        ("sum_sq", lambda: ops.sum_sq(a), lambda: np.einsum("ij,ij->", a, a), 1),
        ("random.fill_uniform", lambda: ops.random.fill_uniform(dst),
         lambda: generator.random(out=scratch, dtype=np.float32), 1),
        ("random.fill_normal", lambda: ops.random.fill_normal(dst),
         lambda: generator.standard_normal(out=scratch, dtype=np.float32), 1),
    ]
    for name, ours, numpys, passes in cases:
        report(f"{name} {rows} x {cols}", ours, numpys, runs, "GB/s", passes * size)
    small = np.zeros((2, 4), np.float32)
    report("copy_mat 2 x 4 (the call)", lambda: ops.copy_mat(small, small, 1.0), lambda: np.copyto(small, small), runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores of this process")
    parser.add_argument("--runs", type=int, default=21)
    options = parser.parse_args()
    threads.set_num_threads(options.threads)
    ops, rng = get_ops("cpu"), np.random.default_rng(0)
    print(f"{device.describe('cpu')}; microseconds, median of {options.runs}")
    print(f"{'operation':44s} {'nnet3py':>10s} {'numpy':>10s} {'ratio':>7s}   {'rate':>7s}")
    products(ops, rng, options.runs)
    memory_bound(ops, rng, options.runs)


if __name__ == "__main__":
    main()
