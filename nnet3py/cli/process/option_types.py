"""The types of options, as click knows them: Kaldi's words for them, and what each accepts.

Raises :class:`OptionError` for a text that is not a value. Kaldi: ParseOptions::ToBool, ToInt and their kind.
"""
from __future__ import annotations

from typing import Any

import click

from nnet3py import option_file
from nnet3py.errors import UsageError
from nnet3py.option_file import INT_MAX, INT_MIN


class OptionError(UsageError):
    """An option that does not exist or whose value cannot be used.

    ``show_usage`` asks for the usage text before the error.
    """

    def __init__(self, message: str, hint: str | None = None, show_usage: bool = False) -> None:
        super().__init__(message, hint)
        self.show_usage = show_usage


class OptionType(click.ParamType):
    """What an option's value may be; ``name`` is the word for it in a usage text."""

    def without_value(self, name: str) -> str:
        """The text that an option ``--name`` without an equal sign stands for."""
        return ""

    def from_text(self, text: str, name: str) -> Any:
        """The value that a text stands for."""
        raise NotImplementedError

    def shown(self, value: Any) -> str:
        """A default value in a usage text."""
        return str(value)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value of a text; what has been read already stays as it is."""
        return self.from_text(value, (param and param.name) or "") if isinstance(value, str) else value


class Boolean(OptionType):
    """true or false, in any case; t, f, 1 and 0 as well."""

    name = "bool"

    def without_value(self, name: str) -> str:
        """``--name`` is ``--name=true``."""
        return "true"

    def from_text(self, text: str, name: str) -> bool:
        """True or False."""
        if not text:
            raise OptionError(f"Invalid option --{name}=", "give true or false after the equal sign")
        value = option_file.boolean(text)
        if value is not None:
            return value
        raise OptionError(f"Invalid format for boolean argument [expected true or false]: --{name}={text}",
                          show_usage=True)

    def shown(self, value: bool) -> str:
        """As it is typed."""
        return "true" if value else "false"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """true and false."""
        return _items(("true", "false"), incomplete)


class Integer(OptionType):
    """A whole number between two limits, in decimal digits."""

    def __init__(self, name: str, low: int, high: int) -> None:
        self.name, self.low, self.high = name, low, high

    def from_text(self, text: str, name: str) -> int:
        """An int."""
        number = option_file.integer(text, self.low, self.high)
        if number is not None:
            return number
        raise OptionError(f'Invalid integer option "{text}"', f"for --{name}")


class Real(OptionType):
    """A number, as C reads it; infinity is allowed, NaN is not."""

    def __init__(self, name: str) -> None:
        self.name = name

    def from_text(self, text: str, name: str) -> float:
        """A float."""
        number = option_file.real(text)
        if number is not None:
            return number
        raise OptionError(f'Invalid floating-point option "{text}"', f"for --{name}")

    def shown(self, value: float) -> str:
        """With as few digits as it needs."""
        return f"{value:g}"


class Text(OptionType):
    """Any text, or one of some ``choices``."""

    def __init__(self, name: str = "string", choices: tuple[str, ...] = ()) -> None:
        self.name, self.choices = name, choices

    def without_value(self, name: str) -> str:
        """Raise OptionError: a text needs a value."""
        raise OptionError(f"Invalid option --{name}", f"the form is --{name}=VALUE, with the value attached")

    def from_text(self, text: str, name: str) -> str:
        """The text itself."""
        if self.choices and text not in self.choices:
            raise OptionError(f"Invalid option --{name}={text}", f"expected one of {', '.join(self.choices)}")
        return text

    def shown(self, value: Any) -> str:
        """In quotation marks."""
        return f'"{value if isinstance(value, str) else " ".join(value)}"'

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """The choices; without any, the names of files."""
        return _items(self.choices, incomplete) if self.choices else _files(incomplete)


class FileName(click.ParamType):
    """An argument, which most often is the name of a file."""

    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """The names of files."""
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
