"""The drawing of a network: a box for each node or layer, an arrow for each use, labeled with the times it takes."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.report.layout import Edge, Layout, bypasses, layered
from nnet3py.report.network_units import MOST_NODES, Link, Links, Unit, network_units
from nnet3py.report.svg import BLUE, GRAY, GREEN, INK, ORANGE, VIOLET, Drawing, text_width

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

_COLORS = {"input": GREEN, "component": BLUE, "output": ORANGE, "range": GRAY}
_KINDS = {"range": "range of columns"}     # in the legend; others keep their names
_NAME, _LINE, _LABEL = 17.0, 13.5, 13.5
_PAD, _GAP = 14.0, 68.0
_BETWEEN_HEADS = 12.0      # of arrows that end at the same side of a box


def draw_network(nnet: Nnet, title: str = "Network", most: int = MOST_NODES) -> Drawing:
    """Inputs above, outputs below; a network of more than ``most`` nodes by layers, equal neighbors in one box."""
    units, links = network_units(nnet, most)
    sizes = [_size(unit, links, i) for i, unit in enumerate(units)]
    edges = [edge for edge in links if edge[0] != edge[1]]
    layout = layered(sizes, edges, gap_y=_GAP)
    drawing = Drawing(title)
    _draw_links(drawing, layout, sizes, edges, links)
    for i, unit in enumerate(units):
        _draw_unit(drawing, unit, layout.x[i], layout.y[i], sizes[i])
        if (i, i) in links:
            _draw_loop(drawing, layout.x[i], layout.y[i], sizes[i], links[i, i])
    left, top, _, _ = drawing.bounds
    drawing.text(left, top - 56, title, 22, bold=True)
    kinds = {unit.kind for unit in units}
    drawing.legend([(color, _KINDS.get(kind, kind)) for kind, color in _COLORS.items() if kind in kinds],
                   left, top - 26)
    below = drawing.bounds[3]
    for line, words in enumerate(_notes(layout, links, edges)):
        drawing.text(left, below + 34 + 18 * line, words, 13.5)
    return drawing


def _notes(layout: Layout, links: Links, edges: list[Edge]) -> list[str]:
    """What the arrows that are there mean."""
    there = {
        "on arrows: which frames are used, relative to t": any(link.label() for link in links.values()),
        "dark: a recurrence, with its delay": bool(layout.backward) or len(edges) < len(links),
        "violet: a bypass, past other boxes": bool(bypasses(edges, layout.backward)),
        "dashed: if defined": any(link.optional for link in links.values()),
    }
    return [words for words, is_there in there.items() if is_there]


def _size(unit: Unit, links: Links, number: int) -> tuple[float, float]:
    width = max([text_width(unit.name, _NAME, bold=True), *(text_width(line, _LINE) for line in unit.lines)])
    touching = sum(1 for a, b in links if a != b and number in (a, b))
    width = max(width, (touching + 1) * _BETWEEN_HEADS - 2 * _PAD)
    labels = [link.label() for (a, b), link in links.items() if b == number != a]
    if any(labels):     # arrows' ends are spread evenly, and their labels must not touch
        width = max(width, (len(labels) + 1) * (max(text_width(label, _LABEL) for label in labels) + 12) - 2 * _PAD)
    return width + 2 * _PAD, 2 * 9 + _NAME * 1.2 + _LINE * 1.35 * len(unit.lines)


def _draw_unit(drawing: Drawing, unit: Unit, x: float, y: float, size: tuple[float, float]) -> None:
    width, height = size
    drawing.box(x - width / 2, y - height / 2, width, height, _COLORS[unit.kind])
    baseline = y - height / 2 + 9 + _NAME * 0.85
    drawing.text(x, baseline, unit.name, _NAME, "middle", bold=True)
    for line in unit.lines:
        baseline += _LINE * 1.35
        drawing.text(x, baseline, line, _LINE, "middle")


def _draw_loop(drawing: Drawing, x: float, y: float, size: tuple[float, float], link: Link) -> None:
    side = x + size[0] / 2
    drawing.curve((side, y + 10), (side + 44, y + 26), (side + 44, y - 26), (side, y - 10), INK, 2.0,
                  link.optional, True)
    drawing.text(side + 38, y + 5, link.label(), _LABEL)


def _draw_links(drawing: Drawing, layout: Layout, sizes: list[tuple[float, float]], edges: list[Edge],
                links: Links) -> None:
    ports = _ports(layout, sizes, edges)
    past = bypasses(edges, layout.backward)
    for edge in edges:
        a, b = edge
        back = edge in layout.backward
        down = 1.0 if layout.y[b] > layout.y[a] else -1.0
        start = (ports[edge, a], layout.y[a] + down * sizes[a][1] / 2)
        end = (ports[edge, b], layout.y[b] - down * sizes[b][1] / 2)
        points = [start, *layout.routes[edge][1:-1], end]
        dashed = links[edge].optional
        color, width = (INK, 2.0) if back else (VIOLET, 1.8) if edge in past else (GRAY, 1.6)
        for i, (p, q) in enumerate(zip(points[:-1], points[1:], strict=True)):
            bend = down * max(abs(q[1] - p[1]) * 0.45, 12.0)
            drawing.curve(p, (p[0], p[1] + bend), (q[0], q[1] - bend), q, color, width, dashed, i == len(points) - 2)
    for edge in edges:      # over all arrows
        label = links[edge].label()
        if label:
            b = edge[1]
            down = 1.0 if layout.y[b] > layout.y[edge[0]] else -1.0
            y = layout.y[b] - down * (sizes[b][1] / 2 + 24)
            width = text_width(label, _LABEL)
            drawing.box(ports[edge, b] - width / 2 - 2, y - 9, width + 4, 18, "none", "#ffffff", radius=0, border=0)
            drawing.text(ports[edge, b], y + 5, label, _LABEL, "middle")


def _ports(layout: Layout, sizes: list[tuple[float, float]], edges: list[Edge]) -> dict[tuple[Edge, int], float]:
    """x at which each edge touches the boxes at its ends: spread over the side, in the order of where it goes."""
    sides: dict[tuple[int, bool], list[tuple[float, Edge]]] = {}
    for edge in edges:
        route = layout.routes[edge]
        for vertex, other in ((edge[0], route[1]), (edge[1], route[-2])):
            sides.setdefault((vertex, other[1] > layout.y[vertex]), []).append((other[0], edge))
    ports = {}
    for (vertex, _), ends in sides.items():
        ends.sort()
        width = sizes[vertex][0]
        for i, (_, edge) in enumerate(ends):
            ports[edge, vertex] = layout.x[vertex] + width * ((i + 1) / (len(ends) + 1) - 0.5)
    return ports
