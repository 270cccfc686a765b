"""Fusion: the last passes, which replace groups of Kaldi's commands by fused ones, each run by one kernel call.

Names to know: ``Fusion`` (``fusion.py``, the base class, with the three fusions), ``PASSES`` (``passes.py``, their
order) and ``fuse``. ``matrices.py`` has the passes that save whole matrices. A fusion only changes the command list;
the call that runs a fused command is in ``runtime/calls.py``. Nothing here imports ``ops`` or numba.

Kaldi has no such passes. Files and caches hold Kaldi's commands (``Computation.unfused``), and a computation is fused
for the device that runs it. Compilers such as XLA or torch.compile fuse as well, but they generate kernels; here a few
fixed kernels cover what speech networks have, so that nothing is compiled at run time.
"""
from __future__ import annotations

from nnet3py.compiler.fuse.passes import PASSES, fuse, fusion_steps

__all__ = ["PASSES", "fuse", "fusion_steps"]
