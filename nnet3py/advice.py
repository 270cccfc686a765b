"""What to type instead, for those who try a name that other libraries have: attributes, and arguments of functions."""
from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from nnet3py.config_line import did_you_mean
from nnet3py.errors import NoSuchAttribute, UsageError

Function = TypeVar("Function", bound=Callable[..., Any])


class AdvisingType(type):
    """The type of classes that say what to type instead of ``Nnet.load`` and ``Nnet("final.raw")``.

    Classes have ``_FROM_FILE``, how one is read from a file, and ``_ELSEWHERE`` as :class:`Advising`.
    """

    _ELSEWHERE: Mapping[str, str] = {}
    _FROM_FILE: str = ""

    if not TYPE_CHECKING:        # to a type checker, any attribute would be there, and any argument be right
        def __getattr__(cls, name: str) -> Any:
            """AttributeError, which says what to type instead."""
            raise NoSuchAttribute(f"{cls.__name__} has no '{name}'", lambda: cls._ELSEWHERE.get(name))

        def __call__(cls, *arguments: Any, **settings: Any) -> Any:
            """Return an object of this class; UsageError for a path."""
            if cls._FROM_FILE and arguments and isinstance(arguments[0], str | os.PathLike):
                raise UsageError(f"{cls.__name__}() does not take a path", cls._FROM_FILE)
            return super().__call__(*arguments, **settings)

        @property
        def __signature__(cls) -> inspect.Signature:
            """For ``help`` and editors: how a class is made, which is not the signature of the call above."""
            signature = inspect.signature(cls.__init__)
            return signature.replace(parameters=list(signature.parameters.values())[1:],
                                     return_annotation=inspect.Signature.empty)


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
        if name.startswith("_"):
            return None
        in_lower_case = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()         # Kaldi's names are like NumParameters
        public = [each for each in dir(self) if not each.startswith("_")]
        return (self._ELSEWHERE.get(name) or self._ELSEWHERE.get(in_lower_case)
                or did_you_mean(in_lower_case, public))


def elsewhere(**table: str) -> dict[str, str]:
    """Return a table for ``_ELSEWHERE``: several names, with blanks between them, may have the same advice.

    >>> elsewhere(**{"fit train": "nnet3py.train(nnet, feats, targets)"})
    """
    return {name: text for names, text in table.items() for name in names.split()}


def arguments_elsewhere(*settings: Any, **table: str) -> Callable[[Function], Function]:
    """Return a decorator: an argument by a name that the function does not have is a UsageError that says what to type.

    Parameters
    ----------
    settings : dataclasses whose fields are arguments of the function, too
    table : names of other libraries, each with what to type; several, with ``_or_`` between them, may have the same.
        A text that ends with ``=`` is an argument's name: it becomes a question
    """
    texts = {name: f"did you mean {text}?" if text.endswith("=") else text
             for names, text in table.items() for name in names.split("_or_")}

    def decorate(function: Function) -> Function:
        names = [parameter.name for parameter in inspect.signature(function).parameters.values()
                 if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)]
        names += [field.name for kind in settings for field in fields(kind)]

        @functools.wraps(function)
        def call(*arguments: Any, **given: Any) -> Any:
            for name in given:
                if name not in names:
                    raise UsageError(f"{function.__name__} has no argument {name}=",
                                     texts.get(name) or did_you_mean(name, names) or f"it has {', '.join(names)}")
            return function(*arguments, **given)

        return cast(Function, call)

    return decorate
