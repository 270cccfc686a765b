"""How many frames an input must have: asked of the compiler where none are repeated at the edges."""
from __future__ import annotations

from bisect import bisect_left

from nnet3py.compiler.graph import graph_builder
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import Nnet3Error
from nnet3py.export.operations import Graph
from nnet3py.network.nnet import Nnet

MOST = 1 << 13          # more are not tried: 80 seconds


def least_frames(nnet: Nnet, graph: Graph) -> int:
    """The least number of frames from which a graph of the network computes its outputs.

    Raises
    ------
    Nnet3Error : there is none, since the outputs look at frames before the first
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
    """Whether the outputs at t = 0 can be computed from the frames from t = 0 on."""
    request = ComputationRequest(
        [IoSpecification.frames(name, 1, 0, frames if has_time else 1) for name, has_time in inputs],
        [IoSpecification.frames(name, 1, 0, 1) for name in outputs])
    builder = graph_builder(nnet, request)
    builder.compute()
    return all(computable.all() for computable in builder.computable_outputs())
