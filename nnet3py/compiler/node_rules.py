"""Rules of nodes: the cindexes that a row may depend on, whether it can be computed, and which of them it then uses.

Rules work on arrays. A row's possible dependencies stand in a fixed number of columns; t = NO_TIME means none.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.components.base import Component, Properties
from nnet3py.network.descriptor import Const, Descriptor, Failover, IfDefined, Leaf, Offset, Part, Source, Sum
from nnet3py.network.nnet import Nnet
from nnet3py.network.recurrence import Arcs, strong_components
from nnet3py.network.structure import ComponentNode, DimRangeNode, InputNode

Mask = np.ndarray   # bool


class NodeRule:
    """The rule of an input node, which depends on nothing and is never computed; base of all rules.

    Attributes
    ----------
    is_pointwise : whether a row depends on the same row of the only source, and on nothing else
    uses_all : whether a row with all its possible dependencies available is computable and uses all of them
    shifts : if all dependencies of a row are at the same n and x and at fixed distances in t: for each column the
        source and the distance; else None
    """

    is_pointwise = False
    uses_all = False
    shifts: list[tuple[int, int]] | None = None

    def sources(self) -> list[int]:
        """Return the nodes that this node may depend on, ascending."""
        return []

    def dependencies(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return source nodes int32 (rows, columns) and indexes int32 (rows, columns, 3) for indexes (rows, 3)."""
        return np.zeros((len(indexes), 0), np.int32), np.zeros((len(indexes), 0, 3), np.int32)

    def computable(self, indexes: np.ndarray, available: Mask) -> tuple[Mask, Mask]:
        """Return which rows can be computed, bool (rows,), and which of the ``available`` columns each then uses.

        ``available`` is bool (rows, columns).
        """
        return np.zeros(len(indexes), bool), available


class DimRangeRule(NodeRule):
    """The rule of a dim-range node: a row depends on the same row of the source."""

    is_pointwise = uses_all = True

    def __init__(self, source: int) -> None:
        self.source = source

    def sources(self) -> list[int]:
        return [self.source]

    def computable(self, indexes: np.ndarray, available: Mask) -> tuple[Mask, Mask]:
        return available[:, 0], available


class ComponentRule(NodeRule):
    """The rule of a component node: dependencies on its input descriptor, chosen by the component."""

    def __init__(self, source: int, component: Component) -> None:
        self.source, self.component = source, component
        self.is_simple = component.has(Properties.SIMPLE)
        kind = type(component)
        self.uses_all = kind.is_computable is Component.is_computable
        self.is_pointwise = kind.input_indexes is Component.input_indexes and self.uses_all
        shifts = component.input_shifts()
        if shifts:
            self.shifts = [(source, t) for t in shifts]

    def sources(self) -> list[int]:
        return [self.source]

    def dependencies(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wanted = self.component.input_indexes(indexes)
        return np.full(wanted.shape[:2], self.source, np.int32), wanted

    def computable(self, indexes: np.ndarray, available: Mask) -> tuple[Mask, Mask]:
        return self.component.is_computable(indexes, available)


class DescriptorRule(NodeRule):
    """The rule of a descriptor node: a column for each leaf of each part, in order."""

    def __init__(self, descriptor: Descriptor) -> None:
        self.parts = list(descriptor.parts)
        self.leaves = [list(part.leaves()) for part in self.parts]
        ends = list(accumulate(len(leaves) for leaves in self.leaves))
        self.columns = [slice(end - len(leaves), end) for end, leaves in zip(ends, self.leaves, strict=True)]
        self._sources = descriptor.source_nodes()
        self.is_pointwise = len(self.parts) == 1 and isinstance(self.parts[0], Source)
        self.uses_all = not any(isinstance(part, Failover) for part in _subtrees(self.parts))
        self.leaf_shifts = [list(map(leaf_shift, leaves)) for leaves in self.leaves]      # for each part
        shifts = [shift for shifts in self.leaf_shifts for shift in shifts]
        if shifts and None not in shifts:
            self.shifts = [shift for shift in shifts if shift is not None]

    def sources(self) -> list[int]:
        return self._sources

    def dependencies(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        maps = [leaf.map(indexes) for leaves in self.leaves for leaf in leaves]
        if not maps:
            return super().dependencies(indexes)
        return np.stack([nodes for nodes, _ in maps], axis=1), np.stack([mapped for _, mapped in maps], axis=1)

    def computable(self, indexes: np.ndarray, available: Mask) -> tuple[Mask, Mask]:
        """Evaluate all parts, each of which must be computable; see :meth:`NodeRule.computable`."""
        computable = np.ones(len(indexes), bool)
        used = np.zeros_like(available)
        for part, columns in zip(self.parts, self.columns, strict=True):
            part_computable, used[:, columns] = evaluate_part(part, available[:, columns])
            computable &= part_computable
        return computable, used


def evaluate_part(part: Part, available: Mask) -> tuple[Mask, Mask]:
    """Return which rows of a descriptor's part are computable, and which leaves, bool (rows, leaves), each uses."""
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


def leaf_shift(leaf: Leaf) -> tuple[int, int] | None:
    """Return source and distance in t of a leaf that only shifts t; None for other leaves."""
    t = 0
    while isinstance(leaf, Offset) and not leaf.x:
        t += leaf.t
        leaf = leaf.child
    return (leaf.node, t) if isinstance(leaf, Source) else None


def _subtrees(parts: Iterable[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        yield from _subtrees(part.children())


class NodeRules(list[NodeRule]):
    """The rules of all nodes of a network, with data derived from them. Must not be changed."""

    @cached_property
    def sources(self) -> list[list[int]]:
        """The sources of each node."""
        return [rule.sources() for rule in self]

    @cached_property
    def epochs(self) -> list[list[int]]:
        """The nodes of each epoch, in order of computation (see :func:`node_epochs`)."""
        return epoch_nodes(self.sources)

    @cached_property
    def hidden(self) -> frozenset[int]:
        """The nodes of component inputs, which are computed in the phase of their component."""
        return frozenset(rule.source for rule in self if isinstance(rule, ComponentRule))

    def chains(self, io_nodes: Collection[int]) -> Chains:
        """Return the chains of nodes that need the same rows; ``io_nodes`` are the request's inputs and outputs."""
        key = frozenset(io_nodes)
        if key not in self._chains:
            self._chains[key] = Chains(self, key)
        return self._chains[key]

    @cached_property
    def node_info_cache(self) -> dict[int, Any]:
        """The facts about each node that generate.py needs, filled there."""
        return {}

    @cached_property
    def _chains(self) -> dict[frozenset[int], Chains]:
        return {}


class Chains:
    """Chains of nodes that need exactly the same rows; every node is in one chain.

    Each node of a chain, except the first, has the node before it as its only source, with the same rows, and is the
    only user of that node.

    Attributes
    ----------
    nodes : the nodes of each chain, the first one in front
    number : first node of a chain -> position of the chain in ``nodes``
    last : for each node the last node of its chain, the only one that other nodes use
    first : for each node the first node of its chain, the only one that depends on other nodes
    epochs : for each epoch, the last nodes of its chains
    rings : the last nodes of chains that depend on themselves
    """

    def __init__(self, rules: NodeRules, io_nodes: Collection[int]) -> None:
        users: list[list[int]] = [[] for _ in rules]
        for node, used in enumerate(rules.sources):
            for source in used:
                users[source].append(node)
        joins = [len(used) == 1 and rules[used[0]].is_pointwise and node not in io_nodes and bool(rules.sources[node])
                 and used[0] != node for node, used in enumerate(users)]
        self.last, self.first = list(range(len(rules))), list(range(len(rules)))
        self.nodes: list[list[int]] = []
        for node, sources in enumerate(rules.sources):
            if rules[node].is_pointwise and joins[sources[0]]:
                continue
            chain = [node]
            while joins[chain[-1]]:
                chain.append(users[chain[-1]][0])
            self.nodes.append(chain)
            for member in chain:
                self.first[member], self.last[member] = node, chain[-1]
        # A ring of nodes that only copy each other has no first node: each of its nodes becomes a chain.
        placed = {node for chain in self.nodes for node in chain}
        self.nodes += [[node] for node in range(len(rules)) if node not in placed]
        self.number = {chain[0]: number for number, chain in enumerate(self.nodes)}
        sources_of: list[list[int]] = [[] for _ in rules]
        for chain in self.nodes:
            sources_of[chain[-1]] = sorted({self.last[source] for source in rules.sources[chain[0]]})
        epochs = [[node for node in group if self.last[node] == node] for group in epoch_nodes(sources_of)]
        self.epochs = [group for group in epochs if group]
        self.rings = frozenset(node for node, sources in enumerate(sources_of) if node in sources)


_rules_of: WeakKeyDictionary[Nnet, tuple[tuple[object, ...], NodeRules]] = WeakKeyDictionary()


def node_rules(nnet: Nnet) -> NodeRules:
    """Return the rule of each node: the same object as long as the structure of the network does not change."""
    state = nnet.version, list(nnet.nodes), list(nnet.components)
    state_before, rules = _rules_of.get(nnet, ((), NodeRules()))
    if state_before != state:
        rules = NodeRules(_rule(nnet, i) for i in range(len(nnet.nodes)))
        _rules_of[nnet] = state, rules
    return rules


def _rule(nnet: Nnet, i: int) -> NodeRule:
    node = nnet.nodes[i]
    if isinstance(node, InputNode):
        return NodeRule()
    if isinstance(node, DimRangeNode):
        return DimRangeRule(node.source)
    if isinstance(node, ComponentNode):
        return ComponentRule(i - 1, nnet.components[node.component_index])
    return DescriptorRule(node.descriptor)


# -- epochs ------------------------------------------------------------------------------------------------------------


def node_epochs(sources: Arcs) -> list[int]:
    """Return the epoch of each node, from 0: the order of computation by the structure of the network alone.

    A node's sources are in the same epoch or an earlier one; nodes of one recurrence share an epoch. Kaldi:
    ``ComputeNnetComputationEpochs`` (nnet-graph.h).

    Parameters
    ----------
    sources : for each node the nodes that it uses, ascending
    """
    users: list[list[int]] = [[] for _ in sources]
    for node, used in enumerate(sources):
        for source in used:
            users[source].append(node)
    component_of = strong_components(users)
    arcs: list[set[int]] = [set() for _ in range(max(component_of, default=-1) + 1)]
    for node, followers in enumerate(users):
        arcs[component_of[node]].update(component_of[f] for f in followers)
    order = _finishing_order([sorted(followers - {c}) for c, followers in enumerate(arcs)])
    epoch_of = {c: len(order) - 1 - i for i, c in enumerate(order)}
    return [epoch_of[c] for c in component_of]


def epoch_nodes(sources: Arcs) -> list[list[int]]:
    """Return the nodes of each epoch; only recurrences make epochs of several nodes."""
    epochs = _epochs_of(tuple(map(tuple, sources)))
    nodes: list[list[int]] = [[] for _ in range(max(epochs, default=-1) + 1)]
    for node, epoch in enumerate(epochs):
        nodes[epoch].append(node)
    return nodes


@lru_cache(maxsize=16)      # asked twice for every request
def _epochs_of(sources: tuple[tuple[int, ...], ...]) -> list[int]:
    return node_epochs(sources)


def _finishing_order(arcs: Arcs) -> list[int]:
    """Return the vertices in the order in which a depth-first search from 0, 1, 2, … leaves them."""
    seen = [False] * len(arcs)
    order: list[int] = []
    for root in range(len(arcs)):
        if seen[root]:
            continue
        seen[root] = True
        path = [(root, iter(arcs[root]))]
        while path:
            vertex, followers = path[-1]
            for follower in followers:
                if not seen[follower]:
                    seen[follower] = True
                    path.append((follower, iter(arcs[follower])))
                    break
            else:
                path.pop()
                order.append(vertex)
    return order
