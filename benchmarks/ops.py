"""Operations against numpy: medians of the rounds, as ratios.

    python benchmarks/ops.py [--threads N] [--runs N] [--rounds N] [--quick]

``ratio`` is numpy's time over ours: above 1 we are faster. Ours and numpy's are measured in processes of their own, in
turns, with the same number of threads. The numpy way allocates nothing either, where numpy can: ``out=`` into a scratch
matrix, then an addition in place.
"""
from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from cpu_parts import sides

PRODUCTS = [(3712, 192, 768), (64, 640, 2048), (2048, 600, 128), (64, 128, 512), (8, 16, 16)]
SHAPE = (3712, 768)         # a TDNN-F layer's activations in a minibatch of 32 sequences
QUICK_PRODUCTS, QUICK_SHAPE = [(8, 16, 16), (16, 3, 5)], (64, 32)
LEAST_SECONDS = 2e-4        # of a measurement


class Case(NamedTuple):
    """An operation: both ways to do it, and the work that is in it, in operations or bytes."""

    name: str
    ours: Callable[[], object]
    numpys: Callable[[], object]
    work: float
    unit: str


def products(ops: Any, rng: np.random.Generator, shapes: list[tuple[int, int, int]]) -> Iterator[Case]:
    """Products that are put into a matrix, and added to it."""
    for m, k, n in shapes:
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
        dst = np.zeros((m, n + 64), np.float32)[:, :n]
        scratch = np.zeros((m, n), np.float32)

        def add_by_numpy(a=a, b=b, dst=dst, scratch=scratch):
            np.matmul(a, b, out=scratch)
            np.add(dst, scratch, out=dst)

        yield Case(f"add_mat_mat {m} x {k} x {n}, beta 0",
                   lambda a=a, b=b, dst=dst: ops.add_mat_mat(dst, a, b, 1.0, 0.0),
                   lambda a=a, b=b, dst=dst: np.matmul(a, b, out=dst), 2.0 * m * k * n, "GFLOP/s")
        yield Case(f"add_mat_mat {m} x {k} x {n}, beta 1",
                   lambda a=a, b=b, dst=dst: ops.add_mat_mat(dst, a, b, 1e-3, 1.0), add_by_numpy, 2.0 * m * k * n,
                   "GFLOP/s")


def memory_bound(ops: Any, rng: np.random.Generator, shape: tuple[int, int]) -> Iterator[Case]:
    """Operations that take as long as their matrices are large."""
    rows, cols = shape
    dst, a, b = (rng.standard_normal((rows, cols + 32)).astype(np.float32)[:, :cols] for _ in range(3))
    scratch, sums = np.empty(shape, np.float32), np.empty(cols, np.float32)
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
        ("sum_product", lambda: ops.sum_product(a, a), lambda: np.einsum("ij,ij->", a, a), 1),
        ("random.fill_uniform", lambda: ops.random.fill_uniform(dst),
         lambda: generator.random(out=scratch, dtype=np.float32), 1),
    ]
    for name, ours, numpys, passes in cases:
        yield Case(f"{name} {rows} x {cols}", ours, numpys, passes * size, "GB/s")
    small = np.zeros((2, 4), np.float32)
    yield Case("copy_mat 2 x 4 (the call)", lambda: ops.copy_mat(small, small, 1.0), lambda: np.copyto(small, small),
               2.0 * small.nbytes, "GB/s")


def cases(ops: Any, quick: bool) -> Iterator[Case]:
    """All operations; numpy's side needs no ``ops``."""
    rng = np.random.default_rng(0)
    yield from products(ops, rng, QUICK_PRODUCTS if quick else PRODUCTS)
    yield from memory_bound(ops, rng, QUICK_SHAPE if quick else SHAPE)


def measure(side: str, options: argparse.Namespace) -> list[float]:
    """Seconds of each operation, on one side, in this process."""
    if side == "numpy":
        import threadpoolctl

        with threadpoolctl.threadpool_limits(options.threads):
            return [sides.seconds_of(case.numpys, options.runs, LEAST_SECONDS) for case in cases(None, options.quick)]
    from nnet3py.engine.threads import set_num_threads
    from nnet3py.ops import get_ops

    set_num_threads(options.threads)
    return [sides.seconds_of(case.ours, options.runs, LEAST_SECONDS) for case in cases(get_ops("cpu"), options.quick)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores of this process")
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small matrices")
    parser.add_argument("--child", choices=sides.SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    from nnet3py.system import available_cores

    options.threads = options.threads or available_cores()
    if options.child:
        print(json.dumps(measure(options.child, options)))
        return
    from nnet3py.engine.threads import set_num_threads
    from nnet3py.ops import device

    set_num_threads(options.threads)    # what the line below says is what both sides use
    words = [f"--threads={options.threads}", f"--runs={options.runs}", *(["--quick"] if options.quick else [])]
    rounds = sides.take_turns(__file__, words, options.rounds)
    print(f"{device.describe('cpu')}; microseconds, medians of {options.rounds} rounds")
    print(f"{'operation':44s} {'nnet3py':>10s} {'numpy':>10s} {'ratio':>7s}   {'rate':>7s}")
    for i, case in enumerate(cases(None, options.quick)):
        ours, numpys = (float(np.median([one[side][i] for one in rounds])) for side in (0, 1))
        ratio = float(np.median([one[1][i] / one[0][i] for one in rounds]))
        print(f"{case.name:44s} {ours * 1e6:10.1f} {numpys * 1e6:10.1f} {ratio:7.2f}   {case.work / ours / 1e9:7.1f} "
              f"{case.unit}")


if __name__ == "__main__":
    main()
