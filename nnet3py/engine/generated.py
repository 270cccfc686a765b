"""Functions made of generated source text: the only place where text is executed, all of it this package's own."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def function_of_text(text: str, names: Mapping[str, Any], like: Callable[..., Any]) -> Any:
    """Return the function that ``text`` defines by the name of ``like``, with ``names`` as its globals.

    The function gets the file, line, module and docstring of ``like``, which numba's disk cache and messages use.
    """
    namespace = dict(names)
    exec(text, namespace)
    function = namespace[like.__name__]
    place = like.__code__
    function.__code__ = function.__code__.replace(co_filename=place.co_filename, co_firstlineno=place.co_firstlineno)
    function.__module__, function.__doc__ = like.__module__, like.__doc__
    return function
