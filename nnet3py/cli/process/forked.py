"""Running commands in forks of this process, whose modules are loaded already, instead of in new processes.

An rspecifier such as ``ark:nnet3-copy-egs … | nnet3-merge-egs … |``, whose programs are all of this package, is run by
forks (:func:`start_own_pipeline`). Otherwise a shell, and a launcher and a Python interpreter for each program, would
start, and each interpreter would import the same modules again: 0.2 s of processor time each, hundreds of times in a
training by Kaldi's scripts. A fork takes some milliseconds. Inputs, outputs, log lines and exit statuses are the same.
``NNET3PY_FORK=no`` in the environment leaves all pipes to the shell.
"""
from __future__ import annotations

import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from nnet3py import log, system
from nnet3py.cli.process.command import load
from nnet3py.cli.process.run import FATAL, INTERRUPTED, guarded
from nnet3py.cli.registry import COMMANDS

FORK_VARIABLE = "NNET3PY_FORK"           # any value but "yes" forbids forks for pipes
# Words and bars without characters that are special to a shell; inside quotes more are allowed.
_WORD = re.compile(r"""\s*(?:(\|)|((?:[\w@%+=:,./^-]|'[^']*'|"[^"$`\\]*")+))""", re.ASCII)
_QUOTED = re.compile("'([^']*)'|\"([^\"]*)\"")
_STANDARD = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_HELD = (signal.SIGINT, *system.ENDING_SIGNALS)


def fork(body: Callable[[], int], streams: Sequence[int | None]) -> int:
    """Copy this process, let the copy run ``body`` and exit with its status, and return the copy's process number.

    All files that this process has open are closed in the copy. No other thread may be running: a lock that it holds
    would stay locked in the copy. Signals that end a process are held back until the fork is done, since an exception
    in the functions that Python calls around a fork is printed and lost.

    Parameters
    ----------
    body : function that the copy runs; its result is the exit status
    streams : file descriptors of the copy's standard input, output and error; None for this process's own
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
    """Describe how a copy of the process ended, by its exit status; a negative status is a signal."""
    return f"signal {-status}" if status < 0 else f"status {status}"


def _run_in_copy(body: Callable[[], int], streams: Sequence[int | None], held_before: set[int]) -> NoReturn:
    status = FATAL
    with suppress(BaseException):
        import atexit

        atexit._clear()                  # only the first process runs exit functions,
        gc.freeze()                      # and finalizers of its objects, whose files are closed here
        for number, descriptor in enumerate(streams):
            if descriptor is not None:
                os.dup2(descriptor, number)
        system.close_files_from(len(_STANDARD))
        for number, (name, mode) in enumerate(_STANDARD):
            stream = getattr(sys, name) or getattr(sys, f"__{name}__")
            if stream is not None or streams[number] is not None:      # a new object, without buffered data
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


def stages(command: str) -> list[list[str]] | None:
    """Split a shell's pipeline into programs, each a list of words; None if it has more than plain words and quotes."""
    programs: list[list[str]] = [[]]
    at, text = 0, command.rstrip()
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None:
            return None
        at = match.end()
        if match[1]:
            programs.append([])
        else:
            programs[-1].append(_QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", match[2]))
    return programs if all(programs) else None


def start_own_pipeline(command: str, reads: bool) -> ForkedPipeline | None:
    """Start a pipeline whose programs are all of this package as forks; None if a shell has to start it.

    Parameters
    ----------
    command : a shell's command line
    reads : True if this process reads the output of the last program, False if it writes the input of the first
    """
    if not _may_fork():
        return None
    programs = stages(command)
    if programs is None or not all(_is_ours(words[0]) for words in programs):
        return None
    try:
        return ForkedPipeline(programs, reads)
    except OSError:             # no memory or process number for another copy of a large process
        return None


def _may_fork() -> bool:
    """Return whether a fork is allowed and safe: no threads but idle workers that run kernels, and no GPU in use."""
    if not system.CAN_FORK or os.environ.get(FORK_VARIABLE, "yes") != "yes" or "numba.cuda" in sys.modules:
        return False
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    if others:
        from nnet3py.engine.team import is_worker

        return all(map(is_worker, others))
    return True


def _is_ours(name: str) -> bool:
    """Return whether a shell would run a launcher of this package for this program name."""
    if name not in COMMANDS:
        return False
    from shutil import which

    from nnet3py.drivers.executor import CHECKOUT_FOLDER, INSTALLED_FOLDER

    path = which(name)
    return path is not None and os.path.dirname(os.path.realpath(path)) in map(str, (CHECKOUT_FOLDER, INSTALLED_FOLDER))


class ForkedPipeline:
    """Forks of this process that run commands, connected by pipes.

    Attributes
    ----------
    stdin : unbuffered file, the input of the first command; None for a pipeline that is read
    stdout : unbuffered file, the output of the last command; None for a pipeline that is written
    """

    def __init__(self, programs: Sequence[Sequence[str]], reads: bool) -> None:
        self.stdin: Any = None
        self.stdout: Any = None
        self._processes: list[int] = []
        self._status: int | None = None
        open_ends: list[int] = []          # file descriptors of pipes that this process has open

        def pipe() -> tuple[int, int]:
            ends = os.pipe()
            open_ends.extend(ends)
            return ends

        def close(*ends: int | None) -> None:
            for end in ends:
                if end is not None:
                    open_ends.remove(end)
                    os.close(end)

        try:
            source, ours = (None, None) if reads else pipe()
            for number, words in enumerate(programs):
                behind, target = (None, None) if number + 1 == len(programs) and not reads else pipe()
                self._processes.append(_start(words, source, target))
                close(source, target)
                source = behind
        except OSError:
            close(*list(open_ends))        # ends the commands that were started
            self.wait()
            raise
        if ours is not None:
            self.stdin = open(ours, "wb", buffering=0)          # noqa: SIM115 - who started the pipeline closes it
        if source is not None:
            self.stdout = open(source, "rb", buffering=0)       # noqa: SIM115

    def wait(self) -> int:
        """Wait for all commands; return the exit status of the last one, as a shell does (128 + signal)."""
        if self._status is None:
            status = 0
            for process in self._processes:
                status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            self._status = 128 - status if status < 0 else status
        return self._status


def _start(words: Sequence[str], source: int | None, target: int | None) -> int:
    """Run a command in a fork with these standard streams (None: this process's); return its process number."""
    def body() -> int:
        log.set_program(words[0])
        return guarded(lambda: load(words[0]).execute(words[1:]))

    return fork(body, (source, target, None))
