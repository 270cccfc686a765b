"""Running commands, and what a command makes of its words."""
from __future__ import annotations

from collections.abc import Sequence

from nnet3py.cli.main import load
from nnet3py.cli.process.command import KaldiCommand
from nnet3py.cli.process.options import Option, Options


def run(name: str, *words: object, status: int = 0) -> None:
    """Run a command on these words; it must return this status."""
    assert load(name).execute([str(word) for word in words]) == status


def read(options: Sequence[Option], words: Sequence[str], detached_values: bool = False) -> tuple[list[str], Options]:
    """The arguments and the options that a command with these options is called with. Raises OptionError."""
    seen: list[tuple[list[str], Options]] = []
    command = KaldiCommand("test", lambda args, found: seen.append((args, found)), "", (0, None), options,
                           detached_values)
    with command.make_context("test", list(words)) as ctx:
        command.invoke(ctx)
    return seen[0]
