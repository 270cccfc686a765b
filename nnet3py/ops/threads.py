"""How many threads compute: numba's and BLAS's together, so that they never compete.

All products go through scipy's BLAS (``ops/cpu/blas.py``), so that one gets the threads and every other BLAS of the
process (numpy's brings its own) gets one: two pools whose threads spin while they wait would slow each other down.
"""
from __future__ import annotations

import os
from importlib import import_module

from nnet3py.errors import UsageError

_chosen: int | None = None


def available_cores() -> int:
    """The number of processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:     # not on macOS or Windows
        return os.cpu_count() or 1


def num_threads() -> int:
    """The number of threads that computing uses."""
    return _chosen or available_cores()


def set_num_threads(count: int | None) -> None:
    """Choose the number of threads (``--num-threads``); None or 0 stands for the cores this process may use.

    Raises
    ------
    UsageError
        ``count`` is negative.
    """
    global _chosen
    if count is not None and count < 0:
        raise UsageError(f"--num-threads={count}: expected a positive number, or 0 for all cores of this process")
    _chosen = count or None
    apply()


def apply() -> None:
    """Give numba and BLAS the chosen number of threads."""
    import numba

    from nnet3py.ops.cpu import blas, products

    count = num_threads()
    most: int = import_module("numba.core.config").NUMBA_NUM_THREADS     # set when numba is imported
    numba.set_num_threads(min(count, most))
    products.threads[0] = count
    for library in blas.blas_libraries():
        library.set_num_threads(1 if blas.is_numpys_own(library.filepath) else count)
