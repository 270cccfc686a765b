"""Loops that push strings and weights in compact lattices, topologically sorted, and find equal states."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.engine.inline import inline


class Strings(NamedTuple):
    """The arcs of a compact lattice, and the transition-ids of arcs and of final weights."""

    arc_starts: np.ndarray
    next_states: np.ndarray
    string_starts: np.ndarray
    ids: np.ndarray
    final_string_starts: np.ndarray
    final_ids: np.ndarray


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


def find_shifts(start: int, arc_starts: np.ndarray, next_states: np.ndarray, string_starts: np.ndarray, ids: np.ndarray,
                final_string_starts: np.ndarray, final_ids: np.ndarray, is_final: np.ndarray,
                shifts: np.ndarray) -> None:
    """Compute the length of the common prefix of the strings of all paths from each state, int64; 0 for the start."""
    strings = Strings(arc_starts, next_states, string_starts, ids, final_string_starts, final_ids)
    for state in range(len(shifts) - 1, -1, -1):
        first, end = arc_starts[state], arc_starts[state + 1]
        final_length = final_string_starts[state + 1] - final_string_starts[state]
        shift = final_length
        if first < end and not is_final[state]:
            shift = np.int64(1) << 62
        for arc in range(first, end):
            shift = min(shift, string_starts[arc + 1] - string_starts[arc] + shifts[next_states[arc]])
        for arc in range(first + 1, end):
            shift = _common(strings, first, arc, shift)
        if first < end and is_final[state]:
            shift = _common(strings, first, -1 - state, shift)
        shifts[state] = 0 if state == start else shift


def write_pushed(arc_starts: np.ndarray, next_states: np.ndarray, string_starts: np.ndarray, ids: np.ndarray,
                 final_string_starts: np.ndarray, final_ids: np.ndarray, shifts: np.ndarray, new_starts: np.ndarray,
                 new_ids: np.ndarray) -> None:
    """Write strings pushed to the start: an arc gains the common prefix of its target and loses that of its source.

    ``shifts`` are the lengths of the prefixes (:func:`find_shifts`); ``new_starts`` and ``new_ids`` are the new
    strings.
    """
    strings = Strings(arc_starts, next_states, string_starts, ids, final_string_starts, final_ids)
    for state in range(len(shifts)):
        for arc in range(arc_starts[state], arc_starts[state + 1]):
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


class Arcs(NamedTuple):
    """The arrays by which states are compared. ``order`` (int64) sorts the arcs of each state by label and destination.
    """

    strings: Strings
    labels: np.ndarray
    weights: np.ndarray
    final_weights: np.ndarray
    mapped: np.ndarray
    order: np.ndarray


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
def _are_equal(arcs: Arcs, state: int, other: int, final_delta: float, delta: float) -> bool:
    starts = arcs.strings.arc_starts
    count = starts[state + 1] - starts[state]
    if count != starts[other + 1] - starts[other] or not _are_near(arcs.final_weights, state, other, final_delta) or (
            not _same_string(arcs.strings.final_string_starts, arcs.strings.final_ids, state, other)):
        return False
    for place in range(count):
        i, j = arcs.order[starts[state] + place], arcs.order[starts[other] + place]
        if arcs.labels[i] != arcs.labels[j] or (
                arcs.mapped[arcs.strings.next_states[i]] != arcs.mapped[arcs.strings.next_states[j]]) or (
                not _are_near(arcs.weights, i, j, delta)) or (
                not _same_string(arcs.strings.string_starts, arcs.strings.ids, i, j)):
            return False
    return True


@inline
def _mixed(value: float, word: int) -> float:
    value = (value ^ np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
    return value ^ (value >> np.uint64(29))


@inline
def _sort_arcs(arcs: Arcs, state: int) -> None:
    """Sort the arcs of a state by label and by the number of the state that its destination was merged into."""
    starts, order, labels, mapped = arcs.strings.arc_starts, arcs.order, arcs.labels, arcs.mapped
    next_states = arcs.strings.next_states
    for place in range(starts[state], starts[state + 1]):
        arc, hole = np.int64(place), place
        while hole > starts[state] and (
                labels[order[hole - 1]] > labels[arc] or (
                    labels[order[hole - 1]] == labels[arc]
                    and mapped[next_states[order[hole - 1]]] > mapped[next_states[arc]])):
            order[hole] = order[hole - 1]
            hole -= 1
        order[hole] = arc


def find_equal_states(arc_starts: np.ndarray, labels: np.ndarray, next_states: np.ndarray, weights: np.ndarray,
                      string_starts: np.ndarray, ids: np.ndarray, final_weights: np.ndarray,
                      final_string_starts: np.ndarray, final_ids: np.ndarray, final_delta: float, delta: float,
                      order: np.ndarray, mapped: np.ndarray, heads: np.ndarray, chain: np.ndarray) -> None:
    """Write to ``mapped`` (int32) for each state an equal state with a higher number, or its own number.

    ``heads`` (int32, filled with -1, its length a power of 2) and ``chain`` (int32 (states,)) are a hash table of
    states.
    """
    strings = Strings(arc_starts, next_states, string_starts, ids, final_string_starts, final_ids)
    arcs = Arcs(strings, labels, weights, final_weights, mapped, order)
    for state in range(len(mapped) - 1, -1, -1):
        _sort_arcs(arcs, state)
        value = np.uint64(arc_starts[state + 1] - arc_starts[state])
        for place in range(final_string_starts[state], final_string_starts[state + 1]):
            value = _mixed(value, final_ids[place])
        for place in range(arc_starts[state], arc_starts[state + 1]):
            arc = order[place]
            value = _mixed(_mixed(value, labels[arc]), mapped[next_states[arc]])
        bucket = np.int64(value & np.uint64(len(heads) - 1))
        other = np.int64(heads[bucket])
        while other >= 0 and not _are_equal(arcs, state, other, final_delta, delta):
            other = np.int64(chain[other])
        mapped[state] = state
        if other >= 0:
            mapped[state] = other
        else:
            chain[state] = heads[bucket]
            heads[bucket] = state
