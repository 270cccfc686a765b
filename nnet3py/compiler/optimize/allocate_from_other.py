"""A new matrix takes over the memory of one of its size that is no longer needed."""
from __future__ import annotations

from nnet3py.compiler.computation import CommandType, Computation, MatrixInfo, command
from nnet3py.compiler.optimize.no_operations import drop_commands
from nnet3py.network.nnet import Nnet


def allocate_from_other(computation: Computation, nnet: Nnet) -> Computation:
    """Pair matrices that are freed with later ones of the same size: one swap instead of freeing and allocating.

    From the last matrix freed to the first, each gives its memory to the next matrix allocated that has none yet.
    Kaldi: RemoveUnnecessaryAllocation.
    """
    untaken: dict[MatrixInfo, list[int]] = {}       # allocations after this command, the next one last
    swaps: dict[int, tuple[int, int]] = {}          # allocation -> the sub-matrices that are swapped
    freed: list[int] = []
    for c in range(len(computation.commands) - 1, -1, -1):
        kind, _, args = computation.commands[c]
        if kind not in (CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX):
            continue
        size = computation.matrices[computation.submatrices[args[0]].matrix]
        if kind == CommandType.ALLOC_MATRIX:
            untaken.setdefault(size, []).append(c)
        elif untaken.get(size):
            taker = untaken[size].pop()
            swaps[taker] = computation.commands[taker].args[0], args[0]
            freed.append(c)
    if not swaps:
        return computation
    out = computation.copy()
    for c, pair in swaps.items():
        out.commands[c] = command(CommandType.SWAP_MATRIX, *pair)
    return drop_commands(out, freed)
