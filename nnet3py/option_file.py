"""Parsing of options: conf files with ``--name=value`` in each line, and option values. Light.

Kaldi: ParseOptions::ReadConfigFile.
"""
from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from nnet3py.errors import Nnet3Error, UsageError

INT_MIN, INT_MAX = -2147483648, 2147483647
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
_MOST_DIGITS, _MOST_LIST_DIGITS = 20, 10
_NEXT_OPTION = re.compile(r"\s+(?=--)")
_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}


class OptionLine(NamedTuple):
    """Line of a conf file: its number, from 1, and its text without comment and surrounding blanks."""

    number: int
    text: str


def normalize(name: str) -> str:
    """Return an option name in lower case with ``_`` replaced by ``-``: Kaldi compares names in this form."""
    return name.replace("_", "-").lower()


def split(text: str) -> tuple[str, str | None]:
    """Split ``--name=value`` into the name, see :func:`normalize`, and the value; None for ``--name`` without ``=``."""
    name, equals, value = text[2:].partition("=")
    return normalize(name), value.strip() if equals else None


def text_of(value: Any) -> str:
    """Return the text of a value as it stands in options; empty for None."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def option_texts(line: str) -> list[str]:
    """Split a line of a model folder's file with several options, such as ``splice_opts``, into the options."""
    return _NEXT_OPTION.split(line)


def read_option_lines(path: str) -> list[OptionLine]:
    """Read the lines of a conf file that are not empty or comments.

    Raises UsageError for an unreadable file, or a line that does not begin with ``--``.
    """
    try:
        with open(path, encoding="utf-8-sig") as stream:         # skips a byte-order mark
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
    """Parse a boolean: true, t, 1, false, f or 0 in upper or lower case. Returns None for another text."""
    return True if text.lower() in _TRUE else False if text.lower() in _FALSE else None


def integer(text: str, low: int = INT_MIN, high: int = INT_MAX) -> int | None:
    """Parse a decimal integer from ``low`` to ``high``. Returns None for another text."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    is_number = digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS
    return int(text) if is_number and low <= int(text) <= high else None


def integers(text: str) -> list[int] | None:
    """Parse a list of integers from 0 on, such as ``1:2:3`` or an empty text. Returns None for another text."""
    parts = text.split(":") if text else []
    are_numbers = all(part.isascii() and part.isdigit() and len(part) < _MOST_LIST_DIGITS for part in parts)
    return [int(part) for part in parts] if are_numbers else None


def real(text: str) -> float | None:
    """Parse a real number as C does. Returns None for another text, and for NaN."""
    try:
        number = float(text)
    except ValueError:
        return None
    return None if "_" in text or number != number else number      # float() takes 1_000, C does not


def read_conf(path: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Read the conf file of a model folder; return a dict from option names to values.

    A line may have several options, see :func:`option_texts`.

    Parameters
    ----------
    path : path of the conf file
    defaults : defaults of all options that the file may have, by name; they determine the options' types

    Raises
    ------
    UsageError : an unknown option or a value of another type, with file and line
    """
    values = {}
    for number, line in read_option_lines(path):
        for text in option_texts(line):
            name, value = split(text)
            try:
                values[name] = checked_value(name, value, defaults)
            except UsageError as error:
                raise UsageError(f"{error.message} [{path}, line {number}]", error.hint) from None
    return values


def checked_value(name: str, text: str | None, defaults: Mapping[str, Any]) -> Any:
    """Parse the value of an option, with the type of its default in ``defaults``.

    ``text`` is None for an option without value. Raises UsageError for an unknown option or an invalid value.
    """
    if name not in defaults:
        from difflib import get_close_matches

        close = get_close_matches(name, defaults, 1)
        raise UsageError(f"--{name} is not an option here",
                         f"did you mean --{close[0]}?" if close else "remove it if the model works without")
    kind = type(defaults[name])
    if kind is str:
        return text or ""
    value = (boolean("true" if text is None else text) if kind is bool
             else integer(text or "") if kind is int else real(text or ""))
    if value is None:
        raise UsageError(f"--{name}={text or ''}: expected {_KINDS[kind]}")
    return value


def find_file(name: str, folder: str) -> str:
    """Find the file ``name`` of a conf file in the model folder ``folder``; return its path. Raises Nnet3Error.

    Names are relative to the working directory, as in Kaldi. If there is no such file, the name is searched in the
    model folder, then the name without its first folder, without its first two, and so on: so a model can be used after
    it was moved, or copied from another machine.
    """
    if os.path.isfile(name):
        return name
    parts = os.path.normpath(name).lstrip(os.sep).split(os.sep)
    for first in range(len(parts)):
        candidate = os.path.join(folder, *parts[first:])
        if parts[first] != os.pardir and os.path.isfile(candidate):
            return candidate
    raise Nnet3Error(f"there is no file {name}, neither from the working directory nor in {folder}",
                     "names in conf files are relative to the working directory, or to the model folder")
