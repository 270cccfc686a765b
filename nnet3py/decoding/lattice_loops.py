"""Loops over the lattice decoder's tokens and links (``layout.py``): backward pruning, best paths, lattices.

Frames are counted like times: tokens of frame t are those after t frames of features, those of frame 0 at the start.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.decoding import layout
from nnet3py.decoding.layout import Tokens
from nnet3py.engine.inline import inline
from nnet3py.lattices.structures import by_arrays

_INFINITY = np.float32(np.inf)
_NEAR = np.float32(1e-5)            # relative difference of costs that count as equal at the end


@inline
def _end(search: Tokens, frame: int) -> int:
    """Return the number after the last token of a frame."""
    if frame == search.counts[layout.FRAME]:
        return search.counts[layout.NUM_TOKENS]
    return search.frames[frame + 1, layout.FIRST_TOKEN]


@inline
def prune_active(search: Tokens, delta: float) -> int:
    """Prune links and tokens of all frames but the newest, as far as costs may have changed.

    Return the first frame that has lost tokens or links, or the newest frame. Tokens of the newest frame keep an extra
    cost of 0, since the best path may go on from any of them.
    """
    frames, newest = search.frames, search.counts[layout.FRAME]
    first = newest
    for frame in range(newest - 1, -1, -1):
        if frames[frame, layout.PRUNE_LINKS]:
            costs_changed, lost = _prune_links(search, frame, delta)
            if costs_changed and frame > 0:
                frames[frame - 1, layout.PRUNE_LINKS] = 1
            if lost:
                frames[frame, layout.PRUNE_TOKENS] = 1
                first = frame
            frames[frame, layout.PRUNE_LINKS] = 0
        if frame + 1 < newest and frames[frame + 1, layout.PRUNE_TOKENS]:
            _prune_tokens(search, frame + 1)
            frames[frame + 1, layout.PRUNE_TOKENS] = 0
            first = min(first, frame + 1)
    return first


@inline
def _least_extra(search: Tokens, token: int) -> tuple[float, bool]:
    """Drop a token's links outside the lattice beam; return the others' least extra cost, and whether any was dropped.
    """
    links, costs = search.links, search.token_costs
    total, beam = costs[token, layout.TOTAL], search.limits[layout.LATTICE_BEAM]
    least, lost, newer = _INFINITY, False, np.int32(-1)
    link = search.tokens[token, layout.LINKS]
    while link >= 0:
        to, older = links[link, layout.TO], links[link, layout.OLDER]
        through = (total + search.link_costs[link, layout.ACOUSTIC]) + search.link_costs[link, layout.GRAPH]
        extra = costs[to, layout.EXTRA] + (through - costs[to, layout.TOTAL])
        if extra > beam:
            lost = True
            links[link, layout.TO] = -1
            if newer >= 0:
                links[newer, layout.OLDER] = older
            else:
                search.tokens[token, layout.LINKS] = older
        else:
            least = min(least, max(extra, np.float32(0.0)))
            newer = link
        link = older
    return least, lost


@inline
def _prune_links(search: Tokens, frame: int, delta: float) -> tuple[bool, bool]:
    """Prune the links of a frame's tokens; return whether extra costs changed by more than ``delta``, and links fell.
    """
    first, end, costs = search.frames[frame, layout.FIRST_TOKEN], _end(search, frame), search.token_costs
    costs_changed, lost, again = False, False, True
    while again:
        again = False
        for token in range(end - 1, first - 1, -1):
            least, some_lost = _least_extra(search, token)
            lost |= some_lost
            again |= abs(least - costs[token, layout.EXTRA]) > delta
            costs[token, layout.EXTRA] = least
        costs_changed |= again
    return costs_changed, lost


@inline
def _prune_tokens(search: Tokens, frame: int) -> None:
    for token in range(search.frames[frame, layout.FIRST_TOKEN], _end(search, frame)):
        if search.token_costs[token, layout.EXTRA] == _INFINITY:
            search.tokens[token, layout.STATE] = -1


@inline
def _prune_last_links(search: Tokens, state_costs: Any, any_final: bool, reference: float) -> None:
    """Prune the links of the newest frame's tokens, given the cost ``reference`` of the best complete path."""
    frame, costs = search.counts[layout.FRAME], search.token_costs
    again = True
    while again:
        again = False
        for token in range(_end(search, frame) - 1, search.frames[frame, layout.FIRST_TOKEN] - 1, -1):
            final = np.float32(0.0)
            if any_final:
                final = state_costs[np.int64(search.tokens[token, layout.STATE]) * layout.STATE_WORDS + layout.FINAL]
            least, _ = _least_extra(search, token)
            least = min(least, (costs[token, layout.TOTAL] + final) - reference)
            if least > search.limits[layout.LATTICE_BEAM]:
                least = _INFINITY
            old = costs[token, layout.EXTRA]
            near = abs(old - least) < _INFINITY and abs(old - least) <= _NEAR * (abs(old) + abs(least))
            again |= not (old == least or near)
            costs[token, layout.EXTRA] = least


@by_arrays
def best_ends(state_costs: Any, search: Tokens, best: np.ndarray, places: np.ndarray) -> None:
    """Write to ``best`` (float32 (2,)) the least cost of a token of the newest frame, without and with final costs.

    ``places`` (int64 (2,)) gets the indexes of these tokens in the frame, -1 for none; of equal costs the newest token
    is taken, as in Kaldi.
    """
    tokens, token_costs, frames, counts = search.tokens, search.token_costs, search.frames, search.counts
    first = frames[counts[layout.FRAME], layout.FIRST_TOKEN]
    best[0] = best[1] = _INFINITY
    places[0] = places[1] = -1
    for token in range(first, counts[layout.NUM_TOKENS]):
        total = token_costs[token, layout.TOTAL]
        with_final = total + state_costs[np.int64(tokens[token, layout.STATE]) * layout.STATE_WORDS + layout.FINAL]
        if total <= best[0]:
            best[0], places[0] = total, token - first
        if with_final <= best[1]:
            best[1], places[1] = with_final, token - first


@by_arrays
def prune(search: Tokens) -> None:
    """Prune the frames so far, without waiting for the next multiple of ``prune_interval``. Kaldi: PruneActiveTokens.
    """
    first = prune_active(search, search.limits[layout.PRUNE_DELTA])
    compact(search, first)


@by_arrays
def finalize(state_costs: Any, search: Tokens, any_final: int, reference: float) -> None:
    """Prune all frames at the end of an utterance.

    ``reference`` is the cost of the best path, with its final cost if there is a final state (``any_final``).
    """
    _prune_last_links(search, state_costs, any_final != 0, reference)
    for frame in range(search.counts[layout.FRAME] - 1, -1, -1):
        _prune_links(search, frame, np.float32(0.0))
        _prune_tokens(search, frame + 1)
    _prune_tokens(search, 0)
    compact(search, 0)


@inline
def compact(search: Tokens, first_frame: int) -> None:
    """Remove pruned tokens and links from ``first_frame`` on; the order of the others is kept."""
    tokens, links, frames, counts, remap = search.tokens, search.links, search.frames, search.counts, search.remap
    newest = counts[layout.FRAME]
    first_frame = max(first_frame - 1, 0)            # links of the time before lead to tokens that get other numbers
    first_token, first_link = frames[first_frame, layout.FIRST_TOKEN], frames[first_frame, layout.FIRST_LINK]
    kept = first_token
    for token in range(first_token, counts[layout.NUM_TOKENS]):
        tokens[token, layout.CHAIN] = kept                  # the token's new number
        kept += tokens[token, layout.STATE] >= 0
    for token in range(first_token, counts[layout.NUM_TOKENS]):
        if tokens[token, layout.BACK] >= first_token:
            tokens[token, layout.BACK] = tokens[tokens[token, layout.BACK], layout.CHAIN]
    frame, kept_links = first_frame, first_link
    for link in range(first_link, counts[layout.NUM_LINKS]):
        while frame < newest and link == frames[frame + 1, layout.FIRST_LINK]:
            frame += 1
            frames[frame, layout.FIRST_LINK] = kept_links
        if links[link, layout.TO] < 0:
            continue
        remap[link - first_link] = kept_links
        to, older = links[link, layout.TO], links[link, layout.OLDER]
        for word in range(layout.LINK_WORDS):
            links[kept_links, word] = links[link, word]
        links[kept_links, layout.TO] = tokens[to, layout.CHAIN]
        if older >= first_link:
            links[kept_links, layout.OLDER] = remap[older - first_link]
        kept_links += 1
    while frame < newest:
        frame += 1
        frames[frame, layout.FIRST_LINK] = kept_links
    _move_tokens(search, first_frame, first_link)
    counts[layout.NUM_TOKENS], counts[layout.NUM_LINKS] = kept, kept_links


@inline
def _move_tokens(search: Tokens, first_frame: int, first_link: int) -> None:
    tokens, frames, counts = search.tokens, search.frames, search.counts
    first_token, newest, frame = frames[first_frame, layout.FIRST_TOKEN], counts[layout.FRAME], first_frame
    kept = first_token
    for token in range(first_token, counts[layout.NUM_TOKENS]):
        while frame < newest and token == frames[frame + 1, layout.FIRST_TOKEN]:
            frame += 1
            frames[frame, layout.FIRST_TOKEN] = kept
        if tokens[token, layout.STATE] < 0:
            continue
        link = tokens[token, layout.LINKS]
        for word in range(layout.TOKEN_WORDS):
            tokens[kept, word] = tokens[token, word]
        if link >= first_link:
            tokens[kept, layout.LINKS] = search.remap[link - first_link]
        kept += 1
    while frame < newest:
        frame += 1
        frames[frame, layout.FIRST_TOKEN] = kept


@by_arrays
def trace_back(search: Tokens, token: int, first_frame: int, labels: np.ndarray, costs: np.ndarray) -> int:
    """Write the arcs of the best path to a token of the newest frame, last arc first; return their number.

    Arcs before ``first_frame`` are left out. ``labels`` (int32 (room, 2)) gets input and output labels, ``costs``
    (float32 (room, 2)) graph and acoustic costs; if there are more arcs than room, further ones are only counted.
    """
    tokens, links, link_costs, offsets = search.tokens, search.links, search.link_costs, search.offsets
    count, frame = np.int64(0), search.counts[layout.FRAME]
    back = np.int64(tokens[token, layout.BACK])
    while back >= 0 and (frame > first_frame or first_frame == 0):
        best, least = np.int64(-1), np.float32(np.inf)
        link = np.int64(tokens[back, layout.LINKS])
        while link >= 0:
            cost = link_costs[link, layout.GRAPH] + link_costs[link, layout.ACOUSTIC]
            if links[link, layout.TO] == token and (best < 0 or cost < least):
                best, least = link, cost
            link = np.int64(links[link, layout.OLDER])
        acoustic = link_costs[best, layout.ACOUSTIC]
        if links[best, layout.INPUT] != 0:
            frame -= 1
            acoustic -= offsets[frame]
        if count < len(labels):
            labels[count, 0], labels[count, 1] = links[best, layout.INPUT], links[best, layout.OUTPUT]
            costs[count, 0], costs[count, 1] = link_costs[best, layout.GRAPH], acoustic
        count += 1
        token, back = back, np.int64(tokens[back, layout.BACK])
    return count


@by_arrays
def place_tokens(search: Tokens, position: np.ndarray) -> int:
    """Sort each frame's tokens topologically: find ``position`` so that links within a frame lead to higher positions.

    Positions follow the order of creation; if a link leads back, its target moves to the end. Return 1 if tokens moved,
    0 if not, -1 if links make a cycle.
    """
    tokens, links, frames, counts = search.tokens, search.links, search.frames, search.counts
    moved = 0
    for frame in range(counts[layout.FRAME] + 1):
        first = frames[frame, layout.FIRST_TOKEN]
        end = counts[layout.NUM_TOKENS] if frame == counts[layout.FRAME] else frames[frame + 1, layout.FIRST_TOKEN]
        for token in range(first, end):
            position[token] = token - first
        last, again, rounds = end - first, True, np.int64(0)
        while again:
            if rounds > end - first:
                return np.int64(-1)
            again = False
            rounds += 1
            for token in range(first, end):
                link = tokens[token, layout.LINKS]
                while link >= 0:
                    to = links[link, layout.TO]
                    if links[link, layout.INPUT] == 0 and position[to] < position[token]:
                        position[to] = last
                        last += 1
                        again = True
                    link = links[link, layout.OLDER]
            moved |= again
    return np.int64(moved)


@by_arrays
def write_lattice(search: Tokens, order: np.ndarray, number: np.ndarray, arc_starts: np.ndarray, inputs: np.ndarray,
                  outputs: np.ndarray, weights: np.ndarray, next_states: np.ndarray) -> int:
    """Write the arcs of a lattice; return their number. State i is token ``order[i]``, and ``number[order[i]]`` is i.
    """
    tokens, links, link_costs, frames = search.tokens, search.links, search.link_costs, search.frames
    count, frame = np.int64(0), np.int64(0)
    for state in range(len(order)):
        token = np.int64(order[state])
        while frame < search.counts[layout.FRAME] and token >= frames[frame + 1, layout.FIRST_TOKEN]:
            frame += 1
        arc_starts[state] = count
        link = np.int64(tokens[token, layout.LINKS])
        while link >= 0:
            inputs[count], outputs[count] = links[link, layout.INPUT], links[link, layout.OUTPUT]
            weights[count, 0], weights[count, 1] = link_costs[link, layout.GRAPH], link_costs[link, layout.ACOUSTIC]
            if links[link, layout.INPUT] != 0:
                weights[count, 1] -= search.offsets[frame]
            next_states[count] = number[links[link, layout.TO]]
            count += 1
            link = np.int64(links[link, layout.OLDER])
    arc_starts[len(order)] = count
    return count


def best_arcs(start: int, arc_starts: np.ndarray, next_states: np.ndarray, weights: np.ndarray,
              final_weights: np.ndarray, costs: np.ndarray, came_by: np.ndarray, sources: np.ndarray,
              arcs: np.ndarray) -> int:
    """Write the arcs of the best path through a topologically sorted lattice, last arc first; return their number.

    Return -1 if there is no path. If the path has no arcs, ``arcs[0]`` gets its only state. Graph and acoustic costs
    are summed separately, float32; of equal total costs, the path with the lower graph cost is better. ``costs``
    (float32 (states, 2)), ``came_by`` (int64) and ``sources`` (int32) are scratch memory with an element for each
    state.
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
