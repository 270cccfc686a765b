"""Graphs and supervision for the tests of chain training."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3py.egs.chain_example import NnetChainExample, NnetChainSupervision, Supervision, merge_supervisions
from nnet3py.egs.example import NnetIo
from nnet3py.transducers.fst import Fst

INFINITY = np.float32(np.inf)
Arc = tuple[int, int, int, float]


def acceptor(num_states: int, start: int, arcs: Sequence[Arc], finals: dict[int, float]) -> Fst:
    """An FST of arcs (source, label, destination, cost) and final costs."""
    arcs = sorted(arcs, key=lambda arc: arc[0])
    final = np.full(num_states, INFINITY, dtype=np.float32)
    for state, cost in finals.items():
        final[state] = cost
    sources = np.array([arc[0] for arc in arcs], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(np.bincount(sources, minlength=num_states)))).astype(np.int64)
    labels = np.array([arc[1] for arc in arcs], dtype=np.int32)
    return Fst(start, final, starts, labels, labels, np.array([arc[3] for arc in arcs], dtype=np.float32),
               np.array([arc[2] for arc in arcs], dtype=np.int32))


def three_phones() -> Fst:
    """The denominator FST of three phones that the data sheet works out by hand; 6 pdfs, start state 4."""
    return acceptor(5, 4, [
        (0, 1, 3, 1.387653), (0, 3, 0, 2.480469), (0, 4, 0, 0.693359), (0, 5, 1, 1.787391),
        (1, 1, 3, 1.797527), (1, 3, 0, 1.093468), (1, 6, 1, 0.693359),
        (2, 2, 2, 0.693359), (2, 3, 0, 0.978016), (2, 5, 1, 2.081814),
        (3, 2, 3, 0.693359), (4, 1, 2, -0.000654)], {3: 0.691626})


def random_graph(rng: np.random.Generator, num_states: int, num_pdfs: int, arcs_per_state: int = 4) -> Fst:
    """A denominator FST whose states can all be reached, with some parallel arcs."""
    arcs: list[Arc] = []
    for state in range(num_states):
        nexts = [(state + 1) % num_states, *rng.integers(0, num_states, arcs_per_state - 1).tolist()]
        probs = rng.dirichlet(np.ones(arcs_per_state))
        arcs += [(state, int(rng.integers(1, num_pdfs + 1)), target, float(-np.log(prob)))
                 for target, prob in zip(nexts, probs, strict=True)]
    return acceptor(num_states, 0, arcs, {num_states - 1: 0.5})


def layered(rng: np.random.Generator, num_frames: int, num_pdfs: int, width: int = 2) -> Fst:
    """A supervision's FST: ``width`` states for each time, all connected to those of the next, numbered by time."""
    counts = [1] + [width] * (num_frames - 1) + [1]
    first = np.concatenate(([0], np.cumsum(counts)))
    arcs = [(int(first[t]) + i, int(rng.integers(1, num_pdfs + 1)), int(first[t + 1]) + j, float(rng.normal()))
            for t in range(num_frames) for i in range(counts[t]) for j in range(counts[t + 1])]
    return acceptor(int(first[-1]), 0, arcs, {int(first[-1]) - 1: float(rng.normal())})


def forward_graph(rng: np.random.Generator, num_states: int, num_pdfs: int) -> Fst:
    """The FST of an utterance without times: states one after the other with self-loops, and a skip."""
    arcs = [(i, int(rng.integers(1, num_pdfs + 1)), j, float(rng.uniform(0.1, 2.0)))
            for i in range(num_states) for j in (i, i + 1, i + 2) if j < num_states and (i or j)]
    return acceptor(num_states, 0, arcs, {num_states - 1: 0.3})


def supervision(rng: np.random.Generator, num_sequences: int, num_frames: int, num_pdfs: int, weight: float = 1.0,
                end_to_end: bool = False) -> Supervision:
    """A random supervision, merged of ``num_sequences``."""
    if end_to_end:
        parts = [Supervision(weight, 1, num_frames, num_pdfs, None, [forward_graph(rng, 3, num_pdfs)])
                 for _ in range(num_sequences)]
    else:
        parts = [Supervision(weight, 1, num_frames, num_pdfs, layered(rng, num_frames, num_pdfs))
                 for _ in range(num_sequences)]
    return merge_supervisions(parts)


def chain_example(rng: np.random.Generator, num_sequences: int, num_frames: int, num_pdfs: int, dim: int = 3,
                  context: int = 0, step: int = 3, weight: float = 1.0, end_to_end: bool = False,
                  name: str = "output") -> NnetChainExample:
    """A merged example whose output frames are ``step`` apart, with some weights of 0.5."""
    times = np.arange(-context, step * (num_frames - 1) + context + 1)
    inputs = np.array([(n, t, 0) for n in range(num_sequences) for t in times], dtype=np.int32)
    rows = np.array([(n, step * t, 0) for t in range(num_frames) for n in range(num_sequences)], dtype=np.int32)
    features = rng.standard_normal((len(inputs), dim)).astype(np.float32)
    weights = np.where(np.arange(len(rows)) % 3, 1.0, 0.5).astype(np.float32)
    found = supervision(rng, num_sequences, num_frames, num_pdfs, weight, end_to_end)
    return NnetChainExample([NnetIo("input", inputs, features)], [NnetChainSupervision(name, rows, found, weights)])
