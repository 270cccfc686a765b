"""nnet3py/training/lda_stats.py: LDA statistics of classified vectors."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.errors import NumericError, ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix
from nnet3py.training.lda_stats import LdaAccumulator

ROWS, CLASSES, DIM = 50, 4, 3
DOUBLE = 1e-10


def data(seed: int = 0) -> tuple[np.ndarray, SparseMatrix]:
    """Vectors, and for each one or two classes; class 3 never occurs."""
    rng = np.random.default_rng(seed)
    rows = [[(int(c), float(w)) for c, w in zip(rng.choice(3, k, replace=False), rng.random(k), strict=True)]
            for k in rng.integers(0, 3, ROWS)]
    return rng.standard_normal((ROWS, DIM), dtype=np.float32), SparseMatrix.from_rows(rows, CLASSES)


def within_scatter(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The sum over classes of the weighted scatter around the class's mean."""
    total = np.zeros((DIM, DIM))
    for w in weights.T.astype(np.float64):
        if w.sum():
            mean = w @ vectors / w.sum()
            total += (vectors - mean).T @ (w[:, None] * (vectors - mean))
    return total[np.tril_indices(DIM)]


@pytest.mark.parametrize("form", [lambda m: m, lambda m: m.to_dense()])
def test_statistics(form):
    accumulator, vectors, weights = LdaAccumulator(), [], []
    for seed in range(3):
        x, supervision = data(seed)
        accumulator.add(x, form(supervision))
        vectors.append(x.astype(np.float64))
        weights.append(supervision.to_dense().astype(np.float64))
    x, w = np.vstack(vectors), np.vstack(weights)
    stats = accumulator.stats()
    np.testing.assert_allclose(stats.counts, w.sum(axis=0), atol=DOUBLE)
    np.testing.assert_allclose(stats.sums, w.T @ x, atol=DOUBLE)
    np.testing.assert_allclose(stats.scatter, within_scatter(x, w), atol=DOUBLE * ROWS)
    assert stats.counts[3] == 0.0 and accumulator.count == pytest.approx(w.sum())


def test_compressed_supervision():
    accumulator, x = LdaAccumulator(), data()[0]
    classes = np.eye(CLASSES, dtype=np.float32)[np.arange(ROWS) % CLASSES]
    accumulator.add(x, CompressedMatrix.compress(classes))
    assert accumulator.stats().counts.tolist() == pytest.approx([13, 13, 12, 12])


def test_pruning_keeps_the_expectation():
    x = np.ones((20000, 1), dtype=np.float32)
    supervision = SparseMatrix.from_rows([[(0, 1.0), (1, 0.25), (2, 5.0)]] * len(x), 3)
    accumulator = LdaAccumulator(rand_prune=4.0)
    accumulator.add(x, supervision)
    counts = accumulator.stats().counts
    assert counts[2] == 5.0 * len(x)                      # above the threshold
    assert counts[0] % 4.0 == 0.0 and counts[1] % 4.0 == 0.0
    # The standard deviations are 4 sqrt(20000 p (1 - p)), with p of 1/4 and 1/16; five of them.
    assert abs(counts[0] - 20000) < 5 * 245 and abs(counts[1] - 5000) < 5 * 137


def test_what_cannot_be_used():
    x, supervision = data()
    accumulator = LdaAccumulator()
    with pytest.raises(NumericError, match="Accumulated no stats"):
        accumulator.stats()
    accumulator.add(x, SparseMatrix.from_rows([[]] * ROWS, CLASSES))
    with pytest.raises(NumericError, match="Accumulated no stats"):
        accumulator.stats()
    with pytest.raises(ShapeError, match="50 rows for 49"):
        accumulator.add(x[1:], supervision)
    with pytest.raises(ShapeError, match="classes and outputs of dimension"):
        accumulator.add(x[:, :2], supervision)
    with pytest.raises(NumericError, match="the network's output"):
        accumulator.add(x * np.float32(np.nan), supervision)
