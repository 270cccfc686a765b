"""Times at which each node of a network is needed, and at which it can be computed.

All intervals are static: an interval (lo, hi) stands for the times lo, ..., E + hi, where E is the time of the last
output, known only when the network runs. Nodes that are needed only at multiples of the frame subsampling factor have
this factor as their step.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.components.base import Component, Properties
from nnet3py.errors import Nnet3Error
from nnet3py.network.descriptor import Const, Failover, IfDefined, Leaf, Part
from nnet3py.network.nnet import Nnet
from nnet3py.network.recurrence import strong_components
from nnet3py.network.structure import ComponentNode, DescriptorNode, DimRangeNode, InputNode

ALWAYS = 1 << 40          # beyond any time


class LeafMap(NamedTuple):
    """Rows that a leaf of a descriptor reads, as a table by t modulo the length of the table."""

    nodes: tuple[int, ...]      # the node that is read
    offsets: tuple[int, ...]    # the row's time minus t; if ``fixed``, the row's time itself
    fixed: bool                 # whether the same rows are read at all t, as with ReplaceIndex()

    @property
    def is_plain(self) -> bool:
        """True if the leaf reads one node at one offset for all t."""
        return len(set(self.nodes)) == 1 and len(set(self.offsets)) == 1 and not self.fixed


def leaf_map(leaf: Leaf) -> LeafMap:
    """Return the rows that a leaf reads, for each t modulo the leaf's modulus.

    Raises Nnet3Error if the rows for some t depend on t and those for others do not.
    """
    modulus = leaf.modulus()
    indexes = np.zeros((2 * modulus, 3), np.int32)
    indexes[:, 1] = np.arange(2 * modulus)
    nodes, mapped = leaf.map(indexes)
    times = mapped[:, 1].astype(int)
    is_fixed = times[:modulus] == times[modulus:]
    fixed = bool(is_fixed.all())
    if is_fixed.any() and not fixed:
        raise Nnet3Error("a Switch() of a frame with a fixed number and of other frames cannot be exported",
                         "make the frame with a fixed number a component-node of its own, with a NoOpComponent")
    offsets = times[:modulus] if fixed else times[:modulus] - np.arange(modulus)
    return LeafMap(tuple(nodes[:modulus].tolist()), tuple(offsets.tolist()), fixed)


class Interval(NamedTuple):
    """Interval of times from ``lo`` to E + ``hi``, where E is the time of the last output.

    ``exact`` is False if it only bounds the times in question: they are not all in it, or depend on E otherwise.
    """

    lo: int = -ALWAYS
    hi: int = ALWAYS
    exact: bool = True

    def both(self, other: Interval) -> Interval:
        """Return the intersection."""
        return Interval(max(self.lo, other.lo), min(self.hi, other.hi), self.exact and other.exact)

    def either(self, other: Interval) -> Interval:
        """Return the union; it is not exact if there may be a gap between the intervals."""
        joined = self.lo <= other.hi + 1 and other.lo <= self.hi + 1
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi), self.exact and other.exact and joined)

    def shifted(self, offset: int) -> Interval:
        """Return the times t with t + offset in the interval."""
        return Interval(max(self.lo - offset, -ALWAYS), min(self.hi - offset, ALWAYS), self.exact)


NEVER = Interval(ALWAYS, -ALWAYS)


@dataclass
class Window:
    """Times of the rows of a node: lo, lo + step, ..., E + hi."""

    lo: int
    hi: int
    step: int = 1


class Read(NamedTuple):
    """Rows of another node that a node reads for its row at time t."""

    source: int          # index of the node that is read
    # the rows have the times t + first to t + last; if ``fixed``, first to last
    first: int
    last: int
    is_optional: bool    # whether the node can be computed without them
    fixed: bool = False
    # the rows are read only for t = residue (mod modulus)
    residue: int = 0
    modulus: int = 1


def component_offsets(component: Component) -> tuple[list[int], list[bool]]:
    """Return the times of a component's inputs, relative to the output's, and which of them are required."""
    if component.has(Properties.SIMPLE):
        return [0], [True]
    probe = np.zeros((1, 3), np.int32)
    times = component.input_indexes(probe)[0, :, 1].tolist()
    available = ~np.eye(len(times), dtype=bool)
    required = [not component.is_computable(probe, row[None])[0][0] for row in available]
    return times, required


def statistics_reach(component: Component) -> tuple[int, int] | None:
    """Return the frames before and after t that a statistics component reads; None for other components."""
    kind = type(component).__name__
    if kind == "StatisticsExtractionComponent":
        return component.output_period - 1, component.output_period - 1         # type: ignore[attr-defined]
    if kind == "StatisticsPoolingComponent":
        return component.left_context, component.right_context                 # type: ignore[attr-defined]
    return None


class Times:
    """Times of all nodes of a network.

    Parameters
    ----------
    nnet : network in the form for inference
    outputs : nodes whose values are wanted, at multiples of ``factor``
    factor : frame subsampling factor
    context : frames before and after those of the outputs; None for the network's context
    is_stream : whether frames that are not needed yet are left to later chunks, which have more input for them
    find_windows : False to find only where nodes can be computed

    Attributes
    ----------
    order : groups of nodes, sources first; a group of several nodes, or of one that reads itself, is a recurrence
    windows : times at which each node is needed; nodes that are not needed, or constant, are missing
    computable : by node, the times at which it can be computed
    constant : by node, whether its value is the same at all times
    left, right : context of the network in frames
    """

    def __init__(self, nnet: Nnet, outputs: list[int], factor: int, context: tuple[int, int] | None = None,
                 is_stream: bool = False, find_windows: bool = True) -> None:
        self.nnet, self.outputs, self.factor, self.is_stream = nnet, outputs, factor, is_stream
        count = len(nnet.nodes)
        self._reads = [list(self._find_reads(i)) for i in range(count)]
        arcs = [sorted({read.source for read in reads}) for reads in self._reads]
        self.group_of = strong_components(arcs)
        groups: dict[int, list[int]] = {}
        for node, group in enumerate(self.group_of):
            groups.setdefault(group, []).append(node)
        self.order = [groups[g] for g in sorted(groups)]
        self.is_loop = [len(g) > 1 or g[0] in arcs[g[0]] for g in self.order]
        self.constant = self._find_constant()
        self.left, self.right = context or self._context()
        self.computable = self._find_computable()
        self.steps = self._find_steps()
        self._asked: set[int] = set()                # nodes whose times are being worked out
        self.windows: dict[int, Window] = {}
        self.shifts: dict[int, int] = {}             # for members of recurrences: at step s they have time s + shift
        if find_windows:
            self._find_windows()

    def _find_reads(self, i: int) -> Iterator[Read]:
        node = self.nnet.nodes[i]
        if isinstance(node, DimRangeNode):
            yield Read(node.source, 0, 0, False)
        elif isinstance(node, ComponentNode):
            component = self.nnet.component_of(i)
            reach = statistics_reach(component)
            if reach:
                yield Read(i - 1, -reach[0], reach[1], True)
                return
            offsets, required = component_offsets(component)
            for offset, is_required in zip(offsets, required, strict=True):
                yield Read(i - 1, offset, offset, not is_required)
        elif isinstance(node, DescriptorNode):
            for part in node.descriptor.parts:
                yield from self._part_reads(part, False)

    def _part_reads(self, part: Part, is_optional: bool) -> Iterator[Read]:
        if isinstance(part, Leaf):
            table = leaf_map(part)
            if self.is_stream and not (table.is_plain or table.fixed):
                for residue, (source, offset) in enumerate(zip(table.nodes, table.offsets, strict=True)):
                    yield Read(source, offset, offset, is_optional, False, residue, len(table.nodes))
                return
            for source in sorted(set(table.nodes)):
                offsets = [o for o, n in zip(table.offsets, table.nodes, strict=True) if n == source]
                yield Read(source, min(offsets), max(offsets), is_optional, table.fixed)
            return
        for child in part.children():
            yield from self._part_reads(child, is_optional or isinstance(part, IfDefined | Failover))

    def reads(self, i: int) -> list[Read]:
        """Return the reads of node i, without those of nodes that have the same value at all times."""
        return [read for read in self._reads[i] if not self.constant[read.source]]

    def _find_constant(self) -> list[bool]:
        constant = [False] * len(self.nnet.nodes)
        for group, is_loop in zip(self.order, self.is_loop, strict=True):
            for i in group:
                node = self.nnet.nodes[i]
                if isinstance(node, InputNode):
                    constant[i] = node.name == "ivector"
                else:
                    constant[i] = not is_loop and all(constant[read.source] for read in self._reads[i])
        return constant

    def _context(self) -> tuple[int, int]:
        if self.nnet.is_simple():
            return compute_simple_nnet_context(self.nnet)
        first, last = self._required_reach()
        return max(-first, 0), max(last, 0)

    def _required_reach(self) -> tuple[int, int]:
        """Return the lowest and highest time of input frames that the output at t = 0 requires."""
        reach: dict[int, tuple[int, int]] = dict.fromkeys(self.outputs, (0, 0))
        for group in reversed(self.order):
            for i in sorted(group, reverse=True):
                for read in self.reads(i):
                    if i in reach and not read.is_optional and read.source not in group:
                        lo, hi = reach.get(read.source, (ALWAYS, -ALWAYS))
                        reach[read.source] = min(lo, reach[i][0] + read.first), max(hi, reach[i][1] + read.last)
        inputs = [reach[i] for i in reach if self.nnet.is_input(i)]
        return min((lo for lo, _ in inputs), default=0), max((hi for _, hi in inputs), default=0)

    def _find_computable(self) -> list[Interval]:
        computable = [Interval()] * len(self.nnet.nodes)
        for group, is_loop in zip(self.order, self.is_loop, strict=True):
            for _ in range(len(group) + 1 if is_loop else 1):
                before = [computable[i] for i in group]
                for i in group:
                    computable[i] = self._computable_of(i, computable)
                if before == [computable[i] for i in group]:
                    break
        return computable

    def _computable_of(self, i: int, computable: list[Interval]) -> Interval:
        node = self.nnet.nodes[i]
        if isinstance(node, InputNode):
            return Interval() if self.constant[i] else Interval(-self.left, self.right)
        interval = Interval()
        if isinstance(node, DescriptorNode):
            for part in node.descriptor.parts:
                interval = interval.both(self._computable_part(part, computable))
            return interval
        if isinstance(node, ComponentNode):
            component, below = self.nnet.component_of(i), computable[i - 1]
            reach = statistics_reach(component)
            if reach:          # extraction: at the beginnings of periods; the other times are not read
                is_extraction = type(component).__name__ == "StatisticsExtractionComponent"
                return Interval(below.lo - reach[1], below.hi + (0 if is_extraction else reach[0]), False)
        for read in self._reads[i]:
            if not read.is_optional:
                interval = interval.both(computable[read.source].shifted(read.first))
        return interval

    def computable_part(self, part: Part) -> Interval:
        """Return the times at which a part of a descriptor can be computed."""
        return self._computable_part(part, self.computable)

    def _computable_part(self, part: Part, computable: list[Interval]) -> Interval:
        if isinstance(part, IfDefined | Const):
            return Interval()
        if isinstance(part, Failover):
            return self._computable_part(part.a, computable).either(self._computable_part(part.b, computable))
        if not isinstance(part, Leaf):
            interval = Interval()
            for child in part.children():
                interval = interval.both(self._computable_part(child, computable))
            return interval
        table = leaf_map(part)
        if table.is_plain:
            return computable[table.nodes[0]].shifted(table.offsets[0])
        if table.fixed:
            return Interval(exact=all(computable[n] == Interval() for n in table.nodes))
        moved = [self._with_residue(computable[n].shifted(o), r, len(table.nodes))
                 for r, (n, o) in enumerate(zip(table.nodes, table.offsets, strict=True))]
        return Interval(min(m.lo for m in moved), max(m.hi for m in moved), all(m == Interval() for m in moved))

    def _with_residue(self, interval: Interval, residue: int, modulus: int) -> Interval:
        """Shrink an interval so that it begins and ends at times t = residue (mod modulus).

        The end is moved in streams only, where E is known up to multiples of the modulus.
        """
        lo, hi, _ = interval
        if lo > -ALWAYS:
            lo += (residue - lo) % modulus
        if hi < ALWAYS and self.is_stream:          # the next chunk begins at a multiple of the network's modulus
            hi -= (hi - self.factor - residue) % modulus
        return Interval(lo, hi)

    def is_sure(self, part: Part, window: Window) -> bool:
        """Return whether a part of a descriptor can be computed at all times of a window."""
        sure = self._sure_part(part)
        return sure.lo <= window.lo and window.hi <= sure.hi

    def _sure_part(self, part: Part) -> Interval:
        """Return an interval in which a part can be computed at all times; there may be more such times outside."""
        if isinstance(part, IfDefined | Const):
            return Interval()
        if isinstance(part, Failover):
            first, second = self._sure_part(part.a), self._sure_part(part.b)
            joined = first.either(second)
            return joined if joined.exact else first
        if not isinstance(part, Leaf):
            return self._intersection(self._sure_part(child) for child in part.children())
        table = leaf_map(part)
        if table.fixed:
            return Interval() if all(self.constant[n] for n in table.nodes) else NEVER
        return self._intersection(self._sure_residue(table, r) for r in range(len(table.nodes)))

    def _sure_residue(self, table: LeafMap, residue: int) -> Interval:
        """Return an interval in which a leaf can be computed at all times t = residue modulo the leaf's modulus."""
        lo, hi, _ = self._sure(table.nodes[residue]).shifted(table.offsets[residue])
        last_not = lo - 1 - (lo - 1 - residue) % len(table.nodes)
        return Interval(max(last_not + 1, -ALWAYS) if lo > -ALWAYS else lo, hi)

    def _sure(self, i: int) -> Interval:
        """Return an interval in which node i can be computed at all times; there may be more such times outside."""
        if self.computable[i].exact:
            return self.computable[i]
        node = self.nnet.nodes[i]
        if i in self._asked or isinstance(node, ComponentNode) and statistics_reach(self.nnet.component_of(i)):
            return NEVER
        self._asked.add(i)
        if isinstance(node, DescriptorNode):
            sure = self._intersection(self._sure_part(part) for part in node.descriptor.parts)
        else:
            sure = self._intersection(self._sure(read.source).shifted(read.first) for read in self._reads[i]
                                      if not read.is_optional)
        self._asked.discard(i)
        return sure

    @staticmethod
    def _intersection(intervals: Iterable[Interval]) -> Interval:
        return reduce(Interval.both, intervals, Interval())

    def _find_steps(self) -> list[tuple[int, int]]:
        """Return (step, residue) of each node: it is needed only at times t = residue (mod step)."""
        factor, nodes = self.factor, self.nnet.nodes
        if factor == 1 or self.nnet.modulus() > 1 or any(statistics_reach(c) for c in self.nnet.components):
            return [(factor if i in self.outputs else 1, 0) for i in range(len(nodes))]
        needed: list[set[int]] = [set() for _ in nodes]
        waiting = [(i, 0) for i in self.outputs]
        while waiting:
            while waiting:
                i, residue = waiting.pop()
                if residue not in needed[i]:
                    needed[i].add(residue)
                    waiting += [(read.source, (read.first + (0 if read.fixed else residue)) % factor)
                                for read in self.reads(i)]
            for group, is_loop in zip(self.order, self.is_loop, strict=True):     # members of a loop go in one step
                if is_loop and len(set().union(*(needed[i] for i in group))) > 1:
                    waiting += [(i, r) for i in group for r in range(factor) if r not in needed[i]]
        return [(factor, min(r)) if len(r) == 1 and not self.nnet.is_input(i) else (1, 0) for i, r in enumerate(needed)]

    def _snapped(self, i: int, lo: int, hi: int) -> tuple[int, int]:
        """Shrink the interval from ``lo`` to ``hi`` so that both ends are at times at which node i is needed."""
        step, residue = self.steps[i]
        return lo + (residue - lo) % step, hi - (hi - residue) % step

    def _find_windows(self) -> None:
        need: dict[int, tuple[int, int]] = dict.fromkeys(self.outputs, (0, 0))
        for group, is_loop in zip(reversed(self.order), reversed(self.is_loop), strict=True):
            wanted = [i for i in group if i in need]
            if not wanted or self.constant[group[0]]:
                continue
            if is_loop:
                self._loop_windows(group, need)
            else:
                lo, hi = need[group[0]]
                self._set_window(group[0], lo, hi)
            for i in group:
                for read in self.reads(i):
                    if read.source not in group or not is_loop:
                        self._add_need(need, i, read)

    def _set_window(self, i: int, lo: int, hi: int) -> None:
        step, residue = self.steps[i]
        lo = min(lo, hi)
        self.windows[i] = Window(lo - (lo - residue) % step, hi + (residue - hi) % step, step)

    def _add_need(self, need: dict[int, tuple[int, int]], i: int, read: Read) -> None:
        lo, hi, _ = self._with_residue(Interval(self.windows[i].lo, self.windows[i].hi), read.residue, read.modulus)
        lo, hi = lo + read.first, hi + read.last
        if read.fixed:
            lo, hi = min(read.first, 0), max(read.last, 0)
        if read.is_optional:
            can = self.computable[read.source]
            least = -ALWAYS if self.is_stream else min(can.lo, can.hi)
            lo, hi = self._snapped(read.source, min(max(lo, can.lo), max(can.hi, can.lo)), max(min(hi, can.hi), least))
            lo = min(lo, hi)
        times_before = need.get(read.source)
        need[read.source] = (lo, hi) if times_before is None else (min(lo, times_before[0]), max(hi, times_before[1]))

    def _loop_windows(self, group: list[int], need: dict[int, tuple[int, int]]) -> None:
        backward = self.is_backward(group)
        shifts = self._find_shifts(group, backward, need)
        self.shifts.update(shifts)
        bases = [(need[i][0] - shifts[i], need[i][1] - shifts[i]) for i in group if i in need]
        lo, hi = min(b[0] for b in bases), max(b[1] for b in bases)
        margin = self._margin(group, shifts, backward)
        limits = {i: self._limits(i) for i in group}
        first = min((self._snapped(i, can.lo, 0)[0] - shifts[i] for i, can in limits.items() if abs(can.lo) < ALWAYS),
                    default=lo) - margin
        last = max((self._snapped(i, 0, can.hi)[1] - shifts[i] for i, can in limits.items() if abs(can.hi) < ALWAYS),
                   default=hi) + margin
        lo, hi = (lo, max(hi, last)) if backward else (min(lo, first), hi)
        for i in group:
            self._set_window(i, min(lo, hi) + shifts[i], hi + shifts[i])

    def _limits(self, i: int) -> Interval:
        """Return the interval in which node i is computable, without residues of t at which it never is."""
        node, can = self.nnet.nodes[i], self.computable[i]
        leaves = node.descriptor.leaves() if isinstance(node, DescriptorNode) else []
        tables = [table for table in map(leaf_map, leaves) if not (table.is_plain or table.fixed)]
        others = [(self.computable[n].shifted(o), len(table.nodes)) for table in tables
                  for n, o in zip(table.nodes, table.offsets, strict=True)]
        lo = min((other.lo - m for other, m in others if other.lo > -ALWAYS), default=can.lo)
        hi = max((other.hi + m for other, m in others if other.hi < ALWAYS), default=can.hi)
        return Interval(can.lo if can.lo > -ALWAYS else lo, can.hi if can.hi < ALWAYS else hi)

    def _margin(self, group: list[int], shifts: dict[int, int], backward: bool) -> int:
        """Return by how many frames a recurrence must begin earlier, as it reads nodes computable at all times."""
        sign, total = -1 if backward else 1, 0
        for i in group:
            for read in self.reads(i):
                if read.source in shifts and not -ALWAYS < self.computable[read.source].lo:
                    total += max(sign * (shifts[read.source] - shifts[i] - offset)
                                 for offset in (read.first, read.last))
        return total - total % -self.factor

    def kept_frames(self) -> dict[int, int]:
        """Return, by node, the number of its last frames that the next chunk of a stream reads; at least one is 1."""
        kept = dict.fromkeys(self.windows, 0)
        for group, is_loop in zip(self.order, self.is_loop, strict=True):
            for i in group:
                for read in self.reads(i) if i in self.windows else []:
                    if not (is_loop and read.source in group):
                        source, reader = self.windows[read.source], self.windows[i]
                        late = source.hi + source.step - reader.hi - reader.step - read.first
                        kept[read.source] = max(kept[read.source], -(-late // source.step))
        first = next((i for i in self.windows if self.nnet.is_input(i)), -1)
        if first >= 0:
            kept[first] = max(kept[first], 1)         # its length tells the first chunk from later ones
        return kept

    def is_backward(self, group: list[int]) -> bool:
        """Return whether a recurrence goes backward in time: its cycles read later frames."""
        start = dict.fromkeys(group, 0)
        return self._shifts_from(start, group, False) is None and self._shifts_from(start, group, True) is not None

    def _find_shifts(self, group: list[int], backward: bool, need: dict[int, tuple[int, int]]) -> dict[int, int]:
        """Return a shift for each node of a recurrence, so that step s of the loop computes its row at s + shift.

        They are chosen so that no node reads a row of a later step, and so that the last step of a node is the last
        row that is needed: later ones may require input that a stream does not have yet. Raises Nnet3Error if there
        are no such shifts.
        """
        ends = {}
        for i in group:
            if i in need:
                (lo, hi), (step, residue) = need[i], self.steps[i]
                ends[i] = lo - (lo - residue) % step if backward else hi + (residue - hi) % step
        shifts = self._shifts_from(ends, group, backward)
        if shifts is None:
            names = ", ".join(dict.fromkeys(self.nnet.nodes[i].name.removesuffix("_input") for i in group))
            raise Nnet3Error(f"the recurrence of {names} cannot be exported: it reads both earlier and later frames")
        return shifts

    def _shifts_from(self, ends: dict[int, int], group: list[int], backward: bool) -> dict[int, int] | None:
        """Return shifts as :meth:`_find_shifts`; ``ends`` has the last times of some nodes. None if impossible."""
        sign = -1 if backward else 1
        shifts = {i: sign * ends[i] if i in ends else -ALWAYS for i in group}
        for _ in range(len(group) + 1):
            changed = False
            for i in group:
                for read in self.reads(i):
                    if read.source in shifts:
                        furthest = max(sign * read.first, sign * read.last)
                        if shifts[read.source] < shifts[i] + furthest:
                            shifts[read.source], changed = shifts[i] + furthest, True
            if not changed:
                return {i: sign * shift for i, shift in shifts.items()}
        return None
