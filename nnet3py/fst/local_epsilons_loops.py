"""Loops that remove epsilons without enlarging the FST, for ``operations.py``; imported only to be compiled.

The arcs of a state are a linked list: ``first[state]`` is the first arc, ``following[arc]`` the next one, -1 the end.
A removed arc has the target -1.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.inline import inline

GONE = -1


@inline
def _sum(a, b, in_log):
    """Return the sum of two costs: the lower one or, if ``in_log``, that of the sum of their probabilities."""
    low, high = min(a, b), max(a, b)
    if not in_log or not high < np.inf or low == -np.inf:
        return low
    return low - math.log1p(math.exp(low - high))


@inline
def _append(state, arc, first, last, following):
    following[arc] = GONE
    if first[state] == GONE:
        first[state] = arc
    else:
        following[last[state]] = arc
    last[state] = arc


@inline
def _can_join(a, b, inputs, outputs):
    return (inputs[a] == 0 or inputs[b] == 0) and (outputs[a] == 0 or outputs[b] == 0)


@inline
def _join_final(state, arc, inner, weights, finals, leaving, use_log):
    """Add the final cost of ``inner``, to which the epsilon ``arc`` leads, to the final cost of ``state``."""
    if finals[state] == np.inf:
        leaving[state] += 1
    finals[state] = _sum(finals[state], weights[arc] + finals[inner], use_log)


@inline
def _move_arcs(state, arc, inner, inputs, outputs, weights, targets, finals, first, last, following, entering, leaving,
               use_log, sum_in_log):
    """Join ``arc`` with those arcs of ``inner`` that it can be joined with; the results leave ``state`` directly.

    ``inner`` is the target of ``arc``, which no other arc enters. Remaining arcs stay, and ``arc`` with them.
    """
    removed, remaining = np.inf, np.inf
    before, other = GONE, first[inner]
    while other != GONE:
        after = following[other]
        if targets[other] == GONE:
            before = other
        elif _can_join(arc, other, inputs, outputs):
            removed = _sum(removed, np.float64(weights[other]), sum_in_log)
            if before == GONE:
                first[inner] = after
            else:
                following[before] = after
            if last[inner] == other:
                last[inner] = before
            inputs[other] = inputs[arc] if inputs[other] == 0 else inputs[other]
            outputs[other] = outputs[arc] if outputs[other] == 0 else outputs[other]
            weights[other] = weights[arc] + weights[other]
            leaving[inner] -= 1
            leaving[state] += 1
            _append(state, other, first, last, following)
        else:
            remaining = _sum(remaining, np.float64(weights[other]), sum_in_log)
            before = other
        other = after
    if finals[inner] != np.inf:
        if inputs[arc] == 0 and outputs[arc] == 0:
            removed = _sum(removed, np.float64(finals[inner]), sum_in_log)
            _join_final(state, arc, inner, weights, finals, leaving, use_log)
            finals[inner] = np.inf
            leaving[inner] -= 1
        else:
            remaining = _sum(remaining, np.float64(finals[inner]), sum_in_log)
    if removed == np.inf:
        return
    if leaving[inner] == 0:
        targets[arc] = GONE
        entering[inner] -= 1
        leaving[state] -= 1
        return
    shift = np.float32(remaining - _sum(removed, remaining, sum_in_log))
    if not abs(shift) < np.inf:
        return
    weights[arc] += shift                    # keeps the sum of the exits of each of the two states
    finals[inner] -= shift
    other = first[inner]
    while other != GONE:
        weights[other] -= shift
        other = following[other]


@inline
def _pass_through(state, arc, inner, inputs, outputs, weights, targets, finals, first, last, following, entering,
                  leaving, use_log):
    """Join ``arc`` with the only exit of its target ``inner``, an arc or a final cost, if their labels allow it."""
    if finals[inner] != np.inf:
        if inputs[arc] == 0 and outputs[arc] == 0:
            _join_final(state, arc, inner, weights, finals, leaving, use_log)
            targets[arc] = GONE
            leaving[state] -= 1
            entering[inner] -= 1
            if entering[inner] == 0:
                finals[inner] = np.inf
                leaving[inner] -= 1
        return
    other = first[inner]
    while targets[other] == GONE:
        other = following[other]
    if targets[other] == inner or not _can_join(arc, other, inputs, outputs):
        return
    inputs[arc] = inputs[other] if inputs[arc] == 0 else inputs[arc]
    outputs[arc] = outputs[other] if outputs[arc] == 0 else outputs[arc]
    weights[arc] = weights[arc] + weights[other]
    targets[arc] = targets[other]
    entering[targets[other]] += 1
    entering[inner] -= 1
    if entering[inner] == 0:
        entering[targets[other]] -= 1
        targets[other] = GONE
        leaving[inner] -= 1


def remove(inputs, outputs, weights, targets, finals, first, last, following, entering, leaving, use_log, sum_in_log):
    """Join successive arcs, state by state, wherever that does not add arcs (Kaldi: RemoveEpsLocal).

    ``entering`` and ``leaving`` are the numbers of arcs of each state, plus 1 for the start and for being final.
    """
    for state in range(len(finals)):
        arc = first[state]
        while arc != GONE:
            inner = targets[arc]
            joined = False
            if inner != GONE and inner != state:
                if entering[inner] == 1 and leaving[inner] > 1:
                    _move_arcs(state, arc, inner, inputs, outputs, weights, targets, finals, first, last, following,
                               entering, leaving, use_log, sum_in_log)
                elif leaving[inner] == 1:
                    _pass_through(state, arc, inner, inputs, outputs, weights, targets, finals, first, last, following,
                                  entering, leaving, use_log)
                    joined = targets[arc] != GONE and targets[arc] != inner
            if not joined:                   # a joined arc may be joined again with the next one
                arc = following[arc]


def collect(first, following, targets, order, arc_starts):
    """Write the remaining arcs, state by state, to ``order``, and ``arc_starts``; return the number of arcs."""
    count = 0
    for state in range(len(first)):
        arc_starts[state] = count
        arc = first[state]
        while arc != GONE:
            if targets[arc] != GONE:
                order[count] = arc
                count += 1
            arc = following[arc]
    arc_starts[len(first)] = count
    return count
