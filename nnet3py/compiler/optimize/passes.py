"""The order of the optimiser's passes. Kaldi: ``Optimize`` (nnet-optimize.cc)."""
from __future__ import annotations

from nnet3py.compiler.computation import Computation
from nnet3py.compiler.optimize.consolidate_io import consolidate_io
from nnet3py.compiler.optimize.options import OptimizeOptions
from nnet3py.network.nnet import Nnet


def optimize(computation: Computation, nnet: Nnet, options: OptimizeOptions | None = None) -> Computation:
    """An equivalent computation that is faster and smaller; ``computation`` itself is not changed."""
    options = options or OptimizeOptions()
    return consolidate_io(computation)
