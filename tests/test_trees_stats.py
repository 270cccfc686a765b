"""nnet3py/trees/stats.py: files to the byte, gathering and summing against a slow twin, the objective."""
from __future__ import annotations

import io
import math

import numpy as np
import pytest
from io_samples import reader_of, written
from paths import DATA

from nnet3py.errors import FormatError, ShapeError
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tokens import TokenReader
from nnet3py.trees.stats import ABSENT, Accumulator, TreeStats, check_not_empty, objective, summed

TREES = DATA / "trees"
DOUBLE = 1e-12         # sums of doubles in another order
SINGLE = 1e-6          # results are float32


@pytest.mark.parametrize(("name", "binary"), [("bi.treeacc", True), ("text.treeacc", False)])
def test_files_round_trip(name: str, binary: bool, tmp_path) -> None:
    stats = read_object(TREES / name, TreeStats.read)
    write_object(tmp_path / "out", stats.write, binary)
    assert (tmp_path / "out").read_bytes() == (TREES / name).read_bytes()


def test_bad_files_are_refused() -> None:
    whole = (TREES / "bi.treeacc").read_bytes()
    for damaged in (whole[:500], whole.replace(b"GCL", b"GCX", 1), whole.replace(b"BTS \xfc", b"BTS \xfc\xff\xff", 1)):
        reader = TokenReader(io.BytesIO(damaged), size=len(damaged))
        reader.read_header()
        with pytest.raises(FormatError):
            TreeStats.read(reader)


EVENT = "EV 2 -1 0 99 4 \nT GCL 3 0.01  [\n  1 2 \n  3 4 ]\n"


def test_an_event_in_text() -> None:
    stats = TreeStats.read(reader_of(f"BTS 1 {EVENT}".encode(), False))
    assert stats.events.tolist() == [[0, *[ABSENT] * 99, 4]]
    assert stats.moments.tolist() == [[3, 1, 2, 3, 4]] and stats.floors.tolist() == [0.01]


def test_no_events() -> None:
    stats = read_object(TREES / "bi.treeacc", TreeStats.read)
    model = read_object(TREES / "mono.mdl", TransitionModel.read)
    for empty in (TreeStats.read(reader_of(b"BTS 0 ", False)), summed([]), Accumulator(model, 3, 1).stats()):
        assert len(empty) == 0 and empty.var_floor == 0.0
        assert written(empty.write, binary=False) == b"BTS 0 \n"
        assert summed([empty, stats, empty]).events.tolist() == stats.events.tolist()
        with pytest.raises(FormatError, match="the tree statistics are empty"):
            check_not_empty(empty)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("99 4", "100 4", "keys from -1 to 99, each once, with values from 0, found 100 with 4"),
    ("99 4", "-2 4", "found -2 with 4"), ("99 4", "-1 4", "found -1 with 4"), ("99 4", "99 -1", "found 99 with -1"),
    ("T GCL", "F", "an event has no statistics"), ("3 4 ]", "3 4 \n 5 6 ]", r"found a matrix \(3, 2\)"),
    ("3 4 ]", "3 nan ]", "expected the finite sums"), ("GCL 3", "GCL inf", "finite|expected a number")])
def test_events_that_are_refused(old: str, new: str, message: str) -> None:
    assert old in EVENT
    with pytest.raises(FormatError, match=message):
        TreeStats.read(reader_of(f"BTS 1 {EVENT.replace(old, new)}".encode(), False))


def test_events_of_two_dimensions_are_refused() -> None:
    with pytest.raises(FormatError, match="expected statistics of dimension 2, found 1"):
        TreeStats.read(reader_of(f"BTS 2 {EVENT}EV 1 0 1 \nT GCL 3 0.01  [\n  1 \n  3 ]\n".encode(), False))


def _slow_sums(model: TransitionModel, features: np.ndarray, ids: np.ndarray, width: int, position: int,
               ci_phones: set[int]) -> dict[tuple[int, ...], np.ndarray]:
    starts = phone_starts(model, ids)[0].tolist()
    phones = [int(model.transition_id_to_phone[ids[start]]) for start in starts]
    sums: dict[tuple[int, ...], np.ndarray] = {}
    for frame, transition in enumerate(ids.tolist()):
        which = max(i for i, start in enumerate(starts) if start <= frame)
        window = [phones[i] if 0 <= i < len(phones) else 0
                  for i in range(which - position, which - position + width)]
        if phones[which] in ci_phones:
            window = [phone if at == position else ABSENT for at, phone in enumerate(window)]
        event = (int(model.transition_id_to_pdf_class[transition]), *window)
        row = features[frame].astype(np.float64)
        square = (features[frame] * features[frame]).astype(np.float64)
        sums[event] = sums.get(event, 0) + np.concatenate(([1.0], row, square))
    return sums


@pytest.mark.parametrize(("width", "position", "ci_phones"), [(3, 1, {2}), (2, 1, set()), (1, 0, {1}), (4, 2, {1, 3})])
def test_gathering(width: int, position: int, ci_phones: set[int]) -> None:
    rng = np.random.default_rng(5)
    model = read_object(TREES / "mono.mdl", TransitionModel.read)
    accumulator, expected = Accumulator(model, width, position, ci_phones), {}
    for _ in range(3):
        phones = rng.integers(1, 6, 12)
        ids = np.concatenate([_one_phone(model, phone, int(rng.integers(0, 3))) for phone in phones])
        features = rng.standard_normal((len(ids), 2)).astype(np.float32)
        assert accumulator.add(features, ids)
        for event, row in _slow_sums(model, features, ids, width, position, ci_phones).items():
            expected[event] = expected.get(event, 0) + row
    stats = accumulator.stats()
    assert {tuple(event) for event in stats.events.tolist()} == set(expected)
    for event, row in zip(stats.events.tolist(), stats.moments, strict=True):
        np.testing.assert_allclose(row, expected[tuple(event)], rtol=DOUBLE, atol=DOUBLE)
    assert not accumulator.add(features[1:], ids[1:]), "an alignment that begins inside a phone is not used"
    assert stats.moments[:, 0].sum() == accumulator.stats().moments[:, 0].sum()


def _one_phone(model: TransitionModel, phone: int, loops: int) -> np.ndarray:
    """Transition-ids of a phone of the chain topology: forward, then self-loops."""
    (state,) = np.flatnonzero(model.tuples[:, 0] == phone) + 1
    forward = next(i for i in range(model.first_transition_id[state], model.first_transition_id[state + 1])
                   if not model.is_self_loop[i])
    return np.array([forward] + [model.self_loop_of[state]] * loops, dtype=np.int32)


def test_a_map_of_phones_must_have_all() -> None:
    model = read_object(TREES / "mono.mdl", TransitionModel.read)
    accumulator = Accumulator(model, 1, 0, phone_map=np.array([0, 4, ABSENT]))
    ids = _one_phone(model, 1, 1)
    assert accumulator.add(np.ones((2, 1), dtype=np.float32), ids)
    assert accumulator.stats().events.tolist() == [[0, 4], [1, 4]]
    for phone in (2, 3):
        with pytest.raises(ShapeError, match=f"lacks phone {phone}"):
            accumulator.add(np.ones((1, 1), dtype=np.float32), _one_phone(model, phone, 0))


def test_sums_of_parts() -> None:
    stats = read_object(TREES / "bi.treeacc", TreeStats.read)
    halves = stats.chosen(np.arange(0, len(stats), 2)), stats.chosen(np.arange(1, len(stats), 2))
    total = summed([*halves, stats])
    np.testing.assert_array_equal(total.events, stats.events)
    np.testing.assert_array_equal(total.moments, 2 * stats.moments)
    np.testing.assert_array_equal(total.floors, stats.floors)
    small, wide = (
        TreeStats(np.array(events, np.int32), np.array(moments), np.array(floors)) for events, moments, floors in (
            ([[0, 2], [1, 2]], [[1.0, 2, 4], [3, 0, 9]], [0.1, 0.2]),
            ([[1, 2, ABSENT], [0, 1, 2]], [[5.0, 1, 1], [7, 7, 7]], [0.3, 0.4])))
    both = summed([small, wide])
    assert both.events.tolist() == [[0, 1, 2], [0, 2, ABSENT], [1, 2, ABSENT]]
    assert both.moments.tolist() == [[7, 7, 7], [1, 2, 4], [8, 1, 10]] and both.floors.tolist() == [0.4, 0.1, 0.2]
    assert small.moments.tolist() == [[1, 2, 4], [3, 0, 9]] and (small.var_floor, both.var_floor) == (0.1, 0.4)
    with pytest.raises(ShapeError, match="dimension"):
        summed([stats, read_object(TREES / "text.treeacc", TreeStats.read)])


def test_objective() -> None:
    rng = np.random.default_rng(7)
    features = rng.standard_normal((50, 3)) * [1.0, 5.0, 1e-4] + [3.0, 0.0, 1.0]
    moments = np.concatenate(([50.0], features.sum(0), (features * features).sum(0)))
    variances = np.maximum(features.var(0), 0.01)
    likelihood = sum(-0.5 * ((x - m) ** 2 / v + math.log(2 * math.pi * v)) for row in features
                     for x, m, v in zip(row, features.mean(0), variances, strict=True))
    found = objective(np.stack((moments, 0 * moments)), 0.01)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [likelihood, 0.0], rtol=SINGLE)
