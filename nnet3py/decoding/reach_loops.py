"""The loops that find which labels can come next from each state of a graph, through arcs without output label.

States that lead to each other by such arcs are one part. Labels are numbered in the order in which a depth-first search
leaves them, so that where the graph is like a tree, few intervals hold what can come next.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.decoding.search_layout import (
    ARC_NEXT,
    ARC_OUTPUT,
    ARC_WORDS,
    FINAL,
    FIRST_ARC,
    NUM_ARCS,
    STATE_WORDS,
)
from nnet3py.engine.inline import inline
from nnet3py.lattices.subset_loops import sort

DONE, MORE = 0, 1


def find_parts(states: Any, arcs: Any, num_states: int, depth: np.ndarray, lowest: np.ndarray, part: np.ndarray,
               stack: np.ndarray, waiting: np.ndarray, position: np.ndarray, new_labels: np.ndarray) -> int:
    """Number the parts, each after those that it leads to, and the labels; returns the number of parts.

    ``depth``, ``lowest``, ``part``, ``stack``, ``waiting`` (int32) and ``position`` (int64) are as large as the states;
    ``depth`` and ``part`` are -1 at the beginning. ``new_labels`` (int32, 0 at the beginning) gets numbers from 1 for
    the labels that occur, and at 0 their count.
    """
    num_parts, seen = np.int64(0), np.int64(0)
    num_labels = np.int64(0)
    for root in range(num_states):
        top, num_waiting = np.int64(0), np.int64(0)
        if depth[root] < 0:
            stack[0], top = root, 1
        while top > 0:
            state = np.int64(stack[top - 1])
            words = state * STATE_WORDS
            if depth[state] < 0:
                depth[state] = lowest[state] = seen
                seen += 1
                waiting[num_waiting] = state
                num_waiting += 1
                position[state] = states[words + FIRST_ARC]
            if position[state] < np.int64(states[words + FIRST_ARC]) + np.int64(states[words + NUM_ARCS]):
                at = position[state] * ARC_WORDS
                position[state] += 1
                label, following = arcs[at + ARC_OUTPUT], np.int64(arcs[at + ARC_NEXT])
                if label != 0:
                    if new_labels[label] == 0:
                        num_labels += 1
                        new_labels[label] = num_labels
                elif depth[following] < 0:
                    stack[top] = following
                    top += 1
                elif part[following] < 0:
                    lowest[state] = min(lowest[state], depth[following])
                continue
            top -= 1
            if top > 0:
                lowest[stack[top - 1]] = min(lowest[stack[top - 1]], lowest[state])
            if lowest[state] == depth[state]:
                while True:
                    num_waiting -= 1
                    member = waiting[num_waiting]
                    part[member] = num_parts
                    if member == state:
                        break
                num_parts += 1
    new_labels[0] = num_labels
    return num_parts


def find_intervals(states: Any, state_costs: Any, arcs: Any, part: np.ndarray, members: np.ndarray,
                   member_starts: np.ndarray, new_labels: np.ndarray, final_label: int, lows: np.ndarray,
                   highs: np.ndarray, progress: np.ndarray, starts: np.ndarray, intervals: np.ndarray) -> int:
    """Write the intervals of the labels that can come next, part by part from ``progress[0]`` on.

    ``members`` (int32) are the states by part; ``lows`` and ``highs`` (int64) are scratch. MORE: these and
    ``intervals`` must become larger; the intervals of the parts so far are kept.
    """
    for number in range(progress[0], len(starts) - 1):
        count = np.int64(0)
        for place in range(member_starts[number], member_starts[number + 1]):
            words = np.int64(members[place]) * STATE_WORDS
            if count == len(lows):
                return MORE
            if state_costs[words + FINAL] != np.inf:
                lows[count], highs[count] = final_label, final_label + 1
                count += 1
            first_arc = np.int64(states[words + FIRST_ARC])
            for arc in range(first_arc, first_arc + np.int64(states[words + NUM_ARCS])):
                label, other = np.int64(arcs[arc * ARC_WORDS + ARC_OUTPUT]), part[arcs[arc * ARC_WORDS + ARC_NEXT]]
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
    return DONE


@inline
def _write_merged(lows: np.ndarray, highs: np.ndarray, count: int, intervals: np.ndarray, first: int) -> int:
    """Write intervals in order, merging those that touch; returns the place after them."""
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
    """Find the intervals of each state in a look-ahead file: preceded by their number (64 bits), followed by a count.

    ``words`` are the file's 32-bit words. ``spans`` (int32 (states, 2)) gets a state's only interval, or -1 and the
    place of the first one. Returns how many words belong to the states; -1 if they end too early, or the intervals of
    a state are not in order.
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
