"""Conversion of descriptors into operations that read rows of nodes, and masks of the times that can be computed."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.export.operations import STREAM_TIME, Builder, FixedChunks, Value
from nnet3py.export.times import ALWAYS, Interval, LeafMap, Times, Window, leaf_map, statistics_reach
from nnet3py.network.descriptor import Const, Descriptor, Failover, IfDefined, Leaf, Part
from nnet3py.network.structure import ComponentNode, DescriptorNode, InputNode


@dataclass(frozen=True)
class When:
    """Times of some rows, as a value of the graph."""

    times: Value    # int64 vector of times
    # bounds: all times are from ``lo`` to E + ``hi``, where E is the time of the last output
    lo: int
    hi: int


class Frames:
    """Values of nodes outside recurrences, and the operations by which descriptors read their rows.

    Parameters
    ----------
    builder : list to which the operations are appended
    times : times at which nodes are needed and can be computed
    streaming : whether nodes keep frames for later chunks
    chunks : sizes of the chunks if all have the same size, else None
    """

    def __init__(self, builder: Builder, times: Times, streaming: bool = False,
                 chunks: FixedChunks | None = None) -> None:
        self.builder, self.times, self.nnet, self.chunks = builder, times, times.nnet, chunks
        self.kept_frames = times.kept_frames() if streaming else None
        self._joined: dict[int, Value] = {}
        self.values: dict[int, Value] = {}
        self._asked: set[int] = set()

    def descriptor(self, descriptor: Descriptor, window: Window | None) -> Value:
        """Concatenate the columns of a descriptor's parts, at the times ``window``.

        ``window`` is None for a descriptor whose value is the same at all times.
        """
        return self.beside([self.part(part, window) for part in descriptor.parts], window)

    def beside(self, values: list[Value], window: Window | None) -> Value:
        """Concatenate the columns of values; values with one frame are repeated if others have more."""
        if len(values) == 1:
            return values[0]
        if all(v.is_constant for v in values):            # for one sequence or for all
            values = [self.builder.op("expand", v, frames=1) for v in values]
        values = [self.expanded(v, window) for v in values]
        return self.builder.op("concat", *values, dim=sum(v.dim for v in values))

    def expanded(self, value: Value, window: Window | None) -> Value:
        """Repeat a value that has one frame for all times of the window; return other values unchanged."""
        if not value.is_constant:
            return value
        assert window is not None
        return self.builder.op("expand", value, lo=window.lo, hi=window.hi, step=window.step, constant=False)

    def part(self, part: Part, window: Window | None) -> Value:
        """Return the value of a part of a descriptor at the times ``window``."""
        if isinstance(part, Leaf):
            return self.scaled(self.leaf(leaf_map(part), window), part)
        if isinstance(part, Const):
            name = self.builder.constant(f"{self.builder.scope}/const", np.full((1, 1, part.width), part.value, "f4"))
            return Value(name, part.width, True)
        children = [self.part(child, window) for child in part.children()]
        if isinstance(part, IfDefined):
            return self.kept(children[0], part.child, window)
        if isinstance(part, Failover):
            return self.chosen(children[0], children[1], part.a, window)
        return self.builder.op("add", *children)

    def scaled(self, value: Value, part: Part) -> Value:
        """Multiply the value of a leaf by the scale of its sources."""
        scales = {source.scale for source in part.sources()}
        if scales == {1.0}:
            return value
        if len(scales) > 1:
            raise Nnet3Error(f"a Switch() of sources with different scales cannot be exported: {sorted(scales)}",
                             "make each scaled source a component-node of its own, with a NoOpComponent")
        return self.builder.op("scale", value, by=scales.pop())

    def kept(self, value: Value, part: Part, window: Window | None) -> Value:
        """Replace a value by zero at the times at which ``part`` cannot be computed, as IfDefined() does."""
        mask = None if window is None else self.can_part(part, self.when(window))
        return value if mask is None else self.builder.op("keep", self.expanded(value, window), mask)

    def chosen(self, first: Value, second: Value, part: Part, window: Window | None) -> Value:
        """Return ``first`` at the times at which ``part`` can be computed, else ``second``, as Failover() does."""
        mask = None if window is None else self.can_part(part, self.when(window))
        if mask is None:
            return first
        return self.builder.op("choose", mask, self.expanded(first, window), self.expanded(second, window),
                               dim=first.dim, constant=False)

    def leaf(self, table: LeafMap, window: Window | None) -> Value:
        """Return the rows of its source nodes that a leaf of a descriptor reads, at the times ``window``."""
        if all(self.times.constant[n] for n in table.nodes):
            if len(set(table.nodes)) == 1:
                return self.values[table.nodes[0]]
            assert window is not None
        assert window is not None, "only values with one frame are the same at all times"
        if table.is_plain:
            return self.read(table.nodes[0], table.offsets[0], window)
        rows = None
        for node in sorted(set(table.nodes)):
            value = self._by_residue(table, node, window)
            if rows is None:
                rows = value
                continue
            mask = self.builder.shared("table_bool", self.when(window).times,
                                       table=tuple(int(n == node) for n in table.nodes))
            rows = self.builder.op("choose", mask, value, rows, dim=value.dim)
        assert rows is not None
        return rows

    def _by_residue(self, table: LeafMap, node: int, window: Window) -> Value:
        """Return the rows of one node that a leaf reads, with an offset that depends on t modulo the leaf's modulus."""
        if self.times.constant[node]:
            return self.expanded(self.values[node], window)
        return self._rows_at(node, self._moved(table, node, self.when(window)))

    def _rows_at(self, node: int, when: When) -> Value:
        """Return the rows of a node at the times ``when``; rows that it lacks are copies of its first or last row."""
        value, source = self.available(node), self.times.windows[node]
        rows = self.builder.op("rows_of", when.times, value, lo=source.lo, hi=source.hi, step=source.step, dim=0)
        return self.builder.op("take_rows", value, rows)

    def row_numbers(self, node: int, times: Value, x: Value) -> Value:
        """Return the index in ``x``, a value of the node, of the row for each of ``times``.

        The index is negative or too large for times at which ``x`` has no row.
        """
        source = self.times.windows[node]
        return self.builder.op("row_numbers", times, x, lo=source.lo, hi=source.hi, step=source.step, dim=0)

    def own_times(self, node: int, x: Value) -> When:
        """Return the times of the rows of ``x``, a value of the node."""
        source = self.times.windows[node]
        if self.kept_frames is None:
            return self.when(source)
        self._add_time_state()
        return When(self.builder.op("times_of", x, hi=source.hi, step=source.step, dim=0),
                    -ALWAYS if self.chunks else source.lo, source.hi)

    def _moved(self, table: LeafMap, node: int, when: When) -> When:
        """Return the times at which a leaf reads a node, for the leaf's values at the times ``when``."""
        offsets = tuple(o if n == node else 0 for o, n in zip(table.offsets, table.nodes, strict=True))
        moved = self.builder.shared("table_int", when.times, table=offsets)
        if table.fixed:
            return When(moved, min(offsets), max(offsets))
        return When(self.builder.shared("int_sum", when.times, moved), when.lo + min(offsets), when.hi + max(offsets))

    def read(self, node: int, offset: int, window: Window) -> Value:
        """Return rows of a node at the window's times plus ``offset``; missing ones are copies of the first or last."""
        value = self.values[node]
        if value.is_constant:
            return value
        source, kept = self.times.windows[node], self.kept_frames[node] if self.kept_frames else 0
        start, rest = divmod(window.lo + offset - source.lo, source.step)
        later = kept + (window.hi + window.step + offset - source.hi - source.step) // source.step
        stop, step = (source.hi - window.hi - offset) // source.step, window.step // source.step
        assert rest == 0 and window.step % source.step == 0
        if start < 0 or stop < 0 or self._is_growing(node):
            return self._rows_at(node, self.shifted(self.when(window), offset))
        value = self.available(node)
        if self.kept_frames is None:
            later = start
        if self.chunks:
            start = later
        if (start, later, stop, step) == (0, 0, 0, 1):
            return value
        return self.builder.op("slice_time", value, start=start, later_start=later, stop=stop, step=step)

    def _is_growing(self, node: int) -> bool:
        """Return whether a node may need several chunks of a stream to have all frames that later chunks read."""
        if self.kept_frames is None or self.chunks:
            return False
        source = self.times.windows[node]
        return (source.hi - source.lo) // source.step + 1 < self.kept_frames[node]

    def available(self, node: int) -> Value:
        """Return all rows of a node: in a stream, those kept from earlier chunks, followed by those of this chunk."""
        value, kept = self.values[node], self.kept_frames[node] if self.kept_frames else 0
        if value.is_constant or not kept:
            return value
        if node not in self._joined:
            name = f"cache.{self.nnet.nodes[node].name}"
            before = self.builder.state(name, value.dim, kept, kept if self.chunks else 0, self._is_growing(node))
            self._joined[node] = self.builder.next_state(name, before, value)
        return self._joined[node]

    def when(self, window: Window) -> When:
        """Return the times of a window."""
        self._add_time_state()
        times = self.builder.shared("times", lo=window.lo, hi=window.hi, step=window.step)
        return When(times, window.lo, window.hi)

    def _add_time_state(self) -> None:
        """Add the state that holds the time at which a chunk of a stream begins, unless it exists already."""
        if self.kept_frames is not None and STREAM_TIME not in self.builder.names:
            state = self.builder.state(STREAM_TIME, 1, 1, 1)
            scope, self.builder.scope = self.builder.scope, ""
            again = self.nnet.modulus() * self.times.factor
            self.builder.set_next(STREAM_TIME, self.builder.op("next_time", state, again=again))
            self.builder.scope = scope

    def shifted(self, when: When, offset: int) -> When:
        """Return the times plus an offset."""
        if not offset:
            return when
        return When(self.builder.shared("int_add", when.times, value=offset), when.lo + offset, when.hi + offset)

    def _all(self, masks: list[Value | None]) -> Value | None:
        together = None
        for mask in masks:
            if mask is not None:
                together = mask if together is None else self.builder.shared("and", together, mask)
        return together

    def _within(self, interval: Interval, when: When) -> Value | None:
        if when.lo >= interval.lo and when.hi <= interval.hi:
            return None
        return self.builder.shared("is_in", when.times, lo=max(interval.lo, -ALWAYS), hi=min(interval.hi, ALWAYS))

    def can_node(self, i: int, when: When) -> Value | None:
        """Return a mask, true for those of the times ``when`` at which a node can be computed; None: all of them."""
        interval, node = self.times.computable[i], self.nnet.nodes[i]
        if self.times.constant[i]:
            return None
        is_statistics = isinstance(node, ComponentNode) and statistics_reach(self.nnet.component_of(i))
        if interval.exact or is_statistics or isinstance(node, InputNode):
            return self._within(interval, when)
        if i in self._asked:
            raise Nnet3Error(f"node '{node.name}' is in a recurrence: at which times it can be computed depends on "
                             "itself, which cannot be exported", "use IfDefined() in the recurrence")
        self._asked.add(i)
        if isinstance(node, DescriptorNode):
            mask = self._all([self.can_part(part, when) for part in node.descriptor.parts])
        else:
            mask = self._all([self.can_node(r.source, self.shifted(when, r.first)) for r in self.times.reads(i)
                              if not r.is_optional])
        self._asked.discard(i)
        return mask

    def can_part(self, part: Part, when: When) -> Value | None:
        """Return a mask, true for those of the times ``when`` at which a part can be computed; None: all of them."""
        if isinstance(part, IfDefined | Const):
            return None
        if isinstance(part, Failover):
            a, b = self.can_part(part.a, when), self.can_part(part.b, when)
            return None if a is None or b is None else self.builder.shared("or", a, b)
        if not isinstance(part, Leaf):
            return self._all([self.can_part(child, when) for child in part.children()])
        table = leaf_map(part)
        if table.is_plain:
            return self.can_node(table.nodes[0], self.shifted(when, table.offsets[0]))
        nodes = sorted(set(table.nodes))
        masks = [None if self.times.constant[n] else self.can_node(n, self._moved(table, n, when)) for n in nodes]
        if all(mask is None for mask in masks):
            return None
        can = None
        for node, mask in zip(nodes, masks, strict=True):
            chosen = self.builder.shared("table_bool", when.times, table=tuple(int(n == node) for n in table.nodes))
            both = chosen if mask is None else self.builder.shared("and", chosen, mask)
            can = both if can is None else self.builder.shared("or", can, both)
        return can

