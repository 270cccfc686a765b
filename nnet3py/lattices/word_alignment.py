"""Aligning lattices so that arcs are whole words, with word-position phones. Kaldi: WordAlignLattice."""
from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, NamedTuple

from nnet3py.errors import FormatError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.aligned_output import NO_WORD, ONE, AlignedOutput, Ids, most_states
from nnet3py.lattices.input_arcs import InputArcs, Transitions
from nnet3py.transducers.compact_lattice import CompactLattice

logger = logging.getLogger(__name__)

NONWORD, BEGIN, END, INTERNAL, SINGLETON = "nonword", "begin", "end", "internal", "singleton"


@dataclass(frozen=True)
class WordBoundaries:
    """How words are found (Kaldi: WordBoundaryInfo).

    Attributes
    ----------
    kinds : for each phone ``nonword``, ``begin``, ``end``, ``internal`` or ``singleton``
    silence_label, partial_word_label : labels of nonword phones, and of words that are cut at the end
    reorder : self-loops come after the transitions that leave their states
    """

    kinds: dict[int, str]
    silence_label: int = 0
    partial_word_label: int = 0
    reorder: bool = True


def read_word_boundaries(text: str, path: str = "") -> dict[int, str]:
    """The kinds of phones, of the text of word_boundary.int.

    Parameters
    ----------
    text : lines ``PHONE KIND``, phones being numbers
    path : the file, for messages

    Returns
    -------
    For each phone ``nonword``, ``begin``, ``end``, ``internal`` or ``singleton``; for :class:`WordBoundaries`.

    Raises
    ------
    FormatError : any other line
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


class _Pending(NamedTuple):
    """Where the search is: a state of the lattice, and what was passed but not output yet."""

    state: int
    ids: Ids
    words: Ids


class Alignment(NamedTuple):
    """An aligned lattice.

    Attributes
    ----------
    lattice : perhaps empty
    problem : what was wrong; an empty text for nothing
    """

    lattice: CompactLattice
    problem: str


def align_words(lattice: CompactLattice, model: TransitionModel, boundaries: WordBoundaries,
                max_expand: float = 0.0) -> Alignment:
    """A lattice with an arc for each word, so that words have times. Kaldi: lattice-align-words.

    Parameters
    ----------
    lattice : compact
    model : knows the phones of its transition-ids
    boundaries : by which phones words are found
    max_expand : if positive, the result has at most that many times the lattice's states plus 1000

    Returns
    -------
    The lattice, with an arc without a word for each phone that belongs to none; and what was wrong, if anything.
    """
    if lattice.start < 0:
        return Alignment(lattice, "the lattice is empty")
    return _WordAligner(lattice, model, boundaries, max_expand).align()


class _WordAligner:
    def __init__(self, lattice: CompactLattice, model: TransitionModel, boundaries: WordBoundaries,
                 max_expand: float) -> None:
        self.input, self.transitions = InputArcs.of(lattice, model), Transitions.of(model)
        self.boundaries = boundaries
        self.output = AlignedOutput(most_states(max_expand, lattice.num_states))
        self.problem = ""

    def align(self) -> Alignment:
        """The aligned lattice, and what was wrong with it, if anything."""
        output = self.output
        output.state_of(_Pending(self.input.start, (), ()))
        while output.waiting:
            if output.is_too_large:
                self._complain(f"it has more than {len(output.arcs) - 1} states")
                break
            pending: Any
            pending, state = output.waiting.pop()
            self._go_on(pending, state)
        return Alignment(output.lattice(remove_epsilons=True), self.problem)

    def _complain(self, text: str) -> None:
        self.problem = self.problem or text

    def _go_on(self, pending: _Pending, state: int) -> None:
        """Output what is complete; only if there is nothing, follow the arcs of the lattice."""
        completed = self._complete(pending)
        if completed is not None:
            self._put_out(state, pending, *completed)
            return
        if pending.state == self.input.final:
            if not pending.ids and not pending.words:
                self.output.finals[state] = ONE
            else:
                self._put_out(state, pending, *self._forced(pending))
        for word, ids, weight, target in self.input.arcs[pending.state]:
            words = (*pending.words, word) if word else pending.words
            following = self.output.state_of(_Pending(target, pending.ids + ids, words))
            self.output.arcs[state].append((0, following, weight))

    def _put_out(self, state: int, pending: _Pending, label: int, num_ids: int, num_words: int) -> None:
        following = self.output.state_of(_Pending(pending.state, pending.ids[num_ids:], pending.words[num_words:]))
        weight = (*ONE[:2], pending.ids[:num_ids])
        # 0 is for epsilons only; an arc that drops a word has neither a label nor transition-ids
        self.output.arcs[state].append((label or (NO_WORD if num_ids else 0), following, weight))

    def _complete(self, pending: _Pending) -> tuple[int, int, int] | None:
        """What is known to be complete: its label, and how many transition-ids and words it takes."""
        ids, kinds = pending.ids, self.boundaries.kinds
        if not ids:
            return None
        kind = kinds.get(self.transitions.phones[ids[0]], INTERNAL)
        if kind == BEGIN and pending.words:
            end = self._word_end(ids)
            return (pending.words[0], end, 1) if end else None
        if kind == NONWORD or (kind == SINGLETON and pending.words):
            end = self._phone_end(ids, 0)
            if end:
                return (pending.words[0], end, 1) if kind == SINGLETON else (self.boundaries.silence_label, end, 0)
        return None

    def _phone_end(self, ids: Ids, begin: int) -> int:
        end, broken = self.transitions.phone_end(ids, begin, self.boundaries.reorder)
        if broken:
            self._complain("a phone changes before its final transition-id: a broken lattice, another model, or a "
                           "wrong --reorder")
        return end

    def _word_end(self, ids: Ids) -> int:
        """Where a word of several phones ends; 0 if that cannot be seen yet."""
        place = self._phone_end(ids, 0)
        if not place:
            return 0
        phones, kinds = self.transitions.phones, self.boundaries.kinds
        while place < len(ids) and (kind := kinds.get(phones[ids[place]])) != END:
            if kind != INTERNAL:
                self._complain(f"phone {phones[ids[place]]} is inside a word, but no phone of that kind")
            place += 1
        return self._phone_end(ids, place) if place < len(ids) else 0

    def _forced(self, pending: _Pending) -> tuple[int, int, int]:
        """What is output at the end of the lattice, where nothing follows that could show where it ends."""
        ids, words = pending.ids, pending.words
        if not ids:
            self._complain("a word at the end has no transition-ids")
            return 0, 0, len(words)
        phones, kinds = self.transitions.phones, self.boundaries.kinds
        first, last = kinds.get(phones[ids[0]]), kinds.get(phones[ids[-1]])
        ends = self.transitions.reaches_end(ids, self.boundaries.reorder)
        if words:
            if not ends or not ((first, last) == (BEGIN, END) or
                                first == SINGLETON and phones[ids[0]] == phones[ids[-1]]):
                self._complain("the last word is not complete")
            return words[0], len(ids), 1
        if first == NONWORD:
            if not ends or phones[ids[0]] != phones[ids[-1]]:
                self._complain("the last phone, which belongs to no word, is not complete")
            return self.boundaries.silence_label, len(ids), 0
        self._complain("a part of a word is at the end")
        return self.boundaries.partial_word_label, len(ids), 0
