"""Object files that are kept on disk, and loaded into the process by llvmlite. Light: no numba, no numpy."""
from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nnet3py.engine import shipped
from nnet3py.engine.cache_folder import cache_folder
from nnet3py.engine.code_bytes import Code, from_bytes, hash_of, to_bytes
from nnet3py.engine.code_keys import Key, sources_hash
from nnet3py.engine.process_lock import alone
from nnet3py.engine.processor import processor
from nnet3py.trusted_files import UNFINISHED, UntrustedFile, make_private, read_trusted, write_private

logger = logging.getLogger("nnet3py.ops")

_NUMBAS_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO")

# Whoever makes, finds or loads machine code holds this; so do all who call llvmlite, which has a lock of its own.
# A fork waits for it: the child could wait for ever for a thread that it does not have.
lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def find(key: Key) -> Code | None:
    """The code that came with the package, or else what is kept on this machine; None if there is neither."""
    return shipped.read(key) or read(_path(key))


def find_or_make(key: Key, compile_code: Callable[[], Code]) -> Code:
    """The same; if there is neither, it is compiled now and kept on this machine.

    If several processes look for it, one compiles it, and the others wait.
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
    """What is kept in a file; None if there is none, if it is damaged, or if it is not to be trusted."""
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
    """Write a file, if that is possible, which no other process sees unfinished."""
    with suppress(OSError):
        make_private(path.parent)
        for abandoned in path.parent.glob(f"{path.name}-*{UNFINISHED}"):
            abandoned.unlink()
        write_private(path, to_bytes(code, _place(path)))


def _place(path: Path) -> str:
    """What a file says about where it belongs, so that a kernel's file under another's name is not taken for it."""
    return f"{path.parent.name}/{path.name}"


def folder_name(sources: Iterable[Path]) -> str:
    """A name made from everything that the machine code of functions in these files depends on here."""
    return hash_of(_facts() + sources_hash(frozenset(sources)).encode()).hex()


@cache
def _facts() -> bytes:
    """What machine code that is compiled here depends on besides sources: compiler, Python, numpy, the processor."""
    versions = [_version_file(package) for package in ("numba", "llvmlite", "numpy")]
    facts = [sys.version, *processor()[:-1], *(os.environ.get(f"NUMBA_{name}", "") for name in _NUMBAS_SETTINGS)]
    return b"\0".join([*(fact.encode() for fact in facts), *versions])


@cache
def _version_file(package: str) -> bytes:
    """What names the version of a package without importing it."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return b""
    for name in ("_version.py", "version.py"):
        with suppress(OSError):
            return Path(spec.origin).with_name(name).read_bytes()
    from importlib.metadata import version

    return version(package).encode()


class _Engine:
    """Code that is in the process, with symbols that are all different."""

    def __init__(self) -> None:
        from llvmlite import binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine()   # the engine's own from here on
        self._engine: Any = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        self.symbols: set[str] = set()

    def load(self, code: Code) -> int:
        """Take in code whose symbol is not there yet; returns the address of its function."""
        from llvmlite import binding

        self.symbols.add(code.symbol)
        self._engine.add_object_file(binding.ObjectFileRef.from_data(code.content))
        self._engine.finalize_object()
        return int(self._engine.get_function_address(code.symbol))


_engines: list[_Engine] = []            # own the memory of the code


def load(code: Code) -> int:
    """Load what was compiled; the address of its entry. All symbols that it needs must be known to LLVM."""
    with lock:
        for engine in _engines:
            if code.symbol not in engine.symbols:
                return engine.load(code)
        _engines.append(_Engine())
        return _engines[-1].load(code)
