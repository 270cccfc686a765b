"""The normalization graph: the denominator graph as supervisions are composed with it. Kaldi: ``GetNormalizationFst``.

A supervision is cut out of an utterance, so its first frame can be in any state, at the cost of being there.
"""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.chain.den_graph import initial_probs
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import without_epsilons


def normalization_fst(den_fst: Fst) -> Fst:
    """The graph whose paths may begin and end anywhere in the denominator graph. Kaldi: normalization.fst.

    Parameters
    ----------
    den_fst : the denominator graph

    Returns
    -------
    An acceptor, for :class:`Normalizer`, its arcs sorted by label. A new state, the last, is the start; the former
    start remains if an arc enters it. Of equal arcs that leave the new start the cheapest is kept.

    Raises
    ------
    Nnet3Error : what is not a denominator graph
    """
    probs = initial_probs(den_fst)
    num_states = den_fst.num_states
    nothing = np.zeros(num_states, dtype=np.int32)
    labels = np.concatenate((den_fst.input_labels, nothing))
    entered = Fst.from_arcs(
        num_states, np.append(np.zeros(num_states, dtype=np.float32), np.float32(np.inf)),
        np.concatenate((den_fst.sources, np.full(num_states, num_states))), labels, labels,
        np.concatenate((den_fst.weights, -np.log(probs))),
        np.concatenate((den_fst.next_states, np.arange(num_states))))
    return sorted_by_label(without_epsilons(entered))


def sorted_by_label(fst: Fst) -> Fst:
    """The acceptor with the arcs of each state sorted by label."""
    order = np.lexsort((fst.input_labels, fst.sources))
    labels = fst.input_labels[order]
    return dataclasses.replace(fst, input_labels=labels, output_labels=labels, weights=fst.weights[order],
                               next_states=fst.next_states[order], stored=None)
