"""The loops that read off what the lattice decoder has found: a best path, a lattice. Arrays: ``search_layout.py``."""
from __future__ import annotations

import numpy as np

from nnet3py.decoding.search_layout import (
    ACOUSTIC,
    BACK,
    FIRST_TOKEN,
    FRAME,
    GRAPH,
    INPUT,
    LINKS,
    NUM_TOKENS,
    OLDER,
    OUTPUT,
    TO,
)


def trace_back(tokens: np.ndarray, links: np.ndarray, link_costs: np.ndarray, offsets: np.ndarray, counts: np.ndarray,
               token: int, first_frame: int, labels: np.ndarray, costs: np.ndarray) -> int:
    """Write the arcs of the best path to a token of the newest time, last arc first; returns their number.

    Those before ``first_frame`` are left out. ``labels`` (int32, two columns) and ``costs`` (float32, graph and
    acoustic cost) have room for ``len(labels)`` arcs; further arcs are only counted.
    """
    count, frame = np.int64(0), counts[FRAME]
    back = np.int64(tokens[token, BACK])
    while back >= 0 and (frame > first_frame or first_frame == 0):
        best, least = np.int64(-1), np.float32(np.inf)
        link = np.int64(tokens[back, LINKS])
        while link >= 0:
            cost = link_costs[link, GRAPH] + link_costs[link, ACOUSTIC]
            if links[link, TO] == token and (best < 0 or cost < least):
                best, least = link, cost
            link = np.int64(links[link, OLDER])
        acoustic = link_costs[best, ACOUSTIC]
        if links[best, INPUT] != 0:
            frame -= 1
            acoustic -= offsets[frame]
        if count < len(labels):
            labels[count, 0], labels[count, 1] = links[best, INPUT], links[best, OUTPUT]
            costs[count, 0], costs[count, 1] = link_costs[best, GRAPH], acoustic
        count += 1
        token, back = back, np.int64(tokens[back, BACK])
    return count


def place_tokens(tokens: np.ndarray, links: np.ndarray, frames: np.ndarray, counts: np.ndarray,
                 position: np.ndarray) -> int:
    """Give each token a position among those of its time so that links within a time lead to higher positions.

    Positions follow the order of creation as far as possible; a token that a later one leads to moves to the end.
    Returns 1 if anything moved, 0 if not, -1 if links make a cycle.
    """
    moved = 0
    for frame in range(counts[FRAME] + 1):
        first = frames[frame, FIRST_TOKEN]
        end = counts[NUM_TOKENS] if frame == counts[FRAME] else frames[frame + 1, FIRST_TOKEN]
        for token in range(first, end):
            position[token] = token - first
        last, again, rounds = end - first, True, np.int64(0)
        while again:
            if rounds > end - first:
                return np.int64(-1)
            again = False
            rounds += 1
            for token in range(first, end):
                link = tokens[token, LINKS]
                while link >= 0:
                    to = links[link, TO]
                    if links[link, INPUT] == 0 and position[to] < position[token]:
                        position[to] = last
                        last += 1
                        again = True
                    link = links[link, OLDER]
            moved |= again
    return np.int64(moved)


def write_lattice(tokens: np.ndarray, links: np.ndarray, link_costs: np.ndarray, frames: np.ndarray,
                  offsets: np.ndarray, counts: np.ndarray, order: np.ndarray, number: np.ndarray,
                  arc_starts: np.ndarray, inputs: np.ndarray, outputs: np.ndarray, weights: np.ndarray,
                  next_states: np.ndarray) -> int:
    """Write the arcs of a lattice whose state i is token ``order[i]``, ``number[token]`` being i; their number."""
    count, frame = np.int64(0), np.int64(0)
    for state in range(len(order)):
        token = np.int64(order[state])
        while frame < counts[FRAME] and token >= frames[frame + 1, FIRST_TOKEN]:
            frame += 1
        arc_starts[state] = count
        link = np.int64(tokens[token, LINKS])
        while link >= 0:
            inputs[count], outputs[count] = links[link, INPUT], links[link, OUTPUT]
            weights[count, 0], weights[count, 1] = link_costs[link, GRAPH], link_costs[link, ACOUSTIC]
            if links[link, INPUT] != 0:
                weights[count, 1] -= offsets[frame]
            next_states[count] = number[links[link, TO]]
            count += 1
            link = np.int64(links[link, OLDER])
    arc_starts[len(order)] = count
    return count


def best_arcs(start: int, arc_starts: np.ndarray, next_states: np.ndarray, weights: np.ndarray,
              final_weights: np.ndarray, costs: np.ndarray, came_by: np.ndarray, sources: np.ndarray,
              arcs: np.ndarray) -> int:
    """Write the arcs of the best path through a topologically sorted lattice, last one first; returns their number.

    -1 if there is no path. Costs are added along paths as pairs of floats; of two equal sums the one with the smaller
    graph cost is better. ``costs`` (float32), ``came_by`` (int64) and ``sources`` (int32) are scratch, as large as the
    states; ``arcs`` has as much room. If the path has no arcs, ``arcs[0]`` is the state where it ends.
    """
    for state in range(len(costs)):
        costs[state, 0] = costs[state, 1] = np.float32(np.inf)
        came_by[state] = -1
    costs[start, 0] = costs[start, 1] = np.float32(0.0)
    best, end = np.float32(np.inf), np.int64(-1)
    best_graph = best
    for state in range(start, len(costs)):
        graph, acoustic = costs[state, 0], costs[state, 1]
        if graph + acoustic == np.inf:
            continue
        final = graph + final_weights[state, 0]
        total = final + (acoustic + final_weights[state, 1])
        if total < best or (total == best and final < best_graph):
            best, best_graph, end = total, final, np.int64(state)
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            to = next_states[arc]
            new_graph, new_acoustic = graph + weights[arc, 0], acoustic + weights[arc, 1]
            new, old = new_graph + new_acoustic, costs[to, 0] + costs[to, 1]
            if new < old or (new == old and new_graph < costs[to, 0]):
                costs[to, 0], costs[to, 1] = new_graph, new_acoustic
                came_by[to], sources[to] = arc, state
    if end < 0:
        return np.int64(-1)
    count, state = np.int64(0), end
    while came_by[state] >= 0:
        arcs[count] = came_by[state]
        count += 1
        state = np.int64(sources[state])
    if count == 0:
        arcs[0] = end
    return count
