"""Small random FSTs for tests of algorithms on graphs."""
from __future__ import annotations

import numpy as np

from nnet3py.transducers.fst import Fst


def random_fst(seed: int, states: int = 9, arcs: int = 20, epsilons: float = 0.4, cyclic: bool = False) -> Fst:
    """A transducer of labels 1 and 2 with epsilons on either side; without ``cyclic`` arcs lead to higher numbers."""
    draw = np.random.default_rng(seed)
    sources = draw.integers(0, states - 1, arcs)
    targets = draw.integers(0, states, arcs) if cyclic else np.minimum(sources + draw.integers(1, 4, arcs), states - 1)
    inputs, outputs = (np.where(draw.random(arcs) < epsilons, 0, draw.integers(1, 3, arcs)) for _ in range(2))
    inputs = np.where(targets == sources, 1, inputs)
    finals = np.where(draw.random(states) < 0.3, draw.random(states), np.inf)
    finals[-1] = 0.0
    return Fst.from_arcs(0, finals, sources, inputs, outputs, draw.random(arcs), targets)
