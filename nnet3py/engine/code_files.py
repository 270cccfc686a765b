"""Compiled code on disk, as object files that llvmlite loads into the process. Light: no numba, no numpy."""
from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nnet3py.engine import shipped
from nnet3py.engine.cache_folder import alone, cache_folder, private_folder
from nnet3py.engine.kernel_code import Code, Key, from_bytes, hash_of, sources_hash, sources_of, to_bytes
from nnet3py.engine.processor import processor
from nnet3py.trusted_files import (
    UNFINISHED,
    UntrustedFile,
    make_private,
    read_trusted,
    why_any_untrusted,
    write_private,
)

logger = logging.getLogger("nnet3py.ops")

_NUMBAS_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO")

# Held while machine code is compiled, searched or loaded, and during calls of llvmlite, which has a lock of its own. A
# fork waits for it: otherwise a thread that the child does not have could hold either lock for ever.
lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def find(key: Key) -> Code | None:
    """Return a function's code from the wheel or from this machine's cache folder; None if neither has it."""
    return shipped.read(key) or read(_path(key))


def find_or_make(key: Key, compile_code: Callable[[], Code]) -> Code:
    """Return a function's code as :func:`find`; if there is none, compile it and write it to the cache folder.

    If several processes need the same code, one compiles it, and the others wait.
    """
    code = find(key)
    if code is None:
        path = _path(key)
        with alone(path):
            code = read(path)        # another process may have made it meanwhile
            if code is None:
                code = compile_code()
                keep(path, code)
    return code


def _path(key: Key) -> Path:
    return cache_folder() / folder_name(key.sources) / key.file_name


def read(path: Path) -> Code | None:
    """Return the code in a file; None if it is missing or damaged, or if other users could have written it."""
    try:
        kept = read_trusted(path)
    except UntrustedFile as error:
        _warn_of_untrusted(str(error))
        return None
    except OSError:
        return None
    return from_bytes(kept, _place(path))


@cache
def _warn_of_untrusted(fault: str) -> None:
    logger.warning("Compiled code is not used but made again: %s", fault)


def keep(path: Path, code: Code) -> None:
    """Write code to a file atomically; do nothing if it cannot be written."""
    with suppress(OSError):
        make_private(path.parent)
        for abandoned in path.parent.glob(f"{path.name}-*{UNFINISHED}"):
            abandoned.unlink()
        write_private(path, to_bytes(code, _place(path)))


def _place(path: Path) -> str:
    """Return the owner text of a file: its folder and name; a file that was renamed is not used."""
    return f"{path.parent.name}/{path.name}"


def folder_name(sources: Iterable[Path]) -> str:
    """Return a folder name: a hash of all that machine code made from these source files depends on."""
    return hash_of(_facts() + sources_hash(frozenset(sources)).encode()).hex()


@cache
def _facts() -> bytes:
    """Return what machine code depends on besides sources: versions of compiler, Python and numpy; the processor."""
    versions = [_version_file(package) for package in ("numba", "llvmlite", "numpy")]
    facts = [sys.version, *processor()[:-1], *(os.environ.get(f"NUMBA_{name}", "") for name in _NUMBAS_SETTINGS)]
    return b"\0".join([*(fact.encode() for fact in facts), *versions])


@cache
def _version_file(package: str) -> bytes:
    """Return the content of the file that names a package's version, without importing the package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return b""
    for name in ("_version.py", "version.py"):
        with suppress(OSError):
            return Path(spec.origin).with_name(name).read_bytes()
    from importlib.metadata import version

    return version(package).encode()


class _Engine:
    """Execution engine of LLVM; the symbols of the code in one engine must differ."""

    def __init__(self) -> None:
        from llvmlite import binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine()   # the engine's own from here on
        self._engine: Any = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        self.symbols: set[str] = set()

    def load(self, code: Code) -> int:
        """Load code whose symbol is not in ``symbols``; return the address of its function."""
        from llvmlite import binding

        self.symbols.add(code.symbol)
        self._engine.add_object_file(binding.ObjectFileRef.from_data(code.content))
        self._engine.finalize_object()
        return int(self._engine.get_function_address(code.symbol))


_engines: list[_Engine] = []            # kept for ever, since they own the memory of loaded code


def load(code: Code) -> int:
    """Load code and return the address of its entry point; the symbols that it needs must be in LLVM's table."""
    with lock:
        for engine in _engines:
            if code.symbol not in engine.symbols:
                return engine.load(code)
        _engines.append(_Engine())
        return _engines[-1].load(code)


# -- CUDA kernels, which numba keeps -----------------------------------------------------------------------------------


@cache
def _trusted(folder: Path) -> Path:
    """Return ``folder``, or a private folder if other users could have written in it: numba executes its files."""
    with suppress(OSError):
        make_private(folder)         # what numba writes there has the mode that the umask gives
    fault = why_any_untrusted(folder)
    if fault is None:
        return folder
    logger.warning("Compiled kernels are not taken from %s, but made again: %s", folder, fault)
    return private_folder() / folder.name


@contextmanager
def kept_on_disk(path: Path, compiler: str = "") -> Iterator[None]:
    """Let numba cache what it compiles inside the ``with``, in a folder for the source file ``path``: for CUDA kernels.

    One thread of one process at a time is inside, for each file. ``compiler`` is the end of the folder's name: it names
    a compiler that does not belong to numba, whose code is kept separately.
    """
    from numba.core import config as numba_config

    config: Any = numba_config     # its attributes are made when it is imported
    with lock:           # also because CACHE_DIR is shared by the whole process
        folder = _trusted(cache_folder() / f"{folder_name(sources_of(path))}{compiler}")
        before = config.CACHE_DIR
        config.CACHE_DIR = str(folder)
        try:
            with alone(folder):
                yield
        finally:
            config.CACHE_DIR = before
