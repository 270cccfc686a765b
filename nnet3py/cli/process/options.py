"""Options of commands: their declaration, their types, the parser of command lines and config files, their values.

An :class:`Option` is an option of click. :class:`KaldiParser`, in place of click's parser, reads command lines as Kaldi
does: ``--name=value`` with the value attached, names compared in lower case with ``-`` for ``_``, options only before
the first argument, ``--`` after the last option, ``--config=FILE`` read before the command line. ``command.py``
declares commands.

Kaldi: util/parse-options.h; ParseOptions::Read, ToBool, ToInt and the other conversions.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from nnet3py import log, option_file
from nnet3py.errors import UsageError
from nnet3py.option_fields import Setting, aliases_of, check_limits, with_values
from nnet3py.option_file import INT_MAX, INT_MIN, normalize, read_option_lines, split

__all__ = ["BINARY", "INT_MAX", "INT_MIN", "QUIET", "STANDARD_OPTIONS", "Option", "OptionError", "Options",
           "command_echo", "declared", "fields_from", "normalize", "option", "print_error_text", "quote", "usage_text"]

COMPLETION_VARIABLE = "_NNET3PY_COMPLETE"      # environment variable by which a shell asks any command for completions
ARGUMENTS = "arguments"     # click's parameter for the words that are not options; no option can have this name
_UNQUOTED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789[]~#^_-+=:.,/")
T = TypeVar("T")
Idle = Callable[[Any, "Options"], str]
_WORDS = {bool: "bool", int: "int", float: "float", str: "string"}


class OptionError(UsageError):
    """Error for an option that does not exist or has an invalid value.

    ``show_usage``: whether the usage text is printed before the error.
    """

    def __init__(self, message: str, hint: str | None = None, show_usage: bool = False) -> None:
        super().__init__(message, hint)
        self.show_usage = show_usage


class OptionType(click.ParamType):
    """Type of an option's value; ``name`` is its name in a usage text."""

    def without_value(self, name: str) -> str:
        """Return the text that ``--name`` without an equal sign stands for."""
        return ""

    def from_text(self, text: str, name: str) -> Any:
        """Convert the text after the equal sign to a value; ``name`` is the option's, for errors."""
        raise NotImplementedError

    def shown(self, value: Any) -> str:
        """Format a default value for a usage text."""
        return str(value)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert a text to a value; return a value that is not a text unchanged."""
        return self.from_text(value, (param and param.name) or "") if isinstance(value, str) else value


class Boolean(OptionType):
    """Type of true and false, also t, f, 1 and 0, in upper or lower case."""

    name = "bool"

    def without_value(self, name: str) -> str:
        return "true"

    def from_text(self, text: str, name: str) -> bool:
        if not text:
            raise OptionError(f"Invalid option --{name}=", "give true or false after the equal sign")
        value = option_file.boolean(text)
        if value is not None:
            return value
        raise OptionError(f"Invalid format for boolean argument [expected true or false]: --{name}={text}",
                          show_usage=True)

    def shown(self, value: bool) -> str:
        return "true" if value else "false"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Complete true and false."""
        return _items(("true", "false"), incomplete)


class Integer(OptionType):
    """Type of whole numbers between two limits, in decimal digits."""

    def __init__(self, name: str, low: int, high: int) -> None:
        self.name, self.low, self.high = name, low, high

    def from_text(self, text: str, name: str) -> int:
        number = option_file.integer(text, self.low, self.high)
        if number is not None:
            return number
        raise OptionError(f'Invalid integer option "{text}"', f"for --{name}")


class Real(OptionType):
    """Type of numbers as C reads them; infinity is allowed, NaN is not."""

    def __init__(self, name: str) -> None:
        self.name = name

    def from_text(self, text: str, name: str) -> float:
        number = option_file.real(text)
        if number is not None:
            return number
        raise OptionError(f'Invalid floating-point option "{text}"', f"for --{name}")

    def shown(self, value: float) -> str:
        """Format a default with up to six significant digits."""
        return f"{value:g}"


class Text(OptionType):
    """Type of texts; with ``choices`` only these are allowed."""

    def __init__(self, name: str = "string", choices: tuple[str, ...] = ()) -> None:
        self.name, self.choices = name, choices

    def without_value(self, name: str) -> str:
        """Raise OptionError: a text needs a value."""
        raise OptionError(f"Invalid option --{name}", f"the form is --{name}=VALUE, with the value attached")

    def from_text(self, text: str, name: str) -> str:
        if self.choices and text not in self.choices:
            raise OptionError(f"Invalid option --{name}={text}", f"expected one of {', '.join(self.choices)}")
        return text

    def shown(self, value: Any) -> str:
        return f'"{value if isinstance(value, str) else " ".join(value)}"'

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Complete one of the choices, or the name of a file."""
        return _items(self.choices, incomplete) if self.choices else _files(incomplete)


class FileName(click.ParamType):
    """Type of arguments, which are completed as names of files."""

    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Complete the name of a file."""
        return _files(incomplete)


def _items(values: tuple[str, ...], incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(value) for value in values if value and value.startswith(incomplete)]


def _files(incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


TYPES: dict[str, OptionType] = {
    "bool": Boolean(), "int": Integer("int", INT_MIN, INT_MAX), "uint": Integer("uint", 0, 2 * INT_MAX + 1),
    "float": Real("float"), "double": Real("double"), "string": Text(), "strings": Text("strings"),
}


class Option(click.Option):
    """Option of a command.

    Attributes
    ----------
    name : as typed, without ``--``; may begin with a group's prefix (``optimization.min-deriv-time``)
    type, default, help : as in click
    idle : function of a value, other than the default, and all options: the reason why the value has no effect, or ""
    limits : limits of numbers, for :func:`nnet3py.option_fields.check_limits`
    """

    name: str
    type: OptionType

    def __init__(self, name: str, type: OptionType, default: Any, help: str, idle: Idle | None = None,
                 limits: Mapping[str, float] | None = None, **more: Any) -> None:
        # click wants a Python name besides the one that is typed; ours may have dots in it.
        super().__init__([f"--{name}", "option"], type=type, default=default, help=help,
                         multiple=type.name == "strings", **more)
        self.name, self.idle, self.limits = name, idle, limits or {}

    def but(self, name: str | None = None, **changed: Any) -> Option:
        """Copy the option with another name, ``default``, ``help`` or ``idle``."""
        return Option(name or self.name, self.type, changed.get("default", self.default),
                      changed.get("help", self.help) or "", changed.get("idle", self.idle), self.limits)

    def warning(self, options: Options) -> str:
        """Return a warning if the option has a value without effect, else ""."""
        value = options[self.name]
        if self.idle is None or value == self.default:
            return ""
        reason = self.idle(value, options)
        return reason and f"--{self.name}={self.type.shown(value)} has no effect: {reason}"

    def read(self, text: str | None) -> Any:
        """Convert the text after the equal sign (None if there is none) to a value; UsageError if it is not allowed."""
        value = self.type.from_text(self.type.without_value(self.name) if text is None else text, self.name)
        if not isinstance(value, str):
            check_limits(self.name, value, self.default, self.limits)
        return value

    def line(self) -> str:
        """Return the option's line in a usage text."""
        default = self.type.shown(self.default)
        return f"  --{self.name:<25} : {self.help} ({self.type.name}, default = {default})\n"


def option(name: str, type: type | str, default: Any, help: str, choices: Sequence[str] | None = None,
           idle: str | Idle | None = None, **limits: float) -> Option:
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
    limits : ``least``, ``above``, ``most``, ``below``: limits of numbers besides the default
    """
    kind = TYPES[type if isinstance(type, str) else _WORDS[type]]
    reason = (lambda value, options: idle) if isinstance(idle, str) else idle
    return Option(normalize(name), Text(choices=tuple(choices)) if choices else kind, default, help, reason,
                  limits)


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


# In place of the standard --print-args, for commands that are not called by scripts which read logs.
QUIET = option("print-args", bool, False, "Repeat the command line on standard error")
BINARY = option("binary", bool, True, "Write output in binary mode")


class Options:
    """Values of a command's options.

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
        """Return whether the option was set on the command line or in a config file."""
        return normalize(name) in self._given

    def as_dict(self) -> dict[str, Any]:
        """Return all values by option name."""
        return dict(self._values)

    def group(self, prefix: str) -> dict[str, Any]:
        """Return the options with a prefix, by Python names without it: ``group("optimization")["min_deriv_time"]``."""
        start = normalize(prefix).rstrip(".") + "."
        return {name[len(start):].replace("-", "_"): value
                for name, value in self._values.items() if name.startswith(start)}


def declared(settings: Iterable[Setting]) -> tuple[Option, ...]:
    """Make the command line options of settings, as :func:`nnet3py.option_fields.settings_of` lists for a dataclass."""
    return tuple(option(setting.name, "strings" if setting.default == () else type(setting.default), setting.default,
                        setting.help, setting.choices or None, None, **setting.limits) for setting in settings)


def fields_from(options: Options, instance: T, prefix: str = "") -> T:
    """Copy a dataclass instance with the values of the command line; UsageError for an invalid value.

    A field keeps its value if the command does not have its option. If several names of an option were given, the last
    in the order of the declaration is used.
    """
    unused = {alias for alias in aliases_of(instance, prefix) if not options.given(alias)}
    return with_values(instance, {name: value for name, value in options.as_dict().items() if name not in unused},
                       prefix)


def quote(argument: str) -> str:
    """Quote an argument, for the repeated command line, if a shell would change it."""
    if argument and _UNQUOTED.issuperset(argument):
        return argument
    if "'" in argument and not any(character in argument for character in '"`$\\'):
        return f'"{argument}"'
    return "'" + argument.replace("'", "'\\''") + "'"


def command_echo(program: str, args: Sequence[str]) -> str:
    """Return the line with which a program repeats its command line; it ends in a space, as Kaldi's does."""
    return "".join(quote(argument) + " " for argument in (program, *args))


def usage_text(usage: str, declared: Sequence[Option], standard: Sequence[Option] = STANDARD_OPTIONS) -> str:
    """Return the text of ``--help``: usage string, options of the command in order of their names, standard options."""
    parts = ["\n", usage.rstrip("\n"), "\n\n"]
    if declared:
        parts += ["Options:\n", *(option_.line() for option_ in sorted(declared, key=lambda option_: option_.name)),
                  "\n"]
    parts += ["Standard options:\n", *(option_.line() for option_ in standard), "\n"]
    return "".join(parts)


def print_error_text(text: str) -> None:
    """Write text to standard error; Kaldi's programs write to standard output only data."""
    log.write_text(text)


class KaldiParser:
    """Parser of a command line, in place of click's own.

    Parameters
    ----------
    options : the options of the command
    resilient : whether nothing is read; click sets this for the completion of an unfinished command line
    """

    _opt_prefixes = frozenset(("-", "--"))      # click's completion takes words with these beginnings for options

    def __init__(self, options: Iterable[Option], resilient: bool = False) -> None:
        self._options = {option_.name: option_ for option_ in options}
        self._resilient = resilient

    def parse_args(self, args: Sequence[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
        """Parse a command line: return the values by name, and two empty lists, which click expects.

        Only options that were given have values; the arguments are the value of ARGUMENTS. With ``--help`` only the
        value of help is returned. Raises :class:`OptionError`.
        """
        if self._resilient:
            return {}, [], []
        values: dict[str, Any] = {}
        for word in args[:args.index("--")] if "--" in args else args:
            if word.startswith("--"):
                key, text = _split(word)
                if key == "help":
                    return {"help": True}, [], []
                if key == "config":
                    self._read_config_file(text or "", values)
        position = 0
        while position < len(args) and args[position].startswith("--") and args[position] != "--":
            self._take(args[position], values)
            position += 1
        rest = list(args[position:])
        if "--" in rest:
            rest.remove("--")
        return {**values, ARGUMENTS: rest}, [], []

    def _take(self, word: str, values: dict[str, Any], where: str = "") -> None:
        """Read one option into ``values``; the value of a repeatable option is appended to the values before it."""
        key, text = _split(word)
        if key not in self._options:
            raise OptionError(f"Invalid option {word}{where}", _suggestion(key, self._options), show_usage=True)
        declared_option = self._options[key]
        value = declared_option.read(text)
        before: Any = values.get(key, declared_option.default)
        values[key] = (*before, value) if declared_option.multiple else value

    def _read_config_file(self, path: str, values: dict[str, Any]) -> None:
        try:
            lines = read_option_lines(path)
        except UsageError as error:
            raise OptionError(error.message, error.hint) from None
        for number, line in lines:
            self._take(line, values, f" in config file {path}, line {number}")


def options_of_file(path: str, options: Iterable[Option]) -> Options:
    """Read the values of ``options`` from a config file, such as that of ``--splice-config``; "" gives the defaults.

    Raises :class:`OptionError`.
    """
    declared = list(options)
    values: dict[str, Any] = {}
    if path:
        KaldiParser(declared)._read_config_file(path, values)
    return Options({**{option_.name: option_.default for option_ in declared}, **values}, values)


def attach_values(options: Iterable[Option], words: Sequence[str]) -> list[str]:
    """Replace ``--name value`` by ``--name=value`` in a command line, as Kaldi's Python scripts allow both.

    A word after an option that has no ``=`` is its value, unless it begins with ``--`` and has no space in it, or the
    option is a boolean and the word is neither true nor false. With a space it can only be a value, as in
    ``--feat.cmvn-opts "--norm-means=false --norm-vars=false"``.
    """
    types = {option_.name: option_.type.name for option_ in options}
    attached: list[str] = []
    wants_value = False
    for word in words:
        of_an_option = word.startswith("--") and " " not in word
        if wants_value and not of_an_option and (types[normalize(attached[-1][2:])] != "bool"
                                                 or word.lower() in ("true", "false")):
            attached[-1] += f"={word}"
            wants_value = False
            continue
        attached.append(word)
        wants_value = word.startswith("--") and "=" not in word and normalize(word[2:]) in types
    return attached


def options_first(words: Sequence[str]) -> list[str]:
    """Move options before ``--`` in front of the arguments, for commands whose options may come last."""
    end = words.index("--") if "--" in words else len(words)
    return [*(word for word in words[:end] if word.startswith("--")),
            *(word for word in words[:end] if not word.startswith("--")), *words[end:]]


def program_apart(words: Sequence[str]) -> list[str]:
    """Insert ``--`` before the first argument, so that the options after it are passed to another program."""
    first = next((number for number, word in enumerate(words) if not word.startswith("--") or word == "--"), len(words))
    return [*words] if words[first:first + 1] == ["--"] else [*words[:first], "--", *words[first:]]


def _split(word: str) -> tuple[str, str | None]:
    key, text = split(word)
    if text is not None and not key:
        raise OptionError(f"Invalid option (no key): {word}", show_usage=True)
    return key, text


def _suggestion(key: str, options: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    close = get_close_matches(key, options, 1)
    return f"did you mean --{close[0]}?" if close else None


def int_list(text: str, what: str) -> list[int]:
    """Parse a list of integers of 0 or more, such as ``13:14:15``; OptionError, which names ``what``, if wrong."""
    numbers = option_file.integers(text)
    if numbers is None:
        raise OptionError(f"Bad {what} (should be colon-separated list of integers): '{text}'")
    return numbers


def float_list(text: str, what: str) -> list[float]:
    """Parse a list of numbers such as ``0.5:0.5``; OptionError, which names ``what``, if wrong."""
    try:
        return [float(part) for part in text.split(":")] if text else []
    except ValueError:
        raise OptionError(f"Bad {what} (should be colon-separated list of numbers): '{text}'") from None
