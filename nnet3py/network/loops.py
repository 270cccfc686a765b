"""Cycles: nodes whose value at one time would depend on itself, so that no order of computation exists.

Kaldi reads such a network and fails when it compiles one; here an edit that would make one is refused.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3py.components.base import Properties
from nnet3py.index import NO_TIME
from nnet3py.network.consistency import node_dependencies
from nnet3py.network.nodes import ComponentNode, DescriptorNode
from nnet3py.network.structure import NetworkStructure

Arcs = Sequence[Sequence[int]]

LARGEST_GRAPH = 20000    # nodes of a recurrence times its period; larger ones are not checked


def is_recurrent(nnet: NetworkStructure) -> bool:
    """True if the value of some node depends on that node at another time. Kaldi: NnetIsRecurrent."""
    component_of = strong_components([node_dependencies(nnet, i) for i in range(len(nnet.nodes))])
    return len(set(component_of)) < len(component_of)


def find_loop(nnet: NetworkStructure) -> list[str]:
    """The names of nodes that depend on each other within one time step, or [] if every recurrence goes one way.

    A recurrence through ``Offset(node, -1)`` is not such a loop; one that goes back in time on one path and forward on
    another is, since some walk along it returns to the time it left.
    """
    component_of = strong_components([node_dependencies(nnet, i) for i in range(len(nnet.nodes))])
    members: dict[int, list[int]] = {}
    for node, component in enumerate(component_of):
        members.setdefault(component, []).append(node)
    for nodes in members.values():
        if len(nodes) > 1 and _has_loop(nnet, nodes):    # a node is its own source only through its input node
            return [nnet.nodes[i].name for i in nodes if not nnet.is_component_input(i)]
    return []


def _has_loop(nnet: NetworkStructure, nodes: list[int]) -> bool:
    period = nnet.modulus()
    if period * len(nodes) > LARGEST_GRAPH:
        return False
    place = {node: i * period for i, node in enumerate(nodes)}
    edges = [(place[node] + t, place[source] + (t + offset) % period, offset)
             for node in nodes for source, t, offset in node_needs(nnet, node, period) if source in place]
    count = len(nodes) * period
    arcs: list[list[int]] = [[] for _ in range(count)]
    for start, end, _ in edges:
        arcs[start].append(end)
    component_of = np.array(strong_components(arcs))
    starts, ends, offsets = np.array(edges, dtype=np.int64).T
    inside = component_of[starts] == component_of[ends]
    for component in np.unique(component_of[starts[inside]]):
        chosen = inside & (component_of[starts] == component)
        graph = starts[chosen], ends[chosen], offsets[chosen]
        if _has_cycle(count, *graph) and _has_cycle(count, graph[0], graph[1], -graph[2]):
            return True
    return False


def _has_cycle(count: int, starts: np.ndarray, ends: np.ndarray, offsets: np.ndarray) -> bool:
    """True if along some cycle the offsets sum to 0 or more: the longest walks never end (Bellman and Ford)."""
    weights = offsets * (count + 1) + 1      # the sum of a simple cycle becomes positive if it was 0, and else keeps
    longest = np.zeros(count, dtype=np.int64)    # its sign
    for _ in range(count + 1):
        longer = longest.copy()
        np.maximum.at(longer, ends, longest[starts] + weights)
        if np.array_equal(longer, longest):
            return False
        longest = longer
    return True


def node_needs(nnet: NetworkStructure, i: int, period: int, any_x: bool = False) -> list[tuple[int, int, int]]:
    """(source, t, offset) for each t of a period: node ``i`` at t uses ``source`` at t + offset, if available.

    Node ``i`` is at x = 0, and without ``any_x`` so are the sources.
    """
    times = np.zeros((period, 3), dtype=np.int32)
    times[:, 1] = np.arange(period)
    node = nnet.nodes[i]
    if isinstance(node, ComponentNode) and not nnet.component_of(i).has(Properties.SIMPLE):
        inputs = nnet.component_of(i).input_indexes(times)
        return [(i - 1, t, offset) for t in range(period) for offset in _offsets(t, inputs[t], any_x)]
    if not isinstance(node, DescriptorNode):
        return [(source, t, 0) for source in node_dependencies(nnet, i) for t in range(period)]
    needs = []
    for part in node.descriptor.parts:
        for leaf in part.leaves():
            sources, inputs = leaf.map(times)
            needs += [(source, t, offset) for t, source in enumerate(sources.tolist())
                      for offset in _offsets(t, inputs[t:t + 1], any_x)]
    return needs


def _offsets(t: int, indexes: np.ndarray, any_x: bool) -> list[int]:
    """How far from t each index is; indexes with another x are not part of a cycle."""
    return [offset - t for _, offset, x in indexes.tolist() if (any_x or x == 0) and offset != NO_TIME]


def strong_components(arcs: Arcs) -> list[int]:
    """The strongly connected component of each vertex, numbered as Tarjan's algorithm completes them."""
    count = len(arcs)
    entered, low, component = [-1] * count, [0] * count, [-1] * count
    stack: list[int] = []
    clock = num_components = 0
    for root in range(count):
        if entered[root] >= 0:
            continue
        path = [(root, iter(arcs[root]))]
        entered[root] = low[root] = clock
        clock += 1
        stack.append(root)
        while path:
            vertex, followers = path[-1]
            for follower in followers:
                if entered[follower] < 0:
                    entered[follower] = low[follower] = clock
                    clock += 1
                    stack.append(follower)
                    path.append((follower, iter(arcs[follower])))
                    break
                if component[follower] < 0:
                    low[vertex] = min(low[vertex], entered[follower])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[vertex])
                if low[vertex] == entered[vertex]:
                    member = -1
                    while member != vertex:
                        member = stack.pop()
                        component[member] = num_components
                    num_components += 1
    return component
