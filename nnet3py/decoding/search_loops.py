"""Loops of the lattice decoder's search: token passing. Their arrays and return values: ``layout.py``.

Tokens are visited in Kaldi's order, which decides which tokens near the beam survive: by buckets of a hash table, in
the order in which buckets were first used, and within a bucket in the order of insertion.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nnet3py.decoding.lattice_loops import Tokens, compact, prune_active
from nnet3py.decoding.layout import (
    ACOUSTIC,
    ADAPTIVE_BEAM,
    ARC_COST,
    ARC_INPUT,
    ARC_NEXT,
    ARC_OUTPUT,
    ARC_WORDS,
    BACK,
    BEAM,
    BEAM_DELTA,
    BEGINNING,
    CHAIN,
    CUTOFF,
    DONE,
    EMITTING,
    ENTERING_EPSILONS,
    EPSILONS,
    EXTRA,
    FEWER_ARCS,
    FIRST_ARC,
    FIRST_LINK,
    FIRST_TOKEN,
    FRAME,
    GRAPH,
    HASH_RATIO,
    HASH_SIZE,
    HASH_WANTED,
    INPUT,
    LINKS,
    MAX_ACTIVE,
    MIN_ACTIVE,
    MORE_ARCS,
    MORE_BUCKETS,
    MORE_FRAMES,
    MORE_LINKS,
    MORE_STACK,
    MORE_TOKENS,
    NEXT_CUTOFF,
    NO_LIMIT,
    NUM_ARCS,
    NUM_EPSILONS,
    NUM_LINKS,
    NUM_ORDER,
    NUM_STACK,
    NUM_TOKENS,
    NUM_USED,
    NUM_WAITING,
    OLDER,
    OUTPUT,
    PHASE,
    POSITION,
    PRUNE_DELTA,
    PRUNE_INTERVAL,
    PRUNE_LINKS,
    PRUNE_TOKENS,
    PRUNING,
    ROW,
    STATE,
    STATE_WORDS,
    TIDY,
    TO,
    TOTAL,
    UNKNOWN_ARCS,
)
from nnet3py.engine.inline import inline

_INFINITY = np.float32(np.inf)


class Graph(NamedTuple):
    """Memory addresses of the graph's tables, and the column of the log-likelihoods for each input label (``pdfs``)."""

    states: Any
    arcs: Any
    arc_costs: Any
    pdfs: np.ndarray


class Table(NamedTuple):
    """The hash table of the newest frame's tokens by state, their order, and the stack of tokens with epsilon arcs."""

    buckets: np.ndarray
    used: np.ndarray
    order: np.ndarray
    stack: np.ndarray


def advance(states: Any, arcs: Any, arc_costs: Any, pdfs: np.ndarray, tokens: np.ndarray, token_costs: np.ndarray,
            links: np.ndarray, link_costs: np.ndarray, frames: np.ndarray, offsets: np.ndarray, remap: np.ndarray,
            buckets: np.ndarray, used: np.ndarray, order: np.ndarray, stack: np.ndarray, chosen: np.ndarray,
            counts: np.ndarray, limits: np.ndarray, log_likes: np.ndarray) -> int:
    """Continue the search from row ``counts[ROW]`` of ``log_likes`` on; return DONE, or the array to enlarge."""
    graph, table = Graph(states, arcs, arc_costs, pdfs), Table(buckets, used, order, stack)
    search = Tokens(tokens, token_costs, links, link_costs, frames, offsets, remap, counts, limits)
    while True:
        phase = counts[PHASE]
        status = DONE
        if phase == PRUNING:
            if counts[ROW] >= len(log_likes):
                return DONE
            if counts[TIDY]:
                return FEWER_ARCS
            if counts[FRAME] % counts[PRUNE_INTERVAL] == 0:
                first = prune_active(search, limits[PRUNE_DELTA])
                compact(search, first)
            counts[PHASE] = BEGINNING
        elif phase == BEGINNING:
            status = _begin_frame(graph, table, search, chosen, log_likes)
        elif phase == EMITTING:
            status = _emit(graph, table, search, log_likes)
        elif phase == ENTERING_EPSILONS:
            status = _enter_epsilons(graph, table, search)
        else:
            status = _follow_epsilons(graph, table, search)
            if status == DONE:
                counts[ROW] += 1
                counts[PHASE] = PRUNING
        if status != DONE:
            return status


def begin(states: Any, arcs: Any, arc_costs: Any, tokens: np.ndarray, token_costs: np.ndarray, links: np.ndarray,
          link_costs: np.ndarray, frames: np.ndarray, buckets: np.ndarray, used: np.ndarray, order: np.ndarray,
          stack: np.ndarray, counts: np.ndarray, limits: np.ndarray, start: int) -> int:
    """Make the tokens of the start state and of states that epsilons lead to; return DONE, or the array to enlarge."""
    graph, table = Graph(states, arcs, arc_costs, arcs), Table(buckets, used, order, stack)
    search = Tokens(tokens, token_costs, links, link_costs, frames, limits, order, counts, limits)
    if counts[PHASE] == PRUNING:
        counts[NUM_TOKENS] = counts[NUM_LINKS] = counts[FRAME] = counts[NUM_USED] = 0
        _new_frame(search, 0)
        _find_or_add(table, search, start, np.float32(0.0), -1)
        limits[NEXT_CUTOFF] = limits[BEAM]                       # as in Kaldi, before any emitting step
        counts[PHASE] = ENTERING_EPSILONS
    if counts[PHASE] == ENTERING_EPSILONS:
        status = _enter_epsilons(graph, table, search)
        if status != DONE:
            return status
    status = _follow_epsilons(graph, table, search)
    if status == DONE:
        counts[PHASE] = PRUNING
    return status


@inline
def _new_frame(search: Tokens, frame: int) -> None:
    search.frames[frame, FIRST_TOKEN] = search.counts[NUM_TOKENS]
    search.frames[frame, FIRST_LINK] = search.counts[NUM_LINKS]
    search.frames[frame, PRUNE_LINKS] = search.frames[frame, PRUNE_TOKENS] = 1
    search.counts[FRAME] = frame


@inline
def _find_or_add(table: Table, search: Tokens, state: int, cost: float, source: int) -> tuple[int, bool]:
    """Return a state's token in the newest frame, and whether it is new or ``cost`` is lower than before."""
    tokens, costs, buckets = search.tokens, search.token_costs, table.buckets
    bucket = np.uint32(state) % np.uint32(search.counts[HASH_SIZE])
    token = buckets[bucket, 0]
    last = np.int32(-1)
    while token >= 0 and tokens[token, STATE] != state:
        last, token = token, tokens[token, CHAIN]
    if token >= 0:
        better = costs[token, TOTAL] > cost
        if better:
            costs[token, TOTAL] = cost
            tokens[token, BACK] = source
        return np.int64(token), better
    token = np.int32(search.counts[NUM_TOKENS])
    search.counts[NUM_TOKENS] = token + 1
    tokens[token, STATE], tokens[token, LINKS], tokens[token, CHAIN], tokens[token, BACK] = state, -1, -1, source
    costs[token, TOTAL], costs[token, EXTRA] = cost, np.float32(0.0)
    if last >= 0:
        tokens[last, CHAIN] = token
    else:
        buckets[bucket, 0] = token
        table.used[search.counts[NUM_USED]] = bucket
        search.counts[NUM_USED] += 1
    return np.int64(token), True


@inline
def _add_link(search: Tokens, source: int, to: int, label: int, output: int, graph: float, acoustic: float) -> None:
    link = search.counts[NUM_LINKS]
    search.counts[NUM_LINKS] = link + 1
    links = search.links
    links[link, TO], links[link, OLDER], links[link, INPUT], links[link, OUTPUT] = (
        to, search.tokens[source, LINKS], label, output)
    search.link_costs[link, GRAPH], search.link_costs[link, ACOUSTIC] = graph, acoustic
    search.tokens[source, LINKS] = link


@inline
def _order_tokens(table: Table, search: Tokens) -> None:
    """Store the order in which the newest frame's tokens are to be visited, numbered from its first token."""
    first = search.frames[search.counts[FRAME], FIRST_TOKEN]
    count = 0
    for place in range(search.counts[NUM_USED]):
        token = table.buckets[table.used[place], 0]
        while token >= 0:
            table.order[count] = token - first
            count += 1
            token = search.tokens[token, CHAIN]
    search.counts[NUM_ORDER] = count


# -- the emitting step -------------------------------------------------------------------------------------------------


@inline
def _begin_frame(graph: Graph, table: Table, search: Tokens, chosen: np.ndarray, log_likes: np.ndarray) -> int:
    """Compute cutoff, adaptive beam, cost offset and a first cutoff for the next frame.

    Return DONE, or the array to enlarge.
    """
    counts, limits = search.counts, search.limits
    frame = counts[FRAME]
    if frame + 2 > len(search.frames):
        return MORE_FRAMES
    wanted = np.int64(np.float32(counts[NUM_ORDER]) * limits[HASH_RATIO])
    if wanted > counts[HASH_SIZE]:
        if wanted > len(table.buckets):
            counts[HASH_WANTED] = wanted
            return MORE_BUCKETS
        counts[HASH_SIZE] = wanted
    best = _find_cutoff(table, search, chosen)
    search.offsets[frame] = np.float32(0.0)
    limits[NEXT_CUTOFF] = _INFINITY
    if best >= 0:
        if graph.states[np.int64(search.tokens[best, STATE]) * STATE_WORDS + NUM_ARCS] == UNKNOWN_ARCS:
            return MORE_ARCS
        search.offsets[frame] = -search.token_costs[best, TOTAL]
        limits[NEXT_CUTOFF] = _first_bound(graph, search, best, search.offsets[frame], log_likes)
    counts[POSITION] = counts[NUM_USED] = 0
    _new_frame(search, frame + 1)
    counts[PHASE] = EMITTING
    return DONE


@inline
def _first_bound(graph: Graph, search: Tokens, token: int, offset: float, log_likes: np.ndarray) -> float:
    """Return a first cutoff for the next frame, from the arcs of the best token."""
    total, beam = search.token_costs[token, TOTAL], search.limits[ADAPTIVE_BEAM]
    state = np.int64(search.tokens[token, STATE]) * STATE_WORDS
    first, bound = np.int64(graph.states[state + FIRST_ARC]), _INFINITY
    for arc in range(first, first + np.int64(graph.states[state + NUM_ARCS])):
        label = graph.arcs[arc * ARC_WORDS + ARC_INPUT]
        if label != 0:
            like = log_likes[search.counts[ROW], graph.pdfs[label]]
            cost = ((graph.arc_costs[arc * ARC_WORDS + ARC_COST] + offset) - like) + total
            if cost + beam < bound:
                bound = cost + beam
    return bound


@inline
def _find_cutoff(table: Table, search: Tokens, chosen: np.ndarray) -> int:
    """Set CUTOFF and ADAPTIVE_BEAM from beam, max-active and min-active; return the best token, -1 if there is none."""
    counts, limits, costs = search.counts, search.limits, search.token_costs
    first, count = search.frames[counts[FRAME], FIRST_TOKEN], counts[NUM_ORDER]
    least, best = _INFINITY, np.int64(-1)
    for place in range(count):
        token = first + table.order[place]
        if costs[token, TOTAL] < least:
            least, best = costs[token, TOTAL], token
    cutoff = least + limits[BEAM]
    limits[CUTOFF], limits[ADAPTIVE_BEAM] = cutoff, limits[BEAM]
    most, fewest = counts[MAX_ACTIVE], counts[MIN_ACTIVE]
    if most == NO_LIMIT and fewest == 0:
        return best
    below = up_to = 0
    for token in range(first, first + count):
        below += costs[token, TOTAL] < cutoff
        up_to += costs[token, TOTAL] <= cutoff
    rank = np.int64(-1)                          # of the token whose cost is the cutoff; -1: the beam decides
    if count > most and below > most:
        rank = most
    elif count <= fewest:
        limits[CUTOFF] = limits[ADAPTIVE_BEAM] = _INFINITY
    elif fewest > 0 and up_to <= fewest:
        rank = fewest
    if rank >= 0:
        for place in range(count):
            chosen[place] = costs[first + place, TOTAL]
        limits[CUTOFF] = _select(chosen, count, rank)
        limits[ADAPTIVE_BEAM] = (limits[CUTOFF] - least) + limits[BEAM_DELTA]
    return best


@inline
def _select(values: np.ndarray, count: int, rank: int) -> float:
    """Return element ``rank`` (from 0) of the sorted values (quickselect, which reorders ``values``)."""
    low, high = np.int64(0), np.int64(count - 1)
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break
    return values[rank]


@inline
def _emit(graph: Graph, table: Table, search: Tokens, log_likes: np.ndarray) -> int:
    """Follow arcs with input labels from tokens up to the cutoff to the next frame.

    Return DONE, or the array to enlarge.
    """
    counts, limits, costs = search.counts, search.limits, search.token_costs
    before = counts[FRAME] - 1
    first, row = search.frames[before, FIRST_TOKEN], counts[ROW]
    cutoff, beam, offset, bound = (limits[CUTOFF], limits[ADAPTIVE_BEAM], search.offsets[before], limits[NEXT_CUTOFF])
    for place in range(counts[POSITION], counts[NUM_ORDER]):
        token = first + table.order[place]
        total = costs[token, TOTAL]
        if total > cutoff:
            continue
        state = np.int64(search.tokens[token, STATE]) * STATE_WORDS
        status = _room(graph, table, search, state + NUM_ARCS, state + NUM_ARCS)
        if status != DONE:
            counts[POSITION], limits[NEXT_CUTOFF] = place, bound
            return status
        first_arc = np.int64(graph.states[state + FIRST_ARC]) * ARC_WORDS
        end_arc = first_arc + np.int64(graph.states[state + NUM_ARCS]) * ARC_WORDS
        for arc in range(first_arc, end_arc, ARC_WORDS):
            label = graph.arcs[arc + ARC_INPUT]
            if label == 0:
                continue
            acoustic = offset - log_likes[row, graph.pdfs[label]]
            graph_cost = graph.arc_costs[arc + ARC_COST]
            cost = (total + acoustic) + graph_cost
            if cost >= bound:
                continue
            if cost + beam < bound:
                bound = cost + beam
            to, _ = _find_or_add(table, search, graph.arcs[arc + ARC_NEXT], cost, token)
            _add_link(search, token, to, label, graph.arcs[arc + ARC_OUTPUT], graph_cost, acoustic)
    limits[NEXT_CUTOFF] = bound
    counts[PHASE] = ENTERING_EPSILONS
    return DONE


@inline
def _room(graph: Graph, table: Table, search: Tokens, arcs: int, links: int) -> int:
    """Return DONE if there is room for as many tokens and links as a state has arcs, else the array to enlarge.

    ``arcs`` and ``links`` are indexes in ``graph.states``: of the state's number of arcs (MORE_ARCS if it is not
    expanded yet), and of the number to make room for.
    """
    if graph.states[arcs] == UNKNOWN_ARCS:
        return MORE_ARCS
    count = np.int64(graph.states[links])
    if search.counts[NUM_TOKENS] + count > len(search.tokens) or search.counts[NUM_TOKENS] + count > len(table.order):
        return MORE_TOKENS
    return MORE_LINKS if search.counts[NUM_LINKS] + count > len(search.links) else DONE


# -- the non-emitting step ---------------------------------------------------------------------------------------------


@inline
def _enter_epsilons(graph: Graph, table: Table, search: Tokens) -> int:
    """Put all tokens of the newest frame whose states have arcs without input labels on the stack."""
    counts = search.counts
    _order_tokens(table, search)
    if counts[NUM_ORDER] > len(table.stack):
        return MORE_STACK
    counts[NUM_STACK] = counts[NUM_WAITING] = 0
    first = search.frames[counts[FRAME], FIRST_TOKEN]
    for place in range(counts[NUM_ORDER]):
        token = first + table.order[place]
        if _may_have_epsilons(graph, search.tokens[token, STATE]):
            table.stack[counts[NUM_STACK]] = token
            counts[NUM_STACK] += 1
    counts[PHASE] = EPSILONS
    return DONE


@inline
def _may_have_epsilons(graph: Graph, state: int) -> bool:
    return graph.states[np.int64(state) * STATE_WORDS + NUM_EPSILONS] != 0


@inline
def _follow_epsilons(graph: Graph, table: Table, search: Tokens) -> int:
    """Follow arcs without input labels from the tokens on the stack, which completes the frame.

    Tokens whose states are not expanded yet wait at the bottom of the stack until no others are left. Return DONE, or
    the array to enlarge.
    """
    counts, costs, cutoff = search.counts, search.token_costs, search.limits[NEXT_CUTOFF]
    while counts[NUM_STACK] > 0:
        top = counts[NUM_STACK] - 1
        token = np.int64(table.stack[top])
        total = costs[token, TOTAL]
        state = np.int64(search.tokens[token, STATE]) * STATE_WORDS
        if total >= cutoff:
            counts[NUM_STACK] -= 1
            continue
        if graph.states[state + NUM_ARCS] == UNKNOWN_ARCS:
            if counts[NUM_WAITING] == counts[NUM_STACK]:
                counts[NUM_WAITING] = 0
                return MORE_ARCS
            table.stack[top], table.stack[counts[NUM_WAITING]] = table.stack[counts[NUM_WAITING]], token
            counts[NUM_WAITING] += 1
            continue
        status = _room(graph, table, search, state + NUM_ARCS, state + NUM_EPSILONS)
        remaining = np.int64(graph.states[state + NUM_EPSILONS])
        if status == DONE and counts[NUM_STACK] + remaining > len(table.stack):
            status = MORE_STACK
        if status != DONE:
            return status
        counts[NUM_STACK] -= 1
        _drop_links(search, token)                    # from an earlier visit, when the token's cost was higher
        arc = np.int64(graph.states[state + FIRST_ARC]) * ARC_WORDS
        while remaining > 0:
            if graph.arcs[arc + ARC_INPUT] == 0:
                remaining -= 1
                graph_cost = graph.arc_costs[arc + ARC_COST]
                cost = total + graph_cost
                if cost < cutoff:
                    following = graph.arcs[arc + ARC_NEXT]
                    to, changed = _find_or_add(table, search, following, cost, token)
                    _add_link(search, token, to, 0, graph.arcs[arc + ARC_OUTPUT], graph_cost, np.float32(0.0))
                    if changed and _may_have_epsilons(graph, following):
                        table.stack[counts[NUM_STACK]] = to
                        counts[NUM_STACK] += 1
            arc += ARC_WORDS
    _order_tokens(table, search)
    for place in range(counts[NUM_USED]):
        table.buckets[table.used[place], 0] = -1
    return DONE


@inline
def _drop_links(search: Tokens, token: int) -> None:
    link = search.tokens[token, LINKS]
    while link >= 0:
        search.links[link, TO] = -1
        link = search.links[link, OLDER]
    search.tokens[token, LINKS] = -1
