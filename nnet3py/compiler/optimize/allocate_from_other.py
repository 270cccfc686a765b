"""A new matrix takes over the memory of one of its size that is no longer needed."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.analyze import command_table
from nnet3py.compiler.computation import Command, CommandType, Computation, MatrixInfo, command
from nnet3py.compiler.optimize.command_lists import drop_commands, replace_commands
from nnet3py.network.nnet import Nnet


def allocate_from_other(computation: Computation, nnet: Nnet) -> Computation:
    """Pair matrices that are freed with later ones of the same size: one swap instead of freeing and allocating.

    From the last matrix freed to the first, each gives its memory to the next matrix allocated that has none yet.
    Kaldi: RemoveUnnecessaryAllocation.
    """
    table = command_table(computation)
    untaken: dict[MatrixInfo, list[tuple[int, int]]] = {}    # allocations after this command, the next one last
    swaps: dict[int, Command] = {}                           # in place of allocations
    freed: list[int] = []
    sizing = np.sort(np.concatenate([table.numbers[kind] for kind in (
        CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX)]))[::-1]
    allocates = table.types[sizing] == CommandType.ALLOC_MATRIX
    for c, s, is_allocation in zip(sizing.tolist(), table.rows[sizing, 0].tolist(), allocates.tolist(), strict=True):
        same_size = untaken.setdefault(computation.matrices[computation.submatrices[s][0]], [])
        if is_allocation:
            same_size.append((c, s))
        elif same_size:
            allocation, taker = same_size.pop()
            swaps[allocation] = command(CommandType.SWAP_MATRIX, taker, s)
            freed.append(c)
    return drop_commands(replace_commands(computation, swaps), freed)
