"""The transform in single precision against numpy's, and its rounding against Kaldi's, where little else is left."""
from __future__ import annotations

import feature_cases as cases
import numpy as np
import pytest

from nnet3py.feat.speech import SpeechFeatures, speech_options
from nnet3py.feat.split_radix import is_power_of_two, real_transform

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
