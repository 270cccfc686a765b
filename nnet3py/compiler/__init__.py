"""The compiler: from a network and a request to a computation, which is a list of commands on matrices.

Names to know: ``compile``, ``CachingCompiler`` (``cache.py``) and ``Computation`` (``computation.py``). The data flow:
``request.py`` → ``graph.py`` and ``build_graph.py`` (the rows that are needed) → ``steps.py`` (their order) →
``generate.py`` (commands) → ``optimize/`` (Kaldi's passes) → ``fuse/`` (what the device does in one call).
docs/compiler.md follows one network through all of it. Nothing here imports ``ops`` or numba: a computation is data,
and ``runtime`` runs it. No library does this: compilers of tensor graphs (XLA, torch.compile) have no notion of the
rows (n, t, x) that a request asks for, and Kaldi's commands are what its files hold.

``COMMANDS`` (``computation.py``) declares the role of each argument of each command type; printing, analysis
(``analyze.py``), checking (``check.py``) and binding derive from it. ``tables.py`` has a computation's lists as arrays.

``shortcut.py`` compiles a request for many equal sequences for two of them and extends the optimized result;
``looped.py`` compiles the first chunks of a stream into a computation that ends with a jump back; ``disk_cache.py``
shares computations with other processes.
"""
from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnet3py.compiler.computation import Computation
    from nnet3py.compiler.optimize import OptimizeOptions
    from nnet3py.compiler.request import ComputationRequest
    from nnet3py.network.model_file import AnyModel

_MODULE_OF = {"CachingCompiler": "cache", "Computation": "computation", "ComputationRequest": "request",
              "IoSpecification": "request", "OptimizeOptions": "optimize"}

__all__ = ["CachingCompiler", "Computation", "ComputationRequest", "IoSpecification", "OptimizeOptions", "compile"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'nnet3py.compiler' has no attribute {name!r}")
    return getattr(import_module(f"nnet3py.compiler.{_MODULE_OF[name]}"), name)


def compile(nnet: AnyModel, request: ComputationRequest, optimize: bool | OptimizeOptions = True,
            shortcut: bool = True, cache_dir: str | os.PathLike[str] | None = None) -> Computation:
    """Compile the computation for a request.

    Parameters
    ----------
    nnet : the network, or an acoustic model
    request : the rows of the inputs that will be given, and of the outputs that are wanted
    optimize : whether to optimize and fuse, or the options of the optimizer; results differ by rounding at most
    shortcut : whether to compile a request for many equal sequences for two of them and to extend the result to all:
        faster, with the same result
    cache_dir : a folder where computations are kept for other processes; None: the folder that the environment variable
        NNET3PY_COMPUTATION_CACHE names, if it is set; "": no folder

    Returns
    -------
    Computation
        The command list, for :class:`nnet3py.Computer`; ``print(computation.describe(nnet))`` lists it.

    Raises
    ------
    NotComputableError : an output row cannot be computed from the inputs
    Nnet3Error : the network has no such inputs or outputs, or cannot be compiled
    """
    from nnet3py.compiler.cache import CachingCompiler
    from nnet3py.compiler.optimize import OptimizeOptions
    from nnet3py.network.model_file import network_of

    nnet = network_of(nnet)
    options = optimize if isinstance(optimize, OptimizeOptions) else OptimizeOptions(optimize=bool(optimize))
    return CachingCompiler(nnet, options, capacity=1, use_shortcut=shortcut, cache_dir=cache_dir).compile(request)
