"""The optimiser: named passes from computation to computation, each switched by one of Kaldi's options."""
from __future__ import annotations

from nnet3py.compiler.optimize.options import OptimizeOptions
from nnet3py.compiler.optimize.passes import optimize

__all__ = ["OptimizeOptions", "optimize"]
