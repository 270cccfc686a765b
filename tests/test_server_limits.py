"""How clients whose sound comes too fast are held back."""
from __future__ import annotations

import pytest

from nnet3py.recognition.server.options import LEAST_MESSAGE_SECONDS, Limits, Pace


def test_speed_in_the_long_run() -> None:
    """A client that sends as soon as it may sends at the allowed speed, after a first burst at any."""
    limits = Limits(max_speed=4.0, burst_seconds=10.0)
    pace, clock, sound = Pace(limits, 100.0), 100.0, 0.0
    for _ in range(1000):
        clock += pace.delay(0.5, clock)
        sound += 0.5
    assert sound == pytest.approx(10.0 + 4.0 * (clock - 100.0))


def test_sound_in_time_waits_for_nothing() -> None:
    pace = Pace(Limits(max_speed=1.5, burst_seconds=0.3), 0.0)
    assert all(pace.delay(0.2, 0.2 * step) == 0.0 for step in range(1, 100))
    assert pace.delay(100.0, 20.0) > 60.0


def test_empty_messages_count() -> None:
    pace = Pace(Limits(max_speed=2.0, burst_seconds=0.0), 0.0)
    assert pace.delay(0.0, 0.0) == pytest.approx(LEAST_MESSAGE_SECONDS / 2)


def test_no_limit() -> None:
    assert Pace(Limits(max_speed=0.0, burst_seconds=0.0), 0.0).delay(1e9, 0.0) == 0.0
