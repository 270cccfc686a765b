"""Object files that are kept on disk, and loaded into the process by llvmlite. Light: no numba, no numpy."""
from __future__ import annotations

import marshal
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec, source_hash  # the hash that Python itself knows files by; quickly loaded
from pathlib import Path
from typing import Any, NamedTuple

from nnet3py.machine_code.processor import processor

_HASH = 8                               # bytes
_NUMBAS_SETTINGS = ("CPU_NAME", "CPU_FEATURES", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "DEBUGINFO")
_lock = threading.RLock()


class Code(NamedTuple):
    """What was compiled of a function.

    ``symbol`` is the name of its entry; ``call`` a Python expression that calls ``compiled``, which is the entry, with
    default values, or ""; ``needs`` are the symbols of ours that must be known before it is loaded; ``objects`` object
    files that may refer to each other.
    """

    symbol: str
    call: str
    needs: tuple[str, ...]
    objects: tuple[bytes, ...]


def read(path: Path) -> Code | None:
    """What is kept in a file; None if there is none, or if it is damaged."""
    try:
        kept = path.read_bytes()
    except OSError:
        return None
    content = kept[_HASH:]
    return Code(*marshal.loads(content)) if source_hash(content) == kept[:_HASH] else None


def keep(path: Path, code: Code) -> None:
    """Write a file, if that is possible, which no other process sees unfinished."""
    content = marshal.dumps(tuple(code))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.write_bytes(source_hash(content) + content)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()


def folder_name(sources: Iterable[Path]) -> str:
    """A name made of all that decides the machine code of functions in these files."""
    parts = [_facts()]
    for source in sorted(sources):
        parts += [source.name.encode(), source.read_bytes()]
    return source_hash(b"\0".join(parts)).hex()


@cache
def _facts() -> bytes:
    """What decides machine code apart from the functions: this package, the compiler, Python, numpy, the processor."""
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
        from llvmlite import binding

        self.symbols.add(code.symbol)
        for content in code.objects:
            self._engine.add_object_file(binding.ObjectFileRef.from_data(content))
        self._engine.finalize_object()
        return int(self._engine.get_function_address(code.symbol))


_engines: list[_Engine] = []            # own the memory of the code


def load(code: Code) -> int:
    """Load what was compiled; the address of its entry. All symbols that it needs must be known to LLVM."""
    with _lock:
        for engine in _engines:
            if code.symbol not in engine.symbols:
                return engine.load(code)
        _engines.append(_Engine())
        return _engines[-1].load(code)
