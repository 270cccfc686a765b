"""Normalization over a sliding window, and weights of two channels; against sums over each window."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.errors import NumericError, UsageError
from nnet3py.feat.special_cmvn import normalize_sliding, weights_of_two_channels


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
    with pytest.raises(NumericError, match="not finite"):
        normalize_sliding(np.array([[1.0], [np.nan]], np.float32))


def test_the_louder_channel_counts():
    first = np.array([[1, 9], [5, 0], [3, 0], [2, 2]], np.float32)
    other = np.array([[2, 0], [4, 9], [3, 9]], np.float32)
    weights = weights_of_two_channels(first, other, 0.25)
    np.testing.assert_array_equal(weights[0], [0.25, 1, 0.25, 1])       # of equal ones, the second counts as louder
    np.testing.assert_array_equal(weights[1], [1, 0.25, 1])
