"""The loop of finding the best paths in order of their costs. Imported only to be compiled."""
from __future__ import annotations

from nnet3py.engine.inline import inline

FINISHED, NO_ROOM = 0, 1
_HEAP, _NODES, _PATHS = range(3)         # places of the counts


@inline
def _push(priorities, heap, size, node):
    """Add a node to a heap with the least priority first; of equal ones, the node that was made first."""
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
    """Take the first node off a heap of ``size`` nodes, which then has one less."""
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
    """Find paths in order of their costs, until ``ends`` is full, or there is no room for another node.

    A node is a partial path: the node before it, its last arc (-1: to the end), where it leads, its cost.
    ``rest`` are least costs to the end, so the first path taken off the heap is one of the best.
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
