"""Threads of BLAS: none of its own while our threads compute with it, and the user's number of them after that.

So do streams of sound, whose products of small matrices numpy computes: two threads of BLAS, which spin while they
wait, double a stream's processor time and win no time.

In the process of a command BLAS never has any (``engine/threads.py``).
"""
from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any

from nnet3py.engine import threads

_rule: Any = None           # int64 (1,), a view of product_rule's words


class BlasAlone:
    """A context in which BLAS computes with the thread that calls it, and has no threads of its own.

    After the last such context the user's number of threads is restored. It costs a few microseconds where products go
    to BLAS, and next to nothing elsewhere.

    Parameters
    ----------
    numpy_too : whether numpy computes products within; False: only kernels do, of which BLAS may compute none
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
    """Return whether any of our products goes to BLAS, by the rule of this process."""
    global _rule
    if _rule is None:
        from nnet3py.engine import product_rule  # loads BLAS if products go there

        _rule = product_rule.words[product_rule.RULE:product_rule.RULE + 1]
    return bool(_rule[0])


class _BlasLimit:
    """The number of contexts that are open, and each library's number of threads before the first was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._libraries: list[Any] | None = None
        self._inside = 0
        self._before: list[int] = []

    def enter(self) -> None:
        """Count a context; the first one limits every library."""
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
        """End a context; the last one restores the numbers of threads."""
        with self._lock:
            if self._inside:
                self._inside -= 1
                self._restore()

    def after_fork(self) -> None:
        """Restore the numbers of threads in a child process, in which none of the parent's threads goes on."""
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
