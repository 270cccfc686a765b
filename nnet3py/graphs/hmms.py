"""Windows of phones as HMMs: expansion of graphs of windows to graphs of transition-ids, and self-loops.

Self-loops are added last, after determinization. Kaldi: ``GetHmmAsFsa``, ``GetHTransducer``, ``AddSelfLoops``.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.graphs.context import EPSILON, Window
from nnet3py.graphs.grammar_fst import FIRST_LABEL, Nonterminals
from nnet3py.hmm.topology import NO_PDF, HmmState
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import breadth_first, connected


class HmmArc(NamedTuple):
    """A transition of a window's HMM: HMM states, a transition-id (0: the state emits nothing) and its cost."""

    source: int
    target: int
    transition_id: int
    cost: float


class Hmm(NamedTuple):
    """The HMM of a window without self-loops: transitions by state; the last state is final."""

    num_states: int
    arcs: list[HmmArc]


def window_hmm(window: Window, tree: ContextDependency, model: TransitionModel, transition_scale: float) -> Hmm:
    """Return the HMM of a window of phones, without self-loops.

    Costs are -log(P(transition | no self-loop)) times ``transition_scale``. Raises FormatError for a phone that the
    topology does not have; Nnet3Error for a window for which the tree has no pdf, or whose pdfs the model lacks.
    """
    if len(window) != tree.context_width:
        raise Nnet3Error(f"expected windows of {tree.context_width} phones, found {window}")
    phone = window[tree.central_position]
    entry = model.topology.entry_of_phone.get(phone)
    if entry is None:
        raise FormatError(f"phone {phone} of the graph is not in the model's topology",
                          hint="use the model that the graph was made with")
    states = model.topology.entries[entry]
    arcs = [arc for number, state in enumerate(states)
            for arc in _state_arcs(number, state, window, tree, model, transition_scale)]
    return Hmm(len(states), arcs)


def _state_arcs(number: int, state: HmmState, window: Window, tree: ContextDependency, model: TransitionModel,
                transition_scale: float) -> Iterator[HmmArc]:
    if state.forward_pdf_class == NO_PDF:
        for target, probability in state.transitions:
            yield HmmArc(number, target, EPSILON, -transition_scale * float(np.log(probability)))
        return
    forward, self_loop = (tree.pdf(window, pdf_class)
                          for pdf_class in (state.forward_pdf_class, state.self_loop_pdf_class))
    transition_state = model.transition_state(window[tree.central_position], number, forward, self_loop)
    first = int(model.first_transition_id[transition_state])
    not_looping = float(model.non_self_loop_log_probs[transition_state])
    for index, (target, _) in enumerate(state.transitions):
        if target != number:
            cost = -transition_scale * (float(model.log_probs[first + index]) - not_looping)
            yield HmmArc(number, target, first + index, cost + 0.0)


class _Expansion:
    """States and arcs of a new graph of transition-ids; the first states are those of the graph of windows."""

    def __init__(self, num_states: int) -> None:
        self.num_states = num_states
        self.arcs: list[tuple[int, int, int, int]] = []           # source, input and output label, target
        self.costs: list[float] = []

    def new_state(self) -> int:
        self.num_states += 1
        return self.num_states - 1

    def add(self, source: int, label: int, output: int, cost: float, target: int) -> None:
        self.arcs.append((source, label, output, target))
        self.costs.append(cost)

    def fst(self, start: int, finals: np.ndarray) -> Fst:
        arcs = np.array(self.arcs, dtype=np.int64).reshape(-1, 4)
        all_finals = np.full(self.num_states, NO_WEIGHT, dtype=np.float32)
        all_finals[:len(finals)] = finals
        return Fst.from_arcs(start, all_finals, arcs[:, 0], arcs[:, 1], arcs[:, 2], self.costs, arcs[:, 3])


def expand_hmms(fst: Fst, windows: Sequence[Window], tree: ContextDependency, model: TransitionModel,
                transition_scale: float = 1.0) -> Fst:
    """Replace the windows on the arcs of a graph, from ``expand_context``, by their HMMs without self-loops.

    The result is that of Kaldi's composition of H with the graph: arcs with the same window and target share the HMM's
    states, and every HMM ends in a state of its own, from which an epsilon leads to the target; so no state is entered
    by transition-ids of two transition-states. States are numbered breadth first. The graph is an acceptor of
    transition-ids, with epsilons where ``fst`` has them, and where HMM states emit nothing.

    ``transition_scale`` is the factor of the costs of transitions. Raises Nnet3Error for windows that are
    disambiguation symbols, and the errors of :func:`window_hmm`.
    """
    hmms = {number: window_hmm(_phones(windows[number - 1]), tree, model, transition_scale)
            for number in sorted(set(fst.input_labels.tolist())) if number != EPSILON}
    expansion = _Expansion(fst.num_states)
    inner: dict[tuple[int, int], list[int]] = {}
    for source, label, cost, target in zip(fst.sources.tolist(), fst.input_labels.tolist(), fst.weights.tolist(),
                                           fst.next_states.tolist(), strict=True):
        if label == EPSILON:
            expansion.add(source, EPSILON, EPSILON, cost, target)
            continue
        hmm = hmms[label]
        if (label, target) not in inner:
            inner[label, target] = _add_inner(expansion, hmm, target)
        states = inner[label, target]
        for arc in hmm.arcs:
            if arc.source == 0:
                expansion.add(source, arc.transition_id, EPSILON, cost + arc.cost, states[arc.target])
    expanded = breadth_first(connected(expansion.fst(fst.start, fst.final_weights)))
    return dataclasses.replace(expanded, output_labels=expanded.input_labels)


def _phones(window: Window) -> Window:
    if len(window) == 1 and window[0] <= 0:
        raise Nnet3Error(f"expected windows of phones, found disambiguation symbol {-window[0]}, which has no HMM",
                         "compose graphs that have such symbols with hmm_transducer")
    return window


def _add_inner(expansion: _Expansion, hmm: Hmm, target: int) -> list[int]:
    """Add the transitions of an HMM that do not leave its first state, and an epsilon from its end to ``target``.

    Return the graph's state for each HMM state.
    """
    entered = {arc.target for arc in hmm.arcs}
    last = hmm.num_states - 1
    states = [expansion.new_state() if number in entered else target for number in range(hmm.num_states)]
    for arc in hmm.arcs:
        if arc.source in entered:
            expansion.add(states[arc.source], arc.transition_id, EPSILON, arc.cost, states[arc.target])
    if last in entered:
        expansion.add(states[last], EPSILON, EPSILON, 0.0, target)
    return states


def hmm_transducer(windows: Sequence[Window], tree: ContextDependency, model: TransitionModel,
                   transition_scale: float = 1.0, nonterminals: Nonterminals | None = None) -> tuple[Fst, list[int]]:
    """Return the transducer H from transition-ids to window ids, without self-loops, and the labels of symbols.

    HMMs leave state 0 and return to it by epsilons; windows with the same HMM share its states. Windows that are
    disambiguation symbols, such as ``(-5,)``, get input labels after the last transition-id, in their order, which are
    returned. With ``nonterminals``, windows may be a nonterminal and the phone before, such as ``(-104, 3)``; their
    labels are those of ``Nonterminals.label``. Raises the errors of :func:`window_hmm`. Kaldi: GetHTransducer.
    """
    expansion = _Expansion(1)
    disambig: list[int] = []
    inner: dict[tuple[HmmArc, ...], list[int]] = {}
    for number, window in enumerate(windows, 1):
        if len(window) == 1 and window[0] <= 0:
            disambig.append(model.num_transition_ids + 1 + len(disambig))
            state = expansion.new_state()
            expansion.add(0, disambig[-1], number, 0.0, state)
            expansion.add(state, EPSILON, EPSILON, 0.0, 0)
            continue
        if nonterminals is not None and len(window) == 2 and window[0] < 0:
            expansion.add(0, nonterminals.label(-window[0], window[1]), number, 0.0, 0)
            continue
        hmm = window_hmm(window, tree, model, transition_scale)
        arcs = tuple(hmm.arcs)
        if arcs not in inner:
            inner[arcs] = _add_inner(expansion, hmm, 0)
        states = inner[arcs]
        for arc in hmm.arcs:
            if arc.source == 0:
                expansion.add(0, arc.transition_id, number, arc.cost, states[arc.target])
    return connected(expansion.fst(0, np.zeros(1, dtype=np.float32))), disambig


def to_pdfs(fst: Fst, model: TransitionModel) -> Fst:
    """Return an acceptor with labels pdf-id + 1 in place of transition-ids; FormatError for other labels.

    Epsilons stay.
    """
    labels = fst.input_labels
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) <= model.num_transition_ids:
        raise FormatError(f"expected a graph of transition-ids, 1 to {model.num_transition_ids}, found labels from "
                          f"{labels.min()} to {labels.max()}", hint="use the model that the graph was made with")
    pdfs = (model.transition_id_to_pdf[labels] + 1).astype(np.int32)
    return dataclasses.replace(fst, input_labels=pdfs, output_labels=pdfs, stored=None)


_NO_CLASS = -1        # of a state without arcs


def add_self_loops(fst: Fst, model: TransitionModel, scale: float = 1.0, check: bool = True,
                   disambig: Collection[int] = (), reorder: bool = True) -> Fst:
    """Add to each state the self-loop of the transition-state whose arcs enter it. Kaldi: AddSelfLoops.

    So a self-loop comes after the transition that leaves its HMM state ("reordered"). If arcs of several
    transition-states enter a state, each of these gets a new state with the self-loop, and an epsilon arc to the old
    one. Without ``reorder`` the self-loop is that of the transition-state whose arcs leave the state, so that it comes
    before. Raises FormatError for a label that is not a transition-id of the model; with ``check``, the label of a
    self-loop.

    Parameters
    ----------
    fst : Fst, input labels are transition-ids, epsilons (0), ``disambig`` and nonterminals
    model : TransitionModel
    scale : float, factor of the costs of taking and of not taking self-loops
    check : bool, refuse a graph that has self-loops of the model already
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
    """Return the transition-state of each label, int64 (arcs,); 0 for other labels and epsilons."""
    is_other = np.isin(labels, [0, *disambig]) | (labels >= FIRST_LABEL)
    wrong = ~is_other & ((labels < 0) | (labels > model.num_transition_ids))
    if wrong.any():
        raise FormatError(f"the graph has the label {labels[wrong.argmax()]}, but the model's transition-ids are 1 to "
                          f"{model.num_transition_ids}", hint="use the model that the graph was made with")
    ids = np.where(is_other, 0, labels)
    if check and model.is_self_loop[ids].any():
        first = labels[model.is_self_loop[ids].argmax()]
        raise FormatError(f"the graph has a self-loop already: transition-id {first}",
                          hint="self-loops are added once, at the end")
    return model.transition_id_to_state[ids].astype(np.int64)


def _one_class_enters(fst: Fst, classes: np.ndarray) -> tuple[Fst, np.ndarray]:
    """Add states so that all arcs into a state have the same class; return the graph and the class of each state.

    A class is a transition-state; 0: none.
    """
    low, high = _range_of_classes(fst.next_states, classes, fst.num_states)
    low[fst.start], high[fst.start] = 0, max(high[fst.start], 0)        # the start counts as entered by an epsilon
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
    """Add states so that all arcs out of a state have the same class; return the graph and the class of each state.

    A class is a transition-state; 0: none. Where a state has several, an arc becomes an epsilon, with its output label
    and weight, to a new state, followed by an arc with the transition-id.
    """
    low, high = _range_of_classes(fst.sources, classes, fst.num_states)
    # a final state counts as left by an epsilon
    low[fst.is_final], high[fst.is_final] = 0, np.maximum(high[fst.is_final], 0)
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
    """Return the lowest and the highest class of the arcs at each state, int64 (states,); low > high without arcs.

    ``states`` has the source or the target of each arc.
    """
    low, high = np.full(num_states, np.iinfo(np.int64).max), np.full(num_states, _NO_CLASS)
    np.minimum.at(low, states, classes)
    np.maximum.at(high, states, classes)
    return low, high
