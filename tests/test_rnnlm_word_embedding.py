"""Vectors of words: of features, from a matrix; sums over all words."""
from __future__ import annotations

import numpy as np
import pytest
from rnnlm_cases import DIM, NUM_WORDS, RNNLM_DATA, embedding

from nnet3py.errors import ShapeError
from nnet3py.formats.holders import read_matrix_file
from nnet3py.rnnlm import word_embedding
from nnet3py.rnnlm.word_embedding import WordEmbedding
from nnet3py.rnnlm.word_features import read_word_features

ROUNDING = 1.0e-6


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
    monkeypatch.setattr(word_embedding, "_KEPT_ROWS", 4)
    words = WordEmbedding.read(RNNLM_DATA / "feat_embedding.mat", RNNLM_DATA / "word_feats.txt")
    for asked in ([1, 2, 3], [3, 4, 5, 1], [7]):
        np.testing.assert_allclose(words.rows(np.array(asked)), embedding().matrix()[asked], atol=ROUNDING)
        assert len(words._kept) <= 4


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
