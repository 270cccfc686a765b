"""Matrices that need not exist, because a component that changes nothing (dropout that drops nothing) makes them.

Kaldi copies there. We let the copy be the same memory as what it is a copy of, wherever nobody could tell.
"""
from __future__ import annotations

from nnet3py.compiler.analyze import READ, Analysis
from nnet3py.compiler.commands import CommandType
from nnet3py.compiler.computation import Computation
from nnet3py.network.nnet import Nnet


def needless_copies(computation: Computation, nnet: Nnet) -> dict[int, tuple[int, int]]:
    """The commands that only copy, and whose copy may be its source: command -> (copy, source), numbers of matrices.

    The copy is then read only, and its source is neither changed nor freed before the copy was last read.
    """
    suspects = [c for c, command in enumerate(computation.commands)
                if command.type == CommandType.PROPAGATE and nnet.components[command.args[0]].copies_its_input]
    if not suspects or computation.loop_swaps():
        return {}
    analysis = Analysis(computation, nnet)
    found: dict[int, tuple[int, int]] = {}
    for c in suspects:
        x, y = computation.commands[c].args[2:4]
        source, copy = int(analysis.matrix_of[x]), int(analysis.matrix_of[y])
        if (source != copy and analysis.is_whole[x] and analysis.is_whole[y] and not analysis.is_output[copy]
                and source not in (made for made, _ in found.values())
                and _is_never_told_apart(analysis, c, source, copy)):
            found[c] = copy, source
    return found


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
