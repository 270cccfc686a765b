"""Resampling in pieces: the same as at once."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.feat.resample import ROLLOFF, Resampler, resample

RNG = np.random.default_rng(1)
RATES = [(8000, 16000), (44100, 16000), (48000, 16000), (16000, 8000)]


@pytest.mark.parametrize(("rate", "new_rate"), RATES)
@pytest.mark.parametrize("size", [7, 160, 4001])
def test_pieces_give_the_same_as_the_whole(rate, new_rate, size):
    samples = RNG.standard_normal(9001).astype(np.float32)
    resampler = Resampler(rate, new_rate, ROLLOFF)
    parts = [resampler.accept(samples[begin:begin + size]) for begin in range(0, len(samples), size)]
    np.testing.assert_array_equal(np.concatenate([*parts, resampler.finish()]), resample(samples, rate, new_rate))


def test_what_is_kept_does_not_grow():
    resampler = Resampler(44100, 16000)
    kept = set()
    for _ in range(300):
        resampler.accept(np.ones(441, dtype=np.float32))
        kept.add(len(resampler._kept))
    assert max(kept) < 600


@pytest.mark.parametrize(("rate", "new_rate"), RATES)
def test_a_tone_keeps_its_height(rate, new_rate):
    seconds = np.arange(rate) / rate
    resampler = Resampler(rate, new_rate)
    tone = np.concatenate([resampler.accept(np.sin(2 * np.pi * 440 * seconds)), resampler.finish()])
    assert len(tone) == new_rate
    expected = np.sin(2 * np.pi * 440 * np.arange(new_rate) / new_rate)
    edge = new_rate // 100                  # a hundredth of a second, where the filter sees the beginning and the end
    np.testing.assert_allclose(tone[edge:-edge], expected[edge:-edge], atol=0.01)     # six zeros make a rough filter


def test_no_sound():
    resampler = Resampler(8000, 16000)
    assert len(resampler.accept(np.zeros(0, dtype=np.float32))) == len(resampler.finish()) == 0
