"""Loops of the lattice decoder's search: token passing. Their arrays and return values: ``layout.py``.

Tokens are visited in Kaldi's order, which decides which tokens near the beam survive: by buckets of a hash table, in
the order in which buckets were first used, and within a bucket in the order of insertion.
"""
from __future__ import annotations

import numpy as np

from nnet3py.decoding import layout
from nnet3py.decoding.lattice_loops import compact, prune_active
from nnet3py.decoding.layout import Graph, Table, Tokens
from nnet3py.decoding.options import NO_LIMIT
from nnet3py.engine.inline import inline
from nnet3py.lattices.structures import by_arrays

_INFINITY = np.float32(np.inf)


@by_arrays
def advance(graph: Graph, search: Tokens, table: Table, chosen: np.ndarray, log_likes: np.ndarray) -> int:
    """Continue the search from row ``counts[ROW]`` of ``log_likes`` on; return DONE, or the array to enlarge."""
    counts, limits = search.counts, search.limits
    while True:
        phase = counts[layout.PHASE]
        status = layout.DONE
        if phase == layout.PRUNING:
            if counts[layout.ROW] >= len(log_likes):
                return layout.DONE
            if counts[layout.TIDY]:
                return layout.FEWER_ARCS
            if counts[layout.FRAME] % counts[layout.PRUNE_INTERVAL] == 0:
                first = prune_active(search, limits[layout.PRUNE_DELTA])
                compact(search, first)
            counts[layout.PHASE] = layout.BEGINNING
        elif phase == layout.BEGINNING:
            status = _begin_frame(graph, table, search, chosen, log_likes)
        elif phase == layout.EMITTING:
            status = _emit(graph, table, search, log_likes)
        elif phase == layout.ENTERING_EPSILONS:
            status = _enter_epsilons(graph, table, search)
        else:
            status = _follow_epsilons(graph, table, search)
            if status == layout.DONE:
                counts[layout.ROW] += 1
                counts[layout.PHASE] = layout.PRUNING
        if status != layout.DONE:
            return status


@by_arrays
def begin(graph: Graph, search: Tokens, table: Table, start: int) -> int:
    """Make the tokens of the start state and of states that epsilons lead to; return DONE, or the array to enlarge."""
    counts, limits = search.counts, search.limits
    if counts[layout.PHASE] == layout.PRUNING:
        counts[layout.NUM_TOKENS] = counts[layout.NUM_LINKS] = counts[layout.FRAME] = counts[layout.NUM_USED] = 0
        _new_frame(search, 0)
        _find_or_add(table, search, start, np.float32(0.0), -1)
        limits[layout.NEXT_CUTOFF] = limits[layout.BEAM]                       # as in Kaldi, before any emitting step
        counts[layout.PHASE] = layout.ENTERING_EPSILONS
    if counts[layout.PHASE] == layout.ENTERING_EPSILONS:
        status = _enter_epsilons(graph, table, search)
        if status != layout.DONE:
            return status
    status = _follow_epsilons(graph, table, search)
    if status == layout.DONE:
        counts[layout.PHASE] = layout.PRUNING
    return status


@inline
def _new_frame(search: Tokens, frame: int) -> None:
    search.frames[frame, layout.FIRST_TOKEN] = search.counts[layout.NUM_TOKENS]
    search.frames[frame, layout.FIRST_LINK] = search.counts[layout.NUM_LINKS]
    search.frames[frame, layout.PRUNE_LINKS] = search.frames[frame, layout.PRUNE_TOKENS] = 1
    search.counts[layout.FRAME] = frame


@inline
def _find_or_add(table: Table, search: Tokens, state: int, cost: float, source: int) -> tuple[int, bool]:
    """Return a state's token in the newest frame, and whether it is new or ``cost`` is lower than before."""
    tokens, costs, buckets = search.tokens, search.token_costs, table.buckets
    bucket = np.uint32(state) % np.uint32(search.counts[layout.HASH_SIZE])
    token = buckets[bucket, 0]
    last = np.int32(-1)
    while token >= 0 and tokens[token, layout.STATE] != state:
        last, token = token, tokens[token, layout.CHAIN]
    if token >= 0:
        better = costs[token, layout.TOTAL] > cost
        if better:
            costs[token, layout.TOTAL] = cost
            tokens[token, layout.BACK] = source
        return np.int64(token), better
    token = np.int32(search.counts[layout.NUM_TOKENS])
    search.counts[layout.NUM_TOKENS] = token + 1
    tokens[token, layout.STATE], tokens[token, layout.BACK] = state, source
    tokens[token, layout.LINKS] = tokens[token, layout.CHAIN] = -1
    costs[token, layout.TOTAL], costs[token, layout.EXTRA] = cost, np.float32(0.0)
    if last >= 0:
        tokens[last, layout.CHAIN] = token
    else:
        buckets[bucket, 0] = token
        table.used[search.counts[layout.NUM_USED]] = bucket
        search.counts[layout.NUM_USED] += 1
    return np.int64(token), True


@inline
def _add_link(search: Tokens, source: int, to: int, label: int, output: int, graph: float, acoustic: float) -> None:
    link = search.counts[layout.NUM_LINKS]
    search.counts[layout.NUM_LINKS] = link + 1
    links = search.links
    links[link, layout.TO], links[link, layout.OLDER], links[link, layout.INPUT], links[link, layout.OUTPUT] = (
        to, search.tokens[source, layout.LINKS], label, output)
    search.link_costs[link, layout.GRAPH], search.link_costs[link, layout.ACOUSTIC] = graph, acoustic
    search.tokens[source, layout.LINKS] = link


@inline
def _order_tokens(table: Table, search: Tokens) -> None:
    """Store the order in which the newest frame's tokens are to be visited, numbered from its first token."""
    first = search.frames[search.counts[layout.FRAME], layout.FIRST_TOKEN]
    count = 0
    for place in range(search.counts[layout.NUM_USED]):
        token = table.buckets[table.used[place], 0]
        while token >= 0:
            table.order[count] = token - first
            count += 1
            token = search.tokens[token, layout.CHAIN]
    search.counts[layout.NUM_ORDER] = count


# -- the emitting step -------------------------------------------------------------------------------------------------


@inline
def _begin_frame(graph: Graph, table: Table, search: Tokens, chosen: np.ndarray, log_likes: np.ndarray) -> int:
    """Compute cutoff, adaptive beam, cost offset and a first cutoff for the next frame.

    Return DONE, or the array to enlarge.
    """
    counts, limits = search.counts, search.limits
    frame = counts[layout.FRAME]
    if frame + 2 > len(search.frames):
        return layout.MORE_FRAMES
    wanted = np.int64(np.float32(counts[layout.NUM_ORDER]) * limits[layout.HASH_RATIO])
    if wanted > counts[layout.HASH_SIZE]:
        if wanted > len(table.buckets):
            counts[layout.HASH_WANTED] = wanted
            return layout.MORE_BUCKETS
        counts[layout.HASH_SIZE] = wanted
    best = _find_cutoff(table, search, chosen)
    search.offsets[frame] = np.float32(0.0)
    limits[layout.NEXT_CUTOFF] = _INFINITY
    if best >= 0:
        state = np.int64(search.tokens[best, layout.STATE]) * layout.STATE_WORDS
        if graph.states[state + layout.NUM_ARCS] == layout.UNKNOWN_ARCS:
            return layout.MORE_ARCS
        search.offsets[frame] = -search.token_costs[best, layout.TOTAL]
        limits[layout.NEXT_CUTOFF] = _first_bound(graph, search, best, search.offsets[frame], log_likes)
    counts[layout.POSITION] = counts[layout.NUM_USED] = 0
    _new_frame(search, frame + 1)
    counts[layout.PHASE] = layout.EMITTING
    return layout.DONE


@inline
def _first_bound(graph: Graph, search: Tokens, token: int, offset: float, log_likes: np.ndarray) -> float:
    """Return a first cutoff for the next frame, from the arcs of the best token."""
    total, beam = search.token_costs[token, layout.TOTAL], search.limits[layout.ADAPTIVE_BEAM]
    state = np.int64(search.tokens[token, layout.STATE]) * layout.STATE_WORDS
    first, bound = np.int64(graph.states[state + layout.FIRST_ARC]), _INFINITY
    for arc in range(first, first + np.int64(graph.states[state + layout.NUM_ARCS])):
        label = graph.arcs[arc * layout.ARC_WORDS + layout.ARC_INPUT]
        if label != 0:
            like = log_likes[search.counts[layout.ROW], graph.pdfs[label]]
            cost = ((graph.arc_costs[arc * layout.ARC_WORDS + layout.ARC_COST] + offset) - like) + total
            if cost + beam < bound:
                bound = cost + beam
    return bound


@inline
def _find_cutoff(table: Table, search: Tokens, chosen: np.ndarray) -> int:
    """Set CUTOFF and ADAPTIVE_BEAM from beam, max-active and min-active; return the best token, -1 if there is none."""
    counts, limits, costs = search.counts, search.limits, search.token_costs
    first, count = search.frames[counts[layout.FRAME], layout.FIRST_TOKEN], counts[layout.NUM_ORDER]
    least, best = _INFINITY, np.int64(-1)
    for place in range(count):
        token = first + table.order[place]
        if costs[token, layout.TOTAL] < least:
            least, best = costs[token, layout.TOTAL], token
    cutoff = least + limits[layout.BEAM]
    limits[layout.CUTOFF], limits[layout.ADAPTIVE_BEAM] = cutoff, limits[layout.BEAM]
    most, fewest = counts[layout.MAX_ACTIVE], counts[layout.MIN_ACTIVE]
    if most == NO_LIMIT and fewest == 0:
        return best
    below = up_to = 0
    for token in range(first, first + count):
        below += costs[token, layout.TOTAL] < cutoff
        up_to += costs[token, layout.TOTAL] <= cutoff
    rank = np.int64(-1)                          # of the token whose cost is the cutoff, unless the beam decides
    if count > most and below > most:
        rank = most
    elif count <= fewest:
        limits[layout.CUTOFF] = limits[layout.ADAPTIVE_BEAM] = _INFINITY
    elif fewest > 0 and up_to <= fewest:
        rank = fewest
    if rank >= 0:
        for place in range(count):
            chosen[place] = costs[first + place, layout.TOTAL]
        limits[layout.CUTOFF] = _select(chosen, count, rank)
        limits[layout.ADAPTIVE_BEAM] = (limits[layout.CUTOFF] - least) + limits[layout.BEAM_DELTA]
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
    before = counts[layout.FRAME] - 1
    first, row = search.frames[before, layout.FIRST_TOKEN], counts[layout.ROW]
    cutoff, beam = limits[layout.CUTOFF], limits[layout.ADAPTIVE_BEAM]
    offset, bound = search.offsets[before], limits[layout.NEXT_CUTOFF]
    for place in range(counts[layout.POSITION], counts[layout.NUM_ORDER]):
        token = first + table.order[place]
        total = costs[token, layout.TOTAL]
        if total > cutoff:
            continue
        state = np.int64(search.tokens[token, layout.STATE]) * layout.STATE_WORDS
        status = _room(graph, table, search, state + layout.NUM_ARCS, state + layout.NUM_ARCS)
        if status != layout.DONE:
            counts[layout.POSITION], limits[layout.NEXT_CUTOFF] = place, bound
            return status
        first_arc = np.int64(graph.states[state + layout.FIRST_ARC]) * layout.ARC_WORDS
        end_arc = first_arc + np.int64(graph.states[state + layout.NUM_ARCS]) * layout.ARC_WORDS
        for arc in range(first_arc, end_arc, layout.ARC_WORDS):
            label = graph.arcs[arc + layout.ARC_INPUT]
            if label == 0:
                continue
            acoustic = offset - log_likes[row, graph.pdfs[label]]
            graph_cost = graph.arc_costs[arc + layout.ARC_COST]
            cost = (total + acoustic) + graph_cost
            if cost >= bound:
                continue
            if cost + beam < bound:
                bound = cost + beam
            to, _ = _find_or_add(table, search, graph.arcs[arc + layout.ARC_NEXT], cost, token)
            _add_link(search, token, to, label, graph.arcs[arc + layout.ARC_OUTPUT], graph_cost, acoustic)
    limits[layout.NEXT_CUTOFF] = bound
    counts[layout.PHASE] = layout.ENTERING_EPSILONS
    return layout.DONE


@inline
def _room(graph: Graph, table: Table, search: Tokens, arcs: int, links: int) -> int:
    """Return DONE if the arrays can take a token and a link for each arc of a state, else MORE_TOKENS or MORE_LINKS.

    ``graph.states[arcs]`` is the state's number of arcs, MORE_ARCS is returned if it is not known yet;
    ``graph.states[links]`` is the number of those arcs that need a token and a link.
    """
    if graph.states[arcs] == layout.UNKNOWN_ARCS:
        return layout.MORE_ARCS
    count = np.int64(graph.states[links])
    num_tokens = search.counts[layout.NUM_TOKENS] + count
    if num_tokens > len(search.tokens) or num_tokens > len(table.order):
        return layout.MORE_TOKENS
    return layout.MORE_LINKS if search.counts[layout.NUM_LINKS] + count > len(search.links) else layout.DONE


# -- the non-emitting step ---------------------------------------------------------------------------------------------


@inline
def _enter_epsilons(graph: Graph, table: Table, search: Tokens) -> int:
    """Put all tokens of the newest frame whose states have arcs without input labels on the stack."""
    counts = search.counts
    _order_tokens(table, search)
    if counts[layout.NUM_ORDER] > len(table.stack):
        return layout.MORE_STACK
    counts[layout.NUM_STACK] = counts[layout.NUM_WAITING] = 0
    first = search.frames[counts[layout.FRAME], layout.FIRST_TOKEN]
    for place in range(counts[layout.NUM_ORDER]):
        token = first + table.order[place]
        if _may_have_epsilons(graph, search.tokens[token, layout.STATE]):
            table.stack[counts[layout.NUM_STACK]] = token
            counts[layout.NUM_STACK] += 1
    counts[layout.PHASE] = layout.EPSILONS
    return layout.DONE


@inline
def _may_have_epsilons(graph: Graph, state: int) -> bool:
    return graph.states[np.int64(state) * layout.STATE_WORDS + layout.NUM_EPSILONS] != 0


@inline
def _follow_epsilons(graph: Graph, table: Table, search: Tokens) -> int:
    """Follow arcs without input labels from the tokens on the stack, which completes the frame.

    Tokens whose states are not expanded yet wait at the bottom of the stack until no others are left. Return DONE, or
    the array to enlarge.
    """
    counts, costs, cutoff = search.counts, search.token_costs, search.limits[layout.NEXT_CUTOFF]
    while counts[layout.NUM_STACK] > 0:
        top = counts[layout.NUM_STACK] - 1
        token = np.int64(table.stack[top])
        total = costs[token, layout.TOTAL]
        state = np.int64(search.tokens[token, layout.STATE]) * layout.STATE_WORDS
        if total >= cutoff:
            counts[layout.NUM_STACK] -= 1
            continue
        if graph.states[state + layout.NUM_ARCS] == layout.UNKNOWN_ARCS:
            if counts[layout.NUM_WAITING] == counts[layout.NUM_STACK]:
                counts[layout.NUM_WAITING] = 0
                return layout.MORE_ARCS
            table.stack[top], table.stack[counts[layout.NUM_WAITING]] = table.stack[counts[layout.NUM_WAITING]], token
            counts[layout.NUM_WAITING] += 1
            continue
        status = _room(graph, table, search, state + layout.NUM_ARCS, state + layout.NUM_EPSILONS)
        remaining = np.int64(graph.states[state + layout.NUM_EPSILONS])
        if status == layout.DONE and counts[layout.NUM_STACK] + remaining > len(table.stack):
            status = layout.MORE_STACK
        if status != layout.DONE:
            return status
        counts[layout.NUM_STACK] -= 1
        _drop_links(search, token)                    # of an earlier visit, with a worse cost
        arc = np.int64(graph.states[state + layout.FIRST_ARC]) * layout.ARC_WORDS
        while remaining > 0:
            if graph.arcs[arc + layout.ARC_INPUT] == 0:
                remaining -= 1
                graph_cost = graph.arc_costs[arc + layout.ARC_COST]
                cost = total + graph_cost
                if cost < cutoff:
                    following = graph.arcs[arc + layout.ARC_NEXT]
                    to, changed = _find_or_add(table, search, following, cost, token)
                    _add_link(search, token, to, 0, graph.arcs[arc + layout.ARC_OUTPUT], graph_cost, np.float32(0.0))
                    if changed and _may_have_epsilons(graph, following):
                        table.stack[counts[layout.NUM_STACK]] = to
                        counts[layout.NUM_STACK] += 1
            arc += layout.ARC_WORDS
    _order_tokens(table, search)
    for place in range(counts[layout.NUM_USED]):
        table.buckets[table.used[place], 0] = -1
    return layout.DONE


@inline
def _drop_links(search: Tokens, token: int) -> None:
    link = search.tokens[token, layout.LINKS]
    while link >= 0:
        search.links[link, layout.TO] = -1
        link = search.links[link, layout.OLDER]
    search.tokens[token, layout.LINKS] = -1
