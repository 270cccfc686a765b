"""Steps: in what order, and in which groups of rows, the cindexes of a graph are computed.

The graph is cut into epochs (by the structure of the network), those of recurrences into phases, those into one group
per node. A step is such a group with its rows in their final order; every step becomes a matrix.

Kaldi: ``ComputeComputationPhases``, ``ComputationStepsComputer`` (nnet-computation-graph.h).
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.epochs import epoch_nodes
from nnet3py.compiler.graph import Graph, ragged
from nnet3py.compiler.node_rules import ComponentRule, NodeRule
from nnet3py.compiler.request import ComputationRequest
from nnet3py.compiler.segments import SegmentedGraph
from nnet3py.components.base import Component, Properties
from nnet3py.errors import CompileError
from nnet3py.index import distinct
from nnet3py.network.nnet import Nnet


class Step(NamedTuple):
    """Rows of one node that are computed together.

    Attributes
    ----------
    node : the node
    indexes : int32 (rows, 3), of all sequences, in the order of the matrix; may be empty for a component's input
    source : of a dim-range node: the step that it is a window of; else -1
    """

    node: int
    indexes: np.ndarray
    source: int = -1


class Phase(NamedTuple):
    """What one node has in a phase: the numbers of its cindexes and their indexes of all sequences, both ascending."""

    node: int
    numbers: np.ndarray
    indexes: np.ndarray


def phases(graph: Graph, rules: list[NodeRule], chosen: np.ndarray | None = None) -> Iterator[Phase]:
    """The phases in order, and in each its nodes in order; without the inputs of components.

    Parameters
    ----------
    chosen : bool (cindexes,), those to put in phases (the others have been computed already); all if None

    Raises
    ------
    CompileError : a recurrence that goes both forward and backward in time
    """
    mine = True if chosen is None else chosen
    given = _by_node(graph, graph.is_input & mine)
    computed = _by_node(graph, ~graph.is_input & mine)
    yield from (_phase(graph, node, numbers) for node, numbers in enumerate(given) if len(numbers))
    hidden = {rule.source for rule in rules if isinstance(rule, ComponentRule)}
    for epoch in epoch_nodes([rule.sources() for rule in rules]):
        nodes = [node for node in epoch if len(computed[node])]
        if len(epoch) > 1:
            yield from _recurrent_phases(graph, [(node, computed[node]) for node in nodes], hidden)
        else:
            yield from (_phase(graph, node, computed[node]) for node in nodes if node not in hidden)


def _by_node(graph: Graph, chosen: np.ndarray) -> list[np.ndarray]:
    """For each node the numbers of its cindexes that are ``chosen``."""
    numbers = np.flatnonzero(chosen)
    bounds = np.searchsorted(numbers, graph.offsets).tolist()
    return [numbers[begin:end] for begin, end in zip(bounds[:-1], bounds[1:], strict=True)]


def _phase(graph: Graph, node: int, numbers: np.ndarray) -> Phase:
    return Phase(node, numbers, graph.sequences.expand(graph.indexes[numbers]))


def _recurrent_phases(graph: Graph, groups: list[tuple[int, np.ndarray]], hidden: set[int]) -> Iterator[Phase]:
    """Layers of the cindexes of one recurrence: first those that need no others, then what that makes possible."""
    if not groups:
        return
    layer = _layers(graph, np.concatenate([numbers for _, numbers in groups]))
    found: list[tuple[int, Phase]] = []
    at = 0
    for node, numbers in groups:
        layers = layer[at:at + len(numbers)]
        at += len(numbers)
        if node in hidden:
            continue
        order = np.argsort(layers, kind="stable")
        layers, numbers = layers[order], numbers[order]
        bounds = [0, *(np.flatnonzero(np.diff(layers)) + 1).tolist(), len(layers)]
        pieces = graph.sequences.expand_each(graph.indexes[numbers], bounds)
        found += [(int(layers[begin]), Phase(node, numbers[begin:end], indexes))
                  for begin, end, indexes in zip(bounds[:-1], bounds[1:], pieces, strict=True)]
    found.sort(key=lambda pair: pair[0])      # the order of the nodes stays
    yield from (phase for _, phase in found)


def _layers(graph: Graph, members: np.ndarray) -> np.ndarray:
    """For each member the length of the longest chain of dependencies among the members that leads to it."""
    place = np.full(len(graph.indexes), -1)
    place[members] = np.arange(len(members))
    starts = graph.dependency_starts
    lengths = starts[members + 1] - starts[members]
    users = np.repeat(np.arange(len(members)), lengths)
    used = place[graph.dependencies[ragged(starts[members], lengths)]]
    users, used = users[used >= 0], used[used >= 0]
    waiting = np.bincount(users, minlength=len(members)).tolist()
    first_user = np.searchsorted(np.sort(used), np.arange(len(members) + 1)).tolist()
    users_of = users[np.argsort(used, kind="stable")].tolist()
    # A layer is a cindex or two, one for each shape of sequences: lists are faster than arrays of this size.
    layer = [-1] * len(members)
    ready, number = [i for i, count in enumerate(waiting) if not count], 0
    while ready:
        freed = []
        for i in ready:
            layer[i] = number
            for user in users_of[first_user[i]:first_user[i + 1]]:
                waiting[user] -= 1
                if not waiting[user]:
                    freed.append(user)
        ready, number = freed, number + 1
    if -1 in layer:
        raise CompileError("the recurrence in the network cannot be computed: some of its rows depend on each other",
                           "x(t) may depend on x(t-1) or on x(t+1), not on both")
    return np.array(layer)


def compute_steps(nnet: Nnet, request: ComputationRequest, graph: Graph, rules: list[NodeRule]) -> list[Step]:
    """The steps of ``graph`` in order. A component's step directly follows the step of its input.

    Raises CompileError for a recurrence that goes both forward and backward in time.
    """
    organizer = _StepOrganizer(nnet, graph)
    organizer.begin(request)
    for phase in phases(graph, rules):
        organizer.add(phase)
    return organizer.steps


def compute_segmented_steps(nnet: Nnet, requests: Sequence[ComputationRequest], graph: SegmentedGraph,
                            rules: list[NodeRule]) -> tuple[list[Step], list[int]]:
    """The steps for several requests, those of each after those before it, and the number of steps up to its end."""
    organizer, ends = _StepOrganizer(nnet, graph), []
    for number, request in enumerate(requests):
        organizer.begin(request)
        for phase in phases(graph, rules, graph.segments == number):
            organizer.add(phase)
        ends.append(len(organizer.steps))
    return organizer.steps, ends


class _StepOrganizer:
    def __init__(self, nnet: Nnet, graph: Graph) -> None:
        self.graph = graph
        self.steps: list[Step] = []
        self._names = nnet.node_names
        self._requested: dict[int, np.ndarray] = {}          # rows of the request's inputs and outputs
        self._step_of = np.full(len(graph.indexes), -1)      # of each cindex
        self._windows: set[tuple[int, int]] = set()          # (dim-range node, source step) that exist already
        nodes = range(len(nnet.nodes))
        self._dim_ranges = {node for node in nodes if nnet.is_dim_range(node)}
        components = {node: nnet.component_of(node) for node in nodes if nnet.is_component(node)}
        self._simple = {node for node, component in components.items() if component.has(Properties.SIMPLE)}
        self._others: dict[int, Component] = {
            node: component for node, component in components.items() if node not in self._simple}

    def begin(self, request: ComputationRequest) -> None:
        """What is added from now on is for this request."""
        self._requested = {self._names.index(io.name): io.indexes for io in (*request.inputs, *request.outputs)}

    def add(self, phase: Phase) -> None:
        """Add the steps for what a node has in a phase."""
        node, numbers, indexes = phase
        if node in self._requested:
            self._append(Step(node, self._requested[node]), numbers)
        elif node in self._simple:
            self.steps.append(Step(node - 1, indexes))
            self._append(Step(node, indexes), numbers)
        elif node in self._others:
            self._add_component(phase)
        elif node in self._dim_ranges:
            self._add_dim_range(node, numbers)

    def _append(self, step: Step, numbers: np.ndarray) -> None:
        self._step_of[numbers] = len(self.steps)
        self.steps.append(step)

    def _add_component(self, phase: Phase) -> None:
        component, outputs = self._others[phase.node], phase.indexes
        used = distinct(self.graph.dependencies_of(phase.numbers))
        inputs = self.graph.sequences.expand(self.graph.indexes[used])
        if component.has(Properties.REORDERS_INDEXES):
            inputs, outputs = component.reorder_indexes(inputs, outputs)
        self.steps.append(Step(phase.node - 1, inputs))
        self._append(Step(phase.node, outputs), phase.numbers)

    def _add_dim_range(self, node: int, numbers: np.ndarray) -> None:
        sources = self.graph.dependencies[self.graph.dependency_starts[numbers]]    # the same index at the source node
        for source in sorted(set(self._step_of[sources].tolist())):
            if (node, source) not in self._windows:
                self._windows.add((node, source))
                self.steps.append(Step(node, self.steps[source].indexes, source))
