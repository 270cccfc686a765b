"""Measures objectives of discriminative training on dense lattices: sums over paths, and all that a minibatch takes.

    python benchmarks/discriminative.py [--runs 5] [--sequences 16] [--frames 150] [--arcs 50000] [--to FILE]

A minibatch has so many sequences of so many frames, 100 of which are a second; its random lattices have so many arcs in
a second of speech, and 3,000 pdfs. "tables": what a lattice becomes for kernels; "sums": forward and backward over its
arcs; "whole": the objective and its derivative, from the network's output on. There are no times of Kaldi's to compare
with, so that rates are given: arcs a second, and seconds of speech in one.
"""
from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

FRAMES_PER_SECOND, NUM_PDFS, WIDTH = 100, 3000, 60        # width: states of a frame of a lattice


def transition_model() -> Any:
    """Phones of one state each, with a pdf of its own; transition-ids 2 pdf + 1 and 2 pdf + 2."""
    from nnet3py.hmm.topology import HmmState, HmmTopology
    from nnet3py.hmm.tree import initial_transition_model, monophone_tree

    states = [HmmState(0, 0, [(0, 0.5), (1, 0.5)]), HmmState()]
    topology = HmmTopology([states], {phone: 0 for phone in range(1, NUM_PDFS + 1)})
    return initial_transition_model(monophone_tree(topology), topology)


def supervision(rng: np.random.Generator, num_frames: int, arcs_per_frame: int) -> Any:
    """A sequence whose lattice has ``WIDTH`` states in each frame, between a first and a last one."""
    from nnet3py.egs.discriminative_example import DiscriminativeSupervision
    from nnet3py.transducers.fst import NO_WEIGHT, Fst

    width = min(WIDTH, arcs_per_frame)
    first = np.concatenate(([0], 1 + width * np.arange(num_frames)))       # state of each frame
    sources, nexts = [], []
    for t in range(num_frames):
        here = 1 if t == 0 else width
        there = 1 if t == num_frames - 1 else width
        # every state has a way in and a way out; the other arcs are anywhere
        ends = np.arange(max(arcs_per_frame, here, there))
        sources.append(first[t] + ends % here)
        nexts.append(first[t + 1] + rng.permutation(ends) % there)
    source, following = np.concatenate(sources), np.concatenate(nexts)
    ids = rng.integers(1, 2 * NUM_PDFS + 1, len(source)).astype(np.int32)
    finals = np.full((int(first[-1]) + 1, 2), NO_WEIGHT, np.float32)
    finals[-1] = 0.0
    lattice = Fst.from_arcs(0, finals, source, ids, ids, rng.uniform(0, 5, (len(ids), 2)).astype(np.float32),
                            following, "lattice4")
    return DiscriminativeSupervision(rng.integers(1, 2 * NUM_PDFS + 1, num_frames).astype(np.int32), lattice, 1.0, 1,
                                     num_frames)


def seconds(run: Callable[[], Any], runs: int) -> float:
    """The median time of some runs, after one that does not count."""
    run()
    taken = []
    for _ in range(runs):
        begun = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def lines(num_sequences: int, num_frames: int, arcs_per_second: int, runs: int) -> Iterator[str]:
    """The report, as it is measured."""
    from nnet3py.discriminative.objective import DiscriminativeObjective, lattice_graphs
    from nnet3py.discriminative.options import DiscriminativeOptions
    from nnet3py.egs.discriminative_example import merge_supervisions
    from nnet3py.ops import get_ops
    from nnet3py.ops.device import describe

    rng, ops, model = np.random.default_rng(0), get_ops("cpu"), transition_model()
    merged = merge_supervisions([supervision(rng, num_frames, arcs_per_second // FRAMES_PER_SECOND)
                                 for _ in range(num_sequences)])
    speech, num_arcs = num_sequences * num_frames / FRAMES_PER_SECOND, merged.den_lat.num_arcs
    output = rng.standard_normal((num_sequences * num_frames, NUM_PDFS)).astype(np.float32)
    output -= np.log(np.exp(output).sum(axis=1, keepdims=True))
    deriv, graphs = np.empty_like(output), lattice_graphs(merged, model)
    yield (f"{num_sequences} sequences of {num_frames} frames, {num_arcs} arcs, {NUM_PDFS} pdfs; medians of {runs} "
           f"runs; {describe('cpu')}; load {os.getloadavg()[0]:.1f}")
    yield f"{'':24}{'ms':>10}{'million arcs/s':>16}{'s of speech/s':>16}"

    def line(what: str, taken: float) -> str:
        return f"{what:24}{1e3 * taken:10.1f}{num_arcs / taken / 1e6:16.2f}{speech / taken:16.0f}"

    scores = rng.standard_normal(len(graphs.costs)).astype(np.float32)
    yield line("tables", seconds(lambda: lattice_graphs(merged, model), runs))
    for criterion in ("mmi", "smbr"):
        objective = DiscriminativeObjective(ops, model, np.zeros(0, np.float32),
                                            DiscriminativeOptions(criterion=criterion))
        yield line(f"{criterion}: sums", seconds(lambda of=objective: of._over_paths(graphs, scores, merged), runs))
        yield line(f"{criterion}: whole", seconds(lambda of=objective: of.compute(merged, output, deriv), runs))


def main(args: Sequence[str] | None = None) -> int:
    """Measure, print, and write to a file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--frames", type=int, default=150)
    parser.add_argument("--arcs", type=int, default=50000, help="in a second of speech")
    parser.add_argument("--to", type=Path, help="a file that gets the report, too")
    options = parser.parse_args(args)
    report = []
    for text in lines(options.sequences, options.frames, options.arcs, options.runs):
        print(text, flush=True)
        report.append(text)
    if options.to:
        options.to.write_text("\n".join(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
