"""Aligning lattices so that arcs are whole words, with a lexicon. Kaldi: WordAlignLatticeLexicon."""
from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from nnet3py.errors import FormatError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.aligned_output import NO_WORD, ONE, AlignedOutput, Ids, most_states
from nnet3py.lattices.input_arcs import InputArcs, Transitions
from nnet3py.lattices.phone_alignment import align_phones
from nnet3py.lattices.word_alignment import Alignment
from nnet3py.transducers.compact_lattice import CompactLattice

_LARGEST = 2**31 - 1


class AlignmentLexicon:
    """The words with their phones, by which :func:`align_words_by_lexicon` finds words.

    Parameters
    ----------
    rows : the word in the lattice, the word that it becomes, and phones, of each pronunciation

    Attributes
    ----------
    entries : for a word of the lattice (0: none) and its phones, the word that it becomes
    num_phones : for each word, the least and the greatest number of phones
    beginnings : for each proper beginning of a pronunciation, the words that begin so

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
        """Whether more phones can complete ``phones`` to a word."""
        lengths = self.beginnings.get(phones)
        return lengths is not None and (not words or words[0] in lengths or 0 in lengths)


def read_alignment_lexicon(text: str, path: str = "") -> AlignmentLexicon:
    """The lexicon of the text of align_lexicon.int.

    Parameters
    ----------
    text : lines ``WORD-IN-LATTICE WORD PHONE ...``, all numbers
    path : the file, for messages

    Returns
    -------
    For :func:`align_words_by_lexicon`.

    Raises
    ------
    FormatError : any other line
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


class _Pending(NamedTuple):
    """Where the search is: a state of the lattice, and what was passed but not output yet.

    Everything is output as soon as possible: so only what ``last_phone_is_new``, ``first_word_is_new`` or, just after
    an output, ``all_is_new`` makes possible is tried. No arc is made twice.
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
    """A lattice with an arc for each word, found by their pronunciations. Kaldi: lattice-align-words-lexicon.

    Parameters
    ----------
    lattice : compact
    model : knows the phones of its transition-ids
    lexicon : the pronunciations
    partial_word_label : of words that are cut at the end; 0: none
    reorder : self-loops come after the transitions that leave their states
    max_expand : if positive, the result has at most that many times the lattice's states plus 1000

    Returns
    -------
    The lattice, in which one path may have become several; and what was wrong, if anything.
    """
    if lattice.start < 0:
        return Alignment(lattice, "the lattice is empty")
    by_phones, problem = align_phones(lattice, model, reorder, remove_epsilons=False)
    if by_phones.start < 0:
        return Alignment(by_phones, problem or "no phones could be found")
    aligner = _LexiconAligner(by_phones, model, lexicon, partial_word_label,
                              most_states(max_expand, lattice.num_states))
    aligned = aligner.align()
    return Alignment(aligned.lattice, problem or aligned.problem)


class _LexiconAligner:
    def __init__(self, lattice: CompactLattice, model: TransitionModel, lexicon: AlignmentLexicon,
                 partial_word_label: int, most: int | None) -> None:
        self.input, self.phones = InputArcs.of(lattice, model), Transitions.of(model).phones
        self.lexicon, self.partial_word_label = lexicon, partial_word_label
        self.output = AlignedOutput(most)
        self.unfinished: list[tuple[_Pending, int]] = []
        self.problem = ""

    def align(self) -> Alignment:
        """The aligned lattice, and what was wrong with it, if anything."""
        output = self.output
        output.state_of(_Pending(self.input.start, (), (), (), False, False, False))
        while output.waiting:
            if output.is_too_large:
                self.problem = f"it has more than {len(output.arcs) - 1} states"
                break
            pending: Any
            pending, state = output.waiting.pop()
            self._put_out_words(pending, state)
            self._go_on(pending, state)
        if not output.finals and self.unfinished:
            self.problem = self.problem or "no path ends with a whole word of the lexicon"
            self._force_ends()
        return Alignment(output.lattice(remove_epsilons=True), self.problem)

    def _put_out_words(self, pending: _Pending, state: int) -> None:
        """An arc for each word, and each filler, that the first phones make and that was not output before."""
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

    def _put_out(self, pending: _Pending, state: int, label: int, num_phones: int, num_words: int) -> None:
        phones, words = pending.phones[num_phones:], pending.words[num_words:]
        following = self.output.state_of(_Pending(pending.state, phones, pending.ids[num_phones:], words,
                                                  bool(phones or words), False, False))
        ids = tuple(id_ for part in pending.ids[:num_phones] for id_ in part)
        self.output.arcs[state].append((label or (NO_WORD if ids else 0), following, (*ONE[:2], ids)))

    def _go_on(self, pending: _Pending, state: int) -> None:
        """Follow the arcs of the lattice, if what is pending can still become a word."""
        if pending.state == self.input.final:
            if not pending.phones and not pending.words:
                self.output.finals[state] = ONE
            else:
                self.unfinished.append((pending, state))
        if not self.lexicon.may_go_on(pending.phones, pending.words):
            return
        for word, ids, weight, target in self.input.arcs[pending.state]:
            phones = (*pending.phones, self.phones[ids[0]]) if ids else pending.phones
            words = (*pending.words, word) if word else pending.words
            following = self.output.state_of(_Pending(
                target, phones, (*pending.ids, ids) if ids else pending.ids, words, False, bool(ids),
                bool(word) and not pending.words))
            self.output.arcs[state].append((0, following, weight))

    def _force_ends(self) -> None:
        """Make everything pending at the end a word."""
        for pending, state in self.unfinished:
            label = pending.words[0] if pending.words else self.partial_word_label
            if pending.ids:
                self._put_out(pending, state, label, len(pending.phones), len(pending.words))
            else:
                self._put_out(pending, state, 0, 0, len(pending.words))
        while self.output.waiting:
            _, state = self.output.waiting.pop()
            self.output.finals[state] = ONE
