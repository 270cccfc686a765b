"""The ``input=`` expressions of xconfig lines: layer names, offsets and operators, turned into network descriptors."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Union

from nnet3py.config_line import did_you_mean
from nnet3py.xconfig.line import XconfigLine

DEEPEST = 50      # nested operators

_TOKEN = re.compile(r"\s*([A-Za-z_][-A-Za-z0-9_.]*|[-+]?[0-9.]+(?:e[-+]?[0-9]+)?|[()@,\[\]])")
_INTEGER = re.compile(r"[-+]?[0-9]{1,9}\Z")

# The arguments of each operator: d a descriptor, i an integer, f a number, v the variable x or t; + one or more,
# ? optional.
_FORMS = {"Append": "d+", "Sum": "d+", "Switch": "d+", "Failover": "dd", "IfDefined": "d", "Offset": "dii?",
          "Round": "di", "ReplaceIndex": "dvi", "Scale": "fd", "Const": "fi"}
_EXPECTED = {"i": "an integer", "f": "a number", "v": "x or t"}

Argument = Union["Descriptor", int, float, str]


@dataclass(frozen=True)
class Descriptor:
    """An operator and its arguments; the operator ``""`` has one argument, the name of a layer's output in a line.

    A plain layer name is its main output, ``layer.aux`` another one.
    """

    operator: str
    arguments: tuple[Argument, ...]

    def text(self, spell: Callable[[str], str]) -> str:
        """Return the expression with each layer's name spelled by ``spell``."""
        if not self.operator:
            return spell(str(self.arguments[0]))
        parts = (argument.text(spell) if isinstance(argument, Descriptor) else str(argument)
                 for argument in self.arguments)
        return f"{self.operator}({', '.join(parts)})"

    def dim(self, dim_of: Callable[[str], int]) -> int:
        """Return the number of columns. Raises ValueError for arguments of unequal dimensions."""
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
    """The layers that an expression may name: :class:`~nnet3py.xconfig.layer.EarlierLayers`."""

    def previous(self, count: int, line: XconfigLine) -> str:
        """Return the name of the layer ``count`` lines before."""

    def find(self, name: str, line: XconfigLine) -> tuple[str, int]:
        """Descriptor text and dimension of ``layer`` or ``layer.auxiliary-output``. Raises ConfigError."""


def parse_descriptor(text: str, line: XconfigLine, earlier: LayerNames) -> Descriptor:
    """Read an expression; bare offsets and ``[-n]`` become names of earlier layers.

    Raises
    ------
    ConfigError : an invalid expression, or a layer that does not exist
    """
    return _Parser(text, line, earlier).parse()


class _Parser:
    """Reads one expression from left to right."""

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
        """Return the next token, which must be ``expected`` if that is given."""
        token = self.peek()
        if expected and token != expected or not token:
            found_text = f"found '{token}'" if token else "it ends"
            raise self.error(f"expected {f'{chr(39)}{expected}{chr(39)}' if expected else 'a layer'}, but {found_text}")
        self.next += 1
        return token

    def descriptor(self, depth: int) -> Descriptor:
        """Return the expression that starts at the next token, inside ``depth`` operators."""
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
        """``of``, with the offset if ``@k`` follows."""
        if self.peek() != "@":
            return of
        self.next += 1
        return self.offset(of, self.integer())

    @staticmethod
    def offset(of: Descriptor, frames: int) -> Descriptor:
        return Descriptor("Offset", (of, frames)) if frames else of

    def operation(self, operator: str, depth: int) -> Descriptor:
        """What follows the name of an operator: its arguments in parentheses."""
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
        """What the argument at ``position`` is."""
        if form.endswith("+"):
            return "d"
        form = form.rstrip("?")
        if position >= len(form):
            raise self.error(f"{operator}() has more than {len(form)} arguments")
        return form[position]

    def argument(self, kind: str, depth: int) -> Argument:
        """One argument: d an expression, i an integer, f a number, v ``x`` or ``t``."""
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
