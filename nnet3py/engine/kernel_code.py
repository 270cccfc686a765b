"""The format of files with a function's machine code, and the key that names a file. Light: no numba, no numpy.

Files are not pickles, and no text in them is evaluated.
"""
from __future__ import annotations

import re
import struct
from functools import cache
from pathlib import Path
from typing import NamedTuple

try:
    from _blake2 import blake2b  # hashlib loads OpenSSL, which takes 3 ms
except ImportError:
    from hashlib import blake2b

_HASH = 8                               # bytes
_SIZE = struct.Struct("<q")             # stands before each part of a file


def hash_of(content: bytes) -> bytes:
    """Return the BLAKE2b hash of bytes, 8 bytes."""
    digest: bytes = blake2b(content, digest_size=_HASH).digest()
    return digest


class Code(NamedTuple):
    """A compiled function.

    ``symbol`` is the name of its entry point; ``defaults`` are the default values of its last arguments; ``names`` are
    those of all arguments, empty without defaults; ``needs`` are the symbols (``interface.SYMBOLS``) that must be in
    LLVM's table before it is loaded; ``content`` is an object file.
    """

    symbol: str
    names: tuple[str, ...]
    defaults: tuple[float | bool, ...]
    needs: tuple[str, ...]
    content: bytes


def to_bytes(code: Code, owner: str) -> bytes:
    """Return the content of a file: a hash of the rest, ``owner`` (a text that says what the file is for), the code."""
    texts = (owner, code.symbol, " ".join(code.names), " ".join(map(repr, code.defaults)), " ".join(code.needs))
    parts = (*(text.encode() for text in texts), code.content)
    content = b"".join(_SIZE.pack(len(part)) + part for part in parts)
    return hash_of(content) + content


def from_bytes(kept: bytes, owner: str) -> Code | None:
    """Return the code in the content of a file; None if it is damaged or has another owner."""
    parts = _fields(kept)
    if parts is None or parts[0].decode() != owner:
        return None
    symbol, names, defaults, needs = (part.decode() for part in parts[1:5])
    return Code(symbol, tuple(names.split()), tuple(map(_number, defaults.split())), tuple(needs.split()), parts[5])


def owner_in(kept: bytes) -> str | None:
    """Return the owner in the content of a file; None if it is damaged."""
    parts = _fields(kept)
    return None if parts is None else parts[0].decode()


def _fields(kept: bytes) -> list[bytes] | None:
    content = kept[_HASH:]
    if hash_of(content) != kept[:_HASH]:
        return None
    parts, at = [], 0
    while at < len(content):
        (size,) = _SIZE.unpack_from(content, at)
        at += _SIZE.size + size
        parts.append(content[at - size:at])
    return parts


def _number(text: str) -> float | bool:
    """Return the number or boolean whose ``repr`` is ``text``."""
    if text in ("True", "False"):
        return text == "True"
    return int(text) if text.lstrip("-").isdigit() else float(text)


# -- keys --------------------------------------------------------------------------------------------------------------


class Key(NamedTuple):
    """Key of a function's code: its source file, its name, and all source files on which the code depends."""

    source: Path
    name: str
    sources: frozenset[Path]

    @property
    def file_name(self) -> str:
        """Name of the file with the code, in a folder for these sources."""
        return f"{self.source.stem}.{self.name}.kernel"


@cache
def sources_hash(sources: frozenset[Path]) -> str:
    """Return a hash of source files and of all files of ``engine/``, on which every function depends."""
    files = (*_engine_files(), *sorted(sources))
    return hash_of(b"".join(hash_of(path.name.encode()) + _content_hash(path) for path in files)).hex()


@cache
def _engine_files() -> tuple[Path, ...]:
    return tuple(sorted(Path(__file__).parent.glob("*.py")))


@cache
def _content_hash(path: Path) -> bytes:
    return hash_of(path.read_bytes())


# -- the sources of a kernel -------------------------------------------------------------------------------------------

_OPS = Path(__file__).resolve().parents[1] / "ops"

# `from nnet3py.ops.x import a, b`, its names perhaps in brackets, or `import nnet3py.ops.x`; parsing would take longer
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+(nnet3py\.ops[\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|"
                     rb"import[ \t]+(nnet3py\.ops[\w.]*))", re.MULTILINE)


@cache
def _sources() -> dict[str, Path]:
    """Return a dict from names of modules below ``nnet3py.ops`` to their source files."""
    files = {}
    for path in _OPS.rglob("*.py"):
        parts = ("nnet3py", "ops", *path.relative_to(_OPS).with_suffix("").parts)
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@cache
def _imported_sources(path: Path) -> frozenset[Path]:
    """Return the source files below ``ops/`` that the file at ``path`` imports directly."""
    sources = _sources()
    paths: set[Path] = set()
    for package, names, module in _IMPORT.findall(path.read_bytes()):
        base = (package or module).decode()
        below = (f"{base}.{word}" for word in re.findall(r"\w+", names.decode()))
        paths.update(sources[name] for name in (base, *below) if name in sources)
    return frozenset(paths)


@cache
def sources_of(path: Path) -> frozenset[Path]:
    """Return the file at ``path`` and all files below ``ops/`` that it imports, directly or not.

    The machine code of its kernels depends on them. numba's own cache checks only the file that contains a function,
    and so misses a change in a function called from another file.
    """
    sources, pending = set(), [path]
    while pending:
        source = pending.pop()
        if source not in sources:
            sources.add(source)
            pending.extend(_imported_sources(source))
    return frozenset(sources)
