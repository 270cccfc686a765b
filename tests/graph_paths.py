"""All paths of small graphs, one by one: what tests compare graphs and lattices with."""
from __future__ import annotations

import numpy as np

from nnet3py.transducers.fst import Fst

Labels = tuple[int, ...]


def path_costs(fst: Fst, longest: int, most_epsilons: int = 12) -> dict[tuple[Labels, Labels], float]:
    """The least cost of each pair of input and output labels, epsilons left out, of at most ``longest`` inputs."""
    found: dict[tuple[Labels, Labels], float] = {}
    weights = fst.weights.astype(np.float64)
    finals = fst.final_weights.astype(np.float64)
    if weights.ndim == 2:
        weights, finals = weights.sum(axis=1), finals.sum(axis=1)
    stack: list[tuple[int, Labels, Labels, float, int]] = [(fst.start, (), (), 0.0, 0)]
    while stack:
        state, inputs, outputs, cost, epsilons = stack.pop()
        if np.isfinite(finals[state]):
            key = inputs, outputs
            found[key] = min(found.get(key, np.inf), cost + finals[state])
        for arc in range(fst.arc_starts[state], fst.arc_starts[state + 1]):
            label, word = int(fst.input_labels[arc]), int(fst.output_labels[arc])
            skipped = 0 if label else epsilons + 1
            if len(inputs) + (label > 0) <= longest and skipped <= most_epsilons:
                stack.append((int(fst.next_states[arc]), inputs + (label,) * (label > 0),
                              outputs + (word,) * (word > 0), cost + weights[arc], skipped))
    return found
