"""The graph of a request, or an error that says why there is none."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.compiler.explain import not_computable
from nnet3py.compiler.graph import Graph, graph_builder
from nnet3py.compiler.request import ComputationRequest

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet


def build_graph(nnet: Nnet, request: ComputationRequest, share: bool = True) -> Graph:
    """The pruned graph of ``request``; arguments as for ``graph_builder``.

    Raises
    ------
    NotComputableError : an output row cannot be computed from the inputs; the message says which and why
    CompileError : a recurrence without end
    Nnet3Error : the network has no input or output of a name in the request
    """
    builder = graph_builder(nnet, request, share, join=True)
    builder.compute()
    if not all(computable.all() for computable in builder.computable_outputs()):
        builder = graph_builder(nnet, request, share)      # the message speaks of every node
        builder.compute()
        raise not_computable(builder, nnet, request)
    return builder.prune()
