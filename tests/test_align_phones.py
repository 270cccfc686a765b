"""nnet3py/hmm/align_phones.py: phones with lengths to transition-ids and back, and alignments converted."""
from __future__ import annotations

import io

import numpy as np
import pytest
from io_samples import object_bytes
from paths import DATA

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.hmm.alignment import PhoneAligner, phone_starts, phones_of_frames
from nnet3py.hmm.topology import HmmState, HmmTopology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import Constant, ContextDependency, Split, Table, initial_transition_model, monophone_tree
from nnet3py.io.object_files import read_object
from nnet3py.io.tokens import TokenReader

LEFT_TO_RIGHT = [HmmState(0, 0, [(0, 0.5), (1, 0.5)]), HmmState(1, 1, [(1, 0.5), (2, 0.5)]),
                 HmmState(2, 2, [(2, 0.75), (3, 0.25)]), HmmState()]
CHAIN = [HmmState(0, 1, [(0, 0.5), (1, 0.5)]), HmmState()]
WITH_SKIP = [HmmState(0, 0, [(0, 0.3), (1, 0.6), (2, 0.1)]), HmmState(1, 1, [(1, 0.5), (2, 0.5)]), HmmState()]
TOPOLOGY = HmmTopology([LEFT_TO_RIGHT, CHAIN, WITH_SKIP], {1: 0, 2: 1, 3: 2, 4: 1})


def make(topology: HmmTopology = TOPOLOGY, reorder: bool = True) -> PhoneAligner:
    tree = monophone_tree(topology)
    return PhoneAligner(initial_transition_model(tree, topology), tree, reorder)


def phones_and_lengths(model: TransitionModel, ids: np.ndarray) -> tuple[list[int], list[int]]:
    starts, complete = phone_starts(model, ids)
    assert complete
    return model.transition_id_to_phone[ids[starts]].tolist(), np.diff(starts, append=len(ids)).tolist()


@pytest.mark.parametrize("reorder", [True, False])
def test_phones_and_lengths_come_back(reorder: bool) -> None:
    aligner, rng = make(reorder=reorder), np.random.default_rng(1)
    for _ in range(100):
        phones = rng.integers(1, 5, rng.integers(1, 8)).tolist()
        lengths = [int(rng.integers(aligner.min_length(phone), 9)) for phone in phones]
        ids = aligner.align(phones, lengths)
        assert ids.dtype == np.int32
        assert phones_and_lengths(aligner.model, ids) == (phones, lengths)


@pytest.mark.parametrize(("reorder", "hmm_states", "loops"), [
    (True, [0, 0, 0, 1, 1, 2, 2], [0, 1, 1, 0, 1, 0, 1]), (False, [0, 0, 0, 1, 1, 2, 2], [1, 1, 0, 1, 0, 1, 0])])
def test_frames_are_spread_evenly_over_the_states(reorder: bool, hmm_states: list[int], loops: list[int]) -> None:
    aligner = make(reorder=reorder)
    ids = aligner.align([1], [7])
    assert aligner.model.transition_id_to_hmm_state[ids].tolist() == hmm_states
    assert aligner.model.is_self_loop[ids].tolist() == [bool(loop) for loop in loops]


def test_a_short_phone_takes_the_skip() -> None:
    aligner = make()
    assert aligner.min_length(3) == 1 and aligner.min_length(1) == 3
    assert aligner.model.transition_id_to_hmm_state[aligner.align([3], [1])].tolist() == [0]
    assert aligner.model.transition_id_to_hmm_state[aligner.align([3], [2])].tolist() == [0, 1]


def test_a_phone_takes_the_likeliest_transitions_and_waits_where_it_can() -> None:
    without_loops = [HmmState(0, 0, [(1, 1.0)]), HmmState(1, 1, [(2, 1.0)]), HmmState()]
    waits_last = [HmmState(0, 0, [(1, 1.0)]), HmmState(1, 1, [(1, 0.5), (2, 0.5)]), HmmState()]
    tie = [HmmState(0, 0, [(2, 0.5), (1, 0.5)]), HmmState(1, 1, [(3, 1.0)]), HmmState(2, 2, [(1, 0.1), (3, 0.9)]),
           HmmState()]
    begins_silently = [HmmState(-1, -1, [(1, 1.0)]), HmmState(0, 0, [(1, 0.5), (2, 0.5)]), HmmState()]
    aligner = make(HmmTopology([without_loops, waits_last, tie, begins_silently], {1: 0, 2: 1, 3: 2, 4: 3}))

    def states(phone: int, length: int) -> list[int]:
        return aligner.model.transition_id_to_hmm_state[aligner.align([phone], [length])].tolist()

    assert (states(1, 2), states(2, 4), states(3, 2), states(4, 2)) == ([0, 1], [0, 1, 1, 1], [0, 2], [1, 1])
    assert [aligner.min_length(phone) for phone in (1, 2, 3, 4)] == [2, 2, 2, 1]
    for phone, length, needed in ((1, 3, "2"), (1, 1, "2"), (2, 1, "2 or more"), (3, 3, "2"), (4, 0, "1 or more")):
        with pytest.raises(Nnet3Error, match=f"phone {phone} cannot have {length} frames: its HMM needs {needed}$"):
            aligner.align([phone], [length])
    assert phones_and_lengths(aligner.model, aligner.align([4, 4, 2], [2, 1, 3])) == ([4, 4, 2], [2, 1, 3])


def test_first_and_later_frames_of_a_chain_phone_have_their_own_pdfs() -> None:
    aligner = make()
    pdfs = [aligner.tree.pdf((2,), pdf_class) for pdf_class in (0, 1)]
    assert aligner.model.transition_id_to_pdf[aligner.align([2, 2], [1, 3])].tolist() == [
        pdfs[0], pdfs[0], pdfs[1], pdfs[1]]


@pytest.mark.parametrize(("phones", "lengths", "message"), [
    ([1], [2], r"phone 1 cannot have 2 frames: its HMM needs 3 or more"), ([7], [2], "no phone 7"),
    ([2], [0], "needs 1 or more"), ([2], [1, 1], "a length for each of 1 phones, found 2")])
def test_what_cannot_be_aligned(phones: list[int], lengths: list[int], message: str) -> None:
    with pytest.raises(Nnet3Error, match=message):
        make().align(phones, lengths)
    assert len(make().align([], [])) == 0


def test_a_tree_that_asks_for_neighbors() -> None:
    # Phone 2 has another pdf after phone 4; at the start of the utterance it has not.
    tree = ContextDependency(2, 1, Table(1, (None, None, Split(0, frozenset([4]), Constant(1), Constant(0)), None,
                                             Constant(2))))
    topology = HmmTopology([[HmmState(0, 0, [(0, 0.5), (1, 0.5)]), HmmState()]], {2: 0, 4: 0})
    aligner = PhoneAligner(initial_transition_model(tree, topology), tree)
    ids = aligner.align([2, 4, 2, 2], [1, 2, 1, 2])
    assert aligner.model.transition_id_to_pdf[ids].tolist() == [0, 2, 2, 1, 0, 0]
    with pytest.raises(Nnet3Error, match="no pdf for pdf class 0"):
        tree.pdf((2, 3), 0)


def test_phones_of_frames() -> None:
    phones, lengths = phones_of_frames(np.array([5, 5, 1, 5]))
    assert phones.tolist() == [5, 1, 5] and lengths.tolist() == [2, 1, 1]
    assert [len(part) for part in phones_of_frames(np.zeros(0, dtype=np.int32))] == [0, 0]


# -- converting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old_reorder", "reorder"), [(True, True), (False, True), (True, False)])
def test_a_conversion_to_an_equal_topology_keeps_every_state(old_reorder: bool, reorder: bool) -> None:
    old, new = make(reorder=old_reorder), make(reorder=reorder)
    model = old.model
    loop, leave = model.self_loop_of[1:4], model.first_transition_id[1:4] + 1
    uneven = [leave[0], loop[0], leave[1], leave[2], loop[2]] if old_reorder else [
        loop[0], leave[0], leave[1], loop[2], leave[2]]
    ids = np.concatenate([np.array(uneven, dtype=np.int32), old.align([2], [3])])
    converted = new.convert(model, ids)
    assert new.model.transition_id_to_hmm_state[converted].tolist() == [0, 0, 1, 2, 2, 0, 0, 0]
    assert phones_and_lengths(new.model, converted) == ([1, 2], [5, 3])


@pytest.mark.parametrize(("lengths", "factor", "expected"), [
    ([3, 3, 3], 3, [1, 1, 1]), ([2, 5, 3], 3, [1, 2, 1]), ([1, 1, 7], 3, [1, 1, 1]), ([10], 3, [4]),
    ([1, 1, 1, 9], 3, [1, 1, 1, 1]), ([4, 1, 5], 3, [1, 1, 2])])
def test_lower_frame_rates(lengths: list[int], factor: int, expected: list[int]) -> None:
    aligner = make()
    phones = [2, 4, 2, 4][:len(lengths)]
    converted = aligner.convert(aligner.model, aligner.align(phones, lengths), factor)
    assert len(converted) == -(-sum(lengths) // factor)
    assert phones_and_lengths(aligner.model, converted) == (phones, expected)


def test_frames_come_from_the_phone_that_is_nearest_in_frames() -> None:
    """The third phone has none; three frames lie between it and the first phone, two between it and the last."""
    aligner, phones = make(), [2, 1, 4, 2, 4, 2]
    converted = aligner.convert(aligner.model, aligner.align(phones, [4, 9, 1, 2, 3, 6]), 3)
    assert phones_and_lengths(aligner.model, converted) == (phones, [2, 3, 1, 1, 1, 1])


def test_repeated_frames_keep_the_length() -> None:
    aligner = make()
    ids = aligner.align([2, 4], [7, 4])
    converted = aligner.convert(aligner.model, ids, 3, repeat_frames=True)
    assert len(converted) == len(ids)
    assert converted[::3].tolist() == aligner.convert(aligner.model, ids, 3).tolist()


def test_phones_are_renamed_and_hmms_changed() -> None:
    old, new = make(), make(HmmTopology([CHAIN], {1: 0, 2: 0}))
    converted = new.convert(old.model, old.align([1, 3, 4], [6, 2, 3]), phone_map={1: 2, 3: 1, 4: 1})
    assert phones_and_lengths(new.model, converted) == ([2, 1, 1], [6, 2, 3])
    with pytest.raises(Nnet3Error, match="lacks phone 3"):
        new.convert(old.model, old.align([1, 3], [6, 2]), phone_map={1: 2})


def test_what_cannot_be_converted() -> None:
    aligner = make()
    with pytest.raises(Nnet3Error, match="1 frames are too few for 2 phones"):
        aligner.convert(aligner.model, aligner.align([2, 4], [1, 1]), 3)
    with pytest.raises(Nnet3Error, match="whole phones"):
        aligner.convert(aligner.model, aligner.align([1], [4])[:2])


# -- trees -------------------------------------------------------------------------------------------------------------


def test_the_monophone_tree_is_kaldis_to_the_byte() -> None:
    topology = read_object(DATA / "chain" / "topo", HmmTopology.read)
    tree = monophone_tree(topology)
    assert b"\0B" + object_bytes(tree, True) == (DATA / "chain" / "tree").read_bytes()
    model = initial_transition_model(tree, topology)
    assert object_bytes(model, False) == (DATA / "chain" / "0.trans_mdl").read_bytes()


def test_phones_that_share_pdfs() -> None:
    topology = HmmTopology([CHAIN], dict.fromkeys(range(1, 6), 0))
    tree = monophone_tree(topology, [[2, 1], [3], [5, 4]])
    assert tree.num_pdfs == 6
    assert [tree.pdf((phone,), 1) for phone in range(1, 6)] == [1, 1, 3, 5, 5]
    again = ContextDependency.read(TokenReader(io.BytesIO(object_bytes(tree, False))))
    assert again == tree
    assert monophone_tree(topology, [[1, 2, 3, 4, 5]]).to_pdf == Table(-1, (Constant(0), Constant(1)))


@pytest.mark.parametrize(("sets", "fault"), [
    ([[1, 2]], r"phones \[3\]"), ([[1, 2, 3], [3]], r"phones \[3\]"), ([[1], [2], [3], []], "a set is empty"),
    ([[1, 2, 3, 9]], r"phones \[9\]"), ([[*range(1, 10)]], r"phones \[4, 5, 6, 7, 8\]")])
def test_sets_that_are_no_partition(sets: list[list[int]], fault: str) -> None:
    with pytest.raises(FormatError, match=f"just one set of shared phones; .*{fault}"):
        monophone_tree(HmmTopology([CHAIN], {1: 0, 2: 0, 3: 0}), sets)
