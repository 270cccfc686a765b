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
    """A path with these transition-ids and words, int32, paired in order.

    The costs are at its end. Kaldi: MakeLatticeFromLinear.
    """
    size = max(len(ids), len(words))
    inputs, outputs = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
    inputs[:len(ids)], outputs[:len(words)] = ids, words
    finals = infinite_weights(size + 1)
    finals[-1] = graph_cost, acoustic_cost
    return factored(Fst(0, finals, starts_of(np.arange(size + 1) < size), inputs, outputs,
                        np.zeros((size, 2), dtype=np.float32), np.arange(1, size + 1, dtype=np.int32), LATTICE))


def word_times(lattice: CompactLattice) -> list[tuple[int, int, int]] | None:
    """Label, first frame and number of frames of each arc of a linear lattice; None for one that is not linear.

    Arcs with neither a label nor frames are left out. Kaldi: CompactLatticeToWordAlignment.
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
    """The phones of each arc that :func:`word_times` returns, one for each that ends in it; None as there.

    ShapeError for a transition-id that the model does not have. Kaldi: CompactLatticeToWordProns.
    """
    times, path = word_times(lattice), path_of(lattice)
    if times is None or path is None:
        return None
    check_transition_ids(model, path.ids)
    phones = model.transition_id_to_phone
    parts = [path.ids[begin:begin + length] for _, begin, length in times]
    return [phones[ids[model.is_final[ids]]].tolist() for ids in parts]
