"""The decorator that declares a command, and the click command that it makes.

A module of commands declares its commands and leaves the work to the package::

    from nnet3py.cli.process.command import kaldi_command
    from nnet3py.cli.process.option_groups import BINARY
    from nnet3py.cli.process.options import option

    @kaldi_command("nnet3-copy", "Models", "Copy a network.", \"\"\"...\"\"\", arguments=(2, 2), options=[
        BINARY,
        option("scale", float, 1.0, "Factor by which the parameters are multiplied"),
    ])
    def copy(args, options):
        from nnet3py.network.model_file import read_nnet   # everything heavy is imported here
        source, target = args
        ...                                                # options.scale, options["optimization.optimize"]
        return 0                                           # exit status; None is 0 as well

``make launchers`` collects the names, groups and lines of help from the sources into ``registry_table.py``, from which
lists of commands are made; so they are literal strings. The usage text takes the place of a docstring. A function with
several such decorators has as many commands.

The command is a click command. It parses as Kaldi does, repeats its command line on standard error, and turns errors
into one ERROR line and Kaldi's exit status. Called with a list (``copy.execute(["in", "out"])``) it returns the exit
status instead of exiting.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import click
from click.core import ParameterSource

from nnet3py import log
from nnet3py.cli.process.options import (
    ARGUMENTS,
    COMPLETION_VARIABLE,
    STANDARD_OPTIONS,
    FileName,
    KaldiParser,
    Option,
    OptionError,
    Options,
    attach_values,
    command_echo,
    options_first,
    print_error_text,
    program_apart,
    usage_text,
)
from nnet3py.cli.process.run import WRONG_USAGE, guarded
from nnet3py.cli.registry import COMMANDS

Function = Callable[[list[str], Options], "int | None"]
_STANDARD = frozenset(declared.name for declared in STANDARD_OPTIONS)


class Runnable(click.Command):
    """Base of commands and their group: a click command whose errors are ERROR lines and Kaldi's exit statuses."""

    person = False      # whether the line kaldi::KaldiFatalError is left out after errors, as for nnet3py NAME

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, complete_var: str | None = None,
             standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command on ``args`` (default: the process's); exit with the status, or return it.

        Errors are reported. With ``standalone_mode`` the process exits.
        """
        words = list(sys.argv[1:] if args is None else args)
        instruction = os.environ.get(complete_var or COMPLETION_VARIABLE)
        if instruction:
            from nnet3py.cli.process.completion import complete

            status = complete(self, instruction)
        else:
            log.set_program(self.name or "")
            log.set_verbose(0)
            status = guarded(lambda: self._status(words, extra), self.person)
        if standalone_mode:
            sys.exit(status)
        return status

    def _status(self, words: list[str], extra: dict[str, Any]) -> int:
        try:
            with self.make_context(self.name, words, **extra) as ctx:
                return self.invoke(ctx) or 0
        except click.exceptions.Exit as stop:
            return stop.exit_code


class KaldiCommand(Runnable):
    """Click command that behaves as Kaldi's programs do; made by :func:`kaldi_command`.

    Attributes
    ----------
    name : Kaldi's name of the program
    usage : text that ``--help`` prints before the options
    bounds : smallest and largest number of arguments; None for no upper limit
    declared : options besides the standard ones
    standard : options that every command has, perhaps with other defaults
    """

    def __init__(self, name: str, function: Function, usage: str, arguments: tuple[int, int | None],
                 options: Sequence[Option], detached_values: bool = False, options_anywhere: bool = False,
                 runs_program: bool = False, short_names: Mapping[str, str] | None = None,
                 short_help: str | None = None) -> None:
        own = {option_.name: option_ for option_ in options}      # a standard option may get another default
        self.usage, self.bounds, self._detached_values = usage.strip("\n"), arguments, detached_values
        self._options_anywhere, self._runs_program = options_anywhere, runs_program
        self._short_names = short_names or {}
        self.declared = tuple(option_ for option_ in options if option_.name not in _STANDARD)
        self.standard = tuple(own.get(option_.name, option_) for option_ in STANDARD_OPTIONS)
        parameters = [*self.declared, *self.standard, click.Argument([ARGUMENTS], nargs=-1, type=FileName())]
        super().__init__(name, callback=function, help=self.usage, short_help=short_help, add_help_option=False,
                         params=parameters)

    def execute(self, args: Sequence[str]) -> int:
        """Run the command on ``args``, the words after its name; report errors, and return the exit status."""
        return self.main(args, standalone_mode=False)

    def usage_text(self) -> str:
        """Return the text of ``--help``."""
        return usage_text(self.usage, self.declared, self.standard)

    def get_help(self, ctx: click.Context) -> str:
        """Return the text of ``--help``, for click."""
        return self.usage_text()

    def make_parser(self, ctx: click.Context) -> Any:
        """Return a KaldiParser, which replaces click's parser."""
        return KaldiParser(self._options(), ctx.resilient_parsing)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line as Kaldi does, and repeat it on standard error.

        Raises :class:`OptionError`, and click's Exit after ``--help`` and for a wrong number of arguments.
        """
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        log.set_program(self.name or "")
        words = [self._short_names.get(word, word) for word in args]
        words = attach_values(self._options(), words) if self._detached_values else words
        words = options_first(words) if self._options_anywhere else words
        words = program_apart(words) if self._runs_program else words
        echo = command_echo(self.name or "", words)
        try:
            super().parse_args(ctx, words)
        except OptionError as error:
            if error.show_usage:
                print_error_text(f"{self.usage_text()}Command line was: {echo}\n")
            raise
        log.set_verbose(ctx.params["verbose"])
        if ctx.params["print-args"]:
            print_error_text(echo + "\n")
        least, most = self.bounds
        if not least <= len(ctx.params[ARGUMENTS]) <= (sys.maxsize if most is None else most):
            print_error_text(self.usage_text())
            ctx.exit(WRONG_USAGE)
        return []

    def invoke(self, ctx: click.Context) -> int:
        """Run the command's function; return the exit status."""
        log.connect_logging()
        values = dict(ctx.params)
        args = list(values.pop(ARGUMENTS))
        given = [name for name in values if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        options = Options(values, given)
        for option_ in self.declared:
            if option_.idle is not None and option_.warning(options):
                log.warning(option_.warning(options))
        function: Function = self.callback   # type: ignore[assignment]
        return function(args, options) or 0

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Return the options whose names begin with ``incomplete``, each with its equal sign."""
        from nnet3py.cli.process.completion import option_items

        return option_items(self._options(), incomplete)

    def _options(self) -> list[Option]:
        return [parameter for parameter in self.params if isinstance(parameter, Option)]


_DECLARED: dict[tuple[str, str], KaldiCommand] = {}       # (module, name) -> command, of imported modules


def kaldi_command(name: str, group: str, help: str, usage: str, *, arguments: tuple[int, int | None],
                  options: Sequence[Option] = (), launcher: bool = True, detached_values: bool = False,
                  options_anywhere: bool = False, runs_program: bool = False,
                  short_names: Mapping[str, str] | None = None) -> Callable[[Function | KaldiCommand], KaldiCommand]:
    """Turn ``function(args, options) -> exit status or None`` into a command.

    Parameters
    ----------
    name : Kaldi's name of the program
    group : the heading under which the command is listed, one of ``HEADINGS`` in ``machine/bin_files.py``
    help : one line for lists of commands, a sentence
    usage : text that ``--help`` prints before the options
    arguments : smallest and largest number of arguments; None for no upper limit
    options : options besides the standard ones
    launcher : whether a program of this name is in ``bin/``; else only ``nnet3py NAME`` runs the command
    detached_values : whether ``--name value`` is understood as well, as by Kaldi's scripts in Python
    options_anywhere : whether options may stand after arguments
    runs_program : whether the arguments are the command line of another program, with its options
    short_names : short options such as ``-m``, with the long ones that they stand for (for programs not Kaldi's)
    """
    def decorate(function: Function | KaldiCommand) -> KaldiCommand:
        if isinstance(function, KaldiCommand):       # the function is declared as another command below
            function = function.callback             # type: ignore[assignment]
        command = KaldiCommand(name, function, usage, arguments, options, detached_values, options_anywhere,
                               runs_program, short_names, help)
        _DECLARED[function.__module__, name] = command
        return command
    return decorate


def load(name: str) -> KaldiCommand:
    """Return the command of Kaldi's name ``name``, after importing its module."""
    module = f"nnet3py.cli.{COMMANDS[name].module}"
    import_module(module)
    return _DECLARED[module, name]
