"""Tables of networks: nodes with inputs, dimensions and parameters; differences between the components of two."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component
from nnet3py.inspection.facts import NetworkFacts
from nnet3py.inspection.model import network_facts
from nnet3py.network.model_file import AnyModelOrFile, network_or_file
from nnet3py.network.structure import ComponentNode, DimRangeNode, component_arrays, component_form
from nnet3py.provided import Shown
from nnet3py.report.draw_network import node_units, own_offsets
from nnet3py.report.tables import table

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

HEADINGS = ("node", "type", "takes", "input", "output", "parameters")


@dataclass(frozen=True)
class Row:
    """Node of a network, as a row of the table.

    Attributes
    ----------
    type : type of the component, without the word Component; or ``input``, ``output``, ``range``
    takes : nodes that the node reads, each with the frames, such as (−1, 0, +1), unless it is only the same frame
    input_dim, output_dim : number of columns; ``input_dim`` is 0 for inputs
    num_parameters : trainable parameters of the component; 0 where an earlier node has the same component
    """

    node: str
    type: str
    takes: str
    input_dim: int
    output_dim: int
    num_parameters: int

    def texts(self) -> tuple[str, ...]:
        """Return the text of each column."""
        return (self.node, self.type, self.takes, str(self.input_dim or ""), str(self.output_dim),
                f"{self.num_parameters:,}" if self.num_parameters else "")


@dataclass(frozen=True, repr=False)
class Summary(Shown):
    """Nodes of a network in order, and the description of the whole network by :func:`nnet3py.inspect`.

    ``print`` and notebooks show it as a table.
    """

    nnet: Nnet
    rows: tuple[Row, ...]
    facts: NetworkFacts

    @property
    def headline(self) -> str:
        """Number of parameters and contexts, in a line."""
        facts = self.facts
        context = (f"context {facts.left_context} frames left, {facts.right_context} right"
                   if facts.left_context is not None else "context not defined")
        return (f"{facts.num_parameters:,} parameters in {facts.num_updatable} of {len(facts.layers)} components; "
                f"{context}{'; recurrent' if facts.is_recurrent else ''}")

    def __str__(self) -> str:
        texts = [row.texts() for row in self.rows]
        widths = [max(len(text) for text in column) for column in zip(HEADINGS, *texts, strict=True)]
        aligned = [[*row[:3], *(text.rjust(width) for text, width in zip(row[3:], widths[3:], strict=True))]
                   for row in texts]
        return table(HEADINGS, aligned) + self.headline

    __repr__ = __str__


def summary(nnet: AnyModelOrFile) -> Summary:
    """Return the nodes of a network as a table, to print or to show in a notebook.

    >>> print(nnet3py.summary(nnet))        # or nnet.summary()
    node     type                   takes              input  output  parameters
    input    input                                                40
    affine1  NaturalGradientAffine  input (−1, 0, +1)    120      32       3,872
    ...

    Parameters
    ----------
    nnet : network or acoustic model, or the file of one

    Returns
    -------
    The table: ``.rows`` and ``.facts`` for programs.
    """
    nnet = network_or_file(nnet)
    units, links = node_units(nnet)
    rows, seen = [], set()
    for number, unit in enumerate(units):
        takes = [units[a].name + (f" ({label})" if (label := link.label()) else "")
                 for (a, b), link in links.items() if b == number]
        i, at = max(unit.nodes), ""
        node = nnet.nodes[i]
        kind, input_dim, num_parameters = unit.kind, 0, 0
        if isinstance(node, ComponentNode):
            component = nnet.components[node.component_index]
            kind, input_dim = type(component).__name__.removesuffix("Component"), component.input_dim
            num_parameters = 0 if node.component_index in seen else component.num_parameters()
            seen.add(node.component_index)
            at = own_offsets(component)
        elif isinstance(node, DimRangeNode):
            input_dim = nnet.node_dim(node.source)
        elif nnet.is_output(i):
            input_dim = nnet.node_dim(i)
        rows.append(Row(unit.name, kind, ", ".join(takes) + at, input_dim, nnet.node_dim(i), num_parameters))
    return Summary(nnet, tuple(rows), network_facts(nnet))


DIFFERENCE_HEADINGS = ("component", "difference", "largest", "relative")
EQUAL, NUMBERS, FORM = "none", "numbers", "form"
ONLY_FIRST, ONLY_SECOND = "only in the first", "only in the second"


@dataclass(frozen=True)
class ComponentDifference:
    """Difference of a component between two networks.

    Attributes
    ----------
    difference : ``none``; ``numbers`` if only numbers differ; ``form`` if type, dimensions or settings differ, except
        those of training; ``only in the first`` or ``only in the second`` network
    absolute : largest absolute difference of two numbers; NaN where they cannot be compared
    relative : largest difference of two numbers, relative to the larger one
    array : name of the array with the largest absolute difference, such as ``linear_params``; empty if there is none
    """

    name: str
    difference: str
    absolute: float
    relative: float
    array: str = ""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of :func:`compare`, which prints as a table of the components that differ.

    Attributes
    ----------
    components : all components of both networks, in the order of the first
    same_nodes : whether the nodes are equal
    """

    components: tuple[ComponentDifference, ...]
    same_nodes: bool

    @property
    def different(self) -> tuple[ComponentDifference, ...]:
        """Components that differ."""
        return tuple(each for each in self.components if each.difference != EQUAL)

    @property
    def same(self) -> bool:
        """True if no component differs, and the nodes are equal."""
        return self.same_nodes and not self.different

    def __bool__(self) -> bool:
        """Return :attr:`same`."""
        return self.same

    def __str__(self) -> str:
        rows = [(each.name, " in ".join(filter(None, (each.difference, each.array))), *(
            "" if math.isnan(value) else f"{value:.3g}" for value in (each.absolute, each.relative)))
            for each in self.different]
        counts = f"{len(rows)} of {len(self.components)} components differ"
        nodes = "the nodes are the same" if self.same_nodes else "the nodes differ"
        return (table(DIFFERENCE_HEADINGS, rows) if rows else "") + f"{counts}; {nodes}"

    __repr__ = __str__


def compare(a: AnyModelOrFile, b: AnyModelOrFile) -> Comparison:
    """Compare the components of two networks, and their nodes.

    Parameters, fixed arrays and statistics of batch normalization of components of the same name are compared; learning
    rates and other settings of training, and test modes, are not.

    >>> print(nnet3py.compare(nnet, "final.raw"))

    Parameters
    ----------
    a, b : networks, acoustic models, or files of these

    Returns
    -------
    The comparison: ``.same``, ``.different``; printed, a table.

    Raises
    ------
    UsageError : anything else
    Nnet3Error : a file that cannot be read
    """
    first, second = network_or_file(a), network_or_file(b)
    mine, theirs = dict(first.named_components()), dict(second.named_components())
    rows = [_difference(name, mine.get(name), theirs.get(name)) for name in {**mine, **theirs}]
    return Comparison(tuple(rows), first.config_lines() == second.config_lines())


def _difference(name: str, mine: Component | None, theirs: Component | None) -> ComponentDifference:
    if mine is None or theirs is None:
        return ComponentDifference(name, ONLY_FIRST if theirs is None else ONLY_SECOND, math.nan, math.nan)
    if component_form(mine) != component_form(theirs):
        return ComponentDifference(name, FORM, math.nan, math.nan)
    others = component_arrays(theirs)
    sizes = {array: _sizes(value, others[array]) for array, value in component_arrays(mine).items()}
    largest = max(sizes, key=lambda array: sizes[array][0], default="")
    absolute = sizes[largest][0] if sizes else 0.0
    if absolute == 0.0:
        return ComponentDifference(name, EQUAL, 0.0, 0.0)
    return ComponentDifference(name, NUMBERS, absolute, max(size for _, size in sizes.values()), largest)


def _sizes(mine: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Return the largest absolute and relative difference of two arrays; infinite if NaN is in only one of them."""
    if np.array_equal(mine, theirs, equal_nan=True):
        return 0.0, 0.0
    first, second = mine.astype(np.float64), theirs.astype(np.float64)
    differ = (first != second) & ~(np.isnan(first) & np.isnan(second))
    first, second = first[differ], second[differ]
    absolute = np.abs(first - second)
    relative = absolute / np.maximum(np.abs(first), np.abs(second))
    return (float(np.where(np.isnan(absolute), np.inf, absolute).max()),
            float(np.where(np.isnan(relative), np.inf, relative).max()))
