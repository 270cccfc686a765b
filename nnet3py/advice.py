"""Hints for users of other libraries, on attributes and arguments that are called otherwise here."""
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
    """Metaclass of classes with hints for attributes such as ``Nnet.load`` and calls such as ``Nnet("final.raw")``.

    Classes have ``_FROM_FILE``, a hint on reading objects from files, and ``_ELSEWHERE`` as :class:`Advising`.
    """

    _ELSEWHERE: Mapping[str, str] = {}
    _FROM_FILE: str = ""

    if not TYPE_CHECKING:        # to a type checker, any attribute would be there, and any argument be right
        def __getattr__(cls, name: str) -> Any:
            """Raise AttributeError, with a hint if there is one."""
            raise NoSuchAttribute(f"{cls.__name__} has no '{name}'", lambda: cls._ELSEWHERE.get(name))

        def __call__(cls, *arguments: Any, **settings: Any) -> Any:
            """Return an object of this class. Raises UsageError for a path."""
            if cls._FROM_FILE and arguments and isinstance(arguments[0], str | os.PathLike):
                raise UsageError(f"{cls.__name__}() does not take a path", cls._FROM_FILE)
            return super().__call__(*arguments, **settings)

        @property
        def __signature__(cls) -> inspect.Signature:
            """Signature of the constructor, for ``help`` and editors, in place of that of the call above."""
            signature = inspect.signature(cls.__init__)
            return signature.replace(parameters=list(signature.parameters.values())[1:],
                                     return_annotation=inspect.Signature.empty)


class Advising:
    """Base of classes whose AttributeErrors have hints.

    Classes have ``_WHAT``, a noun for their objects, and ``_ELSEWHERE``, names of other libraries, each with a hint.
    """

    _WHAT: ClassVar[str] = ""
    _ELSEWHERE: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:        # to a type checker, any attribute would be there
        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with a hint if there is one."""
            raise NoSuchAttribute(f"{self._WHAT or type(self).__name__} has no '{name}'",
                                  lambda: self._advice(name))

    def _advice(self, name: str) -> str | None:
        """Return the hint for a missing attribute, or None."""
        if name.startswith("_"):
            return None
        in_lower_case = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()         # Kaldi's names are like NumParameters
        public = [each for each in dir(self) if not each.startswith("_")]
        return (self._ELSEWHERE.get(name) or self._ELSEWHERE.get(in_lower_case)
                or did_you_mean(in_lower_case, public))


def elsewhere(**table: str) -> dict[str, str]:
    """Return a table of hints for ``_ELSEWHERE``, in which names with blanks between them share a hint.

    >>> elsewhere(**{"fit train": "nnet3py.train(nnet, feats, targets)"})
    """
    return {name: text for names, text in table.items() for name in names.split()}


def arguments_elsewhere(*settings: Any, **table: str) -> Callable[[Function], Function]:
    """Return a decorator that turns an unknown argument of a function into a UsageError with a hint.

    Parameters
    ----------
    settings : dataclasses whose fields are arguments of the function, too
    table : names of other libraries, each with a hint; names with ``_or_`` between them share one. A hint that ends
        with ``=`` is the name of an argument, and becomes a question
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
