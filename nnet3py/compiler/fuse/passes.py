"""Passes that avoid matrices: copies equal to their source, and outputs of rectifiers before a batch norm.

The order of the passes that fuse commands, and the choice of those that run.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.analyze import READ, Analysis
from nnet3py.compiler.computation import BACKPROPS, SIZING, Command, CommandType, Computation, Fused, command
from nnet3py.compiler.fuse.fusion import FuseAffine, FuseBackprop, FuseSums, Fusion, Pass, takes_sums
from nnet3py.compiler.optimize.renumber import renumbered
from nnet3py.compiler.optimize.sizing import from_kaldi_form
from nnet3py.compiler.optimize_options import OMIT_MARKS, OptimizeOptions
from nnet3py.compiler.tables import CommandTable, submatrix_table
from nnet3py.components.nonlinear import RectifiedLinearComponent
from nnet3py.errors import UsageError
from nnet3py.network.nnet import Nnet


class OmitCopies(Pass):
    """The pass that removes PROPAGATE commands which only copy, such as dropout with proportion 0, and their outputs.

    In the backward pass a copy of the derivative remains, unless it is in place. The components are listed in
    ``Computation.copying``: the computation is no longer valid once one of them does more than copy.
    """

    name = "omit-copies"

    def run(self, computation: Computation, nnet: Nnet) -> Computation:
        """Return the computation without the copies; a looped one is returned unchanged."""
        copies = needless_copies(computation, nnet)
        return _without_copies(computation, copies) if copies else computation


def needless_copies(computation: Computation, nnet: Nnet) -> dict[int, tuple[int, int]]:
    """Return the PROPAGATE commands whose output can be replaced by their input: command -> (output, input) matrices.

    The output is never changed, and the input is neither changed nor freed before the last use of the output.
    """
    suspects = [c for c, suspect in enumerate(computation.commands)
                if suspect.type == CommandType.PROPAGATE and nnet.components[suspect.args[0]].copies_its_input]
    if not suspects or computation.loop_swaps():
        return {}
    analysis = Analysis(computation, nnet)
    copies: dict[int, tuple[int, int]] = {}
    for c in suspects:
        x, y = computation.commands[c].args[2:4]
        source, copy = int(analysis.matrix_of[x]), int(analysis.matrix_of[y])
        if (source != copy and analysis.is_whole[x] and analysis.is_whole[y] and not analysis.is_output[copy]
                and source not in (copied for copied, _ in copies.values())
                and _can_be_its_source(analysis, c, source, copy)):
            copies[c] = copy, source
    return copies


def _can_be_its_source(analysis: Analysis, c: int, source: int, copy: int) -> bool:
    uses, kinds = analysis.matrix_accesses.of(copy)
    if uses[0] != c or (kinds[1:] != READ).any():
        return False
    last = int(uses[-1])
    uses, kinds = analysis.matrix_accesses.of(source)
    changes = uses[(kinds != READ) & (uses > c)]
    end = int(analysis.freed[source])
    return (end < 0 or end > last) and not (changes <= last).any()


def _without_copies(computation: Computation, copies: dict[int, tuple[int, int]]) -> Computation:
    """Return the computation without these commands, with each output replaced by its input."""
    old, source_of = computation.commands, dict(copies.values())
    memos = {old[c].args[4] for c in copies} - {0, -1}
    matrix_of = submatrix_table(computation)[:, 0]
    commands: list[Command] = []
    for c, kept in enumerate(old):
        if c in copies:
            continue
        if kept.type in BACKPROPS and kept.args[6] in memos:
            commands += _backprop_of_copy(computation, kept)
        elif kept.type not in SIZING or int(matrix_of[kept.args[0]]) not in source_of:
            commands.append(kept)
    submatrices = submatrix_table(computation).copy()
    submatrices[:, 0] = np.array([source_of.get(m, m) for m in range(len(computation.matrices))])[matrix_of]
    out = renumbered(computation, CommandTable.of(commands), submatrices)
    out.copying = computation.copying | {old[c].args[0] for c in copies}
    return out


def _backprop_of_copy(computation: Computation, backprop: Command) -> list[Command]:
    """Return the commands that replace the BACKPROP of a component that only copies."""
    dy, dx = backprop.args[4:6]
    if dx <= 0 or computation.submatrices[dy] == computation.submatrices[dx]:
        return []
    return [command(CommandType.MATRIX_COPY, dx, dy)]


class _Layer(NamedTuple):
    """A rectifier and a batch norm: their fused commands, and the sub-matrices of their outputs."""

    forward: int
    backward: int
    rectified: int
    normalized: int


class SharePlaces(Pass):
    """The pass that lets a rectifier's output share the memory of the following batch norm's output.

    For layers that ``fuse-affine`` and ``fuse-backprop`` have fused. In the backward pass a rectifier only needs the
    positions of its positive outputs, and the batch norm's output has them: an output 0 became the least value of its
    column. (Kaldi keeps the rectifier's output, compressed to a byte for each element.)

    The output's allocation becomes the first part of the forward command, its deallocation the last part of the
    backward one; ``Computation.places`` has the shared sub-matrix.
    """

    name = "share-places"

    def run(self, computation: Computation, nnet: Nnet) -> Computation:
        """Return the computation with fewer matrices; a looped one is returned unchanged."""
        layers = [] if computation.loop_swaps() else _layers(computation, nnet)
        return _with_shared_places(computation, layers) if layers else computation


def _layers(computation: Computation, nnet: Nnet) -> list[_Layer]:
    forward: dict[tuple[int, int], tuple[int, int]] = {}     # outputs (rectifier, batch norm) -> command, memo
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
    """Return whether only the layer's commands use the rectifier's output, the first without reading its new place."""
    matrix, place = (int(analysis.matrix_of[s]) for s in layer[2:])
    uses, kinds = analysis.matrix_accesses.of(matrix)
    read = analysis.matrices[(analysis.commands == layer.forward) & (analysis.kinds == READ)]
    return (analysis.is_whole[layer.rectified] and matrix != place and not analysis.is_output[matrix]
            and not analysis.is_input[matrix] and set(uses.tolist()) == {layer.forward, layer.backward}
            and bool((kinds[uses == layer.backward] == READ).all()) and place not in read)


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


PASSES: tuple[Pass, ...] = (OmitCopies(), FuseSums(), FuseAffine(), FuseBackprop(), SharePlaces())


def fuse(computation: Computation, nnet: Nnet, options: OptimizeOptions | None = None) -> Computation:
    """Return the computation with fused commands; ``computation`` itself, in Kaldi's commands, is not changed.

    Parameters
    ----------
    options : ``options.fuse`` names the passes that may run; none do without ``options.optimize``
    """
    steps = list(fusion_steps(computation, nnet, options or OptimizeOptions()))
    return steps[-1][1] if steps else computation


def fusion_steps(computation: Computation, nnet: Nnet, options: OptimizeOptions) -> Iterator[tuple[str, Computation]]:
    """Yield the name of each pass that runs, and its result; parameters as for :func:`fuse`.

    From a computation out of Kaldi's cache files, swaps and compression commands are removed first.
    """
    passes = wanted_passes(options)
    plain = computation if options.keeps_kaldi_form() else from_kaldi_form(computation, nnet)
    if plain is not computation:
        yield OMIT_MARKS, plain
    for fusion in passes:
        plain = fusion.run(plain, nnet)
        yield fusion.name, plain


def wanted_passes(options: OptimizeOptions) -> list[Pass]:
    """Return the passes that the options name; UsageError for a name that no pass has."""
    chosen, names = options.fusions(), [fusion.name for fusion in PASSES]
    unknown = chosen - {"all", OMIT_MARKS, *names}
    if unknown:
        raise UsageError(f"--optimization.fuse: there is no pass '{min(unknown)}'",
                         f"there are {', '.join((OMIT_MARKS, *names))}; or all, or none")
    return [fusion for fusion in PASSES if fusion.name in chosen or "all" in chosen] if options.optimize else []


def fusion_named(name: str) -> Fusion | None:
    """Return the fusion of this name, None if no pass of this name makes fused commands."""
    return next((fusion for fusion in PASSES if fusion.name == name and isinstance(fusion, Fusion)), None)
