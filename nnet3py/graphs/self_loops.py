"""Adding the self-loops of HMM states to a graph of transition-ids. Kaldi: ``AddSelfLoops``."""
from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.graphs.nonterminals import FIRST_LABEL
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.transducers.fst import NO_WEIGHT, Fst

_NO_CLASS = -1        # of a state without arcs


def add_self_loops(fst: Fst, model: TransitionModel, scale: float = 1.0, check: bool = True,
                   disambig: Collection[int] = (), reorder: bool = True) -> Fst:
    """Give each state the self-loop of the transition-state whose arcs enter it.

    So a self-loop comes after the transition that leaves its HMM state ("reordered"). For a state that arcs of
    several transition-states enter, a new state with an epsilon arc to it is added for each, and has the self-loop.
    Without ``reorder`` it is the transition-state whose arcs leave the state, so that the self-loop comes before.

    Parameters
    ----------
    fst : input labels are transition-ids, epsilons (0), ``disambig`` and nonterminals
    scale : factor of the costs of taking and of not taking self-loops
    check : a graph that has self-loops of the model already is an error

    Raises
    ------
    FormatError : a label that is not a transition-id of the model; with ``check``, one of a self-loop
    """
    classes = _classes(fst.input_labels, model, check, disambig)
    fst, class_of = _one_class_enters(fst, classes) if reorder else _one_class_leaves(fst, classes)
    states = np.maximum(class_of, 0)
    leaving = -scale * model.non_self_loop_log_probs[states]
    leaving[states == 0] = 0.0
    loops = model.self_loop_of[states]
    looping = np.flatnonzero(loops)
    weights = fst.weights + leaving[fst.sources]
    finals = np.where(fst.is_final, fst.final_weights + leaving, NO_WEIGHT)
    loop_labels = loops[looping]
    return Fst.from_arcs(
        fst.start, finals, np.concatenate((fst.sources, looping)), np.concatenate((fst.input_labels, loop_labels)),
        np.concatenate((fst.output_labels, loop_labels if fst.is_acceptor else np.zeros_like(loop_labels))),
        np.concatenate((weights, -scale * model.log_probs[loop_labels])), np.concatenate((fst.next_states, looping)))


def _classes(labels: np.ndarray, model: TransitionModel, check: bool, disambig: Collection[int]) -> np.ndarray:
    """int64 (arcs,): the transition-state of each label; 0 for epsilons, disambiguation symbols and nonterminals."""
    is_other = np.isin(labels, [0, *disambig]) | (labels >= FIRST_LABEL)
    wrong = ~is_other & ((labels < 0) | (labels > model.num_transition_ids))
    if wrong.any():
        raise FormatError(f"the graph has the label {labels[wrong.argmax()]}, but the model's transition-ids are 1 to "
                          f"{model.num_transition_ids}", hint="are graph and model of one system?")
    ids = np.where(is_other, 0, labels)
    if check and model.is_self_loop[ids].any():
        first = labels[model.is_self_loop[ids].argmax()]
        raise FormatError(f"the graph has a self-loop already: transition-id {first}",
                          hint="self-loops are added once, at the end")
    return model.transition_id_to_state[ids].astype(np.int64)


def _one_class_enters(fst: Fst, classes: np.ndarray) -> tuple[Fst, np.ndarray]:
    """The graph with states added so that all arcs that enter a state are of one class; and each state's class."""
    low, high = _range_of_classes(fst.next_states, classes, fst.num_states)
    low[fst.start], high[fst.start] = 0, max(high[fst.start], 0)        # entered by nothing, as if by an epsilon
    mixed = low < high
    moved = np.flatnonzero(mixed[fst.next_states] & (classes > 0))
    entered_by = np.where(mixed, 0, high)
    if not len(moved):
        return fst, entered_by
    pairs, which = np.unique(np.stack((fst.next_states[moved], classes[moved])), axis=1, return_inverse=True)
    new_states = fst.num_states + np.arange(pairs.shape[1])
    next_states = fst.next_states.copy()
    next_states[moved] = new_states[which.reshape(-1)]
    nothing = np.zeros(len(new_states), dtype=np.int32)
    grown = Fst.from_arcs(
        fst.start, np.concatenate((fst.final_weights, np.full(len(new_states), NO_WEIGHT))),
        np.concatenate((fst.sources, new_states)), np.concatenate((fst.input_labels, nothing)),
        np.concatenate((fst.output_labels, nothing)), np.concatenate((fst.weights, nothing)),
        np.concatenate((next_states, pairs[0])))
    return dataclasses.replace(grown, arc_type=fst.arc_type), np.concatenate((entered_by, pairs[1]))


def _one_class_leaves(fst: Fst, classes: np.ndarray) -> tuple[Fst, np.ndarray]:
    """The graph with states added so that all arcs that leave a state are of one class; and each state's class.

    An arc out of a state of several classes becomes an epsilon arc, with its output label and weight, to a new state,
    which the transition-id leaves.
    """
    low, high = _range_of_classes(fst.sources, classes, fst.num_states)
    low[fst.is_final], high[fst.is_final] = 0, np.maximum(high[fst.is_final], 0)        # left as if by an epsilon
    mixed = low < high
    is_moved = mixed[fst.sources] & (classes > 0)
    moved = np.flatnonzero(is_moved)
    new_states = fst.num_states + np.arange(len(moved))
    next_states = fst.next_states.copy()
    next_states[moved] = new_states
    nothing = np.zeros(len(moved), dtype=np.int32)
    labels = fst.input_labels[moved]
    grown = Fst.from_arcs(
        fst.start, np.concatenate((fst.final_weights, np.full(len(moved), NO_WEIGHT))),
        np.concatenate((fst.sources, new_states)), np.concatenate((np.where(is_moved, 0, fst.input_labels), labels)),
        np.concatenate((fst.output_labels, nothing)), np.concatenate((fst.weights, nothing)),
        np.concatenate((next_states, fst.next_states[moved])), fst.arc_type)
    return grown, np.concatenate((np.where(mixed, 0, high), classes[moved]))


def _range_of_classes(states: np.ndarray, classes: np.ndarray, num_states: int) -> tuple[np.ndarray, np.ndarray]:
    """int64 (states,) each: the lowest and the highest class of a state's arcs; without arcs, low is above high."""
    low, high = np.full(num_states, np.iinfo(np.int64).max), np.full(num_states, _NO_CLASS)
    np.minimum.at(low, states, classes)
    np.maximum.at(high, states, classes)
    return low, high
