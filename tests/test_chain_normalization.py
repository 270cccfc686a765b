"""Pieces of supervisions, normalized: Kaldi's own results, worked examples, brute force."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from chain_graphs import acceptor, random_graph, three_phones
from graph_paths import path_costs
from graph_systems import SYSTEMS
from paths import DATA

from nnet3py.chain.acceptor import Acceptor, SupervisionError
from nnet3py.chain.normalization import Normalizer, normalization_fst
from nnet3py.chain.options import SupervisionOptions
from nnet3py.chain.supervision import SupervisionMaker, SupervisionSplitter, fst_state_times, proto_from_phones
from nnet3py.egs.chain_example import Supervision, merge_supervisions, read_chain_egs, read_supervisions
from nnet3py.errors import Nnet3Error
from nnet3py.io.object_files import read_object
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst

FOLDER = DATA / "chain"
COST = 5e-6             # costs are rounded to 1e-6 after sums in float32
RESIDUAL = 1e-3         # and what paths cost more than the best of the same labels so far, to 1/1024
FACTOR = 3


def whole(durations: tuple[int, ...] = (6, 9, 4, 8), phones: tuple[int, ...] = (1, 2, 3, 1)) -> Supervision:
    """The worked example's supervision of 9 output frames."""
    return SupervisionMaker(*SYSTEMS["chain"]()).make(
        proto_from_phones(np.array(phones), np.array(durations), SupervisionOptions(1, 2, FACTOR)))


def fst_of(supervision: Supervision) -> Fst:
    assert supervision.fst is not None
    return supervision.fst


def sequences(supervision: Supervision) -> dict[tuple[int, ...], float]:
    longest = supervision.frames_per_sequence * supervision.num_sequences
    return {labels: cost for (labels, _), cost in path_costs(fst_of(supervision), longest).items()}


def least_cost(fst: Fst, labels: tuple[int, ...]) -> float:
    """What the cheapest path of these labels costs; infinity if there is none."""
    costs = np.full(fst.num_states, np.inf)
    costs[fst.start] = 0.0
    for label in labels:
        following = np.full(fst.num_states, np.inf)
        arcs = fst.input_labels == label
        np.minimum.at(following, fst.next_states[arcs], costs[fst.sources[arcs]] + fst.weights[arcs])
        costs = following
    return float((costs + fst.final_weights).min())


def check_same(made: Fst, wanted: Fst) -> None:
    """Two deterministic FSTs with the same states and arcs, however they are numbered."""
    left, right = Acceptor.from_fst(made), Acceptor.from_fst(wanted)
    assert made.num_states == wanted.num_states and made.num_arcs == wanted.num_arcs
    twins, stack = {left.start: right.start}, [left.start]
    while stack:
        state = stack.pop()
        ours = {label: (cost, target) for label, cost, target in left.arcs[state]}
        theirs = {label: (cost, target) for label, cost, target in right.arcs[twins[state]]}
        assert ours.keys() == theirs.keys()
        assert left.finals[state] == right.finals[twins[state]]
        for label, (cost, target) in ours.items():
            assert cost == pytest.approx(theirs[label][0], abs=COST)
            if target not in twins:
                stack.append(target)
            assert twins.setdefault(target, theirs[label][1]) == theirs[label][1]
    assert len(twins) == made.num_states


def test_kaldis_pieces() -> None:
    normalizer = Normalizer(read_object(FOLDER / "normalization.fst", read_fst))
    splitters = {key: SupervisionSplitter(one) for key, one in read_supervisions(f"ark:{FOLDER / 'sup.ark'}")}
    count = 0
    for key, example in read_chain_egs(f"ark:{FOLDER / 'cegs.ark'}"):
        utterance, _, first = key.rpartition("-")
        wanted = example.outputs[0].supervision
        made = normalizer(splitters[utterance].frame_range(int(first) // FACTOR, wanted.frames_per_sequence))
        check_same(fst_of(made), fst_of(wanted))
        assert dataclasses.replace(made, fst=None) == dataclasses.replace(wanted, fst=None, alignment_pdfs=made.
                                                                          alignment_pdfs)
        count += 1
    assert count == 19


def test_the_worked_example() -> None:
    made = Normalizer(normalization_fst(three_phones()))(SupervisionSplitter(whole()).frame_range(0, 5))
    check_same(fst_of(made), acceptor(7, 0, [
        (0, 1, 1, 7.662611), (1, 2, 2, 0.0), (2, 2, 3, 0.0), (2, 3, 4, 0.0), (3, 3, 5, 0.0), (4, 4, 5, 0.0),
        (5, 4, 6, 0.0)], {6: 0.0}))


def test_pieces_allow_all_states_at_both_ends() -> None:
    supervision = whole()
    splitter = SupervisionSplitter(supervision)
    labels = np.array(list(sequences(supervision)))
    for begin, end in ((0, 9), (0, 5), (2, 7), (4, 9), (8, 9)):
        piece = splitter.frame_range(begin, end - begin)
        assert (piece.frames_per_sequence, piece.label_dim, piece.weight) == (end - begin, 6, 1.0)
        found = path_costs(fst_of(piece), end - begin)
        assert {one for one, _ in found} == set(map(tuple, labels[:, begin:end].tolist()))
        assert set(found.values()) == {0.0}
    piece = fst_of(splitter.frame_range(2, 5))
    times = fst_state_times(fst_of(supervision))
    assert np.count_nonzero(piece.input_labels == 0) == np.count_nonzero(times == 2)
    assert np.flatnonzero(piece.is_final).tolist() == [piece.num_states - 1]


def test_pieces_put_together_hold_the_whole() -> None:
    supervision = whole()
    splitter = SupervisionSplitter(supervision)
    free = Normalizer(acceptor(1, 0, [(0, label, 0, 0.0) for label in range(1, 7)], {0: 0.0}))
    pieces = merge_supervisions([free(splitter.frame_range(begin, 3)) for begin in (0, 3, 6)])
    assert (pieces.num_sequences, pieces.frames_per_sequence) == (3, 3)
    found = sequences(pieces)
    assert sequences(supervision).keys() <= found.keys() and {len(labels) for labels in found} == {9}


@pytest.mark.parametrize("seed", range(6))
def test_each_sequence_costs_what_the_normalization_fst_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fst = random_graph(rng, 5, 6, arcs_per_state=12)
    normalizer = Normalizer(dataclasses.replace(fst, final_weights=np.zeros(5, dtype=np.float32)))
    fst = dataclasses.replace(fst, final_weights=np.zeros(5, dtype=np.float32))
    piece = SupervisionSplitter(whole(tuple(rng.integers(4, 9, 4).tolist()))).frame_range(1, 5)
    every = {labels for labels, _ in path_costs(fst_of(piece), 5)}
    wanted = {labels: cost for labels in every if (cost := least_cost(fst, labels)) < np.inf}
    if not wanted:
        with pytest.raises(SupervisionError, match="FST was empty after composing with normalization FST"):
            normalizer(piece)
        return
    made = normalizer(piece)
    assert sequences(made) == pytest.approx(wanted, abs=RESIDUAL)
    assert (fst_state_times(fst_of(made))[-1], fst_of(made).final_weights[-1]) == (5, 0.0)


def test_the_scale_multiplies_costs() -> None:
    fst, piece = normalization_fst(three_phones()), SupervisionSplitter(whole()).frame_range(0, 5)
    once, half = sequences(Normalizer(fst)(piece)), sequences(Normalizer(fst, 0.5)(piece))
    assert half == pytest.approx({labels: cost / 2 for labels, cost in once.items()}, abs=RESIDUAL)
    assert set(sequences(Normalizer(fst, 0.0)(piece)).values()) == {0.0}


def test_normalization_fsts_that_cannot_be_used() -> None:
    fst = normalization_fst(three_phones())
    labels = fst.input_labels.copy()
    labels[0] = 0
    for wrong in (dataclasses.replace(fst, input_labels=labels, output_labels=labels),
                  dataclasses.replace(fst, output_labels=labels)):
        with pytest.raises(Nnet3Error, match="epsilons, or is not an acceptor"):
            Normalizer(wrong)
    with pytest.raises(Nnet3Error, match="is empty"):
        Normalizer(acceptor(1, 0, [], {0: 0.0}))
    with pytest.raises(Nnet3Error, match="must be >= 0.0"):
        Normalizer(fst, -1.0)
    with pytest.raises(Nnet3Error, match="pdfs up to 5, but the supervision is of 4"):
        Normalizer(fst)(dataclasses.replace(whole(), label_dim=4))


def test_supervisions_that_cannot_be_cut() -> None:
    supervision = whole()
    splitter = SupervisionSplitter(supervision)
    for begin, count in ((-1, 3), (7, 3), (3, 0)):
        with pytest.raises(SupervisionError, match="not within"):
            splitter.frame_range(begin, count)
    with pytest.raises(SupervisionError, match="have 9 frames, expected 8"):
        SupervisionSplitter(dataclasses.replace(supervision, frames_per_sequence=8))
    with pytest.raises(SupervisionError, match="only the supervision of one utterance"):
        SupervisionSplitter(dataclasses.replace(supervision, num_sequences=2))
    for fst in (acceptor(2, 1, [(1, 1, 0, 0.0)], {0: 0.0}), acceptor(2, 0, [(0, 0, 1, 0.0)], {1: 0.0}),
                acceptor(3, 0, [(0, 1, 1, 0.0), (0, 1, 2, 0.0), (1, 1, 2, 0.0)], {2: 0.0}),
                acceptor(3, 0, [(0, 1, 1, 0.0), (1, 1, 2, 0.0)], {1: 0.0, 2: 0.0}),
                acceptor(3, 0, [(0, 1, 2, 0.0)], {2: 0.0}), acceptor(1, 0, [(0, 1, 0, 0.0)], {0: 0.0})):
        with pytest.raises(SupervisionError, match="supervision's FST"):
            fst_state_times(fst)
