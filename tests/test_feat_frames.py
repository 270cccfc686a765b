"""Edits of feature matrices: defaults as Kaldi's programs have them, shifted deltas, voice activity."""
from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import DATA

from nnet3py import feat
from nnet3py.errors import UsageError
from nnet3py.feat.frames import add_shifted_deltas, voiced_frames
from nnet3py.feat.options import VadOptions
from nnet3py.formats.foreign_files import HTK_MATRIX
from nnet3py.io.tokens import TokenReader

RNG = np.random.default_rng(4)
FEATS = RNG.standard_normal((30, 4)).astype(np.float32) + 3


def test_normalize_takes_the_statistics_of_the_features() -> None:
    np.testing.assert_allclose(feat.normalize(FEATS).mean(axis=0), 0, atol=1e-6)
    normalized = feat.normalize(FEATS, norm_vars=True)
    np.testing.assert_allclose(normalized.std(axis=0), 1, rtol=1e-5)
    stats = feat.empty_stats(4)
    feat.accumulate_stats(FEATS, stats)
    np.testing.assert_array_equal(normalized, feat.normalize(FEATS, stats, norm_vars=True))


def test_deltas_are_of_second_order_over_two_frames() -> None:
    deltas = feat.add_deltas(FEATS)
    assert deltas.shape == (30, 12)
    np.testing.assert_array_equal(deltas, feat.add_deltas(FEATS, feat.delta_filters(2, 2)))
    ramp = feat.add_deltas(np.arange(20, dtype=np.float32)[:, None])[6:-6]
    np.testing.assert_allclose(ramp[:, 1:], np.tile([1, 0], (8, 1)), atol=1e-6)


def test_frames_are_spliced_with_four_on_each_side() -> None:
    np.testing.assert_array_equal(feat.splice(FEATS), feat.splice(FEATS, 4, 4))
    assert feat.splice(FEATS).shape == (30, 36)


def test_pitch_has_the_rate_of_the_sound() -> None:
    sound = (3000 * np.sin(2 * np.pi * 150 * np.arange(8000) / 8000)).astype(np.float32)
    found = feat.compute_pitch(sound, 8000)
    options = feat.pitch_options({"sample-frequency": 8000})
    np.testing.assert_array_equal(found, feat.compute_pitch(sound, 8000, options))
    assert abs(np.median(found[:, 1]) - 150) < 2


def test_voiced_frames_are_loud() -> None:
    frames = np.array([[2.0], [12.0], [12.0]], np.float32)
    assert feat.voiced_frames(frames).tolist() == [0, 1, 1]


FOLDER = DATA / "features" / "tools"
FLOAT = 1e-5


def slow(features: np.ndarray, window: int, shift: int, blocks: int) -> np.ndarray:
    count = len(features)

    def frame(t: int) -> np.ndarray:
        return features[min(max(t, 0), count - 1)].astype(np.float64)

    norm = sum(d * d for d in range(-window, window + 1))
    rows = []
    for t in range(count):
        row = [frame(t)]
        for block in range(blocks):
            slopes = [d * frame(t + block * shift + d) for d in range(-window, window + 1)]
            row.append(np.sum(slopes, axis=0) / norm)
        rows.append(np.concatenate(row))
    return np.array(rows)


@pytest.mark.parametrize("count", [1, 2, 5, 30])
@pytest.mark.parametrize("window, shift, blocks", [(1, 3, 7), (2, 2, 4), (3, 1, 1), (1, 9, 2)])
def test_sums(count, window, shift, blocks):
    features = np.random.default_rng(count).normal(0, 1, (count, 4)).astype(np.float32)
    found = add_shifted_deltas(features, window, shift, blocks)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, slow(features, window, shift, blocks), rtol=FLOAT, atol=FLOAT)


@pytest.mark.parametrize("name, numbers", [("sdc", (1, 3, 7)), ("sdc_2_2_4", (2, 2, 4))])
def test_agrees_with_kaldi(name, numbers):
    features = HTK_MATRIX.read(TokenReader(io.BytesIO((FOLDER / "silence.fea").read_bytes())))
    np.testing.assert_allclose(add_shifted_deltas(features, *numbers)[[0, 28, 57]], np.load(FOLDER / "kaldi.npz")[name],
                               rtol=FLOAT, atol=FLOAT)


@pytest.mark.parametrize("numbers", [(0, 3, 7), (1, 0, 7), (1, 3, 0), (1, 3, -1), (1000, 3, 7), (1, 1000, 7)])
def test_numbers_that_cannot_be(numbers):
    with pytest.raises(UsageError, match="expected a"):
        add_shifted_deltas(np.ones((3, 2), np.float32), *numbers)


def test_infinite_features_stay_so():
    found = add_shifted_deltas(np.array([[1.0], [np.inf], [np.nan]], np.float32))
    assert found.shape == (3, 8) and np.isnan(found[2, 0])


def slow_voiced(energy: list[float], options: VadOptions) -> list[float]:
    threshold = options.energy_threshold + options.energy_mean_scale * sum(energy) / len(energy)
    result = []
    for frame in range(len(energy)):
        around = energy[max(0, frame - options.frames_context):frame + options.frames_context + 1]
        loud = sum(one > threshold for one in around)
        result.append(float(loud >= len(around) * np.float32(options.proportion_threshold)))
    return result


@settings(max_examples=60, deadline=None)
@given(energy=st.lists(st.sampled_from([0.0, 4.0, 8.0, 12.0, 16.0]), min_size=1, max_size=30),
       context=st.integers(0, 4), proportion=st.sampled_from([0.12, 0.4, 0.6, 0.9]))
def test_against_slow_twin(energy: list[float], context: int, proportion: float) -> None:
    options = VadOptions(4.9, 0.45, context, proportion)
    features = np.array([[one, 7.0] for one in energy], dtype=np.float32)
    assert voiced_frames(features, options).tolist() == slow_voiced(energy, options)


@pytest.mark.parametrize("scale", [0.0, 0.5])
def test_no_frames(scale: float) -> None:
    assert voiced_frames(np.zeros((0, 2), dtype=np.float32), VadOptions(energy_mean_scale=scale)).shape == (0,)
