"""Which rows of which nodes a request needs: the computation graph, grown from the outputs in waves.

A cindex is an index at a node. In every wave the cindexes at one distance are handled together, a node at a time, as
arrays: those that are new list what they may depend on, the others are asked whether they can be computed. Both advance
at the same rate, so a recurrence that runs back in time is cut off a few steps before the first input.

Kaldi: ``ComputationGraphBuilder`` (nnet-computation-graph.h).
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.explain import COMPUTABLE, NOT_COMPUTABLE, UNKNOWN, not_computable
from nnet3py.compiler.node_rules import NodeRule, node_rules
from nnet3py.compiler.request import ComputationRequest
from nnet3py.compiler.sequences import Sequences
from nnet3py.errors import CompileError, Nnet3Error
from nnet3py.index import NO_TIME, KeySpace, distinct, distinct_counts, find_keys

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

MAX_DISTANCE = 10000
_FIRST_CAPACITY = 1024


@dataclass
class Graph:
    """The cindexes that a request needs, sorted by node, then index. Kaldi: ``ComputationGraph``.

    Attributes
    ----------
    offsets : int64 (nodes + 1,), node i has the cindexes offsets[i] to offsets[i + 1]
    indexes : int32 (cindexes, 3), with the shape of the sequence as n (see Sequences)
    is_input : bool (cindexes,), given by the caller
    dependency_starts : int64 (cindexes + 1,), where each cindex's dependencies begin in ``dependencies``
    dependencies : int64, numbers of cindexes
    """

    sequences: Sequences
    offsets: np.ndarray
    indexes: np.ndarray
    is_input: np.ndarray
    dependency_starts: np.ndarray
    dependencies: np.ndarray

    def rows(self, node: int) -> slice:
        """The numbers of the cindexes of ``node``."""
        return slice(int(self.offsets[node]), int(self.offsets[node + 1]))

    def nodes(self) -> np.ndarray:
        """The node of every cindex, int64."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def dependencies_of(self, numbers: np.ndarray) -> np.ndarray:
        """The dependencies of several cindexes, one list after the other."""
        starts = self.dependency_starts
        return self.dependencies[ragged(starts[numbers], starts[numbers + 1] - starts[numbers])]


def ragged(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """starts[0], starts[0] + 1, … (lengths[0] of them), then the same for starts[1], …"""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


class _NodeTable:
    """The cindexes of one node: their keys, sorted, and in order of arrival what they may depend on."""

    def __init__(self) -> None:
        self.keys = np.zeros(0, np.int64)             # sorted
        self.key_ids = np.zeros(0, np.int64)          # the cindex of each key
        self.ids = np.zeros(0, np.int64)              # by arrival
        self.dependencies = np.zeros((0, 0), np.int64)  # by arrival; -1: none

    def find(self, keys: np.ndarray) -> np.ndarray:
        return find_keys(self.keys, self.key_ids, keys)

    def add(self, keys: np.ndarray, ids: np.ndarray) -> None:
        """Add new keys (sorted, none of them there yet)."""
        at = np.searchsorted(self.keys, keys)
        self.keys, self.key_ids = np.insert(self.keys, at, keys), np.insert(self.key_ids, at, ids)
        self.ids = np.concatenate((self.ids, ids))
        fresh = np.full((len(ids), self.dependencies.shape[1]), -1)
        self.dependencies = np.concatenate((self.dependencies, fresh))

    def set_dependencies(self, rows: np.ndarray, ids: np.ndarray) -> None:
        missing = ids.shape[1] - self.dependencies.shape[1]
        if missing > 0:
            self.dependencies = np.pad(self.dependencies, ((0, 0), (0, missing)), constant_values=-1)
        self.dependencies[rows, :ids.shape[1]] = ids


class GraphBuilder:
    """Builds the graph of one request: :meth:`compute`, then :meth:`prune`.

    Parameters
    ----------
    rules : one per node (see node_rules)
    sequences : the shapes of the request's sequences
    input_nodes, output_nodes : the nodes of the request's inputs and outputs, in its order
    """

    def __init__(self, rules: list[NodeRule], sequences: Sequences, input_nodes: list[int],
                 output_nodes: list[int]) -> None:
        self.rules, self.sequences = rules, sequences
        self.output_nodes = output_nodes
        self.space = KeySpace(0, len(sequences.members) - 1)
        self.tables = [_NodeTable() for _ in rules]
        self._consumers: list[list[int]] = [[] for _ in rules]
        for node, rule in enumerate(rules):
            for source in rule.sources():
                self._consumers[source].append(node)
        self.size = 0
        self.status = np.zeros(_FIRST_CAPACITY, np.int8)
        self.count = np.zeros(_FIRST_CAPACITY, np.int64)      # how many live cindexes use it; Kaldi: usable_count
        self.node = np.zeros(_FIRST_CAPACITY, np.int64)
        self.row = np.zeros(_FIRST_CAPACITY, np.int64)        # in its node's table
        self.key = np.zeros(_FIRST_CAPACITY, np.int64)
        self.is_input = np.zeros(_FIRST_CAPACITY, bool)
        self._expanded = np.zeros(_FIRST_CAPACITY, bool)
        self._queued = np.zeros(_FIRST_CAPACITY, bool)
        self._next: list[np.ndarray] = []
        self._add_io(input_nodes, output_nodes)

    def _add_io(self, input_nodes: list[int], output_nodes: list[int]) -> None:
        for node, indexes in zip(input_nodes, self.sequences.inputs, strict=True):
            ids = self._find_or_add(node, self.space.keys(indexes))
            self.is_input[ids] = True
            self.status[ids] = COMPUTABLE
        self.output_ids = [self._find_or_add(node, self.space.keys(indexes))
                           for node, indexes in zip(output_nodes, self.sequences.outputs, strict=True)]
        for ids in self.output_ids:
            self.count[ids] = 1
            self._queue(ids)

    # -- the waves -------------------------------------------------------------------------------------------------

    def compute(self) -> None:
        """Find the status of everything that the outputs may need. Raises CompileError for an endless recursion."""
        distance = 0
        while self._next:
            current = np.concatenate(self._next)
            self._next = []
            self._queued[current] = False
            if distance >= MAX_DISTANCE:
                raise CompileError("Loop detected while building computation graph (bad network topology?)",
                                   "a recurrence goes back in time without end: nothing in it needs an input")
            new, old = current[~self._expanded[current]], current[self._expanded[current]]
            self._update_status(old[(self.status[old] == UNKNOWN) & (self.count[old] > 0)])
            self._expand(new[self.count[new] > 0])     # counts may have dropped just now: what is dead uses nothing
            distance += 1

    def _queue(self, ids: np.ndarray) -> None:
        ids = ids[~self._queued[ids]]
        if len(ids):
            self._queued[ids] = True
            self._next.append(ids)

    def _expand(self, ids: np.ndarray) -> None:
        """List what the cindexes may depend on, and come back to them in the next wave."""
        self._expanded[ids] = True
        for node, part in self._by_node(ids):
            nodes, wanted = self.rules[node].dependencies(self.space.indexes(self.key[part]))
            if wanted.shape[1] == 0:
                continue
            dependencies = np.full(nodes.shape, -1, np.int64)
            real = wanted[..., 1] != NO_TIME
            keys = self.space.keys(wanted)
            for source in self.rules[node].sources():
                chosen = real & (nodes == source)
                dependencies[chosen] = self._find_or_add(source, keys[chosen])
            self.tables[node].set_dependencies(self.row[part], dependencies)
            self._add_uses(dependencies[dependencies >= 0])
        self._queue(ids)

    def _update_status(self, ids: np.ndarray) -> None:
        changed, failed = [], []
        for node, part in self._by_node(ids):
            indexes = self.space.indexes(self.key[part])
            dependencies = self.tables[node].dependencies[self.row[part]]
            status = np.where(dependencies >= 0, self.status[dependencies], NOT_COMPUTABLE)
            computable = self.rules[node].computable(indexes, status == COMPUTABLE)[0]
            possible = computable.copy()
            unsure = np.flatnonzero(~computable)
            if len(unsure):
                possible[unsure] = self.rules[node].computable(indexes[unsure], status[unsure] != NOT_COMPUTABLE)[0]
            self.status[part[computable]] = COMPUTABLE
            self.status[part[~possible]] = NOT_COMPUTABLE
            changed += [part[computable], part[~possible]]
            failed.append(part[~possible])
        if changed:
            self._queue_consumers(np.concatenate(changed))
            self._remove_uses(self._dependencies(np.concatenate(failed)))

    def _queue_consumers(self, ids: np.ndarray) -> None:
        """Queue the undecided cindexes that may depend on any of ``ids``."""
        if not len(ids):
            return
        hit = np.zeros(self.size + 1, bool)    # the last is what -1 refers to
        hit[ids] = True
        for node in {consumer for source in distinct(self.node[ids]) for consumer in self._consumers[source]}:
            table = self.tables[node]
            consumers = table.ids[hit[table.dependencies].any(axis=1)]
            self._queue(consumers[self.status[consumers] == UNKNOWN])

    # -- use counts ------------------------------------------------------------------------------------------------

    def _add_uses(self, ids: np.ndarray) -> None:
        """Count one more use of each; those that come to life use their own dependencies in turn."""
        while len(ids):
            ids, uses = distinct_counts(ids)
            revived = ids[(self.count[ids] == 0) & (self.status[ids] != NOT_COMPUTABLE)]
            self.count[ids] += uses
            self._queue(revived[self.status[revived] == UNKNOWN])
            ids = self._dependencies(revived)

    def _remove_uses(self, ids: np.ndarray) -> None:
        while len(ids):
            ids, uses = distinct_counts(ids)
            self.count[ids] -= uses
            ids = self._dependencies(ids[(self.count[ids] == 0) & (self.status[ids] != NOT_COMPUTABLE)])

    def _dependencies(self, ids: np.ndarray) -> np.ndarray:
        parts = [self.tables[node].dependencies[self.row[part]].ravel() for node, part in self._by_node(ids)]
        found = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return found[found >= 0]

    # -- the store of cindexes -------------------------------------------------------------------------------------

    def _by_node(self, ids: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        if not len(ids):
            return
        nodes = self.node[ids]
        order = np.argsort(nodes, kind="stable")
        ids, nodes = ids[order], nodes[order]
        bounds = [0, *(np.flatnonzero(np.diff(nodes)) + 1).tolist(), len(ids)]
        for begin, end in zip(bounds[:-1], bounds[1:], strict=True):
            yield int(nodes[begin]), ids[begin:end]

    def _find_or_add(self, node: int, keys: np.ndarray) -> np.ndarray:
        """The numbers of cindexes of ``node``; those that are new are added."""
        table = self.tables[node]
        ids = table.find(keys)
        new = distinct(keys[ids < 0])
        if len(new):
            first = self.size
            self._grow(first + len(new))
            fresh = np.arange(first, self.size)
            self.node[fresh], self.key[fresh] = node, new
            self.row[fresh] = len(table.ids) + np.arange(len(new))
            table.add(new, fresh)
            ids = table.find(keys)
        return ids

    def _grow(self, size: int) -> None:
        if size > len(self.status):
            for name in ("status", "count", "node", "row", "key", "is_input", "_expanded", "_queued"):
                old = getattr(self, name)
                larger = np.zeros(2 * size, old.dtype)
                larger[:len(old)] = old
                setattr(self, name, larger)
        self.size = size

    # -- results ---------------------------------------------------------------------------------------------------

    def computable_outputs(self) -> list[np.ndarray]:
        """For each output a bool per row of its shapes (``sequences.outputs``). Kaldi: GetComputableInfo."""
        return [self.status[ids] == COMPUTABLE for ids in self.output_ids]

    def prune(self) -> Graph:
        """The graph of what the outputs really use, and of all that was given."""
        starts, lengths, children = self._used()
        required = self.is_input[:self.size].copy()
        frontier = distinct(np.concatenate(self.output_ids))
        while len(frontier):
            required[frontier] = True
            found = children[ragged(starts[frontier], lengths[frontier])]
            frontier = distinct(found[~required[found]])
        kept = np.flatnonzero(required)
        kept = kept[np.lexsort((self.key[kept], self.node[kept]))]
        number = np.full(self.size, -1)
        number[kept] = np.arange(len(kept))
        return Graph(
            self.sequences, np.searchsorted(self.node[kept], np.arange(len(self.rules) + 1)),
            self.space.indexes(self.key[kept]), self.is_input[kept],
            np.concatenate(([0], np.cumsum(lengths[kept]))),
            number[children[ragged(starts[kept], lengths[kept])]])

    def _used(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What each live, computable cindex uses: starts and lengths (size,) of its stretch, and the cindexes."""
        starts, lengths = np.zeros(self.size, np.int64), np.zeros(self.size, np.int64)
        parts, total = [np.zeros(0, np.int64)], 0
        status = self.status[:self.size]
        live = np.flatnonzero((status == COMPUTABLE) & (self.count[:self.size] > 0) & ~self.is_input[:self.size])
        for node, ids in self._by_node(live):
            dependencies = self.tables[node].dependencies[self.row[ids]]
            available = (dependencies >= 0) & (self.status[dependencies] == COMPUTABLE)
            used = self.rules[node].computable(self.space.indexes(self.key[ids]), available)[1] & available
            parts.append(dependencies[used])
            lengths[ids] = used.sum(axis=1)
            ends = total + np.cumsum(lengths[ids])
            starts[ids] = ends - lengths[ids]
            total = int(ends[-1])
        return starts, lengths, np.concatenate(parts)


def graph_builder(nnet: Nnet, request: ComputationRequest, share: bool = True) -> GraphBuilder:
    """A builder for ``request``; with ``share`` false every sequence is worked out for itself (same result).

    Raises
    ------
    Nnet3Error : the network has no input or output of a name in the request
    """
    return GraphBuilder(node_rules(nnet), Sequences.of(request, share),
                        [_io_node(nnet, io.name, "input") for io in request.inputs],
                        [_io_node(nnet, io.name, "output") for io in request.outputs])


def _io_node(nnet: Nnet, name: str, kind: str) -> int:
    names = nnet.node_names
    fits = nnet.is_input if kind == "input" else nnet.is_output
    if name in names and fits(names.index(name)):
        return names.index(name)
    known = ", ".join(n for i, n in enumerate(names) if fits(i))
    raise Nnet3Error(f"Network has no {kind} with name {name}", f"it has {known or 'none'}")


def build_graph(nnet: Nnet, request: ComputationRequest, share: bool = True) -> Graph:
    """The pruned graph of ``request``.

    Raises
    ------
    NotComputableError : an output row cannot be computed from the inputs; the message says which and why
    CompileError : a recurrence without end
    Nnet3Error : the network has no input or output of a name in the request
    """
    builder = graph_builder(nnet, request, share)
    builder.compute()
    if not all(found.all() for found in builder.computable_outputs()):
        raise not_computable(builder, nnet, request)
    return builder.prune()
