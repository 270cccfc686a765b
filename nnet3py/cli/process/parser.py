"""Kaldi's way of reading a command line, as a parser for click.

``--name=value`` with the value attached, names folded to lower case with ``-`` for ``_``, options only before the
first argument, ``--`` to end them, ``--config=FILE`` read before the command line.

Kaldi: ParseOptions::Read.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nnet3py.cli.process.options import Option, OptionError, Options
from nnet3py.errors import UsageError
from nnet3py.option_file import normalize, read_option_lines, split

ARGUMENTS = "arguments"     # where the words that are not options are found; no option can have this name


class KaldiParser:
    """Reads the words of a command line, in place of click's own parser.

    Parameters
    ----------
    options : of the command
    resilient : nothing is read, for the completion of a line that is not whole: click works from its words
    """

    _opt_prefixes = frozenset(("-", "--"))      # which words click's completion takes for options

    def __init__(self, options: Iterable[Option], resilient: bool = False) -> None:
        self._options = {option_.name: option_ for option_ in options}
        self._resilient = resilient

    def parse_args(self, args: Sequence[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
        """The values of the options that were given and of ARGUMENTS, by name; words left over, and order: none.

        ``--help`` alone is read where it is asked for. Raises :class:`OptionError`.
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
        """Read one option; of an option that may be repeated, another value."""
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
    """The options in a file that an option such as ``--splice-config`` names; defaults for the rest. OptionError."""
    declared = list(options)
    values: dict[str, Any] = {}
    if path:
        KaldiParser(declared)._read_config_file(path, values)
    return Options({**{option_.name: option_.default for option_ in declared}, **values}, values)


def attach_values(options: Iterable[Option], words: Sequence[str]) -> list[str]:
    """The words with ``--name value`` written as ``--name=value``, as Kaldi's scripts in Python take both.

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
    """The words with those that are options in front, up to ``--``, for commands whose options may come last."""
    end = words.index("--") if "--" in words else len(words)
    return [*(word for word in words[:end] if word.startswith("--")),
            *(word for word in words[:end] if not word.startswith("--")), *words[end:]]


def program_apart(words: Sequence[str]) -> list[str]:
    """The words with ``--`` before the first that is not an option: what follows belongs to another program."""
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
