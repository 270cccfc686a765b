"""The loop of finding the words of a lattice nearest to others. Imported only to be compiled."""
from __future__ import annotations

import numpy as np

FAR = np.int32(1 << 30)
INSERTED, MATCHED, DELETED, PASSED = range(4)         # how a place is reached: what is done with an arc's word


def distances(arc_starts, next_states, words, sources, reference, costs, came_arcs, came_how):
    """Edit distances between paths to each state (row) and beginnings of ``reference`` (column).

    The lattice begins at state 0 and is top sorted; word 0 does not count. ``came_arcs`` and ``came_how`` get the last
    step of the best path to each place.
    """
    num_states, length = costs.shape[0], len(reference)
    for state in range(num_states):
        for place in range(length + 1):
            costs[state, place] = FAR
    costs[0, 0] = 0
    for state in range(num_states):
        for place in range(length):
            if costs[state, place] < FAR and costs[state, place] + 1 < costs[state, place + 1]:
                costs[state, place + 1] = costs[state, place] + 1
                came_arcs[state, place + 1], came_how[state, place + 1] = -1, DELETED
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            target, word = next_states[arc], words[arc]
            for place in range(length + 1):
                here = costs[state, place]
                if here >= FAR:
                    continue
                how, cost = (PASSED, here) if word == 0 else (INSERTED, here + 1)
                if cost < costs[target, place]:
                    costs[target, place] = cost
                    came_arcs[target, place], came_how[target, place] = arc, how
                if word != 0 and place < length:
                    cost = here + (0 if word == reference[place] else 1)
                    if cost < costs[target, place + 1]:
                        costs[target, place + 1] = cost
                        came_arcs[target, place + 1], came_how[target, place + 1] = arc, MATCHED
