"""How the loops of this folder are compiled, which knows nothing of kernels and their cache.

Whoever has those sets ``compile_by``, so that the loops are kept with the kernels and are found there. Light.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

Compile = Callable[[Callable[..., Any], Any], Callable[..., Any]]

compile_by: Callable[[], Compile] | None = None
"""Loads what compiles a function for a signature of numba's types, letting other threads run while it works."""


def compiled(function: Callable[..., Any], signature: Any) -> Callable[..., Any]:
    """``function`` compiled for a signature; by numba, and kept where numba does, if nobody knows better."""
    if compile_by is not None:
        return compile_by()(function, signature)
    import numba

    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(signature, cache=True, **options)(function)
    except RuntimeError:                    # no folder can be written
        return numba.njit(signature, **options)(function)
