"""Ways to damage the content of a file: each takes bytes and two numbers that decide where and how."""
from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

from nnet3py.index import NO_TIME

_INTEGERS = (0, 1, -1, 2, 3, 7, 100, 255, 1000, 65536, 100000, 2**24, 2**24 + 1, 2**30, 2**31 - 1, -2**31, NO_TIME + 1)
_REALS = (0.0, -1.0, 1.0, 1e-45, 1e38, 3.5e38, float("inf"), float("-inf"), float("nan"), 1e300)
_WORDS = (b"nan", b"inf", b"-inf", b"1e39", b"1e-50", b"--1", b"1.5.2", b"0x10", b"", b"\xff", b"999999999999999999999",
          b"true", b"T", b"[", b"]", b"\n", b" ", b",", b"<>", b"</", b"\0B", b"'", b'"', b"#", b"=", b"(", b")", b"))")
_TAG = re.compile(rb"</?\w+>")
_NUMBER = re.compile(rb"(?<![\w.])[-+]?\d[\d.]*(?:e[-+]?\d+)?")
_VALUE = re.compile(rb"(?<==)[^ \t\n=]+")
_SIZED_INTEGER = re.compile(rb"\x04(?=.{4})", re.DOTALL)
_SIZED_REAL = re.compile(rb"[\x04\x08](?=.{8})", re.DOTALL)


def _pick(items: Any, number: int) -> Any:
    return items[number % len(items)]


def _replace(data: bytes, pattern: re.Pattern[bytes], number: int, new: Callable[[re.Match[bytes]], bytes]) -> bytes:
    """``data`` with one match of the pattern replaced; unchanged if there is none."""
    found = list(pattern.finditer(data))
    if not found:
        return data
    match = _pick(found, number)
    return data[:match.start()] + new(match) + data[match.end():]


def _place(data: bytes, number: int) -> int:
    return number % (len(data) + 1)


def _overwrite(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new):]


def flip_bit(data: bytes, a: int, b: int) -> bytes:
    """One bit changes."""
    at = _place(data, a)
    return _overwrite(data, at, bytes(byte ^ (1 << b % 8) for byte in data[at:at + 1]))


def set_byte(data: bytes, a: int, b: int) -> bytes:
    """One byte becomes another."""
    return _overwrite(data, _place(data, a), bytes([b % 256]))


def delete(data: bytes, a: int, b: int) -> bytes:
    """Some bytes disappear: one, a few, or many."""
    at = _place(data, a)
    return data[:at] + data[at + _pick((1, 2, 4, 5, 30, 200), b):]


def repeat(data: bytes, a: int, b: int) -> bytes:
    """Some bytes stand twice."""
    at = _place(data, a)
    return data[:at] + data[at:at + _pick((1, 2, 4, 5, 30, 200), b)] + data[at:]


def truncate(data: bytes, a: int, b: int) -> bytes:
    """The end is missing."""
    return data[:_place(data, a)]


def move(data: bytes, a: int, b: int) -> bytes:
    """A piece stands elsewhere."""
    at, to = _place(data, a), _place(data, b)
    piece = data[at:at + 20]
    rest = data[:at] + data[at + 20:]
    return rest[:to] + piece + rest[to:]


def change_integer(data: bytes, a: int, b: int) -> bytes:
    """A binary integer gets an awkward value."""
    found = list(_SIZED_INTEGER.finditer(data))
    at = _pick(found, a).end() if found else _place(data, a)
    return _overwrite(data, at, struct.pack("<i", _pick(_INTEGERS, b)))


def change_real(data: bytes, a: int, b: int) -> bytes:
    """A binary number gets an awkward value, infinity or NaN."""
    found = list(_SIZED_REAL.finditer(data))
    at = _pick(found, a).end() if found else _place(data, a)
    value = _pick(_REALS, b)
    wide = data[at - 1:at] == b"\10" or abs(value) > 3.4e38
    return _overwrite(data, at, struct.pack("<d" if wide else "<f", value))


def change_number_text(data: bytes, a: int, b: int) -> bytes:
    """A number in text becomes another, or no number."""
    choices = [*(str(value).encode() for value in _INTEGERS + _REALS), *_WORDS]
    return _replace(data, _NUMBER, a, lambda match: _pick(choices, b))


def change_value(data: bytes, a: int, b: int) -> bytes:
    """The value of a ``key=value`` becomes another one's, or rubbish."""
    choices = [*_VALUE.findall(data), *_WORDS]
    return _replace(data, _VALUE, a, lambda match: _pick(choices, b))


def change_tag(data: bytes, a: int, b: int) -> bytes:
    """A tag becomes another of the file, disappears, or stands twice."""
    choices = _TAG.findall(data)
    return _replace(data, _TAG, a, lambda match: _pick([*choices, b"", match[0] + b" " + match[0], b"<Unknown>"], b))


def insert(data: bytes, a: int, b: int) -> bytes:
    """A word stands where none was."""
    at = _place(data, a)
    return data[:at] + _pick(_WORDS, b) + data[at:]


MUTATIONS = (flip_bit, set_byte, delete, repeat, truncate, move, change_integer, change_real, change_number_text,
             change_value, change_tag, insert)
