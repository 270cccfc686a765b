"""Every command: Kaldi's name, the module that declares it, and one line of help, without importing that module.

Help, shell completion, ``bin/`` and the entry points of the package are made from these tables, so none of them
imports a command. ``make launchers`` writes ``registry_table.py``, from which they are filled, by reading the
declarations (``@kaldi_command``) in the sources. A person's name for a command is Kaldi's without ``nnet3-``.
``nnet3-inspect``, ``nnet3-extras``, ``nnet3-transcribe``, ``nnet3-compile``, ``nnet3-export``, ``nnet3-import`` and
``nnet3-build-tree`` are ours: Kaldi has no such programs.
"""
from __future__ import annotations

from typing import NamedTuple

from nnet3py.cli.registry_table import TABLE


class Entry(NamedTuple):
    """Command in the table."""

    module: str          # below nnet3py.cli, such as "nnet.networks"
    help: str            # one line for lists of commands
    launcher: bool       # whether bin/ has a program of its name; else only nnet3py NAME runs the command


GROUPS: dict[str, dict[str, Entry]] = {heading: {name: Entry(*row) for name, row in rows.items()}
                                       for heading, rows in TABLE.items()}
COMMANDS: dict[str, Entry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}


def person_name(kaldi_name: str) -> str:
    """Return the name that a person types after ``nnet3py``: Kaldi's without ``nnet3-``."""
    return kaldi_name.removeprefix("nnet3-")


# If two commands have one name (nnet3-am-info and am-info), it stands for the nnet3 command; the other has a launcher.
PERSON_NAMES: dict[str, str] = {person_name(name): name
                                for name in sorted(COMMANDS, key=lambda name: name.startswith("nnet3-"))}
