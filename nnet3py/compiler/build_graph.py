"""The graph of a request, or of several, or the error that explains why there is none; the context of a network.

Several requests, one after the other, are compiled into one computation for streams. Each request (a segment) has
inputs and outputs of its own, and may use whatever earlier segments computed and kept: its graph is built with all of
that among its inputs, and the new rows of all segments are joined into one graph. So nothing is computed twice, rows
that an earlier segment did not need are computed when a later one needs them, and no segment looks ahead to inputs that
have not come yet. A segment costs time for everything before it, which matters little: loops are found within five to
ten segments.

Kaldi: ``ComputationGraphBuilder``, called in turn for each request; ``ComputeSimpleNnetContext``.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.explain import not_computable
from nnet3py.compiler.graph import Graph, GraphBuilder, graph_builder, io_node, ragged
from nnet3py.compiler.node_rules import NodeRules
from nnet3py.compiler.request import ComputationRequest, IoSpecification, Sequences
from nnet3py.errors import CompileError, Nnet3Error
from nnet3py.index import KeySpace
from nnet3py.network.nnet import Nnet

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

def build_graph(nnet: Nnet, request: ComputationRequest, share: bool = True) -> Graph:
    """Build the graph of the rows that a request needs; the arguments are those of ``graph_builder``.

    Raises NotComputableError: an output row cannot be computed from the inputs; the message says which row and why;
    CompileError: a recurrence without end; Nnet3Error: the network has no input or output of a name in the request.
    """
    builder = graph_builder(nnet, request, share, join=True)
    builder.compute()
    if not all(computable.all() for computable in builder.computable_outputs()):
        builder = graph_builder(nnet, request, share)      # without chains: the message names every node
        builder.compute()
        raise not_computable(builder, nnet, request)
    return builder.prune()


# -- several requests, for looped computations -------------------------------------------------------------------------


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
    """Build the pruned graph of several requests, each computed after those before it.

    Raises NotComputableError: an output row cannot be computed from the inputs of its segment and of earlier ones;
    CompileError: the requests have different sequences, or derivatives are wanted; a recurrence without end;
    Nnet3Error: the network has no input or output of a name in a request.
    """
    if any(io.has_deriv for request in requests for io in (*request.inputs, *request.outputs)):
        raise CompileError("derivatives are wanted of a computation with several segments",
                           "leave out has_deriv: streams are computed forward only")
    of_requests = [Sequences.of(request, share) for request in requests]
    members = [[n.tolist() for n in sequences.members] for sequences in of_requests]
    if any(others != members[0] for others in members):
        raise CompileError("the requests of a computation with several segments are for different sequences (n)",
                           "give each request inputs and outputs of the same sequences")
    joiner = _SegmentJoiner(rules, of_requests[0])
    for request, sequences in zip(requests, of_requests, strict=True):
        earlier_nodes, earlier = joiner.kept()
        builder = GraphBuilder(
            rules, replace(sequences, inputs=sequences.inputs + earlier),
            [io_node(nnet, io.name, "input") for io in request.inputs] + earlier_nodes,
            [io_node(nnet, io.name, "output") for io in request.outputs])
        builder.compute()
        if not all(computable.all() for computable in builder.computable_outputs()):
            raise not_computable(builder, nnet, request)
        joiner.add(builder.prune())
    return joiner.graph()


class _SegmentJoiner:
    """The graph of several segments, built by adding the new cindexes of one segment's graph after the other."""

    def __init__(self, rules: NodeRules, sequences: Sequences) -> None:
        self.sequences = sequences
        self.space = KeySpace(0, len(sequences.members) - 1)
        self.keys = [np.zeros(0, np.int64) for _ in rules]         # the keys of each node's rows, sorted
        self.segments = [np.zeros(0, np.int64) for _ in rules]
        self.is_input = [np.zeros(0, bool) for _ in rules]
        self._graphs: list[tuple[Graph, np.ndarray]] = []          # of segments, and which of their cindexes are new

    def kept(self) -> tuple[list[int], list[np.ndarray]]:
        """Return the nodes with rows computed or given so far, and these rows' indexes, int32 (rows, 3) each."""
        nodes = [node for node, keys in enumerate(self.keys) if len(keys)]
        return nodes, [self.space.indexes(self.keys[node]) for node in nodes]

    def add(self, graph: Graph) -> None:
        """Add the cindexes of the next segment's graph that no earlier segment has."""
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
        """Return the graph of all segments so far."""
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
        """Return for each cindex of a segment's graph its number in the joined graph."""
        return np.concatenate([offsets[node] + np.searchsorted(keys, self.space.keys(graph.indexes[graph.rows(node)]))
                               for node, keys in enumerate(self.keys)])


# -- left and right context --------------------------------------------------------------------------------------------


FIRST_WINDOW = 40    # frames of input at first; doubled while no output can be computed from them
LARGEST_WINDOW = 800      # frames
LARGEST_MODULUS = 1000    # for each shift up to the modulus the context is measured



def compute_simple_nnet_context(nnet: Nnet) -> tuple[int, int]:
    """Measure the left and right context: the input frames needed before and after an output frame.

    Optional inputs (IfDefined and the like) do not count. Raises Nnet3Error: the network is not simple, computes
    nothing from fewer than 800 frames, or has a modulus above 1000.
    """
    if not nnet.is_simple():
        inputs = ", ".join(name for node, name in enumerate(nnet.node_names) if nnet.is_input(node))
        raise Nnet3Error("the context of a network is defined only if it has an 'input', an 'output' and no other "
                         "input but 'ivector'", f"this network has the inputs {inputs or 'none'}")
    modulus = nnet.modulus()
    if modulus > LARGEST_MODULUS:
        raise Nnet3Error(f"the context of the network differs from frame to frame with a period (modulus) of {modulus} "
                         f"frames, expected at most {LARGEST_MODULUS}", "check the periods of its Round() and Switch()")
    window = FIRST_WINDOW
    while window < LARGEST_WINDOW:
        context_of_shift = [_context_at(nnet, shift, modulus, window) for shift in range(modulus + 1)]
        contexts = [context for context in context_of_shift if context is not None]
        if len(contexts) == len(context_of_shift):
            if contexts[0] != contexts[-1]:
                raise Nnet3Error(
                    f"the network's left and right context are {contexts[0]} at t=0 but {contexts[-1]} at t={modulus}, "
                    f"although its descriptors repeat every {modulus} frames",
                    "check the offsets and the periods of its Round(), Switch() and ReplaceIndex()")
            return max(left for left, _ in contexts), max(right for _, right in contexts)
        window *= 2
    raise Nnet3Error(f"the network computes no output from {window // 2} frames of input",
                     "its context is too long, or an output needs an input other than 'input' and 'ivector'")


def _context_at(nnet: Nnet, shift: int, modulus: int, window: int) -> tuple[int, int] | None:
    """Measure left and right context with frames from t = ``shift`` on; None if no output is computable."""
    frames = _times(shift, shift + window)
    inputs = [IoSpecification("input", frames)]
    if nnet.input_dim("ivector") > 0:
        inputs.append(IoSpecification("ivector", _times(shift - modulus, shift + window)))
    builder = graph_builder(nnet, ComputationRequest(inputs, [IoSpecification("output", frames)]))
    builder.compute()
    computable = builder.computable_outputs()[0]      # rows are sorted by t
    if not computable.any():
        return None
    left = int(computable.argmax())
    rest = computable[left:]
    length = len(rest) if rest.all() else int(rest.argmin())
    return left, window - (left + length)


def _times(begin: int, end: int) -> np.ndarray:
    indexes = np.zeros((end - begin, 3), np.int32)
    indexes[:, 1] = np.arange(begin, end)
    return indexes
