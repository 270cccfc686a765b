"""The denominator of chain training: against numpy, and its share of a TDNN-F training step.

    python benchmarks/chain.py [--states 10000] [--arcs 12] [--pdfs 2000] [--sequences 64] [--frames 50] [--runs N]

The graph is random, but as a graph of phones with left context is: each state belongs to one phone, whose pdfs stand
on the arcs that lead to it, and some states are much more frequent than others. ``numpy`` is the plain way with whole
arrays: products for all arcs and sequences of a frame, then sums over runs of arcs. The network has frames that are 3
apart at the output, 12 TDNN-F layers of 768 with bottlenecks of 96, and one output.
"""
from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable

import numpy as np

from nnet3py.chain.den_graph import DenominatorGraph
from nnet3py.chain.denominator import DenominatorComputation
from nnet3py.egs.chain_example import NnetChainExample, NnetChainSupervision, Supervision, merge_supervisions
from nnet3py.egs.example import NnetIo
from nnet3py.engine import threads
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.training.chain_trainer import ChainTrainer
from nnet3py.training.options import ChainOptions, TrainerOptions
from nnet3py.transducers.fst import Fst
from nnet3py.xconfig import expand

LEAKY = 0.1
INPUT_DIM, CONTEXT, STEP = 40, 34, 3


def random_den_fst(rng: np.random.Generator, num_states: int, arcs: int, num_pdfs: int) -> Fst:
    """Self-loops, and ``arcs - 1`` arcs from each state to others, popular ones more often."""
    popularity = 1.0 / np.arange(1, num_states + 1) ** 0.7
    first_pdf = rng.integers(0, num_pdfs // 2, num_states) * 2
    nexts = rng.choice(num_states, size=(num_states, arcs), p=popularity / popularity.sum())
    nexts[:, 0], nexts[:, 1] = np.arange(num_states), (np.arange(num_states) + 1) % num_states
    labels = first_pdf[nexts] + 1
    labels[:, 0] += 1
    probs = np.hstack([np.full((num_states, 1), 0.5), 0.5 * rng.dirichlet(np.ones(arcs - 1), num_states)])
    final = np.full(num_states, np.inf, dtype=np.float32)
    labels = labels.astype(np.int32).ravel()
    return Fst(0, final, np.arange(num_states + 1) * arcs, labels, labels, -np.log(probs).astype(np.float32).ravel(),
               nexts.astype(np.int32).ravel())


class ByNumpy:
    """The denominator with whole arrays in float32."""

    def __init__(self, fst: Fst, graph: DenominatorGraph) -> None:
        sources, pdfs, probs = fst.sources, fst.input_labels - 1, np.exp(-fst.weights)[:, None]
        self.initial, self.num_pdfs = graph.initial[:, None], graph.num_pdfs
        tables = []
        for keys in (fst.next_states, sources, pdfs):
            order = np.argsort(keys, kind="stable")
            groups, starts = np.unique(keys[order], return_index=True)
            tables.append((sources[order], fst.next_states[order], pdfs[order], probs[order], starts, groups))
        self.into, self.out_of, self.by_pdf = tables

    def compute(self, output: np.ndarray, num_sequences: int, deriv: np.ndarray) -> float:
        """The log-probability; ``deriv`` gets minus the posteriors."""
        num_frames = len(output) // num_sequences
        y = np.exp(np.clip(output, -30, 30)).reshape(num_frames, num_sequences, -1).transpose(0, 2, 1).copy()
        alphas, sums = [], []
        alpha = np.repeat(self.initial, num_sequences, axis=1)
        for t in range(num_frames + 1):
            sums.append(alpha.sum(axis=0))
            alphas.append(alpha + np.float32(LEAKY) * self.initial * sums[-1])
            if t < num_frames:
                sources, _, pdfs, probs, starts, groups = self.into
                alpha = np.zeros_like(alpha)
                alpha[groups] = np.add.reduceat(alphas[t][sources] * probs * y[t][pdfs], starts, axis=0) / sums[t]
        end = alphas[-1].sum(axis=0)
        beta = np.repeat(1 / end[None], len(self.initial), axis=0)
        for t in range(num_frames - 1, -1, -1):
            beta = beta + np.float32(LEAKY) * (self.initial * beta).sum(axis=0)
            posteriors = np.zeros((self.num_pdfs, num_sequences), dtype=np.float32)
            sources, nexts, pdfs, probs, starts, groups = self.by_pdf
            posteriors[groups] = np.add.reduceat(alphas[t][sources] * probs * beta[nexts], starts, axis=0)
            deriv[t * num_sequences:(t + 1) * num_sequences] -= (posteriors * y[t] / sums[t]).T
            _, nexts, pdfs, probs, starts, groups = self.out_of
            beta = np.add.reduceat(beta[nexts] * probs * y[t][pdfs], starts, axis=0) / sums[t]
        return float(np.log(end).sum() + np.log(sums[:-1]).sum())


def seconds(function: Callable[[], object], runs: int) -> float:
    """Of one call, the median of ``runs`` after a first."""
    function()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def network(num_pdfs: int) -> Nnet:
    """A TDNN-F network for output frames that are 3 apart."""
    lines = [f"input dim={INPUT_DIM} name=input", "relu-batchnorm-layer name=tdnn1 dim=768"]
    lines += [f"tdnnf-layer name=tdnnf{i} dim=768 bottleneck-dim=96 time-stride={1 if i < 5 else 0 if i == 5 else 3}"
              for i in range(2, 14)]
    lines += ["linear-component name=prefinal-l dim=192 orthonormal-constraint=-1.0",
              f"output-layer name=output include-log-softmax=false dim={num_pdfs}"]
    return Nnet.from_config(expand("\n".join(lines)).final, seed=0)


def example(rng: np.random.Generator, num_sequences: int, num_frames: int, num_pdfs: int) -> NnetChainExample:
    """A minibatch whose supervision allows two pdfs in each frame."""
    times = range(-CONTEXT, STEP * num_frames + CONTEXT)
    inputs = np.array([(n, t, 0) for n in range(num_sequences) for t in times], dtype=np.int32)
    rows = np.array([(n, STEP * t, 0) for t in range(num_frames) for n in range(num_sequences)], dtype=np.int32)
    parts = []
    for _ in range(num_sequences):
        labels = rng.integers(1, num_pdfs + 1, 2 * num_frames).astype(np.int32)
        final = np.full(num_frames + 1, np.inf, dtype=np.float32)
        final[-1] = 0.0
        starts = np.append(np.arange(num_frames + 1) * 2, 2 * num_frames)
        nexts = np.repeat(np.arange(1, num_frames + 1), 2).astype(np.int32)
        fst = Fst(0, final, starts, labels, labels, np.zeros(2 * num_frames, dtype=np.float32), nexts)
        parts.append(Supervision(1.0, 1, num_frames, num_pdfs, fst))
    features = rng.standard_normal((len(inputs), INPUT_DIM), dtype=np.float32)
    return NnetChainExample([NnetIo("input", inputs, features)],
                            [NnetChainSupervision("output", rows, merge_supervisions(parts))])


def share_of_a_step(fst: Fst, args: argparse.Namespace) -> tuple[float, float]:
    """Seconds of a training step and of the denominator in it: the CPU does at once what is queued."""
    nnet = network(args.pdfs)
    eg = example(np.random.default_rng(2), args.sequences, args.frames, args.pdfs)
    graph = DenominatorGraph(fst, args.pdfs)
    trainer = ChainTrainer(nnet, lambda name: graph, TrainerOptions(), ChainOptions(leaky_hmm_coefficient=LEAKY))
    spent: list[float] = []
    plain = DenominatorComputation.queue

    def timed(*values: object) -> object:
        start = time.perf_counter()
        found = plain(*values)  # type: ignore[arg-type]
        spent.append(time.perf_counter() - start)
        return found

    DenominatorComputation.queue = timed  # type: ignore[method-assign, assignment]
    step = seconds(lambda: trainer.train(eg), args.runs)
    DenominatorComputation.queue = plain  # type: ignore[method-assign]
    return step, float(np.median(spent[1:]))


def main() -> None:
    """Print the times, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("states", 10000), ("arcs", 12), ("pdfs", 2000), ("sequences", 64), ("frames", 50),
                          ("runs", 5), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    print(f"machine: {platform.processor() or platform.machine()}, {os.cpu_count()} cores")
    rng = np.random.default_rng(1)
    fst = random_den_fst(rng, args.states, args.arcs, args.pdfs)
    graph = DenominatorGraph(fst, args.pdfs)
    print(f"graph: {graph.num_states} states, {graph.num_arcs} arcs, {graph.num_entries} pairs of pdf and state; "
          f"{args.sequences} sequences of {args.frames} frames")
    output = rng.standard_normal((args.sequences * args.frames, args.pdfs), dtype=np.float32)
    deriv = np.zeros_like(output)
    ours = {}
    for count in sorted({1, args.threads}):
        threads.set_num_threads(count)
        computation = DenominatorComputation(get_ops("cpu"), graph, LEAKY)
        ours[count] = seconds(lambda c=computation: c.compute(output, args.sequences, deriv), args.runs)
        print(f"denominator, {count} threads: {ours[count]:.3f} s a minibatch, "
              f"{ours[count] / args.frames * 1e3:.2f} ms a frame")
    plain = ByNumpy(fst, graph)
    expected, found = plain.compute(output, args.sequences, deriv), computation.compute(output, args.sequences)
    assert abs(expected - found.log_prob) < 1e-5 * abs(expected), (expected, found)
    numpys = seconds(lambda: plain.compute(output, args.sequences, deriv), max(args.runs // 2, 1))
    print(f"numpy: {numpys:.3f} s; ratio {numpys / ours[args.threads]:.1f}")
    step, denominator = share_of_a_step(fst, args)
    print(f"training step of the TDNN-F: {step:.3f} s, of it the denominator {denominator:.3f} s: "
          f"{denominator / step:.0%}")


if __name__ == "__main__":
    main()
