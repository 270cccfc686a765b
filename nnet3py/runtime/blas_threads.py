"""Limits on the threads of BLAS: one while our own threads compute with it, the user's number after that.

Streams of audio are limited too, where numpy multiplies small matrices: two threads of BLAS, which spin while they
wait, double a stream's processor time without any gain. In the processes of our commands BLAS always has one thread
(``engine/threads.py``).
"""
from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any

from nnet3py.engine import threads

_rule: Any = None           # int64 (1,), a view of product_rule's words


class BlasAlone:
    """A context in which BLAS computes in the calling thread only.

    After the last open context the user's number of threads is restored. A context costs a few microseconds where BLAS
    computes products, and almost nothing elsewhere.

    Parameters
    ----------
    numpy_too : whether numpy multiplies matrices in the context; False: only kernels do, which do not always use BLAS
    """

    __slots__ = ("_is_limited", "_numpy_too")

    def __init__(self, numpy_too: bool = False) -> None:
        self._numpy_too = numpy_too

    def __enter__(self) -> None:
        self._is_limited = not threads.process_is_ours() and (self._numpy_too or _calls_blas())
        if self._is_limited:
            _limit.enter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._is_limited:
            _limit.leave()


def _calls_blas() -> bool:
    """Return whether kernels in this process leave any matrix products to BLAS."""
    global _rule
    if _rule is None:
        from nnet3py.engine import product_rule  # loads BLAS if products go there

        _rule = product_rule.words[product_rule.RULE:product_rule.RULE + 1]
    return bool(_rule[0])


class _BlasLimit:
    """The number of open contexts, and each BLAS library's number of threads before the first was opened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._libraries: list[Any] | None = None
        self._inside = 0
        self._before: list[int] = []

    def enter(self) -> None:
        """Open a context; the first one limits every library to one thread."""
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            if self._libraries is None:
                self._libraries = threads.blas_libraries()
            self._before = [library.get_num_threads() for library in self._libraries]
            for library, count in zip(self._libraries, self._before, strict=True):
                if count != 1:
                    library.set_num_threads(1)

    def leave(self) -> None:
        """Close a context; the last one restores the numbers of threads."""
        with self._lock:
            if self._inside:
                self._inside -= 1
                self._restore()

    def after_fork(self) -> None:
        """Restore the numbers of threads in a child process, where the parent's contexts are not open."""
        self._lock, self._inside = threading.Lock(), 0
        self._restore()

    def _restore(self) -> None:
        if self._inside:
            return
        for library, count in zip(self._libraries or (), self._before, strict=False):
            if count != 1 and library.get_num_threads() == 1:      # else the user has set another number meanwhile
                library.set_num_threads(count)
        self._before = []


_limit = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.after_fork)
