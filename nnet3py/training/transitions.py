"""Estimation of an acoustic model's transition probabilities and priors from alignments.

Kaldi: ``TransitionModel::MleUpdate``, and ``nnet3-am-train-transitions``.
"""
from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error, NumericError, ShapeError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.log import kaldi_place
from nnet3py.training.options import TransitionOptions

logger = logging.getLogger(__name__)

_PLACE = kaldi_place("MleUpdate", "transition-model.cc", 528)
_FLOORING_PASSES = 3


class Improvement(NamedTuple):
    """Total increase of the log-likelihood of the counted transitions, and the number of transitions."""

    objective: float
    num_frames: float

    def average(self) -> float:
        """Return the increase of the log-likelihood per frame; NaN if nothing was counted."""
        return self.objective / self.num_frames if self.num_frames else float("nan")


def count_transitions(model: TransitionModel, alignment: np.ndarray, counts: np.ndarray) -> None:
    """Add the transitions of an alignment to ``counts``, in place.

    Raises Nnet3Error for a transition-id that the model does not have.

    ``alignment`` : int32 (frames,), transition-ids; ``counts`` : float64 (transition-ids + 1,).
    """
    if len(alignment) and not 1 <= alignment.min() <= alignment.max() <= model.num_transition_ids:
        worst = alignment.max() if alignment.min() >= 1 else alignment.min()
        raise Nnet3Error(f"the alignment has transition-id {worst}; the model has 1 to {model.num_transition_ids}",
                         "was it made with another model, or does it hold pdfs?")
    counts += np.bincount(alignment, minlength=len(counts))


def train_transitions(model: TransitionModel, counts: np.ndarray,
                      options: TransitionOptions | None = None) -> Improvement:
    """Estimate the transition probabilities of ``model`` from counts, in place.

    States with a single transition, and states seen too rarely, keep their probabilities. Probabilities are floored
    after the last normalization, so that their sum for a state may be a little more than 1. ``counts`` : float64
    (transition-ids + 1,), how often each transition was taken; element 0 is not used.

    Raises
    ------
    UsageError : a floor that is not a probability
    ShapeError : counts of another model
    FormatError : states that would share their probabilities have different numbers of transitions
    """
    options = options or TransitionOptions()
    options.check()
    if counts.shape != (model.num_transition_ids + 1,):
        raise ShapeError(f"expected {model.num_transition_ids + 1} counts of transitions, found {len(counts)}")
    groups = _states_by_pdf(model) if options.share_for_pdfs else [
        [state] for state in range(1, model.num_transition_states + 1)]
    log_probs = model.log_probs.copy()
    objective = total = 0.0
    num_floored = num_skipped = 0
    for states in groups:
        ids = _transition_ids(model, states)
        if ids.shape[1] == 1:
            continue
        group_counts = counts[ids].sum(axis=0)
        total += group_counts.sum()
        if group_counts.sum() < options.transition_min_count or not group_counts.sum() > 0.0:
            num_skipped += 1
            continue
        probs = _floored(group_counts, np.float32(options.transition_floor))
        num_floored += int((probs == np.float32(options.transition_floor)).sum())
        new = np.log(probs)
        objective += float(group_counts @ (new.astype(np.float64) - log_probs[ids[0]]))
        log_probs[ids] = np.minimum(new, 0.0)
    model.set_log_probs(log_probs)
    improvement = Improvement(objective, total)
    _log_update(improvement, num_floored, num_skipped, model, options.share_for_pdfs)
    return improvement


def priors_of_counts(model: TransitionModel, counts: np.ndarray, floor: float) -> np.ndarray:
    """Return the fraction of counted transitions of each pdf, at least about ``floor``: float32 (pdfs,), with sum 1.

    Raises NumericError if nothing was counted.
    """
    pdf_counts = np.bincount(model.transition_id_to_pdf[1:], counts[1:], model.num_pdfs)
    if not pdf_counts.sum() > 0.0:
        raise NumericError("no transitions were counted, so there are no priors",
                           "are the alignments empty? --set-priors=false leaves the priors alone")
    priors = np.maximum((pdf_counts / pdf_counts.sum()).astype(np.float32), np.float32(floor))
    return np.asarray(priors / priors.sum())


def _states_by_pdf(model: TransitionModel) -> list[list[int]]:
    """Return the transition-states of each pdf; a state with another pdf for its self-loop is in the lists of both."""
    groups: dict[int, set[int]] = {}
    columns = (2,) if model.topology.is_hmm else (2, 3)
    for column in columns:
        for state, pdf in enumerate(model.tuples[:, column].tolist(), 1):
            groups.setdefault(pdf, set()).add(state)
    return [sorted(groups[pdf]) for pdf in sorted(groups)]


def _transition_ids(model: TransitionModel, states: list[int]) -> np.ndarray:
    """Return the transition-ids of each state, int (states, transitions). Raises FormatError if their numbers differ.
    """
    first = model.first_transition_id
    sizes = [int(first[state + 1] - first[state]) for state in states]
    if len(set(sizes)) > 1:
        raise FormatError("Mismatch in #transition indices: transition-states with the same pdf have different numbers "
                          f"of transitions ({min(sizes)} and {max(sizes)})",
                          hint="--share-for-pdfs=true cannot be used with this topology")
    return first[states][:, None] + np.arange(sizes[0])


def _floored(counts: np.ndarray, floor: np.float32) -> np.ndarray:
    """Return probabilities proportional to the counts, floored at ``floor`` and normalized a few times, float32."""
    probs = (counts / counts.sum()).astype(np.float32)
    for _ in range(_FLOORING_PASSES):
        probs = np.maximum(probs / probs.sum(), floor)
    return np.asarray(probs)


def _log_update(improvement: Improvement, num_floored: int, num_skipped: int, model: TransitionModel,
                shared: bool) -> None:
    if shared:
        logger.info(f"Objf change is {improvement.average():.6g} per frame over {improvement.num_frames:.6g} frames; "
                    f"{num_floored} probabilities floored, {num_skipped} pdf-ids skipped due to insuffient data.",
                    extra=_PLACE)
        return
    logger.info(f"TransitionModel::Update, objf change is {improvement.average():.6g} per frame over "
                f"{improvement.num_frames:.6g} frames. ", extra=_PLACE)
    logger.info(f"{num_floored} probabilities floored, {num_skipped} out of {model.num_transition_states} "
                "transition-states skipped due to insuffient data (it is normal to have some skipped.)", extra=_PLACE)
