"""Rules of when an utterance is over."""
from __future__ import annotations

import numpy as np
import pytest
from online_cases import FakeSearch, model

from nnet3py.errors import UsageError
from nnet3py.recognition.options import EndpointOptions, EndpointRule
from nnet3py.recognition.silence import EndpointDetector, is_silence, trailing_silence

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
