"""Loops over the tables of graphs (``layout.py``): checks, hash table of states, look-ahead data."""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.decoding import layout
from nnet3py.engine.inline import inline
from nnet3py.lattices.subset_loops import sort

# -- checks ------------------------------------------------------------------------------------------------------------


def check_tables(states: Any, state_costs: Any, arcs: Any, arc_costs: Any, num_states: int, num_arcs: int,
                 largest_label: int, place: np.ndarray) -> int:
    """Return the first error in a graph's tables, such as BAD_NEXT, or FINE.

    ``place`` (int64 (3,)) gets its state, its arc, and the wrong value.
    """
    for state in range(num_states):
        words = state * layout.STATE_WORDS
        first, count = np.int64(states[words + layout.FIRST_ARC]), np.int64(states[words + layout.NUM_ARCS])
        place[0], place[1], place[2] = state, first, count
        if first + count > num_arcs:
            return layout.BAD_RANGE
        cost = state_costs[words + layout.FINAL]
        if cost != cost or cost == -np.inf:
            return layout.BAD_COST
        epsilons = 0
        for arc in range(first, first + count):
            at = arc * layout.ARC_WORDS
            label, output = arcs[at + layout.ARC_INPUT], arcs[at + layout.ARC_OUTPUT]
            following = arcs[at + layout.ARC_NEXT]
            epsilons += label == 0
            place[1] = arc
            place[2] = following
            if following < 0 or following >= num_states:
                return layout.BAD_NEXT
            place[2] = label
            if label < 0 or label > largest_label:
                return layout.BAD_INPUT
            place[2] = output
            if output < 0:
                return layout.BAD_OUTPUT
            cost = arc_costs[at + layout.ARC_COST]
            if cost != cost or cost == -np.inf:
                return layout.BAD_COST
        place[2] = epsilons
        if epsilons != np.int64(states[words + layout.NUM_EPSILONS]):
            return layout.BAD_EPSILONS
    return layout.FINE


def find_epsilon_cycle(states: Any, arcs: Any, num_states: int, seen: np.ndarray, stack: np.ndarray,
                       position: np.ndarray) -> int:
    """Return a state on a cycle of arcs without input labels; -1 if there is no such cycle.

    Scratch memory: ``seen`` (uint8 (states,), zeros) is 1 while a state is on the stack, 2 afterwards; ``stack``
    (int32) and ``position`` (int64, the next arc to follow) have room for every state with such arcs.
    """
    for root in range(num_states):
        depth = np.int64(0)
        if seen[root] == 0 and states[root * layout.STATE_WORDS + layout.NUM_EPSILONS] != 0:
            seen[root], stack[0], position[0], depth = 1, root, states[root * layout.STATE_WORDS + layout.FIRST_ARC], 1
        while depth > 0:
            state = np.int64(stack[depth - 1])
            words = state * layout.STATE_WORDS
            arc = position[depth - 1]
            if arc == np.int64(states[words + layout.FIRST_ARC]) + np.int64(states[words + layout.NUM_ARCS]):
                seen[state] = 2
                depth -= 1
                continue
            position[depth - 1] = arc + 1
            if arcs[arc * layout.ARC_WORDS + layout.ARC_INPUT] != 0:
                continue
            following = arcs[arc * layout.ARC_WORDS + layout.ARC_NEXT]
            if seen[following] == 1:
                return np.int64(following)
            if seen[following] == 0 and states[np.int64(following) * layout.STATE_WORDS + layout.NUM_EPSILONS] != 0:
                seen[following], stack[depth] = 1, following
                position[depth] = states[np.int64(following) * layout.STATE_WORDS + layout.FIRST_ARC]
                depth += 1
    return np.int64(-1)


def find_free_arcs(states: Any, arcs: Any, num_states: int, num_transition_ids: int, is_disambig: np.ndarray,
                   edges: np.ndarray) -> int:
    """Write source, target and output label of arcs without transition-id to ``edges``; return their number.

    If ``edges`` is too small, further arcs are only counted. If an input label is neither a transition-id nor marked in
    ``is_disambig``, return minus that label.
    """
    count = np.int64(0)
    for state in range(num_states):
        words = state * layout.STATE_WORDS
        first = np.int64(states[words + layout.FIRST_ARC])
        for arc in range(first, first + np.int64(states[words + layout.NUM_ARCS])):
            label = np.int64(arcs[arc * layout.ARC_WORDS + layout.ARC_INPUT])
            if label == 0 or is_disambig[label] != 0:
                if count < len(edges):
                    edges[count, 0], edges[count, 1] = state, arcs[arc * layout.ARC_WORDS + layout.ARC_NEXT]
                    edges[count, 2] = arcs[arc * layout.ARC_WORDS + layout.ARC_OUTPUT]
                count += 1
            elif label > num_transition_ids:
                return -label
    return count


# -- hash table of the states of graphs made while decoding ------------------------------------------------------------


@inline
def first_place(mask: int, key: int, label: int) -> int:
    """Return the first index to look for a state in a hash table of size ``mask`` + 1."""
    mixed = (np.uint64(key) ^ (np.uint64(label) << np.uint64(20))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(24)) & mask


@inline
def place_of(keys: Any, table: Any, mask: int, key: int, label: int) -> int:
    """Return the index of a state in the hash table, or the free index where it can be inserted.

    A state is identified by two numbers, ``key`` and ``label``, stored in ``keys``.
    """
    place = first_place(mask, key, label)
    while True:
        state = np.int64(table[place])
        if state < 0 or (keys[2 * state] == key and keys[2 * state + 1] == label):
            return place
        place = (place + 1) & mask


def rebuild_table(keys: np.ndarray, table: np.ndarray, count: int) -> None:
    """Insert the first ``count`` states into the hash table ``table``, for example after it was enlarged."""
    mask = np.int64(len(table) - 1)
    for place in range(len(table)):
        table[place] = -1
    for state in range(count):
        table[place_of(keys, table, mask, keys[2 * state], keys[2 * state + 1])] = state


# -- look-ahead data: the labels that can come next from a state, through arcs without output label --------------------

MORE = 1


def find_components(states: Any, arcs: Any, num_states: int, depth: np.ndarray, lowest: np.ndarray,
                    component: np.ndarray, stack: np.ndarray, waiting: np.ndarray, position: np.ndarray,
                    new_labels: np.ndarray) -> int:
    """Find the strongly connected components of a graph without its arcs with output labels; renumber output labels.

    Return the number of components (Tarjan's algorithm): a component has a higher number than those that it leads to.
    Labels are renumbered in the order in which the depth-first search meets them, so that the labels that can come next
    after a state form few intervals. ``depth``, ``lowest``, ``component``, ``stack``, ``waiting`` (int32) and
    ``position`` (int64) have an element for each state; ``depth`` and ``component`` must be -1. ``new_labels`` (int32,
    zeros) gets numbers from 1 for the labels that occur, and their count at index 0.
    """
    num_components, seen = np.int64(0), np.int64(0)
    num_labels = np.int64(0)
    for root in range(num_states):
        top, num_waiting = np.int64(0), np.int64(0)
        if depth[root] < 0:
            stack[0], top = root, 1
        while top > 0:
            state = np.int64(stack[top - 1])
            words = state * layout.STATE_WORDS
            if depth[state] < 0:
                depth[state] = lowest[state] = seen
                seen += 1
                waiting[num_waiting] = state
                num_waiting += 1
                position[state] = states[words + layout.FIRST_ARC]
            if position[state] < np.int64(states[words + layout.FIRST_ARC]) + np.int64(states[words + layout.NUM_ARCS]):
                at = position[state] * layout.ARC_WORDS
                position[state] += 1
                label, following = arcs[at + layout.ARC_OUTPUT], np.int64(arcs[at + layout.ARC_NEXT])
                if label != 0:
                    if new_labels[label] == 0:
                        num_labels += 1
                        new_labels[label] = num_labels
                elif depth[following] < 0:
                    stack[top] = following
                    top += 1
                elif component[following] < 0:
                    lowest[state] = min(lowest[state], depth[following])
                continue
            top -= 1
            if top > 0:
                lowest[stack[top - 1]] = min(lowest[stack[top - 1]], lowest[state])
            if lowest[state] == depth[state]:
                while True:
                    num_waiting -= 1
                    member = waiting[num_waiting]
                    component[member] = num_components
                    if member == state:
                        break
                num_components += 1
    new_labels[0] = num_labels
    return num_components


def find_intervals(states: Any, state_costs: Any, arcs: Any, component: np.ndarray, members: np.ndarray,
                   member_starts: np.ndarray, new_labels: np.ndarray, final_label: int, lows: np.ndarray,
                   highs: np.ndarray, progress: np.ndarray, starts: np.ndarray, intervals: np.ndarray) -> int:
    """Write the intervals of labels that can come next from each component, in the order of components.

    ``members`` (int32) are the states sorted by component; ``lows`` and ``highs`` (int64) are scratch memory. Return 0,
    or MORE if ``lows``, ``highs`` and ``intervals`` must be enlarged; a further call continues at component
    ``progress[0]``.
    """
    for number in range(progress[0], len(starts) - 1):
        count = np.int64(0)
        for place in range(member_starts[number], member_starts[number + 1]):
            words = np.int64(members[place]) * layout.STATE_WORDS
            if count == len(lows):
                return MORE
            if state_costs[words + layout.FINAL] != np.inf:
                lows[count], highs[count] = final_label, final_label + 1
                count += 1
            first_arc = np.int64(states[words + layout.FIRST_ARC])
            for arc in range(first_arc, first_arc + np.int64(states[words + layout.NUM_ARCS])):
                label = np.int64(arcs[arc * layout.ARC_WORDS + layout.ARC_OUTPUT])
                other = component[arcs[arc * layout.ARC_WORDS + layout.ARC_NEXT]]
                from_place, to_place = np.int64(starts[other]), np.int64(starts[other])
                if label == 0 and other != number:
                    to_place = starts[other + 1]
                if count + 1 + (to_place - from_place) > len(lows):
                    return MORE
                if label != 0:
                    lows[count], highs[count] = new_labels[label], new_labels[label] + 1
                    count += 1
                for interval in range(from_place, to_place):
                    lows[count], highs[count] = intervals[interval, 0], intervals[interval, 1]
                    count += 1
        if starts[number] + count > len(intervals):
            return MORE
        starts[number + 1] = _write_merged(lows, highs, count, intervals, starts[number])
        progress[0] = number + 1
    return 0


@inline
def _write_merged(lows: np.ndarray, highs: np.ndarray, count: int, intervals: np.ndarray, first: int) -> int:
    """Sort intervals and write them from row ``first`` on, merging those that touch; return the row after the last."""
    sort(lows, highs, count)
    end = first
    for i in range(count):
        if end > first and lows[i] <= intervals[end - 1, 1]:
            intervals[end - 1, 1] = max(np.int64(intervals[end - 1, 1]), highs[i])
        else:
            intervals[end, 0], intervals[end, 1] = lows[i], highs[i]
            end += 1
    return end


def check_intervals(words: Any, num_words: int, num_states: int, spans: np.ndarray) -> int:
    """Parse the intervals of all states in a look-ahead file; return the number of words that they take.

    A state has the number of its intervals (64 bits), the intervals, and the number of labels; ``words`` are the file's
    32-bit words. ``spans`` (int32 (states, 2)) gets a state's only interval or, if it has several, -1 and the index in
    ``words`` of the first. Return -1 if the file ends too early, or intervals are not sorted.
    """
    place = np.int64(0)
    for state in range(num_states):
        if place + 3 > num_words or words[place + 1] != 0 or words[place] < 0:
            return np.int64(-1)
        size = np.int64(words[place])
        place += 2
        if place + 2 * size + 1 > num_words or place > 0x7FFFFFFF:
            return np.int64(-1)
        spans[state, 0], spans[state, 1] = -1, place
        if size == 1:
            spans[state, 0], spans[state, 1] = words[place], words[place + 1]
        for interval in range(place, place + 2 * size, 2):
            low = words[interval]
            if low < 0 or low >= words[interval + 1] or (interval > place and low < words[interval - 1]):
                return np.int64(-1)
        place += 2 * size + 1
    return place
