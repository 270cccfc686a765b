"""Alignments taken apart: phones, in the order of self-loops of both kinds; and what is printed of transitions."""
from __future__ import annotations

import numpy as np
import pytest
from paths import DATA

from nnet3py.errors import FormatError, ShapeError
from nnet3py.hmm.alignment import check_transition_ids, describe_transitions, phone_starts, read_symbol_table
from nnet3py.hmm.topology import HmmState, HmmTopology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object


@pytest.fixture(scope="module")
def model() -> TransitionModel:
    """Five phones of two states; phone p has the ids 4p-3 (loop), 4p-2, 4p-1 (loop), 4p."""
    return read_object(str(DATA / "network" / "trans.mdl"), TransitionModel.read)


def random_alignment(model: TransitionModel, rng: np.random.Generator, reordered: bool) -> tuple[list[int], list[int]]:
    """Transition-ids of some phones, and how many each phone has."""
    ids: list[int] = []
    lengths = []
    for phone in rng.integers(1, 6, rng.integers(1, 9)).tolist():
        before = len(ids)
        for state in (0, 1):
            loop = 4 * phone - 3 + 2 * state
            loops = [loop] * int(rng.integers(0, 4))
            ids += [loop + 1, *loops] if reordered else [*loops, loop + 1]
        lengths.append(len(ids) - before)
    return ids, lengths


@pytest.mark.parametrize("reordered", [False, True])
def test_phones_of_random_alignments(model: TransitionModel, reordered: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        ids, lengths = random_alignment(model, rng, reordered)
        starts, complete = phone_starts(model, np.array(ids, dtype=np.int32))
        assert np.diff(starts, append=len(ids)).tolist() == lengths and complete


@pytest.mark.parametrize(("ids", "starts", "complete"), [
    ([], [], True), ([1, 2, 3, 4], [0], True), ([2, 4], [0], True), ([2, 1, 4, 3], [0], True),
    ([2, 4, 2, 4], [0, 2], True), ([1, 2, 3], [0], False), ([3, 4], [0], False), ([1, 1, 5, 6, 8], [0, 2], False),
    ([2, 1, 4, 3, 3, 6, 5, 8], [0, 5], True), ([2, 1, 4, 3, 3, 6, 5], [0, 5], False), ([1], [0], False),
    ([4, 3], [0], False),
])
def test_phones_of_whole_and_cut_alignments(model: TransitionModel, ids: list[int], starts: list[int],
                                            complete: bool) -> None:
    found, is_complete = phone_starts(model, np.array(ids, dtype=np.int32))
    assert found.tolist() == starts and is_complete == complete


@pytest.mark.parametrize("bad", [0, -1, 21, 2**31 - 1])
def test_what_is_no_transition_id(model: TransitionModel, bad: int) -> None:
    with pytest.raises(ShapeError, match=f"Invalid transition-id {bad}; the model has 1 to 20"):
        check_transition_ids(model, np.array([1, bad, 2]))
    with pytest.raises(ShapeError, match="Invalid transition-id"):
        phone_starts(model, np.array([bad]))


def test_description(model: TransitionModel) -> None:
    names = {phone: f"P{phone}" for phone in range(1, 6)}
    lines = describe_transitions(model, names, None).splitlines()
    assert lines[:6] == ["Transition-state 1: phone = P1 hmm-state = 0 pdf = 0",
                         " Transition-id = 1 p = 0.75 [self-loop]", " Transition-id = 2 p = 0.25 [0 -> 1]",
                         "Transition-state 2: phone = P1 hmm-state = 1 pdf = 1",
                         " Transition-id = 3 p = 0.75 [self-loop]", " Transition-id = 4 p = 0.25 [1 -> 2]"]
    assert len(lines) == 30
    counted = describe_transitions(model, names, np.arange(10) * 1.5).splitlines()
    assert counted[4] == " Transition-id = 3 p = 0.75 count of pdf = 1.5 [self-loop]"
    with pytest.raises(ShapeError, match="counts of 10 pdfs, found 3"):
        describe_transitions(model, names, np.zeros(3))
    with pytest.raises(ShapeError, match="no name for phone 1"):
        describe_transitions(model, {}, None)


def test_description_where_the_self_loop_has_its_own_pdf() -> None:
    topology = HmmTopology([[HmmState(0, 1, [(0, 0.5), (1, 0.5)]), HmmState()]], {1: 0})
    model = TransitionModel(topology, np.array([[1, 0, 0, 1]]), np.log([1.0, 0.5, 0.5]))
    assert describe_transitions(model, {1: "a"}, np.array([3.0, 4.0])) == (
        "Transition-state 1: phone = a hmm-state = 0 forward-pdf = 0 self-loop-pdf = 1\n"
        " Transition-id = 1 p = 0.5 count of pdf = 4 [self-loop]\n"
        " Transition-id = 2 p = 0.5 count of pdf = 3 [0 -> 1]\n")


def test_symbol_table() -> None:
    assert read_symbol_table("<eps> 0\n a\t1 \n\n#0 -2\n") == {0: "<eps>", 1: "a", -2: "#0"}
    for text in ("a", "a b", "a 1 2", "a 1.5", "a 1_0"):
        with pytest.raises(FormatError, match=r"line 2 of a symbol table is not NAME NUMBER.*phones\.txt"):
            read_symbol_table("x 1\n" + text, "phones.txt")
