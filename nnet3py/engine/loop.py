"""Compiled loops for modules outside ``ops``, loaded from disk without numba, in 0.05 s instead of 0.3 s. Light.

A loop is a Python function of numbers, arrays and addresses, in a module that is imported only to compile it::

    # nnet3py/lattices/pruning.py
    _prune = Loop("nnet3py.lattices.pruning_loops", "prune", "i8[] i4[] f4[,] f8 f8[]")
    ...
    num_kept = _prune(arc_starts, next_states, weights, beam, costs)

A loop allocates no memory and raises no exception: if its arrays are too small it returns, and is called again with
larger ones. It checks no index. Functions that it calls are decorated with :data:`nnet3py.engine.inline.inline`. It is
compiled for one signature; arrays must be contiguous, writable and of that dtype. Other threads may run meanwhile.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from nnet3py.engine import interface

if TYPE_CHECKING:
    from pathlib import Path

    from nnet3py.engine.kernel_code import Code, Key

_NUMBA_TYPES = {"u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "i2": "int16", "i4": "int32",
                "i8": "int64", "f4": "float32", "f8": "float64", "b1": "boolean"}


class Loop:
    """The function ``name`` of the module ``source``, which is compiled or loaded when it is first called.

    Parameters
    ----------
    source : name of a module, which is imported only if the function must be compiled
    name : name of the function
    types : types of its arguments: ``f4`` a number, ``f4[]`` a vector, ``f4[,]`` a matrix, ``f4*`` an address, for
        which bytes or an integer are given
    uses : names of other modules whose functions it calls; after a change in one of their files it is compiled again
    """

    def __init__(self, source: str, name: str, types: str, uses: Sequence[str] = ()) -> None:
        self._source, self.name, self._types, self._uses = source, name, types.split(), tuple(uses)
        self._function: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        return (self._function or self._loaded())(*args)

    def prepare(self) -> None:
        """Load the machine code, after compiling it if it is not on disk."""
        self._loaded()

    def _loaded(self) -> Callable[..., Any]:
        from nnet3py.engine import code_files, kernel_files

        with code_files.lock:
            if self._function is None:
                self._function = kernel_files.function_of(code_files.find_or_make(self.key, self.make_code), self.name)
            return self._function

    @property
    def key(self) -> Key:
        """Key of the function's code on disk."""
        from nnet3py.engine.kernel_code import Key

        types = "-".join(self._types).replace("*", "p").replace("[]", "v").replace("[,]", "m")
        source, *others = (_file_of(module) for module in (self._source, *self._uses))
        return Key(source, f"{self.name}-{types}", frozenset([source, *others]))

    def make_code(self) -> Code:
        """Compile the function."""
        from importlib import import_module

        from nnet3py.engine import compiling

        function = getattr(import_module(self._source), self.name)
        return compiling.make(function, [_numba_type(kind) for kind in self._types], interface.SYMBOLS)


def _numba_type(text: str) -> Any:
    """Return the numba type for a word such as ``f4[]``."""
    from numba import types

    element = getattr(types, _NUMBA_TYPES[text[:2]])
    kinds = {"": lambda: element, "*": lambda: types.CPointer(element), "[]": lambda: types.Array(element, 1, "C"),
             "[,]": lambda: types.Array(element, 2, "C")}
    return kinds[text[2:]]()


@cache
def _file_of(module: str) -> Path:
    """Return the source file of a module, without importing it."""
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the module {module} has no source file", name=module)
    return Path(spec.origin).resolve()
