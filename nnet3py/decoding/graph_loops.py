"""The loops that check a decoding graph, whose tables are laid out as in ``search_layout.py``."""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.decoding.search_layout import (
    ARC_COST,
    ARC_INPUT,
    ARC_NEXT,
    ARC_OUTPUT,
    ARC_WORDS,
    FINAL,
    FIRST_ARC,
    NUM_ARCS,
    NUM_EPSILONS,
    STATE_WORDS,
)

FINE, BAD_RANGE, BAD_NEXT, BAD_INPUT, BAD_OUTPUT, BAD_COST, BAD_EPSILONS = range(7)


def check_tables(states: Any, state_costs: Any, arcs: Any, arc_costs: Any, num_states: int, num_arcs: int,
                 largest_label: int, place: np.ndarray) -> int:
    """What is wrong with a graph's tables. ``place`` gets the state, the arc, and the number found there."""
    for state in range(num_states):
        words = state * STATE_WORDS
        first, count = np.int64(states[words + FIRST_ARC]), np.int64(states[words + NUM_ARCS])
        place[0], place[1], place[2] = state, first, count
        if first + count > num_arcs:
            return BAD_RANGE
        cost = state_costs[words + FINAL]
        if cost != cost or cost == -np.inf:
            return BAD_COST
        epsilons = 0
        for arc in range(first, first + count):
            at = arc * ARC_WORDS
            label, output, following = arcs[at + ARC_INPUT], arcs[at + ARC_OUTPUT], arcs[at + ARC_NEXT]
            epsilons += label == 0
            place[1] = arc
            place[2] = following
            if following < 0 or following >= num_states:
                return BAD_NEXT
            place[2] = label
            if label < 0 or label > largest_label:
                return BAD_INPUT
            place[2] = output
            if output < 0:
                return BAD_OUTPUT
            cost = arc_costs[at + ARC_COST]
            if cost != cost or cost == -np.inf:
                return BAD_COST
        place[2] = epsilons
        if epsilons != np.int64(states[words + NUM_EPSILONS]):
            return BAD_EPSILONS
    return FINE


def find_epsilon_cycle(states: Any, arcs: Any, num_states: int, seen: np.ndarray, stack: np.ndarray,
                       position: np.ndarray) -> int:
    """A state on a cycle of arcs without input labels, or -1.

    ``seen`` (uint8, zeros): 1 while a state is on the stack, 2 afterwards; ``stack`` (int32) and ``position`` (int64,
    the next arc to follow) have room for every state with such arcs.
    """
    for root in range(num_states):
        depth = np.int64(0)
        if seen[root] == 0 and states[root * STATE_WORDS + NUM_EPSILONS] != 0:
            seen[root], stack[0], position[0], depth = 1, root, states[root * STATE_WORDS + FIRST_ARC], 1
        while depth > 0:
            state = np.int64(stack[depth - 1])
            words = state * STATE_WORDS
            arc = position[depth - 1]
            if arc == np.int64(states[words + FIRST_ARC]) + np.int64(states[words + NUM_ARCS]):
                seen[state] = 2
                depth -= 1
                continue
            position[depth - 1] = arc + 1
            if arcs[arc * ARC_WORDS + ARC_INPUT] != 0:
                continue
            following = arcs[arc * ARC_WORDS + ARC_NEXT]
            if seen[following] == 1:
                return np.int64(following)
            if seen[following] == 0 and states[np.int64(following) * STATE_WORDS + NUM_EPSILONS] != 0:
                seen[following], stack[depth] = 1, following
                position[depth] = states[np.int64(following) * STATE_WORDS + FIRST_ARC]
                depth += 1
    return np.int64(-1)


def find_free_arcs(states: Any, arcs: Any, num_states: int, num_transition_ids: int, is_disambig: np.ndarray,
                   edges: np.ndarray) -> int:
    """Write source, target and output label of arcs without transition-id, as far as there is room.

    Returns their number, or a label that is neither a transition-id nor marked in ``is_disambig``, less than 0.
    """
    count = np.int64(0)
    for state in range(num_states):
        words = state * STATE_WORDS
        first = np.int64(states[words + FIRST_ARC])
        for arc in range(first, first + np.int64(states[words + NUM_ARCS])):
            label = np.int64(arcs[arc * ARC_WORDS + ARC_INPUT])
            if label == 0 or is_disambig[label] != 0:
                if count < len(edges):
                    edges[count, 0], edges[count, 1] = state, arcs[arc * ARC_WORDS + ARC_NEXT]
                    edges[count, 2] = arcs[arc * ARC_WORDS + ARC_OUTPUT]
                count += 1
            elif label > num_transition_ids:
                return -label
    return count
