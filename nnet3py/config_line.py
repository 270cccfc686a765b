"""Lines of config files: a first word, then ``key=value`` pairs; keys that nobody reads are reported.

Kaldi: ``ConfigLine`` and ``ReadConfigLines`` of ``util/text-utils.h``.
"""
from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import TypeVar

from nnet3py.errors import ConfigError

Value = TypeVar("Value")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|inf|infinity|nan)\Z",
                   re.IGNORECASE)
_BLANKS = " \t\r\n\v\f"
_INT32 = range(-2**31, 2**31)


def is_valid_name(name: str) -> bool:
    """Return whether ``name`` may name a node, component or key: a letter or ``_``, then letters, digits, ``_-.``."""
    return _NAME.match(name) is not None


def did_you_mean(word: str, possible: list[str]) -> str | None:
    """Return the hint "did you mean …?" with the most similar word of ``possible``; None if no word is similar."""
    import difflib  # slow to load, and needed for errors only

    close = difflib.get_close_matches(word, possible, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else None


def _fits_float32(value: float) -> bool:
    try:
        struct.pack("<f", value)
    except OverflowError:
        return False
    return True


class ConfigLine:
    """Parsed config line. Each ``get_…`` marks its key as used; :meth:`check_all_used` reports the others.

    Parameters
    ----------
    line : text of the line, without comment
    path : file of the line, for messages
    number : line number in the file, from 1

    Attributes
    ----------
    first_token : str
        First word, ``""`` if the line begins with a pair.
    whole_line : str
        Text of the line.

    Raises
    ------
    ConfigError : anything but a first word and pairs
    """

    def __init__(self, line: str, path: str | None = None, number: int | None = None) -> None:
        self.whole_line = line.strip(_BLANKS)
        self.path, self.number = path, number
        self._values: dict[str, str] = {}
        self._used: set[str] = set()
        words = self.whole_line.split(None, 1)
        self.first_token = words[0] if words and "=" not in words[0] else ""
        if self.first_token and not is_valid_name(self.first_token):
            raise self.error(f"Error parsing config line: {self.whole_line}",
                             f"'{self.first_token}' cannot be the first word")
        for key, value in self._pairs(len(self.first_token)):
            self._values.setdefault(key, value)

    def _pairs(self, position: int) -> Iterator[tuple[str, str]]:
        text = self.whole_line
        while text[position:].strip(_BLANKS):
            equals = text.find("=", position)
            key = text[position:equals].lstrip(_BLANKS) if equals >= 0 else text[position:].strip(_BLANKS)
            if equals < 0 or not is_valid_name(key):
                raise self.error(f"Error parsing config line: {text}",
                                 f"expected key=value without a blank before '=', found '{key}'")
            value, position = self._value(equals + 1)
            yield key, value

    def _value(self, begin: int) -> tuple[str, int]:
        """Return the value that begins at position ``begin`` of the line, without quotes, and the position after it."""
        text = self.whole_line
        quote = text[begin:begin + 1]
        if quote in ("'", '"') and quote:
            end = text.find(quote, begin + 1)
            if end < 0:
                raise self.error(f"Error parsing config line: {text}", f"the closing {quote} is missing")
            return text[begin + 1:end], end + 1
        # An unquoted value may contain blanks: it ends at the last blank before the next '='.
        end, next_equals = len(text), text.find("=", begin)
        if next_equals >= 0:
            blank = max(text.rfind(" ", begin, next_equals), text.rfind("\t", begin, next_equals))
            if blank > begin:
                end = blank
        return text[begin:end].strip(_BLANKS), end

    # -- typed reads -------------------------------------------------------------------------------------------------

    def has(self, key: str) -> bool:
        """Return whether the line has ``key``, without marking the key as used."""
        return key in self._values

    def get_string(self, key: str, default: str | None = None) -> str:
        """Return the value of ``key``. Raises ConfigError for a missing key without default."""
        if key not in self._values:
            return self._default(key, default)
        self._used.add(key)
        return self._values[key]

    def get_int(self, key: str, default: int | None = None) -> int:
        """Return a 32-bit integer. Raises ConfigError for another text, or a missing key without default."""
        if key not in self._values:
            return self._default(key, default)
        value = _as_integer(self._values[key])
        if value is None:
            raise self._wrong_type(key, "a 32-bit integer")
        self._used.add(key)
        return value

    def get_float(self, key: str, default: float | None = None) -> float:
        """Return a real number in the range of float32, or infinity. Raises ConfigError as :meth:`get_int`."""
        if key not in self._values:
            return self._default(key, default)
        text = self._values[key].strip(_BLANKS)
        if not _REAL.match(text):
            raise self._wrong_type(key, "a number")
        value = float(text)
        if math.isnan(value) or not _fits_float32(value):
            raise self._wrong_type(key, "a number that a 32-bit float can hold")
        self._used.add(key)
        return value

    def get_bool(self, key: str, default: bool | None = None) -> bool:
        """Return True for a text that begins with t or T, False for f or F. Raises ConfigError as :meth:`get_int`."""
        if key not in self._values:
            return self._default(key, default)
        letter = self._values[key][:1].lower()
        if letter not in ("t", "f"):
            raise self._wrong_type(key, "true or false")
        self._used.add(key)
        return letter == "t"

    def get_ints(self, key: str, default: list[int] | None = None) -> list[int]:
        """Return integers separated by ``:`` or ``,``. Raises ConfigError as :meth:`get_int`."""
        if key not in self._values:
            return self._default(key, default)
        text = self._values[key]
        items = [_as_integer(item) for item in re.split("[:,]", text)] if text else []
        if None in items:
            raise self._wrong_type(key, "a list of integers such as -1,0,1")
        self._used.add(key)
        return [item for item in items if item is not None]

    def _default(self, key: str, default: Value | None) -> Value:
        if default is None:
            raise self.error(f"Expected {key}= in config line: {self.whole_line}", did_you_mean(key, self._unused()))
        return default

    # -- errors ------------------------------------------------------------------------------------------------------

    def _unused(self) -> list[str]:
        return [key for key in self._values if key not in self._used]

    def unused_values(self) -> str:
        """Return the pairs whose key was not read, as a text ``k=v k=v``, sorted by key."""
        return " ".join(f"{key}={self._values[key]}" for key in sorted(self._unused()))

    def check_all_used(self) -> None:
        """Raise ConfigError if some key of the line was not read."""
        if self._unused():
            raise self.error(f"Unused values '{self.unused_values()}' in config line: {self.whole_line}",
                             "misspelled, or not a key of this kind of line")

    def _wrong_type(self, key: str, expected: str) -> ConfigError:
        return self.error(f"Unused values '{key}={self._values[key]}' in config line: {self.whole_line}",
                          f"{key} must be {expected}")

    def error(self, message: str, hint: str | None = None) -> ConfigError:
        """Return a ConfigError for the caller to raise, with ``message`` and the place of this line."""
        place = [self.path] if self.path else []
        if self.number is not None:
            place.append(f"line {self.number}")
        return ConfigError(f"{message} [{', '.join(place)}]" if place else message, hint)


def _as_integer(text: str) -> int | None:
    text = text.strip(_BLANKS)
    # No int32 has more digits, apart from leading zeros; conversion of longer texts would take time.
    if not _INTEGER.match(text) or len(text.lstrip("+-0")) > 10 or int(text) not in _INT32:
        return None
    return int(text)


def parse_config_lines(text: str, path: str | None = None) -> list[ConfigLine]:
    """Parse the lines of ``text``, except blank lines, without comments (from ``#`` on).

    Raises
    ------
    ConfigError : a line that is anything but a first word and ``key=value`` pairs; the message has path and line number
    """
    lines = ((number, line.partition("#")[0].strip(_BLANKS)) for number, line in enumerate(text.split("\n"), 1))
    return [ConfigLine(line, path, number) for number, line in lines if line]
