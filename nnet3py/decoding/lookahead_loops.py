"""Loops that compose HCL and G while decoding, state by state, with look-ahead as in OpenFst.

A composed state is identified by a state of HCL, a state of G, a flag and a label. The flag is set after an arc of HCL
without output label: then G does not back off before the next word, so that no path occurs twice. The label, if not
0, is that of a word that G has accepted already, but HCL has not output yet. After an arc of HCL without output
label, the labels that HCL can output next are compared with the labels on arcs of G's state:

- no common label, and no common end: the composition has no such arc;
- one common label: G accepts it at once, with its cost, and HCL has to output it later (label pushing);
- several: the state's potential is their summed probability, as a cost (weight pushing).

The target's potential minus the source's is added to an arc's cost, so that language model costs are included early,
and complete paths have their proper costs. Potentials of other states are 0. OpenFst: ``ComposeFst`` with
``LabelLookAheadMatcher``, ``AltSequenceComposeFilter``, ``PushWeightsComposeFilter`` and ``PushLabelsComposeFilter``;
but potentials are not rounded to multiples of 1/1024.

The loops take memory addresses: with arrays, reference counts would change whenever a function is entered.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nnet3py.decoding import layout
from nnet3py.decoding.graph_loops import first_place, place_of
from nnet3py.decoding.layout import Composed, Grammar, Hcl
from nnet3py.engine.inline import address, bring, inline
from nnet3py.lattices.structures import by_arrays

_INFINITY = np.float32(np.inf)
_LEAST_PART = 1.0e-11          # part of a running sum above which a difference of two sums is precise enough
_MANY = 64                     # words above which labels are checked for following each other


class Words(NamedTuple):
    """A range of arcs of a state of G, sorted by label.

    ``state_first`` is the state's first arc with a label, where the running sums begin; ``is_dense``: more than half of
    the labels in the range occur.
    """

    state_first: int
    first: int
    end: int
    is_dense: bool


@by_arrays
def expand(hcl: Hcl, g: Grammar, made: Composed, wanted: Any, num_wanted: int) -> int:
    """Make the arcs of states in ``wanted`` that have none yet; return DONE, or the array to enlarge.

    ``counts[PLACE]`` is the position in ``wanted``, from which a further call continues.
    """
    while made.counts[layout.PLACE] < num_wanted:
        _bring_ahead(hcl, g, made, wanted, num_wanted)
        state = np.int64(wanted[made.counts[layout.PLACE]])
        if made.states[state * layout.STATE_WORDS + layout.NUM_ARCS] == -1:
            status = _expand_one(hcl, g, made, state)
            if status != layout.DONE:
                return status
        made.counts[layout.PLACE] += 1
    return np.int64(layout.DONE)


@by_arrays
def add_state(hcl: Hcl, g: Grammar, made: Composed, key: int, label: int, potential: float, first: int,
              end: int) -> int:
    """Return the number of a composed state; a new one is added, for which there must be room.

    ``first`` and ``end`` are the range of G's arcs whose labels can come next.
    """
    return _state_of(hcl, g, made, key, label, potential, first, end)


@inline
def _state_of(hcl: Hcl, g: Grammar, made: Composed, key: int, label: int, potential: float, first: int,
              end: int) -> int:
    place = place_of(made.keys, made.table, made.mask, key, label)
    if made.table[place] < 0:
        state = np.int64(made.counts[layout.NUM_STATES])
        made.counts[layout.NUM_STATES] = state + 1
        made.table[place] = state
        made.keys[2 * state], made.keys[2 * state + 1], made.potentials[state] = key, label, potential
        made.ranges[2 * state], made.ranges[2 * state + 1] = first, end
        left, right, final = key >> 32, (key & 0xFFFFFFFF) >> 1, _INFINITY
        if label == 0 and hcl.traits[left] & layout.CAN_END:
            final = (hcl.state_costs[left * layout.STATE_WORDS + layout.FINAL]
                     + g.state_costs[right * layout.STATE_WORDS + layout.FINAL]) - potential
        words = state * layout.STATE_WORDS
        made.state_costs[words + layout.FINAL] = final
        made.states[words + layout.FIRST_ARC], made.states[words + layout.NUM_ARCS] = 0, -1
        backs_off = key & 1 == 0 and label == 0 and g.states[right * layout.STATE_WORDS + layout.NUM_EPSILONS] != 0
        made.states[words + layout.NUM_EPSILONS] = backs_off or hcl.traits[left] & layout.HAS_FREE_ARCS != 0
    return np.int64(made.table[place])


@inline
def _bring_ahead(hcl: Hcl, g: Grammar, made: Composed, wanted: Any, num_wanted: int) -> None:
    """Prefetch the memory of the states to come, each step of indirection some states before it is needed."""
    place = np.int64(made.counts[layout.PLACE])
    if place + 12 < num_wanted:
        state = np.int64(wanted[place + 12])
        bring(address(made.keys) + 16 * state)
        bring(address(made.states) + 4 * layout.STATE_WORDS * state)
    if place + 8 < num_wanted:
        key = made.keys[2 * np.int64(wanted[place + 8])]
        bring(address(hcl.states) + 4 * layout.STATE_WORDS * (key >> 32))
        bring(address(g.states) + 4 * layout.STATE_WORDS * ((key & 0xFFFFFFFF) >> 1))
    if place + 5 < num_wanted:
        left = made.keys[2 * np.int64(wanted[place + 5])] >> 32
        first = np.int64(hcl.states[left * layout.STATE_WORDS + layout.FIRST_ARC])
        bring(address(hcl.arcs) + 4 * layout.ARC_WORDS * first)
    if place + 2 < num_wanted:
        key = made.keys[2 * np.int64(wanted[place + 2])]
        left = key >> 32
        first = np.int64(hcl.states[left * layout.STATE_WORDS + layout.FIRST_ARC])
        count = np.int64(hcl.states[left * layout.STATE_WORDS + layout.NUM_ARCS])
        for arc in range(first, first + min(count, np.int64(8))):
            after = np.int64(hcl.arcs[arc * layout.ARC_WORDS + layout.ARC_NEXT])
            bring(address(hcl.spans) + 8 * after)
            bring(address(made.table) + 4 * first_place(made.mask, _key(after, (key & 0xFFFFFFFF) >> 1, True), 0))


# -- G -----------------------------------------------------------------------------------------------------------------


@inline
def _words_of(g: Grammar, state: int) -> Words:
    """Return the range of a state's arcs that have labels."""
    words = state * layout.STATE_WORDS
    first, count = np.int64(g.states[words + layout.FIRST_ARC]), np.int64(g.states[words + layout.NUM_ARCS])
    end = first + count
    if g.is_ngram == 0:
        first += np.int64(g.states[words + layout.NUM_EPSILONS])
    return _some_words(g, first, first, end)


@inline
def _some_words(g: Grammar, state_first: int, first: int, end: int) -> Words:
    is_dense = False
    if end - first > _MANY:
        is_dense = np.int64(g.labels[(end - 1) * g.stride]) - np.int64(g.labels[first * g.stride]) < 2 * (end - first)
    return Words(state_first, first, end, is_dense)


@inline
def _bisect(values: Any, at: int, step: int, first: int, end: int, least: int) -> int:
    """Return the first i from ``first`` on for which ``values[at + step * i]``, ascending, is ``least`` or more."""
    while first < end:
        middle = (first + end) // 2
        if values[at + step * middle] < least:
            first = middle + 1
        else:
            end = middle
    return first


@inline
def _gallop(values: Any, at: int, step: int, first: int, end: int, least: int) -> int:
    """Return what :func:`_bisect` returns, quickly if it is not far from ``first``."""
    if first >= end or values[at + step * first] >= least:
        return first
    jump = np.int64(1)
    while first + jump < end and values[at + step * (first + jump)] < least:
        first += jump
        jump *= 2
    return _bisect(values, at, step, first + 1, min(end, first + jump), least)


@inline
def _first_at_least(g: Grammar, words: Words, first: int, label: int) -> int:
    """Return the first arc from ``first`` on whose label is ``label`` or greater."""
    if first >= words.end or g.labels[first * g.stride] >= label:
        return first
    if words.is_dense:
        guess = first + (label - np.int64(g.labels[first * g.stride]))
        if guess < words.end and g.labels[guess * g.stride] == label and g.labels[(guess - 1) * g.stride] < label:
            return guess
    return _gallop(g.labels, np.int64(0), g.stride, first, words.end, label)


@inline
def _child(g: Grammar, state: int, word: int) -> int:
    """Return the state whose history is that of ``state`` with ``word`` before it; -1 if there is none."""
    end = np.int64(g.children[state + 1])
    child = _bisect(g.context_words, np.int64(0), np.int64(1), np.int64(g.children[state]), end, word)
    if child < end and g.context_words[child] == word:
        return child
    return np.int64(-1)


@inline
def _next_state(g: Grammar, state: int, arc: int) -> int:
    """Return the target of an arc; in an n-gram model, the longest history that is a suffix of history and word."""
    if g.is_ngram == 0:
        return np.int64(g.nexts[arc * g.stride])
    to = _child(g, np.int64(0), np.int64(g.labels[arc * g.stride]))
    if to < 0:
        return np.int64(0)
    depth, at = np.int64(0), state
    while at != 0:
        at = np.int64(g.states[at * layout.STATE_WORDS + layout.PARENT])
        depth += 1
    while depth > 0:
        depth -= 1
        at = state          # words of a history, from the newest on, are the oldest words of its back-off states
        for _ in range(depth):
            at = np.int64(g.states[at * layout.STATE_WORDS + layout.PARENT])
        longer = _child(g, to, np.int64(g.context_words[at]))
        if longer < 0:
            return to
        to = longer
    return to


# -- look-ahead --------------------------------------------------------------------------------------------------------


@inline
def _sum_of(g: Grammar, state_first: int, first: int, end: int) -> float:
    """Return the sum of exp(shift - cost) over a state's arcs ``first`` to ``end`` - 1, from running sums."""
    before = 0.0
    if first > state_first:
        before = g.sums[first - 1]
    total = g.sums[end - 1] - before
    if total <= _LEAST_PART * before:          # too small a difference
        total = 0.0
        for arc in range(first, end):
            total += np.exp(g.shift - np.float64(g.costs[arc * g.stride]))
    return total


@inline
def _interval_after(hcl: Hcl, at: int, first: int, size: int, label: int) -> int:
    """Return the first interval, from number ``first`` on, that ends after ``label``.

    The ``size`` intervals begin at index ``at`` of ``hcl.intervals``.
    """
    return _gallop(hcl.intervals, at + 1, np.int64(2), first, size, label + 1)


@inline
def _can_produce(hcl: Hcl, state: int, label: int) -> bool:
    """Return whether ``label`` can come next from a state of HCL."""
    low, high = np.int64(hcl.spans[2 * state]), np.int64(hcl.spans[2 * state + 1])
    if low < 0:
        at, size = high, np.int64(hcl.intervals[high - 2])
        interval = _interval_after(hcl, at, np.int64(0), size, label)
        if interval == size:
            return False
        low, high = np.int64(hcl.intervals[at + 2 * interval]), np.int64(hcl.intervals[at + 2 * interval + 1])
    return low <= label < high


@inline
def _words_ahead(g: Grammar, hcl: Hcl, left: int, words: Words) -> tuple[int, int, float]:
    """Find the arcs of G among ``words`` whose labels can come next from state ``left`` of HCL.

    Return the first of them and the one after the last (both -1 if there is none), and their summed probability.
    """
    low, high = np.int64(hcl.spans[2 * left]), np.int64(hcl.spans[2 * left + 1])
    lowest, highest, total = np.int64(-1), np.int64(-1), 0.0
    if low >= 0:
        first = _first_at_least(g, words, words.first, low)
        after = _first_at_least(g, words, first, high)
        if first < after:
            lowest, highest, total = first, after, _sum_of(g, words.state_first, first, after)
        return lowest, highest, total
    at, interval, arc = high, np.int64(0), words.first
    size = np.int64(hcl.intervals[at - 2])
    while interval < size:
        arc = _first_at_least(g, words, arc, np.int64(hcl.intervals[at + 2 * interval]))
        if arc >= words.end:
            break
        high = np.int64(hcl.intervals[at + 2 * interval + 1])
        label = np.int64(g.labels[arc * g.stride])
        if label < high:
            after = _first_at_least(g, words, arc, high)
            if lowest < 0:
                lowest = arc
            highest = after
            total += _sum_of(g, words.state_first, arc, after)
            arc = after
            interval += 1
        else:
            interval = _interval_after(hcl, at, interval, size, label)
    return lowest, highest, total


# -- arcs --------------------------------------------------------------------------------------------------------------


@inline
def _key(left: int, right: int, after_epsilon: bool) -> int:
    return (np.int64(left) << 32) | (np.int64(right) << 1) | np.int64(after_epsilon)


@inline
def _add_arc(hcl: Hcl, g: Grammar, made: Composed, state: int, key: int, pushed: int, potential: float,
             first: int, end: int, label: int, output: int, cost: float) -> None:
    """Add an arc from a composed state; its target, given by ``key`` to ``end``, is added if it is new."""
    to = _state_of(hcl, g, made, key, pushed, potential, first, end)
    arc = np.int64(made.counts[layout.NUM_MADE_ARCS])
    made.counts[layout.NUM_MADE_ARCS] = arc + 1
    at = arc * layout.ARC_WORDS
    made.arcs[at + layout.ARC_INPUT], made.arcs[at + layout.ARC_OUTPUT] = label, output
    made.arcs[at + layout.ARC_NEXT] = to
    made.arc_costs[at + layout.ARC_COST] = cost + (potential - made.potentials[state])
    made.states[state * layout.STATE_WORDS + layout.NUM_EPSILONS] += label == 0


@inline
def _has_room(made: Composed, most: int) -> int:
    """Return DONE if there is room for ``most`` more arcs and states, else the array to enlarge."""
    num_states = np.int64(made.counts[layout.NUM_STATES]) + most
    if np.int64(made.counts[layout.NUM_MADE_ARCS]) + most > made.arc_room:
        return np.int64(layout.MORE_ARCS)
    if num_states > made.room or 2 * num_states > made.mask:
        return np.int64(layout.MORE_STATES)
    return np.int64(layout.DONE)


@inline
def _expand_one(hcl: Hcl, g: Grammar, made: Composed, state: int) -> int:
    """Make all arcs of a state; if there is no room, make none and return the array to enlarge."""
    first_made = np.int64(made.counts[layout.NUM_MADE_ARCS])
    made.states[state * layout.STATE_WORDS + layout.NUM_EPSILONS] = 0
    if made.keys[2 * state + 1] != 0:
        status = _expand_pushed(hcl, g, made, state)
    else:
        status = _expand_plain(hcl, g, made, state)
    if status != layout.DONE:
        made.counts[layout.NUM_MADE_ARCS] = first_made
        return status
    made.states[state * layout.STATE_WORDS + layout.FIRST_ARC] = first_made
    made.states[state * layout.STATE_WORDS + layout.NUM_ARCS] = np.int64(made.counts[layout.NUM_MADE_ARCS]) - first_made
    return status


@inline
def _expand_pushed(hcl: Hcl, g: Grammar, made: Composed, state: int) -> int:
    """Make the arcs of a state with a label that G has accepted and HCL has not output yet."""
    key, pushed = made.keys[2 * state], made.keys[2 * state + 1]
    left, right = key >> 32, (key & 0xFFFFFFFF) >> 1
    first = np.int64(hcl.states[left * layout.STATE_WORDS + layout.FIRST_ARC])
    count = np.int64(hcl.states[left * layout.STATE_WORDS + layout.NUM_ARCS])
    status = _has_room(made, count)
    if status != layout.DONE:
        return status
    for arc in range(first * layout.ARC_WORDS, (first + count) * layout.ARC_WORDS, layout.ARC_WORDS):
        label, output = np.int64(hcl.arcs[arc + layout.ARC_INPUT]), np.int64(hcl.arcs[arc + layout.ARC_OUTPUT])
        after, to_label, to_key = np.int64(hcl.arcs[arc + layout.ARC_NEXT]), np.int64(0), key
        if output == pushed:
            to_key = _key(after, right, False)
        elif output == 0 and (count == 1 or _can_produce(hcl, after, pushed)):
            to_key, to_label = _key(after, right, (key & 1) != 0), pushed
        else:
            continue
        if hcl.is_disambig[label]:
            label = np.int64(0)
        _add_arc(hcl, g, made, state, to_key, to_label, np.float32(0.0), 0, 0, label, 0,
                 hcl.arc_costs[arc + layout.ARC_COST])
    return status


@inline
def _expand_plain(hcl: Hcl, g: Grammar, made: Composed, state: int) -> int:
    """Make the arcs of a state in which HCL has output all labels that G has accepted."""
    key = made.keys[2 * state]
    left, right, after_epsilon = key >> 32, (key & 0xFFFFFFFF) >> 1, (key & 1) != 0
    words = _words_of(g, right)
    final = g.state_costs[right * layout.STATE_WORDS + layout.FINAL]
    nothing_but_backoff = words.first == words.end and final == _INFINITY
    if after_epsilon:
        words = _some_words(g, words.first, np.int64(made.ranges[2 * state]), np.int64(made.ranges[2 * state + 1]))
    first = np.int64(hcl.states[left * layout.STATE_WORDS + layout.FIRST_ARC])
    count = np.int64(hcl.states[left * layout.STATE_WORDS + layout.NUM_ARCS])
    status = np.int64(layout.DONE)
    for arc in range(first * layout.ARC_WORDS, (first + count) * layout.ARC_WORDS, layout.ARC_WORDS):
        label, output = np.int64(hcl.arcs[arc + layout.ARC_INPUT]), np.int64(hcl.arcs[arc + layout.ARC_OUTPUT])
        cost, after = hcl.arc_costs[arc + layout.ARC_COST], np.int64(hcl.arcs[arc + layout.ARC_NEXT])
        if hcl.is_disambig[label]:
            label = np.int64(0)
        if output != 0:
            from_arc = _first_at_least(g, words, words.first, output)
            to_arc = _first_at_least(g, words, from_arc, output + 1)
            status = _has_room(made, to_arc - from_arc)
            if status != layout.DONE:
                return status
            for g_arc in range(from_arc, to_arc):
                _add_arc(hcl, g, made, state, _key(after, _next_state(g, right, g_arc), False), 0,
                         np.float32(0.0), 0, 0, label, np.int64(g.outputs[g_arc * g.stride]),
                         cost + g.costs[g_arc * g.stride])
        elif not nothing_but_backoff:
            status = _has_room(made, 1)
            if status != layout.DONE:
                return status
            lowest, highest, total = _words_ahead(g, hcl, after, words)
            potential, to_key, pushed, word = _INFINITY, _key(after, right, True), np.int64(0), np.int64(0)
            if final != _INFINITY and _can_produce(hcl, after, np.int64(hcl.final_label)):
                potential = final
            if highest - lowest == 1 and potential == _INFINITY:
                to_key = _key(after, _next_state(g, right, lowest), True)
                pushed, word = np.int64(g.labels[lowest * g.stride]), np.int64(g.outputs[lowest * g.stride])
                cost += g.costs[lowest * g.stride]
                potential = np.float32(0.0)
            elif total > 0.0:
                potential = min(potential, np.float32(g.shift - np.log(total)))
            if potential != _INFINITY:
                _add_arc(hcl, g, made, state, to_key, pushed, potential, lowest, highest, label, word, cost)
    return status if after_epsilon else _add_backoffs(hcl, g, made, state, left, right)


@inline
def _add_backoffs(hcl: Hcl, g: Grammar, made: Composed, state: int, left: int, right: int) -> int:
    """Add the back-off arcs (without label) of G's state."""
    words = right * layout.STATE_WORDS
    first, count = np.int64(g.states[words + layout.FIRST_ARC]), np.int64(g.states[words + layout.NUM_EPSILONS])
    status = _has_room(made, count)
    if status != layout.DONE or count == 0:
        return status
    if g.is_ngram != 0:
        key = _key(left, np.int64(g.states[words + layout.PARENT]), False)
        _add_arc(hcl, g, made, state, key, 0, np.float32(0.0), 0, 0, 0, 0, g.backoffs[right])
        return status
    for arc in range(first * g.stride, (first + count) * g.stride, g.stride):
        _add_arc(hcl, g, made, state, _key(left, np.int64(g.nexts[arc]), False), 0, np.float32(0.0), 0, 0, 0,
                 np.int64(g.outputs[arc]), g.costs[arc])
    return status


def add_sums(states: Any, labels: Any, costs: Any, stride: int, num_states: int, is_ngram: int, shift: float,
             sums: Any) -> int:
    """Write running sums of exp(shift - cost) over each state's arcs with labels; return 1, or 0 for unsorted arcs."""
    for state in range(num_states):
        words = state * layout.STATE_WORDS
        first = np.int64(states[words + layout.FIRST_ARC])
        end = first + np.int64(states[words + layout.NUM_ARCS])
        if is_ngram == 0:
            first += np.int64(states[words + layout.NUM_EPSILONS])
        total = 0.0
        for arc in range(first, end):
            total += np.exp(np.float64(shift) - np.float64(costs[arc * stride]))
            sums[arc] = total
            if labels[arc * stride] <= 0 or arc > first and labels[arc * stride] < labels[(arc - 1) * stride]:
                return np.int64(0)
    return np.int64(1)
