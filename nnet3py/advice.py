"""What to type instead, for those who try a name that other libraries have: attributes, and arguments of functions."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from nnet3py.config_line import did_you_mean
from nnet3py.errors import NoSuchAttribute, UsageError

Function = TypeVar("Function", bound=Callable[..., Any])


class Advising:
    """A base class whose AttributeErrors say what to type instead.

    Classes have ``_WHAT``, what their objects are called, and ``_ELSEWHERE``: names of other libraries, each with what
    to type.
    """

    _WHAT: ClassVar[str] = ""
    _ELSEWHERE: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:        # to a type checker, any attribute would be there
        def __getattr__(self, name: str) -> Any:
            """AttributeError, which says what to type instead."""
            raise NoSuchAttribute(f"{self._WHAT or type(self).__name__} has no '{name}'",
                                  lambda: self._advice(name))

    def _advice(self, name: str) -> str | None:
        """What to type instead of an attribute, or None."""
        if name in self._ELSEWHERE or name.startswith("_"):
            return self._ELSEWHERE.get(name)
        return did_you_mean(name, [public for public in dir(self) if not public.startswith("_")])


def elsewhere(**table: str) -> dict[str, str]:
    """A table for ``_ELSEWHERE``: several names, with blanks between them, may have the same advice.

    >>> elsewhere(**{"fit train": "nnet3py.train(nnet, feats, targets)"})
    """
    return {name: text for names, text in table.items() for name in names.split()}


def arguments_elsewhere(**table: str) -> Callable[[Function], Function]:
    """A decorator: an argument by a name that the function does not have is a UsageError that says what to type.

    Parameters
    ----------
    table : names of other libraries, each with what to type; several, with ``_or_`` between them, may have the same
    """
    texts = {name: text for names, text in table.items() for name in names.split("_or_")}

    def decorate(function: Function) -> Function:
        names = [parameter.name for parameter in inspect.signature(function).parameters.values()
                 if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)]

        @functools.wraps(function)
        def call(*arguments: Any, **settings: Any) -> Any:
            for name in settings:
                if name not in names:
                    raise UsageError(f"{function.__name__} has no argument {name}=",
                                     texts.get(name) or did_you_mean(name, names) or f"it has {', '.join(names)}")
            return function(*arguments, **settings)

        return cast(Function, call)

    return decorate
