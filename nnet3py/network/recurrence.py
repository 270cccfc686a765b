"""Dependencies in time: recurrences, cycles within one time step, and the effect of cutting utterances on outputs."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.index import NO_TIME
from nnet3py.network.descriptor import Failover, IfDefined, Part, ReplaceIndex
from nnet3py.network.structure import ComponentNode, DescriptorNode, NetworkStructure, node_dependencies

Arcs = Sequence[Sequence[int]]

LARGEST_GRAPH = 20000    # nodes times period; recurrences of a larger product are not checked for cycles


def is_recurrent(nnet: NetworkStructure) -> bool:
    """Return whether some node depends on itself at another time. Kaldi: NnetIsRecurrent."""
    component_of = strong_components([node_dependencies(nnet, i) for i in range(len(nnet.nodes))])
    return len(set(component_of)) < len(component_of)


def find_loop(nnet: NetworkStructure) -> list[str]:
    """Return the names of nodes that depend on each other within one time step; [] if there are none.

    Such a network cannot be computed. A recurrence through ``Offset(node, -1)`` is no such loop; a recurrence that goes
    back in time on one path and forward on another is, since some walk along it returns to the time where it began.
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
    """Return whether the offsets along some cycle sum to 0 or more, by the Bellman-Ford algorithm for longest paths."""
    # With these weights the sum of a simple cycle is positive where that of its offsets is 0, and else has its sign.
    weights = offsets * (count + 1) + 1
    longest = np.zeros(count, dtype=np.int64)
    for _ in range(count + 1):
        longer = longest.copy()
        np.maximum.at(longer, ends, longest[starts] + weights)
        if np.array_equal(longer, longest):
            return False
        longest = longer
    return True


def node_needs(nnet: NetworkStructure, i: int, period: int, any_x: bool = False) -> list[tuple[int, int, int]]:
    """Return triples (source, t, offset) for each t of a period: node ``i`` at t reads ``source`` at t + offset.

    Optional inputs are included. Node ``i`` is taken at x = 0; sources at x = 0, or with ``any_x`` at any x.
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
    """Return the distance in frames of each index from t, without padding; with ``any_x`` for any x, else for x = 0."""
    return [offset - t for _, offset, x in indexes.tolist() if (any_x or x == 0) and offset != NO_TIME]


def strong_components(arcs: Arcs) -> list[int]:
    """Return the number of the strongly connected component of each vertex, in the order of Tarjan's algorithm."""
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


_PROBE = np.zeros((1, 3), dtype=np.int32)
_NEVER = -2**40      # less than any offset


def is_local(nnet: NetworkStructure) -> bool:
    """Return whether each output row depends only on frames at fixed distances, however utterances are cut.

    Such a network's utterances may be cut anywhere (at multiples of the network's modulus). Recurrent networks are not
    local, nor are those with optional inputs (``IfDefined``, statistics pooling) or those that read a fixed t of a node
    other than ``ivector``.
    """
    if is_recurrent(nnet):
        return False
    if any(_is_optional(part) or _has_fixed_time(part, nnet) for part in _descriptor_parts(nnet)):
        return False
    return all(_needs_all_inputs(component) for component in nnet.components)


def lookahead_is_at_most(nnet: NetworkStructure, num_frames: int) -> bool:
    """Return whether no output row uses input more than ``num_frames`` frames later, even if it is available.

    The outputs of such a network do not change when more frames follow, as in a recurrence that goes forward in time.
    ``nnet`` must have one input besides ``ivector``, named ``input``.
    """
    period = nnet.modulus()
    count = len(nnet.nodes) * period
    if count > LARGEST_GRAPH or any(_has_fixed_time(part, nnet) for part in _descriptor_parts(nnet)):
        return False
    edges = [(i * period + t, source * period + (t + offset) % period, offset)
             for i in range(len(nnet.nodes)) for source, t, offset in node_needs(nnet, i, period, any_x=True)]
    starts, ends, offsets = np.array(edges, dtype=np.int64).reshape(-1, 3).T
    furthest = np.full(count, _NEVER, dtype=np.int64)
    output = nnet.node_index("output") * period
    furthest[output:output + period] = 0
    for _ in range(count + 1):            # longest walks by Bellman and Ford's algorithm
        further = furthest.copy()
        np.maximum.at(further, ends, np.where(furthest[starts] == _NEVER, _NEVER, furthest[starts] + offsets))
        if np.array_equal(further, furthest):
            source = nnet.node_index("input") * period
            return int(furthest[source:source + period].max()) <= num_frames
        furthest = further
    return False                          # a recurrence that goes backward in time


def _descriptor_parts(nnet: NetworkStructure) -> list[Part]:
    return [part for node in nnet.nodes if isinstance(node, DescriptorNode) for part in node.descriptor.parts]


def _has_fixed_time(part: Part, nnet: NetworkStructure) -> bool:
    """Return whether the part reads a node other than ``ivector`` at a fixed t."""
    if isinstance(part, ReplaceIndex) and part.variable == "t":
        return any(nnet.node_names[source.node] != "ivector" for source in part.sources())
    return any(_has_fixed_time(child, nnet) for child in part.children())


def _is_optional(part: Part) -> bool:
    return isinstance(part, IfDefined | Failover) or any(map(_is_optional, part.children()))


def _needs_all_inputs(component: Component) -> bool:
    """Return whether a component's output rows can be computed only with all input rows that they may use."""
    num_choices = component.input_indexes(_PROBE).shape[1]
    available = ~np.eye(num_choices, dtype=bool)
    computable = [component.is_computable(_PROBE, row[None, :])[0][0] for row in available]
    return not any(computable)
