"""Functions of features without options do what Kaldi's programs do without options."""
from __future__ import annotations

import numpy as np

from nnet3py import feat

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
