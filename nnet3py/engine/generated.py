"""Functions whose text is made up: the only place where source text is executed. All of it is this package's own."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def function_of_text(text: str, names: Mapping[str, Any], like: Callable[..., Any]) -> Any:
    """The function that ``text`` defines by the name of ``like``, with ``names`` as its globals.

    It is given the place, module and docstring of ``like``, which numba's disk cache and messages use.
    """
    namespace = dict(names)
    exec(text, namespace)
    function = namespace[like.__name__]
    place = like.__code__
    function.__code__ = function.__code__.replace(co_filename=place.co_filename, co_firstlineno=place.co_firstlineno)
    function.__module__, function.__doc__ = like.__module__, like.__doc__
    return function
