"""Removing the marks of memory compression: nothing is compressed."""
from __future__ import annotations

from nnet3py.compiler.commands import CommandType
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.fuse.fusion import Pass
from nnet3py.compiler.optimize.command_lists import drop_commands
from nnet3py.network.nnet import Nnet

_MARKS = (CommandType.COMPRESS_MATRIX, CommandType.DECOMPRESS_MATRIX)


class OmitMarks(Pass):
    """Removes COMPRESS_MATRIX and DECOMPRESS_MATRIX, which are in the list only so that it is like Kaldi's."""

    name = "omit-marks"

    def run(self, computation: Computation, nnet: Nnet) -> Computation:
        """Without them; a jump comes after all of them, and is set again."""
        gone = [c for c, command in enumerate(computation.commands) if command.type in _MARKS]
        return drop_commands(computation, gone)
