"""Pipes that name only our own commands are run by copies of this process.

``ark:nnet3-copy-egs … | nnet3-merge-egs … |`` would start a shell, a launcher and a Python for each program, and each
Python would load what this process has loaded already: 0.2 s of processor time each, hundreds of times in a training by
Kaldi's scripts. A fork takes some milliseconds. What a command reads, writes and logs, and the status it ends
with, are the same. ``NNET3PY_FORK=no`` in the environment leaves everything to the shell.
"""
from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Sequence
from typing import Any

from nnet3py import log, system
from nnet3py.cli.process.command import load
from nnet3py.cli.process.forked import fork
from nnet3py.cli.process.run import guarded
from nnet3py.cli.registry import COMMANDS

FORK_VARIABLE = "NNET3PY_FORK"           # any value but "yes" forbids it
# Words and bars in which a shell would see nothing special; quotes may hold more.
_WORD = re.compile(r"""\s*(?:(\|)|((?:[\w@%+=:,./^-]|'[^']*'|"[^"$`\\]*")+))""", re.ASCII)
_QUOTED = re.compile("'([^']*)'|\"([^\"]*)\"")


def stages(command: str) -> list[list[str]] | None:
    """The words of each program of a shell's pipeline; None if it is more than programs, plain words and quotes."""
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
    """Start what a pipe names, if it is all ours and this process can be copied now; None: let a shell do it.

    Parameters
    ----------
    command : a shell's command line
    reads : whether this process reads what the last program writes; else it writes what the first one reads
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
    """Whether no thread but the team's works beside this one, and no GPU is open, which copies could not use."""
    if not system.CAN_FORK or os.environ.get(FORK_VARIABLE, "yes") != "yes" or "numba.cuda" in sys.modules:
        return False
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    if others:
        from nnet3py.engine.team import is_worker

        return all(map(is_worker, others))
    return True


def _is_ours(name: str) -> bool:
    """Whether the shell would start the launcher of this package for this name."""
    if name not in COMMANDS:
        return False
    from shutil import which

    from nnet3py.drivers.executor import CHECKOUT_FOLDER, INSTALLED_FOLDER

    path = which(name)
    return path is not None and os.path.dirname(os.path.realpath(path)) in map(str, (CHECKOUT_FOLDER, INSTALLED_FOLDER))


class ForkedPipeline:
    """Copies of this process that run commands, each reading what the one before writes.

    ``stdout`` is what the last one writes, or ``stdin`` what the first one reads, as a pipe's unbuffered file.
    """

    def __init__(self, programs: Sequence[Sequence[str]], reads: bool) -> None:
        self.stdin: Any = None
        self.stdout: Any = None
        self._processes: list[int] = []
        self._status: int | None = None
        open_ends: list[int] = []          # of pipes, in this process

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
            close(*list(open_ends))        # which ends those that were started
            self.wait()
            raise
        if ours is not None:
            self.stdin = open(ours, "wb", buffering=0)          # noqa: SIM115 - who started the pipeline closes it
        if source is not None:
            self.stdout = open(source, "rb", buffering=0)       # noqa: SIM115

    def wait(self) -> int:
        """Wait for all of them; the exit status of the last one, as a shell says it."""
        if self._status is None:
            status = 0
            for process in self._processes:
                status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            self._status = 128 - status if status < 0 else status
        return self._status


def _start(words: Sequence[str], source: int | None, target: int | None) -> int:
    """Run a command in a copy of this process, with these standard streams; its process number."""
    def body() -> int:
        log.set_program(words[0])
        return guarded(lambda: load(words[0]).execute(words[1:]))

    return fork(body, (source, target, None))
