"""Drawing of a network: a box for each node, layer or run of equal layers, arrows labeled with relative times."""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nnet3py.network.descriptor import IfDefined, Leaf, Offset, Part, ReplaceIndex, Round, Source
from nnet3py.network.structure import ComponentNode, DescriptorNode, DimRangeNode, InputNode
from nnet3py.report.svg import (
    BLUE,
    GRAY,
    GREEN,
    INK,
    ORANGE,
    VIOLET,
    Drawing,
    Edge,
    Layout,
    backward_edges,
    bypasses,
    layered,
    text_width,
)

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

MOST_NODES = 16       # nodes of a network that is drawn node by node
LEAST_RUN = 3         # equal layers that become one box
LINE_LENGTH = 46      # characters
BYPASSED = "with a bypass from before it to its end"

_SHORT_TYPES = {"NaturalGradientAffine": "affine", "Affine": "affine", "RectifiedLinear": "relu", "NoOp": "no-op",
                "GeneralDropout": "dropout", "BatchNorm": "batchnorm", "LogSoftmax": "log-softmax"}


@dataclass
class Unit:
    """Box of a drawing."""

    name: str               # heading
    kind: str               # a key of _COLORS
    lines: list[str]        # text below the heading
    nodes: set[int]         # indexes of the nodes that the box stands for


@dataclass
class Link:
    """Arrow of a drawing."""

    # times of the rows that are read, relative to the reader's: ``−1``, ``0``, or ``t=0`` for a fixed time
    shifts: list[str] = field(default_factory=list)
    optional: bool = True       # whether all of these rows are read only if they are defined

    def label(self) -> str:
        """Return the relative times as text, "" for 0 alone."""
        return "" if self.shifts == ["0"] else ", ".join(self.shifts)


Links = dict[tuple[int, int], Link]


def short_type(component: Any) -> str:
    """Shorten the name of a type: ``NaturalGradientAffineComponent`` to ``affine``."""
    name = type(component).__name__.removesuffix("Component")
    return _SHORT_TYPES.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def minus(text: str) -> str:
    """Replace hyphens by minus signs."""
    return text.replace("-", "−")


def _shift(leaf: Leaf) -> str:
    total = 0
    while isinstance(leaf, Offset) and not leaf.x:
        total, leaf = total + leaf.t, leaf.child
    if isinstance(leaf, Source):
        return minus(f"{total:+d}") if total else "0"
    if isinstance(leaf, ReplaceIndex) and isinstance(leaf.child, Source):
        return minus(f"{leaf.variable}={leaf.value}")
    if isinstance(leaf, Round) and isinstance(leaf.child, Source) and not total:
        return f"{leaf.step}⌊t/{leaf.step}⌋"
    return "…"


def _optional_leaves(part: Part, inside: bool = False) -> Iterable[tuple[Leaf, bool]]:
    if isinstance(part, Leaf):
        yield part, inside
    else:
        for child in part.children():
            yield from _optional_leaves(child, inside or isinstance(part, IfDefined))


def node_units(nnet: Nnet) -> tuple[list[Unit], Links]:
    """Return a box for each node other than inputs of components, and the arrows between the boxes."""
    units: list[Unit] = []
    number: dict[int, int] = {}
    for i, node in enumerate(nnet.nodes):
        if nnet.is_component_input(i):
            continue
        number[i] = len(units)
        units.append(Unit(node.name, *_node_text(nnet, i), {i, i - 1} if isinstance(node, ComponentNode) else {i}))
    links: Links = {}
    for i, at in number.items():
        node = nnet.nodes[i]
        if isinstance(node, DimRangeNode):
            _add(links, number[node.source], at, "0", False)
        owner = nnet.nodes[i - 1] if isinstance(node, ComponentNode) else node
        if isinstance(owner, DescriptorNode):
            for part in owner.descriptor.parts:
                for leaf, optional in _optional_leaves(part):
                    for source in leaf.sources():
                        _add(links, number[source.node], at, _shift(leaf), optional)
    return units, links


def _add(links: Links, source: int, target: int, shift: str, optional: bool) -> None:
    link = links.setdefault((source, target), Link())
    if shift not in link.shifts:
        link.shifts.append(shift)
    link.optional &= optional


def _node_text(nnet: Nnet, i: int) -> tuple[str, list[str]]:
    node = nnet.nodes[i]
    if isinstance(node, InputNode):
        return "input", [f"{node.dim} columns"]
    if isinstance(node, DimRangeNode):
        return "range", [f"columns {node.dim_offset} to {node.dim_offset + node.dim - 1}"]
    if isinstance(node, ComponentNode):
        component = nnet.components[node.component_index]
        text = nnet.descriptor_of(i - 1).descriptor.text(nnet.node_names)
        return "component", [f"{short_type(component)} {component.input_dim} → {component.output_dim}"
                             + own_offsets(component), *_parameters([component]), *_wrapped(f"of {text}", 2)]
    text = nnet.descriptor_of(i).descriptor.text(nnet.node_names)
    return "output", [f"{nnet.node_dim(i)} columns", *_wrapped(f"of {text}", 2)]


def _parameters(components: Iterable[Any]) -> list[str]:
    """Return a list with one line of text, the number of parameters; an empty list if there are none."""
    count = sum(component.num_parameters() for component in components)
    return [f"{count:,} parameter{'s' if count != 1 else ''}"] if count else []


def own_offsets(component: Any) -> str:
    """Return words such as " at −1, 0, +1" for a component that reads frames at several offsets; "" for others."""
    offsets = getattr(component, "time_offsets", None)
    return f" at {', '.join(minus(f'{int(t):+d}') if t else '0' for t in offsets)}" if offsets is not None else ""


def _wrapped(text: str, most: int, blank: str = " ") -> list[str]:
    """Break a text into lines of LINE_LENGTH after ``blank``; at most ``most`` lines."""
    lines = [""]
    for word in re.split(f"(?<={blank})", text):
        if lines[-1] and len(lines[-1]) + len(word.rstrip()) > LINE_LENGTH:
            lines.append("")
        lines[-1] += word
    lines = [line.rstrip() for line in lines]
    if len(lines) > most:
        lines[most - 1:] = [lines[most - 1][:LINE_LENGTH - 2] + " …"]
    return lines


# -- collapsing --------------------------------------------------------------------------------------------------------


def network_units(nnet: Nnet, most: int = MOST_NODES) -> tuple[list[Unit], Links]:
    """Return the boxes and arrows of a network's drawing.

    There is a box for each node; or, if these are more than ``most``, for each layer: nodes whose names are equal up to
    the first dot. If layers are too many as well, successive layers with the same text become one box.
    """
    units, links = node_units(nnet)
    if len(units) <= most:
        return units, links
    layers: dict[str, list[int]] = {}
    for i, unit in enumerate(units):
        key = unit.name if unit.kind == "input" else unit.name.partition(".")[0]
        layers.setdefault(key, []).append(i)
    units, links = _merged(nnet, units, links, list(layers.values()), list(layers))
    if len(units) <= most:
        return units, links
    runs = _runs(units, links)
    names = [units[run[0]].name if len(run) == 1 else f"{units[run[0]].name} … {units[run[-1]].name}" for run in runs]
    return _merged(nnet, units, links, runs, names)


def _merged(nnet: Nnet, units: list[Unit], links: Links, groups: list[list[int]],
            names: list[str]) -> tuple[list[Unit], Links]:
    group_of = {i: g for g, group in enumerate(groups) for i in group}
    merged: Links = {}
    for (a, b), link in links.items():
        source, target = group_of[a], group_of[b]
        for shift in link.shifts:
            if source != target or (a >= b and shift != "0"):      # within a layer only backward links: a loop
                _add(merged, source, target, shift, link.optional)
    beside = _bypassed(len(units), links, group_of)
    units_made = []
    for g, group in enumerate(groups):
        members = [units[i] for i in group]
        if len(members) == 1:      # among layers, the arrows say what it takes
            first = members[0]
            uses = [i for i, line in enumerate(first.lines) if line.startswith("of ")]
            units_made.append(Unit(first.name, first.kind, first.lines[:uses[0]], first.nodes)
                              if first.kind == "component" and uses else first)
            continue
        nodes = set().union(*(unit.nodes for unit in members))
        kinds = {unit.kind for unit in members}
        kind = "output" if "output" in kinds else "component"
        if all("\n".join(unit.lines) == "\n".join(members[0].lines) for unit in members):
            lines = [f"{len(members)} layers, each:", *members[0].lines]
        else:
            inner = [nnet.nodes[i] for i in sorted(nodes)]
            places = dict.fromkeys(node.component_index for node in inner if isinstance(node, ComponentNode))
            lines = [*_wrapped(", ".join(_layer_words(nnet, nodes)), 3, ", "),
                     *([BYPASSED] if g in beside else []),
                     *_parameters(nnet.components[place] for place in places)]
        units_made.append(Unit(names[g], kind, lines, nodes))
    return units_made, merged


def _bypassed(count: int, links: Links, group_of: Mapping[int, int]) -> set[int]:
    """Return the groups of boxes with a bypass that merging hides.

    Another group is read both by the first boxes of such a group and, past these, by later ones. After merging, a
    single arrow stands for both.
    """
    edges = [edge for edge in links if edge[0] != edge[1]]
    past = bypasses(edges, backward_edges(count, edges))
    kinds: dict[tuple[int, int], set[bool]] = {}
    for a, b in edges:
        if group_of[a] != group_of[b]:
            kinds.setdefault((group_of[a], group_of[b]), set()).add((a, b) in past)
    return {target for (_, target), both in kinds.items() if len(both) == 2}


def _layer_words(nnet: Nnet, nodes: set[int]) -> list[str]:
    words = []
    for i in sorted(nodes):
        node = nnet.nodes[i]
        if isinstance(node, ComponentNode):
            component = nnet.components[node.component_index]
            word = short_type(component)
            if component.input_dim != component.output_dim or word in ("affine", "linear", "tdnn"):
                word += f" {component.output_dim}"
            words.append(word + own_offsets(component))
    return words


def _runs(units: list[Unit], links: Links) -> list[list[int]]:
    """Group successive layers with equal text and equal incoming arrows, if there are at least LEAST_RUN of them.

    Returns lists of indexes into ``units``.
    """
    def look(i: int) -> tuple[Any, ...]:
        into = sorted((i - a, link.label()) for (a, b), link in links.items() if b == i)
        return units[i].kind, tuple(units[i].lines), tuple(into)

    looks = [look(i) for i in range(len(units))]
    runs: list[list[int]] = []
    for i in range(len(units)):
        if runs and looks[runs[-1][-1]] == looks[i]:
            runs[-1].append(i)
        else:
            runs.append([i])
    return [part for run in runs for part in ([run] if len(run) >= LEAST_RUN else [[i] for i in run])]


_COLORS = {"input": GREEN, "component": BLUE, "output": ORANGE, "range": GRAY}
_KINDS = {"range": "range of columns"}     # in the legend; others keep their names
_NAME, _LINE, _LABEL = 17.0, 13.5, 13.5
_PAD, _GAP = 14.0, 68.0
_BETWEEN_HEADS = 12.0      # of arrows that end at the same side of a box


def draw_network(nnet: Nnet, title: str = "Network", most: int = MOST_NODES) -> Drawing:
    """Draw a network, with the inputs at the top; the boxes are those of :func:`network_units`."""
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
    """Return lines that explain the kinds of arrows in the drawing."""
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
    """Return, for each edge and each of its two boxes, the x at which the edge meets the box.

    Edges at the same side of a box are evenly spaced, in the order of their other ends.
    """
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
