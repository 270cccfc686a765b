"""Commands that run whole trainings and preparations in stages, as Kaldi's steps/nnet3 scripts do, and reports.

``train.py``: train-dnn, train-chain and others; ``preparation.py``: i-vectors, trees, flat start, discriminative
training; ``report.py``: nnet3-monitor and nnet3-report. :func:`run_work` starts a driver of
nnet3py.drivers, whose options are dataclasses there; their declarations are imported with the command, the drivers
when it runs.
"""
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
    from importlib import import_module

    terminal = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
    getattr(import_module(f"nnet3py.drivers.{module}"), driver)(values, terminal=terminal)
    return 0
