"""Epochs: the order of computation that the structure of the network alone gives.

Nodes of one recurrence share an epoch.
Kaldi: ``ComputeNnetComputationEpochs`` (nnet-graph.h).
"""
from __future__ import annotations

from collections.abc import Sequence

Arcs = Sequence[Sequence[int]]


def node_epochs(sources: Arcs) -> list[int]:
    """The epoch of each node, from 0; a node's sources are in the same or an earlier one.

    Parameters
    ----------
    sources : for each node the nodes that it uses, ascending
    """
    users: list[list[int]] = [[] for _ in sources]
    for node, used in enumerate(sources):
        for source in used:
            users[source].append(node)
    component_of = _strong_components(users)
    arcs: list[set[int]] = [set() for _ in range(max(component_of, default=-1) + 1)]
    for node, followers in enumerate(users):
        arcs[component_of[node]].update(component_of[f] for f in followers)
    order = _finishing_order([sorted(followers - {c}) for c, followers in enumerate(arcs)])
    epoch_of = {c: len(order) - 1 - i for i, c in enumerate(order)}
    return [epoch_of[c] for c in component_of]


def _strong_components(arcs: Arcs) -> list[int]:
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


def _finishing_order(arcs: Arcs) -> list[int]:
    """Vertices in the order in which a depth-first search from 0, 1, 2, … leaves them."""
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
