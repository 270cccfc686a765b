"""Limits of exporting, checked before anything is written; choices of Failover(); the least number of frames."""
from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nnet3py.compiler.graph import graph_builder
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.base import with_children
from nnet3py.errors import Nnet3Error
from nnet3py.export import layers
from nnet3py.export.operations import Graph
from nnet3py.export.times import ALWAYS, Interval, Times, Window, leaf_map, statistics_reach
from nnet3py.network.descriptor import Const, Descriptor, Failover, IfDefined, Part
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import DescriptorNode

# component types of Kaldi without counterpart
UNSUPPORTED = {
    "DistributeComponent": "it spreads its input over rows of another x, and tensors have sequences and frames only",
}


class Problem(NamedTuple):
    """Obstacle to exporting: the name of a component or node, its type, and the reason."""

    name: str
    kind: str
    reason: str


def problems(nnet: Nnet) -> list[Problem]:
    """Return all reasons why a network cannot be exported."""
    return [*_component_problems(nnet), *_node_problems(nnet)]


def check(nnet: Nnet) -> None:
    """Raise Nnet3Error with all problems of a network, if it has any."""
    _raise(problems(nnet), "the network cannot be exported")


def check_streaming(nnet: Nnet, times: Times) -> None:
    """Raise Nnet3Error with all reasons why a network, in the form for inference, cannot run in streams."""
    _raise(list(streaming_problems(nnet, times)), "the network cannot be exported for streams")


def _raise(listed: list[Problem], what: str) -> None:
    if listed:
        lines = "; ".join(f"{p.kind} '{p.name}': {p.reason}" for p in listed)
        raise Nnet3Error(f"{what}: {lines}", "export another output with --output, or change the network with "
                         "nnet3-copy --edits")


def _component_problems(nnet: Nnet) -> Iterator[Problem]:
    for name, component in nnet.named_components():
        for child in with_children([component]):
            kind = type(child).__name__
            if kind in UNSUPPORTED:
                yield Problem(name, kind, UNSUPPORTED[kind])
            elif not (kind in layers.RULES or kind in layers.RULES_OVER_TIME or statistics_reach(child)):
                yield Problem(name, kind, "the type is not one of Kaldi's")
            elif kind == "BatchNormComponent" and _count(child) == 0:
                yield Problem(name, kind, "it has no statistics; use a trained model")


def _count(component: Any) -> float:
    return float(component.count[0])


def _node_problems(nnet: Nnet) -> Iterator[Problem]:
    for node in nnet.nodes:
        if isinstance(node, DescriptorNode):
            for leaf in node.descriptor.leaves():
                _, mapped = leaf.map(np.zeros((1, 3), np.int32))
                name = node.name.removesuffix("_input")
                if mapped[0, 2] != 0:
                    yield Problem(name, "node", "it reads rows of another x")
                try:
                    leaf_map(leaf)
                except Nnet3Error as error:
                    yield Problem(name, "node", str(error))


def streaming_problems(nnet: Nnet, times: Times) -> Iterator[Problem]:
    """Yield the reasons why a network cannot be computed chunk by chunk."""
    for i in read_too_early(nnet, times, set(_chunk_dependent(times))):
        name = nnet.nodes[i].name.removesuffix("_input")
        yield Problem(name, "node", "the second choice of its Failover() is for the beginning of the stream, but makes "
                      "later chunks compute frames whose inputs they do not have yet")
    if not any(nnet.is_input(i) for i in times.windows):
        yield Problem("output", "network", "it has no input of frames")
    for node in nnet.nodes:
        if isinstance(node, DescriptorNode):
            for leaf in node.descriptor.leaves():
                table = leaf_map(leaf)
                if table.fixed and not all(times.constant[n] for n in table.nodes):
                    name = node.name.removesuffix("_input")
                    yield Problem(name, "node", "it reads a frame with a fixed number, which later chunks do not have")


def chunk_dependent(nnet: Nnet, times: Times) -> list[str]:
    """Return the names of the nodes whose values in a stream depend on where chunks end.

    They read later frames with IfDefined() or Failover(), which a chunk may not have. Among them are recurrences
    backward in time, which begin again at the end of each chunk.
    """
    return list(dict.fromkeys(nnet.nodes[i].name.removesuffix("_input") for i in _chunk_dependent(times)))


def _chunk_dependent(times: Times) -> Iterator[int]:
    for i, window in times.windows.items():
        optional = [read for read in times.reads(i) if read.is_optional]
        if any(window.hi + read.last > times.computable[read.source].hi for read in optional):
            yield i


# -- choices of Failover() ---------------------------------------------------------------------------------------------


def remove_unread_choices(nnet: Nnet, times: Times) -> bool:
    """Remove second arguments of Failover() that are never read, in place; return whether there were any.

    Afterwards, nodes may be needed at fewer times, so that a second call may remove more.
    """
    changed = False
    for i, node in enumerate(nnet.nodes):
        if isinstance(node, DescriptorNode):
            parts = tuple(_without_unread(part, i, times) for part in node.descriptor.parts)
            if parts != node.descriptor.parts:
                nnet.nodes[i], changed = replace(node, descriptor=Descriptor(parts)), True
    if changed:
        nnet.structure_changed()
    return changed


def read_too_early(nnet: Nnet, times: Times, dependent: set[int]) -> Iterator[int]:
    """Yield the indexes of nodes with a Failover() that cannot be computed in a stream.

    Its second argument is read only at the beginning of the stream, but every chunk computes the frames that it needs.
    A node that depends on where chunks end would therefore compute frames too early, without the later frames that
    other nodes expect it to have read. ``dependent`` : indexes of nodes whose values depend on where chunks end.
    """
    for i in times.windows if dependent else ():
        node = nnet.nodes[i]
        if isinstance(node, DescriptorNode):
            parts = tuple(_first_choices(part, i, times) for part in node.descriptor.parts)
            if parts != node.descriptor.parts:
                other = nnet.copy()
                other.nodes[i] = replace(node, descriptor=Descriptor(parts))
                other.structure_changed()
                later = Times(other, times.outputs, times.factor, (times.left, times.right), is_stream=True).windows
                if any(n not in later or later[n].hi < times.windows[n].hi for n in dependent):
                    yield i


def _first_choices(part: Any, i: int, times: Times) -> Any:
    """Remove second arguments of Failover() from a part of node i if they are read only at the start of a stream."""
    if isinstance(part, Failover) and times.is_sure(part.a, Window(ALWAYS, _used(i, times).hi)):
        return _first_choices(part.a, i, times)
    return _with_parts(part, lambda child: _first_choices(child, i, times))


def _used(i: int, times: Times) -> Window:
    """Return the times at which node i is both needed and computable."""
    window, can = times.windows.get(i, Window(-ALWAYS, ALWAYS)), times.computable[i]
    return Window(max(window.lo, can.lo), min(window.hi, can.hi))


def _with_parts(part: Any, change: Callable[[Part], Part]) -> Any:
    fields = {name: change(value) for name, value in vars(part).items() if isinstance(value, Part)}
    return replace(part, **fields) if fields else part


def _without_unread(part: Any, i: int, times: Times) -> Any:
    if isinstance(part, Failover):
        first, own = times.computable_part(part.a), times.computable[i]
        is_always_read = first.exact and own.exact and first.lo <= own.lo and own.hi <= first.hi
        if is_always_read or times.is_sure(part.a, _used(i, times)):
            return _without_unread(part.a, i, times)
        if isinstance(part.b, IfDefined) and _is_zero(times.computable_part(part.b.child), first, own):
            return replace(part, a=_without_unread(part.a, i, times), b=Const(0.0, part.b.dim(times.nnet)))
    return _with_parts(part, lambda child: _without_unread(child, i, times))


def _is_zero(second: Interval, first: Interval, own: Interval) -> bool:
    """Return whether Failover(a, IfDefined(b)) is zero wherever ``a`` is not computable, since ``b`` is not either.

    ``second``, ``first``, ``own`` : times at which ``b``, ``a``, and the node itself can be computed.
    """
    if not (second.exact and first.exact and own.exact):
        return False
    before = own.lo >= first.lo or first.lo <= second.lo
    after = own.hi <= first.hi or first.hi >= second.hi
    return before and after


# -- least number of frames --------------------------------------------------------------------------------------------

MOST = 1 << 13          # most frames that are tried: 80 seconds


def least_frames(nnet: Nnet, graph: Graph) -> int:
    """Return the least number of frames from which a graph of the network computes its outputs.

    With edges "none", it is found by binary search, with the compiler's test of which outputs are computable. Raises
    Nnet3Error for outputs that need frames before the first, with edges "none".
    """
    timed = next((spec for spec in graph.inputs if spec.has_time), None)
    if timed is None or graph.edges == "repeat":
        return 1
    if graph.edges == "given":
        return timed.left + timed.right + 1
    names = [(spec.name, spec.has_time) for spec in graph.inputs]
    outputs = [name for name, _ in graph.outputs]
    least = bisect_left(range(MOST), True, lo=1, key=lambda frames: _are_enough(nnet, names, outputs, frames))
    if least == MOST:
        raise Nnet3Error("the first row of output needs frames before the first, and with --edges=none there are none",
                         "export with --edges=repeat or --edges=given")
    return least


def _are_enough(nnet: Nnet, inputs: list[tuple[str, bool]], outputs: list[str], frames: int) -> bool:
    """Return whether the outputs at t = 0 can be computed from ``frames`` frames from t = 0 on."""
    request = ComputationRequest(
        [IoSpecification.frames(name, 1, 0, frames if has_time else 1) for name, has_time in inputs],
        [IoSpecification.frames(name, 1, 0, 1) for name in outputs])
    builder = graph_builder(nnet, request)
    builder.compute()
    return all(computable.all() for computable in builder.computable_outputs())
