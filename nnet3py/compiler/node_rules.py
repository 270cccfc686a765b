"""For each kind of node: which cindexes a row may depend on, whether it can be computed, and what it then uses.

Rules work on arrays. A row's possible dependencies stand in a fixed number of columns; where there is none, the column
holds t = NO_TIME.
"""
from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from nnet3py.components.base import Component
from nnet3py.network.descriptor import Const, Descriptor, Failover, IfDefined, Part, Source, Sum
from nnet3py.network.nnet import Nnet
from nnet3py.network.nodes import ComponentNode, DimRangeNode, InputNode

Mask = np.ndarray   # bool


class NodeRule:
    """The rule of an input node, which depends on nothing and cannot be computed (unless it is given).

    Attributes
    ----------
    is_pointwise : a row depends on the same row of the only source, and on nothing else
    """

    is_pointwise = False

    def sources(self) -> list[int]:
        """The nodes that this one may depend on, ascending."""
        return []

    def dependencies(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Source nodes int32 (rows, columns) and their indexes int32 (rows, columns, 3) of int32 indexes (rows, 3)."""
        return np.zeros((len(indexes), 0), np.int32), np.zeros((len(indexes), 0, 3), np.int32)

    def computable(self, indexes: np.ndarray, available: Mask) -> tuple[Mask, Mask]:
        """Which rows can be computed (rows,) from what is ``available`` (rows, columns), and what each then uses."""
        return np.zeros(len(indexes), bool), available


class DimRangeRule(NodeRule):
    """A dim-range node has the rows of its source."""

    is_pointwise = True

    def __init__(self, source: int) -> None:
        self.source = source

    def sources(self) -> list[int]:
        return [self.source]

    def dependencies(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full((len(indexes), 1), self.source, np.int32), indexes[:, None, :]

    def computable(self, indexes: np.ndarray, available: Mask) -> tuple[Mask, Mask]:
        return available[:, 0], available


class ComponentRule(NodeRule):
    """A component node depends on the descriptor node before it, in the way that its component says."""

    def __init__(self, source: int, component: Component) -> None:
        self.source, self.component = source, component
        kind = type(component)
        self.is_pointwise = (kind.input_indexes is Component.input_indexes
                             and kind.is_computable is Component.is_computable)

    def sources(self) -> list[int]:
        return [self.source]

    def dependencies(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wanted = self.component.input_indexes(indexes)
        return np.full(wanted.shape[:2], self.source, np.int32), wanted

    def computable(self, indexes: np.ndarray, available: Mask) -> tuple[Mask, Mask]:
        return self.component.is_computable(indexes, available)


class DescriptorRule(NodeRule):
    """A descriptor node: a column for each leaf of each part, in order."""

    def __init__(self, descriptor: Descriptor) -> None:
        self.parts = list(descriptor.parts)
        self.leaves = [list(part.leaves()) for part in self.parts]
        ends = list(accumulate(len(leaves) for leaves in self.leaves))
        self.columns = [slice(end - len(leaves), end) for end, leaves in zip(ends, self.leaves, strict=True)]
        self._sources = descriptor.source_nodes()
        self.is_pointwise = len(self.parts) == 1 and isinstance(self.parts[0], Source)

    def sources(self) -> list[int]:
        return self._sources

    def dependencies(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        maps = [leaf.map(indexes) for leaves in self.leaves for leaf in leaves]
        if not maps:
            return super().dependencies(indexes)
        return np.stack([nodes for nodes, _ in maps], axis=1), np.stack([mapped for _, mapped in maps], axis=1)

    def computable(self, indexes: np.ndarray, available: Mask) -> tuple[Mask, Mask]:
        computable = np.ones(len(indexes), bool)
        used = np.zeros_like(available)
        for part, columns in zip(self.parts, self.columns, strict=True):
            part_computable, used[:, columns] = evaluate_part(part, available[:, columns])
            computable &= part_computable
        return computable, used


def evaluate_part(part: Part, available: Mask) -> tuple[Mask, Mask]:
    """Whether a descriptor's part is computable (rows,), and which leaves it uses then (rows, leaves)."""
    return _evaluate(part, iter(range(available.shape[1])), available)


def _evaluate(part: Part, columns: Iterator[int], available: Mask) -> tuple[Mask, Mask]:
    if isinstance(part, Sum | Failover):
        first, first_used = _evaluate(part.a, columns, available)
        second, second_used = _evaluate(part.b, columns, available)
        if isinstance(part, Sum):
            return first & second, first_used | second_used
        return first | second, np.where(first[:, None], first_used, second_used)
    if isinstance(part, IfDefined):
        inner, used = _evaluate(part.child, columns, available)
        return np.ones_like(inner), used & inner[:, None]
    used = np.zeros_like(available)
    if isinstance(part, Const):
        return np.ones(len(available), bool), used
    column = next(columns)
    used[:, column] = available[:, column]
    return available[:, column], used


def node_rules(nnet: Nnet) -> list[NodeRule]:
    """The rule of each node."""
    rules: list[NodeRule] = []
    for i, node in enumerate(nnet.nodes):
        if isinstance(node, InputNode):
            rules.append(NodeRule())
        elif isinstance(node, DimRangeNode):
            rules.append(DimRangeRule(node.source))
        elif isinstance(node, ComponentNode):
            rules.append(ComponentRule(i - 1, nnet.components[node.component_index]))
        else:
            rules.append(DescriptorRule(node.descriptor))
    return rules
