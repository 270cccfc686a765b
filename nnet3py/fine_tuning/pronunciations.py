"""Pronunciations of new words: from a given lexicon, learned from the model's lexicon, or by spelling.

Learning uses a joint n-gram model of letters and phones. Words are segmented into pairs of one or two letters with zero
to two phones, whose probabilities are estimated by expectation maximization; sequences of pairs have an n-gram model,
and the pronunciation of a word is its most probable sequence of pairs. Bisani and Ney, Joint-sequence models for
grapheme-to-phoneme conversion, 2008.
"""
from __future__ import annotations

import logging
import math
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nnet3py.decoding.grammar import Ngram
from nnet3py.decoding.symbols import SENTENCE_END, SENTENCE_START
from nnet3py.errors import Nnet3Error, UsageError

logger = logging.getLogger(__name__)

GIVEN, LEARNED, SPELLED = "given", "learned", "spelled"
LEAST_WORDS = 50              # words of a lexicon that learning needs at least
_COUNT, _SHARE = 3, 0.1       # most pronunciations of a word, and their least probability, except the first

# Letters with the phones that they stand for in most languages with Latin script, by three ways of naming phones:
# ARPAbet, X-SAMPA (also espeak's), IPA. The model's phones decide which is used.
_RULES = tuple(dict(rule.split("=") for rule in rules.split()) for rules in (
    "ch=CH sh=SH th=TH ng=NG ee=IY oo=UW ph=F ck=K qu=K+W a=AE b=B c=K d=D e=EH f=F g=G h=HH i=IH j=JH k=K "
    "l=L m=M n=N o=AA p=P q=K r=R s=S t=T u=AH v=V w=W x=K+S y=Y z=Z",
    "ch=tS sh=S th=T ng=N ee=i: oo=u: ph=f ck=k qu=k+w a=a b=b c=k d=d e=E f=f g=g h=h i=I j=dZ k=k l=l m=m "
    "n=n o=0 p=p q=k r=r s=s t=t u=V v=v w=w x=k+s y=j z=z",
    "ch=tʃ sh=ʃ th=θ ng=ŋ ee=i oo=u ph=f ck=k qu=k+w a=a b=b c=k d=d e=e f=f g=g h=h i=i j=dʒ k=k l=l m=m n=n "
    "o=o p=p q=k r=r s=s t=t u=u v=v w=w x=k+s y=j z=z"))
_STRESS = re.compile(r"(?<=.)[0-2]$")


class Pronunciations(NamedTuple):
    """Pronunciations of a new word, and their source: given, learned or spelled."""

    source: str
    phones: list[Phones]


def pronounce(words: Iterable[str], lexicon: Sequence[tuple[str, Phones]], given: Mapping[str, Sequence[Phones]],
              may_spell: bool, seed: int = 0) -> dict[str, Pronunciations]:
    """Return the pronunciations of new words; words without any are not in the result.

    Parameters
    ----------
    lexicon : lexicon of the model: words and phones without position marks
    given : pronunciations that the user gives
    may_spell : whether a word that neither ``given`` nor the learned model can pronounce is spelled, letter by phone

    Raises Nnet3Error for a given pronunciation with a phone that the model's lexicon lacks.
    """
    phones = {phone for _, its_phones in lexicon for phone in its_phones}
    _check_given(given, phones)
    results, left = {}, []
    for word in words:
        if word in given:
            results[word] = Pronunciations(GIVEN, list(given[word]))
        else:
            left.append(word)
    model = _learned(lexicon, seed) if left else None
    for word in left:
        likely = model.pronounce(word, _COUNT) if model is not None else []
        if likely:
            results[word] = Pronunciations(LEARNED, [
                guess.phones for guess in likely if guess is likely[0] or guess.probability >= _SHARE])
        elif may_spell and (spelled := spell(word, phones)):
            results[word] = Pronunciations(SPELLED, [spelled])
    return results


def _check_given(given: Mapping[str, Sequence[Phones]], phones: set[str]) -> None:
    for word, its in given.items():
        unknown = [phone for pronunciation in its for phone in pronunciation if phone not in phones]
        if unknown and phones:
            raise Nnet3Error(f"--lexicon has the phone {unknown[0]} in {word}, which no word of the model has",
                             f"its phones are {' '.join(sorted(phones))}")


def _learned(lexicon: Sequence[tuple[str, Phones]], seed: int) -> GraphemeModel | None:
    words = [(word, phones) for word, phones in lexicon if word[:1] not in "<[#!"]
    if len({word for word, _ in words}) < LEAST_WORDS:
        return None
    try:
        return GraphemeModel.estimate(words, seed=seed)
    except Nnet3Error as error:
        logger.warning("nothing could be learned from the lexicon: %s", error)
        return None


def spell(word: str, phones: set[str]) -> Phones:
    """Return a pronunciation by the letters of a word in Latin script; empty if ``phones`` has none for a letter."""
    bare = {_STRESS.sub("", phone): phone for phone in sorted(phones, reverse=True)}
    bare.update((phone, phone) for phone in phones)
    rules = max(_RULES, key=lambda rules: sum(name in bare for name in rules.values()))
    spelling: list[str] = []
    place, word = 0, word.casefold()
    while place < len(word):
        for length in (2, 1):
            names = rules.get(word[place:place + length], "").split("+")
            if all(name in bare for name in names):
                spelling += [bare[name] for name in names]
                place += length
                break
        else:
            if word[place].isalpha():
                return ()
            place += 1                          # an apostrophe
    return tuple(spelling)


# -- joint n-gram model of letters and phones --------------------------------------------------------------------------

Phones = tuple[str, ...]
Pair = tuple[str, Phones]                # letters, phones

ORDER = 5
_MOVES = ((1, 1), (1, 0), (2, 1), (1, 2), (2, 0))      # letters, phones
_PRIOR = {(1, 1): 1.0, (1, 0): 0.2, (2, 1): 0.2, (1, 2): 0.1, (2, 0): 0.02}
_ITERATIONS = 8
_MOST_FOR_PAIRS, _MOST = 4000, 60000     # entries, for estimating pairs and for the n-grams
_LEAST_COUNT = 1e-3                      # a pair with a lower one is dropped
_BEAM = 60                               # hypotheses after each letter
_LARGE = 1e30


class Pronounced(NamedTuple):
    """Pronunciation, and its probability among the pronunciations of the word that were considered."""

    phones: Phones
    probability: float


class GraphemeModel:
    """Joint n-gram model of letters and phones.

    Attributes
    ----------
    ngram : n-gram model of pairs, each a word ``LETTERS}PHONE PHONE``
    pairs : pairs by their letters
    """

    def __init__(self, ngram: Ngram, pairs: Mapping[str, Sequence[Pair]]) -> None:
        self.ngram, self.pairs = ngram, pairs

    @classmethod
    def estimate(cls, entries: Iterable[tuple[str, Sequence[str]]], order: int = ORDER, seed: int = 0) -> GraphemeModel:
        """Estimate a model from a lexicon; of a very large lexicon, from random entries.

        Raises UsageError if no word can be segmented into pairs.
        """
        usable = [(letters_of(word), tuple(phones)) for word, phones in entries if word and phones]
        random.Random(seed).shuffle(usable)
        chances = _pair_chances(usable[:_MOST_FOR_PAIRS])
        sequences = [sequence for word, phones in usable[:_MOST] if (sequence := _best_pairs(word, phones, chances))]
        if not sequences:
            raise UsageError("the lexicon is too small, or its words do not correspond to their phones",
                             "give the pronunciations of new words with --lexicon")
        pairs: dict[str, set[Pair]] = {}
        for sequence in sequences:
            for pair in sequence:
                pairs.setdefault(pair[0], set()).add(pair)
        ngram = Ngram.estimate(([_name(pair) for pair in sequence] for sequence in sequences), order)
        return cls(ngram, {letters: sorted(its_pairs) for letters, its_pairs in pairs.items()})

    def pronounce(self, word: str, count: int = 1) -> list[Pronounced]:
        """Return the ``count`` most probable pronunciations; none for a word with unknown letters."""
        word = letters_of(word)
        start = (SENTENCE_START,)
        beams: list[dict[tuple[tuple[str, ...], Phones], float]] = [{} for _ in range(len(word) + 1)]
        beams[0][start, ()] = 0.0
        for place in range(len(word)):
            best = sorted(beams[place].items(), key=lambda entry: -entry[1])[:_BEAM]
            for (history, phones), log_prob in best:
                for length in (1, 2):
                    for pair in self.pairs.get(word[place:place + length], ()) if place + length <= len(word) else ():
                        name = _name(pair)
                        key = (*history, name)[-(self.ngram.order - 1):], phones + pair[1]
                        value = log_prob + self.ngram.log10_prob(history, name)
                        if value > beams[place + length].get(key, -_LARGE):
                            beams[place + length][key] = value
        total: Counter[Phones] = Counter()
        for (history, phones), log_prob in beams[-1].items():
            if phones:
                total[phones] += 10.0 ** (log_prob + self.ngram.log10_prob(history, SENTENCE_END))    # type: ignore[assignment]
        together = sum(total.values())
        return [Pronounced(phones, value / together) for phones, value in total.most_common(count)] if together else []


def letters_of(word: str) -> str:
    """Return the letters of a word in lower case; syllables of Hangul are decomposed into letters."""
    return "".join(unicodedata.normalize("NFD", sign) if "가" <= sign <= "힣" else sign for sign in word.casefold())


def _name(pair: Pair) -> str:
    return f"{pair[0]}}}{' '.join(pair[1])}"


def _steps(word: str, phones: Phones) -> Iterator[tuple[int, int, Pair, tuple[int, int]]]:
    """Yield all pairs of letters and phones that may be part of a segmentation of a word, from left to right.

    Each is the number of letters and of phones before the pair; the pair; and its numbers of letters and phones.
    """
    for i in range(len(word) + 1):
        for j in range(len(phones) + 1):
            for move in _MOVES:
                if i + move[0] <= len(word) and j + move[1] <= len(phones):
                    yield i, j, (word[i:i + move[0]], phones[j:j + move[1]]), move


def _pair_chances(entries: Sequence[tuple[str, Phones]]) -> dict[Pair, float]:
    """Estimate the probability of each pair by expectation maximization."""
    steps = [(len(word), len(phones), list(_steps(word, phones))) for word, phones in entries]
    chances: dict[Pair, float] = {pair: _PRIOR[move] for _, _, its in steps for _, _, pair, move in its}
    for _ in range(_ITERATIONS):
        counts: Counter[Pair] = Counter()
        for letters, phones, its in steps:
            _add_expected(counts, letters, phones, its, chances)
        total = sum(counts.values())
        chances = {pair: count / total for pair, count in counts.items() if count > _LEAST_COUNT} if total else {}
    return chances


def _add_expected(counts: Counter[Pair], letters: int, phones: int,
                  steps: Sequence[tuple[int, int, Pair, tuple[int, int]]], chances: Mapping[Pair, float]) -> None:
    """Add the expected counts of pairs in a word to ``counts``, by the forward-backward algorithm.

    ``letters``, ``phones``: numbers of letters and phones of the word. ``steps``: result of :func:`_steps`.
    ``chances``: probability of each pair.
    """
    forward = [[0.0] * (phones + 1) for _ in range(letters + 1)]
    backward = [[0.0] * (phones + 1) for _ in range(letters + 1)]
    forward[0][0] = backward[letters][phones] = 1.0
    for i, j, pair, (di, dj) in steps:
        forward[i + di][j + dj] += forward[i][j] * chances.get(pair, 0.0)
    total = forward[letters][phones]
    if total <= 0.0:
        return
    for i, j, pair, (di, dj) in reversed(steps):
        chance = chances.get(pair, 0.0) * backward[i + di][j + dj]
        backward[i][j] += chance
        if chance and forward[i][j]:
            counts[pair] += forward[i][j] * chance / total      # type: ignore[assignment]


def _best_pairs(word: str, phones: Phones, chances: Mapping[Pair, float]) -> list[Pair]:
    """Return the most probable segmentation of a word; empty if there is none."""
    best: dict[tuple[int, int], tuple[float, list[Pair]]] = {(0, 0): (0.0, [])}
    for i, j, pair, (di, dj) in _steps(word, phones):
        if (i, j) in best and pair in chances:
            value = best[i, j][0] + math.log(chances[pair])
            target = i + di, j + dj
            if target not in best or value > best[target][0]:
                best[target] = value, [*best[i, j][1], pair]
    return best.get((len(word), len(phones)), (0.0, []))[1]
