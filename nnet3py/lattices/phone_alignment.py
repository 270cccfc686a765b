"""Aligning lattices so that arcs are whole phones. Kaldi: PhoneAlignLattice, ConvertLatticeToPhones."""
from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.aligned_output import ONE, AlignedOutput, Ids
from nnet3py.lattices.input_arcs import InputArcs, Transitions
from nnet3py.lattices.word_alignment import Alignment
from nnet3py.transducers.arc_starts import starts_of
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst


class _Pending(NamedTuple):
    """Where the search is: a state of the lattice, and what was passed but not output yet."""

    state: int
    ids: Ids
    words: Ids


def align_phones(lattice: CompactLattice, model: TransitionModel, reorder: bool = True, remove_epsilons: bool = True,
                 replace_words: bool = False) -> Alignment:
    """A lattice with an arc for each phone. Kaldi: lattice-align-phones.

    Parameters
    ----------
    lattice : compact
    model : knows the phones of its transition-ids
    reorder : self-loops come after the transitions that leave their states
    remove_epsilons : join arcs without a word to those that follow, although they have transition-ids
    replace_words : make the phones the labels; each arc then stays one phone whatever ``remove_epsilons`` is

    Returns
    -------
    The lattice, whose words are where they were, or later; and what was wrong, if anything.
    """
    if lattice.start < 0:
        return Alignment(lattice, "the lattice is empty")
    return _PhoneAligner(lattice, model, reorder, replace_words).align(remove_epsilons)


class _PhoneAligner:
    def __init__(self, lattice: CompactLattice, model: TransitionModel, reorder: bool, replace_words: bool) -> None:
        self.input, self.transitions = InputArcs.of(lattice, model), Transitions.of(model)
        self.reorder, self.replace_words = reorder, replace_words
        self.output = AlignedOutput(None)
        self.problem = ""

    def align(self, remove_epsilons: bool) -> Alignment:
        """The aligned lattice, and what was wrong with it, if anything."""
        output = self.output
        output.state_of(_Pending(self.input.start, (), ()))
        while output.waiting:
            pending: Any
            pending, state = output.waiting.pop()
            self._go_on(pending, state)
        return Alignment(output.lattice(remove_epsilons), self.problem)

    def _go_on(self, pending: _Pending, state: int) -> None:
        ids = pending.ids
        end, broken = self.transitions.phone_end(ids, 0, self.reorder) if ids else (0, False)
        if broken:
            self.problem = self.problem or ("a phone changes before its final transition-id: a broken lattice, another "
                                            "model, or a wrong --reorder")
        if end or len(pending.words) > 1:
            self._put_out(state, pending, end)
            return
        if pending.state == self.input.final:
            if not ids and not pending.words:
                self.output.finals[state] = ONE
            else:
                if ids and not self.transitions.reaches_end(ids, self.reorder):
                    self.problem = self.problem or "the last phone is not complete"
                self._put_out(state, pending, len(ids))
        for word, arc_ids, weight, target in self.input.arcs[pending.state]:
            words = (*pending.words, word) if word and not self.replace_words else pending.words
            following = self.output.state_of(_Pending(target, ids + arc_ids, words))
            self.output.arcs[state].append((0, following, weight))

    def _put_out(self, state: int, pending: _Pending, num_ids: int) -> None:
        """Output an arc with ``num_ids`` transition-ids and the first pending word."""
        label = pending.words[0] if pending.words else 0
        if self.replace_words and num_ids:
            label = self.transitions.phones[pending.ids[0]]
        following = self.output.state_of(_Pending(pending.state, pending.ids[num_ids:], pending.words[1:]))
        self.output.arcs[state].append((label, following, (*ONE[:2], pending.ids[:num_ids])))


def with_phones_as_words(lattice: Fst, model: TransitionModel) -> Fst:
    """A lattice whose words are phones, each where its first transition that is not a self-loop is."""
    ids = lattice.input_labels
    check_transition_ids(model, ids[ids != 0])
    begins = (model.transition_id_to_hmm_state[ids] == 0) & ~model.is_self_loop[ids] & (ids != 0)
    labels = np.where(begins, model.transition_id_to_phone[ids], 0).astype(np.int32)
    return dataclasses.replace(lattice, output_labels=labels, stored=None)


def with_phones_as_ids(lattice: CompactLattice, model: TransitionModel) -> CompactLattice:
    """A lattice whose strings are phones instead of transition-ids, each where its phone ends.

    Kaldi: ConvertCompactLatticeToPhones.
    """
    check_transition_ids(model, lattice.ids)
    check_transition_ids(model, lattice.final_ids)
    strings = []
    for starts, ids in ((lattice.string_starts, lattice.ids), (lattice.final_string_starts, lattice.final_ids)):
        ends = model.is_final[ids]
        strings += [starts_of(ends)[starts], model.transition_id_to_phone[ids[ends]]]
    return dataclasses.replace(lattice, string_starts=strings[0], ids=strings[1], final_string_starts=strings[2],
                               final_ids=strings[3])
