"""A new matrix takes over the memory of one of its size that is no longer needed."""
from __future__ import annotations

from collections import defaultdict

import numpy as np

from nnet3py.compiler.computation import Command, CommandType, Computation, MatrixInfo, command
from nnet3py.compiler.optimize.command_lists import drop_commands, replace_commands
from nnet3py.compiler.tables import command_table, submatrix_table
from nnet3py.network.nnet import Nnet


def allocate_from_other(computation: Computation, nnet: Nnet) -> Computation:
    """Pair matrices that are freed with later ones of the same size: one swap instead of freeing and allocating.

    From the last matrix freed to the first, each gives its memory to the next matrix allocated that has none yet.
    Kaldi: RemoveUnnecessaryAllocation.
    """
    table = command_table(computation)
    sizing = np.sort(np.concatenate([table.numbers[kind] for kind in (
        CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX)]))[::-1]
    submatrices = table.rows[sizing, 0]
    matrices = submatrix_table(computation)[submatrices, 0].tolist()
    allocates = (table.types[sizing] == CommandType.ALLOC_MATRIX).tolist()

    untaken: defaultdict[MatrixInfo, list[tuple[int, int]]] = defaultdict(list)   # allocations by size, next one last
    swaps: dict[int, Command] = {}                                                # in place of allocations
    freed: list[int] = []
    for c, s, m, is_allocation in zip(sizing.tolist(), submatrices.tolist(), matrices, allocates, strict=True):
        same_size = untaken[computation.matrices[m]]
        if is_allocation:
            same_size.append((c, s))
        elif same_size:
            allocation, taker = same_size.pop()
            swaps[allocation] = command(CommandType.SWAP_MATRIX, taker, s)
            freed.append(c)
    return drop_commands(replace_commands(computation, swaps), freed)
