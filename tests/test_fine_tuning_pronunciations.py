"""New words of fine-tuning: mixtures of language models, pronunciations that are learned, given or spelled."""
import math
from pathlib import Path

import pytest

from nnet3py.decoding.grammar import Ngram, mixture, read_ngram
from nnet3py.decoding.symbols import SENTENCE_END
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.pronunciations import GraphemeModel, Pronunciations, pronounce, spell

ROUNDING = 1e-5          # ARPA files have seven digits of logarithms
OLD, NEW = ["a b c", "a b", "b c c"], ["a d", "d d b"]
SOUNDS = {"a": "A", "b": "B", "c": "K", "d": "D", "e": "E", "f": "F", "g": "G", "o": "O"}
DIGRAPHS = {"sh": "SH", "ch": "CH"}


def lexicon() -> list[tuple[str, tuple[str, ...]]]:
    """Words of syllables whose letters sound as they always do, where h is only a part of sh and ch."""
    entries = []
    for first in ("b", "c", "d", "f", "g", "sh", "ch"):
        for vowel in "aeo":
            for last in ("b", "d", "sh"):
                phones = (DIGRAPHS.get(first) or SOUNDS[first], SOUNDS[vowel], DIGRAPHS.get(last) or SOUNDS[last])
                entries.append((first + vowel + last, phones))
    return entries


def test_a_mixture_has_the_mean_of_probabilities(tmp_path: Path) -> None:
    words = "abcd"
    old, new = (Ngram.estimate((text.split() for text in texts), 3, words) for texts in (OLD, NEW))
    old.write(str(tmp_path / "old.arpa"))
    mixed = mixture([(read_ngram(str(tmp_path / "old.arpa")), 0.75), (new, 0.25)])
    for history, word in (((), "c"), (("a",), "b"), (("d", "d"), "b"), (("<s>", "a"), "b")):
        expected = 0.75 * 10 ** old.log10_prob(history, word) + 0.25 * 10 ** new.log10_prob(history, word)
        assert math.isclose(10 ** mixed.log10_prob(history, word), expected, rel_tol=ROUNDING)
    for history in {gram[:-1] for gram in mixed.log10_probs}:
        total = sum(10 ** mixed.log10_prob(history, word) for word in (*words, SENTENCE_END))
        assert math.isclose(total, 1.0, abs_tol=ROUNDING), history
    assert read_ngram(str(tmp_path / "old.arpa"), "ab").log10_prob((), "c") == -math.inf


def test_pronunciations_are_learned_of_a_lexicon() -> None:
    model = GraphemeModel.estimate(lexicon())
    for word, phones in (("fob", "F O B"), ("shadche", "SH A D CH E"), ("Goshedab", "G O SH E D A B")):
        assert model.pronounce(word)[0].phones == tuple(phones.split())
    assert model.pronounce("zab") == []


def test_syllables_of_hangul_are_pronounced_by_their_letters() -> None:
    initials, vowels, finals = {0: "k", 2: "n", 6: "m", 9: "s"}, {0: "a", 8: "o", 20: "i"}, {0: "", 4: "n", 16: "m"}
    syllables = {chr(0xAC00 + (initial * 21 + vowel) * 28 + final): [name for name in (
        initials[initial], vowels[vowel], finals[final]) if name] for initial in initials for vowel in vowels
        for final in finals}
    words = [first + second for number, first in enumerate(syllables) for second in list(syllables)[number % 5::5]]
    model = GraphemeModel.estimate((word, tuple(phone for sign in word for phone in syllables[sign])) for word in words)
    new = [first + second for first in syllables for second in syllables if first + second not in words]
    for word in new[::97]:
        assert model.pronounce(word)[0].phones == tuple(phone for sign in word for phone in syllables[sign])


def test_where_pronunciations_come_from() -> None:
    known = lexicon()
    new = pronounce(["fosh", "zip", "pizza"], known, {"pizza": [("F", "A")]}, may_spell=False)
    assert new == {"pizza": Pronunciations("given", [("F", "A")]),
                   "fosh": Pronunciations("learned", [("F", "O", "SH")])}
    with pytest.raises(Nnet3Error, match="phone XX in pizza"):
        pronounce(["pizza"], known, {"pizza": [("XX",)]}, may_spell=False)
    arpabet = set("AE B K D EH F IH1 NG P S SH T".split())
    assert pronounce(["ship"], [("a", tuple(arpabet))], {}, may_spell=True) == {
        "ship": Pronunciations("spelled", [("SH", "IH1", "P")])}
    assert spell("schön", arpabet) == ()
    assert spell("pick", set("p i: I k k_h".split())) == ("p", "I", "k")
