"""nnet3py/chain/den_graph.py: initial probabilities, arcs as arrays, and graphs that cannot be used."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from chain_graphs import acceptor, random_graph, three_phones

from nnet3py.chain.den_graph import DenominatorGraph, initial_probs
from nnet3py.errors import Nnet3Error

SHEET = 2e-6      # costs are given with six decimals


def test_initial_probabilities_of_the_worked_example():
    probs = initial_probs(three_phones())
    assert probs.dtype == np.float32
    np.testing.assert_allclose(probs, [0.35145686, 0.20525248, 0.02065925, 0.41263141, 0.01], atol=SHEET)
    assert probs[4] == np.float32(0.01), "nothing returns to the start state"


@pytest.mark.parametrize("seed", range(3))
def test_every_table_holds_every_arc(seed):
    rng = np.random.default_rng(seed)
    fst = random_graph(rng, 7, 5)
    graph = DenominatorGraph(fst, 6)
    probs = np.exp(-fst.weights.astype(np.float64)).astype(np.float32)
    arcs = sorted(zip(fst.sources.tolist(), (fst.input_labels - 1).tolist(), fst.next_states.tolist(), probs.tolist(),
                      strict=True))
    entry_of = np.repeat(np.arange(graph.num_entries), np.diff(graph.into.starts))
    into = sorted(zip(graph.into.others.tolist(), graph.entry_pdfs[entry_of].tolist(),
                      graph.entry_states[entry_of].tolist(), graph.into.probs.tolist(), strict=True))
    sources = np.repeat(np.arange(graph.num_states), np.diff(graph.out_of.starts))
    entries = graph.out_of.others
    out_of = sorted(zip(sources.tolist(), graph.entry_pdfs[entries].tolist(), graph.entry_states[entries].tolist(),
                        graph.out_of.probs.tolist(), strict=True))
    assert arcs == into == out_of
    assert graph.num_arcs == len(arcs)


def test_entries_by_state_and_by_pdf():
    graph = DenominatorGraph(random_graph(np.random.default_rng(4), 9, 4), 7)
    assert len(set(zip(graph.entry_states.tolist(), graph.entry_pdfs.tolist(), strict=True))) == graph.num_entries
    for state in range(graph.num_states):
        assert (graph.entry_states[graph.state_entries[state]:graph.state_entries[state + 1]] == state).all()
    assert graph.state_entries[-1] == graph.pdf_starts[-1] == graph.num_entries
    for pdf in range(7):
        assert (graph.entry_pdfs[graph.pdf_entries[graph.pdf_starts[pdf]:graph.pdf_starts[pdf + 1]]] == pdf).all()


@pytest.mark.parametrize("fst, complaint", [
    (acceptor(0, -1, [], {}), "0 states and 0 arcs"),
    (acceptor(1, 0, [], {0: 0.0}), "1 states and 0 arcs"),
    (acceptor(2, 0, [(0, 1, 1, 0.0), (1, 0, 0, 0.0)], {}), "state 1 .* has the label 0, .* no epsilons"),
    (acceptor(2, 0, [(0, 1, 0, 0.1), (1, 1, 0, 0.1)], {}), "1 of 2 states .* cannot be reached .* such as 1"),
    (acceptor(2, 0, [(0, 1, 1, 0.1), (1, 1, 0, float("nan"))], {}), "not finite"),
    (acceptor(2, 0, [(0, 1, 1, -5.0), (1, 1, 0, 0.1)], {}), "leave state 0 .* 148.413"),
    (acceptor(1, 0, [(0, 1 + i, 0, 0.0) for i in range(100)], {}), "leave state 0 .* sum 100, expected"),
    (acceptor(3, 0, [(0, 1, 1, 0.0), (1, 1, 0, 0.0), (0, 1, 2, 0.0)], {}), "leave state 2 .* sum 0"),
    (acceptor(2, 0, [(0, 1, 1, 0.0)], {1: 0.0}), "ends soon"),
])
def test_bad_graphs(fst, complaint):
    with pytest.raises(Nnet3Error, match=complaint):
        initial_probs(fst)


def test_transducers_are_refused():
    fst = three_phones()
    with pytest.raises(Nnet3Error, match="transducer"):
        initial_probs(dataclasses.replace(fst, output_labels=fst.output_labels + 1))


def test_graph_of_more_pdfs_than_the_output_has():
    with pytest.raises(Nnet3Error, match="pdf 5, but the network's output has the dimension 5"):
        DenominatorGraph(three_phones(), 5)
