"""Single objects in files of their own: an optional ``\\0B``, then the object.

Kaldi: ReadKaldiObject, WriteKaldiObject.
"""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from nnet3py.io.holder import BINARY_HEADER
from nnet3py.io.streams import InputStream, failed_command, open_input, open_output
from nnet3py.io.tokens import TokenReader, TokenWriter

Value = TypeVar("Value")


def token_reader(stream: InputStream) -> TokenReader:
    """A reader of Kaldi's tokens and numbers on an open stream, which names the file in its errors."""
    return TokenReader(stream, path=stream.path, size=stream.size)


def read_object(rxfilename: str | os.PathLike[str], read: Callable[[TokenReader], Value]) -> Value:
    """Open ``rxfilename``, read the header, and return what ``read(reader)`` makes of the rest.

    Raises SpecifierError, FormatError (bytes that are not such an object), Nnet3Error (a file that cannot be opened,
    a command that fails).
    """
    with open_input(rxfilename) as stream:
        reader = token_reader(stream)
        reader.read_header()
        value = read(reader)
    if stream.status:
        raise failed_command(stream.path, stream.status)
    return value


def write_object(wxfilename: str | os.PathLike[str], write: Callable[[TokenWriter], None],
                 binary: bool = True) -> None:
    """Write one object: the header, then what ``write(writer)`` writes. The file appears when it is complete."""
    with open_output(wxfilename) as stream:
        if binary:
            stream.write(BINARY_HEADER)
        write(TokenWriter(stream, binary))
