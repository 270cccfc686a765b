"""Files of windows of phones: which window each input label of a graph stands for. Kaldi: ``ReadILabelInfo``."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3py.graphs.context import Window
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tokens import TokenReader, TokenWriter

_LEAST_BYTES = 2        # of a window in a file


def read_windows(rxfilename: str) -> list[Window]:
    """Read the windows of labels 1, 2, ...; FormatError for any other file."""
    return read_object(rxfilename, _read)


def _read(reader: TokenReader) -> list[Window]:
    count = reader.integer()
    reader.check_count(count, _LEAST_BYTES, "windows of phones")
    if count < 1:
        raise reader.error(f"expected windows of phones, the first for label 0, found {count} of them")
    windows = [tuple(reader.integer_vector().tolist()) for _ in range(count)]
    if windows[0]:
        raise reader.error(f"expected an empty window for label 0, found {windows[0]}")
    wrong = next((number for number, window in enumerate(windows[1:], 1) if not window), 0)
    if wrong:
        raise reader.error(f"expected a window of phones for label {wrong}, found an empty one")
    return windows[1:]


def write_windows(wxfilename: str, windows: Sequence[Window], binary: bool = True) -> None:
    """Write the windows of labels 1, 2, ..., with an empty one for label 0."""
    def write(writer: TokenWriter) -> None:
        writer.integer(len(windows) + 1)
        for window in ((), *windows):
            writer.integer_vector(np.array(window, dtype=np.int32))

    write_object(wxfilename, write, binary)
