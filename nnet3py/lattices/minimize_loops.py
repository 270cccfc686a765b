"""Loops that push strings and weights in compact lattices, topologically sorted, and find equal states."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.inline import inline
from nnet3py.lattices.structures import Compared, Strings, by_arrays

# -- strings -----------------------------------------------------------------------------------------------------------


@inline
def _symbol(strings: Strings, arc: int, place: int) -> int:
    """Return the transition-id at ``place`` of the string of ``arc``, which first arcs of the states after it continue.

    If ``arc`` is negative, the string is that of the final weight of state -1 - ``arc``.
    """
    while arc >= 0:
        length = strings.string_starts[arc + 1] - strings.string_starts[arc]
        if place < length:
            return np.int64(strings.ids[strings.string_starts[arc] + place])
        place -= length
        state = np.int64(strings.next_states[arc])
        arc = strings.arc_starts[state]
        if arc == strings.arc_starts[state + 1]:
            arc = -1 - state
    return np.int64(strings.final_ids[strings.final_string_starts[-1 - arc] + place])


@inline
def _common(strings: Strings, left: int, right: int, most: int) -> int:
    """Return the length of the common prefix of the strings of two arcs (see :func:`_symbol`), at most ``most``."""
    count = np.int64(0)
    while count < most and _symbol(strings, left, count) == _symbol(strings, right, count):
        count += 1
    return count


@by_arrays
def find_shifts(strings: Strings, start: int, is_final: np.ndarray, shifts: np.ndarray) -> None:
    """Compute the length of the common prefix of the strings of all paths from each state, int64; 0 for the start."""
    starts, lengths = strings.arc_starts, strings.string_starts
    for state in range(len(shifts) - 1, -1, -1):
        first, end = starts[state], starts[state + 1]
        shift = strings.final_string_starts[state + 1] - strings.final_string_starts[state]
        if first < end and not is_final[state]:
            shift = np.int64(1) << 62
        for arc in range(first, end):
            shift = min(shift, lengths[arc + 1] - lengths[arc] + shifts[strings.next_states[arc]])
        for arc in range(first + 1, end):
            shift = _common(strings, first, arc, shift)
        if first < end and is_final[state]:
            shift = _common(strings, first, -1 - state, shift)
        shifts[state] = 0 if state == start else shift


@by_arrays
def write_pushed(strings: Strings, shifts: np.ndarray, new_starts: np.ndarray, new_ids: np.ndarray) -> None:
    """Write strings pushed to the start: an arc gains the common prefix of its target and loses that of its source.

    ``shifts`` are the lengths of the prefixes (:func:`find_shifts`); ``new_starts`` and ``new_ids`` are the new
    strings.
    """
    for state in range(len(shifts)):
        for arc in range(strings.arc_starts[state], strings.arc_starts[state + 1]):
            for place in range(new_starts[arc + 1] - new_starts[arc]):
                new_ids[new_starts[arc] + place] = _symbol(strings, arc, shifts[state] + place)


# -- weights -----------------------------------------------------------------------------------------------------------


def push_weights(start: int, arc_starts: np.ndarray, next_states: np.ndarray, weights: np.ndarray,
                 final_weights: np.ndarray, ends: np.ndarray) -> None:
    """Push weights towards the start, in place. ``ends`` (float32 (states, 2)) is scratch memory."""
    for state in range(len(ends) - 1, -1, -1):
        graph, acoustic = final_weights[state, 0], final_weights[state, 1]
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            new_graph = weights[arc, 0] + ends[next_states[arc], 0]
            new_acoustic = weights[arc, 1] + ends[next_states[arc], 1]
            new, old = new_graph + new_acoustic, graph + acoustic
            if new < old or (new == old and new_graph < graph):
                graph, acoustic = new_graph, new_acoustic
        ends[state, 0], ends[state, 1] = graph, acoustic
    for state in range(len(ends)):
        graph, acoustic = ends[state, 0], ends[state, 1]
        if state == start:
            graph = acoustic = np.float32(0.0)
        if graph + acoustic == np.inf:                # leads nowhere
            continue
        final_weights[state, 0] -= graph
        final_weights[state, 1] -= acoustic
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            weights[arc, 0] += ends[next_states[arc], 0] - graph
            weights[arc, 1] += ends[next_states[arc], 1] - acoustic


# -- equal states ------------------------------------------------------------------------------------------------------


@inline
def _are_near(left: np.ndarray, i: int, j: int, delta: float) -> bool:
    if left[i, 0] == left[j, 0] and left[i, 1] == left[j, 1]:
        return True
    return abs((left[i, 0] + left[i, 1]) - (left[j, 0] + left[j, 1])) <= delta


@inline
def _same_string(starts: np.ndarray, ids: np.ndarray, i: int, j: int) -> bool:
    length = starts[i + 1] - starts[i]
    same = length == starts[j + 1] - starts[j]
    place = np.int64(0)
    while same and place < length:
        same = ids[starts[i] + place] == ids[starts[j] + place]
        place += 1
    return same


@inline
def _are_equal(strings: Strings, arcs: Compared, state: int, other: int, final_delta: float, delta: float) -> bool:
    starts = strings.arc_starts
    count = starts[state + 1] - starts[state]
    if count != starts[other + 1] - starts[other] or not _are_near(arcs.final_weights, state, other, final_delta) or (
            not _same_string(strings.final_string_starts, strings.final_ids, state, other)):
        return False
    for place in range(count):
        i, j = arcs.order[starts[state] + place], arcs.order[starts[other] + place]
        if arcs.labels[i] != arcs.labels[j] or (
                arcs.mapped[strings.next_states[i]] != arcs.mapped[strings.next_states[j]]) or (
                not _are_near(arcs.weights, i, j, delta)) or (
                not _same_string(strings.string_starts, strings.ids, i, j)):
            return False
    return True


@inline
def _mixed(value: float, word: int) -> float:
    value = (value ^ np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
    return value ^ (value >> np.uint64(29))


@inline
def _sort_arcs(strings: Strings, arcs: Compared, state: int) -> None:
    """Sort the arcs of a state by label and by the number of the state that its destination was merged into."""
    starts, next_states, order, labels, mapped = (
        strings.arc_starts, strings.next_states, arcs.order, arcs.labels, arcs.mapped)
    for place in range(starts[state], starts[state + 1]):
        arc, hole = np.int64(place), place
        while hole > starts[state] and (
                labels[order[hole - 1]] > labels[arc] or (
                    labels[order[hole - 1]] == labels[arc]
                    and mapped[next_states[order[hole - 1]]] > mapped[next_states[arc]])):
            order[hole] = order[hole - 1]
            hole -= 1
        order[hole] = arc


@by_arrays
def find_equal_states(strings: Strings, arcs: Compared, final_delta: float, delta: float, heads: np.ndarray,
                      chain: np.ndarray) -> None:
    """Fill in ``arcs.mapped``.

    ``heads`` (int32, filled with -1, its length a power of 2) and ``chain`` (int32 (states,)) are a hash table of
    states.
    """
    starts, mapped = strings.arc_starts, arcs.mapped
    for state in range(len(mapped) - 1, -1, -1):
        _sort_arcs(strings, arcs, state)
        value = np.uint64(starts[state + 1] - starts[state])
        for place in range(strings.final_string_starts[state], strings.final_string_starts[state + 1]):
            value = _mixed(value, strings.final_ids[place])
        for place in range(starts[state], starts[state + 1]):
            arc = arcs.order[place]
            value = _mixed(_mixed(value, arcs.labels[arc]), mapped[strings.next_states[arc]])
        bucket = np.int64(value & np.uint64(len(heads) - 1))
        other = np.int64(heads[bucket])
        while other >= 0 and not _are_equal(strings, arcs, state, other, final_delta, delta):
            other = np.int64(chain[other])
        mapped[state] = state
        if other >= 0:
            mapped[state] = other
        else:
            chain[state] = heads[bucket]
            heads[bucket] = state
