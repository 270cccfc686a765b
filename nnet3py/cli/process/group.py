"""``nnet3py``, the click group of all commands: ``--help`` and completion from the registry, and ``--version``."""
from __future__ import annotations

from typing import Any

import click

from nnet3py.cli.process.command import Runnable, load
from nnet3py.cli.registry import COMMANDS, GROUPS, PERSON_NAMES, person_name
from nnet3py.errors import ArgumentsError


class KaldiGroup(Runnable, click.Group):
    """Click group of all commands, listed from the registry; a command is imported when it is called."""

    person = True

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, without ``nnet3-``."""
        return sorted(PERSON_NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of this name, with or without ``nnet3-``; None if there is none."""
        kaldi_name = PERSON_NAMES.get(cmd_name, cmd_name)
        return load(kaldi_name) if kaldi_name in COMMANDS else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command that ``args`` begins with; ArgumentsError, with a suggestion, for an unknown command."""
        if args[0] not in PERSON_NAMES and args[0] not in COMMANDS and not ctx.resilient_parsing:
            from nnet3py.cli.process.kaldi_programs import what_instead

            raise ArgumentsError(*what_instead(args[0]))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for ``--help``, under the headings of the registry."""
        column = max(map(len, PERSON_NAMES)) + 2
        for title, group in GROUPS.items():
            names = [person_name(name) for name in group if PERSON_NAMES[person_name(name)] == name]
            with formatter.section(title):
                start = " " * formatter.current_indent
                for name in names:
                    first, *more = _lines(COMMANDS[PERSON_NAMES[name]].help, formatter.width - len(start) - column)
                    formatter.write(f"{start}{name:<{column}}{first}\n")
                    formatter.write("".join(f"{start}{'':<{column}}{line}\n" for line in more))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Return the commands whose names begin with ``incomplete``, for a shell; or the group's own options."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [CompletionItem(name, help=COMMANDS[PERSON_NAMES[name]].help)
                for name in self.list_commands(ctx) if name.startswith(incomplete)]


def _lines(text: str, width: int) -> list[str]:
    """Break a text into lines of at most ``width`` characters.

    click's function looks for colors in every word, which takes a third of the time of ``--help``.
    """
    lines = []
    while len(text) > width and (end := text.rfind(" ", 0, width + 1)) > 0:
        lines.append(text[:end])
        text = text[end + 1:]
    return [*lines, text]


def _show_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(version_text())
        ctx.exit()


@click.group("nnet3py", cls=KaldiGroup, invoke_without_command=True, context_settings={"max_content_width": 120})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version,
              help="Print the versions of nnet3py and of what it runs on.")
@click.pass_context
def nnet3py(ctx: click.Context) -> None:
    """Kaldi's nnet3 neural networks in Python, with Kaldi's file formats, options and log lines.

    "nnet3py NAME --help" explains a command; NAME is Kaldi's name without "nnet3-".
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def version_text() -> str:
    """Return the text of ``nnet3py --version``: lines on versions, processor, kernels, BLAS, threads and device."""
    import platform

    import llvmlite
    import numba
    import numpy
    import scipy

    import nnet3py
    from nnet3py.engine.cache_folder import cache_folder
    from nnet3py.engine.processor import processor
    from nnet3py.engine.shipped import usable_folder
    from nnet3py.engine.threads import num_threads
    from nnet3py.log import KALDI_VERSION

    made_for, shipped = processor(), usable_folder()
    return "\n".join([
        f"nnet3py {nnet3py.__version__} (behaves as Kaldi {KALDI_VERSION})",
        f"Python {platform.python_version()} on {platform.system()} {platform.machine()}",
        f"numba {numba.__version__}, llvmlite {llvmlite.__version__}",
        f"numpy {numpy.__version__}, scipy {scipy.__version__}",
        f"machine code: {made_for.kind} ({made_for.model})",
        f"kernels: {'of the package, ' + shipped.name if shipped else f'compiled here, in {cache_folder()}'}",
        f"BLAS: {_blas()}",
        f"threads: {num_threads()}",
        f"device: {_device()}",
    ])


def _blas() -> str:
    """Return the name and version of the BLAS library that scipy calls for matrix products."""
    import threadpoolctl

    from nnet3py.ops import get_ops

    get_ops("cpu")   # loads the BLAS library
    libraries = [library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]
    ours = [library for library in libraries if "scipy" in library["filepath"]] or libraries
    if not ours:
        return "unknown"
    return f"{ours[0]['internal_api']} {ours[0]['version']} ({ours[0].get('architecture', 'unknown')})"


def _device() -> str:
    from nnet3py.cli.process.option_groups import why_no_gpu

    reason = why_no_gpu()
    return "cpu and cuda" if reason is None else f"cpu ({reason})"
