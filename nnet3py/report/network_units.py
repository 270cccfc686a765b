"""What a drawing of a network shows as one box: a node, or in larger networks a layer, or a run of equal layers."""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nnet3py.network.descriptor import IfDefined, Leaf, Offset, Part, ReplaceIndex, Round, Source
from nnet3py.network.structure import ComponentNode, DescriptorNode, DimRangeNode, InputNode
from nnet3py.report.layout import backward_edges, bypasses

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

MOST_NODES = 16       # that are drawn one by one
LEAST_RUN = 3         # equal layers that become one box
LINE_LENGTH = 46      # characters
BYPASSED = "with a bypass from before it to its end"

_SHORT_TYPES = {"NaturalGradientAffine": "affine", "Affine": "affine", "RectifiedLinear": "relu", "NoOp": "no-op",
                "GeneralDropout": "dropout", "BatchNorm": "batchnorm", "LogSoftmax": "log-softmax"}


@dataclass
class Unit:
    """A box: its name, what kind of thing it is (input, output, component, range), lines of text, its nodes."""

    name: str
    kind: str
    lines: list[str]
    nodes: set[int]


@dataclass
class Link:
    """An arrow: at which times the rows are taken (``-1``, ``0``, ``t=0``), and whether all of them are optional."""

    shifts: list[str] = field(default_factory=list)
    optional: bool = True

    def label(self) -> str:
        """The shifts, or nothing if it is the same time only."""
        return "" if self.shifts == ["0"] else ", ".join(self.shifts)


Links = dict[tuple[int, int], Link]


def short_type(component: Any) -> str:
    """``NaturalGradientAffineComponent`` -> ``affine``, ``LstmNonlinearityComponent`` -> ``lstm-nonlinearity``."""
    name = type(component).__name__.removesuffix("Component")
    return _SHORT_TYPES.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def minus(text: str) -> str:
    """With a real minus sign."""
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
    """A unit for each node but the inputs of components, which are part of theirs; and the links between units."""
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
    """A line with the number of parameters; none where there are none."""
    count = sum(component.num_parameters() for component in components)
    return [f"{count:,} parameter{'s' if count != 1 else ''}"] if count else []


def own_offsets(component: Any) -> str:
    """The time offsets of a component that looks at other times by itself."""
    offsets = getattr(component, "time_offsets", None)
    return f" at {', '.join(minus(f'{int(t):+d}') if t else '0' for t in offsets)}" if offsets is not None else ""


def _wrapped(text: str, most: int, blank: str = " ") -> list[str]:
    """Lines of LINE_LENGTH, broken after ``blank``; the rest after ``most`` lines is left out."""
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
    """The boxes of a network and what goes between them: nodes, or layers where there are more than ``most`` nodes.

    A layer is what shares a name up to the first dot. Runs of layers that look the same become one box.
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
            if source != target or (a >= b and shift != "0"):      # within a layer only what leads back: a loop
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
    """The groups that take something both at their beginning and past that: one arrow, which does not show it."""
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
    """The layers in order, neighbors with the same text and the same kinds of arrows from before put together."""
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
