"""Windows in pieces against the whole sound, mel filters, Kaldi's Fourier transform."""
from __future__ import annotations

import feature_cases as cases
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.errors import UsageError
from nnet3py.feat.spectra import FrameOptions, FrameWindows, MelBanks, Warp, is_power_of_two, real_transform
from nnet3py.feat.speech import SpeechFeatures, speech_options


def options(snip_edges: bool, length: float = 25.0, shift: float = 10.0) -> FrameOptions:
    return FrameOptions(1000.0, length, shift, 0.0, 0.97, True, "povey", True, 0.42, snip_edges)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 130), st.lists(st.integers(0, 60), max_size=6), st.booleans(),
       st.sampled_from([(25.0, 10.0), (8.0, 15.0), (20.0, 5.0)]))
def test_pieces(size: int, cuts: list[int], snip_edges: bool, lengths: tuple[float, float]) -> None:
    how = options(snip_edges, *lengths)
    samples = np.arange(size, dtype=np.float32) + 1
    count = how.num_frames(size, True)
    expected = np.zeros((count, how.size), dtype=np.float32)
    for row in range(count):
        for column in range(how.size):
            place = how.first_sample(row) + column
            while not 0 <= place < size:                                  # mirrored at both ends
                place = -place - 1 if place < 0 else 2 * size - 1 - place
            expected[row, column] = samples[place]
    windows, parts = FrameWindows(how), []
    for begin, end in zip([0, *np.cumsum(cuts)], [*np.cumsum(cuts), size], strict=True):
        windows.accept(samples[begin:max(begin, end)])
        parts.append(windows.take(1000))
    parts.append(windows.take(1000, True))
    np.testing.assert_array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("kind", ["mfcc", "fbank", "plp", "spectrogram"])
@pytest.mark.parametrize("snip_edges", [True, False])
def test_feat_do_not_depend_on_pieces(kind: str, snip_edges: bool) -> None:
    """With dither, too: the noise of a window is the same however the sound comes."""
    computer = SpeechFeatures(speech_options(kind, {"snip-edges": snip_edges}))
    samples = (1000 * np.random.default_rng(1).standard_normal(12345)).astype(np.float32)
    whole = computer.compute(samples, 16000)
    for step in (100, 160, 1601):
        stream = computer.begin()
        parts = []
        for begin in range(0, len(samples), step):
            stream.accept(samples[begin:begin + step])
            parts.append(stream.take())
        np.testing.assert_array_equal(np.concatenate([*parts, stream.finish()]), whole)


def test_kaldis() -> None:
    plp = SpeechFeatures(speech_options("plp", {"dither": 0.0}))
    cases.assert_near(plp.compute(*cases.sound(), warp=cases.WARP), cases.kaldis("plp-vtln"))
    options = {"dither": 0.0, "num-mel-bins": 40, "vtln-low": 80.0, "vtln-high": -400.0}
    fbank = SpeechFeatures(speech_options("fbank", options), warp=cases.WARP)
    cases.assert_near(fbank.compute(*cases.sound()), cases.kaldis("fbank-vtln"))


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.25])
def test_the_map_is_continuous_and_ends_where_it_began(factor: float) -> None:
    frequencies = np.linspace(0, 8000, 8001)
    found = Warp(factor).apply(frequencies, 20.0, 7800.0, 8000.0)
    assert (np.diff(found) > 0).all() and np.diff(found).max() < 8
    assert found[20] == pytest.approx(20) and found[7800] == pytest.approx(7800) and found[7900] == 7900
    assert found[1000] == pytest.approx(1000 / factor)


@pytest.mark.parametrize("warp, message", [
    (Warp(1.1, 10.0), "--vtln-low=10 .*expected two frequencies within"), (Warp(1.1, 100.0, 200.0), None),
    (Warp(1.1, 300.0, 200.0), "--vtln-high=200"), (Warp(100.0), "the warp factor 100 is too far from 1"),
    (Warp(-1.0), "warp factor, found -1"), (Warp(float("nan")), "warp factor, found nan")])
def test_unusable_warps(warp: Warp, message: str | None) -> None:
    if message is None:
        assert len(MelBanks(10, 20.0, 0.0, 16000.0, 512, warp).centers) == 10
        return
    with pytest.raises(UsageError, match=message):
        MelBanks(10, 20.0, 0.0, 16000.0, 512, warp)


def test_energies_are_sums_over_triangles() -> None:
    banks = MelBanks(12, 50.0, 3500.0, 8000.0, 256, Warp())
    spectrum = np.random.default_rng(0).uniform(0, 1, (5, 128)).astype(np.float32)
    edges = 700 * np.expm1(np.linspace(*(1127 * np.log1p(np.array([50.0, 3500.0]) / 700)), 14) / 1127)
    np.testing.assert_allclose(banks.centers, edges[1:-1])
    mels = [1127 * np.log1p(each / 700) for each in (edges, np.arange(128) * 8000 / 256)]
    for number in range(12):
        left, center, right = mels[0][number:number + 3]
        weights = np.clip(np.minimum((mels[1] - left) / (center - left), (right - mels[1]) / (right - center)), 0, None)
        np.testing.assert_allclose(banks.energies(spectrum)[:, number], spectrum @ weights, rtol=1e-5)


SINGLE = 3e-7             # of the root of the sum of squares, and of the number of stages


@pytest.mark.parametrize("size", [4, 8, 16, 64, 512, 2048])
def test_it_is_the_fourier_transform(size: int) -> None:
    rows = np.random.default_rng(size).standard_normal((5, size - 1)).astype(np.float32)
    expected = np.fft.rfft(rows.astype(np.float64), size)
    real, imaginary = real_transform(rows, size)
    assert real.dtype == imaginary.dtype == np.float32 and real.shape == (5, size // 2 + 1)
    error = np.abs(real + 1j * imaginary - expected).max()
    assert error < SINGLE * np.log2(size) * np.sqrt(np.square(rows).sum(axis=1).max() * size)
    np.testing.assert_array_equal(real_transform(rows[2:3], size)[0], real[2:3])


def test_lengths() -> None:
    assert [size for size in range(40) if is_power_of_two(size)] == [4, 8, 16, 32]


def test_kaldis_spectrogram_is_the_same() -> None:
    """Down to the floor, where a transform that rounds otherwise is off by a thousand times as much."""
    computer = SpeechFeatures(speech_options("spectrogram", {"dither": 0.0}))
    expected = cases.kaldis("spectrogram")
    found = computer.compute(*cases.sound())[:len(expected)]
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()
