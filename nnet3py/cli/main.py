"""The entry points: ``nnet3py <name>`` for a person, and :func:`run` for a launcher with Kaldi's name.

``nnet3py`` is a lazy click group: its help and completion come from the registry, and a command's module is imported
when that command runs.
"""
from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from nnet3py import log
from nnet3py.cli.command import INTERRUPTED, KaldiCommand, run_process
from nnet3py.cli.registry import COMMANDS, PERSON_NAMES
from nnet3py.errors import ArgumentsError

GARBAGE_THRESHOLD = 300_000     # objects; numba alone makes 200,000, and Python's own is 700 to 2,000


def load(name: str) -> KaldiCommand:
    """The command of Kaldi's name ``name``, importing its module."""
    entry = COMMANDS[name]
    return getattr(import_module(f"nnet3py.cli.{entry.module}"), entry.function)


def collect_rarely() -> None:
    """Let Python look for circular garbage seldom: while modules load, that is a tenth of a short command's time."""
    gc.set_threshold(GARBAGE_THRESHOLD, 20, 20)


def run(name: str, args: Sequence[str] | None = None) -> NoReturn:
    """Run the command of Kaldi's name ``name`` on ``args`` (default: the process's) and exit. Launchers call it."""
    collect_rarely()
    log.set_program(name)
    words = sys.argv[1:] if args is None else args
    run_process(lambda: load(name).execute(words))   # a module that cannot be imported becomes an ERROR line, too


class LazyGroup(click.Group):
    """The group of all commands, listed from the registry and imported one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*PERSON_NAMES, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        kaldi_name = PERSON_NAMES.get(cmd_name, cmd_name)
        return load(kaldi_name) if kaldi_name in COMMANDS else self.commands.get(cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in PERSON_NAMES and args[0] not in COMMANDS and args[0] not in self.commands:
            from difflib import get_close_matches

            close = get_close_matches(args[0], self.list_commands(ctx), 1)
            raise ArgumentsError(f"There is no command '{args[0]}'",
                                 f"did you mean '{close[0]}'?" if close else "see nnet3py --help")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self._line(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(name, help=self._line(name))
                for name in self.list_commands(ctx) if name.startswith(incomplete)]

    def _line(self, name: str) -> str:
        if name in PERSON_NAMES:
            return COMMANDS[PERSON_NAMES[name]].help
        return self.commands[name].get_short_help_str()


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.option("--version", is_flag=True, help="Print the versions of nnet3py and of what it runs on.")
@click.pass_context
def nnet3py(ctx: click.Context, version: bool) -> None:
    """Kaldi's nnet3 neural networks in Python, with Kaldi's file formats, options and log lines.

    "nnet3py NAME --help" explains a command; NAME is Kaldi's name without "nnet3-".
    """
    if version:
        from nnet3py.cli.version import version_text

        click.echo(version_text())
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@nnet3py.command("bin-path")
def bin_path() -> None:
    """Print the folder of the launchers with Kaldi's names, for PATH."""
    from nnet3py.drivers.jobs.launchers import launcher_folder

    click.echo(launcher_folder())


@nnet3py.command("warmup")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default=None,
              help="Compile for this device only (default: for the CPU, and for the GPU if there is one).")
@click.option("--only", "families", multiple=True, metavar="FAMILY",
              help="Compile this family of kernels only, such as rows; may be given more than once.")
@click.option("--list", "list_families", is_flag=True, help="Print the names of the families, and compile nothing.")
@click.option("--num-processes", type=click.IntRange(0), default=0,
              help="Processes that compile side by side (0: one for each core).")
def warmup(device: str | None, families: tuple[str, ...], list_families: bool, num_processes: int) -> None:
    """Compile all kernels for this machine once, so that no command has to.

    What is compiled is kept in a folder that all commands look in, and found there from then on. Needed again after an
    update of nnet3py, numba, numpy or Python, or on another processor; commands would also do it, as they go.

    e.g.: nnet3py warmup
    """
    from nnet3py.cli import warmup as warm

    if list_families:
        click.echo("\n".join(warm.families(device or "cpu")))
        return
    devices = warm.chosen_devices(device or "")
    warm.show(warm.warm_up(devices, list(families), num_processes or warm.default_processes()), click.echo)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The ``nnet3py`` command."""
    collect_rarely()
    log.set_program("nnet3py")
    words = list(sys.argv[1:] if args is None else args)

    def body() -> int:
        try:
            # click hands back the status of an Exit; a command leaves through one
            return nnet3py.main(words, prog_name="nnet3py", standalone_mode=False) or 0
        except click.exceptions.Abort:
            return INTERRUPTED

    run_process(body)


def run_person_name() -> NoReturn:
    """The ``nnet3py-<name>`` commands: the name is what the process was started as."""
    name = os.path.basename(sys.argv[0]).removeprefix("nnet3py-")
    run(PERSON_NAMES[name.removesuffix(".exe")])
