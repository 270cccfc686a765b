"""The optimizer: Kaldi's passes from computation to computation, each switched by one of Kaldi's options.

Names to know: ``optimize`` and ``optimization_steps`` (``passes.py``, the order) and ``OptimizeOptions``. By kind:
``row_ops.py`` (commands on rows), ``merge_variables.py`` (work in place, no copies), ``sizing.py`` (allocation),
``consolidate.py`` (model updates; inputs and outputs), ``limit_derivative_times.py``, ``form_loop.py``; ``renumber.py``
drops entries that no command refers to. Every pass returns a new computation, and imports neither ``ops`` nor numba.
"""
from __future__ import annotations

from nnet3py.compiler.optimize.passes import optimize
from nnet3py.compiler.optimize_options import OptimizeOptions

__all__ = ["OptimizeOptions", "optimize"]
