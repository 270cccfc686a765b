"""Table values that are words: a line with one of them, or with any number. Kaldi: TokenHolder, TokenVectorHolder.

Light.
"""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnet3py.errors import Nnet3Error
from nnet3py.io.holder import Holder
from nnet3py.io.specifiers import is_token

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter

_NO_NEWLINE = re.compile(rb"[^\n]*")


def line_of(reader: TokenReader) -> bytes:
    """The rest of the line; its newline, which may be missing at the end of the file, is consumed."""
    line = reader.take_while(_NO_NEWLINE)
    if reader.peek(1):
        reader.raw(1)
    return line


def read_token_value(reader: TokenReader) -> str:
    """One token, alone on its line."""
    words = line_of(reader).split()
    if len(words) != 1:
        raise reader.error(f"expected one name on the line, found {len(words)}")
    return words[0].decode("utf-8", "surrogateescape")


def write_token_value(writer: TokenWriter, value: str) -> None:
    """Write one token and a newline."""
    writer.raw(_encoded(value) + b"\n")


def read_token_line(reader: TokenReader) -> list[str]:
    """The tokens of a line, perhaps none."""
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
