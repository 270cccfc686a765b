"""The content of a file as arrays that are not copied: mapped into memory, or read where that cannot be."""
from __future__ import annotations

import io
import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from nnet3py.io.streams import InputStream
from nnet3py.io.tokens import TokenReader


class FileContent:
    """What is left of an open file, for readers and as arrays. Processes share the memory of a file that is mapped.

    Attributes
    ----------
    size : bytes
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
        """A reader that begins at a place; the one before it must not be used any more."""
        self._stream.seek(offset)
        reader = TokenReader(self._stream, path=self._path, size=self.size)
        reader.content = memoryview(self._content)
        return reader

    def array(self, dtype: DTypeLike, offset: int, count: int) -> np.ndarray:
        """Numbers from a place on, perhaps unaligned and not to be written; fewer than ``count`` if the file ends."""
        most = max(0, self.size - offset) // np.dtype(dtype).itemsize
        return np.frombuffer(self._content, dtype=dtype, offset=min(offset, self.size), count=min(count, most))
