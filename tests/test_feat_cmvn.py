"""Online normalization in pieces: the same as of the whole utterance."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.errors import ShapeError
from nnet3py.feat.cmvn import OnlineNormalizer, accumulate_stats, empty_stats
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
