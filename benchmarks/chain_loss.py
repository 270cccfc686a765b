"""LF-MMI as a loss of PyTorch beside the chain trainer's own computation: values, derivatives and times.

    python benchmarks/chain_loss.py [--states 10000] [--arcs 12] [--pdfs 3000] [--sequences 128] [--frames 50]

A minibatch of 128 sequences of 150 frames has 50 output frames at a third of the rate. The trainer computes objective
and derivative of a matrix whose rows go frame by frame; the loss takes a tensor (sequences, frames, pdfs) and is
followed by its backward pass. The graph and the supervision are those of ``benchmarks/chain.py``. Both alternate, so
that what else the machine does is shared; times are medians.
"""
from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from chain import LEAKY, example, random_den_fst  # noqa: E402

from nnet3py.chain.den_graph import DenominatorGraph  # noqa: E402
from nnet3py.engine import threads  # noqa: E402
from nnet3py.extras import install_command  # noqa: E402
from nnet3py.ops import get_ops  # noqa: E402
from nnet3py.training.chain_objective import ChainObjectiveComputation
from nnet3py.training.options import ChainOptions


def main() -> int:
    """Print values, the largest difference of derivatives, and times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("states", 10000), ("arcs", 12), ("pdfs", 3000), ("sequences", 128), ("frames", 50),
                          ("runs", 5), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print(f"PyTorch is not installed, so there is no loss to compare: {install_command('torch')}")
        return 0
    import torch

    from nnet3py.torch import ChainLoss

    threads.set_num_threads(args.threads)
    torch.set_num_threads(args.threads)
    print(f"machine: {platform.processor() or platform.machine()}, {os.cpu_count()} cores; {args.threads} threads")
    rng = np.random.default_rng(1)
    graph = DenominatorGraph(random_den_fst(rng, args.states, args.arcs, args.pdfs), args.pdfs)
    supervision = example(rng, args.sequences, args.frames, args.pdfs).outputs[0].supervision
    print(f"graph: {graph.num_states} states, {graph.num_arcs} arcs, {args.pdfs} pdfs; {args.sequences} sequences of "
          f"{args.frames} frames")
    rows = rng.standard_normal((args.frames * args.sequences, args.pdfs), dtype=np.float32)
    shape = args.frames, args.sequences, args.pdfs
    output = torch.from_numpy(rows.reshape(shape).transpose(1, 0, 2).copy()).requires_grad_()
    trainer = ChainObjectiveComputation(get_ops("cpu"), graph, ChainOptions(leaky_hmm_coefficient=LEAKY))
    loss = ChainLoss(graph, args.pdfs, LEAKY)
    deriv = np.empty_like(rows)
    times: list[list[float]] = [[], [], []]
    for _ in range(args.runs + 1):
        output.grad = None
        begin = time.perf_counter()
        result = trainer.compute(supervision, rows, deriv)
        middle = time.perf_counter()
        value = loss(output, supervision)
        forward = time.perf_counter()
        value.backward()
        for kept, seconds in zip(times, (middle - begin, forward - middle, time.perf_counter() - forward), strict=True):
            kept.append(seconds)
    own, forward, backward = (float(np.median(kept[1:])) for kept in times)
    expected = -deriv.reshape(shape).transpose(1, 0, 2) / result.weight
    assert output.grad is not None
    difference = np.abs(output.grad.numpy() - expected).max() / np.abs(expected).max()
    print(f"objective: trainer {result.value / result.weight:.6f}, loss {-value.item():.6f} per frame; derivatives "
          f"differ by {difference:.1e} of the largest")
    print(f"trainer: {own:.3f} s; loss: forward {forward:.3f} s, backward {backward:.4f} s; ratio "
          f"{(forward + backward) / own:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
