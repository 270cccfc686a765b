"""Lattices aligned with words: an arc for each word, found by positions of phones in words, or by a lexicon.

Kaldi: ``WordAlignLattice``, ``WordAlignLatticeLexicon``.
"""
from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from nnet3py.errors import FormatError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.phone_alignment import (
    NO_WORD,
    ONE,
    Aligner,
    Alignment,
    Ids,
    Pending,
    align_phones,
    most_states,
)
from nnet3py.transducers.compact_lattice import CompactLattice

logger = logging.getLogger(__name__)

NONWORD, BEGIN, END, INTERNAL, SINGLETON = "nonword", "begin", "end", "internal", "singleton"


@dataclass(frozen=True)
class WordBoundaries:
    """Positions of phones in words, and labels of arcs that are not whole words (Kaldi: WordBoundaryInfo).

    Attributes
    ----------
    kinds : dict, for each phone ``nonword``, ``begin``, ``end``, ``internal`` or ``singleton``
    silence_label, partial_word_label : int, labels of nonword phones, and of words that the end of the lattice cuts off
    reorder : bool, self-loops come after the transitions that leave their states
    """

    kinds: dict[int, str]
    silence_label: int = 0
    partial_word_label: int = 0
    reorder: bool = True


def read_word_boundaries(text: str, path: str = "") -> dict[int, str]:
    """Parse the text of word_boundary.int; FormatError for any other line.

    Parameters
    ----------
    text : lines ``PHONE KIND``, phones being numbers
    path : str, name of the file, for messages

    Returns
    -------
    dict, for each phone ``nonword``, ``begin``, ``end``, ``internal`` or ``singleton``, for :class:`WordBoundaries`.
    """
    kinds: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if len(fields) != 2 or not fields[0].isdecimal() or len(fields[0]) > 9 or fields[1] not in (
                NONWORD, BEGIN, END, INTERNAL, SINGLETON) or not int(fields[0]):
            raise FormatError(f"line {number} of a word-boundary file is not PHONE nonword|begin|end|internal|"
                              f"singleton: {line[:80]!r}", path=path, hint="phones are numbers: use "
                              "word_boundary.int")
        if int(fields[0]) in kinds:
            raise FormatError(f"phone {fields[0]} occurs twice in a word-boundary file", path=path)
        kinds[int(fields[0])] = fields[1]
    return kinds


def align_words(lattice: CompactLattice, model: TransitionModel, boundaries: WordBoundaries,
                max_expand: float = 0.0) -> Alignment:
    """Return a lattice with an arc for each word, so that words have times. Kaldi: lattice-align-words.

    Parameters
    ----------
    lattice : CompactLattice
    model : TransitionModel, which maps transition-ids to phones
    boundaries : WordBoundaries
    max_expand : float; if positive, the result has at most that many times the lattice's states plus 1000

    Returns
    -------
    Alignment; phones that belong to no word have arcs of their own, without a word.
    """
    if lattice.start < 0:
        return Alignment(lattice, "the lattice is empty")
    aligner = _WordAligner(lattice, model, boundaries, max_expand)
    return aligner.align(Pending(aligner.input.start, (), ()))


class _WordAligner(Aligner):
    def __init__(self, lattice: CompactLattice, model: TransitionModel, boundaries: WordBoundaries,
                 max_expand: float) -> None:
        super().__init__(lattice, model, most_states(max_expand, lattice.num_states))
        self.boundaries = boundaries

    def expand(self, pending: Pending, state: int) -> None:
        """Output a complete word or nonword phone; only if there is none, follow the arcs of the input."""
        completed = self._complete(pending)
        if completed is not None:
            self._put_out(state, pending, *completed)
            return
        if pending.state == self.input.final:
            if not pending.ids and not pending.words:
                self.finals[state] = ONE
            else:
                self._put_out(state, pending, *self._forced(pending))
        for word, ids, weight, target in self.input.arcs[pending.state]:
            words = (*pending.words, word) if word else pending.words
            self.follow(state, weight, Pending(target, pending.ids + ids, words))

    def _put_out(self, state: int, pending: Pending, label: int, num_ids: int, num_words: int) -> None:
        # 0 is for epsilons only; an arc that drops a word has neither a label nor transition-ids
        self.put_out(state, label or (NO_WORD if num_ids else 0), pending.ids[:num_ids],
                     Pending(pending.state, pending.ids[num_ids:], pending.words[num_words:]))

    def _complete(self, pending: Pending) -> tuple[int, int, int] | None:
        """Find a complete word or nonword phone at the beginning of what is pending; None if more is needed.

        Return its label and its numbers of transition-ids and words.
        """
        ids, kinds = pending.ids, self.boundaries.kinds
        if not ids:
            return None
        kind = kinds.get(self.transitions.phones[ids[0]], INTERNAL)
        if kind == BEGIN and pending.words:
            end = self._word_end(ids)
            return (pending.words[0], end, 1) if end else None
        if kind == NONWORD or (kind == SINGLETON and pending.words):
            end = self.phone_end(ids, 0, self.boundaries.reorder)
            if end:
                return (pending.words[0], end, 1) if kind == SINGLETON else (self.boundaries.silence_label, end, 0)
        return None

    def _word_end(self, ids: Ids) -> int:
        """Return the end of the word of several phones with which ``ids`` begin; 0 if more transition-ids are needed.
        """
        place = self.phone_end(ids, 0, self.boundaries.reorder)
        if not place:
            return 0
        phones, kinds = self.transitions.phones, self.boundaries.kinds
        while place < len(ids) and (kind := kinds.get(phones[ids[place]])) != END:
            if kind != INTERNAL:
                self.complain(f"phone {phones[ids[place]]} is inside a word, but no phone of that kind")
            place += 1
        return self.phone_end(ids, place, self.boundaries.reorder) if place < len(ids) else 0

    def _forced(self, pending: Pending) -> tuple[int, int, int]:
        """Choose what to output at the end of the lattice, where a word may be incomplete, and report irregularities.

        Return a label, and the numbers of transition-ids and words.
        """
        ids, words = pending.ids, pending.words
        if not ids:
            self.complain("a word at the end has no transition-ids")
            return 0, 0, len(words)
        phones, kinds = self.transitions.phones, self.boundaries.kinds
        first, last = kinds.get(phones[ids[0]]), kinds.get(phones[ids[-1]])
        ends = self.transitions.reaches_end(ids, self.boundaries.reorder)
        if words:
            if not ends or not ((first, last) == (BEGIN, END) or
                                first == SINGLETON and phones[ids[0]] == phones[ids[-1]]):
                self.complain("the last word is not complete")
            return words[0], len(ids), 1
        if first == NONWORD:
            if not ends or phones[ids[0]] != phones[ids[-1]]:
                self.complain("the last phone, which belongs to no word, is not complete")
            return self.boundaries.silence_label, len(ids), 0
        self.complain("a part of a word is at the end")
        return self.boundaries.partial_word_label, len(ids), 0


_LARGEST = 2**31 - 1


class AlignmentLexicon:
    """Pronunciations of words, by which :func:`align_words_by_lexicon` finds words.

    Parameters
    ----------
    rows : list, for each pronunciation: word in the lattice, word in the aligned lattice, phones

    Attributes
    ----------
    entries : dict from (word in the lattice or 0, phones) to the word in the aligned lattice
    num_phones : dict, for each word the lengths of its shortest and longest pronunciation
    beginnings : dict from each proper prefix of a pronunciation to the words that have such pronunciations

    Kaldi: WordAlignLatticeLexiconInfo.
    """

    def __init__(self, rows: list[tuple[int, int, Ids]]) -> None:
        self.entries: dict[tuple[int, Ids], int] = {}
        self.num_phones: dict[int, tuple[int, int]] = {}
        self.beginnings: dict[Ids, set[int]] = defaultdict(set)
        for word, becomes, phones in rows:
            self.entries[word, phones] = becomes
            least, most = self.num_phones.get(word, (len(phones), len(phones)))
            self.num_phones[word] = min(least, len(phones)), max(most, len(phones))
            for length in range(len(phones)):
                self.beginnings[phones[:length]].add(word)

    def may_go_on(self, phones: Ids, words: Ids) -> bool:
        """Return whether ``phones`` are a proper prefix of a pronunciation of the first of ``words``, or of no word."""
        lengths = self.beginnings.get(phones)
        return lengths is not None and (not words or words[0] in lengths or 0 in lengths)


def read_alignment_lexicon(text: str, path: str = "") -> AlignmentLexicon:
    """Parse the text of align_lexicon.int; FormatError for any other line.

    Parameters
    ----------
    text : lines ``WORD-IN-LATTICE WORD PHONE ...``, all numbers
    path : str, name of the file, for messages

    Returns
    -------
    AlignmentLexicon, for :func:`align_words_by_lexicon`.
    """
    rows: list[tuple[int, int, Ids]] = []
    entries: set[tuple[int, Ids]] = set()
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        numbers = [int(field) for field in fields if field.isdecimal() and len(field) < 11]
        if len(fields) < 2 or len(numbers) != len(fields) or max(numbers) > _LARGEST or 0 in numbers[2:]:
            raise FormatError(f"line {number} of a lexicon for alignment is not WORD WORD PHONE ... in numbers: "
                              f"{line[:80]!r}", path=path, hint="use align_lexicon.int")
        word, becomes, phones = numbers[0], numbers[1], tuple(numbers[2:])
        if not word and not phones:
            raise FormatError(f"line {number} of a lexicon for alignment has neither a word nor phones", path=path)
        if (word, phones) in entries:
            raise FormatError(f"line {number} of a lexicon for alignment repeats an entry: {line[:80]!r}", path=path)
        entries.add((word, phones))
        rows.append((word, becomes, phones))
    return AlignmentLexicon(rows)


class _PendingPhones(NamedTuple):
    """A pair that the search visits: an input state, and the phones and words read but not output yet.

    Words are output as soon as possible. Only pronunciations that were not possible before are tried, so that no arc is
    made twice: those that end with the last phone or belong to the first word, if it is new; after an output, all.
    """

    state: int
    phones: Ids
    ids: tuple[Ids, ...]            # of each phone
    words: Ids
    all_is_new: bool
    last_phone_is_new: bool
    first_word_is_new: bool


def align_words_by_lexicon(lattice: CompactLattice, model: TransitionModel, lexicon: AlignmentLexicon,
                           partial_word_label: int = 0, reorder: bool = True, max_expand: float = -1.0) -> Alignment:
    """Return a lattice with an arc for each word, found by pronunciations. Kaldi: lattice-align-words-lexicon.

    Parameters
    ----------
    lattice : CompactLattice
    model : TransitionModel, which maps transition-ids to phones
    lexicon : AlignmentLexicon
    partial_word_label : int, label of words that are cut at the end; 0 for none
    reorder : bool, self-loops come after the transitions that leave their states
    max_expand : float; if positive, the result has at most that many times the lattice's states plus 1000

    Returns
    -------
    Alignment; one path of the lattice may have become several.
    """
    if lattice.start < 0:
        return Alignment(lattice, "the lattice is empty")
    by_phones, problem = align_phones(lattice, model, reorder, remove_epsilons=False)
    if by_phones.start < 0:
        return Alignment(by_phones, problem or "no phones could be found")
    aligner = _LexiconAligner(by_phones, model, lexicon, partial_word_label,
                              most_states(max_expand, lattice.num_states))
    aligned = aligner.align(_PendingPhones(aligner.input.start, (), (), (), False, False, False))
    return Alignment(aligned.lattice, problem or aligned.problem)


class _LexiconAligner(Aligner):
    def __init__(self, lattice: CompactLattice, model: TransitionModel, lexicon: AlignmentLexicon,
                 partial_word_label: int, max_states: int | None) -> None:
        super().__init__(lattice, model, max_states)
        self.lexicon, self.partial_word_label = lexicon, partial_word_label
        self.unfinished: list[tuple[_PendingPhones, int]] = []

    def expand(self, pending: _PendingPhones, state: int) -> None:
        """Output words that the pending phones spell; follow the input's arcs if a word may have more phones."""
        self._put_out_words(pending, state)
        self._follow_arcs(pending, state)

    def finish(self) -> None:
        """If no path ends with a whole word, output all that is pending at the end as partial words."""
        if not self.finals and self.unfinished:
            self.complain("no path ends with a whole word of the lexicon")
            self._force_ends()

    def _put_out_words(self, pending: _PendingPhones, state: int) -> None:
        """Output an arc for each pronunciation with which the pending phones begin and that was not possible before."""
        size = len(pending.phones)
        for word in (0, *pending.words[:1]):
            least, most = self.lexicon.num_phones.get(word, (1, 0))
            all_lengths = pending.all_is_new or (word != 0 and pending.first_word_is_new)
            if not all_lengths and not pending.last_phone_is_new:
                continue
            for length in range(least if all_lengths else max(least, size), min(most, size) + 1):
                becomes = self.lexicon.entries.get((word, pending.phones[:length]))
                if becomes is not None:
                    self._put_out(pending, state, becomes, length, 1 if word else 0)

    def _put_out(self, pending: _PendingPhones, state: int, label: int, num_phones: int, num_words: int) -> None:
        phones, words = pending.phones[num_phones:], pending.words[num_words:]
        ids = tuple(id_ for part in pending.ids[:num_phones] for id_ in part)
        self.put_out(state, label or (NO_WORD if ids else 0), ids, _PendingPhones(
            pending.state, phones, pending.ids[num_phones:], words, bool(phones or words), False, False))

    def _follow_arcs(self, pending: _PendingPhones, state: int) -> None:
        """Follow the arcs of the input if the pending phones are the beginning of a pronunciation."""
        if pending.state == self.input.final:
            if not pending.phones and not pending.words:
                self.finals[state] = ONE
            else:
                self.unfinished.append((pending, state))
        if not self.lexicon.may_go_on(pending.phones, pending.words):
            return
        for word, ids, weight, target in self.input.arcs[pending.state]:
            phones = (*pending.phones, self.transitions.phones[ids[0]]) if ids else pending.phones
            words = (*pending.words, word) if word else pending.words
            self.follow(state, weight, _PendingPhones(
                target, phones, (*pending.ids, ids) if ids else pending.ids, words, False, bool(ids),
                bool(word) and not pending.words))

    def _force_ends(self) -> None:
        for pending, state in self.unfinished:
            label = pending.words[0] if pending.words else self.partial_word_label
            if pending.ids:
                self._put_out(pending, state, label, len(pending.phones), len(pending.words))
            else:
                self._put_out(pending, state, 0, 0, len(pending.words))
        while self.waiting:
            _, state = self.waiting.pop()
            self.finals[state] = ONE
