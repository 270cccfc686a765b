"""Epochs: the order of computation that follows from the structure of the network alone.

Nodes of one recurrence share an epoch.
Kaldi: ``ComputeNnetComputationEpochs`` (nnet-graph.h).
"""
from __future__ import annotations

from functools import lru_cache

from nnet3py.network.recurrence import Arcs, strong_components


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
    component_of = strong_components(users)
    arcs: list[set[int]] = [set() for _ in range(max(component_of, default=-1) + 1)]
    for node, followers in enumerate(users):
        arcs[component_of[node]].update(component_of[f] for f in followers)
    order = _finishing_order([sorted(followers - {c}) for c, followers in enumerate(arcs)])
    epoch_of = {c: len(order) - 1 - i for i, c in enumerate(order)}
    return [epoch_of[c] for c in component_of]


def epoch_nodes(sources: Arcs) -> list[list[int]]:
    """The nodes of each epoch; only recurrences make epochs of several nodes."""
    epochs = _epochs_of(tuple(map(tuple, sources)))
    nodes: list[list[int]] = [[] for _ in range(max(epochs, default=-1) + 1)]
    for node, epoch in enumerate(epochs):
        nodes[epoch].append(node)
    return nodes


@lru_cache(maxsize=16)      # every request for a network asks twice
def _epochs_of(sources: tuple[tuple[int, ...], ...]) -> list[int]:
    return node_epochs(sources)


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
