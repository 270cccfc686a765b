"""nnet3py/graphs/hmms.py and self_loops.py: sums over the paths of graphs are those of the HMMs without graphs."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from chain_graphs import acceptor
from graph_sums import hmm_log_sum, log_sum, paths
from graph_systems import SYSTEMS, monophone_system

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.graphs.context import expand_context
from nnet3py.graphs.grammar_fst import Nonterminals
from nnet3py.graphs.hmms import add_self_loops, expand_hmms, hmm_transducer, to_pdfs, window_hmm
from nnet3py.hmm.topology import HmmState, HmmTopology, chain_topology, left_to_right_topology
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import without_epsilons

FRAMES = 6
ROUNDING = 1e-5       # costs are float32, sums of a dozen of them


def language_model() -> Fst:
    """Phones 1 to 3; state 1 is entered by two phones."""
    return acceptor(3, 0, [(0, 1, 1, 0.5), (0, 2, 2, 0.25), (1, 3, 1, 0.125), (1, 2, 2, 1.0), (2, 1, 0, 0.75)],
                    {1: 0.5, 2: 2.0})


@pytest.mark.parametrize("several_enter", [False, True])
@pytest.mark.parametrize("name", list(SYSTEMS))
def test_sums_are_those_of_the_hmms(name, several_enter):
    """Also where arcs of several transition-states enter one state, as without the epsilons at the ends of HMMs."""
    tree, model = SYSTEMS[name]()
    in_context, windows = expand_context(language_model(), tree.context_width, tree.central_position)
    expanded = expand_hmms(in_context, windows, tree, model)
    graph = add_self_loops(without_epsilons(expanded) if several_enter else expanded, model)
    scores = np.random.default_rng(0).normal(size=(FRAMES, model.num_transition_ids + 1))
    expected = hmm_log_sum(list(paths(language_model(), FRAMES)), tree, model, scores)
    assert log_sum(without_epsilons(graph), scores) == pytest.approx(expected, abs=ROUNDING)


def test_separate_ends_are_what_kaldis_composition_has():
    """Of a system with one transition a phone: an arc and an epsilon for each phone into each state."""
    tree, model = SYSTEMS["chain"]()
    fst, windows = expand_context(language_model(), 1, 0)
    separate = expand_hmms(fst, windows, tree, model)
    assert (fst.num_states, fst.num_arcs) == (3, 5)
    assert (separate.num_states, separate.num_arcs) == (3 + 4, 5 + 4)
    assert (separate.input_labels == 0).sum() == 4


def test_transition_scale_and_self_loop_scale_zero_leave_costs_alone():
    tree, model = SYSTEMS["three-states"]()
    fst, windows = expand_context(language_model(), 1, 0)
    graph = add_self_loops(expand_hmms(fst, windows, tree, model, 0.0), model, 0.0)
    assert sorted(set(np.round(graph.weights, 4).tolist())) == [0.0, 0.125, 0.25, 0.5, 0.75, 1.0]


def test_self_loops_of_a_transducer_have_no_output():
    tree, model = SYSTEMS["three-states"]()
    in_context, windows = expand_context(acceptor(2, 0, [(0, 2, 1, 0.0)], {1: 0.0}), 1, 0)
    graph = expand_hmms(in_context, windows, tree, model)
    looped = add_self_loops(dataclasses.replace(graph, output_labels=np.arange(graph.num_arcs, dtype=np.int32)), model)
    assert looped.output_labels[model.is_self_loop[looped.input_labels]].tolist() == [0, 0, 0]


def test_states_that_emit_nothing_are_epsilons():
    topology = HmmTopology([[HmmState(-1, -1, [(1, 0.25), (2, 0.75)]), HmmState(0, 0, [(1, 0.5), (3, 0.5)]),
                             HmmState(1, 1, [(2, 0.5), (3, 0.5)]), HmmState()]], {1: 0})
    tree, model = monophone_system(topology)
    hmm = window_hmm((1,), tree, model, 1.0)
    assert [(arc.source, arc.target, arc.transition_id > 0) for arc in hmm.arcs] == [
        (0, 1, False), (0, 2, False), (1, 3, True), (2, 3, True)]
    assert [arc.cost for arc in hmm.arcs[:2]] == pytest.approx([-np.log(0.25), -np.log(0.75)], abs=ROUNDING)


@pytest.mark.parametrize("name", ["chain", "three-states", "left-biphone"])
def test_composing_with_the_transducer_gives_the_same_graph(name):
    kaldifst = pytest.importorskip("kaldifst", reason="composition is kaldifst's (nnet3py[chain])")
    from nnet3py.fst.openfst import from_openfst, to_openfst

    tree, model = SYSTEMS[name]()
    fst, windows = expand_context(language_model(), tree.context_width, tree.central_position)
    transducer, disambig = hmm_transducer(windows, tree, model)
    left, right = to_openfst(transducer), to_openfst(fst)
    kaldifst.arcsort(left, "olabel")
    composed = from_openfst(kaldifst.compose(left, right))
    composed = dataclasses.replace(composed, output_labels=composed.input_labels)
    scores = np.random.default_rng(1).normal(size=(FRAMES, model.num_transition_ids + 1))
    expected = log_sum(without_epsilons(expand_hmms(fst, windows, tree, model)), scores)
    assert log_sum(without_epsilons(composed), scores) == pytest.approx(expected, abs=ROUNDING)
    assert disambig == []


def test_disambiguation_symbols_get_labels_behind_the_transition_ids():
    tree, model = SYSTEMS["chain"]()
    transducer, disambig = hmm_transducer([(1,), (-7,), (2,), (-8,)], tree, model)
    assert disambig == [model.num_transition_ids + 1, model.num_transition_ids + 2]
    loops = transducer.input_labels > model.num_transition_ids
    assert transducer.output_labels[loops].tolist() == [2, 4]
    with pytest.raises(Nnet3Error, match="disambiguation symbol 7"):
        expand_hmms(acceptor(1, 0, [(0, 1, 0, 0.0)], {0: 0.0}), [(-7,)], tree, model)


def test_nonterminals_get_labels_with_the_phone_before():
    tree, model = SYSTEMS["chain"]()
    names = Nonterminals(100)
    transducer, disambig = hmm_transducer([(1,), (-104, 3), (-7,)], tree, model, nonterminals=names)
    assert transducer.output_labels[transducer.input_labels == names.label(104, 3)].tolist() == [2]
    assert disambig == [model.num_transition_ids + 1]
    with pytest.raises(Nnet3Error, match="windows of 1 phones"):
        hmm_transducer([(1,), (-104, 3)], tree, model)


@pytest.mark.parametrize("window, error, complaint", [
    ((4,), FormatError, "phone 4 of the graph is not in the model's topology"),
    ((0,), FormatError, "phone 0"),
    ((1, 2), Nnet3Error, "windows of 1 phones"),
])
def test_windows_without_hmm(window, error, complaint):
    tree, model = SYSTEMS["chain"]()
    with pytest.raises(error, match=complaint):
        window_hmm(window, tree, model, 1.0)


def test_tree_and_model_that_disagree():
    tree, _ = monophone_system(left_to_right_topology([1, 2, 3], [], 2))
    _, model = monophone_system(chain_topology([3, 2, 1]))
    other, _ = SYSTEMS["left-biphone"]()
    assert window_hmm((1,), tree, model, 1.0).num_states == 2, "two pdfs a phone in either"
    with pytest.raises(Nnet3Error, match="no state for"):
        window_hmm((2, 3), other, model, 1.0)


def test_labels_become_pdfs():
    _, model = SYSTEMS["chain"]()
    graph = to_pdfs(acceptor(2, 0, [(0, 2, 1, 0.0), (1, 1, 1, 0.0), (1, 0, 0, 0.0)], {1: 0.0}), model)
    assert graph.input_labels.tolist() == [1, 2, 0]


def test_graphs_of_another_model():
    _, model = SYSTEMS["chain"]()
    with pytest.raises(FormatError, match="transition-ids, 1 to 6, found labels from 1 to 7"):
        to_pdfs(acceptor(2, 0, [(0, 1, 1, 0.0), (0, 7, 1, 0.0)], {1: 0.0}), model)


# -- self-loops --------------------------------------------------------------------------------------------------------


def test_a_state_that_two_transition_states_enter_is_divided():
    _, model = SYSTEMS["chain"]()
    forward = np.flatnonzero(~model.is_self_loop)[1:]
    graph = acceptor(3, 0, [(0, int(forward[0]), 1, 0.0), (0, int(forward[1]), 1, 0.0), (1, int(forward[2]), 2, 0.0)],
                     {2: 0.0})
    looped = add_self_loops(graph, model)
    assert (looped.num_states, looped.num_arcs) == (5, 3 + 2 + 3)
    assert (looped.input_labels == 0).sum() == 2
    loops = looped.next_states == looped.sources
    entering = [set(looped.input_labels[(looped.next_states == state) & ~loops].tolist()) for state in range(5)]
    for state in looped.sources[loops].tolist():
        own = looped.input_labels[loops & (looped.sources == state)]
        assert {int(model.transition_id_to_state[one]) for one in entering[state]} == \
            set(model.transition_id_to_state[own].tolist())


def test_an_entered_start_gets_its_self_loop_in_a_state_of_its_own():
    _, model = SYSTEMS["chain"]()
    forward = int(np.flatnonzero(~model.is_self_loop)[1])
    looped = add_self_loops(acceptor(1, 0, [(0, forward, 0, 0.0)], {0: 0.5}), model)
    assert (looped.num_states, looped.start) == (2, 0)
    assert looped.final_weights[0] == 0.5, "no self-loop was left here"
    assert not (looped.next_states[looped.sources == 0] == 0).any()


def test_disambiguation_symbols_count_as_epsilons():
    _, model = SYSTEMS["chain"]()
    graph = acceptor(2, 0, [(0, 100, 1, 0.0)], {1: 0.0})
    assert add_self_loops(graph, model, disambig=[100]).num_arcs == 1
    with pytest.raises(FormatError, match="label 100, but the model's transition-ids are 1 to 6"):
        add_self_loops(graph, model)


def test_self_loops_are_not_added_twice():
    _, model = SYSTEMS["chain"]()
    loop = int(model.self_loop_of[1])
    graph = acceptor(2, 0, [(0, loop, 1, 0.0)], {1: 0.0})
    with pytest.raises(FormatError, match=f"self-loop already: transition-id {loop}"):
        add_self_loops(graph, model)
    assert add_self_loops(graph, model, check=False).num_arcs == 2
