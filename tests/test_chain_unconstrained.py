"""Supervision without times: of pieces of utterances, and of training graphs."""
from __future__ import annotations

import numpy as np
import pytest
from chain_graphs import acceptor, three_phones
from graph_systems import SYSTEMS
from test_chain_normalize import COST, check_same

from nnet3py.chain.acceptor import SupervisionError
from nnet3py.chain.end_to_end import end_to_end_supervision, pdf_graph, shortest_path
from nnet3py.chain.make_supervision import SupervisionMaker
from nnet3py.chain.normalization import normalization_fst
from nnet3py.chain.normalize import Normalizer
from nnet3py.chain.options import SupervisionOptions
from nnet3py.chain.proto_supervision import proto_from_phones
from nnet3py.chain.supervision_splitter import SupervisionSplitter
from nnet3py.chain.unconstrained import unconstrained
from nnet3py.egs.supervision import Supervision
from nnet3py.errors import Nnet3Error
from nnet3py.random_sequence import philox
from nnet3py.transducers.fst import Fst

TREE, MODEL = SYSTEMS["chain"]()
CHOICES = [(1, 1, 0.1), (2, 2, 0.0), (3, 3, 0.0), (4, 1, 0.0)]      # state entered, phone, cost


def piece(first: int, count: int) -> Supervision:
    """Of the data sheet's example: labels are transition-ids."""
    proto = proto_from_phones(np.array([1, 2, 3, 1]), np.array([6, 9, 4, 8]), SupervisionOptions(1, 2, 3))
    whole = SupervisionMaker(TREE, MODEL, convert_to_pdfs=False).make(proto)
    return SupervisionSplitter(whole).frame_range(first, count)


def training_graph() -> Fst:
    """The utterance 1 2 3 1 as the data sheet's example has it: of transition-ids, with loops of cost 0.69."""
    arcs = []
    for state, phone, cost in CHOICES:
        arcs += [(state - 1, 2 * phone, state, cost), (state, 2 * phone - 1, state, 0.69)]
    return acceptor(5, 0, arcs, {4: 0.25})


def test_the_worked_example() -> None:
    pytest.importorskip("kaldifst", reason="cyclic FSTs are minimized by OpenFst")
    given = piece(0, 5)
    made = unconstrained(given, MODEL, philox(1))
    assert made.fst is None and made.label_dim == 6 and made.frames_per_sequence == 5
    arcs = [(0, 1, 1), (1, 2, 1), (1, 3, 2), (2, 4, 2)]
    check_same(made.e2e_fsts[0], acceptor(3, 0, [(*arc, 0.0) for arc in arcs], {2: 0.0}))
    normalized = Normalizer(normalization_fst(three_phones()))(made)
    costs = [4.604517, 0.6933594, 0.9780161, 0.6933594]
    check_same(normalized.e2e_fsts[0], acceptor(3, 0, [(*arc, cost) for arc, cost in zip(arcs, costs, strict=True)],
                                                {2: 0.0}))
    assert len(made.alignment_pdfs) == 5
    assert made.alignment_pdfs.tolist() in [[0, 1, 2, 3, 3], [0, 1, 1, 2, 3]]
    assert given.fst is not None and given.label_dim == MODEL.num_transition_ids


def test_a_piece_may_begin_inside_a_phone() -> None:
    pytest.importorskip("kaldifst", reason="cyclic FSTs are minimized by OpenFst")
    fst = unconstrained(piece(1, 4), MODEL, philox(1)).e2e_fsts[0]
    first = set(fst.input_labels[fst.arc_starts[fst.start]:fst.arc_starts[fst.start + 1]].tolist())
    assert first == {2}                            # of phone 1 the pdf of its later frames
    loops = fst.input_labels[fst.sources == fst.next_states].tolist()
    assert set(loops) == {2, 4}


def test_other_supervisions_are_refused() -> None:
    given = piece(0, 5)
    given.label_dim = 7
    with pytest.raises(Nnet3Error, match="expected a supervision of 6 transition-ids, found one of 7"):
        unconstrained(given, MODEL, philox(1))


def test_a_training_graph() -> None:
    made = end_to_end_supervision(training_graph(), MODEL, 9)
    assert (made.fst, made.frames_per_sequence, made.label_dim, made.num_sequences) == (None, 9, 6, 1)
    fst = made.e2e_fsts[0]
    assert fst.final_weights[4] == np.float32(0.25)
    wanted = [arc for state, phone, cost in CHOICES
              for arc in ((state - 1, 2 * phone - 1, state, cost), (state, 2 * phone, state, 0.69))]
    check_same(fst, acceptor(5, 0, wanted, {4: 0.25}))
    normalized = Normalizer(normalization_fst(three_phones()))(made).e2e_fsts[0]
    costs = {(int(a), int(b)): float(c) for a, b, c in zip(normalized.sources, normalized.input_labels,
                                                           normalized.weights, strict=True)}
    assert costs[0, 1] == pytest.approx(4.704516, abs=COST) and costs[1, 2] == pytest.approx(1.383359, abs=COST)


def test_epsilons_of_training_graphs_are_removed() -> None:
    graph = acceptor(4, 0, [(0, 0, 1, 0.5), (1, 2, 2, 0.25), (2, 0, 3, 0.125)], {3: 1.0})
    fst = pdf_graph(graph, MODEL)
    assert fst.input_labels.tolist() == [1] and fst.weights.tolist() == [0.75]
    assert fst.final_weights[fst.is_final].tolist() == [1.125]


def test_supervisions_start_in_state_0() -> None:
    """Which training takes for the start."""
    fst = end_to_end_supervision(acceptor(2, 1, [(1, 2, 0, 0.5), (0, 1, 0, 0.25)], {0: 0.125}), MODEL, 3).e2e_fsts[0]
    check_same(fst, acceptor(2, 0, [(0, 1, 1, 0.5), (1, 2, 1, 0.25)], {1: 0.125}))
    assert fst.start == 0


def test_graphs_that_cannot_be_used() -> None:
    assert shortest_path(pdf_graph(training_graph(), MODEL)) == 4
    assert shortest_path(acceptor(2, 0, [(0, 1, 0, 0.0)], {1: 0.0})) is None
    with pytest.raises(SupervisionError, match="there are too many phones for too few frames; .* 4 frames, but .* 3"):
        end_to_end_supervision(training_graph(), MODEL, 3)
    with pytest.raises(SupervisionError, match="empty"):
        end_to_end_supervision(acceptor(2, 0, [(0, 1, 0, 0.0)], {1: 0.0}), MODEL, 3)
    with pytest.raises(SupervisionError, match="empty"):
        pdf_graph(acceptor(1, 0, [], {0: 0.0}), MODEL)
    with pytest.raises(Nnet3Error, match="labels from 1 to 9"):
        pdf_graph(acceptor(2, 0, [(0, 1, 1, 0.0), (0, 9, 1, 0.0)], {1: 0.0}), MODEL)
