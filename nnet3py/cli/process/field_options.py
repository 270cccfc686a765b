"""Options of a command that are the fields of a dataclass, made by ``opt`` of nnet3py/drivers/options.py."""
from __future__ import annotations

import dataclasses
from typing import Any

from nnet3py.cli.process.options import Option, OptionError, Options, option


def driver_options(declared: type[Any]) -> list[Option]:
    """The command line options of a dataclass whose fields are made by ``opt``, and their other names."""
    options = []
    for field in dataclasses.fields(declared):
        for name in (field.metadata["name"], *field.metadata["aliases"]):
            options.append(option(name, *_declaration(str(field.type), field.default), field.metadata["help"]))
    return options


def _declaration(type_name: str, default: Any) -> tuple[type | str, Any]:
    """Type and default of an option; one that may be unset is a text on the command line, empty by default."""
    if type_name.startswith("tuple"):
        return "strings", default
    if type_name.endswith("| None"):
        return str, "" if default is None else str(default)
    return {"str": str, "int": int, "float": float, "bool": bool}[type_name], default


def fields_from(declared: type[Any], options: Options) -> Any:
    """Such a dataclass with the values of the command line; fields without an option keep their defaults."""
    values = {}
    for field in dataclasses.fields(declared):
        names = (field.metadata["name"], *field.metadata["aliases"])
        if names[0] not in options:
            continue
        given = [name for name in names if options.given(name)] or [names[0]]
        values[field.name] = _value(str(field.type), given[-1], options[given[-1]])
    return declared(**values)


def _value(type_name: str, name: str, value: Any) -> Any:
    if not type_name.endswith("| None"):
        return value
    if value.strip() in ("", "None"):
        return None
    if type_name.startswith("str"):
        return value
    try:
        return int(value)
    except ValueError:
        raise OptionError(f'Invalid integer option "{value}"', f"for --{name}") from None
