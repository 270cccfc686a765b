"""Declarations of options: name, type, default and help of an option in one place, for Python and commands. Light.

An option is declared as a field of a dataclass by :func:`opt`, or as a :class:`Setting` in a table. The decorator
:func:`options_class` makes such dataclasses, faster than ``dataclass`` does. Python code sets the field; commands,
drivers and conf files of model folders read the declarations with :func:`settings_of`, and build the dataclass from a
dict of option values with :func:`with_values`. :func:`like` copies a declaration for a program in which the option has
another name or default.
"""
from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from nnet3py import option_file
from nnet3py.errors import UsageError

T = TypeVar("T")
GPU_CHOICES = ("yes", "no", "optional", "wait")         # choices of --use-gpu
OptionValue: TypeAlias = "str | float | bool"       # an int is a float to type checkers


class Setting(NamedTuple):
    """Declaration of an option.

    Attributes
    ----------
    name : option name without ``--``
    default : value if the option is not given, and the option's type; ``()`` for an option that may be repeated, whose
        value is a tuple of texts
    help : description in one line
    choices : allowed texts; empty if any text is allowed
    limits : ``least``, ``above``, ``most``, ``below`` with the limits of the value, for :func:`check_limits`
    """

    name: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    limits: Mapping[str, float] = {}


_LIMITS = {"least": (operator.ge, "{} or more"), "above": (operator.gt, "above {}"),
           "most": (operator.le, "at most {}"), "below": (operator.lt, "below {}")}


def limits_of(declaration: Mapping[str, Any]) -> dict[str, float]:
    """Return the limits among the keyword arguments with which an option is declared."""
    return {kind: declaration[kind] for kind in _LIMITS if declaration.get(kind) is not None}


def check_limits(name: str, value: Any, default: Any, limits: Mapping[str, float]) -> None:
    """Raise UsageError for a number, or a number of a list, beyond the limits of its option.

    The default, which may stand for another way (-1, 0: none), and None are always allowed.
    """
    if not limits or value is None or value == default:
        return
    numbers = value if isinstance(value, (list, tuple)) else (value,)
    if not all(_is_within(number, limits) for number in numbers):
        wanted = " and ".join(_LIMITS[kind][1].format(_shown(limit)) for kind, limit in limits.items()).replace(
            "above -inf and ", "").replace("below inf", "finite")
        is_apart = isinstance(default, (int, float)) and not _is_within(default, limits)
        raise UsageError(f"--{name}={':'.join(map(_shown, numbers))}: expected "
                         f"{'a finite number' if wanted == 'finite' else wanted}"
                         f"{f', or {_shown(default)}' if is_apart else ''}")


def _is_within(number: float, limits: Mapping[str, float]) -> bool:
    return all(_LIMITS[kind][0](number, limit) for kind, limit in limits.items())


def _shown(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _init(self: Any, *args: Any, **values: Any) -> None:
    name, fields = type(self).__name__, dataclasses.fields(self)
    positional = [field.name for field in fields if not field.kw_only]
    repeated = values.keys() & set(positional[:len(args)])
    if repeated or len(args) > len(positional):
        raise TypeError(f"{name} got {', '.join(sorted(repeated))} twice" if repeated else
                        f"{name} takes {len(positional)} values without names, {len(args)} were given")
    values.update(zip(positional, args, strict=False))
    for field in fields:
        value = values.pop(field.name, field.default)
        if value is dataclasses.MISSING:
            if not callable(field.default_factory):
                raise TypeError(f"{name} lacks a value for {field.name}")
            value = field.default_factory()
        self.__dict__[field.name] = value
    if values:
        raise TypeError(f"{name} has no field {', '.join(values)}")
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, field.name) for field in dataclasses.fields(self))


def _repr(self: Any) -> str:
    fields = zip(dataclasses.fields(self), _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{field.name}={value!r}' for field, value in fields)})"


def _equal(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"{type(self).__name__}.{name} cannot be changed; dataclasses.replace copies")


class _Signature:
    """``__signature__`` of a class, for ``help`` and ``inspect``, which see no fields in the shared ``__init__``."""

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        from inspect import Parameter, Signature

        fields = sorted(dataclasses.fields(owner), key=lambda field: field.kw_only is True)
        return Signature([Parameter(
            field.name, Parameter.KEYWORD_ONLY if field.kw_only else Parameter.POSITIONAL_OR_KEYWORD,
            default=Parameter.empty if field.default is field.default_factory else
            field.default_factory() if callable(field.default_factory) else field.default,
            annotation=field.type) for field in fields])


_METHODS = {"__signature__": _Signature(), "__init__": _init, "__repr__": _repr, "__eq__": _equal, "__hash__": None}
_FROZEN_METHODS = {"__hash__": lambda self: hash(_values(self)), "__setattr__": _refuse, "__delattr__": _refuse}


if TYPE_CHECKING:
    from dataclasses import dataclass as options_class
else:
    def options_class(cls: type | None = None, *, frozen: bool = False, kw_only: bool = False) -> Any:
        """Make a dataclass with methods that all such classes share.

        ``dataclasses.dataclass`` compiles methods for each class, which takes ten times as long: milliseconds, with
        some classes of many fields, whenever a command is started.
        """
        if cls is None:
            return partial(options_class, frozen=frozen, kw_only=kw_only)
        for name, method in {**_METHODS, **(_FROZEN_METHODS if frozen else {})}.items():
            setattr(cls, name, cls.__dict__.get(name) or method)
        return dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)


class CheckedOptions:
    """Base of dataclasses of options declared by :func:`opt`."""

    def check(self) -> None:
        """Raise UsageError for a value beyond the limits of its option, or not among its choices."""
        for field in dataclasses.fields(self):                        # type: ignore[arg-type]
            name, value = field.metadata.get("name", field.name.replace("_", "-")), getattr(self, field.name)
            check_limits(name, value, field.default, limits_of(field.metadata))
            choices = field.metadata.get("choices")
            if choices and value not in choices:
                raise UsageError(f"--{name}={value}: expected {', '.join(choices[:-1])} or {choices[-1]}")

    def binding(self) -> dict[str, Any]:
        """Return the values of options that change results, those not declared ``harmless``, by option name."""
        return {field.metadata["name"]: getattr(self, field.name)
                for field in dataclasses.fields(self)                 # type: ignore[arg-type]
                if "name" in field.metadata and not field.metadata.get("harmless")}


def opt(name: str, default: Any, help: str, **more: Any) -> Any:
    """Declare a field of a dataclass that is an option.

    The type of the option is the field's, with three additions: for a type with ``| None`` a blank value stands for
    None; ``tuple[str, ...]`` is an option that may be repeated; another sequence with default ``()`` is a list of
    integers, such as ``1:2:3``.

    Parameters
    ----------
    name : option name without ``--``
    default : value of the field if the option is not given
    help : description in one line
    more : ``aliases``: other names of the option; ``choices``: allowed texts; ``text``: text of the default, for a
        field that is parsed by its class; ``least``, ``above``, ``most``, ``below``: limits of numbers besides the
        default; ``harmless``: True if results do not depend on the option, so that interrupted work may be continued
        with another value
    """
    return dataclasses.field(default=default, metadata={"name": name, "help": help, **more})


def like(declared: type[Any], field: str, name: str = "", default: Any = dataclasses.MISSING, **more: Any) -> Any:
    """Declare a field for the same option as a field of another dataclass, with the same help.

    Parameters
    ----------
    declared : dataclass that has the option
    field : name of its field
    name : option name, if it differs
    default : default, if it differs
    more : metadata that differ, as in :func:`opt`
    """
    original = declared.__dataclass_fields__[field]
    changed = {**original.metadata, **more, **({"name": name} if name else {})}
    return dataclasses.field(default=original.default if default is dataclasses.MISSING else default, metadata=changed)


def settings_of(options: Any, prefix: str = "") -> tuple[Setting, ...]:
    """Return the options of a dataclass, with the values of an instance as defaults; names begin with ``prefix``."""
    return tuple(
        Setting(prefix + name, _default_as_typed(field, getattr(options, field.name)), field.metadata["help"],
                field.metadata.get("choices", ()), limits_of(field.metadata))
        for field in dataclasses.fields(options) if "name" in field.metadata for name in _names(field))


def field_values(options: Any, values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn values by option name into values by field name of a dataclass.

    Parameters
    ----------
    options : dataclass, or an instance of it
    values : values by option name; names that are no options of the dataclass are ignored. A text becomes a list, a
        number or None if the field has such a type
    prefix : beginning of the option names in ``values``

    Raises
    ------
    UsageError : a text that is not a valid value
    """
    return {field.name: _value(field, name, values[name])
            for field in dataclasses.fields(options) if "name" in field.metadata
            for name in [prefix + each for each in _names(field)] if name in values}


def with_values(options: T, values: Mapping[str, Any], prefix: str = "") -> T:
    """Return a copy of a dataclass instance with some fields replaced; ``values`` are as for :func:`field_values`."""
    return dataclasses.replace(options, **field_values(options, values, prefix))       # type: ignore[type-var]


def aliases_of(options: Any, prefix: str = "") -> set[str]:
    """Return the alternative names of a dataclass's options."""
    return {prefix + alias for field in dataclasses.fields(options) for alias in field.metadata.get("aliases", ())}


def defaults(settings: tuple[Setting, ...]) -> dict[str, Any]:
    """Return the defaults of options, by option name."""
    return {setting.name: setting.default for setting in settings}


def _names(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    return (field.metadata["name"], *field.metadata.get("aliases", ()))


def _may_be_unset(field: dataclasses.Field[Any]) -> bool:
    return str(field.type).endswith("| None")


def _default_as_typed(field: dataclasses.Field[Any], default: Any) -> Any:
    """Return the default for a command line: a text, empty for None or an empty list, where the text is parsed here."""
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
    """Parse a text for a field of a type such as ``int | None``."""
    if type_name.startswith("str"):
        return text
    is_whole = type_name.startswith("int")
    number = option_file.integer(text) if is_whole else option_file.real(text)
    if number is None:
        raise UsageError(f"--{name}={text}: expected a {'whole ' if is_whole else ''}number, or a blank value")
    return number


def _numbers(text: str, name: str) -> list[int]:
    """Parse a list of integers such as ``1:2:3`` or ``1,2,3``; empty parts are ignored."""
    numbers = option_file.integers(":".join(filter(None, re.split("[:,]", text))))
    if numbers is None:
        raise UsageError(f"--{name}={text}: expected whole numbers with colons between them")
    return numbers
