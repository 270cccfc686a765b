"""Several requests, one after the other, compiled into one computation: the graph of all of them.

Each request (a segment) has inputs and outputs of its own, and may use whatever earlier segments computed and kept. A
segment's graph is grown like any other (graph.py), with all that earlier segments kept among its inputs; then what is
new in each is joined into one graph. So nothing that was kept is computed again, what an earlier segment did not need
is computed when a later one needs it, and nothing looks ahead to inputs that have not come yet. A segment costs time
for everything before it, which matters little: loops are found within some five to ten segments.

Kaldi: ``ComputationGraphBuilder``, called in turn for each request.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnet3py.compiler.explain import not_computable
from nnet3py.compiler.graph import Graph, GraphBuilder, io_node, ragged
from nnet3py.compiler.node_rules import NodeRules
from nnet3py.compiler.request import ComputationRequest
from nnet3py.compiler.sequences import Sequences
from nnet3py.errors import CompileError
from nnet3py.index import KeySpace
from nnet3py.network.nnet import Nnet


@dataclass
class SegmentedGraph(Graph):
    """The graph of several requests.

    Attributes
    ----------
    segments : int64 (cindexes,), the number of the request that computes (or gives) each cindex
    """

    segments: np.ndarray


def build_segmented_graph(nnet: Nnet, requests: Sequence[ComputationRequest], rules: NodeRules,
                          share: bool = True) -> SegmentedGraph:
    """The pruned graph of several requests, each computed after those before it.

    Raises
    ------
    NotComputableError : an output row cannot be computed from its segment's and earlier inputs
    CompileError : the requests have different sequences, or derivatives are wanted; a recurrence without end
    Nnet3Error : the network has no input or output of a name in a request
    """
    if any(io.has_deriv for request in requests for io in (*request.inputs, *request.outputs)):
        raise CompileError("derivatives are wanted of a computation with several segments", "they go forward only")
    of_requests = [Sequences.of(request, share) for request in requests]
    members = [[n.tolist() for n in sequences.members] for sequences in of_requests]
    if any(others != members[0] for others in members):
        raise CompileError("the requests of a computation with several segments are for different sequences")
    joined = _Join(rules, of_requests[0])
    for request, sequences in zip(requests, of_requests, strict=True):
        earlier_nodes, earlier = joined.kept()
        builder = GraphBuilder(
            rules, replace(sequences, inputs=sequences.inputs + earlier),
            [io_node(nnet, io.name, "input") for io in request.inputs] + earlier_nodes,
            [io_node(nnet, io.name, "output") for io in request.outputs])
        builder.compute()
        if not all(computable.all() for computable in builder.computable_outputs()):
            raise not_computable(builder, nnet, request)
        joined.add(builder.prune())
    return joined.graph()


class _Join:
    """Collects what is new in the graphs of the segments."""

    def __init__(self, rules: NodeRules, sequences: Sequences) -> None:
        self.sequences = sequences
        self.space = KeySpace(0, len(sequences.members) - 1)
        self.keys = [np.zeros(0, np.int64) for _ in rules]         # of each node, sorted
        self.segments = [np.zeros(0, np.int64) for _ in rules]
        self.is_input = [np.zeros(0, bool) for _ in rules]
        self._graphs: list[tuple[Graph, np.ndarray]] = []          # and which of its cindexes are new

    def kept(self) -> tuple[list[int], list[np.ndarray]]:
        """The nodes that have been computed or given anywhere so far, and where, int32 (rows, 3) each."""
        nodes = [node for node, keys in enumerate(self.keys) if len(keys)]
        return nodes, [self.space.indexes(self.keys[node]) for node in nodes]

    def add(self, graph: Graph) -> None:
        """Add the graph of the next segment: its cindexes that no earlier segment had."""
        is_new = np.zeros(len(graph.indexes), bool)
        for node in range(len(self.keys)):
            rows = graph.rows(node)
            keys = self.space.keys(graph.indexes[rows])
            is_new[rows] = new = ~np.isin(keys, self.keys[node], assume_unique=True)
            joined = np.concatenate((self.keys[node], keys[new]))
            order = np.argsort(joined, kind="stable")
            self.keys[node] = joined[order]
            for name, added in (("segments", np.full(int(new.sum()), len(self._graphs))),
                                ("is_input", graph.is_input[rows][new])):
                getattr(self, name)[node] = np.concatenate((getattr(self, name)[node], added))[order]
        self._graphs.append((graph, is_new))

    def graph(self) -> SegmentedGraph:
        """The graph of all segments so far."""
        offsets = np.cumsum([0, *(len(keys) for keys in self.keys)])
        users, used, lengths = [], [], []
        for graph, is_new in self._graphs:
            number = self._numbers(graph, offsets)
            users.append(number[is_new])
            lengths.append(np.diff(graph.dependency_starts)[is_new])
            used.append(number[graph.dependencies_of(np.flatnonzero(is_new))])
        order = np.argsort(np.concatenate(users), kind="stable")
        length = np.concatenate(lengths)
        starts = np.cumsum(length) - length
        return SegmentedGraph(
            self.sequences, offsets, self.space.indexes(np.concatenate(self.keys)), np.concatenate(self.is_input),
            np.concatenate(([0], np.cumsum(length[order]))),
            np.concatenate(used)[ragged(starts[order], length[order])], np.concatenate(self.segments))

    def _numbers(self, graph: Graph, offsets: np.ndarray) -> np.ndarray:
        """The number that each cindex of one segment's graph has in the graph of all."""
        return np.concatenate([offsets[node] + np.searchsorted(keys, self.space.keys(graph.indexes[graph.rows(node)]))
                               for node, keys in enumerate(self.keys)])
