"""Sound at other speeds and volumes."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.errors import UsageError
from nnet3py.feat.perturb import random_volume, with_speed

RATE = 16000
RIPPLE = 0.02       # of the resampling filter, which has few zeros
EDGE = 50           # samples at either end where the filter sees the silence outside


def tone(frequency: float, count: int = RATE // 2) -> np.ndarray:
    return np.sin(2 * np.pi * frequency / RATE * np.arange(count)).astype(np.float32)


@pytest.mark.parametrize("speed", [0.9, 1.1, 1.037, 2.0])
def test_a_faster_tone_is_higher_and_shorter(speed: float) -> None:
    found = with_speed(tone(440)[None], speed)
    assert found.shape == (1, int(np.ceil(RATE // 2 / speed - 1e-9))) and found.dtype == np.float32
    expected = tone(440 * speed, found.shape[1])
    np.testing.assert_allclose(found[0, EDGE:-EDGE], expected[EDGE:-EDGE], atol=RIPPLE)


def test_channels_are_changed_alike() -> None:
    both = with_speed(np.stack([tone(300), tone(500)]), 0.9)
    for channel, frequency in zip(both, (300, 500), strict=True):
        np.testing.assert_array_equal(channel, with_speed(tone(frequency)[None], 0.9)[0])


def test_speed_one_changes_nothing() -> None:
    samples = tone(440)[None]
    assert with_speed(samples, 1.0) is samples and with_speed(samples, 1.0001) is samples


@pytest.mark.parametrize("speed", [0.0, -1.0, 11.0, float("nan"), float("inf")])
def test_speeds_that_cannot_be(speed: float) -> None:
    with pytest.raises(UsageError, match="between 0.1 and 10"):
        with_speed(tone(440)[None], speed)


def test_volumes_depend_on_seed_and_key_only() -> None:
    factors = [random_volume(0, f"utterance-{n}", 0.125, 2.0) for n in range(500)]
    assert min(factors) >= 0.125 and max(factors) <= 2.0 and abs(np.mean(factors) - 1.0625) < 0.1     # its sd: 0.024
    assert random_volume(0, "utterance-7", 0.125, 2.0) == factors[7] != random_volume(1, "utterance-7", 0.125, 2.0)
    assert random_volume(3, "a", 1.0, 1.0) == 1.0
