"""Special push: costs shifted so that the exits of each state have the same sum. Kaldi: ``PushSpecial``."""
from __future__ import annotations

import logging

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.fst.arcs import changed
from nnet3py.transducers.fst import Fst

logger = logging.getLogger(__name__)

OPENFST_DELTA = 1.0 / 1024.0
_MAX_ITERATIONS = 200
_CHECK_EVERY = 5
_DAMPING = 0.1                             # of the power iteration: parity must not keep it from converging


def push_special(fst: Fst, delta: float = OPENFST_DELTA) -> Fst:
    """The FST with its costs shifted so that the probabilities leaving each state have the same sum.

    Stopping at a final state counts as continuing at the start. The sum need not be 1. All states must be reachable,
    and reach a final state. Warns if it is not found to within ``delta``.
    """
    final = np.flatnonzero(fst.is_final)
    sources = np.concatenate((fst.sources, final))
    targets = np.concatenate((fst.next_states, np.full(len(final), fst.start)))
    with np.errstate(over="ignore"):
        probs = np.exp(-np.concatenate((fst.weights, fst.final_weights[final]))).astype(np.float64)
    with np.errstate(all="ignore"):
        potentials = np.log(_leading_vector(sources, targets, probs, fst.num_states, delta))
    if not np.isfinite(potentials).all():
        raise FormatError("a graph cannot be pushed: a state cannot be reached, reaches no final state, or has no "
                          "probability", hint="fstconnect leaves such states out")
    finals = fst.final_weights.copy()
    finals[final] = finals[final] + (potentials[final] - potentials[fst.start])
    weights = fst.weights + (potentials[fst.sources] - potentials[fst.next_states])
    return changed(fst, final_weights=finals.astype(np.float32), weights=weights.astype(np.float32))


def _leading_vector(rows: np.ndarray, cols: np.ndarray, values: np.ndarray, size: int, delta: float) -> np.ndarray:
    """float64 (size,): the eigenvector, of length 1, of the greatest eigenvalue of a sparse matrix."""
    vector = np.full(size, 1.0 / np.sqrt(size))
    for iteration in range(_MAX_ITERATIONS):
        vector = np.bincount(rows, values * vector[cols], size) + _DAMPING * vector
        vector /= np.sqrt(np.square(vector).sum())                      # not BLAS: its threads cost more here
        if iteration % _CHECK_EVERY == 0 and iteration > 0:
            sums = np.bincount(rows, values * vector[cols], size) / vector
            if np.log(sums.max() / sums.min()) <= delta:
                return vector
    logger.warning("push-special: finished %d iterations without converging.  Output will be inaccurate.",
                   _MAX_ITERATIONS)
    return vector
