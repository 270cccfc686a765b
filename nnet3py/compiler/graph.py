"""The computation graph: the rows of nodes that a request needs, found from the outputs.

A cindex is an index (n, t, x) at a node. All cindexes of a node are handled together, as arrays. One sweep through the
nodes from the outputs to the inputs lists the possible dependencies of each cindex; a sweep back finds the computable
ones. Without a recurrence, that is all. In a recurrence every sweep goes some passes back in time, twice as many as the
sweep before; cindexes that cannot be computed, or that no computable one needs, are followed no further. So the sweeps
end soon after the first input.

Kaldi: ``ComputationGraphBuilder`` (nnet-computation-graph.h).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.node_rules import Chains, NodeRules, node_rules
from nnet3py.compiler.request import ComputationRequest, Sequences
from nnet3py.errors import CompileError, Nnet3Error
from nnet3py.index import NO_TIME, KeySpace, distinct, find_keys

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

MAX_DISTANCE = 10000      # passes through a recurrence
UNKNOWN, COMPUTABLE, NOT_COMPUTABLE = 0, 1, 2    # status of a cindex in a graph that is being built
_FIRST_CAPACITY = 1024     # cindexes
_FIRST_PASSES = 2          # mostly enough: the second pass goes beyond the first input, and fails


@dataclass
class Graph:
    """The cindexes that a request needs, sorted by node, then index. Kaldi: ``ComputationGraph``.

    Attributes
    ----------
    sequences : the shapes of the request's sequences
    offsets : int64 (nodes + 1,); node i has the cindexes offsets[i] to offsets[i + 1]
    indexes : int32 (cindexes, 3), with the shape of the sequence in place of n (see Sequences)
    is_input : bool (cindexes,), whether the caller gives the value
    dependency_starts : int64 (cindexes + 1,), where each cindex's dependencies begin in ``dependencies``
    dependencies : int64, numbers of cindexes
    chains : the chains of nodes with the same rows; None if they were not looked for
    """

    sequences: Sequences
    offsets: np.ndarray
    indexes: np.ndarray
    is_input: np.ndarray
    dependency_starts: np.ndarray
    dependencies: np.ndarray
    chains: Chains | None = field(default=None, kw_only=True)

    def rows(self, node: int) -> slice:
        """Return the range of numbers of the cindexes of ``node``."""
        return slice(int(self.offsets[node]), int(self.offsets[node + 1]))

    def nodes(self) -> np.ndarray:
        """Return the node of every cindex, int64 (cindexes,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def dependencies_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the dependencies of several cindexes (ascending), one cindex's after the other's."""
        starts = self.dependency_starts
        if len(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1:
            return self.dependencies[starts[numbers[0]]:starts[numbers[-1] + 1]]
        return np.asarray(self.dependencies[ragged(starts[numbers], starts[numbers + 1] - starts[numbers])])


def ragged(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return starts[0], starts[0] + 1, … (lengths[0] of them), then the same for starts[1] and so on, int64."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


class _NodeTable:
    """The cindexes of one node, with their keys (sorted) and their possible dependencies (in order of insertion)."""

    def __init__(self) -> None:
        self.keys = np.zeros(0, np.int64)             # sorted
        self.key_ids = np.zeros(0, np.int64)          # the cindex of each key
        self.ids = np.zeros(0, np.int64)              # cindexes by order of arrival
        self.dependencies = np.zeros((0, 0), np.int64)  # of each cindex, by order of arrival; -1: none
        self.all_used = False                         # all cindexes of the node are computable and use all of these
        self.has_gaps = False                         # whether there is a -1 among these

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the cindexes with these keys, -1 for none."""
        return find_keys(self.keys, self.key_ids, keys)

    def add(self, keys: np.ndarray, ids: np.ndarray) -> None:
        """Add new keys (sorted, none present yet)."""
        self.all_used = False
        if not len(self.ids):
            self.keys, self.key_ids, self.ids = keys, ids, ids
            self.dependencies = np.empty((len(ids), 0), np.int64)
            return
        joined = np.concatenate((self.keys, keys))
        order = np.argsort(joined, kind="stable")
        self.keys, self.key_ids = joined[order], np.concatenate((self.key_ids, ids))[order]
        self.ids = np.concatenate((self.ids, ids))
        fresh = np.full((len(ids), self.dependencies.shape[1]), -1)
        self.dependencies = np.concatenate((self.dependencies, fresh))

    def set_dependencies(self, rows: np.ndarray, ids: np.ndarray) -> None:
        """Set the dependencies of the cindexes ``rows`` to ``ids``, int64 (rows, dependencies), -1 for none."""
        if len(ids) == len(self.ids):
            self.dependencies = ids
            return
        missing = ids.shape[1] - self.dependencies.shape[1]
        self.has_gaps |= missing != 0
        if missing > 0:
            self.dependencies = np.pad(self.dependencies, ((0, 0), (0, missing)), constant_values=-1)
        self.dependencies[rows, :ids.shape[1]] = ids


class GraphBuilder:
    """The graph of one request while it is built: :meth:`compute`, then :meth:`prune`.

    Parameters
    ----------
    rules : the rule of each node (see node_rules)
    sequences : the shapes of the request's sequences
    input_nodes, output_nodes : the nodes of the request's inputs and outputs, in its order
    chains : chains of nodes to handle as one node each; :meth:`prune` separates them again
    """

    def __init__(self, rules: NodeRules, sequences: Sequences, input_nodes: list[int], output_nodes: list[int],
                 chains: Chains | None = None) -> None:
        self.sequences, self.chains, self._all_rules = sequences, chains, rules
        self.rules = [rules[node] for node in chains.first] if chains else list(rules)
        self.output_nodes = output_nodes
        self.space = KeySpace(0, len(sequences.members) - 1)
        self.tables = [_NodeTable() for _ in rules]
        epochs = chains.epochs if chains else rules.epochs
        rings = chains.rings if chains else frozenset()
        self._groups = [(nodes, len(nodes) > 1 or nodes[0] in rings) for nodes in epochs]   # nodes, is it a recurrence
        self._last = chains.last if chains else range(len(rules))       # each node's cindexes are in this node's table
        self.size = 0
        self.status = np.zeros(_FIRST_CAPACITY, np.int8)
        self.node = np.zeros(_FIRST_CAPACITY, np.int64)
        self.row = np.zeros(_FIRST_CAPACITY, np.int64)        # the cindex's row in its node's table
        self.key = np.zeros(_FIRST_CAPACITY, np.int64)
        self.is_input = np.zeros(_FIRST_CAPACITY, bool)
        self._expanded = np.zeros(_FIRST_CAPACITY, bool)      # whether the cindex's dependencies are listed
        self._wanted = np.zeros(_FIRST_CAPACITY, bool)        # by an output, or by a cindex that may be computable
        self._add_io(input_nodes, output_nodes)

    def _add_io(self, input_nodes: list[int], output_nodes: list[int]) -> None:
        for node, indexes in zip(input_nodes, self.sequences.inputs, strict=True):
            ids = self._find_or_add(node, self.space.keys(indexes))
            self.is_input[ids] = self._expanded[ids] = True
            self.status[ids] = COMPUTABLE
        self.output_ids = [self._find_or_add(node, self.space.keys(indexes))
                           for node, indexes in zip(output_nodes, self.sequences.outputs, strict=True)]
        for ids in self.output_ids:
            self._wanted[ids] = True

    # -- the sweeps ------------------------------------------------------------------------------------------------

    def compute(self) -> None:
        """Find the status of every cindex that the outputs may need. Raises CompileError: a recurrence without end."""
        distance, passes = 0, _FIRST_PASSES
        while True:
            self._expand(passes)
            self._find_status()
            if self._expanded[:self.size].all():
                return
            self._wanted[:self.size] = self._reached(self._possible_dependencies)
            if not (self._wanted[:self.size] > self._expanded[:self.size]).any():
                return
            distance += passes
            if distance >= MAX_DISTANCE:
                raise CompileError("Loop detected while building computation graph (bad network topology?)",
                                   "a recurrence goes back in time without end: no node in it needs an input")
            passes = min(2 * passes, MAX_DISTANCE - distance)

    def _expand(self, passes: int) -> None:
        """Add possible dependencies of wanted cindexes, and in turn theirs, ``passes`` times round a recurrence."""
        for group, is_recurrence in reversed(self._groups):
            for _ in range(passes):
                dependencies = [self._expand_node(node) for node in reversed(group)]
                if not is_recurrence or not any(dependencies):
                    break

    def _expand_node(self, node: int) -> bool:
        table = self.tables[node]
        ids = table.ids
        ids = ids[self._wanted[ids] > self._expanded[ids]]
        if not len(ids):
            return False
        self._expanded[ids] = True
        table.set_dependencies(self.row[ids], self._dependencies(node, ids))
        return True

    def _dependencies(self, node: int, ids: np.ndarray) -> np.ndarray:
        """Return the possible dependencies of cindexes of ``node``, int64 (cindexes, choices), -1 for none.

        New cindexes among them are added.
        """
        rule, last = self.rules[node], self._last
        if rule.shifts is not None:
            keys = self.key[ids]
            columns = [self._find_or_add(last[source], self.space.shifted(keys, t)) for source, t in rule.shifts]
            dependencies = np.stack(columns, axis=1) if len(columns) > 1 else columns[0][:, None]
            self._wanted[dependencies] = True
            return dependencies
        if rule.is_pointwise:
            dependencies = self._find_or_add(last[rule.sources()[0]], self.key[ids])[:, None]
            self._wanted[dependencies] = True
            return dependencies
        nodes, wanted = rule.dependencies(self.space.indexes(self.key[ids]))
        dependencies = np.full(nodes.shape, -1, np.int64)
        if wanted.shape[1]:
            keys = self.space.keys(wanted)
            real = wanted[..., 1] != NO_TIME
            self.tables[node].has_gaps |= not real.all()
            for source in rule.sources():
                chosen = real & (nodes == source)
                dependencies[chosen] = numbers = self._find_or_add(last[source], keys[chosen])
                self._wanted[numbers] = True
        return dependencies

    def _find_status(self) -> None:
        """Decide which cindexes are computable; the status of those that are not expanded yet stays unknown."""
        for group, is_recurrence in self._groups:
            while any([self._find_status_at(node) for node in group]) and is_recurrence:
                pass

    def _find_status_at(self, node: int) -> bool:
        """Decide the status of cindexes of ``node``; returns whether the status of any changed."""
        table, rule = self.tables[node], self.rules[node]
        ids = table.ids
        ids = ids[(self.status[ids] == UNKNOWN) & self._expanded[ids]]
        if not len(ids):
            return False
        dependencies = table.dependencies if len(ids) == len(table.ids) else table.dependencies[self.row[ids]]
        if rule.is_pointwise:
            self.status[ids] = status = self.status[dependencies[:, 0]]
            return bool((status != UNKNOWN).any())
        status = self.status[dependencies]
        if table.has_gaps:
            status[dependencies < 0] = NOT_COMPUTABLE
        elif rule.uses_all and (status == COMPUTABLE).all():
            table.all_used = len(ids) == len(table.ids)
            self.status[ids] = COMPUTABLE
            return True
        indexes = self.space.indexes(self.key[ids])
        computable, used = rule.computable(indexes, status == COMPUTABLE)
        possible = computable
        if (status == COMPUTABLE).all() and len(ids) == len(table.ids) and used.all() and computable.all():
            table.all_used = True
            self.status[ids] = COMPUTABLE
            return True
        if (status == UNKNOWN).any():
            possible = rule.computable(indexes, status != NOT_COMPUTABLE)[0]
        self.status[ids[computable]] = COMPUTABLE
        self.status[ids[~possible]] = NOT_COMPUTABLE
        return bool((computable | ~possible).any())

    def _reached(self, follow: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
        """Return which cindexes can be reached from the outputs along dependencies, bool (size,).

        ``follow(node, ids)`` returns the dependencies to follow from cindexes of a node.
        """
        reached, seen = np.zeros(self.size + 1, bool), np.zeros(self.size + 1, bool)   # the last element stands for -1
        for ids in self.output_ids:
            reached[ids] = True
        for group, is_recurrence in reversed(self._groups):
            more = True
            while more:
                more = False
                for node in reversed(group):
                    ids = self.tables[node].ids
                    ids = ids[reached[ids] > seen[ids]]
                    if len(ids):
                        seen[ids] = True
                        reached[follow(node, ids)] = True
                        more = is_recurrence
        return reached[:-1]

    def _possible_dependencies(self, node: int, ids: np.ndarray) -> np.ndarray:
        return np.asarray(self.tables[node].dependencies[self.row[ids[self.status[ids] != NOT_COMPUTABLE]]])

    # -- the store of cindexes -------------------------------------------------------------------------------------

    def _find_or_add(self, node: int, keys: np.ndarray) -> np.ndarray:
        """Return the numbers of cindexes of ``node`` by their keys; adds those that are new."""
        table = self.tables[node]
        new = keys
        if len(table.ids):
            ids = table.find(keys)
            new = keys[ids < 0]
            if not len(new):
                return ids
        new = distinct(new)
        first = self.size
        self._grow(first + len(new))
        fresh = np.arange(first, self.size)
        self.node[first:self.size], self.key[first:self.size] = node, new
        self.row[first:self.size] = fresh + (len(table.ids) - first)
        table.add(new, fresh)
        return fresh if new is keys else table.find(keys)

    def _grow(self, size: int) -> None:
        if size > len(self.status):
            for name in ("status", "node", "row", "key", "is_input", "_expanded", "_wanted"):
                old = getattr(self, name)
                larger = np.zeros(2 * size, old.dtype)
                larger[:len(old)] = old
                setattr(self, name, larger)
        self.size = size

    # -- results ---------------------------------------------------------------------------------------------------

    def computable_outputs(self) -> list[np.ndarray]:
        """Return for each output which rows of ``sequences.outputs`` are computable. Kaldi: GetComputableInfo."""
        return [self.status[ids] == COMPUTABLE for ids in self.output_ids]

    def prune(self) -> Graph:
        """Return the graph of all given cindexes, and of those that the outputs use."""
        all_computable = bool((self.status[:self.size] == COMPUTABLE).all())
        used = [self._used(node, all_computable) for node in range(len(self.rules))]
        everything = all_computable and all(choices is table.dependencies
                                            for choices, table in zip(used, self.tables, strict=True))
        kept = [table.key_ids for table in self.tables]
        if not everything:
            required = self._reached(lambda node, ids: used[node][self.row[ids]]) | self.is_input[:self.size]
            kept = [ids[required[ids]] for ids in kept]
        first = self.chains.first if self.chains else self._last
        sizes = [len(kept[node]) for node in self._last]
        offsets = np.cumsum([0, *sizes])
        bounds = offsets.tolist()
        places, ones = np.arange(bounds[-1]), np.ones(max(sizes), np.int64)
        number = np.full(self.size, -1)
        for node, ids in enumerate(kept):
            if len(ids):
                number[ids] = places[bounds[node]:bounds[node + 1]]
        lengths, dependencies = [], []
        for node, last in enumerate(self._last):
            size = sizes[node]
            if first[node] != node:      # the rows are those of the node before it in the chain
                before = bounds[self._all_rules.sources[node][0]]
                dependencies.append(places[before:before + size])
                lengths.append(ones[:size])
                continue
            table, ids = self.tables[last], kept[last]
            choices = used[last] if ids is table.ids else used[last][self.row[ids]]
            if everything and not table.has_gaps:
                dependencies.append(number[choices].ravel())
                lengths.append(ones[:size] * choices.shape[1])
            else:
                is_used = choices >= 0
                lengths.append(is_used.sum(axis=1))
                dependencies.append(number[choices[is_used]])
        numbers = np.concatenate([kept[last] for last in self._last])
        return Graph(self.sequences, offsets, self.space.indexes(self.key[numbers]), self.is_input[numbers],
                     np.concatenate(([0], np.cumsum(np.concatenate(lengths)))), np.concatenate(dependencies),
                     chains=self.chains)

    def _used(self, node: int, all_computable: bool) -> np.ndarray:
        """Return the dependencies that each cindex of the node's table uses, -1 in place of unused ones.

        ``dependencies`` itself is returned if all are used.
        """
        table = self.tables[node]
        dependencies = table.dependencies
        if table.all_used or not dependencies.size or (all_computable and self.rules[node].is_pointwise):
            return dependencies
        available = (dependencies >= 0) & (self.status[dependencies] == COMPUTABLE)
        if self.rules[node].is_pointwise:
            return np.where(available, dependencies, -1)
        used = self.rules[node].computable(self.space.indexes(self.key[table.ids]), available)[1] & available
        used[self.status[table.ids] != COMPUTABLE] = False
        return np.where(used, dependencies, -1) if (used != (dependencies >= 0)).any() else dependencies


def graph_builder(nnet: Nnet, request: ComputationRequest, share: bool = True,
                  join: bool = False) -> GraphBuilder:
    """Return a builder of the graph of ``request``.

    Parameters
    ----------
    share : whether sequences of one shape are built as one; false is slower, with the same result
    join : whether nodes that need the same rows are handled as one (same result)

    Raises
    ------
    Nnet3Error : the network has no input or output of a name in the request
    """
    rules = node_rules(nnet)
    inputs = [io_node(nnet, io.name, "input") for io in request.inputs]
    outputs = [io_node(nnet, io.name, "output") for io in request.outputs]
    # The input of a component node whose values are given has other rows: only those that are computed.
    of_components = [source for node in inputs for source in rules.sources[node]]
    chains = rules.chains((*inputs, *of_components, *outputs)) if join else None
    return GraphBuilder(rules, Sequences.of(request, share), inputs, outputs, chains)


def io_node(nnet: Nnet, name: str, kind: str) -> int:
    """Return the node of an input or output (``kind``) of a request.

    An input is an input node, or a component node whose values the caller has from an earlier computation. Raises
    Nnet3Error: there is no such node.
    """
    names = nnet.node_names
    fits = nnet.is_input if kind == "input" else nnet.is_output
    if name in names and (fits(names.index(name)) or (kind == "input" and nnet.is_component(names.index(name)))):
        return names.index(name)
    possible = ", ".join(n for i, n in enumerate(names) if fits(i))
    raise Nnet3Error(f"Network has no {kind} with name {name}", f"its {kind}s are {possible or 'none'}")
