"""All paths of small graphs, one by one: what tests compare graphs and lattices with."""
from __future__ import annotations

import math

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
    starts = fst.arc_starts.tolist()
    arcs = list(zip(fst.input_labels.tolist(), fst.output_labels.tolist(), weights.tolist(), fst.next_states.tolist(),
                    strict=True))
    ends = [(math.isfinite(cost), cost) for cost in finals.tolist()]
    # The least cost of the paths of so many arcs: those that are alike so far go on as one.
    paths: dict[tuple[int, Labels, Labels, int], float] = {(fst.start, (), (), 0): 0.0}
    while paths:
        longer: dict[tuple[int, Labels, Labels, int], float] = {}
        for (state, inputs, outputs, epsilons), cost in paths.items():
            is_final, end = ends[state]
            if is_final:
                found[inputs, outputs] = min(found.get((inputs, outputs), math.inf), cost + end)
            for label, word, weight, next_state in arcs[starts[state]:starts[state + 1]]:
                skipped = 0 if label else epsilons + 1
                if len(inputs) + (label > 0) <= longest and skipped <= most_epsilons:
                    key = (next_state, inputs + (label,) * (label > 0), outputs + (word,) * (word > 0), skipped)
                    if cost + weight < longer.get(key, math.inf):
                        longer[key] = cost + weight
        paths = longer
    return found
