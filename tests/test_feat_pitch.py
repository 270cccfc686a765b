"""Pitch against Kaldi's, in pieces against the whole, and the search against one that tries everything."""
from __future__ import annotations

import time
import tracemalloc

import feature_cases as cases
import numpy as np
import pytest

from nnet3py.errors import Nnet3Error, NumericError, UsageError
from nnet3py.feat import pitch
from nnet3py.feat.pitch import PitchStream, RowQueue, compute_pitch, pitch_options
from nnet3py.feat.pitch_options import PitchOptions
from nnet3py.option_fields import settings_of

AGREE = 0.99              # of the frames: ties are decided by rounding
NEAR = 1e-3               # of the largest value
RATE = 16000.0
BLOCK = 1600              # samples


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


def quiet(seconds: float, rms: float) -> np.ndarray:
    return (rms * np.random.default_rng(1).standard_normal(int(seconds * RATE))).astype(np.float32)


def test_what_is_asked_of_open_frames_is_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """In and after pauses, in which frames stay open, whatever was asked before."""
    samples = np.concatenate((voiced(1, 110), quiet(4, 0), voiced(1, 90), quiet(4, 1), voiced(1, 200), quiet(4, 20)))
    some, kept = PitchStream(PitchOptions()), PitchStream(PitchOptions())
    monkeypatch.setattr(kept, "_settle", lambda: None)
    rng = np.random.default_rng(0)
    for begin in range(0, len(samples), BLOCK):
        for stream in (some, kept):
            stream.accept(samples[begin:begin + BLOCK])
        expected = kept.frames(0, kept.num_ready)
        assert len(expected) == kept.num_ready == some.num_ready
        for first in rng.integers(0, len(expected) + 1, 3):
            end = rng.integers(first, len(expected) + 1)
            np.testing.assert_array_equal(some.frames(first, end), expected[first:end])
    assert 300 < len(some._back) < 500                         # the last pause
    some.finish()
    kept.finish()
    np.testing.assert_array_equal(some.frames(0, some.num_ready), kept.frames(0, kept.num_ready))


def long_silence(rms: float) -> tuple[PitchStream, np.ndarray]:
    """A stream, and a sound in which its frames stay open: nothing but 0, or noise after what was much louder."""
    stream = PitchStream(PitchOptions())
    for number in range(100 if rms else 0):
        stream.accept(voiced(0.1, 100 + number))
    return stream, quiet(150, rms)


@pytest.mark.parametrize("rms", [0.0, 30.0])
def test_work_does_not_grow_in_silence(rms: float) -> None:
    """Median times of blocks in the first and the last ten seconds.

    When each block had to do with all open frames, they grew by a factor of 30.
    """
    stream, silence = long_silence(rms)
    times = []
    for begin in range(0, len(silence), BLOCK):
        start = time.perf_counter()
        stream.accept(silence[begin:begin + BLOCK])
        stream.frames(max(0, stream.num_ready - 150), stream.num_ready)
        times.append(time.perf_counter() - start)
    assert len(stream._back) > 14000
    assert np.median(times[-100:]) < 4 * np.median(times[:100])


@pytest.mark.parametrize("rms, size", [(0.0, 50), (30.0, 1800)])
def test_memory_in_silence(rms: float, size: int) -> None:
    """At most so many bytes for an open frame, with the room for more; and as little as before, once sound followed."""
    compute_pitch(voiced(1, 100), RATE, PitchOptions())         # loads what is loaded once
    tracemalloc.start()
    try:
        stream, silence = long_silence(rms)
        before = tracemalloc.get_traced_memory()[0]
        for begin in range(0, len(silence), 10 * BLOCK):
            stream.accept(silence[begin:begin + 10 * BLOCK])
        assert len(stream._back) > 14000
        assert tracemalloc.get_traced_memory()[0] - before < size * len(stream._back)
        for number in range(30):
            stream.accept(voiced(0.1, 150 + number))
        assert len(stream._back) < 500
        assert tracemalloc.get_traced_memory()[0] - before < 3e6
    finally:
        tracemalloc.stop()


def test_rows_come_and_go() -> None:
    rows, expected, rng = RowQueue((2,), np.float32), np.zeros((0, 2), dtype=np.float32), np.random.default_rng(0)
    for most_new, most_gone in ((100, 50), (50, 100), (1000, 10), (0, 1000)):
        for _ in range(40):
            new = rng.standard_normal((rng.integers(most_new + 1), 2)).astype(np.float32)
            rows.append(new)
            expected, before = np.concatenate((expected, new)), rows.array
            np.testing.assert_array_equal(before, expected)
            gone = min(int(rng.integers(most_gone + 1)), len(rows))
            rows.drop(gone)
            np.testing.assert_array_equal(rows.array, expected[gone:])
            np.testing.assert_array_equal(before, expected)
            expected = expected[gone:]
            assert rows.nbytes <= 8 * max(3 * len(rows), 64)


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
    ("lowpass-cutoff", 2500.0, "--lowpass-cutoff=2500"), ("delta-pitch", 0.0, "--delta-pitch=0: expected above 0"),
    ("delta-pitch", 1e-5, "more than 32768 states"), ("frame-length", 0.1, "--frame-length=0.1"),
    ("simulate-first-pass-online", True, "needs --frames-per-chunk"), ("resample-frequency", 4000.5, "whole numbers"),
    ("max-f0", 3000.0, "less than half of --resample-frequency")])
def test_unusable_options(name: str, value: float, message: str) -> None:
    assert name in {setting.name for setting in settings_of(PitchOptions)}
    with pytest.raises(UsageError, match=message):
        pitch_options({name: value})
