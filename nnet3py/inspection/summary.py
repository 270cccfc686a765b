"""A network as a table: what each node takes, from which frames, and its output."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnet3py.inspection.facts import NetworkFacts
from nnet3py.inspection.model import network_facts
from nnet3py.network.model_file import AnyModelOrFile, network_or_file
from nnet3py.network.structure import ComponentNode, DimRangeNode
from nnet3py.provided import Shown
from nnet3py.report.network_units import node_units, own_offsets
from nnet3py.report.tables import table

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

HEADINGS = ("node", "type", "takes", "input", "output", "parameters")


@dataclass(frozen=True)
class Row:
    """A node.

    Attributes
    ----------
    type : of its component, without the word Component; ``input``, ``output``, ``range``
    takes : the nodes that feed it, with the frames it takes of each, relative to its own, where they are others
    input_dim, output_dim : columns; 0 for what an input takes
    num_parameters : of its component, those that training changes; 0 where an earlier node has the same component
    """

    node: str
    type: str
    takes: str
    input_dim: int
    output_dim: int
    num_parameters: int

    def texts(self) -> tuple[str, ...]:
        """Return a text for each heading."""
        return (self.node, self.type, self.takes, str(self.input_dim or ""), str(self.output_dim),
                f"{self.num_parameters:,}" if self.num_parameters else "")


@dataclass(frozen=True, repr=False)
class Summary(Shown):
    """The nodes of a network in order, and what :func:`nnet3py.inspect` knows of the whole.

    Printed, or as the last line of a notebook's cell, it is a table.
    """

    nnet: Nnet
    rows: tuple[Row, ...]
    facts: NetworkFacts

    @property
    def headline(self) -> str:
        """Context and size in a line."""
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
    """Return the network, or that of an acoustic model, as a table of its nodes, to print or to show in a notebook.

    >>> print(nnet3py.summary(nnet))        # or nnet.summary()
    node     type                   takes              input  output  parameters input    input
    40 affine1  NaturalGradientAffine  input (−1, 0, +1)    120      32       3,872 ...

    Parameters
    ----------
    nnet : a network, an acoustic model, or the file of one

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
