"""The compiled kernels: found on disk, or made now and kept there; loaded once in a process. Light: no numba."""
from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from nnet3py.cache_folder import cache_folder
from nnet3py.machine_code import entries, objects
from nnet3py.machine_code.objects import Code
from nnet3py.ops.cpu import symbols
from nnet3py.ops.kernel_cache import folder_of

logger = logging.getLogger("nnet3py.ops")

_lock = threading.RLock()
_loaded: dict[Path, Callable[..., Any]] = {}
_announced = False


def find(source: Path, name: str) -> Callable[..., Any] | None:
    """The kernel ``name`` of a source file, if it is in the process or on disk.

    It checks its arguments' types, releases the GIL, checks no bounds, and follows numpy where Python would raise.
    """
    path = _path(source, name)
    with _lock:
        if path not in _loaded:
            code = objects.read(path)
            if code is None:
                return None
            _loaded[path] = _function_of(code, name)
        return _loaded[path]


def find_or_make(source: Path, name: str, compile_code: Callable[[], Code]) -> Callable[..., Any]:
    """The same; if it is on no disk, it is compiled and kept there."""
    with _lock:
        known = find(source, name)
        if known is None:
            known = _loaded[_path(source, name)] = _function_of(_made(source, name, compile_code), name)
        return known


def address_of(source: Path, name: str, compile_code: Callable[[], Code]) -> int:
    """The address of a C function, from the disk or compiled now."""
    code = objects.read(_path(source, name)) or _made(source, name, compile_code)
    provide(code.needs)
    return objects.load(code)


def _path(source: Path, name: str) -> Path:
    return folder_of(source) / f"{source.stem}.{name}.kernel"


def _made(source: Path, name: str, compile_code: Callable[[], Code]) -> Code:
    global _announced
    code = compile_code()
    objects.keep(_path(source, name), code)
    if not _announced:
        _announced = True
        logger.info("Compiling kernels for this machine (once; they are kept in %s)", cache_folder())
    return code


def _function_of(code: Code, name: str) -> Callable[..., Any]:
    provide(code.needs)
    return entries.function_of(code, name)


def provide(needs: Iterable[str]) -> None:
    """Make known to LLVM what code refers to: without it, loading that would end the process."""
    for symbol in needs:
        if symbol in symbols.PROVIDERS:
            import_module(symbols.PROVIDERS[symbol])
