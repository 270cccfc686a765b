"""The formulas that operations of all devices share, written once, as plain functions of numbers.

``elements.py`` has the formulas of elementwise operations and ``loops.py`` whole loops, from which the kernels of both
devices are made; the other files have functions that kernels call. The CPU and the GPU each compile the functions that
their kernels need (``cpu/operation.py``, ``cuda/threads.py``)::

    sigmoid = formula(functions.sigmoid)      # also compiles exp, which sigmoid calls
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any


class Formulas:
    """Compiler of formulas for a device: each is compiled once, together with the formulas that it calls.

    Parameters
    ----------
    jit : function that compiles a Python function for calls from kernels of the device
    own : compiled functions of the device that replace formulas, by formula
    """

    def __init__(self, jit: Callable[[Any], Any], own: Mapping[Any, Any] | None = None) -> None:
        self._jit = jit
        self._made = dict(own or {})

    def __call__(self, formula: Any) -> Any:
        """Return the formula compiled for the device, for calls from kernels."""
        if formula not in self._made:
            self._made[formula] = self._jit(self.bound(formula, formula.__code__.co_filename, formula.__module__))
        return self._made[formula]

    def bound(self, formula: Any, file: str, module: str) -> FunctionType:
        """Return a formula that is not compiled itself but calls compiled ones; it gets the given source and module."""
        names = formula.__globals__
        called = {name: self._of(names[name]) for name in formula.__code__.co_names if name in names}
        return FunctionType(formula.__code__.replace(co_filename=file), {"__name__": module, **called},
                            formula.__name__)

    def _of(self, value: Any) -> Any:
        is_formula = isinstance(value, FunctionType) and value.__module__.startswith(__name__)
        return self(value) if is_formula else value
