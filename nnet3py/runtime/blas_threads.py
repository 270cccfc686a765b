"""BLAS without threads of its own while our threads compute with it, and with a user's number of them after that.

In the process of a command BLAS never has any (``engine/threads.py``).
"""
from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any

from nnet3py.engine import threads

_rule: Any = None           # int64 (1,), product_rule's


class BlasAlone:
    """While somebody is in such a context, BLAS computes with the thread that calls it; then all is as it was.

    It costs a few microseconds where products go to BLAS, and next to nothing elsewhere.
    """

    __slots__ = ("_limits",)

    def __enter__(self) -> None:
        self._limits = not threads.process_is_ours() and _calls_blas()
        if self._limits:
            _limited.enter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._limits:
            _limited.leave()


def _calls_blas() -> bool:
    """Whether any of our products goes to BLAS, by the rule of this process."""
    global _rule
    if _rule is None:
        from nnet3py.engine import product_rule  # which loads BLAS if it is to be called

        _rule = product_rule.words[product_rule.RULE:product_rule.RULE + 1]
    return bool(_rule[0])


class _Limited:
    """How many are in the context, and how many threads each library had before the first came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._libraries: list[Any] | None = None
        self._inside = 0
        self._before: list[int] = []

    def enter(self) -> None:
        """The first one limits every library."""
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
        """The last one gives them back what they had."""
        with self._lock:
            if self._inside:
                self._inside -= 1
                self._restore()

    def after_fork(self) -> None:
        """In a child none of the parent's threads goes on that were inside."""
        self._lock, self._inside = threading.Lock(), 0
        self._restore()

    def _restore(self) -> None:
        if self._inside:
            return
        for library, count in zip(self._libraries or (), self._before, strict=False):
            if count != 1 and library.get_num_threads() == 1:      # else somebody has chosen another number meanwhile
                library.set_num_threads(count)
        self._before = []


_limited = _Limited()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limited.after_fork)
