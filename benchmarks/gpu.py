"""Measures nnet3py on a GPU: single operations, training steps and computing, beside PyTorch in the same run.

    python benchmarks/gpu.py [--write] [--no-compile] [--only=PART ...]        (or: make bench-gpu)

The networks are a TDNN-F of 16 layers of 1536/160 and a TDNN-LSTM of two layers of 1024/256, on minibatches of 64
sequences of 60 frames and their context. A step of training is all of nnet3-train's: natural gradient, max-change,
statistics, orthonormal constraint; PyTorch's is plain SGD on the same layers, eager and by torch.compile. Rates are
shares of what a product of large square matrices reaches in the same arithmetic, in float32 and in TF32. With
``--write`` the report goes to benchmarks/results/, under the card's name. Without a GPU nothing is measured; in numba's
simulator (``NUMBA_ENABLE_CUDASIM=1``) all of it runs once on tiny matrices, with one thread a kernel and products
by numpy, and the times mean nothing.
"""
from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "tests")]

from gpu_parts import in_torch, kernels, nets, steps  # noqa: E402

from nnet3py.extras import install_command  # noqa: E402

MATRIX = 2**15, 1536        # of the single operations: larger than any cache
NETS = {"TDNN-F": nets.tdnnf, "TDNN-LSTM": nets.tdnn_lstm}
OPERATIONS = "operations"
PARTS = ("products", OPERATIONS, *NETS)


def report(sizes: nets.Sizes, compile_too: bool, parts: Collection[str] = PARTS) -> Iterator[str]:
    """The lines of the report, as they are measured; products always, since all else is compared with them."""
    from nnet3py.ops import get_ops
    from nnet3py.ops.cuda import cublas
    from nnet3py.ops.device import describe, is_simulated

    ops, simulated = get_ops("cuda"), is_simulated()
    yield describe("cuda")
    rates = {}
    for tf32 in (False, True):
        cublas.allow_tf32(tf32)
        rates[tf32] = kernels.product_rate(ops, (8,) if simulated else kernels.PRODUCTS)
        yield f"products in {arithmetic(tf32)}: {rates[tf32] / 1e12:.1f} TFLOP/s"
    cublas.allow_tf32(False)
    if OPERATIONS in parts:
        rows, cols = (6, 5) if simulated else MATRIX
        yield f"operations on {rows} x {cols} matrices, and their share of a copy's bandwidth"
        yield from kernels.lines(ops, rows, cols)
    for net in (name for name in NETS if name in parts):
        for tf32 in (False, True):
            yield f"{net}, {arithmetic(tf32)}"
            cublas.allow_tf32(tf32)
            yield from of_net(net, NETS[net](sizes), sizes, rates[tf32], tf32, compile_too)
    cublas.allow_tf32(False)


def of_net(net: str, text: str, sizes: nets.Sizes, rate: float, tf32: bool, compile_too: bool) -> Iterator[str]:
    """The lines of a network in one arithmetic: nnet3py's, then PyTorch's and the ratios to them."""
    from nnet3py.ops.device import is_simulated

    repeats = 1 if is_simulated() else steps.REPEATS
    training = steps.train(text, sizes, False, repeats)
    yield training.line("training, natural gradient", rate)
    yield steps.train(text, sizes, True, repeats).line("training, plain SGD", rate)
    computing = steps.compute(text, sizes, repeats)
    yield computing.line("computing", rate)
    if not in_torch.is_usable():
        yield f"  PyTorch is not installed, or sees no GPU: nothing to compare with ({install_command('bench')})"
        return
    for compiled in (False, True) if compile_too else (False,):
        for is_training, mine in ((True, training), (False, computing)):
            yield torch_line(net, text, sizes, tf32, compiled, is_training, mine.seconds)


def torch_line(net: str, text: str, sizes: nets.Sizes, tf32: bool, compiled: bool, training: bool,
               mine: float) -> str:
    """PyTorch's time, and nnet3py's as a multiple of it."""
    what = f"PyTorch {'compiled' if compiled else 'eager'}, {'training' if training else 'computing'}"
    try:
        taken, megabytes = in_torch.step_seconds(net, text, sizes, tf32, compiled, training)
    except Exception as error:      # torch.compile needs a compiler, and more memory than there may be
        return f"  {what:34} failed: {str(error).splitlines()[0][:80]}"
    return f"  {what:34}{1e3 * taken:9.2f} ms, {megabytes:.0f} MB; nnet3py takes {mine / taken:.2f} times as long"


def arithmetic(tf32: bool) -> str:
    """Its name."""
    return "TF32" if tf32 else "float32"


def main(arguments: Any = None) -> None:
    """Print the report, and keep it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the report in benchmarks/results/")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which takes minutes")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part, and products (again for more)")
    args = parser.parse_args(arguments)
    from nnet3py.ops import device

    reason = device.unavailable_reason()
    if reason is not None:
        print(f"There is nothing to measure: {reason}")
        return
    found = []
    with contextlib.ExitStack() as stack:
        sizes = nets.LARGE
        if device.is_simulated():
            from gpu_device import simulate_quickly
            sizes = nets.TINY
            stack.enter_context(simulate_quickly())
        for line in report(sizes, not args.no_compile, args.only or PARTS):
            print(line, flush=True)
            found.append(line)
    if args.write and not device.is_simulated():
        card = re.sub(r"\W+", "-", found[0].split("(", 1)[-1].split(",")[0]).strip("-").lower()
        (ROOT / "benchmarks" / "results" / f"gpu-{card}.txt").write_text("\n".join(found) + "\n")


if __name__ == "__main__":
    main()
