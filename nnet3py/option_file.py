"""Files of options, a ``--name=value`` in each line, and how values are read. Light.

Kaldi: ParseOptions::ReadConfigFile.
"""
from __future__ import annotations

import re
from typing import NamedTuple

from nnet3py.errors import UsageError

INT_MIN, INT_MAX = -2147483648, 2147483647
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
_MOST_DIGITS, _MOST_LIST_DIGITS = 20, 10
_NEXT_OPTION = re.compile(r"\s+(?=--)")


class OptionLine(NamedTuple):
    """A line of a file: its number, from 1, and what it says without comment and blanks."""

    number: int
    text: str


def normalize(name: str) -> str:
    """Return an option's name as Kaldi compares it: lower case, ``-`` for ``_``."""
    return name.replace("_", "-").lower()


def split(text: str) -> tuple[str, str | None]:
    """Return the name and the value of ``--name=value``; the value is None without an equal sign."""
    name, equals, value = text[2:].partition("=")
    return normalize(name), value.strip() if equals else None


def option_texts(line: str) -> list[str]:
    """Return the options of a line of a model folder's file, which may hold more than one, as in ``splice_opts``."""
    return _NEXT_OPTION.split(line)


def read_option_lines(path: str) -> list[OptionLine]:
    """Return the lines of a file that hold options. UsageError for a file that cannot be read, or another line."""
    try:
        with open(path, encoding="utf-8-sig") as stream:         # a byte-order mark is passed over
            lines = stream.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot open config file: {path} ({error})") from None
    lines_read = []
    for number, raw in enumerate(lines, 1):
        text = raw.partition("#")[0].strip()
        if text and not text.startswith("--"):
            raise UsageError(f"Reading config file {path}: line {number} does not look like a line from a config "
                             f"file: {text!r}", "each line is one --name=value; a file meant to be sourced by a shell "
                             "lacks the '--'")
        if text:
            lines_read.append(OptionLine(number, text))
    return lines_read


def boolean(text: str) -> bool | None:
    """True for true, t or 1 in any case, False for false, f or 0; None for another text."""
    return True if text.lower() in _TRUE else False if text.lower() in _FALSE else None


def integer(text: str, low: int = INT_MIN, high: int = INT_MAX) -> int | None:
    """Return a whole number between two limits, in decimal digits; None for another text."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    is_number = digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS
    return int(text) if is_number and low <= int(text) <= high else None


def integers(text: str) -> list[int] | None:
    """Return the numbers, 0 or more, of a list such as ``1:2:3``, empty for an empty text; None for another text."""
    parts = text.split(":") if text else []
    are_numbers = all(part.isascii() and part.isdigit() and len(part) < _MOST_LIST_DIGITS for part in parts)
    return [int(part) for part in parts] if are_numbers else None


def real(text: str) -> float | None:
    """Return a number as C reads it; None for another text, and for NaN."""
    try:
        number = float(text)
    except ValueError:
        return None
    return None if "_" in text or number != number else number      # float() takes 1_000, C does not
