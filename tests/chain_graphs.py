"""Graphs and supervision for the tests of chain training."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3py.io.fst import Fst

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
