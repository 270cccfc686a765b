"""Loops as machine code that is kept on disk, and loaded from there without numba: in 0.05 s instead of 0.3 s.

Such a loop is a function of numbers and of addresses of numbers (``p[i]`` only), of a file beside this one that is
imported when it is compiled. Others may run while it works. Light.
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from nnet3py.cached_property import cached_property

if TYPE_CHECKING:
    from nnet3py.engine.code_files import Code

_NUMBA_TYPES = {"u1": "uint8", "u2": "uint16", "i4": "int32", "i8": "int64", "f4": "float32"}
_lock = threading.RLock()


class Loop:
    """The function ``name`` of the file ``source`` of this folder, compiled when it is first called.

    ``types`` names its arguments' types, such as ``"u1* f4 i8"``. For an address it takes bytes, or an integer.
    """

    def __init__(self, source: str, name: str, types: str) -> None:
        self._source, self._name, self._types = source, name, types.split()

    def __call__(self, *args: Any) -> None:
        self._function(*args)

    def prepare(self) -> None:
        """Load the machine code, and compile it if it is not on disk."""
        self._function  # noqa: B018

    @cached_property
    def _function(self) -> Callable[..., None]:
        from nnet3py.engine import code_files, entries
        from nnet3py.engine.cache_folder import cache_folder

        with _lock:
            name = f"{self._name}-{'-'.join(self._types)}.kernel".replace("*", "p")
            path = cache_folder() / _folder_name(self._source) / name
            code = code_files.read(path)
            if code is None:
                code = self._compiled()
                code_files.keep(path, code)
            return entries.function_of(code, self._name)

    def _compiled(self) -> Code:
        from importlib import import_module

        from numba import types

        from nnet3py.engine import compiling

        function = getattr(import_module(f"nnet3py.io.{self._source}"), self._name)
        return compiling.make(function, [types.CPointer(getattr(types, _NUMBA_TYPES[kind[:-1]])) if kind.endswith("*")
                                      else getattr(types, _NUMBA_TYPES[kind]) for kind in self._types])


@cache
def _folder_name(source: str) -> str:
    from pathlib import Path

    from nnet3py.engine import code_files

    return f"files-{code_files.folder_name([Path(__file__).with_name(f'{source}.py')])}"
