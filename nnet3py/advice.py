"""Hints in error messages for names of other libraries, which have another name here."""
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
    """Metaclass that adds hints to errors of missing class attributes (``Nnet.load``) and of calls with a path.

    A class defines ``_FROM_FILE``, the hint for a call such as ``Nnet("final.raw")``, and ``_ELSEWHERE`` as for
    :class:`Advising`.
    """

    _ELSEWHERE: Mapping[str, str] = {}
    _FROM_FILE: str = ""

    if not TYPE_CHECKING:        # with these methods, a type checker would accept any attribute and any argument
        def __getattr__(cls, name: str) -> Any:
            """Raise AttributeError, with a hint if there is one for ``name``."""
            raise NoSuchAttribute(f"{cls.__name__} has no '{name}'", lambda: cls._ELSEWHERE.get(name))

        def __call__(cls, *arguments: Any, **settings: Any) -> Any:
            """Make an object of this class. Raises UsageError for a path in place of the arguments."""
            if cls._FROM_FILE and arguments and isinstance(arguments[0], str | os.PathLike):
                raise UsageError(f"{cls.__name__}() does not take a path", cls._FROM_FILE)
            return super().__call__(*arguments, **settings)

        @property
        def __signature__(cls) -> inspect.Signature:
            """Signature of the constructor, which ``help`` and editors show instead of that of ``__call__``."""
            signature = inspect.signature(cls.__init__)
            return signature.replace(parameters=list(signature.parameters.values())[1:],
                                     return_annotation=inspect.Signature.empty)


class Advising:
    """Base of classes that add hints to errors of missing attributes.

    A class defines ``_WHAT``, a noun for its objects in the message, and ``_ELSEWHERE``, a dict from names that other
    libraries use to hints.
    """

    _WHAT: ClassVar[str] = ""
    _ELSEWHERE: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:        # with this method, a type checker would accept any attribute
        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with a hint if there is one for ``name``."""
            raise NoSuchAttribute(f"{self._WHAT or type(self).__name__} has no '{name}'",
                                  lambda: self._advice(name))

    def _advice(self, name: str) -> str | None:
        """Return the hint for a missing attribute; None if there is none."""
        if name.startswith("_"):
            return None
        in_lower_case = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()         # Kaldi's names are like NumParameters
        public = [each for each in dir(self) if not each.startswith("_")]
        return (self._ELSEWHERE.get(name) or self._ELSEWHERE.get(in_lower_case)
                or did_you_mean(in_lower_case, public))


def elsewhere(**table: str) -> dict[str, str]:
    """Return a dict of hints for ``_ELSEWHERE``; a key of ``table`` may be several names, separated by blanks.

    >>> elsewhere(**{"fit train": "nnet3py.train(nnet, feats, targets)"})
    """
    return {name: text for names, text in table.items() for name in names.split()}


def arguments_elsewhere(*settings: Any, **table: str) -> Callable[[Function], Function]:
    """Return a decorator that turns an unknown argument of a function into a UsageError with a hint.

    Parameters
    ----------
    settings : dataclasses whose fields are also arguments of the function (its ``**options``)
    table : hints by names of arguments in other libraries, several names joined by ``_or_``. A hint that ends with
        ``=`` is the name of an argument here, and becomes "did you mean …?"
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
