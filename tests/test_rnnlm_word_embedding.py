"""Files of word features; vectors of words, of features or from a matrix; sums over all words."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rnnlm_cases import DIM, NUM_WORDS, RNNLM_DATA, embedding

from nnet3py.errors import FormatError, NumericError, ShapeError
from nnet3py.formats.holders import read_matrix_file
from nnet3py.rnnlm import word_embedding
from nnet3py.rnnlm.word_embedding import WordEmbedding, read_word_features

ROUNDING = 1.0e-6


def test_kaldis_file() -> None:
    features = read_word_features(RNNLM_DATA / "word_feats.txt", 30)
    assert features.shape == (NUM_WORDS, 30)
    dense = np.zeros((NUM_WORDS, 30), np.float32)
    for line in (RNNLM_DATA / "word_feats.txt").read_text().splitlines():
        word, *pairs = line.split()
        for feature, value in zip(pairs[::2], pairs[1::2], strict=True):
            dense[int(word), int(feature)] = float(value)
    np.testing.assert_array_equal(features.to_dense(), dense)
    assert not dense[0].any() and read_word_features(RNNLM_DATA / "word_feats.txt").num_cols == 30


@pytest.mark.parametrize(("lines", "message"), [
    (["0\t", "2\t1 1"], "line 2 .*begin with the number of the word, 1"),
    (["0\t", "1\t1 1 3"], "line 2 .*the last feature has no value"),
    (["0\t", "1\t1 1 30 1"], "line 2 .*expected a feature from 0 to 29, found 30"),
    (["0\t", "1\t-1 1"], "found -1"),
    (["0\t", "1\t1.5 1"], "found 1.5"),
    (["0\t", "1\t3 1 2 1"], "increasing features, found 2 after 3"),
    (["0\t", "1\t3 1 3 1"], "increasing features, found 3 after 3"),
    (["0\t", "1\tx 1"], "line 2 .*expected a feature and its value, found x 1"),
    (["0\t", "1\t1 nan"], "expected a number for feature 1, found nan"),
    (["0\t", "1\t1 inf"], "expected a number for feature 1, found inf"),
    (["0\t", "1\t1 1e39"], "expected a number for feature 1, found 1e39"),
    (["0\t", "1\t1e300 1"], "expected a feature from 0 to 29, found 1e300"), (["0\t", "\u00b2\t1 1"], "line 2 "),
    (["0\t", "1\tnan 1"], "found nan"),
    (["", "1\t1 1"], "line 1 .*begin with the number of the word, 0"),
    ([], "found nothing"),
])
def test_wrong_lines_are_named(tmp_path: Path, lines: list[str], message: str) -> None:
    path = tmp_path / "word_feats.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(FormatError, match=message) as error:
        read_word_features(path, 30)
    assert str(path) in str(error.value)


def test_words_without_features(tmp_path: Path) -> None:
    path = tmp_path / "word_feats.txt"
    path.write_text("0\n1 2 0.5\n2\t\n3 0 1 2 -1e-3\n")
    np.testing.assert_allclose(read_word_features(path).to_dense(), [[0, 0, 0], [0, 0, 0.5], [0, 0, 0], [1, 0, -1e-3]])


def test_vectors_are_kaldis() -> None:
    expected = read_matrix_file(str(RNNLM_DATA / "word_embedding.mat"))
    words = WordEmbedding.read(RNNLM_DATA / "feat_embedding.mat", RNNLM_DATA / "word_feats.txt")
    assert (words.num_words, words.dim) == expected.shape == (NUM_WORDS, DIM)
    np.testing.assert_allclose(words.matrix(), expected, atol=ROUNDING)
    np.testing.assert_allclose(words.rows(np.array([3, 0, 17, 3])), expected[[3, 0, 17, 3]], atol=ROUNDING)
    np.testing.assert_allclose(words.row(5), expected[5], atol=ROUNDING)
    assert words.row(5) is words.row(5) and words.rows(np.zeros(0, int)).shape == (0, DIM)
    whole = WordEmbedding.read(RNNLM_DATA / "word_embedding.mat")
    np.testing.assert_array_equal(whole.rows(np.array([4, 4])), expected[[4, 4]])
    np.testing.assert_array_equal(whole.row(4), expected[4])
    assert repr(whole) == "<WordEmbedding: 18 words, 12 dimensions>"


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_embedding, "_CACHED_ROWS", 4)
    words = WordEmbedding.read(RNNLM_DATA / "feat_embedding.mat", RNNLM_DATA / "word_feats.txt")
    for asked in ([1, 2, 3], [3, 4, 5, 1], [7]):
        np.testing.assert_allclose(words.rows(np.array(asked)), embedding().matrix()[asked], atol=ROUNDING)
        assert len(words._cached) <= 4


@pytest.mark.parametrize("at_once", [5, 1 << 14])
def test_sums_over_all_words_but_none(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(word_embedding, "_WORDS_AT_ONCE", at_once)
    outputs = np.random.default_rng(0).standard_normal((4, DIM)).astype(np.float32) * 3
    outputs[3] *= 100                                    # whose exponentials are beyond floats
    scores = outputs.astype(float) @ embedding().matrix().astype(float)[1:].T
    top = scores.max(axis=1, keepdims=True)
    expected = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0]
    whole = WordEmbedding(embedding().matrix())
    for words in (embedding(), whole):
        np.testing.assert_allclose(words.log_sums(outputs), expected, rtol=1e-5)


def test_numbers_that_are_no_words() -> None:
    for words in (embedding(), WordEmbedding(embedding().matrix())):
        with pytest.raises(ShapeError, match="has no word 18: its words have numbers up to 17"):
            words.rows(np.array([1, 18]))
        with pytest.raises(ShapeError, match="has no word -1"):
            words.row(-1)
    features = read_word_features(RNNLM_DATA / "word_feats.txt", 31)
    with pytest.raises(ShapeError, match="words have features up to 30, but the embedding of features has 29 rows"):
        WordEmbedding(np.zeros((29, 4), np.float32), features)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_an_error(value: float) -> None:
    with pytest.raises(NumericError, match="the embedding of words has NaN or infinite values"):
        WordEmbedding(np.full((3, 2), value, np.float32))
