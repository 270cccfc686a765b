"""The compiler: from a network and a request to a command list. Its parts are imported when they are used."""
from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnet3py.compiler.computation import Computation
    from nnet3py.compiler.optimize import OptimizeOptions
    from nnet3py.compiler.request import ComputationRequest
    from nnet3py.network.nnet import Nnet

_MODULE_OF = {"CachingCompiler": "cache", "Computation": "computation", "ComputationRequest": "request",
              "IoSpecification": "request", "OptimizeOptions": "optimize"}

__all__ = ["CachingCompiler", "Computation", "ComputationRequest", "IoSpecification", "OptimizeOptions", "compile"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'nnet3py.compiler' has no attribute {name!r}")
    return getattr(import_module(f"nnet3py.compiler.{_MODULE_OF[name]}"), name)


def compile(nnet: Nnet, request: ComputationRequest, optimize: bool | OptimizeOptions = True,
            shortcut: bool = True, cache_dir: str | os.PathLike[str] | None = None) -> Computation:
    """Make the command list for ``request``.

    Parameters
    ----------
    optimize : whether to optimise and fuse it, or in detail what; results do not depend on it, but for rounding
    shortcut : work out sequences of one shape together; false is slower, with the same result
    cache_dir : a folder where computations are kept for other processes; None: the one that the environment variable
        NNET3PY_COMPUTATION_CACHE names, if it is set; "": none

    Raises
    ------
    NotComputableError : an output row cannot be computed from the inputs
    Nnet3Error : the network has no such inputs or outputs, or cannot be compiled
    """
    from nnet3py.compiler.cache import CachingCompiler
    from nnet3py.compiler.optimize import OptimizeOptions

    options = optimize if isinstance(optimize, OptimizeOptions) else OptimizeOptions(optimize=bool(optimize))
    return CachingCompiler(nnet, options, capacity=1, use_shortcut=shortcut, cache_dir=cache_dir).compile(request)
