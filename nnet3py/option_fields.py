"""Declarations of options: one place for name, type, default and help of an option, for all who take it. Light.

An option is declared as a field of a dataclass by :func:`opt`, or as a :class:`Setting` in a table. Python code sets
the field; commands, drivers and conf files of model folders read the declaration with :func:`settings_of`, and build
the dataclass from values by option name with :func:`with_values`. :func:`like` declares an option again where another
program has it under another name or with another default.
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
    """Declaration of an option.

    Attributes
    ----------
    name : option name without ``--``
    default : value if the option is not given; its type is the option's type, and ``()`` stands for texts of an option
        that may be repeated
    help : one line
    choices : texts that are allowed; empty: any
    """

    name: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()


class CheckedOptions:
    """Base of dataclasses of options, which knows their bounds (``least``) and on which of them the result depends."""

    def check(self) -> None:
        """Raise UsageError for a value below the bound of its option."""
        for field in dataclasses.fields(self):                        # type: ignore[arg-type]
            least, value = field.metadata.get("least"), getattr(self, field.name)
            if least is not None and value is not None and not value >= least:
                raise UsageError(f"--{field.metadata['name']}={value:g}: expected {least:g} or more")

    def binding(self) -> dict[str, Any]:
        """Return the values on which the result depends, by option name: those of fields that are not ``harmless``."""
        return {field.metadata["name"]: getattr(self, field.name)
                for field in dataclasses.fields(self)                 # type: ignore[arg-type]
                if "name" in field.metadata and not field.metadata.get("harmless")}


def opt(name: str, default: Any, help: str, **more: Any) -> Any:
    """Declare a field of a dataclass that is an option.

    The field's type is the option's, with three additions: a field with ``| None`` is unset by a blank value; a
    ``tuple[str, ...]`` collects the values of an option that is repeated; another sequence with default ``()`` is a
    list of whole numbers, typed as ``1:2:3``.

    Parameters
    ----------
    name : option name without ``--``
    default : value of the field if the option is not given
    help : one line
    more : ``aliases``: further names of the option; ``choices``: texts that are allowed; ``text``: default as typed,
        of a field whose class reads the text; ``least``: smallest value; ``harmless``: whether results do not depend on
        the option, so that interrupted work may be continued with another value
    """
    return dataclasses.field(default=default, metadata={"name": name, "help": help, **more})


def like(declared: type[Any], field: str, name: str = "", default: Any = dataclasses.MISSING, **more: Any) -> Any:
    """Declare an option as another dataclass does, with the same help.

    Parameters
    ----------
    declared : dataclass that has the option
    field : name of its field
    name : option name, if it differs
    default : default, if it differs
    more : metadata that differ, as in :func:`opt`
    """
    original = next(each for each in dataclasses.fields(declared) if each.name == field)
    changed = {**original.metadata, **more, **({"name": name} if name else {})}
    return dataclasses.field(default=original.default if default is dataclasses.MISSING else default, metadata=changed)


def settings_of(options: Any, prefix: str = "") -> tuple[Setting, ...]:
    """List the options of a dataclass, or of an instance with other defaults; names begin with ``prefix``."""
    return tuple(
        Setting(prefix + name, _default_as_typed(field, getattr(options, field.name)), field.metadata["help"],
                field.metadata.get("choices", ()))
        for field in dataclasses.fields(options) if "name" in field.metadata for name in _names(field))


def field_values(options: Any, values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of a dataclass's options by field name.

    Parameters
    ----------
    options : dataclass or an instance of it
    values : values by option name, of any program; names that the dataclass lacks are passed over. Texts become lists,
        numbers and None where the field has such a type

    Raises
    ------
    UsageError : a text that is not a valid value
    """
    return {field.name: _value(field, name, values[name])
            for field in dataclasses.fields(options) if "name" in field.metadata
            for name in [prefix + each for each in _names(field)] if name in values}


def with_values(options: T, values: Mapping[str, Any], prefix: str = "") -> T:
    """Copy a dataclass instance with values by option name in place of its own, as :func:`field_values` reads them."""
    return dataclasses.replace(options, **field_values(options, values, prefix))       # type: ignore[type-var]


def aliases_of(options: Any, prefix: str = "") -> set[str]:
    """Return the further names of a dataclass's options."""
    return {prefix + alias for field in dataclasses.fields(options) for alias in field.metadata.get("aliases", ())}


def defaults(settings: tuple[Setting, ...]) -> dict[str, Any]:
    """Return the options' defaults by name."""
    return {setting.name: setting.default for setting in settings}


def _names(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    return (field.metadata["name"], *field.metadata.get("aliases", ()))


def _may_be_unset(field: dataclasses.Field[Any]) -> bool:
    return str(field.type).endswith("| None")


def _default_as_typed(field: dataclasses.Field[Any], default: Any) -> Any:
    """Return the default that a command shows; an option that may be unset is a text there, empty by default."""
    if _may_be_unset(field):
        return "" if default is None else str(default)
    if default == () and not str(field.type).startswith("tuple[str"):
        return ""
    return field.metadata.get("text", default)


def _value(field: dataclasses.Field[Any], name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if _may_be_unset(field):
        return None if value.strip() in ("", "None") else _number_or_text(str(field.type), name, value)
    return _numbers(value, name) if field.default == () and not str(field.type).startswith("tuple[str") else value


def _number_or_text(type_name: str, name: str, text: str) -> Any:
    """Read a text as a field of a type such as ``int | None`` wants it."""
    if type_name.startswith("str"):
        return text
    is_whole = type_name.startswith("int")
    number = option_file.integer(text) if is_whole else option_file.real(text)
    if number is None:
        raise UsageError(f"--{name}={text}: expected a {'whole ' if is_whole else ''}number, or a blank value")
    return number


def _numbers(text: str, name: str) -> list[int]:
    """Read a list such as ``1:2:3``, or with commas; empty parts do not count."""
    numbers = option_file.integers(":".join(filter(None, re.split("[:,]", text))))
    if numbers is None:
        raise UsageError(f"--{name}={text}: expected whole numbers with colons between them")
    return numbers
