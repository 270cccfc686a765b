"""SVG drawings (boxes, lines, arrows, text in few colors), and the layout of graphs in layers."""
from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from xml.sax.saxutils import escape, quoteattr

FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
INK, GRAY, PALE = "#22303c", "#8a96a3", "#eef1f4"
BLUE, GREEN, ORANGE, VIOLET = "#2f6db3", "#2e8b57", "#c8641e", "#8b5fbf"
FILL = {BLUE: "#dce9f7", GREEN: "#dcf1e4", ORANGE: "#fbe6d5", GRAY: PALE}     # by color of the border

_WIDTH, _BOLD_WIDTH = 0.58, 0.63        # of a character, in units of the size: on the safe side
_HEAD = 8.0                     # length of an arrow's head
_GAP, _MARGIN = 60.0, 20.0      # between the drawings of a file, and around them

Point = tuple[float, float]


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Estimate the width of a text, not less than in common fonts."""
    return len(text) * size * (_BOLD_WIDTH if bold else _WIDTH)


class Drawing:
    """Shapes in a coordinate system with y downwards; the page has the size of their bounds and a margin.

    ``texts`` keeps the boxes (left, top, right, bottom) of all texts, for checks.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.shapes: list[str] = []
        self.texts: list[tuple[str, tuple[float, float, float, float]]] = []
        self._bounds = [math.inf, math.inf, -math.inf, -math.inf]

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of all shapes."""
        left, top, right, bottom = self._bounds
        return (left, top, right, bottom) if left <= right else (0.0, 0.0, 0.0, 0.0)

    def _cover(self, *points: Point) -> None:
        for x, y in points:
            self._bounds = [min(self._bounds[0], x), min(self._bounds[1], y),
                            max(self._bounds[2], x), max(self._bounds[3], y)]

    def box(self, x: float, y: float, width: float, height: float, color: str = BLUE, fill: str | None = None,
            radius: float = 6.0, border: float = 1.5, tip: str = "") -> None:
        """Draw a rectangle with its upper left corner at (x, y); ``tip`` shows when the mouse is on it."""
        self._cover((x, y), (x + width, y + height))
        inner = f"<title>{escape(tip)}</title>" if tip else ""
        self.shapes.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{_n(radius)}" '
            f'fill="{fill or FILL.get(color, "none")}" stroke="{color}" stroke-width="{_n(border)}"'
            + (f">{inner}</rect>" if inner else "/>"))

    def text(self, x: float, y: float, text: str, size: float = 14.0, anchor: str = "start",
             bold: bool = False) -> None:
        """Write a line of text with its baseline at y; ``anchor`` is start, middle or end."""
        width = text_width(text, size, bold)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        area = (left, y - 0.8 * size, left + width, y + 0.25 * size)
        self._cover(area[:2], area[2:])
        self.texts.append((text, area))
        style = ' font-weight="bold"' if bold else ""
        self.shapes.append(f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" text-anchor="{anchor}" '
                           f'fill="{INK}"{style}>{escape(text)}</text>')

    def line(self, points: Sequence[Point], color: str = GRAY, width: float = 1.5, dashed: bool = False,
             arrow: bool = False) -> None:
        """Draw a line through ``points``; ``arrow`` : whether the last point has an arrowhead."""
        ends = list(points)
        if arrow:
            ends[-1] = self._head(ends[-2], ends[-1], color, width)
        self._stroke("M " + " L ".join(f"{_n(x)} {_n(y)}" for x, y in ends), color, width, dashed)
        self._cover(*points)

    def curve(self, start: Point, control1: Point, control2: Point, end: Point, color: str = GRAY, width: float = 1.5,
              dashed: bool = False, arrow: bool = False) -> None:
        """Draw a cubic Bézier curve; ``arrow`` : whether its end has an arrowhead."""
        points = (start, control1, control2, self._head(control2, end, color, width) if arrow else end)
        self._stroke("M {} {} C {} {}, {} {}, {} {}".format(*(_n(v) for point in points for v in point)), color, width,
                     dashed)
        for i in range(9):      # the curve, not its control points
            t = i / 8
            weights = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3
            self._cover((sum(w * p[0] for w, p in zip(weights, points, strict=True)),
                         sum(w * p[1] for w, p in zip(weights, points, strict=True))))

    def _stroke(self, path: str, color: str, width: float, dashed: bool) -> None:
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.shapes.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="{_n(width)}"{dash}/>')

    def _head(self, before: Point, tip: Point, color: str, width: float) -> Point:
        """Draw an arrow's head; return the point a little before the tip where the line ends, so that it is covered."""
        dx, dy = tip[0] - before[0], tip[1] - before[1]
        length = math.hypot(dx, dy) or 1.0
        ux, uy = dx / length, dy / length
        half = 0.42 * _HEAD + 0.3 * width
        base = tip[0] - _HEAD * ux, tip[1] - _HEAD * uy
        points = (tip, (base[0] - half * uy, base[1] + half * ux), (base[0] + half * uy, base[1] - half * ux))
        self._cover(*points)
        self.shapes.append('<polygon points="{}" fill="{}"/>'.format(
            " ".join(f"{_n(x)},{_n(y)}" for x, y in points), color))
        return tip[0] - 0.7 * _HEAD * ux, tip[1] - 0.7 * _HEAD * uy

    def legend(self, entries: Sequence[tuple[str, str]], x: float, y: float) -> None:
        """Draw a legend, colored boxes with words, in one row from (x, y); ``entries`` : colors and words."""
        size = 14.0
        for color, words in entries:
            self.box(x, y - 0.8 * size, 1.3 * size, size, color, radius=3.0)
            self.text(x + 1.8 * size, y, words, size)
            x += 3.2 * size + text_width(words, size)

    def svg(self) -> str:
        """Return the text of the SVG file."""
        return _page(self.title, self.bounds, self.shapes)


def stacked(title: str, drawings: Sequence[Drawing]) -> str:
    """Return the text of one SVG file with several drawings, one below the other."""
    shapes, y, right = [], 0.0, 0.0
    for drawing in drawings:
        left, top, far, bottom = drawing.bounds
        shapes += [f'<g transform="translate({_n(-left)} {_n(y - top)})">', *drawing.shapes, "</g>"]
        y += bottom - top + _GAP
        right = max(right, far - left)
    return _page(title, (0.0, 0.0, right, max(y - _GAP, 0.0)), shapes)


def _page(title: str, bounds: tuple[float, float, float, float], shapes: Sequence[str]) -> str:
    left, top, right, bottom = bounds
    width, height = _n(right - left + 2 * _MARGIN), _n(bottom - top + 2 * _MARGIN)
    corner = f'x="{_n(left - _MARGIN)}" y="{_n(top - _MARGIN)}"'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="{_n(left - _MARGIN)} {_n(top - _MARGIN)} {width} {height}" font-family={quoteattr(FONT)}>\n'
            f'<title>{escape(title)}</title>\n<rect {corner} width="{width}" height="{height}" fill="#ffffff"/>\n'
            + "\n".join(shapes) + "\n</svg>\n")


def _n(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


Edge = tuple[int, int]
_SWEEPS = 12


@dataclass
class Layout:
    """Layout of a graph in layers. Coordinates are of centers; y grows from layer to layer."""

    # centers of the vertices
    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    # points of each edge, from the center of its first vertex to that of its last
    routes: dict[Edge, list[tuple[float, float]]] = field(default_factory=dict)
    backward: set[Edge] = field(default_factory=set)    # edges that are drawn upward, since they close a cycle


def layered(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge], gap_x: float = 36.0,
            gap_y: float = 48.0) -> Layout:
    """Lay out vertices of (width, height) ``sizes``; ``edges`` are (from, to), without loops and duplicates."""
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
    """Return edges without which the graph has no cycle: those to a vertex on the path of a depth-first search."""
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
    """Return the edges a → b beside which a longer path leads from a to b, over edges that are not ``backward``."""
    after: dict[int, set[int]] = {}
    for a, b in edges:
        if (a, b) not in backward:
            after.setdefault(a, set()).add(b)
    reached: dict[int, set[int]] = {}       # by one edge or more
    for vertex in TopologicalSorter(after).static_order():      # followers first
        direct = after.get(vertex, set())
        reached[vertex] = direct.union(*(reached[follower] for follower in direct))
    return {(a, b) for a, followers in after.items() for b in followers
            if any(b in reached[other] for other in followers if other != b)}


def _longest_paths(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return the layer of each vertex, below those of all its predecessors; for a source, just above its successors."""
    before, after = _neighbors(count, edges)
    layer = [0] * count
    for vertex in TopologicalSorter(dict(enumerate(before))).static_order():
        layer[vertex] = max((layer[u] + 1 for u in before[vertex]), default=0)
    for vertex in range(count):
        if not before[vertex] and after[vertex]:
            layer[vertex] = min(layer[follower] for follower in after[vertex]) - 1
    return layer


def _ordered_rows(layer: Sequence[int], links: Sequence[Edge]) -> list[list[int]]:
    """Return the vertices of each layer from left to right, ordered by the mean position of their neighbors."""
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
    """Return x of each vertex, near the mean of its neighbors; rows keep their order, and vertices do not overlap."""
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
    """Set x of the vertices of a row as near as possible to the positions ``wish``, without overlaps.

    The row keeps its order; the sum of squared distances is minimized by pooling adjacent violators.
    """
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
