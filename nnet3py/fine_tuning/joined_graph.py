"""The old graph and a new one side by side, so that what the model was made for stays as probable as it was.

A language model estimated from sentences drawn from the old graph is never quite the old one. So a new graph is put
next to the old one, and a sentence goes through one of them.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError
from nnet3py.transducers.fst import NO_WEIGHT, Fst


def joined_graphs(old: Fst, new: Fst, weight: float) -> Fst:
    """A graph of all sentences of both, as probable as in each, times 1 - ``weight`` and ``weight``.

    Labels must be of one model and one table of words. The caller checks that ``weight`` is between 0 and 1.
    """
    first_old, first_new = 1, 1 + old.num_states
    graphs = ((old, first_old, 1.0 - weight), (new, first_new, weight))
    num_states = 1 + old.num_states + new.num_states
    finals = np.concatenate(([NO_WEIGHT], old.final_weights, new.final_weights))
    entered = [(first + graph.start, -math.log(part)) for graph, first, part in graphs if part > 0.0]
    sources = np.concatenate((np.zeros(len(entered)), old.sources + first_old, new.sources + first_new))
    nothing = np.zeros(len(entered), dtype=np.int32)
    inputs, outputs = (np.concatenate((nothing, getattr(old, name), getattr(new, name)))
                       for name in ("input_labels", "output_labels"))
    costs = np.concatenate(([cost for _, cost in entered], old.weights, new.weights))
    targets = np.concatenate(([state for state, _ in entered], old.next_states + first_old,
                              new.next_states + first_new))
    assert len(finals) == num_states
    return Fst.from_arcs(0, finals, sources, inputs, outputs, costs, targets)


def with_words_of(graph: Fst, words: SymbolTable, others: SymbolTable) -> Fst:
    """A graph whose output labels are numbers of ``words``, with those that ``others`` has for the same words.

    FormatError if that lacks one.
    """
    used = np.unique(graph.output_labels)
    numbers = np.zeros(int(used.max(initial=0)) + 1, dtype=np.int32)
    for number in used[used > 0].tolist():
        name = words.names.get(number)
        if name is None or name not in others:
            raise FormatError(f"the graph has the word {name or number}, which the other table of words lacks",
                              path=others.path)
        numbers[number] = others[name]
    return Fst(graph.start, graph.final_weights, graph.arc_starts, graph.input_labels, numbers[graph.output_labels],
               graph.weights, graph.next_states, graph.arc_type)
