"""Loops of composing a graph of phones with a transducer to windows, for ``context.py``; imported only to be compiled.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.inline import inline

DONE, NEW_STEP, MORE_STATES, MORE_ARCS = range(4)
EMPTY = np.int64(-1)
_EPSILON = 0
_REFUSED = -1


@inline
def slot_of(keys, key):
    """Return the index of ``key`` in a hash table of keys, or the free index where it can be inserted.

    The size of the table is a power of 2.
    """
    mask = len(keys) - 1
    at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while keys[at] != EMPTY and keys[at] != key:
        at = (at + 1) & mask
    return at


def expand(place, arc_starts, labels, targets, step_keys, step_values, state_keys, state_numbers, histories, states,
           sources, windows, next_states, arcs):
    """Expand the (history, state) pairs breadth first; return DONE, or what is missing to continue, such as MORE_ARCS.

    ``place`` (int64 (6,)) is updated: the pair that is expanded, its next arc (-1: its first), the numbers of pairs and
    of arcs; and for NEW_STEP the history and the symbol that are missing in the hash table ``step_keys``, whose values
    ``step_values`` are (window id, next history).
    """
    source, arc, num_states, num_arcs = place[0], place[1], place[2], place[3]
    status = DONE
    while source < num_states:
        history, state = np.int64(histories[source]), states[source]
        if arc < 0:
            arc = arc_starts[state]
        while arc < arc_starts[state + 1]:
            if num_arcs == len(sources):
                status = MORE_ARCS
                break
            if 2 * num_states >= len(state_keys) or num_states == len(states):
                status = MORE_STATES
                break
            window, following = 0, history
            if labels[arc] != _EPSILON:
                key = (history << 32) | np.int64(labels[arc])
                at = slot_of(step_keys, key)
                if step_keys[at] == EMPTY:
                    place[4], place[5] = history, labels[arc]
                    status = NEW_STEP
                    break
                window, following = step_values[at, 0], np.int64(step_values[at, 1])
            if following != _REFUSED:
                key = (following << 32) | np.int64(targets[arc])
                at = slot_of(state_keys, key)
                if state_keys[at] == EMPTY:
                    state_keys[at], state_numbers[at] = key, num_states
                    histories[num_states], states[num_states] = following, targets[arc]
                    num_states += 1
                sources[num_arcs], windows[num_arcs] = source, window
                next_states[num_arcs], arcs[num_arcs] = state_numbers[at], arc
                num_arcs += 1
            arc += 1
        if status != DONE:
            break
        source, arc = source + 1, np.int64(-1)
    place[0], place[1], place[2], place[3] = source, arc, num_states, num_arcs
    return status


def insert(keys, new_keys, slots):
    """Insert new keys into a hash table that has room; write the index of each to ``slots``."""
    for i in range(len(new_keys)):
        at = slot_of(keys, new_keys[i])
        keys[at] = new_keys[i]
        slots[i] = at
    return len(new_keys)
