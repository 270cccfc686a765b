"""Word errors over lattices: minimum Bayes risk decoding, with confidences, and the path nearest to a reference.

Xu, Povey, Mangu, Zhu: "Minimum Bayes Risk decoding and system combination based on a recursion for edit distance",
2011. Kaldi: MinimumBayesRisk, lattice-oracle.
"""
from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.lattices.best_path import best_path, linear, path_of
from nnet3py.lattices.states import (
    LatticeError,
    from_start,
    newly_sorted,
    state_times,
    trimmed,
    with_super_final,
)
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.state_graphs import starts_of

logger = logging.getLogger(__name__)

_arc_shares = Loop("nnet3py.lattices.word_error_loops", "arc_shares", "i8[] i4[] f8[] f8[] f8[]",
                   uses=["nnet3py.lattices.path_loops"])
_statistics = Loop("nnet3py.lattices.word_error_loops", "statistics",
                   "i8[] i4[] i4[] f8[] i4[] i4[] f8[,] f8[,] f8[] i4[] f8[] f8[,] f8[,] f8[,]",
                   uses=["nnet3py.lattices.path_loops"])
_MOST_ROUNDS = 102
_WRONG_SUM = 0.1            # by how much the probabilities at a place may differ from 1 without a warning
_MOST_NUMBERS = 1 << 28     # in a table of states or words by places, or of states by words

Pair = tuple[float, float]


@dataclass(frozen=True)
class MbrResult:
    """The result of minimum Bayes risk decoding.

    Attributes
    ----------
    words : list of int, word-ids; gaps (0) are left out unless requested
    risk : float, expected number of word errors
    sausages : list, for each word or gap the list of (word-id, probability), the most probable first
    sausage_times : list, for each word or gap its begin and end, in frames
    times : list, begin and end of each of ``words``, in frames
    confidences : list of float, probability of each of ``words``
    """

    words: list[int]
    risk: float
    sausages: list[list[tuple[int, float]]]
    sausage_times: list[Pair]
    times: list[Pair]
    confidences: list[float]


class _Alignment:
    """A lattice prepared for alignment with word sequences."""

    def __init__(self, lattice: CompactLattice) -> None:
        lattice = with_super_final(lattice)[0]
        possible = np.asarray(np.isfinite(lattice.weights).all(axis=1))
        lattice = newly_sorted(trimmed(lattice.selected(np.arange(lattice.num_states), possible)))
        if lattice.start < 0:
            raise LatticeError("the lattice is empty")
        self.times = state_times(lattice)
        order = np.lexsort((np.arange(lattice.num_arcs), lattice.sources, lattice.next_states))
        self.enter_starts = starts_of(np.bincount(lattice.next_states, minlength=lattice.num_states))
        self.sources = lattice.sources[order]
        self.vocabulary = np.unique(np.concatenate(([0], lattice.labels)))
        self.words = np.searchsorted(self.vocabulary, lattice.labels[order]).astype(np.int32)
        with np.errstate(invalid="ignore", over="ignore"):
            log_likes = -(lattice.weights[:, 0] + lattice.weights[:, 1])[order].astype(np.float64)
        self.shares = np.empty(lattice.num_arcs)
        total = _arc_shares(self.enter_starts, self.sources, log_likes, np.empty(lattice.num_states), self.shares)
        if not np.isfinite(total):
            raise LatticeError("the lattice has no path of a finite cost")
        self.risk = 0.0

    def align(self, reference: list[int]) -> tuple[list[list[tuple[int, float]]], list[dict[int, Pair]], list[Pair]]:
        """Align the lattice with a word sequence in which words and gaps (0) alternate.

        Returns
        -------
        For each place of the sequence: (word, probability) pairs, the most probable first; a dict from
        word to (begin, end); begin and end of the place.
        """
        self.vocabulary = np.union1d(self.vocabulary, reference) if not np.isin(reference, self.vocabulary).all() \
            else self.vocabulary
        places, size, states = len(reference) + 1, len(self.vocabulary), len(self.times)
        if places * max(size, states) > _MOST_NUMBERS:
            raise LatticeError(f"a lattice of {states} states and {size} words is too large to be aligned with "
                               f"{len(reference) // 2} words", "prune it with lattice-prune")
        dense = np.zeros(places, dtype=np.int32)
        dense[1:] = np.searchsorted(self.vocabulary, reference)
        expected, back = np.zeros((states, places)), np.zeros((states, places))
        gamma, begins, ends = (np.zeros((places, size)) for _ in range(3))
        risk = _statistics(self.enter_starts, self.sources, self.words, self.shares, self.times, dense, expected, back,
                           np.empty(places), np.zeros(places, dtype=np.int32), np.empty(places), gamma, begins, ends)
        self.risk = float(risk)
        return self._lists(gamma, begins, ends)

    def _lists(self, gamma: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> tuple[
            list[list[tuple[int, float]]], list[dict[int, Pair]], list[Pair]]:
        sausages, times, spans = [], [], []
        for place in range(1, len(gamma)):
            entries = np.flatnonzero(gamma[place])
            weights = gamma[place, entries].astype(np.float32)
            if abs(float(weights.sum()) - 1.0) > _WRONG_SUM:
                logger.warning("The probabilities of words at place %d add up to %.6g, expected 1", place,
                               weights.sum())
            order = np.lexsort((self.vocabulary[entries], -weights))
            ids = self.vocabulary[entries].tolist()
            sausages.append([(ids[i], float(weights[i])) for i in order.tolist()])
            with np.errstate(divide="ignore", invalid="ignore"):
                starts, stops = begins[place, entries] / weights, ends[place, entries] / weights
            times.append(dict(zip(ids, zip(starts.tolist(), stops.tolist(), strict=True), strict=True)))
            spans.append((float(begins[place].sum()), float(ends[place].sum())))
            if place > 1 and spans[-2][1] > spans[-1][0]:
                middle = 0.5 * (spans[-2][1] + spans[-1][0])
                spans[-2:] = [(spans[-2][0], middle), (middle, spans[-1][1])]
        return sausages, times, spans


def minimum_bayes_risk(lattice: CompactLattice, words: list[int] | None = None, decode: bool = True,
                       print_silence: bool = False) -> MbrResult:
    """Find the words with the least expected number of errors. Kaldi: MinimumBayesRisk.

    Raises LatticeError for a lattice without paths, or too large a lattice.

    Parameters
    ----------
    lattice : CompactLattice, costs scaled already; for times, aligned with words before
        (:func:`~nnet3py.lattices.word_alignment.align_words`)
    words : list of int, hypothesis to begin with, or to measure; None for the words of the best path
    decode : bool, change words to reduce the expected number of errors
    print_silence : bool, keep gaps among the words

    Returns
    -------
    MbrResult.
    """
    alignment = _Alignment(lattice)
    if words is None:
        best = best_path(lattice)
        path = path_of(best) if best is not None else None
        words = path.words.tolist() if path is not None else []
    reference = [word for word in words if word]
    risk_before = np.inf
    for _ in range(_MOST_ROUNDS):
        places = [0]
        for word in reference:
            places += [word, 0]
        sausages, times, spans = alignment.align(places)
        if decode and alignment.risk > risk_before + 1e-4:
            logger.warning("The expected number of word errors grew from %.6g to %.6g in an iteration of minimum Bayes "
                           "risk decoding, which should lower it", risk_before, alignment.risk)
        risk_before = alignment.risk
        change = _choose(places, sausages) if decode else 0.0
        chosen = [place for place in range(len(places)) if places[place] or print_silence]
        best_times = _in_order([times[place].get(places[place], (0.0, 0.0)) for place in chosen])
        confidences = [dict(sausages[place]).get(places[place], 0.0) for place in chosen]
        if change == 0.0:
            break
        reference = [word for word in places if word]
    else:
        logger.warning("Minimum Bayes risk decoding did not converge in %d rounds", _MOST_ROUNDS)
    return MbrResult([places[place] for place in chosen], alignment.risk, sausages, spans, best_times, confidences)


def _choose(places: list[int], sausages: list[list[tuple[int, float]]]) -> float:
    """Put the most probable word at each of ``places``, in place.

    Return the sum of the probabilities of the old words minus that of the new ones: 0 if nothing changed.
    """
    change = 0.0
    for place, candidates in enumerate(sausages):
        word, probability = candidates[0]
        change += dict(candidates).get(places[place], 0.0) - probability
        places[place] = word
    return change


def _in_order(times: list[Pair]) -> list[Pair]:
    """Return begin and end of successive words, adjusted where a word begins before its predecessor ends."""
    result: list[Pair] = []
    for begin, end in times:
        if result and result[-1][1] > begin:
            before = result[-1]
            left = max(result[-2][1] if len(result) > 1 else 0.0, min(before[0], begin))
            right = max(before[1], end)
            first, second = before[1] - before[0], end - begin
            middle = left + (right - left) * first / (first + second) if first > 0.0 else left
            result[-1] = left, middle
            begin, end = middle, right
        result.append((begin, end))
    return result


_distances = Loop("nnet3py.lattices.word_error_loops", "distances",
                  "i8[] i4[] i4[] i4[] i4[] i4[,] i8[,] i4[,]")
_INSERTED, _MATCHED, _DELETED = 0, 1, 2        # how a place is reached


class Oracle(NamedTuple):
    """The path of a lattice that is nearest to a reference.

    Attributes
    ----------
    path : CompactLattice, linear
    words : int32 (words,), words of the path
    insertions, deletions, substitutions : int, word errors against the reference
    """

    path: CompactLattice
    words: np.ndarray
    insertions: int
    deletions: int
    substitutions: int

    @property
    def errors(self) -> int:
        """Number of all word errors."""
        return self.insertions + self.deletions + self.substitutions


def oracle(lattice: CompactLattice, reference: np.ndarray, wildcards: np.ndarray) -> Oracle:
    """Find the path of a lattice with the fewest word errors against a reference. Kaldi: lattice-oracle.

    Raises LatticeError for a lattice without paths, or too large to be compared.

    Parameters
    ----------
    lattice : CompactLattice, states in any order
    reference : int (words,), word-ids of the spoken words
    wildcards : int (count,), word-ids that are ignored in the lattice and in the reference

    Returns
    -------
    Oracle.
    """
    lattice = from_start(trimmed(lattice))
    if lattice.start < 0:
        raise LatticeError("the lattice is empty")
    words = np.where(np.isin(lattice.labels, wildcards), 0, lattice.labels).astype(np.int32)
    spoken = reference[(reference != 0) & ~np.isin(reference, wildcards)].astype(np.int32)
    shape = (lattice.num_states, len(spoken) + 1)
    if shape[0] * shape[1] > _MOST_NUMBERS:
        raise LatticeError(f"a lattice of {shape[0]} states is too large to be compared with {len(spoken)} words",
                           "prune it with lattice-prune")
    costs, arcs, how = (np.zeros(shape, dtype=kind) for kind in (np.int32, np.int64, np.int32))
    sources = lattice.sources
    _distances(lattice.arc_starts, lattice.next_states, words, sources, spoken, costs, arcs, how)
    ends = np.flatnonzero(lattice.is_final)
    state = end = int(ends[costs[ends, -1].argmin()])
    place, way, counts = len(spoken), list[int](), [0, 0, 0]
    while state or place:
        kind, arc = int(how[state, place]), int(arcs[state, place])
        if kind == _MATCHED:
            counts[kind] += words[arc] != spoken[place - 1]
        elif kind in (_INSERTED, _DELETED):
            counts[kind] += 1
        if kind != _DELETED:
            way.append(arc)
            state = int(sources[arc])
        place -= kind in (_MATCHED, _DELETED)
    order = np.array(way[::-1], dtype=np.int64)
    words_in_order = words[order]
    return Oracle(linear(lattice, order, end), words_in_order[words_in_order != 0], counts[_INSERTED], counts[_DELETED],
                  int(counts[_MATCHED]))
