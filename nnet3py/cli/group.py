"""``nnet3py``: a click group of all commands, whose help and completion come from the registry."""
from __future__ import annotations

from typing import Any, NoReturn

import click

from nnet3py.cli import options as kaldi_options
from nnet3py.cli.command import INTERRUPTED, KaldiCommand
from nnet3py.cli.main import load
from nnet3py.cli.options import Option
from nnet3py.cli.registry import COMMANDS, GROUPS, PERSON_NAMES, person_name
from nnet3py.errors import ArgumentsError


class ClickCommand(click.Command):
    """A Kaldi program as a click command. Parsing is ours; click sees the options for completion and introspection."""

    def __init__(self, command: KaldiCommand) -> None:
        super().__init__(command.name, help=command.usage, add_help_option=False)
        self._command = command
        self.params = [_click_option(one) for one in (*command.declared, *kaldi_options.STANDARD_OPTIONS)]

    def get_help(self, ctx: click.Context) -> str:
        """What ``--help`` prints, as the program itself does."""
        return self._command.usage_text()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words as they were typed."""
        ctx.args = list(args)
        return ctx.args

    def invoke(self, ctx: click.Context) -> NoReturn:
        """Run the program on the words, and leave with its exit status."""
        raise click.exceptions.Exit(self._command.execute(ctx.args))


def _click_option(one: Option) -> click.Option:
    types: dict[str, Any] = {"bool": bool, "int": int, "uint": int, "float": float, "double": float, "string": str,
                             "strings": str}
    kind = click.Choice(one.choices) if one.choices else types[one.type]
    return click.Option([f"--{one.name}", one.name.replace("-", "_").replace(".", "_")], type=kind,
                        default=one.default, help=one.help, multiple=one.type == "strings")


class LazyGroup(click.Group):
    """The group of all commands, listed from the registry and imported one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, without ``nnet3-``."""
        return sorted({*PERSON_NAMES, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, or of Kaldi's full one, imported; None if there is none."""
        kaldi_name = PERSON_NAMES.get(cmd_name, cmd_name)
        return ClickCommand(load(kaldi_name)) if kaldi_name in COMMANDS else self.commands.get(cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command that ``args`` begins with; ArgumentsError with the closest name if there is none."""
        if args[0] not in PERSON_NAMES and args[0] not in COMMANDS and args[0] not in self.commands:
            from difflib import get_close_matches

            close = get_close_matches(args[0], self.list_commands(ctx), 1)
            raise ArgumentsError(f"There is no command '{args[0]}'",
                                 f"did you mean '{close[0]}'?" if close else "see nnet3py --help")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for ``--help``, by what people do."""
        width = max(map(len, self.list_commands(ctx)))
        for title, group in GROUPS.items():
            names = [person_name(name) for name in group if PERSON_NAMES[person_name(name)] == name]
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), self._line(name))
                                    for name in (*names, *(self.commands if title == "Start here" else ()))])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """The commands whose names begin so, for the shell."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name, help=self._line(name))
                for name in self.list_commands(ctx) if name.startswith(incomplete)]

    def _line(self, name: str) -> str:
        if name in PERSON_NAMES:
            return COMMANDS[PERSON_NAMES[name]].help
        return self.commands[name].get_short_help_str(limit=200)


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"max_content_width": 120})
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


def run_group(words: list[str]) -> int:
    """Run ``nnet3py`` on these words; its exit status."""
    try:
        # click hands back the status of an Exit; a command leaves through one
        return nnet3py.main(words, prog_name="nnet3py", standalone_mode=False) or 0
    except click.exceptions.Abort:
        return INTERRUPTED
