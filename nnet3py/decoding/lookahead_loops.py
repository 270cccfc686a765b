"""The loops that compose HCL and G while decoding, state by state, looking ahead.

A composed state is a state of each, and whether G's arcs without input label may still be followed: those come before
HCL's arcs without output label, so that no path occurs twice. Its potential is the least cost in G of a word that
HCL can produce next: arcs cost the growth of the potential besides their own costs, so that the language model counts
early and whole paths cost what they should. Where no word is possible there is no state.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nnet3py.decoding.growing_loops import place_of
from nnet3py.decoding.lookahead_layout import BLOCK, DONE, MORE_ARCS, MORE_STATES, MOST_BACKOFFS, NUM_STATES, PLACE
from nnet3py.decoding.lookahead_layout import NUM_ARCS as NUM_MADE_ARCS
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
from nnet3py.engine.inline import inline

_INFINITY = np.float32(np.inf)


class Tables(NamedTuple):
    """A graph, laid out as in ``search_layout.py``."""

    states: Any
    state_costs: Any
    arcs: Any
    arc_costs: Any


class Reach(NamedTuple):
    """Which labels can come next from a state of HCL, as half-open intervals; and least costs of blocks of G's arcs."""

    part_of_state: np.ndarray
    starts: np.ndarray
    intervals: np.ndarray
    final_label: int
    minima: np.ndarray
    coarse_minima: np.ndarray


class Made(NamedTuple):
    """Composed states and arcs so far."""

    keys: np.ndarray
    potentials: np.ndarray
    table: np.ndarray
    states: np.ndarray
    state_costs: np.ndarray
    arcs: np.ndarray
    arc_costs: np.ndarray
    counts: np.ndarray


def expand(hcl_states: Any, hcl_state_costs: Any, hcl_arcs: Any, hcl_arc_costs: Any, g_states: Any, g_state_costs: Any,
           g_arcs: Any, g_arc_costs: Any, part_of_state: np.ndarray, starts: np.ndarray, intervals: np.ndarray,
           final_label: int, minima: np.ndarray, coarse_minima: np.ndarray, is_disambig: np.ndarray, keys: np.ndarray,
           potentials: np.ndarray, table: np.ndarray, states: np.ndarray, state_costs: np.ndarray, arcs: np.ndarray,
           arc_costs: np.ndarray, counts: np.ndarray, wanted: np.ndarray) -> int:
    """Make the arcs of all states in ``wanted``, from ``counts[PLACE]`` on, that have none yet."""
    hcl = Tables(hcl_states, hcl_state_costs, hcl_arcs, hcl_arc_costs)
    g = Tables(g_states, g_state_costs, g_arcs, g_arc_costs)
    reach = Reach(part_of_state, starts, intervals, final_label, minima, coarse_minima)
    made = Made(keys, potentials, table, states, state_costs, arcs, arc_costs, counts)
    while counts[PLACE] < len(wanted):
        state = np.int64(wanted[counts[PLACE]])
        if states[state, NUM_ARCS] == -1:
            status = _expand_one(hcl, g, reach, made, is_disambig, state)
            if status != DONE:
                return status
        counts[PLACE] += 1
    return DONE


def add_state(hcl_states: Any, hcl_state_costs: Any, g_states: Any, g_state_costs: Any, keys: np.ndarray,
              potentials: np.ndarray, table: np.ndarray, states: np.ndarray, state_costs: np.ndarray,
              counts: np.ndarray, key: int, potential: float) -> int:
    """Add a state whose potential is known; returns its number. There must be room."""
    hcl = Tables(hcl_states, hcl_state_costs, hcl_states, hcl_state_costs)
    g = Tables(g_states, g_state_costs, g_states, g_state_costs)
    made = Made(keys, potentials, table, states, state_costs, states, state_costs, counts)
    place = place_of(made.keys, made.table, key)
    if table[place] < 0:
        _add(hcl, g, made, place, key, potential)
    return np.int64(table[place])


@inline
def _add(hcl: Tables, g: Tables, made: Made, place: int, key: int, potential: float) -> int:
    state = made.counts[NUM_STATES]
    made.counts[NUM_STATES] += 1
    made.table[place] = state
    made.keys[state], made.potentials[state] = key, potential
    left, right = key >> 32, (key & 0xFFFFFFFF) >> 1
    made.state_costs[state, FINAL] = (hcl.state_costs[left * STATE_WORDS + FINAL]
                                      + g.state_costs[right * STATE_WORDS + FINAL]) - potential
    made.states[state, FIRST_ARC], made.states[state, NUM_ARCS], made.states[state, NUM_EPSILONS] = 0, -1, 0
    return np.int64(state)


# -- what can come next ------------------------------------------------------------------------------------------------


@inline
def _first_at_least(g: Tables, first: int, end: int, label: int) -> int:
    """The first of G's arcs from ``first`` to ``end`` whose label is at least ``label``."""
    while first < end:
        middle = (first + end) // 2
        if g.arcs[middle * ARC_WORDS + ARC_INPUT] < label:
            first = middle + 1
        else:
            end = middle
    return first


@inline
def _least_cost(g: Tables, reach: Reach, first: int, end: int) -> float:
    """The least cost of G's arcs from ``first`` to ``end``."""
    least = _INFINITY
    while first < end:
        if first % BLOCK != 0 or first + BLOCK > end:
            least = min(least, g.arc_costs[first * ARC_WORDS + ARC_COST])
            first += 1
        elif first % (BLOCK * BLOCK) != 0 or first + BLOCK * BLOCK > end:
            least = min(least, reach.minima[first // BLOCK])
            first += BLOCK
        else:
            least = min(least, reach.coarse_minima[first // (BLOCK * BLOCK)])
            first += BLOCK * BLOCK
    return least


@inline
def _potential_here(g: Tables, reach: Reach, part: int, state: int) -> float:
    """The least cost of the words that HCL can produce next, in a state of G, without back-off."""
    words = state * STATE_WORDS
    first = np.int64(g.states[words + FIRST_ARC])
    end, least = first + np.int64(g.states[words + NUM_ARCS]), _INFINITY
    first += np.int64(g.states[words + NUM_EPSILONS])             # sorted: those without labels come first
    for place in range(reach.starts[part], reach.starts[part + 1]):
        low, high = reach.intervals[place, 0], reach.intervals[place, 1]
        if low <= reach.final_label and reach.final_label < high:
            least = min(least, g.state_costs[words + FINAL])
        from_arc = _first_at_least(g, first, end, low)
        to_arc = _first_at_least(g, from_arc, end, high)
        least = min(least, _least_cost(g, reach, from_arc, to_arc))
    return least


@inline
def _potential(g: Tables, reach: Reach, key: int) -> float:
    """The potential of a composed state; infinity if nothing can follow."""
    part, state = np.int64(reach.part_of_state[key >> 32]), (key & 0xFFFFFFFF) >> 1
    least, backoff, followed = _INFINITY, np.float32(0.0), 0
    while True:
        least = min(least, backoff + _potential_here(g, reach, part, state))
        words = state * STATE_WORDS
        count = np.int64(g.states[words + NUM_EPSILONS])
        if key & 1 or count == 0:
            return least
        followed += 1
        if count > 1 or followed > MOST_BACKOFFS:
            return min(least, np.float32(0.0))
        arc = np.int64(g.states[words + FIRST_ARC]) * ARC_WORDS
        backoff += g.arc_costs[arc + ARC_COST]
        state = np.int64(g.arcs[arc + ARC_NEXT])


# -- arcs --------------------------------------------------------------------------------------------------------------


@inline
def _key(g: Tables, left: int, right: int, without_backoff: bool) -> int:
    """The key of a composed state. Where G has no back-off, backing off counts as forbidden from the beginning."""
    none = without_backoff or g.states[right * STATE_WORDS + NUM_EPSILONS] == 0
    return (np.int64(left) << 32) | (np.int64(right) << 1) | np.int64(none)


@inline
def _add_arc(hcl: Tables, g: Tables, reach: Reach, made: Made, state: int, key: int, label: int, output: int,
             cost: float) -> None:
    """Add an arc from a composed state to the one with ``key``, if anything can follow there."""
    place = place_of(made.keys, made.table, key)
    to = np.int64(made.table[place])
    if to < 0:
        to = _add(hcl, g, made, place, key, _potential(g, reach, key))
    if made.potentials[to] == _INFINITY:
        return
    arc = made.counts[NUM_MADE_ARCS]
    made.counts[NUM_MADE_ARCS] += 1
    made.arcs[arc, ARC_INPUT], made.arcs[arc, ARC_OUTPUT], made.arcs[arc, ARC_NEXT] = label, output, to
    made.arc_costs[arc, ARC_COST] = cost + (made.potentials[to] - made.potentials[state])
    made.states[state, NUM_EPSILONS] += label == 0


@inline
def _expand_one(hcl: Tables, g: Tables, reach: Reach, made: Made, is_disambig: np.ndarray, state: int) -> int:
    """Make the arcs of a state; without enough room it makes none."""
    key, counts = made.keys[state], made.counts
    left, right = key >> 32, (key & 0xFFFFFFFF) >> 1
    first_made = counts[NUM_MADE_ARCS]
    made.states[state, NUM_EPSILONS] = 0
    g_words = right * STATE_WORDS
    g_first = np.int64(g.states[g_words + FIRST_ARC])
    g_end, g_epsilons = g_first + np.int64(g.states[g_words + NUM_ARCS]), np.int64(g.states[g_words + NUM_EPSILONS])
    words = left * STATE_WORDS
    first = np.int64(hcl.states[words + FIRST_ARC])
    for step in range(np.int64(hcl.states[words + NUM_ARCS]) + 1):
        # The last step is for G's arcs without labels, the others are for HCL's arcs.
        arc, last = (first + step) * ARC_WORDS, step == np.int64(hcl.states[words + NUM_ARCS])
        from_arc, to_arc, label, output, cost, after = g_first, g_first, np.int64(0), np.int64(0), np.float32(0.0), left
        if last and not key & 1:
            to_arc = g_first + g_epsilons
        if not last:
            label, output = np.int64(hcl.arcs[arc + ARC_INPUT]), np.int64(hcl.arcs[arc + ARC_OUTPUT])
            cost, after = hcl.arc_costs[arc + ARC_COST], np.int64(hcl.arcs[arc + ARC_NEXT])
            if is_disambig[label]:
                label = np.int64(0)
            if output != 0:
                from_arc = _first_at_least(g, g_first + g_epsilons, g_end, output)
                to_arc = _first_at_least(g, from_arc, g_end, output + 1)
        most = to_arc - from_arc + 1
        if counts[NUM_STATES] + most > len(made.keys) or 2 * (counts[NUM_STATES] + most) > len(made.table) or (
                counts[NUM_MADE_ARCS] + most > len(made.arcs)):
            status = MORE_ARCS if counts[NUM_MADE_ARCS] + most > len(made.arcs) else MORE_STATES
            counts[NUM_MADE_ARCS] = first_made
            return status
        if not last and output == 0:
            _add_arc(hcl, g, reach, made, state, _key(g, after, right, True), label, np.int64(0), cost)
        for g_arc in range(from_arc, to_arc):
            at = g_arc * ARC_WORDS
            to_key = _key(g, after, np.int64(g.arcs[at + ARC_NEXT]), False)
            _add_arc(hcl, g, reach, made, state, to_key, label, np.int64(g.arcs[at + ARC_OUTPUT]),
                     cost + g.arc_costs[at + ARC_COST])
    made.states[state, FIRST_ARC] = first_made
    made.states[state, NUM_ARCS] = counts[NUM_MADE_ARCS] - first_made
    return DONE
