"""The compiler: from a network and a request to a command list. Its parts are imported on first use.

``request.py`` → ``build_graph.py``, ``graph.py`` (which cindexes; ``explain.py`` says why not) → ``steps.py`` (in what
order) → ``generate.py`` (which commands) → ``optimize/`` → ``fuse/`` (what the device can do in one call).
``node_rules.py`` holds what each kind of node depends on; ``context.py`` measures contexts with the graph.
docs/compiler.md follows one network through all of it.

Similar requests: ``sequences.py`` reduces a request to one sequence per shape; ``shortcut.py`` compiles a request for
many equal sequences as one for two, and extends the optimized result; ``segments.py`` joins the graphs of several
requests, which is how ``looped.py`` compiles the first chunks of a stream, ending with a jump back. ``cache.py``:
``CachingCompiler(nnet, options, capacity, use_shortcut, cache_dir).compile(request)``.

``computation.py``: a ``Computation`` is a list of commands (``command_list.py``) with ``describe(nnet)``. It has
``matrices`` (``MatrixInfo(num_rows, num_cols, contiguous)``) and ``submatrices`` (``SubMatrix(matrix, row_offset,
num_rows, col_offset, num_cols)``), entry 0 of both being empty; ``commands`` (``Command(type, alpha, args)``, Kaldi's
arguments in Kaldi's order); ``indexes``, ``indexes_multi``, ``indexes_ranges`` (int32 arrays); ``precomputed_indexes``
(entry 0 None) and ``precomputed_rows`` (the indexes they were made from); ``debug_info``; ``need_model_derivative``.
``commands.COMMANDS`` declares the role of each argument of each ``CommandType``: printing, analysis (``analyze.py``:
who reads and writes what), checking (``check.py``) and binding derive from it. A FUSED command's ``parts`` are Kaldi's
commands, and ``unfused()`` puts them back; files and the cache on disk hold those. ``tables.py`` has commands,
sub-matrices and matrices as arrays, which a ``Computation`` keeps until a list changes (``invalidate_caches()``);
``optimize/command_lists.py`` changes a list together with its table.

Computations are shared between processes through a folder, if ``cache_dir``, ``--compiler.cache-dir`` or
``$NNET3PY_COMPUTATION_CACHE`` names one. ``cache_key.py`` makes the key, a digest of request, options, nodes, the
components as they are written but without real numbers, their properties, and the sources of compiler, components and
network. (If a component's choice of rows depended on a real number, the key would need it.) ``cache_entry.py`` is the
format, ``disk_cache.py`` the folder: at most 512 MiB; the least recently used entries are deleted first. If anything is
wrong there, one warning is logged, and the computation is compiled.
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
    """Make the command list for ``request``.

    Parameters
    ----------
    nnet : the network
    request : which rows are given and wanted
    optimize : whether to optimize and fuse it, or options that say what to do; results differ by rounding at most
    shortcut : work out sequences of one shape together; false is slower, with the same result
    cache_dir : a folder where computations are kept for other processes; None: the one that the environment variable
        NNET3PY_COMPUTATION_CACHE names, if it is set; "": none

    Returns
    -------
    A list of commands, for :class:`nnet3py.Computer`; ``print(computation.describe(nnet))``.

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
