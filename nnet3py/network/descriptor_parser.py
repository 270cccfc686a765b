"""Parser of descriptors: from text to tokens, to an expression tree as written, to the normalized form.

The normalized form has ``Append`` outermost, then sums, then operators that move indexes, and scales at the node
names. Kaldi: ``GeneralDescriptor`` of ``nnet-descriptor.cc``.
"""
from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnet3py.config_line import did_you_mean, is_valid_name
from nnet3py.errors import DescriptorError
from nnet3py.network.descriptor import (
    Const,
    Descriptor,
    Failover,
    IfDefined,
    Leaf,
    Offset,
    Part,
    ReplaceIndex,
    Round,
    Source,
    Sum,
    Switch,
)

FUNCTIONS = ("Append", "Sum", "Failover", "IfDefined", "Offset", "Switch", "Scale", "Const", "Round", "ReplaceIndex")
MAX_DEPTH = 200              # of nested functions; real networks have fewer than ten

_SUMS = ("Sum", "Failover", "IfDefined")
_MOVERS = ("Offset", "Round", "ReplaceIndex")
_TOKEN = re.compile(r"[ \t\r\n]*([(),]|[^(), \t\r\n]+)")
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}\Z")
_END = "end of input"


@dataclass(frozen=True)
class Expression:
    """Node of the expression tree."""

    op: str                                          # name of the function; ``node`` for the name of a network's node
    args: tuple[Expression, ...] = ()                # arguments that are expressions
    # other arguments: the node index, (t, x) of Offset, the step of Round, (variable, value) of ReplaceIndex, the
    # factor of Scale, (value, dim) of Const
    numbers: tuple[Any, ...] = ()
    depth: int = field(init=False, compare=False)    # height of the tree

    def __post_init__(self) -> None:
        depth = 1 + max((arg.depth for arg in self.args), default=0)
        if depth > MAX_DEPTH:        # all operations on descriptors are recursive
            raise DescriptorError(f"a Descriptor is nested more than {MAX_DEPTH} deep (a Sum of k terms counts k)")
        object.__setattr__(self, "depth", depth)


def parse_descriptor(text: str, node_names: Mapping[str, int]) -> Descriptor:
    """Parse and normalize the value of an ``input=``.

    Raises DescriptorError for text that cannot be parsed or normalized, or the name of an unknown node.

    ``text`` : expression, as in config lines; ``node_names`` : index of each node that descriptors may mention, by its
    name.
    """
    parser = _Parser(_tokenize(text), node_names)
    expression = parser.expression(0)
    parser.expect_end()
    return Descriptor(tuple(_to_part(_normalize(term)) for term in _terms(expression)))


# -- text to tree ------------------------------------------------------------------------------------------------------


def _tokenize(text: str) -> list[str]:
    tokens = _TOKEN.findall(text)
    for token in tokens:
        if token not in "()," and not is_valid_name(token) and not _is_number(token):
            raise DescriptorError(f"Error tokenizing descriptor '{text}': '{token}' is neither a name nor a number")
    return tokens


def _is_number(token: str) -> bool:
    try:
        return token.isascii() and "_" not in token and math.isfinite(float(token))
    except ValueError:
        return False


class _Parser:
    """Recursive-descent parser over tokens."""

    def __init__(self, tokens: list[str], node_names: Mapping[str, int]) -> None:
        self._tokens = tokens
        self._position = 0
        self._index = node_names

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    def _expect(self, token: str, function: str) -> None:
        found = self._next()
        if found != token:
            raise DescriptorError(f"Expected '{token}' in {function}() of a Descriptor, got instead '{found}'")

    def expect_end(self) -> None:
        """Raise DescriptorError if tokens remain."""
        if self._position < len(self._tokens):
            raise DescriptorError(f"Parsing Descriptor, expected end of input but got '{self._peek()}'")

    def expression(self, depth: int) -> Expression:
        """Parse the expression that begins at the next token."""
        word = self._next()
        if depth > MAX_DEPTH:
            raise DescriptorError(f"a Descriptor is nested more than {MAX_DEPTH} deep")
        if word not in FUNCTIONS:
            return self._node(word)
        self._expect("(", word)
        result = self._function(word, depth + 1)
        self._expect(")", word)
        return result

    def _node(self, word: str) -> Expression:
        if word not in self._index:
            hint = did_you_mean(word, [*FUNCTIONS, *self._index])
            if hint is None:
                hint = f"expected one of {', '.join(FUNCTIONS)} or the name of an input, component or dim-range node"
            raise DescriptorError(f"Expected a Descriptor, got instead {word}", hint)
        return Expression("node", numbers=(self._index[word],))

    def _function(self, word: str, depth: int) -> Expression:
        """Parse the arguments of a function, between its parentheses."""
        if word == "Const":
            value = self._real(word)
            self._expect(",", word)
            return Expression(word, numbers=(value, self._integer(word, least=1)))
        if word == "Scale":
            factor = self._real(word)
            self._expect(",", word)
            return Expression(word, (self.expression(depth),), (factor,))
        args = [self.expression(depth)]
        if word in _MOVERS:
            return Expression(word, tuple(args), self._mover_numbers(word))
        if word == "Failover":
            self._expect(",", word)
            args.append(self.expression(depth))
        elif word != "IfDefined":
            while self._peek() == ",":
                self._next()
                args.append(self.expression(depth))
        return Expression(word, tuple(args))

    def _mover_numbers(self, word: str) -> tuple[Any, ...]:
        self._expect(",", word)
        if word == "Round":
            return (self._integer(word, least=1),)
        if word == "Offset":
            t, x = self._integer(word), 0
            if self._peek() == ",":
                self._next()
                x = self._integer(word)
            return t, x
        variable = self._next()
        if variable not in ("t", "x"):
            raise DescriptorError(f"Expected t or x in ReplaceIndex(), got instead '{variable}'")
        self._expect(",", word)
        return variable, self._integer(word)

    def _integer(self, function: str, least: int = 1 - 2**31) -> int:
        token = self._next()
        if not _INTEGER.match(token) or not least <= int(token) < 2**31:
            wanted = f"an integer of at least {least}" if least > 0 else "an integer"
            raise DescriptorError(f"Expected {wanted} in {function}() of a Descriptor, got instead '{token}'")
        return int(token)

    def _real(self, function: str) -> float:
        token = self._next()
        value = np.float32(token) if _is_number(token) and abs(float(token)) < 3.0e38 else np.float32("inf")
        if not np.isfinite(value):
            raise DescriptorError(f"Expected a number in {function}() of a Descriptor, got instead '{token}'")
        return float(value)


# -- normalization -----------------------------------------------------------------------------------------------------


def _terms(e: Expression) -> list[Expression]:
    """Split ``e`` into the expressions without ``Append`` whose columns, appended, are those of ``e``."""
    if e.op == "Append":
        return [term for arg in e.args for term in _terms(arg)]
    if not e.args:
        return [e]
    columns = [_terms(arg) for arg in e.args]
    if len({len(column) for column in columns}) > 1:
        raise DescriptorError(f"the arguments of {e.op}() are appended from different numbers of parts "
                              f"({', '.join(str(len(column)) for column in columns)})",
                              "let every argument be an Append() of as many parts")
    return [Expression(e.op, args, e.numbers) for args in zip(*columns, strict=True)]


def _normalize(e: Expression) -> Expression:
    """Return ``e``, which has no Append, with sums outermost, scales at the nodes and no redundant operators."""
    args = tuple(_normalize(arg) for arg in e.args)
    if e.op == "Sum":
        return _nested_sum(args)
    if e.op in _MOVERS:
        return _with_mover(e, args[0])
    if e.op == "Scale":
        return _with_scale(e.numbers[0], args[0])
    if e.op == "Switch" and args[0].op in _SUMS:
        if len(args) > 1:
            raise DescriptorError("Sum(), Failover() or IfDefined() expression inside Switch(), we can't currently "
                                  "normalize this.", "move the Switch() inside")
        return _distributed(e, args[0])
    return Expression(e.op, args, e.numbers)


def _nested_sum(args: tuple[Expression, ...]) -> Expression:
    result = args[-1]
    for arg in reversed(args[:-1]):
        result = Expression("Sum", (arg, result))
    return result


def _distributed(mover: Expression, inner: Expression) -> Expression:
    """Return the sum ``inner`` with the operator ``mover`` applied to each of its arguments."""
    return Expression(inner.op, tuple(_with_mover(mover, arg) for arg in inner.args))


def _with_mover(mover: Expression, inner: Expression) -> Expression:
    if mover.op == "Offset":
        t, x = mover.numbers
        if inner.op == "Offset":
            if max(abs(t + inner.numbers[0]), abs(x + inner.numbers[1])) >= 2**31:
                raise DescriptorError("nested Offset()s add up to more than 32 bits hold")
            t, x, inner = t + inner.numbers[0], x + inner.numbers[1], inner.args[0]
            mover = Expression("Offset", (), (t, x))
        if (t, x) == (0, 0):
            return inner
    if inner.op in _SUMS:
        return _distributed(mover, inner)
    return Expression(mover.op, (inner,), mover.numbers)


def _with_scale(factor: float, inner: Expression) -> Expression:
    if inner.op == "node":
        return Expression("Scale", (inner,), (factor,))
    if inner.op == "Scale":
        return Expression("Scale", inner.args, (float(np.float32(factor) * np.float32(inner.numbers[0])),))
    if inner.op in (*_MOVERS, "Sum"):
        return Expression(inner.op, tuple(_with_scale(factor, arg) for arg in inner.args), inner.numbers)
    raise DescriptorError("Unhandled case encountered when normalizing Descriptor; you can work around this by "
                          "pushing Scale() inside other expressions.", f"Scale() of {inner.op}()")


# -- from the expression tree to a descriptor --------------------------------------------------------------------------


_PARTS: dict[str, Callable[..., Part]] = {"Sum": Sum, "Failover": Failover, "IfDefined": IfDefined, "Const": Const}
_LEAVES: dict[str, Callable[..., Leaf]] = {"Offset": Offset, "Round": Round, "ReplaceIndex": ReplaceIndex}


def _to_part(e: Expression) -> Part:
    make = _PARTS.get(e.op)
    return make(*map(_to_part, e.args), *e.numbers) if make else _to_leaf(e)


def _to_leaf(e: Expression) -> Leaf:
    if e.op == "node":
        return Source(e.numbers[0])
    if e.op == "Scale":
        return Source(e.args[0].numbers[0], e.numbers[0])
    if e.op == "Switch":
        return Switch(tuple(map(_to_leaf, e.args)))
    if e.op in _LEAVES:
        return _LEAVES[e.op](_to_leaf(e.args[0]), *e.numbers)
    if e.op == "Const":
        raise DescriptorError("Const() appeared too deep in the expression",
                              "it may stand in Append, Sum, Failover and IfDefined only")
    raise DescriptorError(f"{e.op}() cannot stand inside Switch(), except in its first and only argument")


# -- replacing a node by an expression ---------------------------------------------------------------------------------


def substitute(descriptor: Descriptor, node: int, replacement: Descriptor) -> Descriptor:
    """Return ``descriptor`` with ``node`` replaced by a descriptor, normalized; scales are applied to the replacement.

    Raises DescriptorError for a result that has no normalized form.
    """
    new = _append(_to_expression(part) for part in replacement.parts)

    def replaced(e: Expression) -> Expression:
        if e.op == "node":
            return new if e.numbers[0] == node else e
        return Expression(e.op, tuple(replaced(arg) for arg in e.args), e.numbers)

    expression = replaced(_append(_to_expression(part) for part in descriptor.parts))
    return Descriptor(tuple(_to_part(_normalize(term)) for term in _terms(expression)))


def _append(expressions: Iterable[Expression]) -> Expression:
    return Expression("Append", tuple(expressions))


def _to_expression(part: Part) -> Expression:
    """Return the expression tree of a part of a descriptor."""
    if isinstance(part, Source):
        node = Expression("node", numbers=(part.node,))
        return node if part.scale == 1.0 else Expression("Scale", (node,), (part.scale,))
    numbers = tuple(value for value in vars(part).values() if not isinstance(value, Part | tuple))
    return Expression(type(part).__name__, tuple(map(_to_expression, part.children())), numbers)
