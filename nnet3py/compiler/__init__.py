"""The compiler: from a network and a request to a command list."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.compiler.cache import CachingCompiler, OptimizeOptions
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.request import ComputationRequest, IoSpecification

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

__all__ = ["CachingCompiler", "Computation", "ComputationRequest", "IoSpecification", "OptimizeOptions", "compile"]


def compile(nnet: Nnet, request: ComputationRequest, optimize: bool | OptimizeOptions = True,
            shortcut: bool = True) -> Computation:
    """Make the command list for ``request``.

    Parameters
    ----------
    optimize : whether to optimise it, or in detail what; results do not depend on it
    shortcut : work out sequences of one shape together; false is slower, with the same result

    Raises
    ------
    NotComputableError : an output row cannot be computed from the inputs
    Nnet3Error : the network has no such inputs or outputs, or cannot be compiled
    """
    options = optimize if isinstance(optimize, OptimizeOptions) else OptimizeOptions(optimize=bool(optimize))
    return CachingCompiler(nnet, options, capacity=1, use_shortcut=shortcut).compile(request)
