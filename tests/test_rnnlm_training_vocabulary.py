"""Features of words: by a worked example, and as the embedding of words begins."""
from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import UsageError
from nnet3py.rnnlm.training.options import FeatureOptions
from nnet3py.rnnlm.training.trainer import UNIT, initial_embedding
from nnet3py.rnnlm.training.vocabulary import (
    Feature,
    Vocabulary,
    choose_features,
    pieces,
    word_feature_lines,
    word_features,
)

FLOAT32 = 1e-4                   # values in files have four digits


def vocabulary() -> Vocabulary:
    """<eps> <s> </s> <brk> <unk> on no #0, seen so often that smoothed counts are 5, 1, 3 and 1."""
    words = Vocabulary(SymbolTable.of(["<s>", "</s>", "<brk>", "<unk>", "on", "no", "#0"]), "<unk>")
    words.counts[:] = [0, 0, 4, 0, 0, 2, 0, 0]
    return words


def test_pieces_of_a_word() -> None:
    assert Counter(pieces("abab", 2, 3)) == {
        ("initial", "a"): 1, ("initial", "ab"): 1, ("match", "ab"): 2, ("match", "ba"): 1, ("match", "aba"): 1,
        ("match", "bab"): 1, ("final", "ab"): 1, ("final", "b"): 1}
    assert Counter(pieces("a", 2, 3)) == {("initial", "a"): 1, ("final", "a"): 1}       # not the whole word
    assert Counter(pieces("ab", 1, 1)) == {("match", "a"): 1, ("match", "b"): 1}


def test_smoothed_frequencies() -> None:
    counts = np.array([0.0, 0.1, 5.0, 0.1, 1.0, 3.0, 1.0, 0.1])
    np.testing.assert_allclose(vocabulary().probs(), counts / counts.sum())


def test_features_by_hand() -> None:
    """Of 10.3 smoothed counts "on" has 3 and "no" 1; the bound 0.5 is below the roots of 5 / 10.3 and 3 / 10.3."""
    on, no, end = 3 / 10.3, 1 / 10.3, 5 / 10.3
    features = choose_features(vocabulary(), FeatureOptions(top_words=1, max_rms=0.5, min_frequency=0.2))
    mean = (on * math.log(on) + no * math.log(no)) / (on + no)
    spread = math.sqrt(on * (math.log(on) - mean) ** 2 + no * (math.log(no) - mean) ** 2)
    assert spread < 0.5
    expected = [Feature("constant", "", 0.5), Feature("special", "<s>", 1.0),
                Feature("special", "</s>", 0.5 / math.sqrt(end)), Feature("special", "<brk>", 1.0),
                Feature("special", "<unk>", 1.0), Feature("unigram", "", 1.0, -mean),
                Feature("length", "", 0.5 / math.sqrt(4 * (on + no))), Feature("word", "on", 0.5 / math.sqrt(on)),
                Feature("initial", "o", 0.5 / math.sqrt(on)), Feature("initial", "on", 0.5 / math.sqrt(on)),
                Feature("final", "n", 0.5 / math.sqrt(on)), Feature("final", "on", 0.5 / math.sqrt(on)),
                Feature("match", "on", 0.5 / math.sqrt(on))]                  # those of "no" are too rare
    assert [feature[:2] for feature in features] == [feature[:2] for feature in expected]
    np.testing.assert_allclose([feature[2:] for feature in features], [feature[2:] for feature in expected])
    values = word_features(vocabulary(), features).toarray()
    length = 2 * expected[6].scale
    for word, row in {0: {}, 1: {0: 0.5, 1: 1}, 2: {0: 0.5, 2: expected[2].scale}, 3: {0: 0.5, 3: 1}, 7: {0: 0.5, 1: 1},
                      5: {0: 0.5, 5: math.log(on) - mean, 6: length,
                          **dict.fromkeys(range(7, 13), 0.5 / math.sqrt(on))},
                      6: {0: 0.5, 5: math.log(no) - mean, 6: length}}.items():
        dense = np.zeros(13)
        dense[list(row)] = list(row.values())
        np.testing.assert_allclose(values[word], dense, atol=FLOAT32, err_msg=f"word {word}")


def test_lines_of_files() -> None:
    features = choose_features(vocabulary(), FeatureOptions(top_words=0, max_rms=0.5, min_frequency=0.2))
    assert features[0].line() == "constant\t0.5" and features[1].line() == "special\t<s>\t1"
    assert features[5].line().split("\t")[::2] == ["unigram", "1"] and features[7].line().startswith("initial\to\t0.9")
    lines = word_feature_lines(word_features(vocabulary(), features)).split("\n")
    assert lines[:2] == ["0\t", "1\t0 0.5 1 1"] and len(lines) == 9 and lines[-1] == ""


def test_first_column_gives_frequencies() -> None:
    words = vocabulary()
    features = choose_features(words, FeatureOptions())
    matrix = initial_embedding(words, features, 6, 0.03, 8.0, np.random.default_rng(0))
    vectors = word_features(words, features) @ matrix
    predicted = [2, 4, 5, 6]                                     # the others are not in the text by definition
    np.testing.assert_allclose(UNIT * vectors[predicted, 0], np.log(words.probs()[predicted]), rtol=1e-2)
    assert vectors[1:, 1:].any(axis=1).all() and not vectors[0].any()


@pytest.mark.parametrize("options, message", [
    (FeatureOptions(min_order=3, max_order=2), "--max-ngram-order=2: expected 3"),
    (FeatureOptions(top_words=-1), "--top-word-features=-1: expected 0 or more"),
    (FeatureOptions(max_rms=0.0), "--max-feature-rms=0: expected 1e-06 or more")])
def test_options_that_make_no_sense(options: FeatureOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        options.check()
