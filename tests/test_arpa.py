"""nnet3py/fst/arpa.py: ARPA files as arrays; what is not one, and words that are not known."""
from __future__ import annotations

import logging
import math
from pathlib import Path

import numpy as np
import pytest
from paths import DATA

from nnet3py.errors import FormatError
from nnet3py.fst import arpa
from nnet3py.fst.arpa import MISSING, Histories, Warner, WordIds, read_arpa

SMALL = """Comments come first.

\\data\\
ngram 1 = 3
ngram 2=2
made by hand

\\1-grams:
-0.5 a -0.25
-1\tb c\t-2
-1.5   c

\\2-grams:
-0.125 a b

-0.75 b a
\\end\\
what follows counts for nothing
"""


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "lm.arpa"
    path.write_text(text)
    return str(path)


def read_small(tmp_path: Path, text: str = SMALL, words: WordIds | None = None, most: int = 30) -> arpa.Arpa:
    return read_arpa(write(tmp_path, text), words or WordIds({b"a": 1, b"b": 2, b"c": 3}), Warner(most))


def test_numbers_and_words(tmp_path: Path) -> None:
    model = read_small(tmp_path, SMALL.replace("-1\tb c\t-2", "-1\tb\t-2"))
    assert model.order == 2
    unigrams, bigrams = model.sections
    assert unigrams.words.tolist() == [[1], [2], [3]] and bigrams.words.tolist() == [[1, 2], [2, 1]]
    ln10 = math.log(10.0)
    assert np.array_equal(unigrams.log_probs, np.float32([-0.5 * ln10, -ln10, -1.5 * ln10]))
    assert np.array_equal(unigrams.backoffs, np.float32([-0.25 * ln10, -2 * ln10, 0]))
    assert np.array_equal(bigrams.backoffs, np.float32([0, 0]))


def test_blocks_are_cut_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(DATA / "graphs" / "trigram.int.arpa")
    whole = read_arpa(path, WordIds(None))
    monkeypatch.setattr(arpa, "_BLOCK", 97)
    parts = read_arpa(path, WordIds(None))
    assert [len(section.words) for section in whole.sections] == [16, 205, 206]
    for one, other in zip(whole.sections, parts.sections, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_unknown_words_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = SMALL.replace("-1\tb c\t-2", "-1\tb\t-2")
    with caplog.at_level(logging.WARNING):
        model = read_small(tmp_path, text, WordIds({b"a": 5, b"c": 7}))
    assert model.sections[0].words.tolist() == [[5], [7]] and len(model.sections[1].words) == 0
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["line 6 [made by hand] uninterpretable line in \\data\\ section",
                        "line 10 [-1\tb\t-2] skipped: word 'b' not in symbol table",
                        "line 14 [-0.125 a b] skipped: word 'b' not in symbol table",
                        "line 16 [-0.75 b a] skipped: word 'b' not in symbol table"]
    for most, last in ((2, "Of 4 parse warnings, 2 were reported"), (0, "Of 4 parse warnings, 0 were reported"),
                       (-1, "line 16")):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            read_small(tmp_path, text, WordIds({b"a": 5, b"c": 7}), most=most)
        assert len(caplog.records) == (most + 1 if most >= 0 else 4) and last in caplog.records[-1].getMessage()


def test_words_get_numbers(tmp_path: Path) -> None:
    words = WordIds({b"<eps>": 0}, grow=True)
    model = read_small(tmp_path, SMALL.replace("-1\tb c\t-2", "-1\tb\t-2"), words)
    assert words.ids == {b"<eps>": 0, b"a": 1, b"b": 2, b"c": 3} and model.sections[0].words.tolist() == [[1], [2], [3]]


GOOD = SMALL.replace("-1\tb c\t-2", "-1\tb\t-2")


@pytest.mark.parametrize(("old", "new", "message"), [
    ("-1\tb\t-2", "-1\tb c\t-2", "line 10 of an ARPA file: expected an n-gram of 1 words"),
    ("\\data\\", "data", "expected an ARPA file, found no line"),
    ("-0.125 a b", "-0.125 a b -1", "line 14 of an ARPA file: expected an n-gram of 2 words"),
    ("-0.125 a b", "-0.125x a b", "line 14 of an ARPA file: expected a logarithm of a probability"),
    ("-0.125 a b", "nan a b", "expected a logarithm of a probability"),
    ("-0.125 a b", "-1_0 a b", "expected a logarithm of a probability"),
    ("ngram 2=2", "ngram 2=1", "announces 1 n-grams of order 2, but there are more"),
    ("ngram 2=2", "ngram 2=two", "expected a count of n-grams"),
    ("\\2-grams:", "\\3-grams:", "expected \\\\2-grams:"),
    ("\\end\\", "\\finish\\", "expected \\\\end"),
    ("\\end\\", "", "an n-gram of 2 words, found 'what follows"),
    ("ngram 1 = 3\nngram 2=2", "", "section missing or empty"),
    ("ngram 2=2", "ngram 900=2", "impossible orders"),
])
def test_what_is_no_arpa_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_small(tmp_path, GOOD.replace(old, new))


def test_numbers_of_words_are_checked(tmp_path: Path) -> None:
    text = "\\data\\\nngram 1=1\n\\1-grams:\n-1 {}\n\\end\\\n"
    assert read_arpa(write(tmp_path, text.format(7)), WordIds(None)).sections[0].words.tolist() == [[7]]
    for wrong in ("0", "4294967296", "x", "-1"):
        with pytest.raises(FormatError, match="number"):
            read_arpa(write(tmp_path, text.format(wrong)), WordIds(None))


def test_histories() -> None:
    histories = Histories()
    words = np.array([[3, 1], [3, 2], [2, 1], [3, 1]])
    nodes = histories.add(words)
    assert nodes[0] == nodes[3] and len(set(nodes.tolist())) == 3 and histories.num_nodes == 6
    assert np.array_equal(histories.find(words), nodes)
    assert histories.find(np.array([[1, 3], [2, 2]])).tolist() == [MISSING, MISSING]
    assert histories.find(np.empty((2, 0), dtype=np.int64)).tolist() == [0, 0]
    assert histories.find(np.array([[3, 1, 1]])).tolist() == [MISSING]
    more = histories.add(np.array([[3, 1, 1], [1, 1, 1]]))
    assert MISSING not in histories.find(np.array([[1], [3]])) and len(set(more.tolist())) == 2
