"""One walk through a network, sources first, that makes the list of operations."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nnet3py.export import layers, layers_over_time, limits
from nnet3py.export.descriptors import Frames
from nnet3py.export.failovers import remove_unread_choices
from nnet3py.export.operations import Builder, FixedChunks, Graph, InputSpec, Value, prune
from nnet3py.export.recurrence import Recurrence
from nnet3py.export.times import Times, Window, component_offsets, statistics_reach
from nnet3py.network.descriptor import Failover, Leaf, Part
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import ComponentNode, DescriptorNode, DimRangeNode, InputNode


@dataclass
class GraphOptions:
    """What a graph is made for.

    Attributes
    ----------
    edges : "repeat": the first and last frames are repeated as nnet3-compute does; "given": the caller gives context;
        "stream": the same, chunk by chunk; "none": no frames around the utterance, and the output at t = 0 only
    frame_subsampling_factor : frames of input for each row of output
    priors : float32 (output dim,), whose logarithms are subtracted from ``output``; None for none
    log_softmax : a log-softmax after ``output``
    apply_exp : take the exponential of ``output``, for example of log-posteriors
    fixed_chunk_outputs : with "stream", the rows of output of every chunk, if chunks are all alike; 0: they are not
    """

    edges: str = "repeat"
    frame_subsampling_factor: int = 1
    priors: np.ndarray | None = None
    log_softmax: bool = False
    apply_exp: bool = False
    fixed_chunk_outputs: int = 0


def make_graph(nnet: Nnet, options: GraphOptions) -> Graph:
    """The operations of a network in the form for inference; all its outputs are those of the graph.

    Raises
    ------
    Nnet3Error : something without a counterpart; ``limits.py`` finds most of it before
    """
    return Walk(nnet, options).graph()


def _parts(nnet: Nnet) -> Iterator[Part]:
    """All parts of descriptors, including nested ones."""
    waiting = [part for node in nnet.nodes if isinstance(node, DescriptorNode) for part in node.descriptor.parts]
    while waiting:
        part = waiting.pop()
        yield part
        if not isinstance(part, Leaf):
            waiting += part.children()


class Walk:
    """The walk through one network, which must be a copy."""

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
        """The times of the network, from which choices that are never read are removed; its context stays."""
        is_stream, factor = self.options.edges == "stream", self.options.frame_subsampling_factor
        for find_windows in (False, True):         # a recurrence may have windows only without such choices
            times = Times(self.nnet, self.outputs, factor, context, is_stream, find_windows)
            context = times.left, times.right
            while any(isinstance(part, Failover) for part in _parts(self.nnet)) and remove_unread_choices(
                    self.nnet, times):
                times = Times(self.nnet, self.outputs, factor, context, is_stream, find_windows)
        return times

    def graph(self) -> Graph:
        """All operations."""
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
        """Give all inputs with time the same frames: those of the network's context; no others are used.

        In a stream, also those that a recurrence reads ahead of the requested output.
        """
        inputs = list(filter(self.nnet.is_input, self.times.windows))
        left, right = self.times.left, self.times.right
        if self.options.edges == "stream":
            left = max([left, *(-self.times.windows[i].lo for i in inputs)])
            right = max([right, *(self.times.windows[i].hi for i in inputs)])
        self.times.windows.update(dict.fromkeys(inputs, Window(-left, right)))

    def _first_time(self) -> int:
        """The time of the first output of a stream whose first chunk is like all others: all context is before it."""
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
            rule = layers_over_time.extraction if kind == "StatisticsExtractionComponent" else layers_over_time.pooling
            return rule(self.frames, component, i - 1, window)
        if kind in layers_over_time.RULES:
            assert window is not None
            return layers_over_time.RULES[kind](self.builder, component, name, self._at(i, window))
        source = self.frames.values.get(i - 1)
        if source is None:                                # for a DropoutMaskComponent, which reads itself
            source = Value("", component.input_dim, True)
        elif window is not None:
            source = self.frames.read(i - 1, 0, window)
        return layers.apply(self.builder, component, name, source)

    def _at(self, i: int, window: Window) -> layers_over_time.At:
        """The input of node i at an offset; zero where it is missing and not required."""
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
        """An output with all its frames, under its own name, with priors and exponential as requested."""
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
