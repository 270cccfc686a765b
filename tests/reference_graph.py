"""The computation graph by plain queues and dictionaries: slow, and easy to hold against Kaldi's description."""
from __future__ import annotations

from collections import deque

import numpy as np

from nnet3py.index import NO_TIME
from nnet3py.network.descriptor import Const, Failover, IfDefined, Offset, ReplaceIndex, Round, Source, Sum, Switch
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import ComponentNode, DimRangeNode, InputNode

Cindex = tuple[int, tuple[int, int, int]]
UNKNOWN, COMPUTABLE, NOT_COMPUTABLE = range(3)


class EndlessError(Exception):
    """The distance limit was reached; ``has_cycle`` if cindexes depend on each other, which keeps their counts up."""

    def __init__(self, has_cycle: bool) -> None:
        self.has_cycle = has_cycle


class ReferenceGraph:
    """Build with all inputs and outputs as (node, [(n, t, x), …]); then :meth:`pruned` has the result."""

    def __init__(self, nnet: Nnet, inputs: list[tuple[int, list]], outputs: list[tuple[int, list]], limit: int) -> None:
        self.nnet = nnet
        self.status: dict[Cindex, int] = {}
        self.count: dict[Cindex, int] = {}
        self.dependencies: dict[Cindex, list[Cindex]] = {}
        self.consumers: dict[Cindex, list[Cindex]] = {}
        self.inputs = [(node, tuple(i)) for node, rows in inputs for i in rows]
        self.outputs = [(node, tuple(i)) for node, rows in outputs for i in rows]
        for c in self.inputs:
            self.status[c], self.count[c] = COMPUTABLE, 0
        for c in self.outputs:
            self.status[c], self.count[c] = UNKNOWN, 1
        self.next: deque[Cindex] = deque(self.outputs)
        self.queued = set(self.outputs)
        self._run(limit)

    def _run(self, limit: int) -> None:
        distance = 0
        while self.next:
            if distance >= limit:
                raise EndlessError(self._has_cycle())
            current, self.next = self.next, deque()
            while current:
                c = current.popleft()
                self.queued.discard(c)
                if c not in self.dependencies and self.count[c]:
                    self._expand(c)
                    self._queue(c)
                elif self.status[c] == UNKNOWN and self.count[c]:
                    self._update(c)
            distance += 1

    def _has_cycle(self) -> bool:
        waiting = {c: len(found) for c, found in self.dependencies.items()}
        free = [c for c in self.status if not waiting.get(c)]
        while free:
            for user in self.consumers.get(free.pop(), []):
                waiting[user] -= 1
                if not waiting[user]:
                    free.append(user)
        return any(waiting.values())

    def _queue(self, c: Cindex) -> None:
        if c not in self.queued:
            self.queued.add(c)
            self.next.append(c)

    def _expand(self, c: Cindex) -> None:
        self.dependencies[c] = []
        for d in dict.fromkeys(self.possible(c)):
            if d not in self.status:
                self.status[d], self.count[d] = UNKNOWN, 0
                self._queue(d)
            self.dependencies[c].append(d)
            self.consumers.setdefault(d, []).append(c)
            self._increment(d)

    def _increment(self, c: Cindex) -> None:
        self.count[c] += 1
        if self.count[c] == 1 and self.status[c] != NOT_COMPUTABLE:
            for d in self.dependencies.get(c, []):
                self._increment(d)
            if self.status[c] == UNKNOWN:
                self._queue(c)

    def _decrement(self, c: Cindex) -> None:
        self.count[c] -= 1
        if self.count[c] == 0 and self.status[c] != NOT_COMPUTABLE:
            for d in self.dependencies.get(c, []):
                self._decrement(d)

    def _update(self, c: Cindex) -> None:
        if self.computable(c, lambda d: self.status.get(d) == COMPUTABLE)[0]:
            self.status[c] = COMPUTABLE
        elif not self.computable(c, lambda d: self.status.get(d, NOT_COMPUTABLE) != NOT_COMPUTABLE)[0]:
            self.status[c] = NOT_COMPUTABLE
        if self.status[c] == UNKNOWN:
            return
        for other in self.consumers.get(c, []):
            if self.status[other] == UNKNOWN:
                self._queue(other)
        if self.status[c] == NOT_COMPUTABLE:
            for d in self.dependencies[c]:
                self._decrement(d)

    # -- rules of the nodes ----------------------------------------------------------------------------------------

    def possible(self, c: Cindex) -> list[Cindex]:
        node = self.nnet.nodes[c[0]]
        if isinstance(node, InputNode):
            return []
        if isinstance(node, DimRangeNode):
            return [(node.source, c[1])]
        if isinstance(node, ComponentNode):
            wanted = self.nnet.component_of(c[0]).input_indexes(np.array([c[1]], np.int32))[0]
            return [(c[0] - 1, tuple(i)) for i in wanted.tolist() if i[1] != NO_TIME]
        return [row for part in node.descriptor.parts for row in self._leaves(part, c[1])]

    def _leaves(self, part, index) -> list[Cindex]:
        if isinstance(part, Sum | Failover):
            return self._leaves(part.a, index) + self._leaves(part.b, index)
        if isinstance(part, IfDefined):
            return self._leaves(part.child, index)
        return [] if isinstance(part, Const) else [self._forward(part, index)]

    def _forward(self, leaf, index) -> Cindex:
        n, t, x = index
        if isinstance(leaf, Source):
            return leaf.node, index
        if isinstance(leaf, Offset):
            return self._forward(leaf.child, (n, t + leaf.t, x + leaf.x))
        if isinstance(leaf, Round):
            return self._forward(leaf.child, (n, t - t % leaf.step, x))
        if isinstance(leaf, ReplaceIndex):
            return self._forward(leaf.child, (n, leaf.value, x) if leaf.variable == "t" else (n, t, leaf.value))
        assert isinstance(leaf, Switch)
        return self._forward(leaf.alternatives[t % len(leaf.alternatives)], index)

    def computable(self, c: Cindex, available) -> tuple[bool, list[Cindex]]:
        node = self.nnet.nodes[c[0]]
        if isinstance(node, InputNode):
            return c in self.inputs, []
        if isinstance(node, ComponentNode | DimRangeNode):
            wanted = self.possible(c)
            return all(available(d) for d in wanted), wanted
        found = [self._part(part, c[1], available) for part in node.descriptor.parts]
        return all(ok for ok, _ in found), [d for _, used in found for d in used]

    def _part(self, part, index, available) -> tuple[bool, list[Cindex]]:
        if isinstance(part, Const):
            return True, []
        if isinstance(part, IfDefined):
            ok, used = self._part(part.child, index, available)
            return True, used if ok else []
        if isinstance(part, Sum | Failover):
            (a, used_a), (b, used_b) = (self._part(side, index, available) for side in (part.a, part.b))
            if isinstance(part, Sum):
                return a and b, used_a + used_b
            return a or b, used_a if a else used_b
        d = self._forward(part, index)
        return available(d), [d]

    # -- result ----------------------------------------------------------------------------------------------------

    def uncomputable_outputs(self) -> list[Cindex]:
        return [c for c in self.outputs if self.status[c] != COMPUTABLE]

    def pruned(self) -> dict[Cindex, set[Cindex]]:
        """Each kept cindex and what it uses."""
        kept: dict[Cindex, set[Cindex]] = {c: set() for c in self.inputs}
        queue = deque(self.outputs)
        while queue:
            c = queue.popleft()
            if c in kept:
                continue
            kept[c] = set(self.computable(c, lambda d: self.status.get(d) == COMPUTABLE)[1])
            queue.extend(kept[c])
        return kept
