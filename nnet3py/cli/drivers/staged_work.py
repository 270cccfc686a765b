"""Start of the drivers that work in stages, and a part of the help of their commands."""
from __future__ import annotations

import sys
from typing import Any

from nnet3py.cli.process.options import Options, fields_from

RESUMES = """
Interrupted work goes on where it stopped when the command is given again; --stage=N begins at stage
N instead. Jobs are processes on this machine, which share its cores, unless --cmd or --scheduler say otherwise; each
has a log in log/ of the folder."""


def run_work(module: str, driver: str, declared: Any, options: Options) -> int:
    """Run the function ``driver`` of a module of :mod:`nnet3py.drivers` with the options of a command; return 0.

    ``declared`` is the dataclass of these options.
    """
    values = fields_from(options, declared())
    values.check()
    from importlib import import_module

    terminal = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
    getattr(import_module(f"nnet3py.drivers.{module}"), driver)(values, terminal=terminal)
    return 0
