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

_BLAS_TIMEOUT = "20"            # 2 to this power processor cycles, half a millisecond
GARBAGE_THRESHOLD = 300_000     # objects; numba alone makes 200,000; Python's default is 700 to 2,000


def collect_rarely() -> None:
    """Let Python's garbage collector run rarely, and not at exit.

    It takes a tenth of a short command's time while modules are imported, and up to 0.06 s at exit, although the system
    frees the memory of the process anyway.
    """
    gc.set_threshold(GARBAGE_THRESHOLD, 20, 20)
    atexit.unregister(gc.freeze)      # a process may call several commands
    atexit.register(gc.freeze)


def shorten_blas_spinning() -> None:
    """Let the threads that numpy's OpenBLAS starts at import stop spinning after half a millisecond without work.

    By default they spin for a tenth of a second, on cores that other processes need; that is a third of a short
    command's time. Half a millisecond is enough for products that follow each other. A value set by the user stays.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _BLAS_TIMEOUT)


def _start_pipe(command: str, reads: bool) -> Any:
    from nnet3py.cli.process.forked import start_own_pipeline  # few commands are given pipes

    return start_own_pipeline(command, reads)


def _prepare(program: str) -> None:
    """Set up this process for the command ``program``: garbage collection, BLAS threads, pipes, and the log's name."""
    collect_rarely()
    shorten_blas_spinning()
    system.pipe_starter = _start_pipe
    log.set_program(program)


def run(name: str, args: Sequence[str] | None = None) -> NoReturn:
    """Run the command with Kaldi's name ``name`` on ``args`` (default: the process's) and exit."""
    _prepare(name)
    words = sys.argv[1:] if args is None else args
    run_process(lambda: load(name).execute(words))   # a module that cannot be imported becomes an ERROR line, too


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command ``nnet3py`` on ``args`` (default: the process's) and exit."""
    _prepare("nnet3py")
    words = list(sys.argv[1:] if args is None else args)

    def body() -> int:
        from nnet3py.cli.process.group import nnet3py

        return nnet3py.main(words, standalone_mode=False)

    run_process(body)


def launch(name: str) -> NoReturn:
    """Run the launcher ``name``, a command of Kaldi's name or ``nnet3py``, on the process's arguments, and exit."""
    if name == "nnet3py":
        main()
    run(name)


def run_person_name() -> NoReturn:
    """Run ``nnet3py <name>`` for a program that was started as ``nnet3py-<name>``, and exit."""
    name = os.path.basename(sys.argv[0]).removeprefix("nnet3py-")
    main([name.removesuffix(".exe"), *sys.argv[1:]])
