"""The decision tree of a model without one, recovered from its decoding graph.

Input labels of the graph are transition-ids, so paths show which pdfs a phone has after which left phone. Pairs of
phones that are not in the graph are guessed from the same phone at another position in the word, and from similar left
phones.
"""
from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.graph_words import NO_PHONE, GraphPhones, places_among, sorted_unique
from nnet3py.hmm.topology import NO_PDF
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import PDF_CLASS, Constant, ContextDependency, Map, Split, Table
from nnet3py.transducers.fst import Fst

logger = logging.getLogger(__name__)

POSITION_MARKS = ("_B", "_E", "_I", "_S")
_SHARPNESS = 16               # exponent of likeness: the most similar left phones dominate

Place = tuple[int, int]                          # a phone and a state of its HMM
Pdfs = tuple[int, int]                           # pdf of leaving the state, pdf of its self-loop
Seen = Mapping[tuple[int, int, int], Counter[int]]      # (left phone, phone, HMM state): counts of transition-states


class WiderContext(Nnet3Error):
    """Error for a model whose pdfs depend on more than the left phone."""


class RecoveredTree(NamedTuple):
    """Recovered tree."""

    tree: ContextDependency  # tree of all phones and pdfs of the model
    num_seen: int            # number of pairs (left phone, phone) in the graph; the pdfs of all other pairs are guesses


def recover_tree(graph: Fst, model: TransitionModel, phone_names: Mapping[int, str] | None = None) -> RecoveredTree:
    """Recover the tree of a graph, for models of monophones or left biphones.

    Parameters
    ----------
    graph : graph whose input labels are transition-ids, with self-loops; labels above the model's count as epsilons
    model : its transition model
    phone_names : by number; phones that differ only in the position mark (``_B``, ``_E``, ``_I``, ``_S``) stand for
        each other where the graph lacks a pair

    Raises WiderContext for models of triphones, Nnet3Error for a graph of another model.
    """
    seen = neighbors(graph, model)
    for (left, phone, _), states in seen.items():
        if len(states) > 1:
            raise WiderContext(f"phone {phone} has more than one pdf after phone {left}",
                               "only trees of monophones or left biphones, as chain models have them, can be "
                               "recovered from a graph")
    names = phone_names or {}
    phones = model.topology.phones
    guesses = _PdfGuesses(seen, model, {phone: base_name(names.get(phone, str(phone))) for phone in phones})
    lefts: dict[Place, dict[int, list[int]]] = {}
    for number, (phone, hmm_state) in enumerate(model.tuples[:, :2].tolist(), 1):
        lefts.setdefault((phone, hmm_state), {})[number] = []
    for (phone, hmm_state), of_state in lefts.items():
        for left in (NO_PHONE, *phones):
            pdf_before = seen.get((left, phone, hmm_state))
            of_state[next(iter(pdf_before)) if pdf_before else guesses.guess(left, phone, hmm_state)].append(left)
    num_seen = len({(left, phone) for left, phone, _ in seen})
    logger.info("Recovered a tree of %d pdfs: the graph has %d pairs of phones", model.num_pdfs, num_seen)
    return RecoveredTree(_tree(lefts, model), num_seen)


def neighbors(graph: Fst, model: TransitionModel) -> dict[tuple[int, int, int], Counter[int]]:
    """Count, for each (left phone, phone, HMM state), the arcs with each transition-state."""
    phones = GraphPhones.of(graph, model)
    before, lefts = phones.phones_before()
    is_state = (phones.ids != 0) & ~phones.is_loop
    begins = phones.begun > 0
    inside = is_state & ~begins
    seen = [_left_phones(phones, np.flatnonzero(begins), before, lefts)]
    if inside.any():             # phones with several HMM states: left phones of the inner states
        size = int(phones.begun.max()) + 1
        arcs, left = seen[0]
        first = (graph.next_states[arcs] * np.int64(size) + phones.begun[arcs]) * size + left
        pairs = phones.spread(sorted_unique(first), size * size, ~begins & ~phones.is_loop)
        seen.append(_left_phones(phones, np.flatnonzero(inside), pairs // (size * size), pairs % size))
    states = np.concatenate([model.transition_id_to_state[phones.ids[arcs]] for arcs, _ in seen]).astype(np.int64)
    num_states = int(states.max()) + 1
    times = np.bincount(np.concatenate([left for _, left in seen]) * num_states + states)
    pairs = np.flatnonzero(times)
    seen_states: dict[tuple[int, int, int], Counter[int]] = defaultdict(Counter)
    for pair, count in zip(pairs.tolist(), times[pairs].tolist(), strict=True):
        left_phone, state = divmod(pair, num_states)
        phone, hmm_state = model.tuples[state - 1, :2].tolist()
        seen_states[left_phone, phone, hmm_state][state] += count
    return dict(seen_states)


def _left_phones(phones: GraphPhones, arcs: np.ndarray, states: np.ndarray, lefts: np.ndarray,
                 ) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of an arc and a phone that can precede it, as an array of arcs and one of left phones.

    ``arcs``: indexes of arcs on which a phone begins. ``states``, ``lefts``: pairs of a state and a phone before it,
    sorted by state (:meth:`GraphPhones.phones_before`).
    """
    taken, repeats = places_among(phones.graph.sources[arcs], states)
    return np.repeat(arcs, repeats), lefts[taken]


def base_name(name: str) -> str:
    """Return the name of a phone without its position mark."""
    return name[:-2] if name.endswith(POSITION_MARKS) and len(name) > 2 else name


class _PdfGuesses:
    """Guesses of the transition-states of pairs (left phone, phone) that the graph lacks.

    A guess is a vote of the left phones that the graph does have before the phone, weighted by their similarity. Two
    left phones are similar if the phones after them have the same pdfs. Position-dependent forms of a phone, such as
    ``a_B`` and ``a_E``, count as one phone.
    """

    def __init__(self, seen: Seen, model: TransitionModel, bases: Mapping[int, str]) -> None:
        self._bases = {NO_PHONE: "", **bases}
        self._states: dict[Place, dict[Pdfs, int]] = defaultdict(dict)
        for number, (phone, hmm_state, forward, loop) in enumerate(model.tuples.tolist(), 1):
            self._states[phone, hmm_state][forward, loop] = number
        # (base of the phone, HMM state): how often each pdfs were seen after each base of the left phone
        self._behind: dict[tuple[str, int], Counter[tuple[str, Pdfs]]] = defaultdict(Counter)
        by_phone: dict[Place, list[tuple[str, Pdfs]]] = defaultdict(list)
        for (left, phone, hmm_state), states in seen.items():
            pdfs = tuple(model.tuples[next(iter(states)) - 1, 2:].tolist())
            self._behind[self._bases[phone], hmm_state][self._bases[left], pdfs] += 1
            by_phone[phone, hmm_state].append((self._bases[left], pdfs))
        self._agreement: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])      # same pdfs, all
        for place, sightings in by_phone.items():
            if len(self._states[place]) > 1:
                for (neighbor, its_pdfs), (other, other_pdfs) in combinations(sightings, 2):
                    counts = self._agreement[min(neighbor, other), max(neighbor, other)]
                    counts[0] += its_pdfs == other_pdfs
                    counts[1] += 1
        self._guesses: dict[tuple[str, int, int], int] = {}

    def guess(self, left: int, phone: int, hmm_state: int) -> int:
        """Return the most probable transition-state of an HMM state of ``phone`` after the phone ``left``."""
        key = self._bases[left], phone, hmm_state
        if key not in self._guesses:
            possible: dict[Pdfs, int] = self._states[phone, hmm_state]
            votes: dict[Pdfs, float] = defaultdict(float)
            for (other, pdfs), count in self._behind[self._bases[phone], hmm_state].items():
                if pdfs in possible:
                    votes[pdfs] += count * self._similarity(key[0], other) ** _SHARPNESS
            best = max(possible, key=lambda pdfs: (votes[pdfs], -possible[pdfs]))
            self._guesses[key] = possible[best]
        return self._guesses[key]

    def _similarity(self, phone: str, other: str) -> float:
        """Return the smoothed fraction of phones that have the same pdfs after both left phones, 0 to 1."""
        same, every = self._agreement.get((min(phone, other), max(phone, other)), (0, 0))
        return 1.0 if phone == other else (same + 0.5) / (every + 1)


def _tree(tables: Mapping[tuple[int, int], Mapping[int, list[int]]], model: TransitionModel) -> ContextDependency:
    """Make the tree.

    A transition-state without left phones is put after a phone number that does not exist, so that the tree has all
    pdfs of the model, as programs expect.

    ``tables``: (phone, HMM state) -> transition-state -> left phones after which the phone has it.
    """
    unreal = max(model.topology.phones) + 1
    of_phone: list[Map | None] = [None] * unreal
    for phone in model.topology.phones:
        classes: dict[int, Map | None] = {}
        for number, state in enumerate(model.topology.entries[model.topology.entry_of_phone[phone]]):
            if state.forward_pdf_class == NO_PDF:
                continue
            for pdf_class, column in ((state.forward_pdf_class, 2), (state.self_loop_pdf_class, 3)):
                by_pdf: dict[int, list[int]] = defaultdict(list)
                for extra, (transition_state, lefts) in enumerate(tables[phone, number].items()):
                    by_pdf[int(model.tuples[transition_state - 1, column])] += lefts or [unreal + extra]
                classes[pdf_class] = _by_left(sorted(by_pdf.items()))
        of_phone[phone] = Table(PDF_CLASS, tuple(classes.get(number) for number in range(max(classes) + 1)))
    return ContextDependency(2, 1, Table(1, tuple(of_phone)))


def _by_left(groups: Sequence[tuple[int, list[int]]]) -> Map:
    """Make a binary tree of questions about the left phone; ``groups`` are pairs of a pdf and its left phones."""
    if len(groups) == 1:
        return Constant(groups[0][0])
    half = len(groups) // 2
    yes = frozenset(phone for _, phones in groups[:half] for phone in phones)
    return Split(0, yes, _by_left(groups[:half]), _by_left(groups[half:]))
