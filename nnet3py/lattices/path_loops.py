"""Loops over a lattice's arcs in topological order: best costs, sums of probabilities, times; and the n best paths.

Imported only to be compiled. ``arc_starts`` is int64 (states + 1,), ``next_states`` int32 (arcs,), costs are float64,
(arcs,) or (states,).
"""
from __future__ import annotations

import math

from nnet3py.engine.inline import inline

_LEAST_DIFFERENCE = math.log(2.220446049250313e-16)     # of logarithms: beyond it the smaller one adds nothing
UNKNOWN = -1                                            # the time of an unreachable state


@inline
def log_add(a, b):
    """Return log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    difference = b - a
    if difference >= _LEAST_DIFFERENCE:
        return a + math.log1p(math.exp(difference))
    return a


def forward_costs(start, arc_starts, next_states, costs, best, entered_by):
    """Compute the least cost from the start to each state (``best``), and the last arc of that path (``entered_by``).

    Of equally cheap arcs the first is taken.
    """
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
    """Compute the least cost from each state to an end, final cost included."""
    for state in range(len(best) - 1, -1, -1):
        least = final_costs[state]
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            cost = costs[arc] + best[next_states[arc]]
            if cost < least:
                least = cost
        best[state] = least


def forward_logs(start, arc_starts, next_states, log_likes, final_log_likes, alphas):
    """Compute the log-likelihoods of all paths from the start to each state; return that of all complete paths."""
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
    """Compute log-likelihoods of the paths from each state to the end."""
    for state in range(len(betas) - 1, -1, -1):
        here = final_log_likes[state]
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            beta = betas[next_states[arc]]
            if beta != -math.inf:
                here = log_add(here, log_likes[arc] + beta)
        betas[state] = here


def state_times(start, arc_starts, next_states, lengths, times):
    """Compute the frame of each state; return -1, or a state that is reached by paths with different numbers of frames.
    """
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


FINISHED, NO_ROOM = 0, 1
_HEAP, _NODES, _PATHS = range(3)         # places of the counts


@inline
def _push(priorities, heap, size, node):
    """Add a node to a heap of ``size`` nodes, ordered by priority (least first), then by number."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        other = heap[above]
        if priorities[node] < priorities[other] or (priorities[node] == priorities[other] and node < other):
            heap[at] = other
            at = above
        else:
            break
    heap[at] = node


@inline
def _pop(priorities, heap, size):
    """Remove the first node from a heap of ``size`` nodes and return it."""
    first, node = heap[0], heap[size - 1]
    size -= 1
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size:
            left, right = heap[below], heap[below + 1]
            if priorities[right] < priorities[left] or (priorities[right] == priorities[left] and right < left):
                below += 1
        other = heap[below]
        if priorities[other] < priorities[node] or (priorities[other] == priorities[node] and other < node):
            heap[at] = other
            at = below
        else:
            break
    heap[at] = node
    return first


def next_paths(arc_starts, next_states, costs, final_costs, rest, most_arcs, priorities, so_far, parents, arcs, states,
               heap, counts, ends):
    """Find paths in the order of their costs (A* search) until ``ends`` is full, or there is no room for another node.

    A node is a partial path: ``parents`` (the node before), ``arcs`` (its last arc; -1: the path is complete),
    ``states`` (the state reached), ``so_far`` (its cost). ``rest`` are the least costs from each state to an end: the
    estimate of the remaining cost is exact, so complete paths leave the heap in order. ``ends`` gets the nodes of
    complete paths.
    """
    while counts[_HEAP] > 0 and counts[_PATHS] < len(ends):
        if counts[_NODES] + most_arcs + 1 > len(priorities):
            return NO_ROOM
        node = _pop(priorities, heap, counts[_HEAP])
        counts[_HEAP] -= 1
        if node > 0 and arcs[node] < 0:
            ends[counts[_PATHS]] = node
            counts[_PATHS] += 1
            continue
        state = states[node]
        for arc in range(arc_starts[state] - 1, arc_starts[state + 1]):
            is_end = arc < arc_starts[state]
            cost = so_far[node] + (final_costs[state] if is_end else costs[arc])
            priority = cost + (0.0 if is_end else rest[next_states[arc]])
            if not priority < 1e300:
                continue
            new = counts[_NODES]
            priorities[new], so_far[new], parents[new] = priority, cost, node
            arcs[new] = -1 if is_end else arc
            states[new] = state if is_end else next_states[arc]
            counts[_NODES] += 1
            _push(priorities, heap, counts[_HEAP], new)
            counts[_HEAP] += 1
    return FINISHED
