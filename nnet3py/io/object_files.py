"""Single objects in files: an optional ``\\0B``, then the object; and contents of files as arrays.

Kaldi: ReadKaldiObject, WriteKaldiObject.
"""
from __future__ import annotations

import io
import mmap
import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from nnet3py.io.holder import BINARY_HEADER
from nnet3py.io.streams import InputStream, complete_input, open_output
from nnet3py.io.tokens import TokenReader, TokenWriter

Value = TypeVar("Value")


def token_reader(stream: InputStream) -> TokenReader:
    """Return a reader of Kaldi's tokens and numbers on an open stream; its errors name the file."""
    return TokenReader(stream, path=stream.path, size=stream.size)


def read_object(rxfilename: str | os.PathLike[str], read: Callable[[TokenReader], Value]) -> Value:
    """Open a file, read the header, and return the result of ``read(reader)``.

    Raises SpecifierError, FormatError (bytes that are not such an object), Nnet3Error (a file that cannot be opened, a
    command that fails).
    """
    with complete_input(rxfilename) as stream:
        reader = token_reader(stream)
        reader.read_header()
        value = read(reader)
    return value


def write_object(wxfilename: str | os.PathLike[str], write: Callable[[TokenWriter], None],
                 binary: bool = True) -> None:
    """Write the header and, by ``write(writer)``, the object to a file, which appears when it is complete."""
    with open_output(wxfilename) as stream:
        if binary:
            stream.write(BINARY_HEADER)
        write(TokenWriter(stream, binary))


class FileContent:
    """The content of an open file from its position on, mapped into memory where possible, so that processes share it.

    Attributes
    ----------
    size : int, number of bytes
    """

    def __init__(self, stream: InputStream) -> None:
        self._path = stream.path
        self._stream: io.BufferedReader = stream
        self._content: Any
        if stream.size and stream.tell() == 0:
            self._content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        else:
            self._content = stream.read()
            self._stream = io.BufferedReader(io.BytesIO(self._content))      # type: ignore[arg-type]
        self.size = len(self._content)

    def reader(self, offset: int = 0) -> TokenReader:
        """Return a reader that begins at byte ``offset``; readers that were returned before must not be used any more.
        """
        self._stream.seek(offset)
        reader = TokenReader(self._stream, path=self._path, size=self.size)
        reader.content = memoryview(self._content)
        return reader

    def array(self, dtype: DTypeLike, offset: int, count: int) -> np.ndarray:
        """Return ``count`` numbers from byte ``offset`` on, read-only, perhaps unaligned; fewer at the end of the file.
        """
        most = max(0, self.size - offset) // np.dtype(dtype).itemsize
        return np.frombuffer(self._content, dtype=dtype, offset=min(offset, self.size), count=min(count, most))
