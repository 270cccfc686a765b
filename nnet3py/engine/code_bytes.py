"""Machine code as bytes of a file, never pickled. Light."""
from __future__ import annotations

import struct
from typing import NamedTuple

try:
    from _blake2 import blake2b  # hashlib loads OpenSSL, which takes 3 ms
except ImportError:
    from hashlib import blake2b

_HASH = 8                               # bytes
_SIZE = struct.Struct("<q")             # stands before each part of a file


def hash_of(content: bytes) -> bytes:
    """A hash of bytes, the same for all Pythons."""
    digest: bytes = blake2b(content, digest_size=_HASH).digest()
    return digest


class Code(NamedTuple):
    """The result of compiling a function.

    ``symbol`` is the name of its entry; ``defaults`` are the values of its last arguments and ``names`` those of all,
    where it has defaults; ``needs`` are the symbols of ours that must be known before it is loaded; ``content`` is an
    object file.
    """

    symbol: str
    names: tuple[str, ...]
    defaults: tuple[float | bool, ...]
    needs: tuple[str, ...]
    content: bytes


def to_bytes(code: Code, belongs: str) -> bytes:
    """A file's bytes: a hash, then code, with what it belongs to."""
    texts = (belongs, code.symbol, " ".join(code.names), " ".join(map(repr, code.defaults)), " ".join(code.needs))
    parts = (*(text.encode() for text in texts), code.content)
    content = b"".join(_SIZE.pack(len(part)) + part for part in parts)
    return hash_of(content) + content


def from_bytes(kept: bytes, belongs: str) -> Code | None:
    """The code in a file's bytes; None if they are damaged, or belong to something else. Nothing is evaluated."""
    parts = _parts(kept)
    if parts is None or parts[0].decode() != belongs:
        return None
    symbol, names, defaults, needs = (part.decode() for part in parts[1:5])
    return Code(symbol, tuple(names.split()), tuple(map(_number, defaults.split())), tuple(needs.split()), parts[5])


def owner_in(kept: bytes) -> str | None:
    """What a file's bytes say that they belong to; None if they are damaged."""
    parts = _parts(kept)
    return None if parts is None else parts[0].decode()


def _parts(kept: bytes) -> list[bytes] | None:
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
    """What ``repr`` of a number or of a boolean means."""
    if text in ("True", "False"):
        return text == "True"
    return int(text) if text.lstrip("-").isdigit() else float(text)
