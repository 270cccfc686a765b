"""How a command declares its options, and how it reads their values.

An :class:`Option` is one of click's, whose name is normalized as Kaldi compares it (lower case, ``-`` for ``_``).
``parser.py`` reads a command line; ``command.py`` shows how a command declares its options.

Kaldi: util/parse-options.h.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from nnet3py import log
from nnet3py.cli.process.option_types import INT_MAX, INT_MIN, TYPES, OptionError, OptionType, Text
from nnet3py.option_fields import Setting
from nnet3py.option_file import normalize

__all__ = ["INT_MAX", "INT_MIN", "STANDARD_OPTIONS", "Option", "OptionError", "Options", "command_echo", "declared",
           "normalize", "option", "print_error_text", "quote", "usage_text"]

COMPLETION_VARIABLE = "_NNET3PY_COMPLETE"      # the variable by which shells ask, the same for all our names
_UNQUOTED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789[]~#^_-+=:.,/")
Idle = Callable[[Any, "Options"], str]
_WORDS = {bool: "bool", int: "int", float: "float", str: "string"}


class Option(click.Option):
    """One option of a command.

    Attributes
    ----------
    name : as typed, without ``--``; may carry a group's prefix (``optimization.min-deriv-time``)
    type, default, help : as click has them
    idle : given a value that is not the default and all options, the warning if the value does nothing; else ""
    """

    name: str
    type: OptionType

    def __init__(self, name: str, type: OptionType, default: Any, help: str, idle: Idle | None = None,
                 **more: Any) -> None:
        # click wants a Python name besides the one that is typed; ours may have dots in it.
        super().__init__([f"--{name}", "option"], type=type, default=default, help=help,
                         multiple=type.name == "strings", **more)
        self.name, self.idle = name, idle

    def but(self, name: str | None = None, **changed: Any) -> Option:
        """The same option with another name, ``default``, ``help`` or ``idle``."""
        return Option(name or self.name, self.type, changed.get("default", self.default),
                      changed.get("help", self.help) or "", changed.get("idle", self.idle))

    def warning(self, options: Options) -> str:
        """The warning for a user who gave a value that does nothing; "" if it has an effect."""
        value = options[self.name]
        if self.idle is None or value == self.default:
            return ""
        reason = self.idle(value, options)
        return reason and f"--{self.name}={self.type.shown(value)} has no effect: {reason}"

    def read(self, text: str | None) -> Any:
        """The value of a text on the command line; None stands for a missing equal sign. Raises OptionError."""
        return self.type.from_text(self.type.without_value(self.name) if text is None else text, self.name)

    def line(self) -> str:
        """Its line in a usage text."""
        default = self.type.shown(self.default)
        return f"  --{self.name:<25} : {self.help} ({self.type.name}, default = {default})\n"


def option(name: str, type: type | str, default: Any, help: str, choices: Sequence[str] | None = None,
           idle: str | Idle | None = None) -> Option:
    """Declare an option.

    Parameters
    ----------
    name : as typed, without ``--``; may carry a group's prefix (``optimization.min-deriv-time``)
    type : bool, int, float or str, or one of Kaldi's words ``"uint"`` and ``"double"``; ``"strings"`` collects what
        every occurrence of the option gives, in a tuple
    default : value when the option is not given
    help : one line
    choices : the values a string option may take, or None for any
    idle : for an option that does nothing although results would differ if it did: what happens instead, as a warning
        for users who give another value than the default; or a function of the value and all options that gives this
        text where the value does nothing (and "" where it does something)
    """
    kind = TYPES[type if isinstance(type, str) else _WORDS[type]]
    reason = (lambda value, options: idle) if isinstance(idle, str) else idle
    return Option(normalize(name), Text(choices=tuple(choices)) if choices else kind, default, help, reason)


def declared(settings: Iterable[Setting]) -> tuple[Option, ...]:
    """Options that are declared elsewhere, as those of a command."""
    return tuple(option(setting.name, type(setting.default), setting.default, setting.help, setting.choices or None)
                 for setting in settings)


def _show_usage(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        print_error_text(ctx.command.get_help(ctx))
        ctx.exit()


STANDARD_OPTIONS = (
    option("config", str, "", "Read options from this file too; may be given several times"),
    Option("help", TYPES["bool"], False, "Print this text and exit", is_eager=True, callback=_show_usage),
    option("print-args", bool, True, "Repeat the command line on standard error"),
    option("verbose", int, 0, "How much to log: 0 and up"),
)


class Options:
    """The values of a command's options.

    ``options.minibatch_size`` and ``options["minibatch-size"]`` are the same value; a prefixed option is
    ``options["optimization.min-deriv-time"]``.
    """

    def __init__(self, values: dict[str, Any], given: Iterable[str] = ()) -> None:
        self._values = values
        self._given = frozenset(given)

    def __getitem__(self, name: str) -> Any:
        return self._values[normalize(name)]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            try:
                return self._values[normalize(name)]
            except KeyError:
                pass
        raise AttributeError(f"the command has no option --{normalize(name)}")

    def __contains__(self, name: str) -> bool:
        return normalize(name) in self._values

    def given(self, name: str) -> bool:
        """Whether the option was set on the command line or in a config file."""
        return normalize(name) in self._given

    def as_dict(self) -> dict[str, Any]:
        """All values by their names."""
        return dict(self._values)

    def group(self, prefix: str) -> dict[str, Any]:
        """The options under a prefix, as Python names: ``group("optimization")["min_deriv_time"]``."""
        start = normalize(prefix).rstrip(".") + "."
        return {name[len(start):].replace("-", "_"): value
                for name, value in self._values.items() if name.startswith(start)}


def quote(argument: str) -> str:
    """One argument as the command echo shows it: quoted if a shell would not take it unchanged."""
    if argument and _UNQUOTED.issuperset(argument):
        return argument
    if "'" in argument and not any(character in argument for character in '"`$\\'):
        return f'"{argument}"'
    return "'" + argument.replace("'", "'\\''") + "'"


def command_echo(program: str, args: Sequence[str]) -> str:
    """The line in which a program repeats its command line, with Kaldi's blank at the end."""
    return "".join(quote(argument) + " " for argument in (program, *args))


def usage_text(usage: str, declared: Sequence[Option], standard: Sequence[Option] = STANDARD_OPTIONS) -> str:
    """What ``--help`` prints: the usage string, the command's options by name, the standard options."""
    parts = ["\n", usage.rstrip("\n"), "\n\n"]
    if declared:
        parts += ["Options:\n", *(option_.line() for option_ in sorted(declared, key=lambda option_: option_.name)),
                  "\n"]
    parts += ["Standard options:\n", *(option_.line() for option_ in standard), "\n"]
    return "".join(parts)


def print_error_text(text: str) -> None:
    """Write text to standard error, where Kaldi's programs put everything that is not data."""
    log.write_text(text)
