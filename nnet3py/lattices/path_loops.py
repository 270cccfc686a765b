"""The loops over a lattice's arcs in topological order: best costs, sums of probabilities, times.

Imported only to be compiled; see ``engine/loop.py`` for what may be used here. ``arc_starts`` is int64
(states + 1,), ``next_states`` int32 (arcs,), costs are float64 (arcs,) and (states,).
"""
from __future__ import annotations

import math

from nnet3py.engine.inline import inline

_LEAST_DIFFERENCE = math.log(2.220446049250313e-16)     # of logarithms: beyond it the smaller one adds nothing
UNKNOWN = -1                                            # the time of an unreachable state


@inline
def log_add(a, b):
    """The logarithm of the sum of two numbers given by their logarithms."""
    if a < b:
        a, b = b, a
    difference = b - a
    if difference >= _LEAST_DIFFERENCE:
        return a + math.log1p(math.exp(difference))
    return a


def forward_costs(start, arc_starts, next_states, costs, best, entered_by):
    """Least costs from the start (``best``), and the arcs that reach them: the first of equal ones."""
    num_states = len(best)
    for state in range(num_states):
        best[state] = math.inf
        entered_by[state] = -1
    if num_states == 0:
        return
    best[start] = 0.0
    for state in range(start, num_states):
        here = best[state]
        if here == math.inf:
            continue
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            cost = here + costs[arc]
            if cost < best[next_states[arc]]:
                best[next_states[arc]] = cost
                entered_by[next_states[arc]] = arc


def backward_costs(arc_starts, next_states, costs, final_costs, best):
    """Least costs from each state to the end."""
    for state in range(len(best) - 1, -1, -1):
        least = final_costs[state]
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            cost = costs[arc] + best[next_states[arc]]
            if cost < least:
                least = cost
        best[state] = least


def forward_logs(start, arc_starts, next_states, log_likes, final_log_likes, alphas):
    """Log-likelihoods of reaching each state; returns the total of all paths."""
    total = -math.inf
    num_states = len(alphas)
    for state in range(num_states):
        alphas[state] = -math.inf
    if num_states == 0:
        return total
    alphas[start] = 0.0
    for state in range(start, num_states):
        here = alphas[state]
        if here == -math.inf:
            continue
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            alphas[next_states[arc]] = log_add(alphas[next_states[arc]], here + log_likes[arc])
        if final_log_likes[state] != -math.inf:
            total = log_add(total, here + final_log_likes[state])
    return total


def backward_logs(arc_starts, next_states, log_likes, final_log_likes, betas):
    """Log-likelihoods of going on from each state to the end."""
    for state in range(len(betas) - 1, -1, -1):
        here = final_log_likes[state]
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            beta = betas[next_states[arc]]
            if beta != -math.inf:
                here = log_add(here, log_likes[arc] + beta)
        betas[state] = here


def state_times(start, arc_starts, next_states, lengths, times):
    """The time of each state; returns a state that paths of different length lead to, or -1."""
    num_states = len(times)
    for state in range(num_states):
        times[state] = UNKNOWN
    if num_states == 0:
        return -1
    times[start] = 0
    for state in range(start, num_states):
        if times[state] == UNKNOWN:
            continue
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            target = next_states[arc]
            time = times[state] + lengths[arc]
            if times[target] == UNKNOWN:
                times[target] = time
            elif times[target] != time:
                return target
    return -1
