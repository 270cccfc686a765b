"""nnet3py/chain/supervision.py: supervision with times, without them, and of whole utterances."""
from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from chain_graphs import acceptor, three_phones
from graph_paths import path_costs
from graph_systems import SYSTEMS, System
from io_samples import reader_of
from paths import DATA
from test_chain_normalization import COST, check_same

from nnet3py.chain.acceptor import SupervisionError
from nnet3py.chain.normalization import Normalizer, normalization_fst
from nnet3py.chain.options import SupervisionOptions
from nnet3py.chain.supervision import (
    SupervisionMaker,
    SupervisionSplitter,
    end_to_end_supervision,
    fst_state_times,
    pdf_graph,
    proto_from_lattice,
    proto_from_phones,
    shortest_path,
    unconstrained,
)
from nnet3py.egs.chain_example import Supervision, read_supervisions
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.formats.holders import INT_PAIR_VECTOR
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.io.tables import SequentialReader
from nnet3py.random_sequence import philox
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.lattice import read_compact_lattice

PHONES, DURATIONS = np.array([1, 2, 3, 1]), np.array([6, 9, 4, 8])


def test_kaldis_supervisions() -> None:
    folder = DATA / "chain"
    maker = SupervisionMaker(read_object(folder / "tree", ContextDependency.read),
                             read_object(folder / "0.trans_mdl", TransitionModel.read))
    options = SupervisionOptions(frame_subsampling_factor=3)
    wanted = dict(read_supervisions(f"ark:{folder / 'sup.ark'}"))
    with SequentialReader(f"ark:{folder / 'phones.len'}", INT_PAIR_VECTOR) as reader:
        made = {key: maker.make(proto_from_phones(pairs[:, 0], pairs[:, 1], options)) for key, pairs in reader}
    assert made.keys() == wanted.keys() and len(made) == 10
    for key, supervision in made.items():
        assert supervision.fst is not None and supervision.fst.equals(wanted[key].fst)
        assert (supervision.weight, supervision.num_sequences) == (1.0, 1)
        assert (supervision.frames_per_sequence, supervision.label_dim) == (
            wanted[key].frames_per_sequence, wanted[key].label_dim)


def test_tolerances() -> None:
    narrow = proto_from_phones(PHONES, DURATIONS, SupervisionOptions(1, 2, 3))
    assert narrow.num_frames == 9
    assert narrow.allowed_phones() == [[1], [1], [1, 2], [2], [2], [2, 3], [1, 3], [1], [1]]
    wide = proto_from_phones(PHONES, DURATIONS, SupervisionOptions(5, 5, 3))
    assert wide.phones.tolist() == [1, 2, 3]
    assert [np.flatnonzero(column).tolist() for column in wide.allowed.T] == [
        [0, 1, 2, 3, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6], [4, 5, 6, 7]]


def test_options_that_do_not_go_together() -> None:
    for wrong, message in (({"frame_subsampling_factor": 12}, "must be at most 11"), ({"lm_scale": 1.0}, "below 1")):
        with pytest.raises(UsageError, match=message):
            SupervisionOptions(**wrong)
    with pytest.raises(SupervisionError, match="no phones"):
        proto_from_phones(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32), SupervisionOptions())
    with pytest.raises(SupervisionError, match="2147483657 frames; more than 1000000 are not possible"):
        proto_from_phones(np.array([2**31 - 1, 1]), np.array([2**31 - 1, 10], dtype=np.int32), SupervisionOptions())
    with pytest.raises(SupervisionError, match="at least 1"):
        proto_from_phones(np.array([1, 0]), np.array([3, 3]), SupervisionOptions())


def labellings(phones: list[int], num_frames: int, allowed: list[list[int]],
               system: System) -> Iterator[tuple[int, ...]]:
    """Every sequence of pdfs + 1 that says ``phones``, each with one state, in so many frames: the plain way."""
    tree, _ = system
    padded = [0] * tree.central_position + phones + [0] * (tree.context_width - 1 - tree.central_position)
    for cuts in combinations(range(1, num_frames), len(phones) - 1):
        bounds = [0, *cuts, num_frames]
        frames = [place for place in range(len(phones)) for _ in range(bounds[place + 1] - bounds[place])]
        if all(phones[place] in allowed[t] for t, place in enumerate(frames)):
            yield tuple(tree.pdf(padded[place:place + tree.context_width], int(t > bounds[place])) + 1
                        for t, place in enumerate(frames))


@pytest.mark.parametrize("name", ["chain", "left-biphone", "right-biphone"])
def test_all_ways_to_say_the_phones(name: str) -> None:
    system = SYSTEMS[name]()
    rng = np.random.default_rng(5)
    maker = SupervisionMaker(*system)
    for _ in range(8):
        phones, durations = rng.integers(1, 4, 4), rng.integers(2, 8, 4)
        proto = proto_from_phones(phones, durations, SupervisionOptions(2, 2, 2))
        wanted = set(labellings(phones.tolist(), proto.num_frames, proto.allowed_phones(), system))
        supervision = maker.make(proto)
        assert supervision.fst is not None
        found = path_costs(supervision.fst, proto.num_frames)
        assert {labels for labels, _ in found} == wanted and set(found.values()) == {0.0}
        assert (np.diff(fst_state_times(supervision.fst)) >= 0).all()


def test_labels_may_be_transition_ids() -> None:
    tree, model = SYSTEMS["three-states"]()
    proto = proto_from_phones(np.array([2, 1]), np.array([10, 12]), SupervisionOptions(3, 3, 1))
    by_id = SupervisionMaker(tree, model, convert_to_pdfs=False).make(proto)
    by_pdf = SupervisionMaker(tree, model).make(proto)
    assert by_id.label_dim == model.num_transition_ids and by_pdf.label_dim == model.num_pdfs
    assert by_id.fst is not None and by_pdf.fst is not None
    assert np.array_equal(model.transition_id_to_pdf[by_id.fst.input_labels] + 1, by_pdf.fst.input_labels)


def test_too_many_phones_for_too_few_frames() -> None:
    maker = SupervisionMaker(*SYSTEMS["chain"]())
    proto = proto_from_phones(np.array([1, 2, 3, 1]), np.array([1, 1, 1, 1]), SupervisionOptions(5, 5, 3))
    with pytest.raises(SupervisionError, match=r"is empty \(too many phones for too few frames\?\)"):
        maker.make(proto)
    with pytest.raises(Nnet3Error, match="phone 9 of the graph"):
        maker.make(proto_from_phones(np.array([9]), np.array([9]), SupervisionOptions()))


# -- lattices ----------------------------------------------------------------------------------------------------------

# Two ways to say something in 8 frames: 1 2 1, and 1 3 1; the second costs more in the graph.
LATTICE = b"\n0 1 1 0.5,10,1_2_2\n1 2 2 1,4,3_4\n1 2 3 3,4,5_6\n2 3 1 0.25,3,1_2_2\n3 0.125,0,\n\n"


def test_a_lattice_says_the_same_as_its_phones() -> None:
    tree, model = SYSTEMS["chain"]()
    maker, options = SupervisionMaker(tree, model), SupervisionOptions(1, 1, 2)
    proto = proto_from_lattice(read_compact_lattice(reader_of(LATTICE, False)), options)
    lengths = np.array([3, 2, 3])
    single = [proto_from_phones(np.array([1, middle, 1]), lengths, options) for middle in (2, 3)]
    assert proto.num_frames == 4
    assert proto.allowed_phones() == [sorted({*left, *right}) for left, right in zip(
        *(one.allowed_phones() for one in single), strict=True)]
    found, wanted = maker.make(proto).fst, [maker.make(one).fst for one in single]
    assert found is not None
    paths = path_costs(found, 4)
    assert paths.keys() == {key for fst in wanted if fst is not None for key in path_costs(fst, 4)}
    assert set(paths.values()) == {0.0}


def test_graph_costs_of_lattices_stay_in_part() -> None:
    maker = SupervisionMaker(*SYSTEMS["chain"]())
    proto = proto_from_lattice(read_compact_lattice(reader_of(LATTICE, False)), SupervisionOptions(1, 1, 2, 0.5))
    fst = maker.make(proto).fst
    assert fst is not None
    by_middle = {3 in labels: cost for (labels, _), cost in path_costs(fst, 4).items()}
    assert by_middle == {True: 0.0, False: 1.0}           # the least cost is taken away; 2 apart, times 0.5


@pytest.mark.parametrize(("lattice", "message"), [
    (b"\n0 1 1 0,0,1_2\n1 2 0 0,0,3\n2\n\n", "an arc without a phone"),
    (b"\n0 1 1 0,0,1_2\n1 2 2 0,0,3\n1\n2\n\n", "not phone-aligned"),
    (b"\n0 1 1 0,0,1_2\n1 0,0,5_6\n\n", "not phone-aligned"),
    (b"\n0 1 1 0,0,1_2\n0 2 1 0,0,1\n1 2 2 0,0,3\n2\n\n", "of 1 and of 3 frames|of 3 and of 1 frames"),
    (b"\n0 1 1 0,0,1_2\n1 0 2 0,0,3\n1\n\n", "cycle"),
    (b"\n0 1 1 0,0,1_2\n\n", "not phone-aligned"),
    (b"\n0\n\n", "empty"),
    (b"\n\n", "empty")])
def test_lattices_that_are_not_of_phones(lattice: bytes, message: str) -> None:
    with pytest.raises(SupervisionError, match=message):
        proto_from_lattice(read_compact_lattice(reader_of(lattice, False)), SupervisionOptions())


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
    with pytest.raises(SupervisionError, match="no path from its start|is empty"):
        end_to_end_supervision(acceptor(2, 0, [(0, 1, 0, 0.0)], {1: 0.0}), MODEL, 3)
    with pytest.raises(SupervisionError, match="no path from its start|is empty"):
        pdf_graph(acceptor(1, 0, [], {0: 0.0}), MODEL)
    with pytest.raises(Nnet3Error, match="labels from 1 to 9"):
        pdf_graph(acceptor(2, 0, [(0, 1, 1, 0.0), (0, 9, 1, 0.0)], {1: 0.0}), MODEL)
