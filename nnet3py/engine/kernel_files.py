"""The compiled kernels: found on disk, or made now and kept there; loaded once in a process. Light: no numba."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding

from nnet3py.engine import code_files, entries, symbols
from nnet3py.engine.code_bytes import Code
from nnet3py.engine.code_keys import Key
from nnet3py.engine.kernel_cache import sources_of

_loaded: dict[Key, Callable[..., Any]] = {}


def find(source: Path, name: str) -> Callable[..., Any] | None:
    """The kernel ``name`` of a source file, if it is in the process or on disk.

    It checks its arguments' types, releases the GIL, checks no bounds, and follows numpy where Python would raise.
    """
    with code_files.lock:
        key = key_of(source, name)
        if key not in _loaded:
            code = code_files.find(key)
            if code is None:
                return None
            _loaded[key] = function_of(code, name)
        return _loaded[key]


def find_or_make(source: Path, name: str, compile_code: Callable[[], Code]) -> Callable[..., Any]:
    """The same; if it is not on disk, it is compiled and kept there."""
    with code_files.lock:
        key = key_of(source, name)
        if key not in _loaded:
            _loaded[key] = function_of(code_files.find_or_make(key, compile_code), name)
        return _loaded[key]


def key_of(source: Path, name: str) -> Key:
    """What the kernel ``name`` of a source file is kept by."""
    return Key(source, name, sources_of(source))


def function_of(code: Code, name: str) -> Callable[..., Any]:
    """Load code that Python is to call, and make a function of it."""
    provide(code.needs)
    return entries.function_of(code, name)


def provide(needs: Iterable[str]) -> None:
    """Make known to LLVM what code refers to: without it, loading that would end the process."""
    for symbol in needs:
        if symbol in symbols.PROVIDERS:
            import_module(symbols.PROVIDERS[symbol])


def add_function(symbol: str, source: Path, name: str) -> None:
    """Make the C function ``name`` of a source file known to LLVM as ``symbol``: from the disk, or compiled now."""
    with code_files.lock:
        code = code_files.find_or_make(key_of(source, name), maker_of(source, name))
        provide(code.needs)
        llvmlite.binding.add_symbol(symbol, code_files.load(code))


def maker_of(source: Path, name: str) -> Callable[[], Code]:
    """What compiles a C function: the function ``make_`` + ``name`` of that file's module, which is imported for it."""
    def make() -> Code:
        code: Code = getattr(import_module(f"nnet3py.engine.{source.stem}"), f"make_{name}")()
        return code

    return make
