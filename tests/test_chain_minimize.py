"""nnet3py/chain/minimize.py: reversing, pushing and merging, which keep what a graph accepts."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from chain_graphs import acceptor, random_graph
from graph_sums import log_sum

from nnet3py.chain.minimize import COST_STEP, PUSH_DELTA, merge_states
from nnet3py.fst.operations import push_special
from nnet3py.fst.operations import reversed_fst as reverse
from nnet3py.transducers.fst_operations import without_epsilons

FRAMES, PDFS = 6, 5
ROUNDING = 1e-5       # costs are float32


@pytest.fixture(params=range(3))
def graph(request):
    return random_graph(np.random.default_rng(request.param), 6, PDFS)


@pytest.fixture
def scores():
    return np.random.default_rng(9).normal(size=(FRAMES, PDFS + 1))


def sums_of_states(fst):
    """Probabilities that leave each state, the final one included."""
    return np.exp(-fst.final_weights) + np.bincount(fst.sources, np.exp(-fst.weights), fst.num_states)


def test_reversed_twice_accepts_the_same(graph, scores):
    twice = without_epsilons(reverse(reverse(graph)))
    assert log_sum(twice, scores) == pytest.approx(log_sum(graph, scores), abs=ROUNDING)
    assert log_sum(without_epsilons(reverse(graph)), scores[::-1]) == pytest.approx(log_sum(graph, scores),
                                                                                   abs=ROUNDING)


def test_order_of_reversed_arcs():
    fst = acceptor(3, 1, [(0, 5, 2, 0.1), (1, 4, 0, 0.2), (1, 6, 2, 0.3), (2, 7, 2, 0.4)], {0: 0.5, 2: 0.6})
    turned = reverse(fst)
    assert (turned.num_states, turned.start) == (4, 0)
    assert np.flatnonzero(turned.is_final).tolist() == [2]
    assert list(zip(turned.sources.tolist(), turned.input_labels.tolist(), turned.next_states.tolist(),
                    np.round(turned.weights.astype(np.float64), 3).tolist(), strict=True)) == [
        (0, 0, 1, 0.5), (0, 0, 3, 0.6), (1, 4, 2, 0.2), (3, 5, 1, 0.1), (3, 6, 2, 0.3), (3, 7, 3, 0.4)]


def test_pushing_makes_sums_equal_and_keeps_those_of_paths(graph, scores):
    pushed = push_special(graph, PUSH_DELTA)
    sums = sums_of_states(pushed)
    assert np.ptp(np.log(sums)) < 1e-4
    assert np.ptp(np.log(sums_of_states(graph))) > 0.1
    assert log_sum(pushed, scores) == pytest.approx(log_sum(graph, scores), abs=ROUNDING)


def test_pushing_that_does_not_converge_says_so(caplog):
    graph = random_graph(np.random.default_rng(0), 6, PDFS)
    with caplog.at_level(logging.WARNING, logger="nnet3py"):
        push_special(graph, PUSH_DELTA)
        assert not caplog.records
        push_special(graph, delta=-1.0)
    assert "200 iterations without converging" in caplog.text


def test_merging_keeps_what_is_accepted_up_to_rounding(graph, scores):
    merged = merge_states(graph)
    assert log_sum(merged, scores) == pytest.approx(log_sum(graph, scores), abs=(FRAMES + 1) * float(COST_STEP) / 2)
    np.testing.assert_array_equal(np.mod(merged.weights, COST_STEP), 0.0)


def test_equal_states_become_one():
    fst = acceptor(4, 0, [(0, 1, 1, 0.0), (0, 2, 2, 0.0), (1, 3, 3, 0.5), (2, 3, 3, 0.5001), (3, 1, 0, 0.0)], {3: 0.25})
    merged = merge_states(fst)
    assert merged.num_states == 3
    assert merged.next_states.tolist() == [1, 1, 2, 0]
    assert merged.weights.tolist() == [0.0, 0.0, 51 * float(COST_STEP), 0.0]


def test_states_that_differ_later_stay_apart():
    fst = acceptor(5, 0, [(0, 1, 1, 0.0), (0, 2, 2, 0.0), (1, 3, 3, 0.0), (2, 3, 4, 0.0), (3, 1, 0, 0.0),
                          (4, 2, 0, 0.0)], {3: 0.0, 4: 0.0})
    assert merge_states(fst).num_states == 5


def test_arcs_in_another_order_keep_states_apart():
    arcs = [(0, 1, 1, 0.0), (0, 2, 2, 0.0), (1, 3, 3, 0.0), (1, 4, 3, 0.0), (2, 3, 3, 0.0), (2, 4, 3, 0.0),
            (3, 1, 0, 0.0)]
    assert merge_states(acceptor(4, 0, arcs, {3: 0.0})).num_states == 3
    arcs[4], arcs[5] = arcs[5], arcs[4]
    assert merge_states(acceptor(4, 0, arcs, {3: 0.0})).num_states == 4


def test_repetitions_count_once_and_duplicates_go():
    fst = acceptor(4, 0, [(0, 1, 1, 0.0), (0, 2, 2, 0.0), (1, 3, 3, 0.0), (1, 3, 3, 0.0), (2, 3, 3, 0.0),
                          (3, 1, 0, 0.0)], {3: 0.0})
    merged = merge_states(fst)
    assert (merged.num_states, merged.num_arcs) == (3, 4)
