"""Matrices that need not exist, because a component that changes nothing (dropout that drops nothing) makes them.

Kaldi copies there. We let the copy be what it is a copy of, wherever nobody could tell.
"""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.analyze import READ, Analysis
from nnet3py.compiler.commands import BACKPROPS, SIZING, Command, CommandType, command
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.fuse.fusion import Pass
from nnet3py.compiler.optimize.renumber import renumbered
from nnet3py.compiler.tables import CommandTable, submatrix_table
from nnet3py.network.nnet import Nnet


class OmitCopies(Pass):
    """Leaves out PROPAGATE commands that only copy, and the matrices that they make.

    On the way back a copy of the derivative remains, or nothing where that is in place. The components are noted in
    ``Computation.copying``: if one of them changes something later, the computation is void.
    """

    name = "omit-copies"

    def run(self, computation: Computation, nnet: Nnet) -> Computation:
        """Without the copies; not for loops."""
        copies = needless_copies(computation, nnet)
        return _without(computation, copies) if copies else computation


def needless_copies(computation: Computation, nnet: Nnet) -> dict[int, tuple[int, int]]:
    """The commands that only copy, and whose copy may be its source: command -> (copy, source), numbers of matrices.

    The copy is then read only, and its source is neither changed nor freed before the copy was last read.
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
                and _is_never_told_apart(analysis, c, source, copy)):
            copies[c] = copy, source
    return copies


def _is_never_told_apart(analysis: Analysis, c: int, source: int, copy: int) -> bool:
    givers = analysis.matrix_of[analysis.table.args[CommandType.SWAP_MATRIX][:, 1]]
    uses, kinds = analysis.matrix_accesses.of(copy)
    if uses[0] != c or (kinds[1:] != READ).any():
        return False
    last = int(uses[-1])
    uses, kinds = analysis.matrix_accesses.of(source)
    changes = uses[(kinds != READ) & (uses > c)]
    # the memory of a matrix that is given away ends with its own last use
    end = int(uses[-1]) + 1 if source in givers else int(analysis.freed[source])
    return (end < 0 or end > last) and not (changes <= last).any()


def _without(computation: Computation, copies: dict[int, tuple[int, int]]) -> Computation:
    """The computation without these commands, each copy being its source."""
    old, source_of = computation.commands, dict(copies.values())
    memos = {old[c].args[4] for c in copies} - {0, -1}
    matrix_of = submatrix_table(computation)[:, 0]
    commands: list[Command] = []
    for c, kept in enumerate(old):
        if c in copies:
            continue
        if kept.type in BACKPROPS and kept.args[6] in memos:
            commands += _backprop(computation, kept)
        elif kept.type in SIZING:
            commands += _sizing(kept, [int(matrix_of[s]) in source_of for s in kept.args[:2]])
        else:
            commands.append(kept)
    submatrices = submatrix_table(computation).copy()
    submatrices[:, 0] = np.array([source_of.get(m, m) for m in range(len(computation.matrices))])[matrix_of]
    out = renumbered(computation, CommandTable.of(commands), submatrices)
    out.copying = computation.copying | {old[c].args[0] for c in copies}
    return out


def _backprop(computation: Computation, backprop: Command) -> list[Command]:
    """The derivative of the copy is that of its source."""
    dy, dx = backprop.args[4:6]
    if dx <= 0 or computation.submatrices[dy] == computation.submatrices[dx]:
        return []
    return [command(CommandType.MATRIX_COPY, dx, dy)]


def _sizing(sizing: Command, is_copy: list[bool]) -> list[Command]:
    """What takes its place once copies are gone; ``is_copy``: whether its first two sub-matrices are copies."""
    if sizing.type in (CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX) and is_copy[0]:
        return []
    if sizing.type == CommandType.SWAP_MATRIX and is_copy[0]:
        return [] if is_copy[1] else [command(CommandType.DEALLOC_MATRIX, sizing.args[1])]
    if sizing.type == CommandType.SWAP_MATRIX and is_copy[1]:
        return [command(CommandType.ALLOC_MATRIX, sizing.args[0])]
    return [sizing]
