"""Graphs of phones, made of a transition model alone, or with a tree and a phone language model: no words."""
from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nnet3py.decoding.arcs import GraphBuilder, cost
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import UsageError
from nnet3py.graphs.context import expand_context
from nnet3py.graphs.hmms import add_self_loops, expand_hmms
from nnet3py.hmm.topology import NO_PDF
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.transducers.fst import Fst

_POSITION = re.compile(r"(.+)_[BIES]")


@dataclass(frozen=True)
class PhoneLoop:
    """A graph from transition-ids to phones.

    Attributes
    ----------
    graph : its output labels are numbers of ``phones``
    phones : the names
    """

    graph: Fst
    phones: SymbolTable


def phone_loop(model: TransitionModel, names: Mapping[int, str] | None = None, *, insertion_penalty: float = 0.0,
               self_loop_scale: float = 1.0, tree: ContextDependency | None = None,
               phone_lm: Fst | None = None) -> PhoneLoop:
    """Any sequence of a model's phones, all equally probable, or as a phone language model has them.

    Without a tree, a phone passes through its HMM with pdfs of any context: at each state any of those that the model
    has for the phone, one for as long as the state lasts. With a tree they are those of the phones beside it. Phones
    whose HMMs have the same pdfs count as one, the first of them.

    Parameters
    ----------
    names : of the phones, by number; None, or for phones without a name: the numbers. The marks of places in words
        (``_B``, ``_I``, ``_E``, ``_S``) are left out: without words they say nothing
    insertion_penalty : a cost for each phone, on top of that of the loop; not with ``phone_lm``
    self_loop_scale : factor of the costs of taking and of not taking self-loops
    tree : of the model
    phone_lm : an acceptor of phones, such as the phone_lm.fst of chain training; needs the tree

    Raises
    ------
    UsageError : ``phone_lm`` without a tree, or with a penalty
    Nnet3Error : a tree or an acceptor of another model
    """
    phones = _distinct(model)
    if phone_lm is not None and (tree is None or insertion_penalty):
        raise UsageError("a phone language model needs the tree, and has costs of its own", "give the model's tree, "
                         "and no insertion penalty")
    if tree is None:
        graph = _of_any_context(model, phones, insertion_penalty)
    else:
        acceptor = _acceptor(phones, insertion_penalty) if phone_lm is None else phone_lm
        windows_graph, windows = expand_context(acceptor, tree.context_width, tree.central_position)
        graph = _with_phones(expand_hmms(windows_graph, windows, tree, model), model)
    table, numbers = _table(model.topology.phones, names or {})
    graph = dataclasses.replace(graph, output_labels=numbers[graph.output_labels])
    return PhoneLoop(add_self_loops(graph, model, self_loop_scale), table)


def _distinct(model: TransitionModel) -> list[int]:
    """The first of the phones of each HMM and set of pdfs."""
    pdfs: dict[int, list[tuple[int, ...]]] = {}
    for phone, *rest in model.tuples.tolist():
        pdfs.setdefault(phone, []).append(tuple(rest))
    first: dict[tuple[int, tuple[tuple[int, ...], ...]], int] = {}
    for phone, states in sorted(pdfs.items()):
        first.setdefault((model.topology.entry_of_phone[phone], tuple(sorted(states))), phone)
    return sorted(first.values())


def _acceptor(phones: list[int], insertion_penalty: float) -> Fst:
    graph = GraphBuilder()
    graph.final(0)
    for phone in phones:
        graph.arc(0, phone, phone, cost(1.0 / len(phones)) + insertion_penalty, 0)
    return graph.fst()


def _of_any_context(model: TransitionModel, phones: list[int], insertion_penalty: float) -> Fst:
    graph = GraphBuilder()
    graph.final(0)
    of_state: dict[tuple[int, int], list[int]] = {}
    for number, (phone, hmm_state) in enumerate(model.tuples[:, :2].tolist(), 1):
        of_state.setdefault((phone, hmm_state), []).append(number)
    for phone in phones:
        _add_phone(graph, model, phone, of_state, cost(1.0 / len(phones)) + insertion_penalty)
    return graph.fst()


def _add_phone(graph: GraphBuilder, model: TransitionModel, phone: int, of_state: Mapping[tuple[int, int], list[int]],
               weight: float) -> None:
    """The HMM of a phone, from state 0 back to it."""
    hmm = model.topology.entries[model.topology.entry_of_phone[phone]]
    places = [graph.state() for _ in hmm[:-1]] + [0]
    graph.arc(0, 0, phone, weight, places[0])
    for number, state in enumerate(hmm[:-1]):
        if state.forward_pdf_class == NO_PDF:
            for target, probability in state.transitions:
                graph.arc(places[number], 0, 0, cost(probability), places[target])
            continue
        for transition_state in of_state.get((phone, number), []):
            first = int(model.first_transition_id[transition_state])
            leaving = float(model.non_self_loop_log_probs[transition_state])
            for index, (target, _) in enumerate(state.transitions):
                if target != number:
                    graph.arc(places[number], first + index, 0, leaving - float(model.log_probs[first + index]) + 0.0,
                              places[target])


def _with_phones(graph: Fst, model: TransitionModel) -> Fst:
    """An acceptor of transition-ids as a transducer to phones: each is output where its HMM is left."""
    labels = graph.input_labels
    outputs = np.where(model.is_final[labels], model.transition_id_to_phone[labels], 0)
    return dataclasses.replace(graph, output_labels=outputs.astype(np.int32))


def _table(phones: list[int], names: Mapping[int, str]) -> tuple[SymbolTable, np.ndarray]:
    """Names without marks of places in words, if several phones differ in these only; and the number of each phone's.

    The numbers are int32 (largest phone + 1,).
    """
    stems = Counter(match[1] for name in names.values() if (match := _POSITION.fullmatch(name)))
    stem_of = {}
    for phone in phones:
        name = names.get(phone, str(phone))
        match = _POSITION.fullmatch(name)
        stem_of[phone] = match[1] if match and stems[match[1]] > 1 else name
    table = SymbolTable.of(dict.fromkeys(stem_of.values()), "phone")
    numbers = np.zeros(max(phones) + 1, dtype=np.int32)
    for phone, name in stem_of.items():
        numbers[phone] = table[name]
    return table, numbers
