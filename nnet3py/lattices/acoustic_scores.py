"""Acoustic costs of lattices by frame and transition-id, kept while a lattice is determinized.

Kaldi: ComputeAcousticScoresMap, ReplaceAcousticScoresFromMap.
"""
from __future__ import annotations

import numpy as np

from nnet3py.lattices.states import LatticeError, from_start, state_times, with_weights
from nnet3py.transducers.fst import Fst


class AcousticScores:
    """The mean acoustic cost of the arcs of each transition-id in each frame."""

    def __init__(self, lattice: Fst) -> None:
        """LatticeError if arcs without transition-id, or final weights, have acoustic costs."""
        lattice = from_start(lattice)
        emits = lattice.input_labels != 0
        if lattice.weights[~emits, 1].any() or lattice.final_weights[lattice.is_final, 1].any():
            raise LatticeError("the lattice has acoustic costs where it has no transition-ids",
                               "with --write-compact=false it must be one of the decoder's, that is not determinized")
        keys, which = np.unique(self._keys(lattice, emits), return_inverse=True)
        self._known = keys
        sums = np.bincount(which.reshape(-1), lattice.weights[emits, 1], minlength=len(keys))
        self._costs = (sums / np.bincount(which.reshape(-1), minlength=len(keys))).astype(np.float32)

    @staticmethod
    def _keys(lattice: Fst, emits: np.ndarray) -> np.ndarray:
        """int64, a number for frame and transition-id of each arc that has a transition-id."""
        frames = state_times(lattice)[lattice.sources[emits]].astype(np.int64)
        return frames << 32 | lattice.input_labels[emits]

    def restored(self, lattice: Fst) -> Fst:
        """A lattice made from that one, top sorted, with these acoustic costs on its arcs, and none elsewhere."""
        lattice = from_start(lattice)
        emits = lattice.input_labels != 0
        keys = self._keys(lattice, emits)
        places = np.minimum(np.searchsorted(self._known, keys), max(len(self._known) - 1, 0))
        if len(keys) and not np.array_equal(self._known[places], keys):
            raise LatticeError("a determinized lattice has a transition-id in a frame where it was not before")
        weights, finals = lattice.weights.copy(), lattice.final_weights.copy()
        weights[:, 1] = 0.0
        weights[emits, 1] = self._costs[places]
        finals[lattice.is_final, 1] = 0.0
        return with_weights(lattice, weights, finals)

