"""``functools.cached_property`` without the lock that it has before Python 3.12. Light.

All objects of a class share that lock. In a child that is forked while another thread holds the lock, the property
waits for ever; and threads that compute the same property of different objects wait for each other.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

Value = TypeVar("Value")

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:
    class cached_property(Generic[Value]):      # noqa: N801 - the library's name
        """Property that is computed once for each object; assignment replaces the value, ``del`` removes it.

        Several threads may compute the value at the same time; all get the one that is stored first.
        """

        def __init__(self, function: Callable[[Any], Value]) -> None:
            self.function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.name, self.function(instance))
