"""Layers for drawings of graphs: each vertex below what it depends on, few crossings, long arrows bent around boxes."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

Edge = tuple[int, int]
_SWEEPS = 12


@dataclass
class Layout:
    """Where everything goes. Coordinates are those of centers; y grows from layer to layer.

    Attributes
    ----------
    x, y : of each vertex
    routes : for each edge (as given) the centers that it passes, its two ends included
    backward : the edges that lead upwards, in cycles
    """

    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    routes: dict[Edge, list[tuple[float, float]]] = field(default_factory=dict)
    backward: set[Edge] = field(default_factory=set)


def layered(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge], gap_x: float = 36.0,
            gap_y: float = 48.0) -> Layout:
    """Lay out vertices of (width, height) ``sizes``; ``edges`` are (from, to), none twice or to itself."""
    backward = backward_edges(len(sizes), edges)
    down = [(b, a) if (a, b) in backward else (a, b) for a, b in edges]
    layer = _longest_paths(len(sizes), down)
    widths = [width for width, _ in sizes]
    chains: list[list[int]] = []       # of each edge, downwards: its ends and a placeholder in each layer between
    for a, b in down:
        chain = [a]
        for between in range(layer[a] + 1, layer[b]):
            layer.append(between)
            widths.append(12.0)
            chain.append(len(widths) - 1)
        chains.append([*chain, b])
    links = [link for chain in chains for link in zip(chain[:-1], chain[1:], strict=True)]
    rows = _ordered_rows(layer, links)
    x = _positions(rows, widths, links, gap_x)
    heights = [max((sizes[v][1] for v in row if v < len(sizes)), default=0.0) for row in rows]
    center, at = [], 0.0
    for height in heights:
        center.append(at + height / 2)
        at += height + gap_y
    y = [center[layer[v]] for v in range(len(widths))]
    result = Layout(x[:len(sizes)], y[:len(sizes)], {}, backward)
    for edge, chain in zip(edges, chains, strict=True):
        route = [(x[v], y[v]) for v in chain]
        result.routes[edge] = route[::-1] if edge in backward else route
    return result


def backward_edges(count: int, edges: Sequence[Edge]) -> set[Edge]:
    """Return the edges to remove so that no cycle is left: those that a depth-first search finds leading back to its path."""
    followers: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        followers[a].append(b)
    state, backward = [0] * count, set()
    for root in range(count):
        if state[root]:
            continue
        state[root] = 1
        path = [(root, iter(followers[root]))]
        while path:
            vertex, rest = path[-1]
            for follower in rest:
                if state[follower] == 1:
                    backward.add((vertex, follower))
                elif not state[follower]:
                    state[follower] = 1
                    path.append((follower, iter(followers[follower])))
                    break
            else:
                state[vertex] = 2
                path.pop()
    return backward


def bypasses(edges: Iterable[Edge], backward: Collection[Edge]) -> set[Edge]:
    """Return the edges beside which a longer way leads to the same box; those that lead back do not count."""
    after: dict[int, set[int]] = {}
    waiting: dict[int, int] = {}            # vertex -> edges out of it to vertices that are not done
    before: dict[int, list[int]] = {}
    for a, b in edges:
        if (a, b) not in backward:
            after.setdefault(a, set()).add(b)
            before.setdefault(b, []).append(a)
            waiting[a] = waiting.get(a, 0) + 1
    ready = [vertex for vertex in before if vertex not in after]
    reached: dict[int, set[int]] = {}       # by one edge or more
    for vertex in ready:                    # grows while it is walked through
        direct = after.get(vertex, set())
        reached[vertex] = direct.union(*(reached[follower] for follower in direct))
        for a in before.get(vertex, ()):
            waiting[a] -= 1
            if not waiting[a]:
                ready.append(a)
    return {(a, b) for a, followers in after.items() for b in followers
            if any(b in reached[other] for other in followers if other != b)}


def _longest_paths(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return the layer of each vertex: one below the lowest of those before it; sources stand just above their first user."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        before[b].append(a)
        after[a].append(b)
    waiting = [len(incoming) for incoming in before]
    ready = [v for v in range(count) if not waiting[v]]
    layer = [0] * count
    for vertex in ready:             # grows while it is walked through
        for follower in after[vertex]:
            layer[follower] = max(layer[follower], layer[vertex] + 1)
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    for vertex in range(count):
        if not before[vertex] and after[vertex]:
            layer[vertex] = min(layer[follower] for follower in after[vertex]) - 1
    return layer


def _ordered_rows(layer: Sequence[int], links: Sequence[Edge]) -> list[list[int]]:
    """Return the vertices of each layer from left to right: near the middle of their neighbors in the layer before."""
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for vertex, number in enumerate(layer):
        rows[number].append(vertex)
    above, below = _neighbors(len(layer), links)
    place = [0.0] * len(layer)
    for row in rows:
        for position, vertex in enumerate(row):
            place[vertex] = position - (len(row) - 1) / 2
    for sweep in range(_SWEEPS):
        order, near = (rows, above) if sweep % 2 == 0 else (rows[::-1], below)
        for row in order:
            wish = {v: _mean([place[u] for u in near[v]], place[v]) for v in row}
            row.sort(key=lambda v: (wish[v], place[v]))
            for position, vertex in enumerate(row):
                place[vertex] = position - (len(row) - 1) / 2
    return rows


def _neighbors(count: int, links: Sequence[Edge]) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in links:
        below[a].append(b)
        above[b].append(a)
    return above, below


def _positions(rows: list[list[int]], widths: Sequence[float], links: Sequence[Edge], gap: float) -> list[float]:
    """x of each vertex: near the mean of its neighbors, in the given order, without overlaps."""
    above, below = _neighbors(len(widths), links)
    x = [0.0] * len(widths)
    for row in rows:
        _spread(row, dict.fromkeys(row, 0.0), widths, gap, x)
    for sweep in range(_SWEEPS):
        near = (above, below, None)[sweep % 3]
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wish = {v: _mean([x[u] for u in (near[v] if near is not None else above[v] + below[v])], x[v]) for v in row}
            _spread(row, wish, widths, gap, x)
    return x


def _spread(row: list[int], wish: dict[int, float], widths: Sequence[float], gap: float, x: list[float]) -> None:
    """Set x of a row: as near to the wishes as order and widths allow (least squares; neighbors that clash pool)."""
    offset, offsets = 0.0, []
    for i, vertex in enumerate(row):
        if i:
            offset += (widths[row[i - 1]] + widths[vertex]) / 2 + gap
        offsets.append(offset)
    pools: list[tuple[float, int]] = []       # sum of the wishes less the offsets, count
    for vertex, shift in zip(row, offsets, strict=True):
        pools.append((wish[vertex] - shift, 1))
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1] = pools[-1][0] + total, pools[-1][1] + count
    place = 0
    for total, count in pools:
        for _ in range(count):
            x[row[place]] = total / count + offsets[place]
            place += 1


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
