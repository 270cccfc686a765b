"""Kaldi's option manners: declaration, parsing, and the usage text.

``--name=value`` with the value attached, names folded to lower case with ``-`` for ``_``, options only before the
first argument, ``--`` to end them, ``--config=FILE`` read before the command line. See :mod:`nnet3py.cli.command` for
how a command declares its options.

Kaldi: util/parse-options.h.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from nnet3py import log
from nnet3py.errors import UsageError

INT_MIN, INT_MAX = -2147483648, 2147483647

_UNQUOTED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789[]~#^_-+=:.,/")
_TYPES = {bool: "bool", int: "int", float: "float", str: "string"}
_RANGES = {"int": (INT_MIN, INT_MAX), "uint": (0, 2 * INT_MAX + 1)}


class OptionError(UsageError):
    """An option that does not exist or whose value cannot be used.

    ``show_usage`` asks for the usage text before the error.
    """

    def __init__(self, message: str, hint: str | None = None, show_usage: bool = False) -> None:
        super().__init__(message, hint)
        self.show_usage = show_usage


class Option(NamedTuple):
    """One option: normalised name, type as Kaldi prints it, default, help, and the values it may take."""

    name: str
    type: str
    default: Any
    help: str
    choices: tuple[str, ...] | None = None


def normalise(name: str) -> str:
    """An option's name as Kaldi compares it: lower case, ``-`` for ``_``."""
    return name.replace("_", "-").lower()


def option(name: str, type: type | str, default: Any, help: str, choices: Sequence[str] | None = None) -> Option:
    """Declare an option.

    Parameters
    ----------
    name : as typed, without ``--``; may carry a group's prefix (``optimization.min-deriv-time``)
    type : bool, int, float or str, or one of Kaldi's words ``"uint"`` and ``"double"``; ``"strings"`` collects what
        every occurrence of the option gives, in a tuple
    default : value when the option is not given
    help : one line
    choices : the values a string option may take, or None for any
    """
    word = type if isinstance(type, str) else _TYPES[type]
    return Option(normalise(name), word, default, help, tuple(choices) if choices else None)


STANDARD_OPTIONS = (
    option("config", str, "", "Read options from this file too; may be given several times"),
    option("help", bool, False, "Print this text and exit"),
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
        return self._values[normalise(name)]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            try:
                return self._values[normalise(name)]
            except KeyError:
                pass
        raise AttributeError(f"the command has no option --{normalise(name)}")

    def __contains__(self, name: str) -> bool:
        return normalise(name) in self._values

    def given(self, name: str) -> bool:
        """Whether the option was set on the command line or in a config file."""
        return normalise(name) in self._given

    def group(self, prefix: str) -> dict[str, Any]:
        """The options under a prefix, as Python names: ``group("optimization")["min_deriv_time"]``."""
        start = normalise(prefix).rstrip(".") + "."
        return {name[len(start):].replace("-", "_"): value
                for name, value in self._values.items() if name.startswith(start)}


def quote(argument: str) -> str:
    """One argument as the command echo shows it: quoted if a shell would not take it as it is."""
    if argument and _UNQUOTED.issuperset(argument):
        return argument
    if "'" in argument and not any(character in argument for character in '"`$\\'):
        return f'"{argument}"'
    return "'" + argument.replace("'", "'\\''") + "'"


def command_echo(program: str, args: Sequence[str]) -> str:
    """The line in which a program repeats its command line, with Kaldi's blank at the end."""
    return "".join(quote(argument) + " " for argument in (program, *args))


def parse(declared: Sequence[Option], args: Sequence[str]) -> tuple[list[str], Options, bool]:
    """Split a command line into arguments and options.

    Returns the arguments, the option values, and whether ``--help`` was asked for (then the rest is not checked).
    Raises :class:`OptionError`.
    """
    table = {one.name: one for one in (*declared, *STANDARD_OPTIONS)}
    values = {name: one.default for name, one in table.items()}
    given: set[str] = set()
    for key, value, _ in _option_words(args):
        if key == "help":
            return [], Options(values), True
        if key == "config":
            _read_config_file(value or "", table, values, given)
    rest = _read_options(args, table, values, given)
    return rest, Options(values, given), False


def attach_values(declared: Sequence[Option], words: Sequence[str]) -> list[str]:
    """The words with ``--name value`` written as ``--name=value``, as Kaldi's scripts in Python take both.

    A word after an option that has no ``=`` is its value, unless it begins with ``--`` or the option is a boolean and
    the word is neither true nor false.
    """
    types = {one.name: one.type for one in (*declared, *STANDARD_OPTIONS)}
    attached: list[str] = []
    wants_value = False
    for word in words:
        if wants_value and not word.startswith("--") and (types[normalise(attached[-1][2:])] != "bool"
                                                          or word.lower() in ("true", "false")):
            attached[-1] += f"={word}"
            wants_value = False
            continue
        attached.append(word)
        wants_value = word.startswith("--") and "=" not in word and normalise(word[2:]) in types
    return attached


def _option_words(args: Sequence[str]) -> Iterable[tuple[str, str | None, str]]:
    """Every word of the line that looks like an option, up to a lone ``--``, as (key, value or None, word)."""
    for word in args:
        if word == "--":
            return
        if word.startswith("--"):
            yield (*_split(word), word)


def _split(word: str) -> tuple[str, str | None]:
    key, equals, value = word[2:].partition("=")
    if equals and not key:
        raise OptionError(f"Invalid option (no key): {word}", show_usage=True)
    return normalise(key), value.strip() if equals else None


def _read_options(args: Sequence[str], table: dict[str, Option], values: dict[str, Any], given: set[str]) -> list[str]:
    """Take the options in front of the first argument; return the arguments, without one lone ``--``."""
    position = 0
    while position < len(args) and args[position].startswith("--") and args[position] != "--":
        word = args[position]
        key, value = _split(word)
        if key not in table:
            raise OptionError(f"Invalid option {word}", _suggestion(key, table), show_usage=True)
        _set(values, table[key], value)
        given.add(key)
        position += 1
    rest = list(args[position:])
    if "--" in rest:
        rest.remove("--")
    return rest


def _suggestion(key: str, table: dict[str, Option]) -> str | None:
    from difflib import get_close_matches

    close = get_close_matches(key, table, 1)
    return f"did you mean --{close[0]}?" if close else None


def _read_config_file(path: str, table: dict[str, Option], values: dict[str, Any], given: set[str]) -> None:
    try:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"Cannot open config file: {path} ({error})") from None
    for number, raw in enumerate(lines, 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        if not line.startswith("--"):
            raise OptionError(f"Reading config file {path}: line {number} does not look like a line from a config "
                              f"file: {line!r}", "each line is one --name=value; a file meant to be sourced by a "
                              "shell lacks the '--'")
        key, value = _split(line)
        if key not in table:
            raise OptionError(f"Invalid option {line} in config file {path}, line {number}", _suggestion(key, table),
                              show_usage=True)
        _set(values, table[key], value)
        given.add(key)


def _set(values: dict[str, Any], declared: Option, text: str | None) -> None:
    """Take over an option's value; of an option that may be repeated, another one."""
    value = convert(declared, text)
    values[declared.name] = (*values[declared.name], value) if declared.type == "strings" else value


def convert(declared: Option, value: str | None) -> Any:
    """The value of an option from its text; None stands for a missing equal sign. Raises :class:`OptionError`."""
    if declared.type == "bool":
        return _boolean(declared.name, value)
    if declared.type in ("string", "strings"):
        if value is None:
            raise OptionError(f"Invalid option --{declared.name}", f"the form is --{declared.name}=VALUE, "
                              "with the value attached")
        if declared.choices and value not in declared.choices:
            raise OptionError(f"Invalid option --{declared.name}={value}",
                              f"expected one of {', '.join(declared.choices)}")
        return value
    if declared.type in _RANGES:
        return _integer(declared, value or "")
    return _real(declared, value or "")


def _boolean(name: str, value: str | None) -> bool:
    if value == "":
        raise OptionError(f"Invalid option --{name}=", "give true or false after the equal sign")
    word = "true" if value is None else value.lower()
    if word in ("true", "t", "1"):
        return True
    if word in ("false", "f", "0"):
        return False
    raise OptionError(f"Invalid format for boolean argument [expected true or false]: --{name}={value}",
                      show_usage=True)


def _integer(declared: Option, value: str) -> int:
    low, high = _RANGES[declared.type]
    digits = value[1:] if value[:1] in ("+", "-") else value
    if digits.isascii() and digits.isdigit() and len(digits) < 20 and low <= int(value) <= high:
        return int(value)
    raise OptionError(f'Invalid integer option "{value}"', f"for --{declared.name}")


def _real(declared: Option, value: str) -> float:
    try:
        number = float(value)
        if "_" in value or number != number:  # float() takes 1_000, C does not; and nothing can come of NaN
            raise ValueError
        return number
    except ValueError:
        raise OptionError(f'Invalid floating-point option "{value}"', f"for --{declared.name}") from None


def _shown_default(one: Option) -> str:
    if one.type == "bool":
        return "true" if one.default else "false"
    if one.type == "string":
        return f'"{one.default}"'
    if one.type == "strings":
        return f'"{" ".join(one.default)}"'
    return f"{one.default:g}" if one.type in ("float", "double") else str(one.default)


def _option_line(one: Option) -> str:
    return f"  --{one.name:<25} : {one.help} ({one.type}, default = {_shown_default(one)})\n"


def usage_text(usage: str, declared: Sequence[Option]) -> str:
    """What ``--help`` prints: the usage string, the command's options by name, the standard options."""
    parts = ["\n", usage.rstrip("\n"), "\n\n"]
    if declared:
        parts += ["Options:\n", *(_option_line(one) for one in sorted(declared, key=lambda one: one.name)), "\n"]
    parts += ["Standard options:\n", *(_option_line(one) for one in STANDARD_OPTIONS), "\n"]
    return "".join(parts)


def print_error_text(text: str) -> None:
    """Write text to standard error, where Kaldi's programs put everything that is not data."""
    log.write_text(text)
