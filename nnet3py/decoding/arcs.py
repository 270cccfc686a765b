"""Graphs built arc by arc."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.transducers.fst import NO_WEIGHT, Fst


def cost(probability: float) -> float:
    """-log(probability); infinity for 0."""
    return -math.log(probability) if probability > 0.0 else math.inf


class GraphBuilder:
    """States and arcs in the order in which they are added; state 0 is the start."""

    def __init__(self) -> None:
        self.num_states = 1
        self._arcs: list[tuple[int, int, int, int]] = []      # source, input label, output label, next state
        self._weights: list[float] = []
        self._finals: dict[int, float] = {}

    def state(self) -> int:
        """A new state."""
        self.num_states += 1
        return self.num_states - 1

    def arc(self, source: int, input_label: int, output_label: int, weight: float, target: int) -> None:
        """Add an arc; one with infinite cost is left out."""
        if weight != math.inf:
            self._arcs.append((source, input_label, output_label, target))
            self._weights.append(weight)

    def final(self, state: int, weight: float = 0.0) -> None:
        """Make a state final."""
        self._finals[state] = weight

    def fst(self) -> Fst:
        """The graph."""
        arcs = np.array(self._arcs, dtype=np.int32).reshape(-1, 4)
        final = np.full(self.num_states, NO_WEIGHT, dtype=np.float32)
        final[list(self._finals)] = list(self._finals.values())
        return Fst.from_arcs(0, final, arcs[:, 0], arcs[:, 1], arcs[:, 2], self._weights, arcs[:, 3])
