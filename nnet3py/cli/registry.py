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
    """A command's module below ``nnet3py.cli``, such as ``nnet.copy``, and one line of help.

    A command without a ``launcher`` is for a person: ``nnet3py`` runs it, and nothing in ``bin/`` has its name.
    """

    module: str
    help: str
    launcher: bool = True


GROUPS: dict[str, dict[str, Entry]] = {heading: {name: Entry(*row) for name, row in rows.items()}
                                       for heading, rows in TABLE.items()}
COMMANDS: dict[str, Entry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}


def person_name(kaldi_name: str) -> str:
    """Return the name that a person types after ``nnet3py``: Kaldi's without ``nnet3-``."""
    return kaldi_name.removeprefix("nnet3-")


# Where two share it (nnet3-am-info and am-info), it is the nnet3 one's; the other keeps its name as a launcher.
PERSON_NAMES: dict[str, str] = {person_name(name): name
                                for name in sorted(COMMANDS, key=lambda name: name.startswith("nnet3-"))}
