"""Object files that are kept on disk, and loaded into the process by llvmlite. Light: no numba, no numpy."""
from __future__ import annotations

import logging
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec, source_hash  # the hash that Python itself knows files by; quickly loaded
from pathlib import Path
from typing import Any, NamedTuple

from nnet3py.engine.process_lock import alone
from nnet3py.engine.processor import processor
from nnet3py.trusted_files import UNFINISHED, UntrustedFile, make_private, read_trusted, write_private

logger = logging.getLogger("nnet3py.ops")

_HASH = 8                               # bytes
_SIZE = struct.Struct("<q")             # stands before each part of a file
_NUMBAS_SETTINGS = ("CPU_NAME", "CPU_FEATURES", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "DEBUGINFO")

# Whoever makes, finds or loads machine code holds this; so do all who call llvmlite, which has a lock of its own.
# A fork waits for it: the child could wait for ever for a thread that it does not have.
lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


class Code(NamedTuple):
    """The result of compiling a function.

    ``symbol`` is the name of its entry; ``defaults`` are the values of its last arguments and ``names`` those of all,
    where it has defaults; ``needs`` are the symbols of ours that must be known before it is loaded; ``objects`` object
    files that may refer to each other.
    """

    symbol: str
    names: tuple[str, ...]
    defaults: tuple[float | bool, ...]
    needs: tuple[str, ...]
    objects: tuple[bytes, ...]


def find_or_make(path: Path, compile_code: Callable[[], Code]) -> Code:
    """What is kept in a file, or is compiled now and kept there.

    If several processes look for it, one compiles it, and the others wait.
    """
    code = read(path)
    if code is None:
        with alone(path):
            code = read(path)        # another process may have made it meanwhile
            if code is None:
                code = compile_code()
                keep(path, code)
    return code


def read(path: Path) -> Code | None:
    """What is kept in a file; None if there is none, if it is damaged, or if it is not to be trusted."""
    try:
        kept = read_trusted(path)
    except UntrustedFile as error:
        _warn_of_untrusted(str(error))
        return None
    except OSError:
        return None
    content = kept[_HASH:]
    return _from_bytes(content, path) if source_hash(content) == kept[:_HASH] else None


@cache
def _warn_of_untrusted(fault: str) -> None:
    logger.warning("Compiled code is not used but made again: %s", fault)


def keep(path: Path, code: Code) -> None:
    """Write a file, if that is possible, which no other process sees unfinished."""
    content = _to_bytes(code, path)
    with suppress(OSError):
        make_private(path.parent)
        for abandoned in path.parent.glob(f"{path.name}-*{UNFINISHED}"):
            abandoned.unlink()
        write_private(path, source_hash(content) + content)


def _place(path: Path) -> str:
    """What a file says about where it belongs, so that a kernel's file under another's name is not taken for it."""
    return f"{path.parent.name}/{path.name}"


def _to_bytes(code: Code, path: Path) -> bytes:
    texts = (_place(path), code.symbol, " ".join(code.names), " ".join(map(repr, code.defaults)), " ".join(code.needs))
    parts = (*(text.encode() for text in texts), *code.objects)
    return b"".join(_SIZE.pack(len(part)) + part for part in parts)


def _from_bytes(content: bytes, path: Path) -> Code | None:
    """The code in a file's bytes; None if they belong to another function. Data only: nothing is evaluated."""
    parts, at = [], 0
    while at < len(content):
        (size,) = _SIZE.unpack_from(content, at)
        at += _SIZE.size + size
        parts.append(content[at - size:at])
    place, symbol, names, defaults, needs = (part.decode() for part in parts[:5])
    if place != _place(path):
        return None
    return Code(symbol, tuple(names.split()), tuple(map(_number, defaults.split())), tuple(needs.split()),
                tuple(parts[5:]))


def _number(text: str) -> float | bool:
    """What ``repr`` of a number or of a boolean means."""
    if text in ("True", "False"):
        return text == "True"
    return int(text) if text.lstrip("-").isdigit() else float(text)


def folder_name(sources: Iterable[Path]) -> str:
    """A name made from everything that the machine code of functions in these files depends on."""
    parts = [_facts()]
    for source in sorted(sources):
        parts += [source.name.encode(), source.read_bytes()]
    return source_hash(b"\0".join(parts)).hex()


@cache
def _facts() -> bytes:
    """What machine code depends on besides functions: this package, the compiler, Python, numpy, the processor."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    versions = [_version_file(package) for package in ("numba", "llvmlite", "numpy")]
    kind, name, features, _ = processor()
    facts = [sys.version, kind, name, features, *(os.environ.get(f"NUMBA_{name}", "") for name in _NUMBAS_SETTINGS)]
    return b"\0".join([*(fact.encode() for fact in facts), *versions, *(source.read_bytes() for source in sources)])


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
        for content in code.objects:
            self._engine.add_object_file(binding.ObjectFileRef.from_data(content))
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
