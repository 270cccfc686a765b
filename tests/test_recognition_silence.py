"""Rules of when an utterance is over; weights of frames of silence for i-vectors, against a slow computation."""
from __future__ import annotations

import numpy as np
import pytest
from online_cases import FakeSearch, model

from nnet3py.errors import UsageError
from nnet3py.recognition.options import EndpointOptions, EndpointRule, SilenceWeightingOptions
from nnet3py.recognition.silence import LOOK_BACK, EndpointDetector, SilenceWeighting, is_silence, trailing_silence

INFINITY = float("inf")


def phone_ids(phone: int) -> np.ndarray:
    return np.flatnonzero(model().transition_model.transition_id_to_phone == phone)


SILENCE, SPEECH = int(phone_ids(1)[0]), int(phone_ids(2)[0])


def rule(speech: int, silence: int, cost: float = 0.0, **options: object) -> str | None:
    """Which of the rules says so, after frames of speech and of silence, 0.03 seconds each."""
    detector = EndpointDetector(EndpointOptions((1,), **options), model().transition_model, 0.03)
    activated = detector.activated_rule(FakeSearch([SPEECH] * speech + [SILENCE] * silence, cost))
    return activated and activated[0]


@pytest.mark.parametrize(("speech", "silence", "cost", "expected"), [
    (0, 0, 0.0, None),                  # no frame at all
    (0, 100, INFINITY, None), (0, 167, INFINITY, "rule1"),      # 5 s of silence: 167 frames
    (10, 17, 0.0, "rule2"), (10, 16, 0.0, None), (10, 17, 2.1, None), (0, 17, 0.0, None),
    (10, 34, 8.0, "rule3"), (10, 33, 8.0, None), (10, 34, 8.1, None),
    (10, 67, INFINITY, "rule4"), (10, 66, INFINITY, None),
    (667, 0, INFINITY, "rule5"), (666, 0, INFINITY, None),      # 20 s
    (600, 70, 100.0, "rule4"),          # the first one in order
])
def test_kaldis_rules(speech, silence, cost, expected):
    assert rule(speech, silence, cost) == expected


def test_other_rules():
    assert rule(3, 2, rules={"mine": EndpointRule(True, 0.06)}) == "mine"
    assert rule(3, 1, rules={"mine": EndpointRule(True, 0.06)}) is None
    assert rule(3, 1000, rules={}) is None


@pytest.mark.parametrize("silence", [0, 1, 63, 64, 65, 500])
@pytest.mark.parametrize("speech", [0, 1, 300])
def test_trailing_silence(speech, silence):
    table = is_silence(model().transition_model, (1,))
    assert trailing_silence(FakeSearch([SILENCE] * 5 + [SPEECH] * speech + [SILENCE] * silence), table) == (
        silence if speech else silence + 5)


def test_phones_count_from_one():
    with pytest.raises(UsageError, match="above 0, found 1:0"):
        is_silence(model().transition_model, (1, 0))
    assert not is_silence(model().transition_model, ()).any()


RNG = np.random.default_rng(4)


class Slow:
    """Keeps everything, and goes through it frame by frame."""

    def __init__(self, options, subsampling, offset):
        self.options, self.subsampling, self.offset = options, subsampling, offset
        self.ids, self.weights = [], []

    def deltas(self, alignment, ready):
        options, silence = self.options, np.float32(self.options.silence_weight)
        self.grow(len(alignment))
        self.ids[:len(alignment)] = list(alignment)
        begin = max(0, len(self.ids) - LOOK_BACK)
        self.grow(-(-(ready - self.offset) // self.subsampling))
        if begin == len(self.ids):
            return []
        ids = self.ids[begin:]
        if ids[0] < 0:
            wanted = [silence if begin == 0 else self.weights[begin - 1]] * len(ids)
        else:
            wanted, run = [], 0
            for place, number in enumerate(ids):
                if number < 0:
                    wanted.append(wanted[-1])
                    continue
                phone = model().transition_model.transition_id_to_phone[number]
                wanted.append(silence if phone in options.silence_phones else np.float32(1.0))
                if place + 1 == len(ids) or ids[place + 1] != number:
                    if 0 < int(options.max_state_duration) <= place + 1 - run:
                        wanted[run:] = [silence] * (place + 1 - run)
                    run = place + 1
        changes = []
        for place, weight in enumerate(wanted):
            delta = weight - self.weights[begin + place]
            self.weights[begin + place] = weight
            if delta != 0 or place + 1 == len(wanted):
                first = self.offset + (begin + place) * self.subsampling
                changes += [(first + i, delta) for i in range(self.subsampling)]
        return changes

    def grow(self, size):
        missing = max(0, size - len(self.ids))
        self.ids += [-1] * missing
        self.weights += [np.float32(0.0)] * missing


@pytest.mark.parametrize("duration", [-1.0, 5.0])
@pytest.mark.parametrize(("subsampling", "offset"), [(1, 0), (3, 0), (3, 300)])
def test_as_a_slow_account_says(duration, subsampling, offset):
    options = SilenceWeightingOptions((1, 3), 0.01, duration)
    fast, slow = SilenceWeighting(options, model().transition_model, subsampling, offset), Slow(
        options, subsampling, offset)
    ids = np.arange(1, model().transition_model.num_transition_ids + 1)
    alignment, ready = np.zeros(0, dtype=np.int32), offset
    for _ in range(80):
        ready += int(RNG.integers(0, 30))
        frames, deltas = fast.delta_weights(FakeSearch(alignment), ready)
        expected = slow.deltas(alignment, ready)
        assert list(zip(frames.tolist(), deltas.tolist(), strict=True)) == expected
        assert frames.min(initial=10 ** 9) >= fast.first_changing - LOOK_BACK * subsampling
        # The search goes on, and thinks again about its last frames.
        decoded = int(RNG.integers(len(alignment), max(len(alignment), (ready - offset) // subsampling) + 1))
        changed = min(len(alignment), int(RNG.integers(0, 20)))
        new = np.repeat(RNG.choice(ids, decoded - len(alignment) + changed), 3)[:decoded - len(alignment) + changed]
        alignment = np.concatenate((alignment[:len(alignment) - changed], new)).astype(np.int32)
    assert fast._first > 0 and len(fast._weights) < 4 * LOOK_BACK          # what is old is forgotten


def test_promise_of_what_will_not_change():
    options = SilenceWeightingOptions((1,), 0.01)
    weighting, promised = SilenceWeighting(options, model().transition_model, 3, 60), 0
    for ready in range(60, 3000, 17):
        search = FakeSearch(RNG.integers(1, model().transition_model.num_transition_ids, (ready - 60) // 3))
        frames, _ = weighting.delta_weights(search, ready)
        assert frames.min(initial=10 ** 9) >= promised
        promised = weighting.first_changing
    assert promised > 2000


def test_nothing_ready():
    weighting = SilenceWeighting(SilenceWeightingOptions((1,), 0.01), model().transition_model, 3)
    frames, deltas = weighting.delta_weights(FakeSearch([]), 0)
    assert len(frames) == len(deltas) == 0


@pytest.mark.parametrize(("options", "active"), [
    (SilenceWeightingOptions(), False), (SilenceWeightingOptions((1,)), False),
    (SilenceWeightingOptions((), 0.1), False), (SilenceWeightingOptions((1,), 0.1), True)])
def test_is_active(options, active):
    assert options.is_active is active
