"""One line of an xconfig file: a layer type, then ``key=value`` pairs whose values may hold blanks."""
from __future__ import annotations

import re
from collections.abc import Iterator

from nnet3py.config_line import is_valid_name
from nnet3py.errors import ConfigError

_FOREIGN = re.compile(r"""[^-A-Za-z0-9.()@_=,/+:\s"]""")
_TYPE = re.compile(r"[a-z][-a-z0-9]+\Z")
_PAIR = re.compile(r"(?:^|\s+)([-A-Za-z0-9_]+)=")
_QUOTED = re.compile(r'"[^"]*"')
_HIDDEN_EQUALS = "\0"      # stands for '=' within quotes; no line contains it

_HINTS = {
    "'": 'only double quotes (") are understood',
    "[": "name the layer, or write a bare frame offset such as 0 or -3, which is taken from the layer before",
}
_HINTS["]"] = _HINTS["["]


class XconfigLine:
    """A line split into its parts.

    Parameters
    ----------
    text : the line, without comment
    path : the file that it is in, for messages; None if there is none
    number : its line number there, from 1

    Attributes
    ----------
    type : the layer type
    name : the layer's name
    values : the other keys with their text, quotes removed

    Raises
    ------
    ConfigError : a line that is not a type, a name and pairs
    """

    def __init__(self, text: str, path: str | None = None, number: int | None = None) -> None:
        self.text, self.path, self.number = text.strip(), path, number
        foreign = _FOREIGN.search(self.text)
        if foreign:
            raise self.error(f"the character {foreign[0]!r} cannot stand in an xconfig line", _HINTS.get(foreign[0]))
        self.type, *others = self.text.split(None, 1)
        rest = others[0] if others else ""
        if not _TYPE.match(self.type):
            raise self.error(f"expected a layer type such as relu-batchnorm-layer, found '{self.type}'")
        self.values: dict[str, str] = {}
        for key, value in self._pairs(rest):
            if key in self.values:
                raise self.error(f"{key}= is given twice")
            self.values[key] = value
        self.name = self.values.pop("name", "")
        if not is_valid_name(self.name):
            raise self.error(f"'{self.name}' cannot be the name of a layer" if self.name else "name= is missing",
                             "a name is made of letters, digits, '_', '-' and '.', a letter or '_' first")

    def _pairs(self, rest: str) -> Iterator[tuple[str, str]]:
        if rest.count('"') % 2:
            raise self.error('a double quote (") has no partner')
        masked = _QUOTED.sub(lambda quoted: quoted[0].replace("=", _HIDDEN_EQUALS), rest)
        before, *fields = _PAIR.split(masked)
        if before.strip():
            raise self.error(f"expected key=value after the layer type, found '{before.split()[0]}'")
        for key, value in zip(fields[::2], fields[1::2], strict=True):
            if "=" in value:
                raise self.error(f"a second '=' in {key}={value.replace(_HIDDEN_EQUALS, '=')}",
                                 'a value that holds "=" needs double quotes, and a pair a blank before it')
            yield key, value.strip().replace('"', "").replace(_HIDDEN_EQUALS, "=")

    def error(self, message: str, hint: str | None = None) -> ConfigError:
        """Return a ConfigError with ``message``, this line and its place; for the caller to raise."""
        place = [self.path] if self.path else []
        if self.number is not None:
            place.append(f"line {self.number}")
        where = f" [{', '.join(place)}]" if place else ""
        return ConfigError(f"{message}, in '{self.text}'{where}", hint)


def parse_xconfig(text: str, path: str | None = None) -> list[XconfigLine]:
    """Every line of ``text`` except blank ones; comments (from ``#`` on) are removed.

    Raises
    ------
    ConfigError : a line that is not a type, a name and pairs
    """
    lines = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.split("\n"), 1))
    return [XconfigLine(line, path, number) for number, line in lines if line]
