"""Declarations of options, with name, default and help, for both command line and conf files. Light.

Most options are fields of dataclasses (:func:`opt`), others are rows of tables (:class:`Setting`).
"""
from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from nnet3py import option_file
from nnet3py.errors import UsageError

T = TypeVar("T")
OptionValue: TypeAlias = "str | float | bool"       # an int is a float to type checkers


class Setting(NamedTuple):
    """Option: its name without ``--``, its default (of its type), a line of help, the allowed texts (empty for all)."""

    name: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()


def opt(name: str, default: Any, help: str, **more: Any) -> Any:
    """Return a dataclass field that is an option; the default ``()`` is for a list of numbers, typed as ``1:2:3``."""
    return dataclasses.field(default=default, metadata={"name": name, "help": help, **more})


def settings_of(options: Any, prefix: str = "") -> tuple[Setting, ...]:
    """Return the options of a dataclass, or of an instance with its values as defaults; names begin with ``prefix``."""
    return tuple(
        Setting(prefix + field.metadata["name"], "" if default == () else default, field.metadata["help"])
        for field in dataclasses.fields(options) if "name" in field.metadata
        for default in [getattr(options, field.name)])


def field_values(options: Any, values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the ``values``, by option name, of options that a dataclass has, by the names of its fields.

    Texts of lists become lists. Raises UsageError for a text that is not a valid value.
    """
    return {field.name: _numbers(value, name) if field.default == () and isinstance(value, str) else value
            for field in dataclasses.fields(options) if "name" in field.metadata
            for name in [prefix + field.metadata["name"]] if name in values
            for value in [values[name]]}


def with_values(options: T, values: Mapping[str, Any], prefix: str = "") -> T:
    """Return a copy of a dataclass instance with the values of its options in ``values``, as :func:`field_values`."""
    return dataclasses.replace(options, **field_values(options, values, prefix))       # type: ignore[type-var]


def defaults(settings: tuple[Setting, ...]) -> dict[str, Any]:
    """Return the defaults of options, by name."""
    return {setting.name: setting.default for setting in settings}


def _numbers(text: str, name: str) -> list[int]:
    """Parse a list of numbers such as ``1:2:3``, or with commas, ignoring empty parts."""
    numbers = option_file.integers(":".join(filter(None, re.split("[:,]", text))))
    if numbers is None:
        raise UsageError(f"--{name}={text}: expected numbers with colons between them")
    return numbers
