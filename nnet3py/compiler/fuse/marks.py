"""The marks of memory compression go: nothing is compressed."""
from __future__ import annotations

from nnet3py.compiler.commands import CommandType
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.fuse.fusion import Pass
from nnet3py.compiler.optimize.command_lists import drop_commands
from nnet3py.network.nnet import Nnet

_MARKS = (CommandType.COMPRESS_MATRIX, CommandType.DECOMPRESS_MATRIX)


class OmitMarks(Pass):
    """Kaldi's COMPRESS_MATRIX and DECOMPRESS_MATRIX, which are in the list only to be like Kaldi's, go."""

    name = "omit-marks"

    def run(self, computation: Computation, nnet: Nnet) -> Computation:
        """Without them; a jump comes after all of them, and is set anew."""
        gone = [c for c, one in enumerate(computation.commands) if one.type in _MARKS]
        return drop_commands(computation, gone)
