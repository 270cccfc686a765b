"""Running a command in a copy of a process that has loaded what commands need, instead of in a new process."""
from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from nnet3py import log, system
from nnet3py.cli.process.run import FATAL, INTERRUPTED

_STANDARD = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_HELD = (signal.SIGINT, *system.ENDING_SIGNALS)


def fork(body: Callable[[], int], streams: Sequence[int | None]) -> int:
    """Copy this process, and let the copy run ``body`` and end with its status; returns the copy's number.

    All files that this process has open are closed in the copy. ``streams``: the copy's input, output and errors,
    None for this process's own. No other thread may be at work: what it holds would be held for ever. What ends a
    process waits until both are done with copying: an exception in the functions that Python calls around a fork is
    printed and lost.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        process = system.fork()
        if process == 0:
            _run_in_copy(body, streams, before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def ending_of(status: int) -> str:
    """Return words for the exit status of a copy: its status, or below 0 the signal that ended it."""
    return f"signal {-status}" if status < 0 else f"status {status}"


def _run_in_copy(body: Callable[[], int], streams: Sequence[int | None], held_before: set[int]) -> NoReturn:
    status = FATAL
    with suppress(BaseException):
        import atexit

        atexit._clear()                  # what the first process does at its end is not for its copies to do,
        gc.freeze()                      # nor what it would do with its objects, whose files are closed here
        for number, descriptor in enumerate(streams):
            if descriptor is not None:
                os.dup2(descriptor, number)
        system.close_files_from(len(_STANDARD))
        for number, (name, mode) in enumerate(_STANDARD):
            stream = getattr(sys, name) or getattr(sys, f"__{name}__")
            if stream is not None or streams[number] is not None:      # nothing of what was read or is still buffered
                stream = open(number, mode, encoding=getattr(stream, "encoding", None),        # noqa: SIM115
                              errors=getattr(stream, "errors", None), closefd=False)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        log.leave_status_to_others()
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, held_before)
            status = body()
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else FATAL
        except KeyboardInterrupt:
            status = INTERRUPTED
        atexit._run_exitfuncs()
        with suppress(OSError, AttributeError):
            sys.stdout.flush()
    os._exit(status)
