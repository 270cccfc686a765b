"""Holders, which read and write one type of table values; values that are words, or bytes in pieces. Light.

Kaldi: ``kaldi-holder.h``, TokenHolder, TokenVectorHolder.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Generic, TypeVar

from nnet3py.errors import Nnet3Error
from nnet3py.io.skim import EntryFinder
from nnet3py.io.specifiers import is_token

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter


BINARY_HEADER = b"\0B"

Value = TypeVar("Value")


class Holder(Generic[Value]):
    """A type of table values.

    Attributes
    ----------
    name : str, name of the type, for messages
    read : function that reads a value, after its header
    write : function that writes a value, after its header
    has_header : bool, binary values begin with ``\\0B``
    select : function that returns the part of a value that a range, such as ``0:9`` in a script line, describes; None
        if the type has no ranges
    skimmer : function that returns an EntryFinder for these values (``skim.py``); None if values must be read
    """

    def __init__(self, name: str, read: Callable[[TokenReader], Value], write: Callable[[TokenWriter, Value], None],
                 has_header: bool = True, select: Callable[[Value, str], Value] | None = None,
                 skimmer: Callable[[], EntryFinder] | None = None) -> None:
        self.name, self.read, self.write = name, read, write
        self.has_header, self.select, self.skimmer = has_header, select, skimmer

    def read_value(self, reader: TokenReader) -> Value:
        """Read a value with its header, if the type has one."""
        if self.has_header:
            reader.read_header()
        return self.read(reader)


_NO_NEWLINE = re.compile(rb"[^\n]*")


def line_of(reader: TokenReader) -> bytes:
    """Read the rest of the line and return it without its newline, which may be missing at the end of the file."""
    line = reader.take_while(_NO_NEWLINE)
    if reader.peek(1):
        reader.raw(1)
    return line


def read_token_value(reader: TokenReader) -> str:
    """Read a token, the only word of its line."""
    words = line_of(reader).split()
    if len(words) != 1:
        raise reader.error(f"expected one name on the line, found {len(words)}")
    return words[0].decode("utf-8", "surrogateescape")


def write_token_value(writer: TokenWriter, value: str) -> None:
    """Write a token and a newline."""
    writer.raw(_encoded(value) + b"\n")


def read_token_line(reader: TokenReader) -> list[str]:
    """Read the tokens of a line, perhaps none."""
    return [word.decode("utf-8", "surrogateescape") for word in line_of(reader).split()]


def write_token_line(writer: TokenWriter, value: Sequence[str]) -> None:
    """Write tokens, each with a blank after it, and a newline."""
    writer.raw(b"".join(_encoded(token) + b" " for token in value) + b"\n")


def _encoded(token: str) -> bytes:
    if not is_token(token):
        raise Nnet3Error(f"'{token}' is not a token: it is empty or contains blanks")
    return token.encode("utf-8", "surrogateescape")


TOKEN: Holder[str] = Holder("token", read_token_value, write_token_value, has_header=False)
TOKEN_VECTOR: Holder[list[str]] = Holder("list of tokens", read_token_line, write_token_line, has_header=False)


class BytePieces:
    """The bytes of a value, without its header, as a list of pieces; bytes written to ``stream`` are appended."""

    def __init__(self, pieces: list[bytes | memoryview] | None = None) -> None:
        self.pieces: list[bytes | memoryview] = [] if pieces is None else pieces
        self.stream = SimpleNamespace(write=self.pieces.append)

    def write(self, writer: TokenWriter) -> None:
        """Write the value."""
        for piece in self.pieces:
            writer.raw(piece)
