"""Conversion of a network into the list of operations, node by node, sources first; recurrences become loops."""
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.export import layers, limits
from nnet3py.export.descriptors import Frames
from nnet3py.export.limits import remove_unread_choices
from nnet3py.export.operations import Builder, Carried, FixedChunks, Graph, InputSpec, Loop, Op, Value, prune
from nnet3py.export.times import ALWAYS, Times, Window, component_offsets, leaf_map, statistics_reach
from nnet3py.network.descriptor import Const, Failover, IfDefined, Leaf, Part
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import ComponentNode, DescriptorNode, DimRangeNode, InputNode


@dataclass
class GraphOptions:
    """Options of a graph."""

    # "repeat": the first and last frames are repeated as nnet3-compute does; "given": the caller gives context;
    # "stream": the caller gives context, chunk by chunk; "none": no frames around the utterance, output at t = 0 only
    edges: str = "repeat"
    frame_subsampling_factor: int = 1    # frames of input for each row of output
    # float32 (output dim,), whose logarithms are subtracted from ``output``; None for none
    priors: np.ndarray | None = None
    log_softmax: bool = False            # whether a log-softmax follows ``output``
    apply_exp: bool = False              # whether the exponential of ``output`` is taken, for example of log-posteriors
    # with "stream", the rows of output of every chunk, if all chunks are alike; 0 if they are not
    fixed_chunk_outputs: int = 0


def _parts(nnet: Nnet) -> Iterator[Part]:
    """Yield all parts of descriptors, including nested ones."""
    waiting = [part for node in nnet.nodes if isinstance(node, DescriptorNode) for part in node.descriptor.parts]
    while waiting:
        part = waiting.pop()
        yield part
        if not isinstance(part, Leaf):
            waiting += part.children()


class Walk:
    """Conversion of one network into operations; the network is changed and so must be a copy."""

    def __init__(self, nnet: Nnet, options: GraphOptions) -> None:
        self.nnet, self.options = nnet, options
        self.outputs = [i for i in range(len(nnet.nodes)) if nnet.is_output(i)]
        self.times = self._without_unread((0, 0) if options.edges == "none" else None)
        self.builder = Builder()
        is_stream = options.edges == "stream"
        if is_stream:
            limits.check_streaming(nnet, self.times)
        self._same_context()
        fixed = options.fixed_chunk_outputs
        self.chunks = FixedChunks(fixed, self._first_time()) if fixed else None
        self.frames = Frames(self.builder, self.times, is_stream, self.chunks)

    def _without_unread(self, context: tuple[int, int] | None) -> Times:
        """Return the times of the network after removing second arguments of Failover() that are never read.

        The context stays that of the original network, or ``context`` if given.
        """
        is_stream, factor = self.options.edges == "stream", self.options.frame_subsampling_factor
        for find_windows in (False, True):         # a recurrence may have windows only without such choices
            times = Times(self.nnet, self.outputs, factor, context, is_stream, find_windows)
            context = times.left, times.right
            while any(isinstance(part, Failover) for part in _parts(self.nnet)) and remove_unread_choices(
                    self.nnet, times):
                times = Times(self.nnet, self.outputs, factor, context, is_stream, find_windows)
        return times

    def graph(self) -> Graph:
        """Return all operations."""
        inputs = [self._input(i, node) for i, node in enumerate(self.nnet.nodes) if isinstance(node, InputNode)
                  and (i in self.times.windows or self.times.constant[i])]
        for group, is_loop in zip(self.times.order, self.times.is_loop, strict=True):
            if is_loop and group[0] in self.times.windows:
                Recurrence(self.frames, group, self._read_from_outside(group)).make()
            elif not is_loop and not isinstance(self.nnet.nodes[group[0]], InputNode):
                self._node(group[0])
        outputs = [(self.nnet.nodes[i].name, self._finished(i)) for i in self.outputs]
        graph = Graph(inputs, outputs, self.builder.ops, self.builder.weights, self.options.frame_subsampling_factor,
                      self.options.edges, self.chunks, states=self.builder.states)
        prune(graph)
        return graph

    def _same_context(self) -> None:
        """Set the windows of all inputs with time to the network's context.

        In a stream the window also has the frames that a recurrence reads ahead of the requested output.
        """
        inputs = list(filter(self.nnet.is_input, self.times.windows))
        left, right = self.times.left, self.times.right
        if self.options.edges == "stream":
            left = max([left, *(-self.times.windows[i].lo for i in inputs)])
            right = max([right, *(self.times.windows[i].hi for i in inputs)])
        self.times.windows.update(dict.fromkeys(inputs, Window(-left, right)))

    def _first_time(self) -> int:
        """Return the time of the first output row of a stream with equal chunks, 0 or less.

        The stream begins so early that all states are full when the chunk with t = 0 is computed.
        """
        factor = self.options.frame_subsampling_factor
        before = max(window.hi + window.step - window.lo - factor for window in self.times.windows.values())
        chunk = self.options.fixed_chunk_outputs * factor
        return max(before, 0) // -chunk * chunk

    def _input(self, i: int, node: InputNode) -> InputSpec:
        self.builder.scope = ""
        if self.times.constant[i]:
            self.builder.names[node.name] = 1
            self.frames.values[i] = self.builder.op("one_frame", node.name, dim=node.dim, constant=True)
            return InputSpec(node.name, node.dim, has_time=False)
        left, right = -self.times.windows[i].lo, self.times.windows[i].hi
        self.builder.names[node.name] = 1
        self.frames.values[i] = self.builder.op("frames", node.name, left=left, right=right, dim=node.dim,
                                                constant=False)
        return InputSpec(node.name, node.dim, left, right)

    def _read_from_outside(self, group: list[int]) -> set[int]:
        return {read.source for i in range(len(self.nnet.nodes)) if i not in group and i in self.times.windows
                for read in self.times.reads(i)} & set(group)

    def _node(self, i: int) -> None:
        window = self.times.windows.get(i)
        if window is None and not self.times.constant[i]:
            return
        node, values = self.nnet.nodes[i], self.frames.values
        self.builder.scope = node.name
        if isinstance(node, DescriptorNode):
            values[i] = self.frames.descriptor(node.descriptor, window)
        elif isinstance(node, DimRangeNode):
            values[i] = self._dim_range(node, window)
        elif isinstance(node, ComponentNode):
            values[i] = self._component(i, node, window)

    def _dim_range(self, node: DimRangeNode, window: Window | None) -> Value:
        source = self.frames.values[node.source]
        if window is not None:
            source = self.frames.read(node.source, 0, window)
        return layers.columns(self.builder, source, node.dim_offset, node.dim_offset + node.dim)

    def _component(self, i: int, node: ComponentNode, window: Window | None) -> Value:
        component, name = self.nnet.component_of(i), self.nnet.component_names[node.component_index]
        kind = type(component).__name__
        if statistics_reach(component):
            assert window is not None
            rule = layers.extraction if kind == "StatisticsExtractionComponent" else layers.pooling
            return rule(self.frames, component, i - 1, window)
        if kind in layers.RULES_OVER_TIME:
            assert window is not None
            return layers.RULES_OVER_TIME[kind](self.builder, component, name, self._at(i, window))
        source = self.frames.values.get(i - 1)
        if source is None:                                # for a DropoutMaskComponent, which reads itself
            source = Value("", component.input_dim, True)
        elif window is not None:
            source = self.frames.read(i - 1, 0, window)
        return layers.apply(self.builder, component, name, source)

    def _at(self, i: int, window: Window) -> layers.At:
        """Return a function that reads the input of component node i at an offset; missing optional rows are zero."""
        offsets, required = component_offsets(self.nnet.component_of(i))
        is_required = dict(zip(offsets, required, strict=True))

        def at(offset: int) -> Value:
            value = self.frames.expanded(self.frames.read(i - 1, offset, window), window)
            if is_required.get(offset, True):
                return value
            mask = self.frames.can_node(i - 1, self.frames.shifted(self.frames.when(window), offset))
            return value if mask is None else self.builder.op("keep", value, mask)
        return at

    def _finished(self, i: int) -> Value:
        """Return the value of output node i after log-softmax, subtraction of priors and exponential, if requested."""
        self.builder.scope = ""
        name = self.nnet.nodes[i].name
        value = self.frames.expanded(self.frames.values[i], self.times.windows.get(i, self._output_window()))
        if self.options.edges == "none":
            value = self.builder.op("first_frame", value)
        if name == "output" and self.options.log_softmax:
            value = self.builder.op("log_softmax", value)
        if name == "output" and self.options.priors is not None:
            log_priors = np.log(np.asarray(self.options.priors, np.float32))
            value = self.builder.op("sub", value, self.builder.constant("log_priors", log_priors))
        if name == "output" and self.options.apply_exp:
            value = self.builder.op("exp", value)
        return value

    def _output_window(self) -> Window:
        return Window(0, 0, self.options.frame_subsampling_factor)


# -- recurrences -------------------------------------------------------------------------------------------------------


class Recurrence:
    """Builder of the loop of a group of nodes that depend on each other.

    ``outer`` : the operations outside, to which the loop is added; ``group`` : the nodes of the recurrence;
    ``needed`` : nodes of the group that are read from outside.
    """

    def __init__(self, outer: Frames, group: list[int], needed: set[int]) -> None:
        self.outer, self.times, self.nnet = outer, outer.times, outer.nnet
        self.group, self.members, self.needed = group, set(group), needed
        self.is_backward = self.times.is_backward(group)
        self.step = self.times.windows[group[0]].step
        lags = {self._lag(i, read.source, offset) for i in group for read in self.times.reads(i)
                if read.source in self.members for offset in range(read.first, read.last + 1, self.step)}
        self.fold = math.gcd(*lags) or 1
        self.body = Builder(outer.builder, self.fold)
        self.values: dict[int, Value] = {}
        self.scanned: dict[str, Value] = {}
        self.carried: dict[tuple[int, int], Value] = {}
        # nodes, states, and the values that the next states are made of
        self.after: list[tuple[int, str, Value, Value]] = []

    def _lag(self, i: int, source: int, offset: int) -> int:
        """Return how many steps of one frame pass between the computation of a row of ``source`` and its use by node i.

        The row is at ``offset`` from the time of node i.
        """
        shifts = self.times.shifts
        lag = (shifts[source] - shifts[i] - offset) * (-1 if self.is_backward else 1)
        return lag // self.step

    def make(self) -> None:
        """Append the loop, and the operations that compute its inputs, to the operations outside."""
        for i in self.group:
            if any(read.fixed and read.source in self.members for read in self.times.reads(i)):
                raise Nnet3Error("ReplaceIndex() of t inside a recurrence cannot be exported: it is in the input of "
                                 f"node '{self.nnet.nodes[i].name.removesuffix('_input')}'")
        for i in self._in_order():
            self.body.scope = self.outer.builder.scope = self.nnet.nodes[i].name
            self.values[i] = self._node(i)
        scope = self.nnet.nodes[self.group[0]].name.removesuffix("_input")
        collected = []
        for i in self.group:
            if i in self.needed:
                inside = self.values[i]
                outside = replace(inside, name=self.body.new_name(f"{self.nnet.nodes[i].name}/all"), is_constant=False)
                if inside.is_constant or inside.name in self._given():
                    inside = self.body.op("scale", self._full(inside), by=1.0, constant=False)
                collected.append((inside, outside))
                self.outer.values[i] = outside
        carried = self._carried_values()
        if self.outer.kept_frames is not None and not self.is_backward:
            self._add_states(carried, collected)
        body = [op for op in self.body.ops if isinstance(op, Op)]
        self.outer.builder.ops.append(Loop(body, carried, list(self.scanned.items()), collected, self.fold,
                                           self.is_backward, scope))
        for node, name, state, values in self.after:
            mask = self._is_on(node)
            if mask is not None:
                values = self.outer.builder.op("keep", values, mask)
            self.outer.builder.next_state(name, state, values)

    def _full(self, value: Value) -> Value:
        return self.body.op("expand", value, frames=self.fold, constant=False) if value.is_constant else value

    def _in_order(self) -> list[int]:
        """Return the nodes of the recurrence, sorted so that each comes after those that it reads in the same step."""
        order: list[int] = []
        left = list(self.group)
        while left:
            ready = [i for i in left if all(
                read.source not in left or all(self._lag(i, read.source, o) > 0 for o in {read.first, read.last})
                for read in self.times.reads(i))]
            if not ready:
                names = ", ".join(self.nnet.nodes[i].name for i in left)
                raise Nnet3Error(f"the recurrence of {names} cannot be exported: within a time step, they depend on "
                                 "each other")
            order += ready
            left = [i for i in left if i not in ready]
        return order

    def _carried_values(self) -> list[Carried]:
        """Return the carried values: for each node that is read at earlier steps, its values 1, 2, ... steps ago."""
        carried: list[Carried] = []
        for node in sorted({node for node, _ in self.carried}):
            last = max(lag for n, lag in self.carried if n == node)
            for lag in range(1, last + 1):
                inside = self._register(node, lag)
                value = self._from_the_start(node) if lag == 1 else self._register(node, lag - 1)
                taken = self._given() | {c.next for c in carried}
                if lag > 1 or value.name in taken:
                    value = self.body.op("scale", value, by=1.0)
                carried.append(Carried(inside.name, value.name, inside.dim))
        return carried

    def _given(self) -> set[str]:
        """Return the names of the inputs of the body, which must not also be results, as runtimes overwrite them."""
        return {value.name for value in (*self.scanned.values(), *self.carried.values())}

    def _from_the_start(self, node: int) -> Value:
        """Return the value of a node in the body, with zeros in rows before the first frame of a stream."""
        value = self._full(self.values[node])
        mask = self._is_on(node)
        return value if mask is None else self.body.op("mul", value, self._mask(mask), dim=value.dim)

    def _is_on(self, node: int) -> Value | None:
        if not self.outer.chunks:
            return None
        window = self.times.windows[node]
        return self.outer.builder.shared("is_in", self.outer.when(window).times, lo=window.lo, hi=ALWAYS)

    def _add_states(self, carried: list[Carried], collected: list[tuple[Value, Value]]) -> None:
        """Add a state of the stream for each node read at earlier steps, so that the loop continues in the next chunk.

        Sets the initial values of ``carried``, and appends to ``collected`` the nodes whose last frames are kept.
        """
        outer = self.outer.builder
        for node in sorted({node for node, _ in self.carried}):
            lags = {lag: self.carried[node, lag].name for n, lag in self.carried if n == node}
            name, frames = f"state.{self.nnet.nodes[node].name}", max(lags) * self.fold
            state = outer.state(name, self.nnet.node_dim(node), frames, frames)
            for c in carried:
                lag = next((lag for lag, inside in lags.items() if inside == c.inside), 0)
                if lag:
                    c.begin = outer.op("slice_time", state, start=frames - lag * self.fold, later_start=frames
                                       - lag * self.fold, stop=(lag - 1) * self.fold, step=1).name
            self.after.append((node, name, state, self._collect(node, collected)))

    def _collect(self, node: int, collected: list[tuple[Value, Value]]) -> Value:
        """Return the value of a node at all frames, outside the loop; append it to ``collected`` if it is new."""
        if node in self.outer.values:
            return self.outer.values[node]
        inside = self._full(self.values[node])
        outside = replace(inside, name=self.body.new_name(f"{self.nnet.nodes[node].name}/all"))
        collected.append((inside, outside))
        return outside

    def _register(self, node: int, lag: int) -> Value:
        key = (node, lag)
        if key not in self.carried:
            name = self.body.new_name(f"{self.nnet.nodes[node].name}/before")
            self.carried[key] = Value(name, self.nnet.node_dim(node))
        return self.carried[key]

    def _inside(self, value: Value) -> Value:
        """Return the value in the body for a value from outside, of which each step reads its own frames."""
        if value.is_constant:
            return value
        if value.name not in self.scanned:
            self.scanned[value.name] = replace(value, name=self.body.new_name(f"{value.name}/step"))
        return self.scanned[value.name]

    def _mask(self, mask: Value) -> Value:
        """Return the value in the body for a mask from outside, one boolean per frame: 0 or 1, (1, fold, 1)."""
        return self._inside(self.outer.builder.shared("as_column", mask, dim=1, constant=False))

    def _node(self, i: int) -> Value:
        node, window = self.nnet.nodes[i], self.times.windows[i]
        if isinstance(node, DimRangeNode):
            return layers.columns(self.body, self._read(i, node.source, 0, window), node.dim_offset,
                                  node.dim_offset + node.dim)
        if isinstance(node, DescriptorNode):
            values = [self._part(part, i, window) for part in node.descriptor.parts]
            return self._beside(values)
        assert isinstance(node, ComponentNode)
        component, name = self.nnet.component_of(i), self.nnet.component_names[node.component_index]
        over_time = layers.RULES_OVER_TIME.get(type(component).__name__)
        if over_time:
            if not all(component_offsets(component)[1]):
                raise Nnet3Error(f"component '{name}' cannot be exported: it is part of a recurrence, and may use "
                                 "frames that are missing")
            return over_time(self.body, component, name,
                             lambda offset: self._full(self._read(i, i - 1, offset, window)))
        split = self._split_affine(i)
        return split if split is not None else layers.apply(self.body, component, name, self.values[i - 1])

    def _beside(self, values: list[Value]) -> Value:
        if len(values) == 1:
            return values[0]
        values = [self._full(v) for v in values]
        return self.body.op("concat", *values, dim=sum(v.dim for v in values))

    def _is_inside(self, part: Part) -> bool:
        return any(source.node in self.members for source in part.sources())

    def _split_affine(self, i: int) -> Value | None:
        """Split the affine map of node i: columns from outside are multiplied for all frames at once, before the loop.

        Only the other columns are multiplied in the loop. Returns the sum; None if the node is not an affine map, or
        its columns are all from outside or all from the recurrence.
        """
        node = self.nnet.nodes[i]
        assert isinstance(node, ComponentNode)
        parameters = layers.affine_parameters(self.nnet.component_of(i))
        parts, window = self.nnet.descriptor_of(i - 1).descriptor.parts, self.times.windows[i]
        inside = [self._is_inside(part) for part in parts]
        if parameters is None or all(inside) or not any(inside) or i - 1 in self.needed:
            return None
        weight, bias, names = parameters
        ends, end = [], 0
        for part in parts:
            end += part.dim(self.nnet)
            ends.append((end - part.dim(self.nnet), end))
        ranges = {flag: tuple(r for r, f in zip(ends, inside, strict=True) if f == flag) for flag in (False, True)}
        name = self.nnet.component_names[node.component_index]
        outside = [self.outer.part(part, window) for part, f in zip(parts, inside, strict=True) if not f]
        outer = self.outer.beside(outside, window)
        given = layers.linear(self.outer.builder, name, weight, bias, outer, columns=ranges[False], attributes=names)
        x = self._beside([self._part(part, i, window) for part, f in zip(parts, inside, strict=True) if f])
        recurrent = layers.linear(self.body, name, weight, None, x, columns=ranges[True], attributes=names)
        return self.body.op("add", recurrent, self._inside(given))

    def _part(self, part: Part, i: int, window: Window) -> Value:
        if not self._is_inside(part):
            return self._inside(self.outer.part(part, window))
        if isinstance(part, Leaf):
            return self._leaf(part, i, window)
        if isinstance(part, IfDefined):
            value = self._part(part.child, i, window)
            if self._starts_as_zero(part.child, window):
                return value
            mask = self.outer.can_part(part.child, self.outer.when(window))
            return value if mask is None else self.body.op("mul", value, self._mask(mask), dim=value.dim)
        a, b = (self._part(child, i, window) for child in part.children())
        if isinstance(part, Failover):
            mask = self.outer.can_part(part.a, self.outer.when(window))
            if mask is None:
                return a
            m = self._mask(mask)
            rest = self.body.op("shift", self.body.op("scale", m, by=-1.0), by=1.0)
            return self.body.op("add", self.body.op("mul", a, m, dim=a.dim), self.body.op("mul", b, rest, dim=b.dim))
        return self.body.op("add", a, b)

    def _starts_as_zero(self, part: Part, reader: Window) -> bool:
        """Return whether the zeros with which the loop begins already replace all missing rows of a part."""
        if isinstance(part, Const) or not isinstance(part, Leaf):
            return False
        table = leaf_map(part)
        if not table.is_plain or table.nodes[0] not in self.members:
            return False
        window, can = self.times.windows[table.nodes[0]], self.times.computable[table.nodes[0]]
        begins = window.hi <= can.hi if self.is_backward else window.lo >= can.lo
        offset = table.offsets[0]
        goes_on = reader.lo + offset >= can.lo if self.is_backward else reader.hi + offset <= can.hi
        return can.exact and begins and goes_on

    def _leaf(self, leaf: Leaf, i: int, window: Window) -> Value:
        table = leaf_map(leaf)
        if table.fixed:
            raise Nnet3Error("ReplaceIndex() of t inside a recurrence cannot be exported: it is in the input of node "
                             f"'{self.nnet.nodes[i].name.removesuffix('_input')}'")
        if table.is_plain:
            return self._scaled(self._read(i, table.nodes[0], table.offsets[0], window), leaf)
        when = self.outer.when(window)
        total = None
        for residue, (node, offset) in enumerate(zip(table.nodes, table.offsets, strict=True)):
            chosen = tuple(int(r == residue) for r in range(len(table.nodes)))
            mask = self._mask(self.outer.builder.shared("table_bool", when.times, table=chosen))
            value = self._read(i, node, offset, window)
            term = self.body.op("mul", value, mask, dim=value.dim, constant=False)
            total = term if total is None else self.body.op("add", total, term)
        assert total is not None
        return self._scaled(total, leaf)

    def _scaled(self, value: Value, leaf: Leaf) -> Value:
        """Multiply the value of a leaf by the scale of its sources."""
        scales = {source.scale for source in leaf.sources()}
        return value if scales == {1.0} else self.body.op("scale", value, by=next(iter(scales)))

    def _read(self, i: int, source: int, offset: int, window: Window) -> Value:
        """Return the value in the body of node ``source`` at an offset from the time of node i."""
        if source not in self.members:
            return self._inside(self.outer.read(source, offset, window))
        lag = self._lag(i, source, offset) // self.fold
        return self.values[source] if lag == 0 else self._register(source, lag)
