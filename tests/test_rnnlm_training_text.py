"""Texts as numbers of words, and as minibatches: every word is predicted once, from the words before it."""
from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError, UsageError
from nnet3py.rnnlm.training.text import (
    CONTEXT,
    Sentences,
    count_words,
    is_arpa,
    minibatches,
    read_sentences,
    sequence_lengths,
)
from nnet3py.rnnlm.training.vocabulary import Vocabulary

TEXT = "a b a\n\nc\n  b   d \nd d\n"


def text(tmp_path: Path, content: str = TEXT) -> str:
    path = tmp_path / "text.txt"
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_vocabulary_of_a_text(tmp_path: Path) -> None:
    counts = count_words([text(tmp_path), text(tmp_path)])
    assert counts == {"a": 4, "b": 4, "c": 2, "d": 6}
    words = Vocabulary.of_counts(counts, "<unk>", min_count=3, max_words=2)
    assert words.word_list == ["<eps>", "<s>", "</s>", "<brk>", "<unk>", "d", "a"]
    assert (words.bos, words.eos, words.brk, words.unk) == (1, 2, 3, 4)
    assert Vocabulary.of_counts(counts, "").unk == -1
    with pytest.raises(UsageError, match="no word of the text occurs 9 times"):
        Vocabulary.of_counts(counts, "<unk>", min_count=9)


def test_vocabulary_of_a_lang_folder() -> None:
    table = SymbolTable.of(["a", "b", "#0", "<s>", "</s>"])
    words = Vocabulary.of_table(table, "<unk>")
    assert words.word_list == ["<eps>", "a", "b", "#0", "<s>", "</s>", "<brk>"] and words.unk == -1
    assert words.never_predicted == [0, 3, 4, 6]
    assert words.option_lines() == ["--bos-symbol=4", "--eos-symbol=5", "--brk-symbol=6"]
    with pytest.raises(FormatError, match="no word has the number 2"):
        Vocabulary.of_table(SymbolTable({0: "<eps>", 1: "a", 3: "b"}), "")


def test_sentences(tmp_path: Path) -> None:
    words = Vocabulary.of_counts(Counter("aabbc"), "<unk>")                    # <unk> 4, a 5, b 6, c 7
    sentences = read_sentences([text(tmp_path)], words)
    assert sentences.words.tolist() == [5, 6, 5, 2, 7, 2, 6, 4, 2, 4, 4, 2] and sentences.num_unknown == 3
    assert sentences.lengths.tolist() == [4, 2, 3, 3]
    assert sentences.chosen(np.array([3, 1])).words.tolist() == [4, 4, 2, 7, 2]
    without = read_sentences([text(tmp_path)], Vocabulary.of_counts(Counter("aabbc"), ""))
    assert without.lengths.tolist() == [4, 2] and (without.num_left_out, without.num_unknown) == (2, 3)
    assert len(read_sentences([text(tmp_path, "a")], words)) == 1             # no line feed at the end


def test_texts_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="expected sentences without </s>, one a line"):
        count_words([text(tmp_path, "a b </s>\n")])
    with pytest.raises(UsageError, match="there are no words in"):
        count_words([text(tmp_path, " \n")])
    assert is_arpa(text(tmp_path, "a comment\n\\data\\\nngram 1=1\n")) and not is_arpa(text(tmp_path))


def random_sentences(count: int = 60) -> Sentences:
    """Words 5 to 9 in sentences of up to 30, each ended by word 2."""
    rng = np.random.default_rng(1)
    parts = [np.append(rng.integers(5, 10, rng.integers(1, 30)), 2) for _ in range(count)]
    return Sentences(np.concatenate(parts).astype(np.int32), np.cumsum([0, *map(len, parts)]))


@pytest.mark.parametrize("chunk_length", [8, 40])
@pytest.mark.parametrize("seed", [None, 0])
def test_every_word_is_predicted_once(chunk_length: int, seed: int | None) -> None:
    sentences, words = random_sentences(), Vocabulary.of_counts(Counter("abcde"), "<unk>")
    rng = None if seed is None else np.random.default_rng(seed)
    expected: Counter[tuple[int, ...]] = Counter()
    for begin, end in zip(sentences.starts[:-1], sentences.starts[1:], strict=True):
        for place in range(begin, end):
            expected[tuple(sentences.words[max(begin, place - 1):place + 1].tolist())] += 1
    seen: Counter[tuple[int, ...]] = Counter()
    for eg in minibatches(sentences, words, chunk_length, 64, rng):
        assert eg.inputs.shape == eg.targets.shape == eg.weights.shape and eg.inputs.size <= 64
        assert set(eg.inputs[:, 0].tolist()) <= {words.bos, words.brk}
        assert eg.inputs.shape[1] <= chunk_length + CONTEXT
        for row, time in np.argwhere(eg.weights).tolist():
            last = eg.inputs[row, time]
            if last == words.brk:
                raise AssertionError("a word is predicted from <brk> alone")
            seen[(eg.targets[row, time],) if last == words.bos else (last, eg.targets[row, time])] += 1
    assert seen == expected


def test_order_depends_on_the_seed() -> None:
    sentences, words = random_sentences(), Vocabulary.of_counts(Counter("abcde"), "<unk>")
    one, same, other = ([eg.inputs.tobytes() for eg in minibatches(sentences, words, 40, 64, np.random.default_rng(s))]
                        for s in (1, 1, 2))
    assert one == same != other


def test_lengths_of_sequences() -> None:
    lengths = sequence_lengths(35)
    assert lengths[-1] == 35 and lengths[0] == 1 and (np.diff(lengths) > 0).all() and len(lengths) < 20
    assert max(after / before for before, after in zip(lengths[4:], lengths[5:], strict=False)) <= 1.25
    assert sequence_lengths(1).tolist() == [1]
