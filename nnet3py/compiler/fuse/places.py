"""A rectifier's output that needs no memory of its own: it is replaced in place by what a batch norm makes of it.

Going back, a rectifier only needs to know which of its outputs were positive, and the batch norm's output tells: 0
became the least value of each column. Kaldi keeps the rectifier's output, compressed to a byte an element.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.compiler.analyze import READ, Analysis
from nnet3py.compiler.commands import Command, CommandType, command
from nnet3py.compiler.computation import Computation, Fused
from nnet3py.compiler.fuse.affine import FuseAffine, takes_sums
from nnet3py.compiler.fuse.backprop import FuseBackprop
from nnet3py.compiler.fuse.fusion import Pass
from nnet3py.components.nonlinear import RectifiedLinearComponent
from nnet3py.network.nnet import Nnet


class _Layer(NamedTuple):
    """A rectifier and a batch norm: their fused commands, and the sub-matrices of their outputs."""

    forward: int
    backward: int
    rectified: int
    normalized: int


class SharePlaces(Pass):
    """Where ``fuse-affine`` and ``fuse-backprop`` run a layer, its rectifier's output is in the batch norm's place.

    Its allocation becomes the first part of the one command, its deallocation the last part of the other;
    ``Computation.places`` says where it is.
    """

    name = "share-places"
    operation = FuseBackprop.operation

    def run(self, computation: Computation, nnet: Nnet) -> Computation:
        """The computation with fewer matrices; not for loops."""
        layers = [] if computation.loop_swaps() else _layers(computation, nnet)
        return _with_shared_places(computation, layers) if layers else computation


def _layers(computation: Computation, nnet: Nnet) -> list[_Layer]:
    forward: dict[tuple[int, int], tuple[int, int]] = {}     # outputs of rectifier and batch norm -> command, memo
    layers = []
    for c, present in enumerate(computation.commands):
        if present.type != CommandType.FUSED:
            continue
        fusion, parts = computation.parts[present.args[0]]
        if fusion == FuseAffine.name and _ends_with_relu_and_norm(parts, nnet):
            forward[parts[-1].args[2], parts[-1].args[3]] = c, parts[-1].args[4]
        elif fusion == FuseBackprop.name:
            norm, relu = parts
            outputs = relu.args[3], norm.args[3]
            if outputs in forward and forward[outputs][1] == norm.args[6]:
                layers.append(_Layer(forward[outputs][0], c, *outputs))
    if not layers:
        return []
    analysis = Analysis(computation, nnet)
    return [layer for layer in layers if _may_share(analysis, layer)]


def _ends_with_relu_and_norm(parts: tuple[Command, ...], nnet: Nnet) -> bool:
    components = [nnet.components[part.args[0]] for part in parts[-2:]]
    return (takes_sums(components[-1]) and isinstance(components[0], RectifiedLinearComponent)
            and components[0].block_dim == components[0].dim and parts[-2].args[3] == parts[-1].args[2])


def _may_share(analysis: Analysis, layer: _Layer) -> bool:
    """Nothing but the two commands uses the rectifier's output, and what the first one reads is elsewhere."""
    matrix, place = (int(analysis.matrix_of[s]) for s in layer[2:])
    uses, kinds = analysis.matrix_accesses.of(matrix)
    swaps = analysis.table.args[CommandType.SWAP_MATRIX][:, :2]
    read = analysis.matrices[(analysis.commands == layer.forward) & (analysis.kinds == READ)]
    return (analysis.is_whole[layer.rectified] and matrix != place and not analysis.is_output[matrix]
            and not analysis.is_input[matrix] and set(uses.tolist()) == {layer.forward, layer.backward}
            and bool((kinds[uses == layer.backward] == READ).all())
            and matrix not in analysis.matrix_of[swaps] and place not in read)


def _with_shared_places(computation: Computation, layers: list[_Layer]) -> Computation:
    out = computation.copy()
    matrix_of = np.array([sub.matrix for sub in out.submatrices])
    out.places = {int(matrix_of[layer.rectified]): layer.normalized for layer in layers}
    for layer in layers:
        for c, sizing in ((layer.forward, CommandType.ALLOC_MATRIX), (layer.backward, CommandType.DEALLOC_MATRIX)):
            entry = out.commands[c].args[0]
            fusion, parts = out.parts[entry]
            added = command(sizing, layer.rectified)
            out.parts[entry] = Fused(fusion, (added, *parts) if c == layer.forward else (*parts, added))
    out.set_commands([kept for kept in computation.commands if not (
        kept.type in (CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX) and matrix_of[kept.args[0]] in out.places)])
    return out
