"""What the tests of ``nnet3py.io`` share: reading from bytes, writing to bytes, and damaging bytes."""
from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from paths import DATA

from nnet3py.errors import Nnet3Error
from nnet3py.io.holder import Holder
from nnet3py.io.tables import SequentialReader
from nnet3py.io.tokens import TokenReader, TokenWriter

SAMPLES = DATA / "io"


def reader_of(data: bytes, binary: bool | None = None) -> TokenReader:
    """A reader of bytes; ``binary`` None lets the header decide."""
    reader = TokenReader(io.BytesIO(data), path="sample")
    if binary is None:
        reader.read_header()
    else:
        reader.binary = binary
    return reader


def written(write: Callable[..., None], *values: Any, binary: bool) -> bytes:
    """What ``write(writer, *values)`` writes."""
    stream = io.BytesIO()
    write(TokenWriter(stream, binary), *values)
    return stream.getvalue()


def object_bytes(value: Any, binary: bool) -> bytes:
    """What an object of a model file writes."""
    return written(value.write, binary=binary)


def read_table(rspecifier: str, holder: Holder[Any]) -> dict[str, Any]:
    """All entries of a table."""
    with SequentialReader(rspecifier, holder) as reader:
        return dict(reader)


def archive(path: Path, read: Callable[[TokenReader], Any]) -> Iterator[tuple[str, Any, bytes]]:
    """The entries of an archive: key, value, and the bytes of the value without its header."""
    with path.open("rb") as stream:
        reader = TokenReader(stream, path=str(path))
        while True:
            reader.skip_whitespace()
            if reader.at_end():
                return
            key = reader.token()
            reader.read_header()
            reader.start_capture()
            value = read(reader)
            yield key, value, reader.end_capture()


def damaged(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """``data`` with random bytes changed, removed or repeated, or cut short, ``count`` times."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        changed = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(len(changed))) if changed else 0
            kind = rng.integers(5)
            if kind == 0:
                changed[at:at + 1] = bytes([rng.integers(256)])
            elif kind == 1:
                changed[at:at + 1] = bytes([changed[at] ^ (1 << rng.integers(8))]) if changed else b""
            elif kind == 2:
                del changed[at:at + int(rng.integers(1, 6))]
            elif kind == 3:
                changed[at:at] = changed[at:at + int(rng.integers(1, 12))]
            else:
                changed[at:at + 4] = rng.choice([b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0\0\0\0", b"9999"])
        yield bytes(changed[:rng.integers(len(changed) + 1)] if number % 3 == 0 else changed)


def check_survives(read: Callable[[TokenReader], Any], data: bytes, binary: bool, count: int = 400,
                   seed: int = 0) -> None:
    """``read`` returns or raises Nnet3Error, whatever is done to ``data``."""
    read(reader_of(data, binary))
    refused = 0
    for sample in damaged(data, count, seed):
        try:
            read(reader_of(sample, binary))
        except Nnet3Error:
            refused += 1
    assert refused > count // 4
