"""The four kinds of nodes of a network. Kaldi: ``NetworkNode`` of ``nnet-nnet.h``."""
from __future__ import annotations

from dataclasses import dataclass

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
    objective : ``linear`` or ``quadratic``: for outputs, what the trainer makes of it
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
