"""Normalization: online in pieces against the whole utterance, sliding windows against sums over each window."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.feat.cmvn import (
    OnlineNormalizer,
    accumulate_stats,
    empty_stats,
    normalize_sliding,
    weights_of_two_channels,
)
from nnet3py.feat.options import OnlineOptions

RNG = np.random.default_rng(2)
DIM = 5
ROUNDING = 1e-10            # of sums that were added up in another order, relative


def global_stats() -> np.ndarray:
    stats = empty_stats(DIM)
    accumulate_stats(RNG.standard_normal((100, DIM)) + 3.0, stats)
    return stats


OPTIONS = [OnlineOptions(), OnlineOptions(20, 15, 10), OnlineOptions(20, 15, 10, norm_vars=True, skip_dims=[0, 3]),
           OnlineOptions(norm_means=False), OnlineOptions(1, 1, 1)]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("size", [1, 3, 50])
def test_pieces_give_the_same_as_the_whole(options, size):
    stats = global_stats()
    whole, piecewise = OnlineNormalizer(stats, options), OnlineNormalizer(stats, options)
    for length in (70, 40):                 # the second utterance has the first one's statistics
        features = RNG.standard_normal((length, DIM)).astype(np.float32)
        expected = whole(features)
        parts = [piecewise.accept(features[begin:begin + size]) for begin in range(0, length, size)]
        np.testing.assert_array_equal(np.concatenate(parts), expected)
        np.testing.assert_array_equal(piecewise.stats(), whole.speaker_stats)
        piecewise.finish()
        np.testing.assert_array_equal(piecewise.speaker_stats, whole.speaker_stats)


def test_against_sums_over_windows():
    options, stats = OnlineOptions(8, 6, 4, norm_vars=True), global_stats()
    features = RNG.standard_normal((30, DIM)).astype(np.float32)
    found = OnlineNormalizer(stats, options)(features)
    for frame in range(len(features)):
        window = empty_stats(DIM)
        accumulate_stats(features[max(0, frame - 7):frame + 1], window)
        window += stats * (min(4.0, 8 - window[0, -1]) / stats[0, -1])
        mean, second = window[:, :-1] / window[0, -1]
        expected = (features[frame] - mean) / np.sqrt(second - mean ** 2)
        np.testing.assert_allclose(found[frame], expected, rtol=1e-5, atol=1e-6)       # the result is float32


def test_what_is_kept_does_not_grow():
    normalizer = OnlineNormalizer(global_stats(), OnlineOptions(20, 15, 10))
    features = RNG.standard_normal((500, DIM)).astype(np.float32)
    for begin in range(0, 500, 7):
        normalizer.accept(features[begin:begin + 7])
    assert len(normalizer._totals) <= 4 * 21
    expected = empty_stats(DIM)
    accumulate_stats(features, expected)
    np.testing.assert_allclose(normalizer.stats(), expected, rtol=ROUNDING)


def test_another_dimension():
    with pytest.raises(ShapeError, match="dimension 4"):
        OnlineNormalizer(global_stats(), OnlineOptions()).accept(np.zeros((3, 4), dtype=np.float32))


def window_of(t: int, count: int, window: int, least: int, center: bool) -> tuple[int, int]:
    """First frame and end of the window of frame ``t``, moved step by step."""
    if center:
        first, end = t - window // 2, t - window // 2 + window
        while first < 0:
            first, end = first + 1, end + 1
    else:
        first, end = max(0, t - window), max(t + 1, least)
    while end > count:
        first, end = max(0, first - 1), end - 1
    return first, end


@pytest.mark.parametrize("norm_vars", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("count, window, least", [(1, 5, 3), (4, 5, 3), (20, 5, 3), (20, 4, 9), (20, 1, 1),
                                                  (20, 600, 100)])
def test_each_window(count, window, least, center, norm_vars):
    features = np.random.default_rng(count).normal(100, 3, (count, 2)).astype(np.float32)
    expected = np.zeros((count, 2))
    for t in range(count):
        first, end = window_of(t, count, window, least, center)
        part = features[first:end].astype(np.float64)
        expected[t] = features[t] - part.mean(axis=0)
        if norm_vars:
            expected[t] = expected[t] / np.sqrt(np.maximum(part.var(axis=0), 1e-10)) if len(part) > 1 else 0.0
    found = normalize_sliding(features, window, least, center, norm_vars)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_what_cannot_be():
    for window, least in ((0, 1), (1, 0), (-5, 3)):
        with pytest.raises(UsageError, match="windows of 1 frame or more"):
            normalize_sliding(np.ones((3, 2), np.float32), window, least)
    with pytest.raises(NumericError, match="NaN or infinity"):
        normalize_sliding(np.array([[1.0], [np.nan]], np.float32))


def test_the_louder_channel_counts():
    first = np.array([[1, 9], [5, 0], [3, 0], [2, 2]], np.float32)
    other = np.array([[2, 0], [4, 9], [3, 9]], np.float32)
    weights = weights_of_two_channels(first, other, 0.25)
    np.testing.assert_array_equal(weights[0], [0.25, 1, 0.25, 1])       # of equal ones, the second counts as louder
    np.testing.assert_array_equal(weights[1], [1, 0.25, 1])
