"""Descriptors, the ``input=`` expressions of nodes, in the normalized form that the compiler reads.

A descriptor is a sequence of parts whose columns are appended. A part is a tree of :class:`Sum`, :class:`Failover`,
:class:`IfDefined` and :class:`Const` over leaves. A leaf forwards rows of one node at a time: it is a tree of
:class:`Offset`, :class:`Round`, :class:`ReplaceIndex` and :class:`Switch` over :class:`Source`.

Kaldi: ``nnet-descriptor.h`` (``SumDescriptor``, ``ForwardingDescriptor``).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from nnet3py.errors import DescriptorError
from nnet3py.index import NO_TIME

COLUMNS = {"t": 1, "x": 2}       # the coordinates that ReplaceIndex can replace


def format_real(value: float) -> str:
    """Format a number as config lines have it, with six significant digits."""
    return f"{value:.6g}"


class NodeSizes(Protocol):
    """Interface for looking up the names and dimensions of a network's nodes, from which descriptors make text and dim.
    """

    @property
    def node_names(self) -> list[str]:
        """Name of each node."""

    def node_dim(self, i: int, /) -> int:
        """Return the number of columns of node ``i``."""


class Value:
    """Base of immutable objects that are compared and hashed by type and fields.

    Frozen dataclasses would generate methods for each class below, which would make every import 3 ms slower.
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, vars(self).values()))})"


class Part(Value):
    """Expression of a descriptor: one of those that ``Append`` joins, or a subexpression of one."""

    def children(self) -> tuple[Part, ...]:
        """Return the direct subtrees."""
        return ()

    def leaves(self) -> list[Leaf]:
        """Return the leaves of this tree, in written order."""
        return [leaf for child in self.children() for leaf in child.leaves()]

    def sources(self) -> Iterator[Source]:
        """Yield every mention of a node, in written order."""
        for child in self.children():
            yield from child.sources()

    def modulus(self) -> int:
        """Return the smallest shift of t, in frames, that does not change the meaning of the expression."""
        return math.lcm(*(child.modulus() for child in self.children()))

    def dim(self, nnet: NodeSizes) -> int:
        """Return the number of columns. Raises DescriptorError if the sides of a sum differ."""
        raise NotImplementedError

    def text(self, node_names: Sequence[str]) -> str:
        """Return the expression as in config lines."""
        raise NotImplementedError

    def map_sources(self, change: Callable[[Source], Leaf]) -> Part:
        """Return a copy with every :class:`Source` replaced by ``change(source)``, not normalized again."""
        raise NotImplementedError

    def scales(self) -> dict[int, float]:
        """Return the scale of each node that this part mentions: node index -> scale.

        Raises DescriptorError for a node with two scales in the same part, which the command list cannot express.
        """
        scales: dict[int, float] = {}
        for source in self.sources():
            if scales.setdefault(source.node, source.scale) != source.scale:
                raise DescriptorError(
                    f"the same node is used with the scales {format_real(scales[source.node])} and "
                    f"{format_real(source.scale)} in one part of a descriptor",
                    "give the node a second name with a dim-range-node of its full width, and scale that")
        return scales

    def constant(self) -> float:
        """Return the constant that the part adds to every element. Raises DescriptorError if it depends on the row."""
        return 0.0


class Leaf(Part):
    """Subtree that selects, for each requested index, one row of one node."""

    def leaves(self) -> list[Leaf]:
        return [self]

    def map(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the source node and index of each requested row.

        ``indexes`` : int32 (rows, 3), n, t, x; a row with t = NO_TIME is padding and is returned unchanged.

        Returns
        -------
        nodes : int32 (rows,), the node index of each row
        mapped : int32 (rows, 3), the index at that node
        """
        padding = indexes[:, 1] == NO_TIME
        if not padding.any():
            return self._map(indexes)
        real = ~padding
        nodes = np.full(len(indexes), next(self.sources()).node, dtype=np.int32)
        mapped = indexes.copy()
        nodes[real], mapped[real] = self._map(indexes[real])
        return nodes, mapped

    def _map(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def map_sources(self, change: Callable[[Source], Leaf]) -> Leaf:
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class Source(Leaf):
    """Leaf for a node: the node's row at the requested index, times a scale. Kaldi: ``SimpleForwardingDescriptor``."""

    node: int
    scale: float = 1.0

    def sources(self) -> Iterator[Source]:
        yield self

    def modulus(self) -> int:
        return 1

    def dim(self, nnet: NodeSizes) -> int:
        return nnet.node_dim(self.node)

    def text(self, node_names: Sequence[str]) -> str:
        name = node_names[self.node]
        return name if self.scale == 1.0 else f"Scale({format_real(self.scale)}, {name})"

    def map_sources(self, change: Callable[[Source], Leaf]) -> Leaf:
        return change(self)

    def _map(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(indexes), self.node, dtype=np.int32), indexes


class _MovedLeaf(Leaf):
    """Leaf that requests other indexes from its child."""

    child: Leaf

    def children(self) -> tuple[Leaf]:
        return (self.child,)

    def dim(self, nnet: NodeSizes) -> int:
        return self.child.dim(nnet)

    def map_sources(self, change: Callable[[Source], Leaf]) -> Leaf:
        return replace(self, child=self.child.map_sources(change))   # type: ignore[type-var]

    def _moved(self, indexes: np.ndarray) -> np.ndarray:
        """Return the indexes to request from the child, int32 (rows, 3)."""
        raise NotImplementedError

    def _map(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.child._map(self._moved(indexes))


@dataclass(eq=False, repr=False)
class Offset(_MovedLeaf):
    """Child at (n, t + ``t``, x + ``x``). Kaldi: ``OffsetForwardingDescriptor``."""

    child: Leaf
    t: int
    x: int = 0

    def text(self, node_names: Sequence[str]) -> str:
        x = f", {self.x}" if self.x else ""
        return f"Offset({self.child.text(node_names)}, {self.t}{x})"

    def _moved(self, indexes: np.ndarray) -> np.ndarray:
        return indexes + np.array([0, self.t, self.x], dtype=np.int32)


@dataclass(eq=False, repr=False)
class Round(_MovedLeaf):
    """Child at t rounded down to a multiple of ``step``. Kaldi: ``RoundingForwardingDescriptor``."""

    child: Leaf
    step: int

    def modulus(self) -> int:
        return self.step

    def text(self, node_names: Sequence[str]) -> str:
        return f"Round({self.child.text(node_names)}, {self.step})"

    def _moved(self, indexes: np.ndarray) -> np.ndarray:
        moved = indexes.copy()
        moved[:, 1] -= indexes[:, 1] % self.step
        return np.asarray(moved)


@dataclass(eq=False, repr=False)
class ReplaceIndex(_MovedLeaf):
    """Child at a fixed t or x. Kaldi: ``ReplaceIndexForwardingDescriptor``."""

    child: Leaf
    variable: str
    value: int

    def modulus(self) -> int:
        return 1

    def text(self, node_names: Sequence[str]) -> str:
        return f"ReplaceIndex({self.child.text(node_names)}, {self.variable}, {self.value})"

    def _moved(self, indexes: np.ndarray) -> np.ndarray:
        moved = indexes.copy()
        moved[:, COLUMNS[self.variable]] = self.value
        return np.asarray(moved)


@dataclass(eq=False, repr=False)
class Switch(Leaf):
    """Child number t mod k of k children. Kaldi: ``SwitchingForwardingDescriptor``."""

    alternatives: tuple[Leaf, ...]

    def children(self) -> tuple[Leaf, ...]:
        return self.alternatives

    def modulus(self) -> int:
        return math.lcm(len(self.alternatives), super().modulus())

    def dim(self, nnet: NodeSizes) -> int:
        return self.alternatives[0].dim(nnet)

    def text(self, node_names: Sequence[str]) -> str:
        return f"Switch({', '.join(child.text(node_names) for child in self.alternatives)})"

    def map_sources(self, change: Callable[[Source], Leaf]) -> Leaf:
        return Switch(tuple(child.map_sources(change) for child in self.alternatives))

    def _map(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        choice = indexes[:, 1] % len(self.alternatives)
        nodes = np.empty(len(indexes), dtype=np.int32)
        mapped = np.empty_like(indexes)
        for number, child in enumerate(self.alternatives):
            chosen = np.flatnonzero(choice == number)
            nodes[chosen], mapped[chosen] = child._map(indexes[chosen])
        return nodes, mapped


@dataclass(eq=False, repr=False)
class Const(Part):
    """Constant in each of ``width`` columns of every row. Kaldi: ``ConstantSumDescriptor``."""

    value: float
    width: int

    def modulus(self) -> int:
        return 1

    def dim(self, nnet: NodeSizes) -> int:
        return self.width

    def text(self, node_names: Sequence[str]) -> str:
        return f"Const({format_real(self.value)}, {self.width})"

    def map_sources(self, change: Callable[[Source], Leaf]) -> Part:
        return self

    def constant(self) -> float:
        return self.value


@dataclass(eq=False, repr=False)
class IfDefined(Part):
    """Child where it can be computed, zero elsewhere. Kaldi: ``OptionalSumDescriptor``."""

    child: Part

    def children(self) -> tuple[Part]:
        return (self.child,)

    def dim(self, nnet: NodeSizes) -> int:
        return self.child.dim(nnet)

    def text(self, node_names: Sequence[str]) -> str:
        return f"IfDefined({self.child.text(node_names)})"

    def map_sources(self, change: Callable[[Source], Leaf]) -> Part:
        return IfDefined(self.child.map_sources(change))

    def constant(self) -> float:
        if self.child.constant() != 0.0:
            raise DescriptorError("a constant inside IfDefined() is not supported", "move Const() out of IfDefined()")
        return 0.0


@dataclass(eq=False, repr=False)
class _Pair(Part):
    """Operation on two parts of equal dimension."""

    a: Part
    b: Part

    def children(self) -> tuple[Part, Part]:
        return self.a, self.b

    def dim(self, nnet: NodeSizes) -> int:
        """Return the dimension of both parts. Raises DescriptorError if they differ."""
        dims = self.a.dim(nnet), self.b.dim(nnet)
        if dims[0] != dims[1]:
            raise DescriptorError(
                f"Neural net contains {type(self).__name__} expression with inconsistent dimension: "
                f"{dims[0]} vs. {dims[1]}", f"in {self.text(nnet.node_names)}")
        return dims[0]

    def text(self, node_names: Sequence[str]) -> str:
        return f"{type(self).__name__}({self.a.text(node_names)}, {self.b.text(node_names)})"

    def map_sources(self, change: Callable[[Source], Leaf]) -> Part:
        return type(self)(self.a.map_sources(change), self.b.map_sources(change))


class Sum(_Pair):
    """Sum of two parts, computable where both are. Kaldi: ``BinarySumDescriptor`` of kind kSumOperation."""

    def constant(self) -> float:
        return float(np.float32(self.a.constant()) + np.float32(self.b.constant()))


class Failover(_Pair):
    """First part where that can be computed, else the second. Kaldi: ``BinarySumDescriptor``, kFailoverOperation."""

    def constant(self) -> float:
        """Return the constant of both parts. Raises DescriptorError if they differ."""
        if self.a.constant() != self.b.constant():
            raise DescriptorError(f"the two sides of Failover() have different constant terms "
                                  f"({format_real(self.a.constant())} and {format_real(self.b.constant())})",
                                  "move Const() out of Failover()")
        return self.a.constant()


@dataclass(eq=False, repr=False)
class Descriptor(Value):
    """Parts whose columns are appended. Immutable, compared by value."""

    parts: tuple[Part, ...]

    def leaves(self) -> list[Leaf]:
        """Return the leaves of all parts, in written order."""
        return [leaf for part in self.parts for leaf in part.leaves()]

    def sources(self) -> Iterator[Source]:
        """Yield every mention of a node, in written order."""
        for part in self.parts:
            yield from part.sources()

    def source_nodes(self) -> list[int]:
        """Return the indexes of the mentioned nodes, each once, in increasing order. Kaldi: ``GetNodeDependencies``."""
        return sorted({source.node for source in self.sources()})

    def modulus(self) -> int:
        """Return the smallest shift of t, in frames, that does not change the meaning of the descriptor."""
        return math.lcm(*(part.modulus() for part in self.parts))

    def dim(self, nnet: NodeSizes) -> int:
        """Return the number of columns. Raises DescriptorError if the sides of a sum differ."""
        return sum(part.dim(nnet) for part in self.parts)

    def text(self, node_names: Sequence[str]) -> str:
        """Return the expression as in config lines; ``parse_descriptor`` reads it back."""
        texts = [part.text(node_names) for part in self.parts]
        return texts[0] if len(texts) == 1 else f"Append({', '.join(texts)})"

    def map_sources(self, change: Callable[[Source], Leaf]) -> Descriptor:
        """Return a copy with every :class:`Source` replaced by ``change(source)``, not normalized again."""
        return Descriptor(tuple(part.map_sources(change) for part in self.parts))

    def renumbered(self, new_index: Sequence[int]) -> Descriptor:
        """Return a copy that mentions node ``new_index[i]`` in place of each node i."""
        return self.map_sources(lambda source: Source(int(new_index[source.node]), source.scale))
