"""Pitch against Kaldi's, in pieces against the whole, and the search against one that tries everything."""
from __future__ import annotations

import feature_cases as cases
import numpy as np
import pytest

from nnet3py.errors import Nnet3Error, NumericError, UsageError
from nnet3py.feat import pitch
from nnet3py.feat.pitch import PitchOptions, PitchStream, compute_pitch, pitch_options
from nnet3py.feat.pitch_options import PITCH_OPTIONS

AGREE = 0.99              # of the frames: ties are decided by rounding
NEAR = 1e-3               # of the largest value
RATE = 16000.0


def voiced(seconds: float, hertz: float, rate: float = RATE) -> np.ndarray:
    time = np.arange(int(seconds * rate)) / rate
    tones = sum(np.sin(2 * np.pi * hertz * number * time) / number for number in range(1, 6))
    return (3000 * tones).astype(np.float32)


@pytest.mark.parametrize("name", cases.PITCH)
def test_kaldis(name: str) -> None:
    found, expected = compute_pitch(*cases.sound(), pitch_options(cases.PITCH[name])), cases.kaldis(name)
    assert found.shape == expected.shape and found.dtype == np.float32
    assert ((np.abs(found - expected) <= NEAR * np.abs(expected).max(axis=0)).mean(axis=0) >= AGREE).all()


@pytest.mark.parametrize("hertz", [80.0, 123.0, 250.0])
def test_of_tones(hertz: float) -> None:
    found = compute_pitch(voiced(0.6, hertz), RATE, PitchOptions())[5:-5]
    assert (found[:, 0] > 0.9).all()
    np.testing.assert_allclose(found[:, 1], hertz, rtol=0.006)      # what is told apart: delta-pitch


def test_pieces_end_as_the_whole() -> None:
    """What does not depend on loudness so far (a ballast by the end of each frame) is the same in any pieces."""
    samples, rate = cases.sound()
    options = pitch_options({"nccf-ballast-online": True})
    whole = compute_pitch(samples, rate, options)
    for step in (37, 1600):
        stream, ready = PitchStream(options), 0
        for begin in range(0, len(samples), step):
            stream.accept(samples[begin:begin + step])
            assert stream.num_ready >= ready
            ready = stream.num_ready
        stream.finish()
        np.testing.assert_array_equal(stream.frames(0, stream.num_ready), whole)
        np.testing.assert_array_equal(stream.frames(20, 30), whole[20:30])


def test_what_is_settled_is_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long sound only results are kept, which are those that are found with everything kept."""
    rng = np.random.default_rng(0)
    samples = np.concatenate([voiced(0.7, hertz) * rng.uniform(0, 1) for hertz in rng.uniform(60, 350, 40)])
    samples += 50 * rng.standard_normal(len(samples)).astype(np.float32)
    settled = PitchStream(PitchOptions())
    settled.accept(samples)
    settled.finish()
    monkeypatch.setattr(PitchStream, "_settle", lambda stream: None)
    kept = PitchStream(PitchOptions())
    kept.accept(samples)
    kept.finish()
    assert len(settled._back) < len(kept._back) / 2
    np.testing.assert_array_equal(settled.frames(0, settled.num_ready), kept.frames(0, kept.num_ready))


def test_the_search_finds_the_cheapest_path() -> None:
    rng = np.random.default_rng(3)
    nccf = rng.uniform(-1, 1, (30, 50)).astype(np.float32)
    lags = np.linspace(0.002, 0.02, 50).astype(np.float32)
    costs, back = np.zeros(50, dtype=np.float32), np.empty((30, 50), dtype=np.int16)
    pitch._search(nccf, lags, 10.0, 3e-3, costs, back, np.empty(50, dtype=np.int64), np.empty(51),
                  np.empty(50, dtype=np.float32))
    expected, square = np.zeros(50), np.square(np.subtract.outer(np.arange(50.0), np.arange(50.0)))
    for row in range(30):
        ways = expected[None] + 3e-3 * square
        chosen = ways[np.arange(50), back[row]]
        np.testing.assert_allclose(chosen, ways.min(axis=1), atol=1e-5)
        expected = ways.min(axis=1) + 1 - nccf[row] + 10.0 * lags * nccf[row]
        expected -= expected.min()
    np.testing.assert_allclose(costs, expected, atol=1e-4)


def test_short_and_odd_sounds() -> None:
    options = PitchOptions()
    for size in (0, 1, 396, 400):
        assert compute_pitch(np.ones(size, dtype=np.float32), RATE, options).shape == (int(size >= 400), 2)
    silent = compute_pitch(np.zeros(8000, dtype=np.float32), RATE, options)
    assert np.isfinite(silent).all() and (silent[:, 0] == 0).all()
    with pytest.raises(NumericError, match="NaN or infinity"):
        compute_pitch(np.full(8000, np.nan, dtype=np.float32), RATE, options)
    with pytest.raises(Nnet3Error, match="8000 samples a second, --sample-frequency is 16000"):
        compute_pitch(np.zeros(8000, dtype=np.float32), 8000.0, options)


@pytest.mark.parametrize("name, value, message", [
    ("min-f0", 500.0, "--min-f0=500 --max-f0=400"), ("soft-min-f0", 60.0, "--soft-min-f0=60: expected at most"),
    ("lowpass-cutoff", 2500.0, "--lowpass-cutoff=2500"), ("delta-pitch", 0.0, "--delta-pitch=0: expected a positive"),
    ("delta-pitch", 1e-5, "more than 32768 pitches"), ("frame-length", 0.1, "--frame-length=0.1"),
    ("nccf-ballast", -1.0, "--nccf-ballast=-1"), ("penalty-factor", float("nan"), "--penalty-factor=nan"),
    ("simulate-first-pass-online", True, "needs --frames-per-chunk"), ("resample-frequency", 4000.5, "whole numbers"),
    ("max-f0", 3000.0, "less than half of --resample-frequency")])
def test_unusable_options(name: str, value: float, message: str) -> None:
    assert name in {setting.name for setting in PITCH_OPTIONS.values()}
    with pytest.raises(UsageError, match=message):
        pitch_options({name: value})
