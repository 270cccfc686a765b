"""The optimizer: named passes from computation to computation, each switched by one of Kaldi's options."""
from __future__ import annotations

from nnet3py.compiler.optimize.passes import optimize
from nnet3py.compiler.optimize_options import OptimizeOptions

__all__ = ["OptimizeOptions", "optimize"]
