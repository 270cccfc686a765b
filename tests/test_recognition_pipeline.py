"""The network's input of sound as it arrives: as Kaldi's online2-wav-dump-features; features of pieces."""
from __future__ import annotations

import dataclasses
from itertools import islice

import numpy as np
import pytest
from online_cases import KEYS, ONLINE, RATE, SPEECH, base_features, ivector_models, pieces, pipeline_models, sound

from nnet3py.errors import Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.feat.cmvn import OnlineNormalizer
from nnet3py.feat.options import OnlineOptions
from nnet3py.feat.pitch import compute_pitch, pitch_options
from nnet3py.feat.process_pitch import process_pitch, process_pitch_options
from nnet3py.feat.sound import Resampler
from nnet3py.feat.speech import SpeechFeatures, SpeechOptions
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import SequentialReader
from nnet3py.recognition.pipeline import FeaturePipeline, FeatureStream, PipelineModels, PitchSettings

KALDI = 1e-4            # of the largest value: features and posteriors are single precision


def rows(pipeline: FeaturePipeline, key: str, size: int) -> np.ndarray:
    """Input and i-vector of each frame, taken as they are ready, and forgotten."""
    found, done = [], 0
    for piece in [*pieces(sound(key), size), None]:
        if piece is None:
            pipeline.finish()
        else:
            pipeline.accept_waveform(piece, RATE)
        ready = pipeline.num_ivectors_ready
        found += [np.concatenate((pipeline.frames(frame, frame + 1)[0], pipeline.ivector(frame)))
                  for frame in range(done, ready)]
        done = ready
        pipeline.forget(done)
    return np.array(found)


@pytest.mark.parametrize(("size", "count"), [(800, 3), (10 ** 6, 1)])
def test_kaldis_features_and_ivectors(size, count):
    state = None
    with SequentialReader(f"ark:{ONLINE / 'features.ark'}", FLOAT_MATRIX) as expected:
        for key, matrix in islice(expected, count):
            pipeline = FeaturePipeline(pipeline_models(), state)
            found = rows(pipeline, key, size)
            assert found.shape == matrix.shape == (len(matrix), 52)
            for columns in (slice(0, 40), slice(40, 52)):
                largest = np.abs(matrix[:, columns]).max()
                np.testing.assert_allclose(found[:, columns], matrix[:, columns], atol=KALDI * largest)
            state = pipeline.adaptation_state()
    assert key == KEYS[count - 1]


def normalized_models() -> PipelineModels:
    return PipelineModels(SPEECH, cmvn=OnlineOptions(norm_vars=True), global_stats=ivector_models().global_stats)


def test_normalized_input():
    models, state = normalized_models(), None
    normalizer = OnlineNormalizer(models.global_stats, models.cmvn)
    for key in ("utt1", "utt2"):
        pipeline = FeaturePipeline(models, state)
        for piece in pieces(sound(key), 1000):
            pipeline.accept_waveform(piece, RATE)
        pipeline.finish()
        expected = normalizer(base_features(key))
        np.testing.assert_array_equal(pipeline.frames(0, pipeline.num_frames_ready), expected)
        state = pipeline.adaptation_state()
        assert state.ivectors is None
        np.testing.assert_array_equal(state.cmvn, normalizer.speaker_stats)
    with pytest.raises(UsageError, match="no i-vectors"):
        pipeline.ivector(0)


def test_no_frames_yet():
    pipeline = FeaturePipeline(pipeline_models())
    assert pipeline.num_frames_ready == pipeline.num_ivectors_ready == 0
    np.testing.assert_array_equal(pipeline.ivector(-1), np.zeros(12))
    pipeline.finish()
    pipeline.finish()
    assert pipeline.is_finished and pipeline.num_frames_ready == 0


def test_parts_that_do_not_fit():
    with pytest.raises(UsageError, match="--global-cmvn-stats"):
        PipelineModels(SPEECH, cmvn=OnlineOptions()).check()
    with pytest.raises(ShapeError, match="dimension 40, the statistics for normalizing the network's input 39"):
        PipelineModels(SPEECH, cmvn=OnlineOptions(), global_stats=np.ones((2, 40))).check()
    pipeline_models().check()
    normalized_models().check()


def test_dimensions():
    models = pipeline_models()
    assert (models.input_dim, models.ivector_dim, models.frame_shift) == (40, 12, pytest.approx(0.01))
    assert normalized_models().ivector_dim == 0 and not normalized_models().weights_silence


PITCH = PitchSettings(pitch_options({}), process_pitch_options({"delta-pitch-noise-stddev": 0.0,
                                                                "normalization-right-context": 10}))


def test_pitch_is_appended_and_i_vectors_do_not_see_it() -> None:
    models = pipeline_models()
    with_pitch = dataclasses.replace(models, pitch=PITCH)
    with_pitch.check()
    assert with_pitch.input_dim == models.input_dim + 3
    plain, both = FeaturePipeline(models), FeaturePipeline(with_pitch)
    lags = []
    for piece in pieces(sound("utt2"), 1600):
        for pipeline in (plain, both):
            pipeline.accept_waveform(piece, RATE)
        lags.append(plain.num_frames_ready - both.num_frames_ready)
        assert both.frames(0, both.num_frames_ready).shape[1] == with_pitch.input_dim
    for pipeline in (plain, both):
        pipeline.finish()
    assert max(lags) >= 10                                    # pitch waits for its context
    count = both.num_frames_ready
    np.testing.assert_array_equal(both.frames(0, count)[:, :40], plain.frames(0, count))
    np.testing.assert_array_equal(both.ivector(count - 1), plain.ivector(count - 1))
    raw = compute_pitch(sound("utt2"), float(RATE), PITCH.pitch)
    expected = process_pitch(raw, PITCH.process)[:count]
    # At the end all is known; how loud the sound is was judged piece by piece, which moves a few frames.
    near = np.abs(both.frames(0, count)[:, 40:] - expected) <= 0.02 * np.abs(expected).max(axis=0)
    assert abs(count - len(raw)) <= 2 and (near.mean(axis=0) > 0.9).all()
    np.testing.assert_array_equal(both.frames_at(np.array([3, 8])), both.frames(3, 9)[[0, 5]])


def test_pitch_of_another_rate_is_refused() -> None:
    settings = dataclasses.replace(PITCH, pitch=pitch_options({"sample-frequency": 8000.0}))
    with pytest.raises(UsageError, match="pitch is found in sound of 8000 samples a second"):
        dataclasses.replace(pipeline_models(), pitch=settings).check()


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
