"""LDA statistics: their file, their sum."""
from __future__ import annotations

import numpy as np
import pytest
from io_samples import check_survives, reader_of, written
from paths import shared_golden

from nnet3py.errors import FormatError, ShapeError
from nnet3py.formats.lda_stats import LdaStats
from nnet3py.io.object_files import read_object

TEXT = (b"<LDAACCS> <VECSIZE> 2 <NUMCLASSES> 3 <ZERO_ACCS>  [ 2 0 1.5 ]\n<FIRST_ACCS>  [\n  1 2 \n  0 0 \n  -3 0.5 ]\n"
        b"<SECOND_ACCS> [\n5 \n1 7 ]\n</LDAACCS> ")
SUM_TOLERANCE = 1e-10       # float64 sums in another order


def save(stats: LdaStats, binary: bool) -> bytes:
    return written(lambda writer: stats.write(writer), binary=binary)


def sample() -> LdaStats:
    return LdaStats.read(reader_of(TEXT, False))


def stats_of(vectors: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> LdaStats:
    """By the definition."""
    stats = LdaStats.zeros(classes.max() + 1, vectors.shape[1])
    np.add.at(stats.counts, classes, weights)
    np.add.at(stats.sums, classes, weights[:, None] * vectors)
    means = stats.sums / np.where(stats.counts, stats.counts, 1.0)[:, None]
    rest = vectors - means[classes]
    stats.scatter = (rest.T @ (weights[:, None] * rest))[np.tril_indices(vectors.shape[1])]
    return stats


def test_both_forms() -> None:
    stats = sample()
    assert (stats.num_classes, stats.dim) == (3, 2)
    assert stats.counts.tolist() == [2, 0, 1.5]
    assert stats.scatter.tolist() == [5, 1, 7]
    assert save(stats, False) == TEXT
    data = save(stats, True)
    assert data.startswith(b"<LDAACCS> <VECSIZE> \4\2\0\0\0<NUMCLASSES> \4\3\0\0\0<ZERO_ACCS> FV \4\3\0\0\0")
    assert save(LdaStats.read(reader_of(data, True)), True) == data


def test_a_file_and_a_sum_of_kaldis() -> None:
    folder = shared_golden() / "tools" / "acc-lda-stats"
    one = read_object(str(folder / "lda.acc"), LdaStats.read)
    assert b"\0B" + save(one, True) == (folder / "lda.acc").read_bytes()
    total = LdaStats.zeros(one.num_classes, one.dim)
    total.add(one)
    total.add(one)
    assert b"\0B" + save(total, True) == (folder / "lda2.acc").read_bytes()


def test_a_sum_is_that_of_all_vectors() -> None:
    rng = np.random.default_rng(0)
    vectors, classes, weights = rng.normal(size=(40, 5)), rng.integers(0, 4, 40), rng.uniform(0.5, 1.0, 40)
    classes[-1] = 3
    everything = stats_of(vectors, classes, weights)
    stats = LdaStats.zeros(4, 5)
    for part in (np.arange(0, 15), np.arange(15, 40)):
        stats.add(_padded(vectors[part], classes[part], weights[part]))
    np.testing.assert_allclose(stats.scatter, everything.scatter, atol=SUM_TOLERANCE)
    np.testing.assert_allclose(stats.counts, everything.counts, rtol=SUM_TOLERANCE)
    np.testing.assert_allclose(stats.sums, everything.sums, atol=SUM_TOLERANCE)


def _padded(vectors: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> LdaStats:
    """The statistics, with a vector of weight 0 in the last class."""
    return stats_of(np.vstack([vectors, np.zeros((1, 5))]), np.append(classes, 3), np.append(weights, 0.0))


def test_other_sizes_cannot_be_added() -> None:
    with pytest.raises(ShapeError, match="3 classes"):
        sample().add(LdaStats.zeros(3, 4))


def test_the_order_of_the_first_two_is_free() -> None:
    parts = TEXT.split(b"<")
    zero = next(i for i, part in enumerate(parts) if part.startswith(b"ZERO"))
    parts[zero], parts[zero + 1] = parts[zero + 1], parts[zero]
    assert save(LdaStats.read(reader_of(b"<".join(parts), False)), False) == TEXT


@pytest.mark.parametrize("old, new, message", [
    (b"<VECSIZE> 2", b"<VECSIZE> 0", "dimension 0"), (b"<VECSIZE> 2", b"<VECSIZE> 3", "numbers after"),
    (b"<NUMCLASSES> 3", b"<NUMCLASSES> 2000000000", "numbers after"), (b"<ZERO_ACCS>", b"<SECOND_ACCS>", "each once"),
    (b"<FIRST_ACCS>", b"<ZERO_ACCS>", "each once"), (b"<SECOND_ACCS> [\n5 \n1 7 ]\n", b"", "lack <SECOND_ACCS>")])
def test_wrong_files_are_refused(old: bytes, new: bytes, message: str) -> None:
    assert old in TEXT
    with pytest.raises(FormatError, match=message):
        LdaStats.read(reader_of(TEXT.replace(old, new, 1), False))


@pytest.mark.parametrize("binary", [True, False])
def test_damaged_files_are_refused(binary: bool) -> None:
    check_survives(LdaStats.read, save(sample(), binary), binary)
