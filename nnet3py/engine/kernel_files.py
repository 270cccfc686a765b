"""The compiled kernels: found on disk, or made now and kept there; loaded once in a process. Light: no numba."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding

from nnet3py.engine import code_files, entries, symbols
from nnet3py.engine.code_files import Code
from nnet3py.engine.kernel_cache import folder_of

_loaded: dict[Path, Callable[..., Any]] = {}


def find(source: Path, name: str) -> Callable[..., Any] | None:
    """The kernel ``name`` of a source file, if it is in the process or on disk.

    It checks its arguments' types, releases the GIL, checks no bounds, and follows numpy where Python would raise.
    """
    with code_files.lock:
        path = _path(source, name)
        if path not in _loaded:
            code = code_files.read(path)
            if code is None:
                return None
            _loaded[path] = _function_of(code, name)
        return _loaded[path]


def find_or_make(source: Path, name: str, compile_code: Callable[[], Code]) -> Callable[..., Any]:
    """The same; if it is not on disk, it is compiled and kept there."""
    with code_files.lock:
        path = _path(source, name)
        if path not in _loaded:
            _loaded[path] = _function_of(code_files.find_or_make(path, compile_code), name)
        return _loaded[path]


def address_of(source: Path, name: str, compile_code: Callable[[], Code]) -> int:
    """The address of a C function, from the disk or compiled now."""
    with code_files.lock:
        code = code_files.find_or_make(_path(source, name), compile_code)
        provide(code.needs)
        return code_files.load(code)


def _path(source: Path, name: str) -> Path:
    return folder_of(source) / f"{source.stem}.{name}.kernel"


def _function_of(code: Code, name: str) -> Callable[..., Any]:
    provide(code.needs)
    return entries.function_of(code, name)


def provide(needs: Iterable[str]) -> None:
    """Make known to LLVM what code refers to: without it, loading that would end the process."""
    for symbol in needs:
        if symbol in symbols.PROVIDERS:
            import_module(symbols.PROVIDERS[symbol])


def add_function(symbol: str, source: Path, name: str) -> None:
    """Make the C function ``name`` of a source file known to LLVM as ``symbol``: from the disk, or compiled now.

    The module of that source file has a function ``make_`` + ``name``, which compiles it.
    """
    def make() -> Code:
        code: Code = getattr(import_module(f"nnet3py.engine.{source.stem}"), f"make_{name}")()
        return code

    llvmlite.binding.add_symbol(symbol, address_of(source, name, make))
