"""Matrices are allocated just before their first use and freed just after their last."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.compiler.optimize.command_lists import sort_commands
from nnet3py.compiler.tables import least_at
from nnet3py.network.nnet import Nnet


def move_sizing_commands(computation: Computation, nnet: Nnet) -> Computation:
    """Shorten the time for which memory is held. Kaldi: MoveSizingCommands."""
    analysis = Analysis(computation, nnet)
    args, numbers = analysis.table.rows[:, 0], analysis.table.numbers
    first, last = analysis.first_of_matrices(), analysis.last_of_matrices()
    later = analysis.commands > first[analysis.matrices]
    second = least_at(len(first), analysis.matrices[later], analysis.commands[later], analysis.num_commands)
    places = 3 * np.arange(analysis.num_commands)      # there is room for one command on either side

    freed = _of_used(numbers[CommandType.DEALLOC_MATRIX], analysis, last)
    places[freed] = 3 * last[analysis.matrix_of[args[freed]]] + 1

    allocated = _of_used(numbers[CommandType.ALLOC_MATRIX], analysis, last)
    m = analysis.matrix_of[args[allocated]]
    zeroed_next = (first[m] == allocated + 1) & analysis.is_zeroing[first[m]] & (args[first[m]] == args[allocated])
    moves_both = zeroed_next & (second[m] < analysis.num_commands)
    use = np.where(moves_both, second[m], first[m])
    places[allocated[moves_both] + 1] = 3 * use[moves_both] - 1      # the zeroing follows the allocation
    moves = moves_both | ~zeroed_next
    places[allocated[moves]] = 3 * use[moves] - 1
    return sort_commands(computation, places)


def _of_used(numbers: np.ndarray, analysis: Analysis, last: np.ndarray) -> np.ndarray:
    """Those of the sizing commands whose matrix is used."""
    return np.asarray(numbers[last[analysis.matrix_of[analysis.table.rows[numbers, 0]]] >= 0])
