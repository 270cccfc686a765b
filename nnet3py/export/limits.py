"""What cannot be exported in a network, and why: all of it is known before anything is written."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from nnet3py.components.base import with_children
from nnet3py.errors import Nnet3Error
from nnet3py.export import layers, layers_over_time
from nnet3py.export.failovers import read_too_early
from nnet3py.export.times import Times, leaf_map, statistics_reach
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import DescriptorNode

# Kaldi's component types that have no counterpart
UNSUPPORTED = {
    "DistributeComponent": "it spreads its input over rows of another x, and tensors have sequences and frames only",
}


class Problem(NamedTuple):
    """What cannot be exported: the name of a component or node, its type, and the reason."""

    name: str
    kind: str
    reason: str


def problems(nnet: Nnet) -> list[Problem]:
    """All reasons why a network cannot be exported."""
    return [*_component_problems(nnet), *_node_problems(nnet)]


def check(nnet: Nnet) -> None:
    """Raise Nnet3Error with all problems of a network, if it has any."""
    _raise(problems(nnet), "the network cannot be exported")


def check_streaming(nnet: Nnet, times: Times) -> None:
    """Raise Nnet3Error with all reasons why a network, in the form for inference, cannot be computed in streams."""
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
            elif not (kind in layers.RULES or kind in layers_over_time.RULES or statistics_reach(child)):
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
    """What cannot be computed chunk by chunk."""
    for i in read_too_early(nnet, times, set(_chunk_dependent(times))):
        name = nnet.nodes[i].name.removesuffix("_input")
        yield Problem(name, "node", "the second choice of its Failover() is for the beginning, but makes later chunks "
                      "compute frames before those that they depend on are there")
    if not any(nnet.is_input(i) for i in times.windows):
        yield Problem("output", "network", "it has no input of frames")
    for node in nnet.nodes:
        if isinstance(node, DescriptorNode):
            for leaf in node.descriptor.leaves():
                table = leaf_map(leaf)
                if table.fixed and not all(times.constant[n] for n in table.nodes):
                    name = node.name.removesuffix("_input")
                    yield Problem(name, "node", "it reads a frame with a fixed number, which later chunks have lost")


def chunk_dependent(nnet: Nnet, times: Times) -> list[str]:
    """Nodes of a stream whose values depend on where chunks end: they read later frames only as far as there are any.

    Among them are recurrences that go back in time, which begin again at the end of each chunk.
    """
    return list(dict.fromkeys(nnet.nodes[i].name.removesuffix("_input") for i in _chunk_dependent(times)))


def _chunk_dependent(times: Times) -> Iterator[int]:
    for i, window in times.windows.items():
        optional = [read for read in times.reads(i) if read.is_optional]
        if any(window.hi + read.last > times.computable[read.source].hi for read in optional):
            yield i
