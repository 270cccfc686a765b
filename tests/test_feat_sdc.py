"""Shifted delta cepstra: against plain sums, and against Kaldi's results."""
from __future__ import annotations

import io

import numpy as np
import pytest
from paths import DATA

from nnet3py.errors import UsageError
from nnet3py.feat.sdc import add_shifted_deltas
from nnet3py.formats.foreign_files import HTK_MATRIX
from nnet3py.io.tokens import TokenReader

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
