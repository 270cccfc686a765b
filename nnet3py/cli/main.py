"""The entry points: ``nnet3py <name>`` for a person, and :func:`run` for a launcher with Kaldi's name.

A command's module is imported when that command runs.
"""
from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from nnet3py import log, system
from nnet3py.cli.process.command import load
from nnet3py.cli.process.run import run_process

__all__ = ["collect_rarely", "launch", "load", "main", "run", "run_person_name"]

_BLAS_PATIENCE = "20"           # 2 to this power cycles
GARBAGE_THRESHOLD = 300_000     # objects; numba alone makes 200,000, and Python's own is 700 to 2,000


def collect_rarely() -> None:
    """Let Python look for circular garbage rarely, and not when it ends.

    While modules load, that is a tenth of a short command's time; at the end it takes up to 0.06 s, although
    everything goes with the process.
    """
    gc.set_threshold(GARBAGE_THRESHOLD, 20, 20)
    atexit.unregister(gc.freeze)      # once is enough where a process calls several commands
    atexit.register(gc.freeze)


def let_blas_sleep() -> None:
    """Let the threads of numpy's BLAS, which it starts when it is imported, wait for work asleep.

    By default they spin for a tenth of a second, on a core that the next process needs; that is a third of a short
    command's time. Half a millisecond is left, for products that follow each other. A value of the user's own stays.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _BLAS_PATIENCE)


def _start_pipe(command: str, reads: bool) -> Any:
    from nnet3py.cli.process.forked import start_own_pipeline  # few commands get pipes

    return start_own_pipeline(command, reads)


def _prepare(program: str) -> None:
    """Make this process one that runs a command."""
    collect_rarely()
    let_blas_sleep()
    system.pipe_starter = _start_pipe
    log.set_program(program)


def run(name: str, args: Sequence[str] | None = None) -> NoReturn:
    """Run the command of Kaldi's name ``name`` on ``args`` (default: the process's) and exit."""
    _prepare(name)
    words = sys.argv[1:] if args is None else args
    run_process(lambda: load(name).execute(words))   # a module that cannot be imported becomes an ERROR line, too


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The ``nnet3py`` command."""
    _prepare("nnet3py")
    words = list(sys.argv[1:] if args is None else args)

    def body() -> int:
        from nnet3py.cli.process.group import nnet3py

        return nnet3py.main(words, standalone_mode=False)

    run_process(body)


def launch(name: str) -> NoReturn:
    """Run the launcher ``name`` on the process's arguments, and exit: a program of Kaldi's name, or ``nnet3py``."""
    if name == "nnet3py":
        main()
    run(name)


def run_person_name() -> NoReturn:
    """The ``nnet3py-<name>`` commands, for ``nnet3py <name>``: the name is what the process was started as."""
    name = os.path.basename(sys.argv[0]).removeprefix("nnet3py-")
    main([name.removesuffix(".exe"), *sys.argv[1:]])
