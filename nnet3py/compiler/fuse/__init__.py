"""After the optimizer: what the device can do in one call becomes one command, and what changes nothing goes.

Kaldi has nothing of this. Its commands are what files and caches of computations hold; a computation is fused when it
is to be run, for the device that runs it. A pass is a function of a computation and a network, or a :class:`Fusion`.
"""
from __future__ import annotations

from nnet3py.compiler.fuse.passes import PASSES, fuse, fusion_steps

__all__ = ["PASSES", "fuse", "fusion_steps"]
