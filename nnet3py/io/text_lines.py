"""Small text files: their lines, and lines of numbers such as lists of phones."""
from __future__ import annotations

import os

from nnet3py.errors import FormatError
from nnet3py.io.streams import failed_command, open_input

_MOST_DIGITS = 9


def read_text(rxfilename: str | os.PathLike[str]) -> str:
    """The text of a file or pipe, in UTF-8. Bytes that are not UTF-8 are kept as they are; a byte-order mark is not."""
    with open_input(rxfilename) as stream:
        text = stream.without_mark().read().decode("utf-8", "surrogateescape")
    if stream.status:
        raise failed_command(stream.path, stream.status)
    return text


def read_lines(rxfilename: str) -> list[str]:
    """The lines of a text file, without their ends."""
    return read_text(rxfilename).splitlines()


def read_integer_lines(rxfilename: str, keep_empty: bool = False) -> list[list[int]]:
    """The numbers, from 0, of each line, or of each line that has any. FormatError for anything but a number."""
    lines = [line.split() for line in read_lines(rxfilename)]
    for number, words in enumerate(lines, 1):
        if not all(word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS for word in words):
            raise FormatError(f"line {number} is not a list of numbers: {' '.join(words)[:80]!r}", path=rxfilename)
    return [[int(word) for word in words] for words in lines if words or keep_empty]
