"""Lines of xconfig files, a layer type and ``key=value`` pairs, and the expressions of their ``input=``."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, Union

from nnet3py.config_line import did_you_mean, is_valid_name
from nnet3py.errors import ConfigError

_FOREIGN = re.compile(r"""[^-A-Za-z0-9.()@_=,/+:\s"]""")
_TYPE = re.compile(r"[a-z][-a-z0-9]+\Z")
_PAIR = re.compile(r"(?:^|\s+)([-A-Za-z0-9_]+)=")
_QUOTED = re.compile(r'"[^"]*"')
_HIDDEN_EQUALS = "\0"      # in place of '=' within quotes; no line contains it

_HINTS = {
    "'": 'only double quotes (") are understood',
    "[": "name the layer, or write a bare frame offset such as 0 or -3, which is taken from the layer before",
}
_HINTS["]"] = _HINTS["["]


class XconfigLine:
    """Line of an xconfig file, split into its parts.

    Raises ConfigError for anything but a type, a name and pairs.

    Parameters
    ----------
    text : the line, without comment
    path : file of the line, for messages; None if there is none
    number : line number in the file, from 1

    Attributes
    ----------
    type : str
        Layer type.
    name : str
        Name of the layer.
    values : dict of str
        Text of all other keys, without quotes.
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
        """Return a ConfigError for the caller to raise, with ``message``, this line and its place."""
        place = [self.path] if self.path else []
        if self.number is not None:
            place.append(f"line {self.number}")
        where = f" [{', '.join(place)}]" if place else ""
        return ConfigError(f"{message}, in '{self.text}'{where}", hint)


def parse_xconfig(text: str, path: str | None = None) -> list[XconfigLine]:
    """Return the lines of ``text`` except blank ones, without comments (from ``#`` on).

    Raises ConfigError for a line that is anything but a type, a name and pairs.
    """
    lines = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.split("\n"), 1))
    return [XconfigLine(line, path, number) for number, line in lines if line]


DEEPEST = 50      # nested operators

_TOKEN = re.compile(r"\s*([A-Za-z_][-A-Za-z0-9_.]*|[-+]?[0-9.]+(?:e[-+]?[0-9]+)?|[()@,\[\]])")
_INTEGER = re.compile(r"[-+]?[0-9]{1,9}\Z")

# Arguments of each operator: d for a descriptor, i for an integer, f for a number, v for the variable x or t; then +
# for one or more, ? for an optional one.
_FORMS = {"Append": "d+", "Sum": "d+", "Switch": "d+", "Failover": "dd", "IfDefined": "d", "Offset": "dii?",
          "Round": "di", "ReplaceIndex": "dvi", "Scale": "fd", "Const": "fi"}
_EXPECTED = {"i": "an integer", "f": "a number", "v": "x or t"}

Argument = Union["Descriptor", int, float, str]


@dataclass(frozen=True)
class Descriptor:
    """Expression of an ``input=``: an operator and its arguments.

    The operator ``""`` has one argument, the name of a layer's output: ``layer`` for the main one, or ``layer.aux``.
    """

    operator: str
    arguments: tuple[Argument, ...]

    def text(self, spell: Callable[[str], str]) -> str:
        """Format the expression; ``spell`` maps the name of each layer to the text that replaces it."""
        if not self.operator:
            return spell(str(self.arguments[0]))
        parts = (argument.text(spell) if isinstance(argument, Descriptor) else str(argument)
                 for argument in self.arguments)
        return f"{self.operator}({', '.join(parts)})"

    def dim(self, dim_of: Callable[[str], int]) -> int:
        """Return the dimension of the expression's value; ``dim_of`` maps the name of a layer to its dimension.

        Raises ValueError for arguments of unequal dimensions.
        """
        if not self.operator:
            return dim_of(str(self.arguments[0]))
        if self.operator == "Const":
            return int(self.arguments[1])   # type: ignore[arg-type]
        dims = [argument.dim(dim_of) for argument in self.arguments if isinstance(argument, Descriptor)]
        if self.operator == "Append":
            return sum(dims)
        if len(set(dims)) > 1:
            raise ValueError(f"{self.operator}() of unequal dimensions: {', '.join(map(str, dims))}")
        return dims[0]


class LayerNames(Protocol):
    """Interface for looking up the layers that an expression names.

    :class:`~nnet3py.xconfig.layer.EarlierLayers` implements it.
    """

    def previous(self, count: int, line: XconfigLine) -> str:
        """Return the name of the layer ``count`` lines before."""

    def find(self, name: str, line: XconfigLine) -> tuple[str, int]:
        """Return the descriptor and the dimension of an output: ``layer``, or ``layer.auxiliary-output``.

        Raises ConfigError if there is no such layer or output.
        """


def parse_descriptor(text: str, line: XconfigLine, earlier: LayerNames) -> Descriptor:
    """Parse an expression; bare offsets and ``[-n]`` become names of earlier layers.

    Raises ConfigError for an invalid expression, or a layer that does not exist.
    """
    return _Parser(text, line, earlier).parse()


class _Parser:
    """Recursive-descent parser of an expression."""

    def __init__(self, text: str, line: XconfigLine, earlier: LayerNames) -> None:
        self.text, self.line, self.earlier = text, line, earlier
        self.tokens: list[str] = []
        position = 0
        while text[position:].strip():
            token = _TOKEN.match(text, position)
            if not token:
                raise self.error(f"found '{text[position:].strip()}'")
            self.tokens.append(token[1])
            position = token.end()
        self.next = 0

    def error(self, what: str, hint: str | None = None) -> Exception:
        return self.line.error(f"'{self.text}' is not an input expression: {what}", hint)

    def parse(self) -> Descriptor:
        descriptor = self.descriptor(0)
        if self.next < len(self.tokens):
            raise self.error(f"it goes on with '{self.tokens[self.next]}' where it should end")
        return descriptor

    def peek(self) -> str:
        return self.tokens[self.next] if self.next < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        """Consume and return the next token. Raises ConfigError if it is not ``expected``, where that is given."""
        token = self.peek()
        if expected and token != expected or not token:
            found_text = f"found '{token}'" if token else "it ends"
            raise self.error(f"expected {f'{chr(39)}{expected}{chr(39)}' if expected else 'a layer'}, but {found_text}")
        self.next += 1
        return token

    def descriptor(self, depth: int) -> Descriptor:
        """Parse the expression that begins at the next token; ``depth`` operators enclose it."""
        if depth > DEEPEST:
            raise self.error(f"operators are nested more than {DEEPEST} deep")
        token = self.take()
        if token == "[":
            back = self.integer()
            self.take("]")
            return self.with_offset(self.previous(-back))
        if _INTEGER.match(token):
            return self.offset(self.previous(1), int(token))
        if self.peek() == "(":
            return self.operation(token, depth)
        if not token[0].isalpha() and token[0] != "_":
            raise self.error(f"expected a layer or a whole number of frames, found '{token}'")
        self.earlier.find(token, self.line)
        return self.with_offset(Descriptor("", (token,)))

    def previous(self, count: int) -> Descriptor:
        return Descriptor("", (self.earlier.previous(count, self.line),))

    def with_offset(self, of: Descriptor) -> Descriptor:
        """Return ``of``, with an offset if ``@k`` follows."""
        if self.peek() != "@":
            return of
        self.next += 1
        return self.offset(of, self.integer())

    @staticmethod
    def offset(of: Descriptor, frames: int) -> Descriptor:
        return Descriptor("Offset", (of, frames)) if frames else of

    def operation(self, operator: str, depth: int) -> Descriptor:
        """Parse the arguments of an operator, in parentheses."""
        form = _FORMS.get(operator)
        if form is None:
            raise self.error(f"there is no operator {operator}()", did_you_mean(operator, list(_FORMS)))
        self.take("(")
        arguments: list[Argument] = []
        while True:
            arguments.append(self.argument(self.kind(operator, form, len(arguments)), depth))
            if self.peek() != ",":
                break
            self.next += 1
        self.take(")")
        least = len(form.rstrip("+")) if not form.endswith("?") else len(form) - 2
        if len(arguments) < least:
            raise self.error(f"{operator}() has {len(arguments)} of {least} arguments")
        return Descriptor(operator, tuple(arguments))

    def kind(self, operator: str, form: str, position: int) -> str:
        """Return the kind of an operator's argument at ``position``, a letter of its ``form`` in ``_FORMS``."""
        if form.endswith("+"):
            return "d"
        form = form.rstrip("?")
        if position >= len(form):
            raise self.error(f"{operator}() has more than {len(form)} arguments")
        return form[position]

    def argument(self, kind: str, depth: int) -> Argument:
        """Parse an argument of the given kind, a letter of ``_FORMS``."""
        if kind == "d":
            return self.descriptor(depth + 1)
        if kind == "i":
            return self.integer()
        token = self.take()
        if kind == "v" and token in ("x", "t"):
            return token
        try:
            if kind == "f":
                return float(token)
        except ValueError:
            pass
        raise self.error(f"expected {_EXPECTED[kind]}, found '{token}'")

    def integer(self) -> int:
        token = self.take()
        if not _INTEGER.match(token):
            raise self.error(f"expected an integer, found '{token}'")
        return int(token)
