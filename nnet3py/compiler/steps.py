"""Steps: the order and the groups of rows in which the cindexes of a graph are computed.

The graph is cut into epochs (by the structure of the network), those of recurrences into phases, and these into one
group for each node. A step is such a group with its rows in their final order; every step becomes a matrix.

Kaldi: ``ComputeComputationPhases``, ``ComputationStepsComputer`` (nnet-computation-graph.h).
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.build_graph import SegmentedGraph
from nnet3py.compiler.graph import Graph, ragged
from nnet3py.compiler.node_rules import ComponentRule, DimRangeRule, NodeRules
from nnet3py.compiler.request import ComputationRequest
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
    source : of a dim-range node: the step of which this one is a window of columns; else -1
    is_given : whether the caller gives the values, which those of a component node are if they were computed earlier
    """

    node: int
    indexes: np.ndarray
    source: int = -1
    is_given: bool = False


class Phase(NamedTuple):
    """The cindexes of a node that are computed in a phase: numbers, and indexes of all sequences, sorted."""

    node: int
    numbers: np.ndarray
    indexes: np.ndarray
    is_given: bool = False


def phases(graph: Graph, rules: NodeRules, chosen: np.ndarray | None = None) -> Iterator[Phase]:
    """Yield the phases in order, and within each the nodes in order; inputs of components are left out.

    Parameters
    ----------
    chosen : bool (cindexes,), the cindexes to compute, if others have been computed already; None for all

    Raises
    ------
    CompileError : a recurrence that goes both forward and backward in time
    """
    wanted = True if chosen is None else chosen
    given = _by_node(graph, graph.is_input & wanted)
    computed = _by_node(graph, ~graph.is_input & wanted)
    yield from (_phase(graph, node, numbers)._replace(is_given=True)
                for node, numbers in enumerate(given) if len(numbers))
    rows_of_chain: dict[int, np.ndarray] = {}      # by the chain's last node
    last = graph.chains.last if graph.chains else range(len(rules))
    for epoch in rules.epochs:
        if len(epoch) > 1:
            yield from _recurrent_phases(graph, epoch, computed, rules.hidden)
        elif len(computed[epoch[0]]) and epoch[0] not in rules.hidden:
            node = epoch[0]
            chain = last[node]
            if chain in rows_of_chain:
                yield Phase(node, computed[node], rows_of_chain[chain])
            else:
                phase = _phase(graph, node, computed[node])
                rows_of_chain[chain] = phase.indexes
                yield phase


def _by_node(graph: Graph, chosen: np.ndarray) -> list[np.ndarray]:
    """Return for each node the numbers of its cindexes that are ``chosen``."""
    numbers = np.flatnonzero(chosen)
    bounds = np.searchsorted(numbers, graph.offsets).tolist()
    return [numbers[begin:end] for begin, end in zip(bounds[:-1], bounds[1:], strict=True)]


def _phase(graph: Graph, node: int, numbers: np.ndarray) -> Phase:
    return Phase(node, numbers, graph.sequences.expand(graph.indexes[numbers]))


def _recurrent_phases(graph: Graph, epoch: list[int], computed: list[np.ndarray],
                      hidden: frozenset[int]) -> Iterator[Phase]:
    """Yield the phases of a recurrence: cindexes without dependencies in it, then those that need only these."""
    chains = _chains_of(graph, [node for node in epoch if len(computed[node])])
    if not chains:
        return
    layer = _layers(graph, [[computed[node] for node in chain] for chain in chains])
    phases: list[tuple[int, int, Phase]] = []
    at = 0
    for chain in chains:
        size = len(computed[chain[0]])
        layers = layer[at:at + size]
        at += size
        order = np.argsort(layers, kind="stable")
        layers, numbers = layers[order], [computed[node][order] for node in chain]
        bounds = [0, *(np.flatnonzero(layers[1:] != layers[:-1]) + 1).tolist(), size]
        pieces = graph.sequences.expand_each(graph.indexes[numbers[0]], bounds)
        starts = layers[bounds[:-1]].tolist()
        for distance, node in enumerate(chain):
            if node not in hidden:
                phases += [(start + distance, node, Phase(node, numbers[distance][begin:end], indexes))
                          for start, begin, end, indexes in zip(starts, bounds[:-1], bounds[1:], pieces, strict=True)]
    phases.sort(key=itemgetter(0, 1))
    yield from (phase for _, _, phase in phases)


def _chains_of(graph: Graph, nodes: list[int]) -> list[list[int]]:
    """Return the chains of these nodes, ordered by their first nodes."""
    if graph.chains is None:
        return [[node] for node in nodes]
    chains: dict[int, list[int]] = {}
    for node in nodes:
        chains.setdefault(graph.chains.first[node], []).append(node)
    return [graph.chains.nodes[graph.chains.number[first]] for first in chains]


def _layers(graph: Graph, chains: list[list[np.ndarray]]) -> np.ndarray:
    """Return for each member the length of the longest path of dependencies to it within the recurrence.

    Members are the cindexes of the first node of each chain; ``chains`` has the cindexes, int64 (rows,), of each node
    of each chain. Other chains depend on the last node of a chain only.
    """
    members = np.concatenate([chain[0] for chain in chains])
    weights = np.repeat([len(chain) for chain in chains], [len(chain[0]) for chain in chains]).tolist()
    place = np.full(len(graph.indexes), -1)
    place[np.concatenate([chain[-1] for chain in chains])] = np.arange(len(members))
    starts = graph.dependency_starts
    lengths = starts[members + 1] - starts[members]
    users = np.repeat(np.arange(len(members)), lengths)
    used = place[graph.dependencies[ragged(starts[members], lengths)]]
    users, used = users[used >= 0], used[used >= 0]
    waiting = np.bincount(users, minlength=len(members)).tolist()
    first_user = np.searchsorted(np.sort(used), np.arange(len(members) + 1)).tolist()
    users_of = users[np.argsort(used, kind="stable")].tolist()
    # A layer is a cindex or two, one for each shape of sequences: lists are faster than arrays of this size.
    layer = [0] * len(members)
    ready = [i for i, count in enumerate(waiting) if not count]
    for i in ready:      # the list grows meanwhile
        after = layer[i] + weights[i]
        for user in users_of[first_user[i]:first_user[i + 1]]:
            if layer[user] < after:
                layer[user] = after
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    if len(ready) < len(members):
        raise CompileError("the recurrence in the network cannot be computed: some of its rows depend on each other",
                           "x(t) may depend on x(t-1) or on x(t+1), not on both")
    return np.array(layer)


def compute_steps(nnet: Nnet, request: ComputationRequest, graph: Graph, rules: NodeRules) -> list[Step]:
    """Return the steps of a graph in order.

    A component's step directly follows the step of its input, unless its values are given. Raises CompileError: a
    recurrence that goes both forward and backward in time.
    """
    organizer = _StepOrganizer(nnet, graph, rules)
    organizer.begin(request)
    for phase in phases(graph, rules):
        organizer.add(phase)
    return organizer.steps


def compute_segmented_steps(nnet: Nnet, requests: Sequence[ComputationRequest], graph: SegmentedGraph,
                            rules: NodeRules) -> tuple[list[Step], list[int]]:
    """Return the steps for several requests, in their order, and for each request the number of steps up to its end."""
    organizer, ends = _StepOrganizer(nnet, graph, rules), []
    for number, request in enumerate(requests):
        organizer.begin(request)
        for phase in phases(graph, rules, graph.segments == number):
            organizer.add(phase)
        ends.append(len(organizer.steps))
    return organizer.steps, ends


class _StepOrganizer:
    def __init__(self, nnet: Nnet, graph: Graph, rules: NodeRules) -> None:
        self.graph = graph
        self.steps: list[Step] = []
        self._names = nnet.node_names
        self._rules = rules
        self._given: dict[int, np.ndarray] = {}              # rows of the request's inputs
        self._wanted: dict[int, np.ndarray] = {}             # rows of its outputs
        self._step_of = np.full(len(graph.indexes), -1)      # the step of each cindex
        self._windows: set[tuple[int, int]] = set()          # (dim-range node, source step) that exist already

    def begin(self, request: ComputationRequest) -> None:
        """Start a request: phases added from now on belong to it."""
        self._given, self._wanted = ({self._names.index(io.name): io.indexes for io in ios}
                                     for ios in (request.inputs, request.outputs))

    def add(self, phase: Phase) -> None:
        """Add the steps of a phase."""
        node, numbers, indexes, is_given = phase
        rule = self._rules[node]
        if is_given:
            self._append(Step(node, self._given[node], is_given=True), numbers)
        elif node in self._wanted:
            self._append(Step(node, self._wanted[node]), numbers)
        elif isinstance(rule, ComponentRule):
            if rule.is_simple:
                self.steps.append(Step(node - 1, indexes))
                self._append(Step(node, indexes), numbers)
            else:
                self._add_component(phase, rule.component)
        elif isinstance(rule, DimRangeRule):
            self._add_dim_range(node, numbers)

    def _append(self, step: Step, numbers: np.ndarray) -> None:
        self._step_of[numbers] = len(self.steps)
        self.steps.append(step)

    def _add_component(self, phase: Phase, component: Component) -> None:
        outputs = phase.indexes
        used = distinct(self.graph.dependencies_of(phase.numbers))
        inputs = self.graph.sequences.expand(self.graph.indexes[used])
        if component.has(Properties.REORDERS_INDEXES):
            inputs, outputs = component.reorder_indexes(inputs, outputs)
        self.steps.append(Step(phase.node - 1, inputs))
        self._append(Step(phase.node, outputs), phase.numbers)

    def _add_dim_range(self, node: int, numbers: np.ndarray) -> None:
        graph = self.graph
        # Each cindex depends on the same index at the source node only.
        sources = graph.dependencies[graph.dependency_starts[numbers]]
        source_steps = self._step_of[sources].tolist()
        for source in sorted(set(source_steps)) if len(source_steps) > 1 else source_steps:
            if (node, source) not in self._windows:
                self._windows.add((node, source))
                self.steps.append(Step(node, self.steps[source].indexes, source))
