"""Pauses Python's garbage collector.

A compilation makes tens of thousands of small objects that all live on, and none that only the collector could free;
the collector looks at them again and again all the same, and at everything else in memory with them.
"""
from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def gc_paused(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """``function`` with garbage collection paused (a collection that was due may follow it)."""

    @wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not gc.isenabled():
            return function(*args, **kwargs)
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            gc.enable()

    return wrapper
