"""Lattices of one path: made from an alignment and words; the times of their words."""
from __future__ import annotations

import logging

import numpy as np

from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.best_path import path_of
from nnet3py.lattices.states import infinite_weights
from nnet3py.transducers.arc_starts import starts_of
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.lattice import LATTICE, factored

logger = logging.getLogger(__name__)


def linear_lattice(ids: np.ndarray, words: np.ndarray, graph_cost: float, acoustic_cost: float) -> CompactLattice:
    """A lattice of one path. Kaldi: MakeLatticeFromLinear.

    Parameters
    ----------
    ids : int (frames,), transition-ids
    words : int (words,), numbers of words
    graph_cost, acoustic_cost : of the path; they are put at its end

    Returns
    -------
    The lattice; words and transition-ids are paired in order.
    """
    size = max(len(ids), len(words))
    inputs, outputs = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
    inputs[:len(ids)], outputs[:len(words)] = ids, words
    finals = infinite_weights(size + 1)
    finals[-1] = graph_cost, acoustic_cost
    return factored(Fst(0, finals, starts_of(np.arange(size + 1) < size), inputs, outputs,
                        np.zeros((size, 2), dtype=np.float32), np.arange(1, size + 1, dtype=np.int32), LATTICE))


def word_times(lattice: CompactLattice) -> list[tuple[int, int, int]] | None:
    """When the arcs of a linear lattice are. Kaldi: CompactLatticeToWordAlignment.

    Parameters
    ----------
    lattice : of one path; its words should have been aligned (:func:`align_words`)

    Returns
    -------
    Label, first frame and number of frames of each arc that has any of them; None for a lattice that is not linear.
    """
    if path_of(lattice) is None:
        return None
    times, state, frame = [], lattice.start, 0
    while lattice.arc_starts[state] < lattice.arc_starts[state + 1]:
        arc = int(lattice.arc_starts[state])
        label, length = int(lattice.labels[arc]), len(lattice.string(arc))
        if label or length:
            times.append((label, frame, length))
        frame += length
        state = int(lattice.next_states[arc])
    if len(lattice.final_string(state)):
        logger.warning("Lattice has alignments on the final weight: the last words may be shorter than they are; use "
                       "lattice-align-words or lattice-align-words-lexicon before")
    return times


def phones_of_words(lattice: CompactLattice, model: TransitionModel) -> list[list[int]] | None:
    """The phones of each arc that :func:`word_times` gives. Kaldi: CompactLatticeToWordProns.

    Parameters
    ----------
    lattice : of one path
    model : knows the phones of its transition-ids

    Returns
    -------
    Phones, one for each that ends in the arc; None for a lattice that is not linear.

    Raises
    ------
    ShapeError : a transition-id that the model does not have
    """
    times, path = word_times(lattice), path_of(lattice)
    if times is None or path is None:
        return None
    check_transition_ids(model, path.ids)
    phones = model.transition_id_to_phone
    parts = [path.ids[begin:begin + length] for _, begin, length in times]
    return [phones[ids[model.is_final[ids]]].tolist() for ids in parts]
