"""The number of threads that compute.

Kernels and matrix products share their work among the threads of ``team.py``. numba's threads are not used, and BLAS
computes with the calling thread alone: two pools of threads that wait in loops would slow each other down. In the
process of a command BLAS is always limited to one thread; in a user's program, where numpy uses BLAS as well, only
while products of this package are computed by BLAS (``runtime/blas_threads.py``).

The number is ``--num-threads``, or else ``NNET3PY_NUM_THREADS`` of the environment (set for jobs that share a machine),
or else the number of cores that the process may use.
"""
from __future__ import annotations

import os
from typing import Any

from nnet3py.errors import UsageError
from nnet3py.system import available_cores

VARIABLE = "NNET3PY_NUM_THREADS"
# Columns are summed over so many rows at a time, and then these partial sums are added, for any number of threads: so
# results do not depend on the number of threads.
ROWS_OF_A_SUM = 64
_OTHERS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")   # of BLAS libraries

_chosen: int | None = None
_process_is_ours = False         # whether this is the process of a command


def num_threads() -> int:
    """Return the number of threads that compute. Raises UsageError: ``NNET3PY_NUM_THREADS`` is not a number."""
    return _chosen or _threads_in_environment() or available_cores()


def _threads_in_environment() -> int | None:
    """Return the value of ``NNET3PY_NUM_THREADS``; None if it is missing, empty or 0."""
    text = os.environ.get(VARIABLE, "").strip()
    if text and not (text.isascii() and text.isdigit()):
        raise UsageError(f"{VARIABLE}={text}: expected a positive number, or 0 for all cores of this process")
    return int(text or 0) or None


def environment_of_threads(count: int) -> dict[str, str]:
    """Return the environment variables that make a new process, and its children, compute with ``count`` threads."""
    return dict.fromkeys((VARIABLE, *_OTHERS), str(count))


def bind_libraries() -> None:
    """Limit numpy's BLAS to ``NNET3PY_NUM_THREADS``, if that is set; to be called before numpy is imported."""
    count = _threads_in_environment()
    if count:
        for name, value in environment_of_threads(count).items():
            os.environ.setdefault(name, value)


def set_num_threads(count: int | None) -> None:
    """Set the number of threads (``--num-threads``).

    None or 0 stands for ``NNET3PY_NUM_THREADS``, or else for the number of cores that this process may use. Raises
    UsageError: ``count`` is negative.
    """
    global _chosen
    if count is not None and count < 0:
        raise UsageError(f"--num-threads={count}: expected a positive number, or 0 for all cores of this process")
    _chosen = count or None
    apply()


def own_process() -> None:
    """Declare that this is the process of a command, in which BLAS is limited to one thread."""
    global _process_is_ours
    _process_is_ours = True


def process_is_ours() -> bool:
    """Return whether :func:`own_process` was called."""
    return _process_is_ours


def apply() -> None:
    """Apply the number of threads to kernels; in the process of a command, limit every BLAS library to one thread."""
    from nnet3py.engine import code_files

    with code_files.lock:   # before the import's lock: loading a kernel that needs the team takes them in that order
        from nnet3py.engine import team

    team.set_team_size(num_threads())
    limit_blas()


def limit_blas() -> None:
    """Limit every BLAS library to the calling thread, if this is the process of a command."""
    if _process_is_ours:
        for library in blas_libraries():
            library.set_num_threads(1)


def blas_libraries() -> list[Any]:
    """Return the BLAS libraries that are loaded now, as threadpoolctl's controllers."""
    import threadpoolctl

    return [library for library in threadpoolctl.ThreadpoolController().lib_controllers if library.user_api == "blas"]
