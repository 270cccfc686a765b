"""Lexicons: pronunciations, the transducers L and L_disambig, lang folders, and phones of transcripts.

Kaldi: ``utils/prepare_lang.sh``, ``make_lexicon_fst.py``, ``add_lex_disambig.pl``, ``text_to_phones.py``.
"""
from __future__ import annotations

import dataclasses
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.decoding.symbols import (
    BACKOFF,
    EPSILON,
    NONTERMINAL,
    NONTERMINAL_BEGIN,
    NONTERMINAL_BOS,
    NONTERMINAL_END,
    SENTENCE_END,
    SENTENCE_START,
    SymbolTable,
)
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.graphs.grammar_fst import Nonterminals
from nnet3py.io.streams import read_text, write_text
from nnet3py.random_sequence import unsigned
from nnet3py.transducers.fst import NO_WEIGHT, Fst

logger = logging.getLogger(__name__)

_WORDS_OF_NONTERMINALS = (NONTERMINAL_BEGIN, NONTERMINAL_END)
_PHONES_OF_NONTERMINALS = (NONTERMINAL_BOS, NONTERMINAL_BEGIN, NONTERMINAL_END, "#nonterm_reenter")
_RESERVED = (EPSILON, BACKOFF, SENTENCE_START, SENTENCE_END)


def cost(probability: float) -> float:
    """Return -log(probability); infinity for 0."""
    return -math.log(probability) if probability > 0.0 else math.inf


class GraphBuilder:
    """An FST to which states and arcs are added one by one; state 0 is the start."""

    def __init__(self) -> None:
        self.num_states = 1
        self._arcs: list[tuple[int, int, int, int]] = []      # source, input label, output label, next state
        self._weights: list[float] = []
        self._finals: dict[int, float] = {}

    def state(self) -> int:
        """Add a state, and return its number."""
        self.num_states += 1
        return self.num_states - 1

    def arc(self, source: int, input_label: int, output_label: int, weight: float, target: int) -> None:
        """Add an arc, unless its cost is infinite."""
        if weight != math.inf:
            self._arcs.append((source, input_label, output_label, target))
            self._weights.append(weight)

    def final(self, state: int, weight: float = 0.0) -> None:
        """Make a state final."""
        self._finals[state] = weight

    def fst(self) -> Fst:
        """Return the FST."""
        arcs = np.array(self._arcs, dtype=np.int32).reshape(-1, 4)
        final = np.full(self.num_states, NO_WEIGHT, dtype=np.float32)
        final[list(self._finals)] = list(self._finals.values())
        return Fst.from_arcs(0, final, arcs[:, 0], arcs[:, 1], arcs[:, 2], self._weights, arcs[:, 3])


@dataclass(frozen=True)
class Pronunciation:
    """A line of a lexicon: a word, its phones, and the probability of this pronunciation of the word."""

    word: str
    phones: tuple[str, ...]
    probability: float = 1.0


@dataclass(frozen=True)
class Silence:
    """The optional silence phone before and between words, and its probability, 0 for no silence."""

    phone: str = ""
    probability: float = 0.0


def read_lexicon(rxfilename: str, has_probabilities: bool | None = None) -> list[Pronunciation]:
    """Read a lexicon, lines ``WORD PHONE ...`` or ``WORD PROBABILITY PHONE ...``.

    If a pronunciation occurs twice, a warning is logged and the first one is used. Raises FormatError for a line
    without phones, a reserved word, or an invalid probability.

    Parameters
    ----------
    has_probabilities : whether lines have probabilities; None: they do if the second field of every line is a number
        above 0 and at most 1, and phones follow
    """
    rows = [(number, line.split()) for number, line in enumerate(read_text(rxfilename).split("\n"), 1) if line.strip()]
    if not rows:
        raise FormatError("expected lines WORD PHONE ..., found none", path=str(rxfilename))
    if has_probabilities is None:
        has_probabilities = all(len(fields) > 2 and _probability(fields[1]) is not None for _, fields in rows)
    first_phone = 2 if has_probabilities else 1
    pronunciations: dict[tuple[str, tuple[str, ...]], Pronunciation] = {}
    for number, fields in rows:
        probability = _probability(fields[1]) if has_probabilities and len(fields) > 1 else 1.0
        problem = (f"the word {fields[0]} is reserved" if fields[0] in _RESERVED else
                   f"the word {fields[0]} has no phones" if len(fields) <= first_phone else
                   f"'{fields[1]}' is not a probability" if probability is None else None)
        if problem:
            raise FormatError(f"line {number} of a lexicon: {problem}", path=str(rxfilename),
                              hint="a line is WORD PHONE PHONE ..., or WORD PROBABILITY PHONE PHONE ...")
        assert probability is not None
        pronunciation = Pronunciation(fields[0], tuple(fields[first_phone:]), probability)
        if (pronunciation.word, pronunciation.phones) in pronunciations:
            logger.warning("line %d of %s: this pronunciation of %s occurs twice", number, rxfilename,
                           pronunciation.word)
        pronunciations.setdefault((pronunciation.word, pronunciation.phones), pronunciation)
    return list(pronunciations.values())


def _probability(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.0 < value <= 1.0 else None


def lexicon_words(lexicon: Iterable[Pronunciation]) -> SymbolTable:
    """Return the table ``words.txt``: epsilon, the words in alphabetical order, ``#0``, ``<s>``, ``</s>``."""
    words = sorted({pronunciation.word for pronunciation in lexicon})
    return SymbolTable.of([*words, BACKOFF, SENTENCE_START, SENTENCE_END], "word")


def lexicon_phones(lexicon: Iterable[Pronunciation], silence: Silence = Silence()) -> SymbolTable:
    """Return a table ``phones.txt``: epsilon, the silence phone, then the lexicon's phones in alphabetical order."""
    phones = sorted({phone for pronunciation in lexicon for phone in pronunciation.phones} - {silence.phone})
    return SymbolTable.of([silence.phone, *phones] if silence.phone else phones, "phone")


def disambiguation_numbers(pronunciations: Sequence[tuple[str, ...]]) -> list[int]:
    """Return for each pronunciation the number n of its disambiguation symbol ``#n``, from 1; 0: it needs none.

    A pronunciation needs one if another equals it or begins with it; equal ones get different numbers.
    """
    counts = Counter(pronunciations)
    beginnings = {phones[:length] for phones in counts for length in range(1, len(phones))}
    used: Counter[tuple[str, ...]] = Counter()
    numbers = []
    for phones in pronunciations:
        needed = counts[phones] > 1 or phones in beginnings
        used[phones] += needed
        numbers.append(used[phones] if needed else 0)
    return numbers


@dataclass(frozen=True)
class Lang:
    """Symbol tables and transducers of a lexicon, from which graphs are made. Kaldi: the folder ``data/lang``.

    Attributes
    ----------
    words, phones : SymbolTable; both have ``#0``, and ``phones`` all other disambiguation symbols
    lexicon : Fst, L_disambig: phones to words, with ``#n`` at the ends of pronunciations
    plain_lexicon : Fst, L: the same without disambiguation symbols
    silence : Silence, the optional silence
    """

    words: SymbolTable
    phones: SymbolTable
    lexicon: Fst
    plain_lexicon: Fst
    silence: Silence

    @property
    def nonterminals(self) -> Nonterminals | None:
        """Numbers of the nonterminals among the phones; None if there are none."""
        return Nonterminals(self.phones[NONTERMINAL_BOS]) if NONTERMINAL_BOS in self.phones else None


def make_lang(lexicon: Sequence[Pronunciation], phones: SymbolTable | None = None, silence: Silence = Silence(),
              nonterminals: Sequence[str] = (), before_words: Sequence[str] | None = None) -> Lang:
    """Make the symbol tables and transducers of a lexicon.

    Raises FormatError for a phone that the table lacks; UsageError for a probability of silence outside 0 to 1, or an
    invalid or repeated name of a nonterminal.

    Parameters
    ----------
    lexicon : pronunciations, as of :func:`read_lexicon`
    phones : SymbolTable, the model's phones, with or without ``#n``; None: number the lexicon's phones
    silence : Silence, a phone that may stand before and after every word
    nonterminals : names such as ``#nonterm:contacts``, which stand for graphs inserted while decoding
    before_words : the phones that may come before a word; None: all
    """
    if not 0.0 <= silence.probability < 1.0 or silence.probability and not silence.phone:
        raise UsageError("expected a probability of silence from 0 to less than 1, and a silence phone if it is not "
                         f"0; found {silence.probability} and '{silence.phone}'")
    words = lexicon_words(lexicon)
    phones = phones or lexicon_phones(lexicon, silence)
    _check_phones(lexicon, phones, silence)
    numbers = disambiguation_numbers([pronunciation.phones for pronunciation in lexicon])
    of_silence = max(numbers) + 1
    phones = phones.extended([BACKOFF, *(f"#{n}" for n in range(1, of_silence + 1))])
    before = [name for number, name in sorted(phones.names.items()) if number and not name.startswith("#")]
    if nonterminals:
        check_nonterminals(nonterminals)
        words = words.extended([*_WORDS_OF_NONTERMINALS, *nonterminals])
        phones = phones.extended([*_PHONES_OF_NONTERMINALS, *nonterminals])
    entries = [*(before if before_words is None else before_words), NONTERMINAL_BOS] if nonterminals else []
    fst, plain = (_lexicon_fst(lexicon, words, phones, silence, given, last, (nonterminals, entries))
                  for given, last in ((numbers, of_silence), (None, 0)))
    return Lang(words, phones, fst, plain, silence)


def check_nonterminals(names: Sequence[str]) -> None:
    """Raise UsageError for names that cannot be nonterminals, or occur twice."""
    for place, name in enumerate(names):
        if not name.startswith(NONTERMINAL) or name == NONTERMINAL or name in names[:place]:
            raise UsageError(f"expected different names of nonterminals such as {NONTERMINAL}contacts, found '{name}'")


def _check_phones(lexicon: Sequence[Pronunciation], phones: SymbolTable, silence: Silence) -> None:
    missing = {phone: pronunciation.word for pronunciation in lexicon for phone in pronunciation.phones
               if phone not in phones}
    if missing:
        phone, word = next(iter(missing.items()))
        raise FormatError(f"the lexicon's word {word} has the phone '{phone}', which {phones.path or 'the table'} "
                          f"lacks; {len(missing)} phones are missing",
                          hint="lexicon and model must have the same phones")
    if silence.phone:
        phones[silence.phone]              # raises FormatError if there is none


def _lexicon_fst(lexicon: Sequence[Pronunciation], words: SymbolTable, phones: SymbolTable, silence: Silence,
                 numbers: Sequence[int] | None, of_silence: int,
                 nonterminals: tuple[Sequence[str], Sequence[str]]) -> Fst:
    """Return L_disambig or, if ``numbers`` is None, L.

    ``numbers`` are those of the pronunciations' disambiguation symbols, 0 for none; ``of_silence`` that after silence;
    ``nonterminals`` names of the nonterminals, and of the phones that may come before a word.
    """
    graph = GraphBuilder()
    if silence.probability == 0.0:
        loop, ends = 0, [(0, 0.0)]
    else:
        loop, before_silence = graph.state(), graph.state()
        ends = [(loop, cost(1.0 - silence.probability)), (before_silence, cost(silence.probability))]
        for state, weight in ends:
            graph.arc(0, 0, 0, weight, state)
        after_silence = loop if numbers is None else graph.state()
        graph.arc(before_silence, phones[silence.phone], 0, 0.0, after_silence)
        if numbers is not None:
            graph.arc(after_silence, phones[f"#{of_silence}"], 0, 0.0, loop)
    graph.final(loop)
    for place, pronunciation in enumerate(lexicon):
        labels = [phones[phone] for phone in pronunciation.phones]
        if numbers is not None and numbers[place]:
            labels.append(phones[f"#{numbers[place]}"])
        state, word, weight = loop, words[pronunciation.word], cost(pronunciation.probability)
        for label in labels[:-1]:
            following = graph.state()
            graph.arc(state, label, word, weight, following)
            state, word, weight = following, 0, 0.0
        for end, end_cost in ends:
            graph.arc(state, labels[-1], word, weight + end_cost, end)
    if nonterminals[0]:
        _add_nonterminals(graph, loop, words, phones, *nonterminals)
    return graph.fst()


def _add_nonterminals(graph: GraphBuilder, loop: int, words: SymbolTable, phones: SymbolTable,
                      nonterminals: Sequence[str], before: Sequence[str]) -> None:
    """Add nonterminals at state ``loop``, each followed by any of the phones that may come before the next word.

    The choice among these phones has a cost, which decoding subtracts.
    """
    shared, last = graph.state(), graph.state()
    for source, name in ((0, NONTERMINAL_BEGIN), *((loop, name) for name in nonterminals)):
        graph.arc(source, phones[name], words[name], 0.0, shared)
    for name in before:
        graph.arc(shared, phones[name], 0, cost(1.0 / len(before)), loop)
    graph.arc(loop, phones[NONTERMINAL_END], words[NONTERMINAL_END], 0.0, last)
    graph.final(last)


# -- lang folders ------------------------------------------------------------------------------------------------------

POSITIONS = {"_B": "begin", "_E": "end", "_I": "internal", "_S": "singleton"}    # in a word


def phone_forms(phone: str, silence: bool, positions: bool) -> list[str]:
    """Return the names of a phone for all positions in a word, or only its own name if there are no ``positions``.

    The names of a silence phone begin with its own, for silence between words.
    """
    return [*([phone] if silence or not positions else []), *(phone + suffix for suffix in POSITIONS if positions)]


def with_positions(lexicon: Iterable[Pronunciation]) -> list[Pronunciation]:
    """Return a lexicon whose phones are marked with their position in the word (``_B``, ``_I``, ``_E``, ``_S``)."""
    def named(phones: tuple[str, ...]) -> tuple[str, ...]:
        if len(phones) == 1:
            return (f"{phones[0]}_S",)
        return f"{phones[0]}_B", *(f"{phone}_I" for phone in phones[1:-1]), f"{phones[-1]}_E"

    return [dataclasses.replace(entry, phones=named(entry.phones)) for entry in lexicon]


def positioned(lexicon: list[Pronunciation], phones: SymbolTable) -> list[Pronunciation]:
    """Return the lexicon, with positions marked on phones if the phones of the table are marked so."""
    has_positions = any(f"{entry.phones[0]}{position}" in phones for entry in lexicon for position in POSITIONS)
    return with_positions(lexicon) if has_positions else lexicon


def write_phone_lists(folder: str | os.PathLike[str], phones: SymbolTable, silences: Sequence[str],
                      others: Sequence[str], positions: bool = False) -> None:
    """Write ``phones/`` of a lang folder, from which trees are built; the folder is made if necessary.

    Lists are written as names (``.txt``), numbers (``.int``) and some as numbers with colons (``.csl``): ``silence``,
    ``optional_silence`` (the first silence phone), ``context_indep`` (the silence phones) and ``nonsilence``; ``sets``,
    a line with all forms of a phone, which share a root of the tree; ``roots``, the same with how roots are split;
    ``extra_questions`` of the tree, for silence, speech and positions; ``word_boundary``, the position of each phone.

    Parameters
    ----------
    silences, others : names of phones, without positions
    positions : whether phones have a form for each position in a word
    """
    place = Path(folder) / "phones"
    place.mkdir(parents=True, exist_ok=True)
    sets = [phone_forms(phone, True, positions) for phone in silences], [
        phone_forms(phone, False, positions) for phone in others]
    silence_forms, other_forms = (sum(forms, []) for forms in sets)
    for name, members in (("silence", silence_forms), ("nonsilence", other_forms), ("optional_silence", silences[:1]),
                          ("context_indep", silence_forms)):
        numbers = [str(phones[phone]) for phone in members]
        write_text(str(place / f"{name}.txt"), "".join(f"{phone}\n" for phone in members))
        write_text(str(place / f"{name}.int"), "".join(f"{number}\n" for number in numbers))
        write_text(str(place / f"{name}.csl"), ":".join(numbers) + "\n")
    questions = [silence_forms, other_forms]
    if positions:
        questions += [[phone + suffix for phone in others] for suffix in POSITIONS]
        questions += [[phone + suffix for phone in silences] for suffix in ("", *POSITIONS)]
    for suffix, named in ((".txt", str), (".int", lambda phone: str(phones[phone]))):
        every = [" ".join(map(named, forms)) for forms in sum(sets, [])]
        write_text(str(place / f"sets{suffix}"), "".join(f"{forms}\n" for forms in every))
        write_text(str(place / f"roots{suffix}"), "".join(f"shared split {forms}\n" for forms in every))
        write_text(str(place / f"extra_questions{suffix}"), "".join(
            " ".join(map(named, members)) + "\n" for members in questions))
        if positions:
            write_text(str(place / f"word_boundary{suffix}"), "".join(
                f"{named(phone)} {'nonword' if phone in silences else POSITIONS[phone[-2:]]}\n"
                for phone in (*silence_forms, *other_forms)))


# -- phones of transcripts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RandomSilence:
    """Probabilities of silence before and after an utterance and between words; no silence if ``phone`` is empty."""

    phone: str = ""
    at_edges: float = 0.8
    between: float = 0.1

    def check(self) -> None:
        """Raise UsageError for numbers that are not probabilities."""
        if not (0.0 <= self.at_edges <= 1.0 and 0.0 <= self.between <= 1.0):
            raise UsageError(f"expected probabilities of silence from 0 to 1, found {self.at_edges:g} at the edges "
                             f"and {self.between:g} between words")


class UnknownWordError(Nnet3Error):
    """A transcript with a word that the lexicon lacks."""


class TextPhones:
    """A function from words to phones with random pronunciations and silences, for end-to-end training.

    The pronunciations of a word are drawn by their probabilities. Words that the lexicon lacks are replaced by
    ``unknown_word``; if that is empty, they are errors. ``seed`` is that of all random choices. Raises FormatError for
    a phone that the table lacks; UsageError for invalid probabilities, or an ``unknown_word`` that the lexicon lacks.
    """

    def __init__(self, lexicon: Iterable[Pronunciation], phones: SymbolTable,
                 silence: RandomSilence = RandomSilence(), unknown_word: str = "", seed: int = 0) -> None:
        silence.check()
        self._pronunciations: dict[str, list[list[int]]] = {}
        weights: dict[str, list[float]] = {}
        for pronunciation in lexicon:
            self._pronunciations.setdefault(pronunciation.word,
                                            []).append([phones[phone] for phone in pronunciation.phones])
            weights.setdefault(pronunciation.word, []).append(pronunciation.probability)
        self._cumulative = {word: np.cumsum(of_word) / np.sum(of_word) for word, of_word in weights.items()}
        if unknown_word and unknown_word not in self._pronunciations:
            raise UsageError(f"the lexicon lacks the word '{unknown_word}' that is to stand for unknown words")
        self._silence_phone = phones[silence.phone] if silence.phone else 0
        self._silence, self._unknown, self._seed = silence, unknown_word, seed

    @cached_property
    def _random(self) -> np.random.Generator:
        return np.random.default_rng(unsigned(self._seed))     # made when needed: numpy.random takes 10 ms to load

    def __call__(self, words: Sequence[str]) -> list[int]:
        """Return the phones of an utterance. Raises UnknownWordError for a word that the lexicon lacks."""
        replaced = [word if word in self._pronunciations else self._unknown for word in words]
        if "" in replaced:
            raise UnknownWordError(f"the word '{words[replaced.index('')]}' is not in the lexicon")
        phones: list[int] = []
        for place, word in enumerate(replaced):
            self._add_silence(phones, self._silence.between if place else self._silence.at_edges)
            choice = int(np.searchsorted(self._cumulative[word], self._random.random(), side="right"))
            phones += self._pronunciations[word][choice]
        self._add_silence(phones, self._silence.at_edges)
        return phones

    def _add_silence(self, phones: list[int], probability: float) -> None:
        if self._silence_phone and self._random.random() < probability:
            phones.append(self._silence_phone)
