"""The four kinds of nodes of a network. Kaldi: ``NetworkNode`` of ``nnet-nnet.h``."""
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from nnet3py.network.descriptor import Descriptor

OBJECTIVES = ("linear", "quadratic")


@dataclass
class InputNode:
    """Rows that the caller supplies."""

    name: str
    dim: int


@dataclass
class DescriptorNode:
    """The input of the component node after it, or an output of the network.

    Attributes
    ----------
    objective : ``linear`` or ``quadratic``: for outputs, the trainer's objective
    """

    name: str
    descriptor: Descriptor
    objective: str = "linear"


@dataclass
class ComponentNode:
    """A component at work; the node before it is its input. Several nodes may share a component."""

    name: str
    component_index: int


@dataclass
class DimRangeNode:
    """Columns ``dim_offset`` to ``dim_offset + dim`` of node ``source``, an input or component node."""

    name: str
    source: int
    dim_offset: int
    dim: int


Node = InputNode | DescriptorNode | ComponentNode | DimRangeNode


def without_nodes(nodes: Sequence[Node], removed: Collection[int]) -> list[Node]:
    """The other nodes, renumbered: new objects where they refer to nodes. None may refer to a removed one."""
    kept = [i for i in range(len(nodes)) if i not in removed]
    new_index = [-1] * len(nodes)
    for new, old in enumerate(kept):
        new_index[old] = new
    return [_renumbered(nodes[i], new_index) for i in kept]


def _renumbered(node: Node, new_index: Sequence[int]) -> Node:
    if isinstance(node, DescriptorNode):
        return replace(node, descriptor=node.descriptor.renumbered(new_index))
    if isinstance(node, DimRangeNode):
        return replace(node, source=new_index[node.source])
    return node
