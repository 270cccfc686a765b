"""Marks matrices that could be kept in fewer bits between the forward and the backward pass."""
from __future__ import annotations

import logging

import numpy as np

from nnet3py.compiler.analyze import READ, Analysis
from nnet3py.compiler.computation import Command, CommandType, Computation, command
from nnet3py.compiler.optimize.command_lists import substitute_commands
from nnet3py.compiler.tables import command_table, greatest_at, least_at
from nnet3py.network.nnet import Nnet

logger = logging.getLogger(__name__)

UINT8, INT16 = 2, 3              # the numbers of Kaldi's compression types
INT16_RANGE = 10.0               # values beyond this are cut off at level 2


def compress_memory(computation: Computation, nnet: Nnet, level: int = 1) -> Computation:
    """Insert compress and decompress commands around the time in which a matrix only waits for the backward pass.

    Level 1: outputs of rectified linear components, of which the backward pass needs the sign only; level 2: everything
    that both passes use. They make the list Kaldi's, also in files for Kaldi's programs; what runs here is without
    them (``fuse/marks.py``), on every device: nothing is compressed. Kaldi: OptimizeMemoryCompression.
    """
    markers = command_table(computation).numbers[CommandType.NO_OPERATION_MARKER]
    if level <= 0 or len(markers) != 1:
        if level > 0 and len(markers) > 1:
            logger.warning("Not compressing memory: the computation has %d segments", len(markers))
        return computation
    before: dict[int, list[Command]] = {}       # what goes in front of a command
    out = computation.copy()
    whole: list[int] = []
    for m, forward, backward, is_read_once in _waiting(Analysis(computation, nnet), int(markers[0])):
        only_sign = is_read_once and _is_relu_backprop(computation.commands[backward], nnet)
        if only_sign or level >= 2:
            whole = whole or out.whole_submatrices()
            compression = ((UINT8, 0.0) if only_sign else (INT16, INT16_RANGE))
            before.setdefault(forward + 1, []).append(
                command(CommandType.COMPRESS_MATRIX, whole[m], compression[0], 1, alpha=compression[1]))
            before.setdefault(backward, []).append(command(CommandType.DECOMPRESS_MATRIX, whole[m]))
    if not before:
        return computation
    return substitute_commands(out, {c: [*added, *out.commands[c:c + 1]] for c, added in before.items()})


def _waiting(analysis: Analysis, marker: int) -> list[tuple[int, int, int, bool]]:
    """The matrices used both before and after the marker, which are not outputs.

    With each the last command of all before the marker that uses it, the first after it, and whether that one reads
    only and is the last of all.
    """
    count, commands, matrices = len(analysis.is_output), analysis.commands, analysis.matrices
    is_forward = commands < marker
    forward = greatest_at(count, matrices[is_forward], commands[is_forward])
    backward = least_at(count, matrices[~is_forward], commands[~is_forward], analysis.num_commands)
    ours = commands == backward[matrices]
    changed = np.zeros(count, bool)
    changed[matrices[ours & (analysis.matrix_kinds != READ)]] = True
    m = np.flatnonzero((forward >= 0) & (backward < analysis.num_commands) & ~analysis.is_output)
    is_last = analysis.last_of_matrices() == backward
    return list(zip(m.tolist(), forward[m].tolist(), backward[m].tolist(), (is_last[m] & ~changed[m]).tolist(),
                    strict=True))


def _is_relu_backprop(original: Command, nnet: Nnet) -> bool:
    return (original.type in (CommandType.BACKPROP, CommandType.BACKPROP_NO_MODEL_UPDATE)
            and type(nnet.components[original.args[0]]).__name__ == "RectifiedLinearComponent")
