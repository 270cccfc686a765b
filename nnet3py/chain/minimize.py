"""Making a denominator graph small: merging states. Kaldi: ``DenGraphMinimizeWrapper``.

Weights are probabilities to be summed, unlike those of other graphs. States are merged as OpenFst 1.7 does in
Kaldi: two states are not merged if their arcs are in different orders, and since costs are rounded before, more
merging would change the graph's numbers. So the order of arcs that earlier stages produce matters.
"""
from __future__ import annotations

import numpy as np

from nnet3py.fst.operations import OPENFST_DELTA
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import connected

PUSH_DELTA = 0.01 * OPENFST_DELTA          # by how much the sums of states may differ
COST_STEP = np.float32(10.0 * OPENFST_DELTA)
_EPSILON = 0
_NOT_FINAL = np.uint64(0xD6E8FEB86659FD93)  # added to the bits of states that are not final


def _with_costs(fst: Fst, finals: np.ndarray, weights: np.ndarray) -> Fst:
    return Fst(fst.start, finals.astype(np.float32), fst.arc_starts, fst.input_labels, fst.input_labels,
               weights.astype(np.float32), fst.next_states)


def merge_states(fst: Fst) -> Fst:
    """The graph with its costs rounded to multiples of 10/1024 and states merged if their arcs are then the same.

    Arcs are the same if label, cost and (after merging) destination are. States whose arcs are in different orders are
    not merged. A merged state takes the place of its first member; its arcs have no duplicates and are sorted by label
    and cost, numbered as they appear, and destination.
    Kaldi: MinimizeAcceptorNoPush; epsilons are labels like any other.
    """
    fst = connected(_with_costs(fst, _rounded(fst.final_weights), _rounded(fst.weights)))
    if fst.num_states == 0:
        return fst
    letters, final_letters = _letters(fst)
    classes = _refined(fst, letters, _first_classes(fst, letters, final_letters))
    _, first, classes = np.unique(classes, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))                    # classes by their first states
    classes = place[classes]
    sources, targets = classes[fst.sources], classes[fst.next_states]
    order = np.lexsort((targets, letters, sources))
    chosen = order[_differ_from_before(sources[order], letters[order], targets[order])]
    finals = np.full(len(first), NO_WEIGHT, dtype=np.float32)
    finals[classes] = fst.final_weights
    labels = fst.input_labels[chosen]
    return Fst.from_arcs(int(classes[fst.start]), finals, sources[chosen], labels, labels, fst.weights[chosen],
                         targets[chosen])


def _differ_from_before(*columns: np.ndarray) -> np.ndarray:
    """bool (rows,): which rows are not the same as the row before."""
    differ = np.zeros(len(columns[0]), dtype=bool)
    differ[:1] = True
    for column in columns:
        differ[1:] |= column[1:] != column[:-1]
    return differ


def _rounded(costs: np.ndarray) -> np.ndarray:
    steps: np.ndarray = np.floor(costs / COST_STEP + np.float32(0.5)) * COST_STEP
    return steps


def _letters(fst: Fst) -> tuple[np.ndarray, np.ndarray]:
    """int64 (arcs,) and (states,): numbers of (label, cost) and of final costs, as they appear; -1 for not final."""
    final = np.flatnonzero(fst.is_final)
    labels = np.concatenate((fst.input_labels, np.full(len(final), _EPSILON))).astype(np.int64)
    costs = np.round(np.concatenate((fst.weights, fst.final_weights[final])).astype(np.float64) / COST_STEP)
    place = np.concatenate((fst.sources, final))
    order = np.argsort(place, kind="stable")                            # a state's final cost after its arcs
    pairs = ((costs.astype(np.int64) << 32) + labels)[order]            # labels are below 2 ** 31
    _, first, numbers = np.unique(pairs, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    letters = np.empty(len(place), dtype=np.int64)
    letters[order] = rank[numbers]
    final_letters = np.full(fst.num_states, -1, dtype=np.int64)
    final_letters[final] = letters[fst.num_arcs:]
    return letters[:fst.num_arcs], final_letters


def _scattered(values: np.ndarray) -> np.ndarray:
    """uint64: each value hashed to 64 bits (the finalizer of splitmix64)."""
    bits = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _sums(sources: np.ndarray, bits: np.ndarray, num_states: int) -> np.ndarray:
    """uint64 (states,): the sum of the values of each state. Equal sums stand for equal sets."""
    total = np.zeros(num_states, dtype=np.uint64)
    np.add.at(total, sources, bits)
    return total


def _first_classes(fst: Fst, letters: np.ndarray, final_letters: np.ndarray) -> np.ndarray:
    """int64 (states,): equal for states with the same letters in the same order, immediate repetitions counting once.

    A final letter comes last.
    """
    sources = fst.sources
    begins = _differ_from_before(letters, sources)
    kept_sources, kept = sources[begins], letters[begins]
    counts = np.bincount(kept_sources, minlength=fst.num_states)
    position = np.arange(len(kept)) - np.repeat(np.cumsum(counts) - counts, counts)
    largest = int(max(letters.max(initial=0), final_letters.max())) + 1
    bits = _sums(kept_sources, _scattered(position * largest + kept), fst.num_states)
    last = np.full(fst.num_states, -1, dtype=np.int64)
    last[kept_sources] = kept                                           # the last one of each state stays
    ends = np.where(last == final_letters, -1, final_letters)           # a repetition, too
    bits += np.where(ends >= 0, _scattered(counts * largest + ends), np.uint64(0))
    bits += np.where(fst.is_final, np.uint64(0), _NOT_FINAL)
    return np.unique(bits, return_inverse=True)[1]


def _refined(fst: Fst, letters: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Classes divided until the states of each have the same letters to the same classes."""
    num_classes = int(classes.max()) + 1
    sources = fst.sources.astype(np.int64)
    while True:
        targets = letters * num_classes + classes[fst.next_states]
        order = np.lexsort((targets, sources))
        ordered_sources, ordered = sources[order], targets[order]
        new = _differ_from_before(ordered, ordered_sources)
        bits = _sums(ordered_sources[new], _scattered(ordered[new]), fst.num_states)
        finer = np.unique(bits + _scattered(-1 - classes), return_inverse=True)[1]
        now = int(finer.max()) + 1
        if now == num_classes:
            return classes
        classes, num_classes = finer, now
