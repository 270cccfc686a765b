"""New words of fine-tuning: mixtures of language models, pronunciations that are learned, given or spelled."""
import math
from collections import Counter
from collections.abc import Iterator
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


Segmentation = list[tuple[str, tuple[str, ...]]]           # pairs of letters and phones
CHANCES_AT_FIRST = {(1, 1): 1.0, (1, 0): 0.2, (2, 1): 0.2, (1, 2): 0.1, (2, 0): 0.02}


def segmentations(letters: str, phones: tuple[str, ...]) -> Iterator[Segmentation]:
    """All ways to write a word as pairs."""
    if not letters and not phones:
        yield []
    for used, its in CHANCES_AT_FIRST:
        if used <= len(letters) and its <= len(phones):
            for rest in segmentations(letters[used:], phones[its:]):
                yield [(letters[:used], phones[:its]), *rest]


def test_words_are_segmented_as_if_all_ways_were_tried() -> None:
    entries = [("ab", ("A", "B")), ("xa", ("K", "S", "A")), ("ax", ("A", "K", "S")), ("shb", ("S", "B")),
               ("bsh", ("B", "S")), ("xb", ("K", "B")), ("abe", ("A", "B")), ("eab", ("E", "A", "B")),
               ("k", ("K", "A"))]
    chances = {pair: CHANCES_AT_FIRST[len(pair[0]), len(pair[1])] for word, phones in entries
               for way in segmentations(word, phones) for pair in way}
    for _ in range(8):
        counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        for word, phones in entries:
            ways = [(math.prod(chances.get(pair, 0.0) for pair in way), way) for way in segmentations(word, phones)]
            for value, way in ways:
                for pair in way:
                    counts[pair] += value / sum(value for value, _ in ways)      # type: ignore[assignment]
        chances = {pair: count / sum(counts.values()) for pair, count in counts.items() if count > 1e-3}
    best = [max(segmentations(word, phones), key=lambda way: math.prod(chances.get(pair, 0.0) for pair in way))
            for word, phones in entries]
    expected = Ngram.estimate(([f"{letters}}}{' '.join(its)}" for letters, its in way] for way in best), 5)
    model = GraphemeModel.estimate([*entries, ("", ("A",)), ("a", ()), ("a", ("A", "B", "E"))])
    assert model.ngram.log10_probs == expected.log10_probs and model.ngram.order == 5
    assert model.pairs == {letters: sorted({pair for way in best for pair in way if pair[0] == letters})
                           for letters in {pair[0] for way in best for pair in way}}

    def likelihoods(word: str) -> dict[tuple[str, ...], float]:
        """Of each pronunciation, over all sequences of pairs that the model has."""
        sums: Counter[tuple[str, ...]] = Counter()

        def extend(history: tuple[str, ...], place: int, phones: tuple[str, ...], log_prob: float) -> None:
            if place == len(word) and phones:
                sums[phones] += 10 ** (log_prob + model.ngram.log10_prob(history, SENTENCE_END))    # type: ignore
            for length in (1, 2):
                for letters, its in model.pairs.get(word[place:place + length], ()):
                    if len(letters) == length:
                        name = f"{letters}}}{' '.join(its)}"
                        extend((*history, name)[-4:], place + length, phones + its,
                               log_prob + model.ngram.log10_prob(history, name))

        extend(("<s>",), 0, (), 0.0)
        return dict(sums.most_common())

    for word in ("abx", "xshe", "Ka"):
        every = likelihoods(word.lower())
        guesses = model.pronounce(word, 100)
        assert [guess.phones for guess in guesses] == list(every) and len(model.pronounce(word)) == 1
        assert [guess.probability for guess in guesses] == pytest.approx(
            [value / sum(every.values()) for value in every.values()])


def test_a_second_pronunciation_is_kept_if_it_is_likely() -> None:
    syllables = [first + vowel + last for first in "bcdfg" for vowel in "aeo" for last in "bdfg"]
    known = [(word, tuple(SOUNDS[letter] for letter in word)) for word in syllables]
    both = [*known, *((word, (*phones[:2], "T")) for word, phones in known if word.endswith("d"))]
    likely = GraphemeModel.estimate(both).pronounce("ded", 3)
    assert [guess.phones[-1] for guess in likely[:2]] == ["T", "D"] and likely[1].probability > 0.1
    assert len(likely) == 3 and likely[2].probability < 0.1
    new = pronounce(["ded", "ceb"], [*both, ("<unk>", ("X",)), ("[noise]", ("X",)), ("#0", ("X",))], {}, False)
    assert new == {"ded": Pronunciations("learned", [guess.phones for guess in likely[:2]]),
                   "ceb": Pronunciations("learned", [("K", "E", "B")])}
    assert pronounce(["gab"], known[:50], {}, False)
    assert pronounce(["gab"], [*known[:49], known[0], ("<unk>", ("X",))], {}, False) == {}, "49 words"


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
    assert spell("Pick's", arpabet) == ("P", "IH1", "K", "S") and spell("ö", arpabet) == spell("", arpabet) == ()
    assert spell("pick", set("p i: I k k_h".split())) == ("p", "I", "k")
