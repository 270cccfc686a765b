"""nnet3py/fst/const_arpa.py: Kaldi's file byte for byte, probabilities against a slow reference, damaged files."""
from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from paths import DATA

from nnet3py.cli.fst.make_graph import arpa_to_const_arpa
from nnet3py.engine.loop import Loop
from nnet3py.errors import FormatError
from nnet3py.fst import const_arpa
from nnet3py.fst.arpa import Arpa, Section, WordIds, read_arpa
from nnet3py.fst.const_arpa import ConstArpa, build_const_arpa
from nnet3py.fst.const_arpa_loops import first_damage

TRIGRAM, KALDIS = DATA / "graphs" / "trigram.int.arpa", DATA / "graphs" / "G.carpa"
BOS, EOS = 16, 17
LOST_BIT = 1e-6            # relative: the lowest bit of a float of a record's child


@pytest.fixture(scope="module")
def arpa() -> Arpa:
    return read_arpa(str(TRIGRAM), WordIds(None))


@pytest.fixture(scope="module")
def model() -> ConstArpa:
    return ConstArpa.read(KALDIS)


def reference(arpa: Arpa) -> tuple[dict[tuple[int, ...], float], dict[tuple[int, ...], float]]:
    probs, backoffs = {}, {}
    for section in arpa.sections:
        for words, prob, backoff in zip(section.words.tolist(), section.log_probs, section.backoffs, strict=True):
            probs[tuple(words)], backoffs[tuple(words)] = float(prob), float(backoff)
    return probs, backoffs


def reference_log_prob(arpa: tuple[dict, dict], history: tuple[int, ...], word: int) -> float:
    probs, backoffs = arpa
    if (*history, word) in probs:
        return probs[(*history, word)]
    return backoffs.get(history, 0.0) + reference_log_prob(arpa, history[1:], word) if history else -math.inf


def test_same_file_as_kaldi(tmp_path: Path) -> None:
    made = tmp_path / "G.carpa"
    assert arpa_to_const_arpa.execute([f"--bos-symbol={BOS}", f"--eos-symbol={EOS}", str(TRIGRAM), str(made)]) == 0
    assert made.read_bytes() == KALDIS.read_bytes()
    ConstArpa.read(made).write(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == made.read_bytes()
    assert arpa_to_const_arpa.execute([str(TRIGRAM), str(made)]) == 255


def test_probabilities(arpa: Arpa, model: ConstArpa) -> None:
    known = reference(arpa)
    for history in itertools.product((1, 5, 8, BOS), repeat=2):
        for word in (1, 2, 8, EOS):
            assert model.log_prob(history, word) == pytest.approx(reference_log_prob(known, history, word),
                                                                  rel=LOST_BIT)
    assert model.log_prob([3, 4, 1, 2], 5) == model.log_prob([1, 2], 5)           # what is older does not count
    assert model.log_prob([], 3) == pytest.approx(known[0][(3,)], rel=LOST_BIT)
    assert model.log_prob([1], 15) == model.log_prob([], 9999) == model.log_prob([], -5) == -math.inf


def test_unknown_words(arpa: Arpa) -> None:
    model = build_const_arpa(arpa, BOS, EOS, unk=3)
    for word in (15, 500, -7):                     # 15 has no unigram
        assert model.log_prob([1, 5], word) == model.log_prob([1, 5], 3)
        assert model.log_prob([1, word], 5) == model.log_prob([1, 3], 5)


def test_states(model: ConstArpa, arpa: Arpa) -> None:
    beginnings = {tuple(words[:n]) for section in arpa.sections for words in section.words.tolist()
                  for n in range(1, len(words))}
    for history in itertools.product(range(1, 15), repeat=2):
        longest = next(end for end in (history, history[1:], ()) if end in beginnings or not end)
        assert model.state(history) == longest


def section(words: list[list[int]], order: int) -> Section:
    count = len(words)
    return Section(np.array(words, dtype=np.int32).reshape(-1, order), np.linspace(-3, -1, count, dtype=np.float32),
                   np.linspace(-1, -0.5, count, dtype=np.float32))


def test_addresses_that_are_too_far(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arpa = Arpa([section([[1], [2], [3], [4]], 1), section([[1, 3], [2, 1], [4, 4]], 2), section([[2, 1, 3]], 3)])
    plain = build_const_arpa(arpa, 1, 2)
    assert len(plain.overflow) == 0
    monkeypatch.setattr(const_arpa, "_LARGEST_OFFSET", 2)
    far = build_const_arpa(arpa, 1, 2)
    assert len(far.overflow) > 0
    far.write(tmp_path / "far")
    read = ConstArpa.read(tmp_path / "far")
    for history in itertools.product((1, 2, 3, 4), repeat=2):
        for word in (1, 2, 3, 4):
            assert read.log_prob(history, word) == plain.log_prob(history, word)


def test_files_without_names(model: ConstArpa, tmp_path: Path) -> None:
    data = KALDIS.read_bytes()
    for name in (b"ConstArpaLm", b"LmInfo", b"LmStates", b"LmUnigram", b"LmOverflow"):
        data = data.replace(b"<" + name + b"> ", b"").replace(b"</" + name + b"> ", b"")
    (tmp_path / "old").write_bytes(data)
    old = ConstArpa.read(tmp_path / "old")
    assert np.array_equal(old.pool, model.pool) and np.array_equal(old.unigrams, model.unigrams)


def test_ngrams_that_do_not_fit() -> None:
    with pytest.raises(FormatError, match=r"n-gram of words \[3, 1\], but not its beginning"):
        build_const_arpa(Arpa([section([[1], [2]], 1), section([[1, 2], [3, 1]], 2)]), 1, 2)
    with pytest.raises(FormatError, match=r"twice, of the words \[1, 2\]"):
        build_const_arpa(Arpa([section([[1], [2]], 1), section([[1, 2], [1, 2]], 2)]), 1, 2)
    with pytest.raises(FormatError, match="word 9 as its symbol 'eos'; expected a word from 1 to"):
        build_const_arpa(Arpa([section([[1], [2]], 1)]), 1, 9)


@pytest.mark.parametrize(("place", "value"), [
    (2, 100000), (2, -1), (3, 50), (4, 2**31 - 1), (4, -3)])
def test_damaged_records(model: ConstArpa, place: int, value: int) -> None:
    pool = model.pool.copy()
    pool[place] = value
    with pytest.raises(FormatError, match="no valid record at place"):
        ConstArpa(BOS, EOS, -1, 3, model.unigrams, pool, model.overflow)


def test_damaged_heads(model: ConstArpa, tmp_path: Path) -> None:
    unigrams = model.unigrams.copy()
    unigrams[3] = len(model.pool) + 5
    with pytest.raises(FormatError, match="address is outside of the model"):
        ConstArpa(BOS, EOS, -1, 3, unigrams, model.pool, model.overflow)
    with pytest.raises(FormatError, match="order"):
        ConstArpa(BOS, EOS, -1, 0, model.unigrams, model.pool, model.overflow)
    (tmp_path / "text").write_text("<ConstArpaLm> <LmInfo> 1 2 3 4")
    with pytest.raises(FormatError, match="binary"):
        ConstArpa.read(tmp_path / "text")
    (tmp_path / "short").write_bytes(KALDIS.read_bytes()[:-200])
    with pytest.raises(FormatError):
        ConstArpa.read(tmp_path / "short")


def test_a_word_whose_record_is_not_there_is_damage() -> None:
    nothing, words = np.zeros(0, dtype=np.int64), np.array([0, 1], dtype=np.int64)    # 0: no record; 1: the first
    for pool, damage in (([], -2), ([0, 0, 0], -1)):
        assert first_damage(words, np.array(pool, dtype=np.int32), nothing) == damage


def test_next_states(model: ConstArpa, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "follow_loops.py").write_text("""
from nnet3py.fst.const_arpa_loops import next_state

def follow(unigrams, pool, scores, overflow, unk, order, histories, lengths, words):
    total = 0.0
    for i in range(len(words)):
        total += next_state(unigrams, pool, scores, overflow, unk, order, histories, lengths, i, words[i], i + 1)
    return total
""")
    follow = Loop("follow_loops", "follow", "i8[] i4[] f4[] i8[] i8 i8 i4[,] i4[] i4[]",
                  uses=["nnet3py.fst.const_arpa_loops"])
    words = np.array([5, 1, 1, 9, EOS], dtype=np.int32)
    histories, lengths = np.zeros((6, 2), dtype=np.int32), np.zeros(6, dtype=np.int32)
    histories[0, 0], lengths[0] = BOS, 1
    total = follow(*model.arrays, -1, model.order, histories, lengths, words)
    said = [BOS, *words.tolist()]
    assert total == pytest.approx(sum(model.log_prob(said[:i], said[i]) for i in range(1, len(said))), rel=LOST_BIT)
    for i in range(1, 6):
        assert tuple(histories[i, :lengths[i]].tolist()) == model.state(said[:i + 1])
