"""Lexicons: the phones of words, and the transducers L and L_disambig made from them.

Kaldi: ``utils/prepare_lang.sh``, ``make_lexicon_fst.py``, ``add_lex_disambig.pl``.
"""
from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nnet3py.decoding.arcs import GraphBuilder, cost
from nnet3py.decoding.symbols import EPSILON, SymbolTable, read_text
from nnet3py.errors import FormatError, UsageError
from nnet3py.graphs.grammar_fst import Nonterminals
from nnet3py.transducers.fst import Fst

logger = logging.getLogger(__name__)

BACKOFF = "#0"                                    # stands for the back-off arcs of a grammar
SENTENCE_START, SENTENCE_END = "<s>", "</s>"
NONTERMINAL = "#nonterm:"                         # begins the names of nonterminals, for grammars in parts
NONTERMINAL_BEGIN, NONTERMINAL_END, NONTERMINAL_BOS = "#nonterm_begin", "#nonterm_end", "#nonterm_bos"
_WORDS_OF_NONTERMINALS = (NONTERMINAL_BEGIN, NONTERMINAL_END)
_PHONES_OF_NONTERMINALS = (NONTERMINAL_BOS, NONTERMINAL_BEGIN, NONTERMINAL_END, "#nonterm_reenter")
_RESERVED = (EPSILON, BACKOFF, SENTENCE_START, SENTENCE_END)


@dataclass(frozen=True)
class Pronunciation:
    """One line of a lexicon."""

    word: str
    phones: tuple[str, ...]
    probability: float = 1.0


@dataclass(frozen=True)
class Silence:
    """The optional silence before and between words; none with probability 0."""

    phone: str = ""
    probability: float = 0.0


def read_lexicon(rxfilename: str, has_probabilities: bool | None = None) -> list[Pronunciation]:
    """Read lines ``WORD PHONE ...`` or ``WORD PROBABILITY PHONE ...``.

    ``has_probabilities`` None: assumed if every line has a number above 0, up to 1, as its second field, before
    phones. A pronunciation that occurs twice is used once, with a warning.

    Raises FormatError for a line without phones, a reserved word, or an invalid probability.
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
    """``words.txt``: epsilon, the words in alphabetical order, ``#0``, ``<s>``, ``</s>``."""
    words = sorted({pronunciation.word for pronunciation in lexicon})
    return SymbolTable.of([*words, BACKOFF, SENTENCE_START, SENTENCE_END], "word")


def lexicon_phones(lexicon: Iterable[Pronunciation], silence: Silence = Silence()) -> SymbolTable:
    """``phones.txt`` for a lexicon without one: the silence, then the phones in alphabetical order."""
    phones = sorted({phone for pronunciation in lexicon for phone in pronunciation.phones} - {silence.phone})
    return SymbolTable.of([silence.phone, *phones] if silence.phone else phones, "phone")


def disambiguation_numbers(pronunciations: Sequence[tuple[str, ...]]) -> list[int]:
    """For each pronunciation the n of the ``#n`` at its end, from 1; 0 for none.

    A pronunciation that no other equals or begins with needs none; others get numbers that distinguish words with the
    same phones.
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
    """A lexicon ready for graphs. Kaldi: the folder ``data/lang``.

    Attributes
    ----------
    words, phones : symbol tables; both have ``#0``, and phones the other disambiguation symbols
    lexicon : L_disambig, phones to words, with ``#n`` at the ends of pronunciations
    plain_lexicon : L, without disambiguation symbols
    silence : the optional silence
    """

    words: SymbolTable
    phones: SymbolTable
    lexicon: Fst
    plain_lexicon: Fst
    silence: Silence

    @property
    def nonterminals(self) -> Nonterminals | None:
        """The numbers of the nonterminals among the phones; None if there are none."""
        return Nonterminals(self.phones[NONTERMINAL_BOS]) if NONTERMINAL_BOS in self.phones else None


def make_lang(lexicon: Sequence[Pronunciation], phones: SymbolTable | None = None, silence: Silence = Silence(),
              nonterminals: Sequence[str] = (), before_words: Sequence[str] | None = None) -> Lang:
    """Symbol tables and transducers of a lexicon.

    Parameters
    ----------
    lexicon : pronunciations; see :func:`read_lexicon`
    phones : the phones of the model, with or without ``#n``; None to number those of the lexicon
    silence : a phone that may stand before and after every word, and how probable it is
    nonterminals : names such as ``#nonterm:contacts``, which stand for graphs inserted while decoding
    before_words : the phones that may come before a word, None for all

    Raises
    ------
    FormatError : a phone that the table lacks
    UsageError : a probability of silence outside 0 to 1; an invalid name of a nonterminal, or one given twice
    """
    if not 0.0 <= silence.probability < 1.0 or silence.probability and not silence.phone:
        raise UsageError(f"a probability of silence must be at least 0 and less than 1, and the silence phone known; "
                         f"found {silence.probability} and '{silence.phone}'")
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
    """UsageError for names that cannot be nonterminals, or occur twice."""
    for place, name in enumerate(names):
        if not name.startswith(NONTERMINAL) or name == NONTERMINAL or name in names[:place]:
            raise UsageError(f"expected different names such as {NONTERMINAL}contacts, found '{name}'")


def _check_phones(lexicon: Sequence[Pronunciation], phones: SymbolTable, silence: Silence) -> None:
    missing = {phone: pronunciation.word for pronunciation in lexicon for phone in pronunciation.phones
               if phone not in phones}
    if missing:
        phone, word = next(iter(missing.items()))
        raise FormatError(f"the lexicon's word {word} has the phone '{phone}', which {phones.path or 'the table'} "
                          f"lacks; {len(missing)} phones are missing",
                          hint="lexicon and model must have the same phones")
    if silence.phone:
        phones[silence.phone]


def _lexicon_fst(lexicon: Sequence[Pronunciation], words: SymbolTable, phones: SymbolTable, silence: Silence,
                 numbers: Sequence[int] | None, of_silence: int,
                 nonterminals: tuple[Sequence[str], Sequence[str]]) -> Fst:
    """Phones to words; ``numbers`` of the disambiguation symbols, or None.

    ``nonterminals``: their names, and the phones that may come before a word.
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
    """Nonterminals with all phones that may precede what follows, at a cost that decoding subtracts."""
    shared, last = graph.state(), graph.state()
    for source, name in ((0, NONTERMINAL_BEGIN), *((loop, name) for name in nonterminals)):
        graph.arc(source, phones[name], words[name], 0.0, shared)
    for name in before:
        graph.arc(shared, phones[name], 0, cost(1.0 / len(before)), loop)
    graph.arc(loop, phones[NONTERMINAL_END], words[NONTERMINAL_END], 0.0, last)
    graph.final(last)
