"""Matrix products by tiles and by BLAS, as they are and with what follows them, beside numpy's.

    python benchmarks/products.py [--threads N] [--rounds N] [--quick]

Ours and numpy's are measured in processes of their own, in turns: BLAS's threads spin for a while when they are done,
and would take the cores from ours. The figures are rates in GFLOP/s, medians of the rounds; a ratio above 1 means that
ours is faster. ``NNET3PY_CPU=avx2`` measures the code for a lesser processor; then give ``OPENBLAS_CORETYPE=Haswell``,
too, or numpy's BLAS uses what the processor has. The fused ones (bias, floor) stand beside numpy's product alone.
"""
from __future__ import annotations

import argparse
import json

import numpy as np
from cpu_parts import sides
from cpu_parts.sides import seconds_of

SHAPES = [(2048, 2048, 2048), (3456, 96, 768), (3712, 192, 768), (64, 640, 2048), (3456, 768, 96), (2048, 600, 128),
          (64, 128, 512), (512, 512, 512), (256, 1536, 160), (6400, 1536, 160), (6400, 160, 1536), (768, 3456, 288),
          (3000, 280, 100), (1000, 1000, 30), (100, 40, 40)]
QUICK_SHAPES = [(64, 32, 48), (100, 40, 40)]
FORMS = {"plain": (False, False), "right transposed": (False, True), "left transposed": (True, False)}
FUSED = "affine and floor"
RUNS, LEAST_SECONDS = 7, 2e-3      # of a measurement, and of what is called again and again until so much has passed


def matrices(m: int, k: int, n: int, form: tuple[bool, bool]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A result and two factors, to be transposed as ``form`` says."""
    rng = np.random.default_rng(m + k + n)
    shapes = (k, m) if form[0] else (m, k), (n, k) if form[1] else (k, n)
    left, right = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return np.zeros((m, n), np.float32), left, right


def our_times(shapes: list[tuple[int, int, int]], threads: int, runs: int) -> list[dict[str, float]]:
    """Seconds of each shape in each form, and of the fused one."""
    from nnet3py.engine.threads import own_process, set_num_threads
    from nnet3py.ops import get_ops

    own_process()                # as commands are
    set_num_threads(threads)
    ops, results = get_ops("cpu"), []
    none, start = np.zeros(0, np.float32), np.zeros(1, np.int32)
    for m, k, n in shapes:
        times = {}
        for name, form in FORMS.items():
            dst, a, b = matrices(m, k, n, form)
            times[name] = seconds_of(lambda dst=dst, a=a, b=b, form=form: ops.add_mat_mat(dst, a, b, 1.0, 0.0, *form),
                                     runs, LEAST_SECONDS)
        dst, a, b = matrices(m, k, n, (False, True))
        bias, sums = np.ones(n, np.float32), np.zeros((0, n), np.float32)
        times[FUSED] = seconds_of(lambda dst=dst, a=a, b=b, bias=bias, sums=sums: ops.spliced_affine(
            dst, sums, a, b, bias, none, none, start, 1, 0.0), runs, LEAST_SECONDS)
        results.append(times)
    return results


def numpys_times(shapes: list[tuple[int, int, int]], threads: int, runs: int) -> list[dict[str, float]]:
    """The same of numpy, which has the product alone."""
    import threadpoolctl

    results = []
    with threadpoolctl.threadpool_limits(threads):
        for m, k, n in shapes:
            times = {}
            for name, form in FORMS.items():
                dst, a, b = matrices(m, k, n, form)
                left, right = a.T if form[0] else a, b.T if form[1] else b
                times[name] = seconds_of(lambda dst=dst, left=left, right=right: np.matmul(left, right, out=dst),
                                         runs, LEAST_SECONDS)
            times[FUSED] = times["right transposed"]
            results.append(times)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores of this process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--quick", action="store_true", help="two small shapes")
    parser.add_argument("--child", choices=sides.SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    from nnet3py.system import available_cores

    options.threads = options.threads or available_cores()
    shapes = QUICK_SHAPES if options.quick else SHAPES
    if options.child:
        measure = our_times if options.child == "ours" else numpys_times
        print(json.dumps(measure(shapes, options.threads, options.runs)))
        return
    from nnet3py.engine import product_rule
    from nnet3py.ops import device

    words = [f"--threads={options.threads}", f"--runs={options.runs}", *(["--quick"] if options.quick else [])]
    rounds = sides.take_turns(__file__, words, options.rounds)
    print(f"{device.describe('cpu')}, of which {options.threads} here; rule of products: {product_rule.rule():#x}")
    print(f"{'m x k x n':22s}" + "".join(f"{name:>26s}" for name in (*FORMS, FUSED)))
    ratios: list[float] = []
    for i, (m, k, n) in enumerate(shapes):
        cells = []
        for name in (*FORMS, FUSED):
            pairs = [(ours[i][name], theirs[i][name]) for ours, theirs in rounds]
            ratio = float(np.median([theirs / ours for ours, theirs in pairs]))
            rates = [2e-9 * m * k * n / float(np.median(times)) for times in zip(*pairs, strict=True)]
            ratios.append(ratio)
            cells.append(f"{rates[0]:8.0f} /{rates[1]:5.0f} = {ratio:5.2f}")
        print(f"{f'{m} x {k} x {n}':22s}" + "".join(f"{cell:>26s}" for cell in cells))
    print(f"ratios: least {min(ratios):.2f}, geometric mean {np.exp(np.mean(np.log(ratios))):.2f}, "
          f"{sum(ratio < 0.9 for ratio in ratios)} of {len(ratios)} below 0.9")


if __name__ == "__main__":
    main()
