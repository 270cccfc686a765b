"""A value as its bytes in binary, in pieces that need not be put together first."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenWriter


class _Stream:
    """Keeps what is written to it as it is."""

    def __init__(self, pieces: list[bytes | memoryview]) -> None:
        self.write = pieces.append


class BytePieces:
    """The bytes of a value, without its header, piece by piece; what is written to ``stream`` is added."""

    def __init__(self, pieces: list[bytes | memoryview] | None = None) -> None:
        self.pieces: list[bytes | memoryview] = [] if pieces is None else pieces
        self.stream = _Stream(self.pieces)

    def write(self, writer: TokenWriter) -> None:
        """Write the value."""
        for piece in self.pieces:
            writer.raw(piece)
