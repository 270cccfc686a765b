"""Steps: in what order, and in which groups of rows, the cindexes of a graph are computed.

The graph is cut into epochs (by the structure of the network), those of recurrences into phases, those into one group
per node. A step is such a group with its rows in their final order; every step becomes a matrix.

Kaldi: ``ComputeComputationPhases``, ``ComputationStepsComputer`` (nnet-computation-graph.h).
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nnet3py.compiler.epochs import node_epochs
from nnet3py.compiler.graph import Graph, ragged
from nnet3py.compiler.node_rules import NodeRule
from nnet3py.compiler.request import ComputationRequest
from nnet3py.components.base import Properties
from nnet3py.errors import CompileError
from nnet3py.network.nnet import Nnet


@dataclass(frozen=True)
class Step:
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


def phases(graph: Graph, rules: list[NodeRule]) -> Iterator[list[tuple[int, np.ndarray]]]:
    """The phases in order; each lists (node, numbers of its cindexes, ascending), by node.

    Raises
    ------
    CompileError : a recurrence that goes both forward and backward in time
    """
    inputs = [(node, np.arange(len(graph.indexes))[graph.rows(node)][graph.is_input[graph.rows(node)]])
              for node in range(len(rules))]
    yield [(node, numbers) for node, numbers in inputs if len(numbers)]
    epochs = node_epochs([rule.sources() for rule in rules])
    nodes_of: dict[int, list[int]] = {}
    for node, epoch in enumerate(epochs):
        nodes_of.setdefault(epoch, []).append(node)
    for epoch in sorted(nodes_of):
        groups = []
        for node in nodes_of[epoch]:
            rows = graph.rows(node)
            numbers = np.arange(rows.start, rows.stop)[~graph.is_input[rows]]
            if len(numbers):
                groups.append((node, numbers))
        if len(nodes_of[epoch]) > 1:
            yield from _recurrent_phases(graph, groups)
        elif groups:
            yield groups


def _recurrent_phases(graph: Graph, groups: list[tuple[int, np.ndarray]]) -> Iterator[list[tuple[int, np.ndarray]]]:
    """Layers of the cindexes of one recurrence: first those that need no others, then what that makes possible."""
    if not groups:
        return
    members = np.concatenate([numbers for _, numbers in groups])         # ascending, so by node, then index
    node_of = np.repeat([node for node, _ in groups], [len(numbers) for _, numbers in groups])
    layer = _layers(graph, members)
    order = np.argsort(layer, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(layer[order])) + 1):
        nodes = node_of[rows]
        bounds = np.flatnonzero(np.diff(nodes)) + 1
        firsts = np.concatenate(([0], bounds))
        yield list(zip(nodes[firsts].tolist(), np.split(members[rows], bounds), strict=True))


def _layers(graph: Graph, members: np.ndarray) -> np.ndarray:
    """For each member the length of the longest chain of dependencies among the members that leads to it."""
    place = np.full(len(graph.indexes), -1)
    place[members] = np.arange(len(members))
    starts = graph.dependency_starts
    lengths = starts[members + 1] - starts[members]
    users = np.repeat(np.arange(len(members)), lengths)
    used = place[graph.dependencies[ragged(starts[members], lengths)]]
    users, used = users[used >= 0], used[used >= 0]
    waiting = np.bincount(users, minlength=len(members))
    by_used = np.argsort(used, kind="stable")
    users = users[by_used]
    num_users = np.bincount(used, minlength=len(members))
    first_user = np.cumsum(num_users) - num_users
    layer = np.full(len(members), -1)
    ready, number = np.flatnonzero(waiting == 0), 0
    while len(ready):
        layer[ready] = number
        freed = users[ragged(first_user[ready], num_users[ready])]
        np.subtract.at(waiting, freed, 1)
        freed = freed[waiting[freed] == 0]
        freed.sort()
        ready = freed[np.concatenate(([True], freed[1:] != freed[:-1]))] if len(freed) else freed
        number += 1
    if (layer < 0).any():
        raise CompileError("the recurrence in the network cannot be computed: some of its rows depend on each other",
                           "x(t) may depend on x(t-1) or on x(t+1), not on both")
    return layer


def compute_steps(nnet: Nnet, request: ComputationRequest, graph: Graph, rules: list[NodeRule]) -> list[Step]:
    """The steps of ``graph`` in order. A component's step directly follows the step of its input.

    Raises CompileError for a recurrence that goes both forward and backward in time.
    """
    organizer = _StepOrganizer(nnet, request, graph, rules)
    for phase in phases(graph, rules):
        for node, numbers in phase:
            organizer.add(node, numbers)
    return organizer.steps


class _StepOrganizer:
    def __init__(self, nnet: Nnet, request: ComputationRequest, graph: Graph, rules: list[NodeRule]) -> None:
        self.nnet, self.graph, self.rules = nnet, graph, rules
        self.steps: list[Step] = []
        names = nnet.node_names
        self._requested = {names.index(io.name): io.indexes for io in (*request.inputs, *request.outputs)}
        self._step_of = np.full(len(graph.indexes), -1)      # of each cindex
        self._windows: set[tuple[int, int]] = set()          # (dim-range node, source step) that exist already

    def add(self, node: int, numbers: np.ndarray) -> None:
        """Add the steps for these cindexes of ``node``."""
        if node in self._requested:
            self._append(Step(node, self._requested[node]), numbers)
        elif self.nnet.is_component(node):
            self._add_component(node, numbers)
        elif self.nnet.is_dim_range(node):
            self._add_dim_range(node, numbers)
        # What is left is the input of a component, which is made with its component.

    def _append(self, step: Step, numbers: np.ndarray) -> None:
        self._step_of[numbers] = len(self.steps)
        self.steps.append(step)

    def _add_component(self, node: int, numbers: np.ndarray) -> None:
        component = self.nnet.component_of(node)
        outputs = self.graph.sequences.expand(self.graph.indexes[numbers])
        inputs = outputs
        if not component.has(Properties.SIMPLE):
            used = np.unique(self.graph.dependencies_of(numbers))
            inputs = self.graph.sequences.expand(self.graph.indexes[used])
            if component.has(Properties.REORDERS_INDEXES):
                inputs, outputs = component.reorder_indexes(inputs, outputs)
        self.steps.append(Step(node - 1, inputs))
        self._append(Step(node, outputs), numbers)

    def _add_dim_range(self, node: int, numbers: np.ndarray) -> None:
        sources = self._step_of[self.graph.dependencies_of(numbers)]     # the same index at the source node
        for source in np.unique(sources).tolist():
            if (node, source) in self._windows:
                continue
            self._windows.add((node, source))
            self.steps.append(Step(node, self.steps[source].indexes, source))
