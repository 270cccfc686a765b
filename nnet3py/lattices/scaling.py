"""Lattices with other costs or labels: scales, word penalties, transition probabilities, boosting, conversion to FSTs.
"""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.states import Lattice, LatticeError, arc_lengths, from_start, state_times, with_weights
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import without_epsilons
from nnet3py.transducers.lattice import LATTICE


@dataclasses.dataclass(frozen=True)
class Scales:
    """Factors of graph and acoustic costs, and how much of each kind is added to the other.

    Attributes
    ----------
    graph, acoustic : float, factors of graph costs, and of acoustic costs
    acoustic_to_graph : float, share of the acoustic cost that is added to the graph cost
    graph_to_acoustic : float, share of the graph cost that is added to the acoustic cost

    Kaldi: LatticeScale, with the matrix [[graph, acoustic_to_graph], [graph_to_acoustic, acoustic]].
    """

    graph: float = 1.0
    acoustic: float = 1.0
    acoustic_to_graph: float = 0.0
    graph_to_acoustic: float = 0.0

    def undone(self) -> Scales:
        """Return the inverse scales; UsageError for a scale of 0."""
        if self.graph == 0.0 or self.acoustic == 0.0:
            raise UsageError("Do not use a zero acoustic scale (cannot be inverted)",
                             "--acoustic-scale and --lm-scale must not be 0 here")
        return Scales(1.0 / self.graph, 1.0 / self.acoustic)

    @property
    def matrix(self) -> np.ndarray:
        """Scales as a matrix, float64 (2, 2)."""
        return np.array([[self.graph, self.acoustic_to_graph], [self.graph_to_acoustic, self.acoustic]])


def scaled(lattice: Lattice, scales: Scales) -> Lattice:
    """Return a lattice with its costs multiplied. Kaldi: ScaleLattice.

    >>> scaled(lattice, Scales(acoustic=0.1))

    Parameters
    ----------
    lattice : CompactLattice or Fst
    scales : Scales

    Returns
    -------
    Lattice of the same class; infinite final weights stay.
    """
    if scales == Scales():
        return lattice
    return with_weights(lattice, _multiplied(lattice.weights, scales), _multiplied(lattice.final_weights, scales))


def _multiplied(weights: np.ndarray, scales: Scales) -> np.ndarray:
    """Return pairs of costs, float32 (n, 2), scaled in double precision."""
    none = np.asarray(np.isposinf(weights).all(axis=1))
    with np.errstate(invalid="ignore", over="ignore"):
        result = (np.where(none[:, None], 0.0, weights.astype(np.float64)) @ scales.matrix.T).astype(np.float32)
    result[none] = NO_WEIGHT
    return result


def with_word_penalty(lattice: CompactLattice, penalty: float) -> CompactLattice:
    """Return a lattice with a cost added to each word. Kaldi: AddWordInsPenToCompactLattice.

    Parameters
    ----------
    lattice : CompactLattice
    penalty : float, nats added to the graph cost of each arc that has a word

    Returns
    -------
    CompactLattice, a new one.
    """
    weights = lattice.weights.copy()
    weights[lattice.labels != 0, 0] += np.float32(penalty)
    return dataclasses.replace(lattice, weights=weights)


def without_alignments(lattice: CompactLattice) -> CompactLattice:
    """Return a lattice without transition-ids. Kaldi: RemoveAlignmentsFromCompactLattice.

    Parameters
    ----------
    lattice : CompactLattice

    Returns
    -------
    CompactLattice, a new one, which has no times.
    """
    none = np.zeros(0, dtype=np.int32)
    return dataclasses.replace(lattice, string_starts=np.zeros_like(lattice.string_starts), ids=none,
                               final_string_starts=np.zeros_like(lattice.final_string_starts), final_ids=none)


def with_transition_probs(lattice: CompactLattice, model: TransitionModel, transition_scale: float,
                          self_loop_scale: float) -> CompactLattice:
    """Return a lattice with the costs of HMM transitions added to its graph costs. Kaldi: AddTransitionProbs.

    Raises ShapeError for transition-ids that the model does not have.

    Parameters
    ----------
    lattice : CompactLattice
    model : TransitionModel of the lattice's transition-ids
    transition_scale : float, factor of log-probabilities among the transitions that leave a state
    self_loop_scale : float, factor of log-probabilities of self-loops and of leaving

    Returns
    -------
    CompactLattice, a new one.
    """
    check_transition_ids(model, lattice.ids)
    check_transition_ids(model, lattice.final_ids)
    costs = transition_costs(model, transition_scale, self_loop_scale)
    weights, finals = lattice.weights.copy(), lattice.final_weights.copy()
    weights[:, 0] += _sums(costs[lattice.ids], lattice.string_starts)
    is_final = lattice.is_final
    finals[is_final, 0] += _sums(costs[lattice.final_ids], lattice.final_string_starts)[is_final]
    return dataclasses.replace(lattice, weights=weights, final_weights=finals)


def transition_costs(model: TransitionModel, transition_scale: float, self_loop_scale: float) -> np.ndarray:
    """Return the scaled cost of each transition, float64 (transition-ids + 1,). Kaldi: GetScaledTransitionLogProb.

    ``transition_scale`` scales log-probabilities among the transitions that leave a state, ``self_loop_scale`` those of
    self-loops and of leaving.
    """
    log_probs = model.log_probs.astype(np.float64)
    if transition_scale == self_loop_scale:
        return -transition_scale * log_probs
    leaving = model.non_self_loop_log_probs[model.transition_id_to_state].astype(np.float64)
    others = self_loop_scale * leaving + transition_scale * (log_probs - leaving)
    return -np.where(model.is_self_loop, self_loop_scale * log_probs, others)


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the sum of each string of ``values``, float32; string i begins at ``starts[i]``."""
    before = np.concatenate(([0.0], np.cumsum(values)))
    return (before[starts[1:]] - before[starts[:-1]]).astype(np.float32)


def boosted(lattice: Fst, model: TransitionModel, alignment: np.ndarray, factor: float, silence_phones: np.ndarray,
            max_silence_error: float) -> Fst:
    """Return the lattice with ``factor`` times its phone errors against an alignment subtracted from its graph costs.

    A frame's error is 0 if the phone is that of the alignment, ``max_silence_error`` for a silence phone, else 1.
    LatticeError if the alignment has another length. Kaldi: LatticeBoost.
    """
    lattice = from_start(lattice)
    check_transition_ids(model, lattice.input_labels[lattice.input_labels != 0])
    check_transition_ids(model, alignment)
    times = state_times(lattice)
    if int(times.max(initial=0)) != len(alignment):
        raise LatticeError(f"the lattice has {int(times.max(initial=0))} frames, its alignment {len(alignment)}",
                           "was the alignment made of other features, or subsampled otherwise?")
    sources = times[lattice.sources]
    used = np.flatnonzero((arc_lengths(lattice) > 0) & (sources >= 0))
    phones = model.transition_id_to_phone
    left, right = phones[lattice.input_labels[used]], phones[alignment[sources[used]]]
    errors = np.where(left == right, 0.0, np.where(np.isin(left, silence_phones), max_silence_error, 1.0))
    weights = lattice.weights.copy()
    weights[used, 0] -= (factor * errors).astype(np.float32)
    return with_weights(lattice, weights, lattice.final_weights)


def inverse_scale(acoustic_scale: float, inverse: float) -> float:
    """Return ``acoustic_scale``, or 1 / ``inverse`` if that is given; Nnet3Error if both are given."""
    if inverse == 1.0:
        return acoustic_scale
    if acoustic_scale != 1.0 or inverse == 0.0:
        raise Nnet3Error("--inv-acoustic-scale must not be 0, and cannot be given with --acoustic-scale")
    return 1.0 / inverse


def on_words(lattice: CompactLattice) -> Fst:
    """Return a lattice as an acceptor of words, without transition-ids. Kaldi: RemoveAlignmentsFromCompactLattice."""
    return Fst(lattice.start, lattice.final_weights, lattice.arc_starts, lattice.labels, lattice.labels,
               lattice.weights, lattice.next_states, LATTICE)


def on_transitions(lattice: Fst) -> Fst:
    """Return a lattice as an acceptor of transition-ids."""
    return dataclasses.replace(lattice, output_labels=lattice.input_labels, stored=None)


def costs_of(weights: np.ndarray) -> np.ndarray:
    """Return the sums of graph and acoustic costs, float32; infinity if both are infinite. Kaldi: ConvertLatticeWeight.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.isposinf(weights).all(axis=1), NO_WEIGHT,
                        (weights[:, 0].astype(np.float64) + weights[:, 1])).astype(np.float32)


def as_fst(lattice: Fst) -> Fst:
    """Return a lattice as an FST whose costs are the sums of graph and acoustic costs."""
    return dataclasses.replace(lattice, weights=costs_of(lattice.weights), arc_type="standard", stored=None,
                               final_weights=costs_of(lattice.final_weights))


def word_fst(lattice: CompactLattice, remove_epsilons: bool) -> Fst:
    """Return an acceptor of the lattice's words, whose costs are the sums of graph and acoustic costs."""
    fst = as_fst(on_words(lattice))
    return without_epsilons(fst) if remove_epsilons and (fst.input_labels == 0).any() else fst


class AcousticScores:
    """Acoustic costs of a lattice by frame and transition-id, to be restored after it was determinized without them.

    If several arcs share frame and transition-id, their mean is stored. Kaldi: ComputeAcousticScoresMap.
    """

    def __init__(self, lattice: Fst) -> None:
        """Store the acoustic costs of a lattice.

        LatticeError for acoustic costs on final weights or on arcs without a transition-id.
        """
        lattice = from_start(lattice)
        emits = lattice.input_labels != 0
        if lattice.weights[~emits, 1].any() or lattice.final_weights[lattice.is_final, 1].any():
            raise LatticeError("the lattice has acoustic costs on arcs without a transition-id, or on final states",
                               "--write-compact=false needs lattices as the decoder makes them, not determinized")
        keys, which = np.unique(self._keys(lattice, emits), return_inverse=True)
        self._known = keys
        sums = np.bincount(which.reshape(-1), lattice.weights[emits, 1], minlength=len(keys))
        self._costs = (sums / np.bincount(which.reshape(-1), minlength=len(keys))).astype(np.float32)

    @staticmethod
    def _keys(lattice: Fst, emits: np.ndarray) -> np.ndarray:
        """Return a number that encodes frame and transition-id of each arc in ``emits``, int64."""
        frames = state_times(lattice)[lattice.sources[emits]].astype(np.int64)
        return frames << 32 | lattice.input_labels[emits]

    def restored(self, lattice: Fst) -> Fst:
        """Return ``lattice``, made from the original one, with its acoustic costs replaced by the stored ones.

        Kaldi: ReplaceAcousticScoresFromMap.
        """
        lattice = from_start(lattice)
        emits = lattice.input_labels != 0
        keys = self._keys(lattice, emits)
        places = np.minimum(np.searchsorted(self._known, keys), max(len(self._known) - 1, 0))
        if len(keys) and not np.array_equal(self._known[places], keys):
            raise LatticeError("acoustic costs cannot be restored: the determinized lattice has a transition-id in a "
                               "frame where the lattice before had none of that number",
                               "--write-compact=true does without")
        weights, finals = lattice.weights.copy(), lattice.final_weights.copy()
        weights[:, 1] = 0.0
        weights[emits, 1] = self._costs[places]
        finals[lattice.is_final, 1] = 0.0
        return with_weights(lattice, weights, finals)
