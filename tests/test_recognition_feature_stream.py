"""Features of sound that arrives in pieces: those of the whole."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from online_cases import RATE, SPEECH, base_features, pieces, sound

from nnet3py.errors import Nnet3Error, NumericError, ShapeError
from nnet3py.feat.sound import Resampler
from nnet3py.feat.speech import SpeechFeatures, SpeechOptions
from nnet3py.recognition.pipeline import FeatureStream

FBANK = SpeechOptions("fbank", {"dither": 0.0, "snip_edges": False}, {"num_bins": 20})


def streamed(options: SpeechOptions, samples: np.ndarray, size: int, rate: float = RATE) -> np.ndarray:
    stream = FeatureStream(options)
    parts = [stream.accept(piece, rate) for piece in pieces(samples, size)]
    return np.concatenate([*parts, stream.finish()])


@pytest.mark.parametrize("size", [37, 160, 1600, 10 ** 6])
def test_pieces_give_the_same_as_the_whole(size):
    np.testing.assert_array_equal(streamed(SPEECH, sound("utt2"), size), base_features("utt2"))


@pytest.mark.parametrize("size", [160, 5000])
def test_frames_over_the_edges(size):
    expected = SpeechFeatures(FBANK).compute(sound("utt2"), RATE)
    np.testing.assert_array_equal(streamed(FBANK, sound("utt2"), size), expected)


@pytest.mark.parametrize("size", [80, 10 ** 6])
@pytest.mark.parametrize("rate", [8000, 44100])
def test_resampled(size, rate):
    options = dataclasses.replace(SPEECH, allow_downsample=True, allow_upsample=True)
    samples = sound("utt2")[:12000]
    resampler = Resampler(rate, RATE)
    at_once = np.concatenate((resampler.accept(samples), resampler.finish()))
    expected = SpeechFeatures(options).compute(at_once, RATE)
    np.testing.assert_array_equal(streamed(options, samples, size, rate), expected)


def test_frames_come_as_soon_as_they_can():
    stream, window, shift = FeatureStream(SPEECH), 400, 160
    samples, given, count = sound("utt1"), 0, 0
    for piece in pieces(samples, 100)[:60]:
        given += len(piece)
        count += len(stream.accept(piece, RATE))
        assert count == max(0, 1 + (given - window) // shift)


def test_shorter_than_a_window():
    stream = FeatureStream(SPEECH)
    assert stream.accept(np.zeros(399, dtype=np.float32), RATE).shape == (0, 40)
    assert stream.finish().shape == stream.finish().shape == (0, 40)


def test_what_cannot_be():
    with pytest.raises(Nnet3Error, match="--allow-downsample"):
        FeatureStream(SPEECH).accept(np.zeros(100), 22050)
    with pytest.raises(Nnet3Error, match="sampling rate above 0"):
        FeatureStream(SPEECH).accept(np.zeros(100), 0)
    with pytest.raises(ShapeError, match="one channel"):
        FeatureStream(SPEECH).accept(np.zeros((2, 100)), RATE)
    with pytest.raises(NumericError, match="NaN or infinity"):
        FeatureStream(SPEECH).accept(np.array([0.0, np.nan]), RATE)
    stream = FeatureStream(SPEECH)
    stream.accept(np.zeros(100), RATE)
    with pytest.raises(Nnet3Error, match="changed from 16000 to 8000"):
        stream.accept(np.zeros(100), 8000)
    stream.finish()
    with pytest.raises(Nnet3Error, match="finished"):
        stream.accept(np.zeros(100), RATE)
