"""Files of word features: read whole, wrong lines named."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rnnlm_cases import NUM_WORDS, RNNLM_DATA

from nnet3py.errors import FormatError
from nnet3py.rnnlm.word_features import read_word_features


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
