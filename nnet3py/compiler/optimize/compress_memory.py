"""Marks matrices that could be kept in fewer bits between the forward and the backward pass."""
from __future__ import annotations

import logging

import numpy as np

from nnet3py.compiler.analyze import READ, Analysis
from nnet3py.compiler.computation import Command, CommandType, Computation, command
from nnet3py.network.nnet import Nnet

logger = logging.getLogger(__name__)

UINT8, INT16 = 2, 3              # the numbers of Kaldi's compression types
INT16_RANGE = 10.0               # values beyond this are cut off at level 2


def compress_memory(computation: Computation, nnet: Nnet, level: int = 1) -> Computation:
    """Insert compress and decompress commands around the time in which a matrix only waits for the backward pass.

    They have no effect on a CPU. Level 1: outputs of rectified linear components, of which the backward pass needs the
    sign only; level 2: everything that both passes use. Kaldi: OptimizeMemoryCompression.
    """
    markers = [c for c, one in enumerate(computation.commands) if one.type == CommandType.NO_OPERATION_MARKER]
    if level <= 0 or len(markers) != 1:
        if level > 0 and len(markers) > 1:
            logger.warning("Not compressing memory: the computation has %d segments", len(markers))
        return computation
    analysis = Analysis(computation, nnet)
    before: dict[int, list[Command]] = {}       # what goes in front of a command
    whole = computation.whole_submatrices()
    for m in range(1, len(computation.matrices)):
        commands, kinds = analysis.matrix_accesses.of(m)
        at = int(np.searchsorted(commands, markers[0]))
        if analysis.is_output[m] or at == 0 or at == len(commands):
            continue
        forward, backward = int(commands[at - 1]), int(commands[at])
        only_sign = (at == len(commands) - 1 and kinds[at] == READ
                     and _is_relu_backprop(computation.commands[backward], nnet))
        if only_sign or level >= 2:
            compression = ((UINT8, 0.0) if only_sign else (INT16, INT16_RANGE))
            before.setdefault(forward + 1, []).append(
                command(CommandType.COMPRESS_MATRIX, whole[m], compression[0], 1, alpha=compression[1]))
            before.setdefault(backward, []).append(command(CommandType.DECOMPRESS_MATRIX, whole[m]))
    if not before:
        return computation
    out = computation.copy()
    out.commands = [one for c, original in enumerate(computation.commands) for one in (*before.get(c, ()), original)]
    return out


def _is_relu_backprop(one: Command, nnet: Nnet) -> bool:
    return (one.type in (CommandType.BACKPROP, CommandType.BACKPROP_NO_MODEL_UPDATE)
            and type(nnet.components[one.args[0]]).__name__ == "RectifiedLinearComponent")
