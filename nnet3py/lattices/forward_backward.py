"""Posterior probabilities of arcs and of transition-ids.

Kaldi: ``LatticeForwardBackward``, ``ComputeCompactLatticeAlphas``, ``ArcPosteriorComputer`` of lattice-arc-post.
"""
from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.formats.posteriors import Posterior
from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.states import Lattice, LatticeError, from_start, state_times, trimmed
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst

logger = logging.getLogger(__name__)

_forward_logs = Loop("nnet3py.lattices.path_loops", "forward_logs", "i8 i8[] i4[] f8[] f8[] f8[]")
_backward_logs = Loop("nnet3py.lattices.path_loops", "backward_logs", "i8[] i4[] f8[] f8[] f8[]")
_SAME = 1e-8               # the relative difference that the two totals may have


class ForwardBackward(NamedTuple):
    """Log-likelihoods of states and paths, and posteriors of arcs.

    Attributes
    ----------
    alphas, betas : float64 (states,), log-likelihoods of the paths from the start to each state, and from it to an end
    posteriors : float64 (arcs,), probability that a path takes the arc
    final_posteriors : float64 (states,), probability that a path ends in the state
    total : float, log-likelihood of all paths
    """

    alphas: np.ndarray
    betas: np.ndarray
    posteriors: np.ndarray
    final_posteriors: np.ndarray
    total: float


def forward_backward(lattice: Lattice) -> ForwardBackward:
    """Compute the forward and backward log-likelihoods of states, and the posteriors of arcs.

    Raises LatticeError if no path has a finite cost.

    Parameters
    ----------
    lattice : CompactLattice or Fst, topologically sorted, its start being state 0, its costs scaled already

    Returns
    -------
    ForwardBackward.
    """
    with np.errstate(invalid="ignore"):
        log_likes = -lattice.weights.astype(np.float64).sum(axis=1)
        final = np.where(lattice.is_final, -lattice.final_weights.astype(np.float64).sum(axis=1), -np.inf)
    alphas, betas = np.empty(lattice.num_states), np.empty(lattice.num_states)
    total = _forward_logs(lattice.start, lattice.arc_starts, lattice.next_states, log_likes, final, alphas)
    _backward_logs(lattice.arc_starts, lattice.next_states, log_likes, final, betas)
    if not np.isfinite(total):
        raise LatticeError("the lattice has no path of a finite cost")
    backward_total = float(betas[lattice.start])
    if abs(total - backward_total) > _SAME * (abs(total) + abs(backward_total)):
        logger.warning("Total forward probability over lattice = %.6g, while total backward probability = %.6g", total,
                       backward_total)
    with np.errstate(under="ignore", invalid="ignore"):
        posteriors = np.exp(alphas[lattice.sources] + (log_likes + betas[lattice.next_states]) - total)
        final_posteriors = np.exp(alphas + final - total)
    return ForwardBackward(alphas, betas, posteriors, final_posteriors, backward_total)


class FramePosteriors(NamedTuple):
    """Posteriors of the transition-ids of each frame.

    Attributes
    ----------
    posterior : Posterior, transition-ids with their probabilities by frame
    total : float, log-likelihood of all paths
    acoustic : float, expected acoustic log-likelihood
    """

    posterior: Posterior
    total: float
    acoustic: float


def frame_posteriors(lattice: Fst) -> FramePosteriors:
    """Compute the posteriors of transition-ids by frame. Kaldi: LatticeForwardBackward.

    Raises LatticeError if no path has a finite cost.

    Parameters
    ----------
    lattice : Fst with a transition-id on each arc (of a compact lattice: :func:`nnet3py.transducers.lattice.expanded`),
        costs scaled

    Returns
    -------
    FramePosteriors.
    """
    lattice = from_start(lattice)
    times = state_times(lattice)
    result = forward_backward(lattice)
    sources = lattice.sources
    with np.errstate(invalid="ignore"):
        acoustic = -float(np.nansum(result.posteriors * lattice.weights[:, 1]))
        finals = np.where(lattice.is_final, lattice.final_weights[:, 1], 0.0)
        acoustic -= float(np.nansum(result.final_posteriors * finals))
    used = np.flatnonzero((lattice.input_labels != 0) & (times[sources] >= 0))
    posterior = summed_posteriors(times[sources[used]], lattice.input_labels[used], result.posteriors[used],
                                  int(times.max(initial=0)))
    return FramePosteriors(posterior, result.total, acoustic)


def summed_posteriors(frames: np.ndarray, ids: np.ndarray, weights: np.ndarray, num_frames: int) -> Posterior:
    """Return a Posterior with one entry for equal ids of a frame, the sum of their weights; sums of 0 are left out.

    ``frames`` and ``ids`` (int) and ``weights`` (float) have an element for each entry. Kaldi: MergePairVectorSumming.
    """
    order = np.lexsort((ids, frames))
    frames, ids, weights = frames[order], ids[order], weights[order]
    first = np.flatnonzero(np.concatenate(([True], (np.diff(frames) != 0) | (np.diff(ids) != 0)))[:len(ids)])
    sums = (np.add.reduceat(weights, first) if len(first) else weights).astype(np.float32)
    kept = first[sums != 0.0]
    return Posterior(np.searchsorted(frames[kept], np.arange(num_frames + 1)), ids[kept], sums[sums != 0.0])


def arc_lines(key: str, lattice: CompactLattice, model: TransitionModel | None, print_alignment: bool,
              least: float) -> list[str]:
    """Return a text line for each arc whose posterior reaches ``least``. Kaldi: lattice-arc-post.

    LatticeError for a lattice without paths.
    """
    lattice = from_start(trimmed(lattice))
    if lattice.start < 0:
        raise LatticeError("the lattice is empty")
    times = state_times(lattice)
    posteriors = forward_backward(lattice).posteriors
    sources = lattice.sources
    lines = []
    for arc in np.flatnonzero(posteriors >= least).tolist():
        ids = lattice.string(arc)
        fields = [key, str(times[sources[arc]]), str(len(ids)), f"{posteriors[arc]:.7g}", str(lattice.labels[arc])]
        if print_alignment:
            fields.append(",".join(map(str, ids.tolist())))
        if model is not None:
            check_transition_ids(model, ids)
            begun = ids[(model.transition_id_to_hmm_state[ids] == 0) & ~model.is_self_loop[ids]]
            fields.append(" ".join(map(str, model.transition_id_to_phone[begun].tolist())))
        lines.append("\t".join(fields) + "\n")
    return lines
