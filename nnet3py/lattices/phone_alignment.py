"""Lattices aligned with phones, an arc for each phone; and the search that word alignment shares.

The search visits pairs of an input state and the transition-ids and words that were read but not output yet. Its
output has epsilons, which are removed at the end. Kaldi: ``PhoneAlignLattice``, ``ConvertLatticeToPhones``.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.states import LatticeError, infinite_weights, newly_sorted, top_sorted, trimmed, with_super_final
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.state_graphs import after_successors, starts_of

Ids: TypeAlias = tuple[int, ...]
Weight: TypeAlias = tuple[np.float32, np.float32, Ids]       # graph cost, acoustic cost, transition-ids
Arc: TypeAlias = tuple[int, int, Weight]                     # label, next state, weight

_ZERO = np.float32(0.0)
ONE: Weight = (_ZERO, _ZERO, ())
NO_WORD = -1              # the label of arcs that have transition-ids but no word, while 0 stands for epsilons


def _keep_best(gathered: dict[tuple[int, int], Weight], key: tuple[int, int], weight: Weight) -> None:
    old = gathered.get(key)
    if old is None or is_better(weight, old):
        gathered[key] = weight


def times(a: Weight, other: Weight) -> Weight:
    """Return the product of two weights: the sums of costs, the concatenation of strings."""
    return a[0] + other[0], a[1] + other[1], a[2] + other[2]


def is_better(a: Weight, other: Weight) -> bool:
    """Return whether ``a`` costs less than ``other`` or, if equal, has a shorter or lexicographically earlier string.
    """
    key_of_one, key_of_other = a[0] + a[1], other[0] + other[1]
    if key_of_one != key_of_other:
        return bool(key_of_one < key_of_other)
    if a[0] != other[0]:
        return bool(a[0] < other[0])
    return (len(a[2]), a[2]) < (len(other[2]), other[2])


def most_states(max_expand: float, num_states: int) -> int | None:
    """Return the largest number of states of an aligned lattice; None for no limit."""
    return int(1000 + max_expand * num_states) if max_expand > 0 else None


class Transitions(NamedTuple):
    """Lists indexed by transition-id: the phone, and whether the transition ends a phone or is a self-loop."""

    phones: list[int]
    is_final: list[bool]
    is_self_loop: list[bool]

    @classmethod
    def of(cls, model: TransitionModel) -> Transitions:
        """Return the lists of a transition model."""
        return cls(model.transition_id_to_phone.tolist(), model.is_final.tolist(), model.is_self_loop.tolist())

    def phone_end(self, ids: Ids, begin: int, reorder: bool) -> tuple[int, bool]:
        """Find the end of the phone that begins at ``ids[begin]``.

        A phone ends after a transition into its final state and, if ``reorder``, after the self-loops that follow; only
        the first transition-id of the next phone shows that there are no more of them. Return the end of the phone, 0
        if more transition-ids are needed to find it; and whether another phone begins earlier.
        """
        phone, broken, end = self.phones[ids[begin]], False, begin
        while end < len(ids):
            broken = broken or self.phones[ids[end]] != phone
            end += 1
            if self.is_final[ids[end - 1]]:
                break
        else:
            return 0, broken
        while reorder and end < len(ids) and self.is_self_loop[ids[end]]:
            end += 1
        return (end if end < len(ids) else 0), broken

    def reaches_end(self, ids: Ids, reorder: bool) -> bool:
        """Return whether the last phone of ``ids`` has reached its final state."""
        last = len(ids) - 1
        while reorder and last > 0 and self.is_self_loop[ids[last]]:
            last -= 1
        return self.is_final[ids[last]]


class InputArcs(NamedTuple):
    """A lattice with one final state as lists: for each state, its arcs as (word, transition-ids, weight, next state).

    The transition-ids are not part of the weight.
    """

    start: int
    arcs: list[list[tuple[int, Ids, Weight, int]]]
    final: int

    @classmethod
    def of(cls, lattice: CompactLattice, model: TransitionModel) -> InputArcs:
        """Return the lists of a lattice without cycles; ShapeError for a transition-id that the model does not have."""
        for ids in (lattice.ids, lattice.final_ids):
            check_transition_ids(model, ids)
        lattice, final = with_super_final(top_sorted(lattice))
        strings, bounds = lattice.ids.tolist(), lattice.string_starts.tolist()
        labels, targets = lattice.labels.tolist(), lattice.next_states.tolist()
        rows: list[tuple[int, Ids, Weight, int]] = []
        for arc, (graph, acoustic) in enumerate(lattice.weights):
            rows.append((labels[arc], tuple(strings[bounds[arc]:bounds[arc + 1]]), (graph, acoustic, ()), targets[arc]))
        starts = lattice.arc_starts.tolist()
        return cls(lattice.start, [rows[first:end] for first, end in zip(starts, starts[1:], strict=False)], final)


class Alignment(NamedTuple):
    """An aligned lattice.

    Attributes
    ----------
    lattice : CompactLattice, perhaps empty
    problem : str, the first irregularity met, such as an incomplete last word; empty if there was none
    """

    lattice: CompactLattice
    problem: str


class Pending(NamedTuple):
    """A pair that the search visits: an input state, and the transition-ids and words read but not output yet."""

    state: int
    ids: Ids
    words: Ids


class Aligner:
    """A search over pairs of an input state and labels read but not output yet. Each pair is an output state.

    ``arcs`` and ``finals`` are the output so far; ``waiting`` are the pairs that are yet to be expanded, with their
    states. Irregularities are problems; the search ends at ``most_states`` states (None: no limit).
    """

    def __init__(self, lattice: CompactLattice, model: TransitionModel, most_states: int | None) -> None:
        self.input, self.transitions = InputArcs.of(lattice, model), Transitions.of(model)
        self.arcs: list[list[Arc]] = []
        self.finals: dict[int, Weight] = {}
        self.waiting: list[tuple[Hashable, int]] = []
        self._states: dict[Hashable, int] = {}
        self._most_states, self.problem = most_states, ""

    def align(self, first: Hashable, remove_epsilons: bool = True) -> Alignment:
        """Search from the pair ``first``; return the aligned lattice and the first irregularity."""
        self._state_of(first)
        while self.waiting:
            if self._most_states is not None and len(self.arcs) > self._most_states:
                self.complain(f"it has more than {len(self.arcs) - 1} states")
                break
            self.expand(*self.waiting.pop())
        self.finish()
        return Alignment(self._lattice(remove_epsilons), self.problem)

    def _state_of(self, pending: Hashable) -> int:
        """Return the output state of a pair; a new pair is added to ``waiting``."""
        state = self._states.get(pending)
        if state is None:
            state = self._states[pending] = len(self.arcs)
            self.arcs.append([])
            self.waiting.append((pending, state))
        return state

    def follow(self, state: int, weight: Weight, pending: Hashable) -> None:
        """Add an epsilon from an output state to that of ``pending``, for an arc of the input."""
        self.arcs[state].append((0, self._state_of(pending), weight))

    def put_out(self, state: int, label: int, ids: Ids, pending: Hashable) -> None:
        """Add an arc from an output state to that of ``pending``."""
        self.arcs[state].append((label, self._state_of(pending), (*ONE[:2], ids)))

    def expand(self, pending: Any, state: int) -> None:
        """Make the arcs that leave output state ``state``, which stands for the pair ``pending``."""
        raise NotImplementedError

    def finish(self) -> None:
        """Complete the output after all pairs were expanded."""

    def complain(self, problem: str) -> None:
        """Store a description of an irregularity, unless there is one already."""
        self.problem = self.problem or problem

    def phone_end(self, ids: Ids, begin: int, reorder: bool) -> int:
        """Return the end of the phone that begins at ``begin``, 0 if more transition-ids are needed to find it."""
        end, broken = self.transitions.phone_end(ids, begin, reorder)
        if broken:
            self.complain("a phone changes before its final transition-id: a broken lattice, another model, or a "
                          "wrong --reorder")
        return end

    def _lattice(self, remove_epsilons: bool) -> CompactLattice:
        """Return the output, trimmed and sorted; ``NO_WORD`` becomes 0. LatticeError for a cycle of epsilons."""
        if remove_epsilons:
            self._remove_epsilons()
        rows = [(source, label, target, weight) for source, arcs in enumerate(self.arcs)
                for label, target, weight in arcs]
        finals = infinite_weights(len(self.arcs))
        final_lengths = np.zeros(len(self.arcs), dtype=np.int64)
        for state, weight in self.finals.items():
            finals[state], final_lengths[state] = weight[:2], len(weight[2])
        labels = np.array([row[1] for row in rows], dtype=np.int32)
        labels[labels == NO_WORD] = 0
        lattice = CompactLattice.from_arcs(
            0 if self.arcs else -1, finals, np.array([row[0] for row in rows], dtype=np.int64), labels,
            np.array([row[3][:2] for row in rows], dtype=np.float32).reshape(-1, 2),
            [len(row[3][2]) for row in rows], [transition_id for row in rows for transition_id in row[3][2]],
            np.array([row[2] for row in rows], dtype=np.int32), final_lengths,
            [transition_id for state in sorted(self.finals) for transition_id in self.finals[state][2]])
        return newly_sorted(trimmed(lattice))

    def _remove_epsilons(self) -> None:
        """Replace the epsilons of each state by the arcs of the states that they lead to. OpenFst: RmEpsilon.

        An epsilon's transition-ids are put before those of the arc that follows. Of a state's arcs with equal label and
        target, the best is kept.
        """
        order = after_successors(range(len(self.arcs)), lambda state: [
            target for label, target, _ in self.arcs[state] if label == 0])
        if order is None:
            raise LatticeError("the lattice has a cycle of arcs without words and transition-ids")
        for state in order:
            gathered: dict[tuple[int, int], Weight] = {}
            final = self.finals.get(state)
            for label, target, weight in self.arcs[state]:
                if label != 0:
                    _keep_best(gathered, (label, target), weight)
                    continue
                for next_label, next_target, next_weight in self.arcs[target]:
                    _keep_best(gathered, (next_label, next_target), times(weight, next_weight))
                if target in self.finals:
                    through = times(weight, self.finals[target])
                    final = through if final is None or is_better(through, final) else final
            self.arcs[state] = [(label, target, weight) for (label, target), weight in gathered.items()]
            if final is not None:
                self.finals[state] = final


def align_phones(lattice: CompactLattice, model: TransitionModel, reorder: bool = True, remove_epsilons: bool = True,
                 replace_words: bool = False) -> Alignment:
    """Return a lattice with an arc for each phone. Kaldi: lattice-align-phones.

    Parameters
    ----------
    lattice : CompactLattice
    model : TransitionModel, which maps transition-ids to phones
    reorder : bool, self-loops come after the transitions that leave their states
    remove_epsilons : bool, join arcs without a word to the arcs that follow, although they have transition-ids
    replace_words : bool, label arcs with phones instead of words; then each phone keeps an arc of its own even with
        ``remove_epsilons``

    Returns
    -------
    Alignment; words are on the arcs of the phones with which they began, or on later ones.
    """
    if lattice.start < 0:
        return Alignment(lattice, "the lattice is empty")
    aligner = _PhoneAligner(lattice, model, reorder, replace_words)
    return aligner.align(Pending(aligner.input.start, (), ()), remove_epsilons)


class _PhoneAligner(Aligner):
    def __init__(self, lattice: CompactLattice, model: TransitionModel, reorder: bool, replace_words: bool) -> None:
        super().__init__(lattice, model, None)
        self.reorder, self.replace_words = reorder, replace_words

    def expand(self, pending: Pending, state: int) -> None:
        """Output a complete phone, or a word if two are pending; otherwise follow the arcs of the input."""
        ids = pending.ids
        end = self.phone_end(ids, 0, self.reorder) if ids else 0
        if end or len(pending.words) > 1:
            self._put_out(state, pending, end)
            return
        if pending.state == self.input.final:
            if not ids and not pending.words:
                self.finals[state] = ONE
            else:
                if ids and not self.transitions.reaches_end(ids, self.reorder):
                    self.complain("the last phone is not complete")
                self._put_out(state, pending, len(ids))
        for word, arc_ids, weight, target in self.input.arcs[pending.state]:
            words = (*pending.words, word) if word and not self.replace_words else pending.words
            self.follow(state, weight, Pending(target, ids + arc_ids, words))

    def _put_out(self, state: int, pending: Pending, num_ids: int) -> None:
        """Output an arc with ``num_ids`` transition-ids and the first pending word."""
        label = pending.words[0] if pending.words else 0
        if self.replace_words and num_ids:
            label = self.transitions.phones[pending.ids[0]]
        self.put_out(state, label, pending.ids[:num_ids],
                     Pending(pending.state, pending.ids[num_ids:], pending.words[1:]))


def with_phones_as_words(lattice: Fst, model: TransitionModel) -> Fst:
    """Return a lattice whose output labels are phones, each on its first transition that is not a self-loop."""
    ids = lattice.input_labels
    check_transition_ids(model, ids[ids != 0])
    begins = (model.transition_id_to_hmm_state[ids] == 0) & ~model.is_self_loop[ids] & (ids != 0)
    labels = np.where(begins, model.transition_id_to_phone[ids], 0).astype(np.int32)
    return dataclasses.replace(lattice, output_labels=labels, stored=None)


def with_phones_as_ids(lattice: CompactLattice, model: TransitionModel) -> CompactLattice:
    """Return a lattice whose strings have phones instead of transition-ids, each on the arc where the phone ends.

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
