"""nnet3py/chain/den_fst.py: Kaldi's graphs of the digits, the worked system of three phones, and merging states."""
from __future__ import annotations

import dataclasses
import logging
import re

import numpy as np
import pytest
from chain_graphs import acceptor, random_graph, three_phones
from graph_sums import denominator_log_prob, hmm_log_sum, log_sum, paths
from graph_systems import SYSTEMS, monophone_system
from paths import DATA

from nnet3py.chain.den_fst import COST_STEP, PUSH_DELTA, make_den_fst, merge_states
from nnet3py.chain.normalization import normalization_fst
from nnet3py.chain.options import PhoneLmOptions
from nnet3py.chain.phone_lm import estimate_phone_lm
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.fst.operations import push_special
from nnet3py.fst.operations import reversed_fst as reverse
from nnet3py.hmm.topology import chain_topology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency, initial_transition_model, monophone_tree
from nnet3py.io.object_files import read_object
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import without_epsilons
from nnet3py.transducers.fst_text import read_fst

CHAIN = DATA / "chain"
OF_KALDI = 1e-6       # of the size of a log-probability; merged states are numbered differently, sums in other order
SHEET = 2e-6          # costs are given with six decimals


@pytest.fixture(scope="module")
def digits():
    tree = read_object(CHAIN / "tree", ContextDependency.read)
    model = read_object(CHAIN / "0.trans_mdl", TransitionModel.read)
    return make_den_fst(tree, model, read_object(CHAIN / "phone_lm.fst", read_fst))


def worked_system() -> tuple[ContextDependency, TransitionModel, Fst]:
    topology = chain_topology([1, 2, 3])
    tree = monophone_tree(topology)
    sentences = [[1, 2, 3, 1], [1, 2, 2, 1], [1, 3, 2, 1], [1, 2, 3, 2, 1]]
    return tree, initial_transition_model(tree, topology), estimate_phone_lm(sentences, PhoneLmOptions(3, 1, 2))


# -- Kaldi's graphs ----------------------------------------------------------------------------------------------------


def test_kaldis_denominator_graph_of_the_digits(digits):
    kaldi = read_object(CHAIN / "den.fst", read_fst)
    assert (digits.num_states, digits.num_arcs) == (kaldi.num_states, kaldi.num_arcs) == (111, 574)
    np.testing.assert_allclose(np.sort(digits.weights), np.sort(kaldi.weights), atol=1e-5)
    degrees = [np.diff(fst.arc_starts) + np.bincount(fst.next_states, minlength=111) for fst in (digits, kaldi)]
    np.testing.assert_array_equal(*degrees)


def test_sizes_in_the_log_are_kaldis(caplog):
    tree = read_object(CHAIN / "tree", ContextDependency.read)
    model = read_object(CHAIN / "0.trans_mdl", TransitionModel.read)
    with caplog.at_level(logging.INFO, logger="nnet3py"):
        make_den_fst(tree, model, read_object(CHAIN / "phone_lm.fst", read_fst))
    found = [re.search(r" FST .*is (\d+) and (\d+)", record.getMessage()) for record in caplog.records]
    assert [f"{one[1]}/{one[2]}" for one in found if one] == [
        "161/515", "161/515", "321/835", "161/675", "163/713", "113/612", "115/614", "115/614", "117/616", "117/616",
        "111/574"]


@pytest.mark.parametrize("leaky", [1e-5, 0.1])
def test_kaldis_log_probabilities(digits, leaky):
    kaldi = read_object(CHAIN / "den.fst", read_fst)
    rng = np.random.default_rng(1)
    for scale in (0.5, 3.0):
        output = scale * rng.normal(size=(50, 56))
        expected = denominator_log_prob(kaldi, output, leaky)
        assert denominator_log_prob(digits, output, leaky) == pytest.approx(expected, rel=OF_KALDI)


def test_kaldis_normalization_graph_of_the_digits(digits):
    ours, kaldi = normalization_fst(digits), read_object(CHAIN / "normalization.fst", read_fst)
    assert (ours.num_states, ours.num_arcs, ours.start) == (kaldi.num_states, kaldi.num_arcs, kaldi.start)
    first, theirs = (fst.weights[fst.arc_starts[fst.start]:fst.arc_starts[fst.start + 1]] for fst in (ours, kaldi))
    np.testing.assert_allclose(np.sort(first), np.sort(theirs), atol=1e-5)
    assert (ours.input_labels[1:] >= ours.input_labels[:-1])[ours.sources[1:] == ours.sources[:-1]].all()


def test_normalization_graph_of_kaldis_denominator_graph():
    ours = normalization_fst(read_object(CHAIN / "den.fst", read_fst))
    kaldi = read_object(CHAIN / "normalization.fst", read_fst)
    for name in ("start", "arc_starts", "input_labels"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(kaldi, name))
    for fst in (ours, kaldi):
        order = np.lexsort((fst.weights, fst.next_states, fst.input_labels, fst.sources))
        fst.next_states[:], fst.weights[:] = fst.next_states[order], fst.weights[order]
    np.testing.assert_array_equal(ours.next_states, kaldi.next_states)
    np.testing.assert_allclose(ours.weights, kaldi.weights, atol=SHEET)
    np.testing.assert_allclose(ours.final_weights, kaldi.final_weights, atol=SHEET)


# -- the worked system -------------------------------------------------------------------------------------------------


def test_denominator_graph_of_the_worked_system():
    fst, expected = make_den_fst(*worked_system()), three_phones()
    assert fst.start == expected.start
    order = np.lexsort((fst.input_labels, fst.sources))
    np.testing.assert_array_equal(fst.arc_starts, expected.arc_starts)
    for name in ("input_labels", "next_states"):
        np.testing.assert_array_equal(getattr(fst, name)[order], getattr(expected, name))
    np.testing.assert_allclose(fst.weights[order], expected.weights, atol=SHEET)
    np.testing.assert_allclose(fst.final_weights, expected.final_weights, atol=SHEET)


def test_one_frame_by_hand():
    fst = make_den_fst(*worked_system())
    assert denominator_log_prob(fst, np.zeros((1, 6)), 0.1) == pytest.approx(-0.040020, abs=SHEET)


def test_normalization_graph_of_the_worked_system():
    fst = normalization_fst(three_phones())
    assert (fst.num_states, fst.start) == (5, 4)
    rows = slice(fst.arc_starts[4], fst.arc_starts[5])
    arcs = sorted(zip(fst.input_labels[rows].tolist(), fst.next_states[rows].tolist(),
                      np.round(fst.weights[rows].astype(np.float64), 5).tolist(), strict=True))
    assert arcs == [(1, 2, 4.60452), (1, 3, 2.43332), (2, 2, 4.57295), (2, 3, 1.57856), (3, 0, 2.67698),
                    (4, 0, 1.73903), (5, 1, 2.83306), (6, 1, 2.27687)]
    np.testing.assert_allclose(fst.final_weights, [0, 0, 0, 0, 0.885201], atol=SHEET)


def test_a_start_that_is_entered_stays():
    fst = acceptor(2, 0, [(0, 1, 1, 0.7), (1, 2, 0, 0.7), (1, 1, 1, 0.7)], {1: 0.1})
    normalization = normalization_fst(fst)
    assert (normalization.num_states, normalization.start) == (3, 2)


# -- what the graphs mean ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_sums_over_complete_paths_are_those_of_the_hmms(name):
    """Costs are rounded once to multiples of a step: later roundings move sums of whole paths by less."""
    tree, model = SYSTEMS[name]()
    phone_lm = acceptor(3, 0, [(0, 1, 1, 0.5), (0, 2, 2, 0.25), (1, 3, 1, 0.125), (1, 2, 2, 1.0), (2, 1, 0, 0.75)],
                        {1: 0.5, 2: 2.0})
    fst = make_den_fst(tree, model, phone_lm)
    frames = 6
    output = np.random.default_rng(0).normal(size=(frames, model.num_pdfs))
    by_tid = output[:, model.transition_id_to_pdf]
    expected = hmm_log_sum(list(paths(phone_lm, frames)), tree, model, by_tid)
    by_label = np.concatenate((np.zeros((frames, 1)), output), axis=1)
    assert log_sum(fst, by_label) == pytest.approx(expected, abs=(frames + 1) * float(COST_STEP))
    assert not (fst.input_labels == 0).any()


def test_pdfs_that_are_never_seen_get_a_warning(caplog):
    tree, model = monophone_system(chain_topology([1, 2, 3]))
    with caplog.at_level(logging.INFO, logger="nnet3py"):
        make_den_fst(tree, model, acceptor(2, 0, [(0, 1, 1, 0.5), (1, 3, 1, 0.5)], {1: 0.5}))
    messages = [record.getMessage() for record in caplog.records]
    assert [one for one in messages if "not seen" in one] == [
        "Pdf-id 2 is not seen in denominator graph.", "Pdf-id 3 is not seen in denominator graph."]
    assert messages[0] == "Number of states and arcs in phone-LM FST is 2 and 2"
    assert any(one.startswith("Number of states is ") and "in-degree <= 3" in one for one in messages)


# -- bad input ---------------------------------------------------------------------------------------------------------


GOOD = acceptor(2, 0, [(0, 1, 1, 0.5), (1, 3, 1, 0.5)], {1: 0.5})


@pytest.mark.parametrize("phone_lm, complaint", [
    (acceptor(0, -1, [], {}), "0 states and 0 arcs"),
    (acceptor(1, 0, [], {0: 0.0}), "1 states and 0 arcs"),
    (dataclasses.replace(GOOD, start=-1), "2 states and 2 arcs, .* and a start state"),
    (dataclasses.replace(GOOD, output_labels=GOOD.output_labels + 1), "found a transducer"),
    (acceptor(2, 0, [(0, 1, 1, np.nan)], {1: 0.0}), "the cost nan"),
    (acceptor(2, 0, [(0, 1, 1, 0.5)], {1: 1e30}), "the cost 1e.30, expected the logs of probabilities"),
    (acceptor(3, 0, [(0, 1, 1, 0.5), (2, 1, 1, 0.5)], {1: 0.5}), "1 of 3 states .* cannot be reached"),
    (acceptor(3, 0, [(0, 1, 1, 0.5), (0, 1, 2, 0.5)], {1: 0.5}), "1 of 3 states .* reach no final state"),
    (acceptor(2, 0, [(0, 4, 1, 0.5)], {1: 0.5}), "label 4, which is not a phone of the topology"),
])
def test_bad_language_models(phone_lm, complaint):
    with pytest.raises(FormatError, match=complaint):
        make_den_fst(*SYSTEMS["chain"](), phone_lm)


def test_language_models_with_epsilons_can_be_used():
    tree, model = SYSTEMS["chain"]()
    backing_off = acceptor(3, 0, [(0, 1, 1, 0.5), (1, 0, 2, 0.5), (1, 3, 1, 0.5), (2, 2, 1, 0.5)], {1: 0.5})
    plain = acceptor(2, 0, [(0, 1, 1, 0.5), (1, 3, 1, 0.5), (1, 2, 1, 1.0)], {1: 0.5})
    scores = np.random.default_rng(0).normal(size=(5, 7))
    assert log_sum(make_den_fst(tree, model, backing_off), scores) == pytest.approx(
        log_sum(make_den_fst(tree, model, plain), scores), abs=6 * float(COST_STEP))


def test_tree_and_model_of_different_systems():
    tree, _ = SYSTEMS["left-biphone"]()
    _, model = SYSTEMS["chain"]()
    with pytest.raises(FormatError, match="tree has 12 pdfs, but the transition model 6"):
        make_den_fst(tree, model, GOOD)


def test_a_normalization_graph_needs_a_denominator_graph():
    with pytest.raises(Nnet3Error, match="no epsilons"):
        normalization_fst(acceptor(2, 0, [(0, 1, 1, 0.0), (1, 0, 0, 0.0)], {1: 0.0}))


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


def test_states_that_end_differently_stay_apart_wherever_they_lead():
    """Classes and pairs of letter and class are hashed together, and must not be taken for each other."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        cycle = rng.permutation(6).tolist()
        arcs = [(state, 1, following, 0.0) for state, following in zip(cycle, cycle[1:] + cycle[:1], strict=True)]
        assert merge_states(acceptor(6, 0, arcs, {state: float(state) for state in range(6)})).num_states == 6


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
