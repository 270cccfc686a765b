"""Processes that share sounds: copies of one that has loaded the model, whose memory they share."""
from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py import log, system
from nnet3py.cli.process.forked import ending_of, fork

if TYPE_CHECKING:
    from nnet3py.recognition.batch import Runner, Work
    from nnet3py.recognition.sound import Listed
    from nnet3py.recognition.transcribing import Progress, Transcript

_TRIES = 2            # of a sound whose process was ended, as by a lack of memory


def can_copy() -> bool:
    """Return whether this process can be copied now: no thread but those of kernels is at work, no GPU is open."""
    if not system.CAN_FORK or "numba.cuda" in sys.modules:
        return False
    from nnet3py.engine.team import is_worker

    return all(thread is threading.current_thread() or is_worker(thread) for thread in threading.enumerate())


def in_processes(count: int, num_threads: int) -> Runner:
    """Return a runner of ``count`` copies of this process, each of which computes with ``num_threads`` threads.

    A copy that is ended, by whomever, is replaced, and its sound is tried once more. When this process ends, so do its
    copies, at the latest when they tell of their progress.
    """
    def run(work: Work, sounds: Iterable[Listed], progress: Progress) -> Iterator[tuple[Listed, Transcript]]:
        pool = _Pool(work, num_threads)
        try:
            yield from pool.run(count, iter(sounds), progress)
        finally:
            pool.end()

    return run


class _Task(NamedTuple):
    sound: Listed
    tries: int = 1


class _Copy:
    """A copy of this process, and what it works on."""

    def __init__(self, work: Work, num_threads: int) -> None:
        source, self._target = os.pipe()
        self.answers, target = os.pipe()
        try:
            self.process = fork(lambda: _serve(work, num_threads), (source, target, None))
        finally:
            os.close(source)
            os.close(target)
        self.task: _Task | None = None
        self._partial = b""

    def give(self, task: _Task | None) -> None:
        """Give the copy something to do; None: it may end."""
        self.task = task
        with suppress(BrokenPipeError):            # it was ended, as is noticed when its answers are read
            if task is None:
                os.close(self._target)
                self._target = -1
            else:
                os.write(self._target, json.dumps(task.sound).encode() + b"\n")

    def messages(self) -> list[dict[str, Any]] | None:
        """What the copy has said since; None once it has ended."""
        content = os.read(self.answers, 1 << 16)
        *lines, self._partial = (self._partial + content).split(b"\n")
        return [json.loads(line) for line in lines] if content else None

    def end(self) -> int:
        """Wait until the copy has ended; its exit status, below 0 for a signal."""
        if self._target >= 0:
            os.close(self._target)
        os.close(self.answers)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


class _Pool:
    """Copies that work on sounds."""

    def __init__(self, work: Work, num_threads: int) -> None:
        self._work, self._num_threads = work, num_threads
        self._selector = selectors.DefaultSelector()
        self._copies: list[_Copy] = []

    def run(self, count: int, sounds: Iterator[Listed],
            progress: Progress) -> Iterator[tuple[Listed, Transcript]]:
        """Yield transcripts as copies have made them; sounds are begun in their order."""
        from nnet3py.recognition.transcribing import Transcript

        for sound in sounds:
            self._begin(_Task(sound))
            if len(self._copies) == count:
                break
        while self._copies:
            for key, _ in self._selector.select():
                copy: _Copy = key.data
                task = copy.task
                messages = copy.messages()
                if messages is None:
                    yield from self._ended(copy)
                    continue
                for message in messages:
                    assert task is not None, "a copy speaks while it works"
                    if "seconds" in message:
                        progress(task.sound, message["seconds"], message["duration"])
                        continue
                    following = next(sounds, None)
                    copy.give(None if following is None else _Task(following))
                    yield task.sound, Transcript.of_data(message)

    def _begin(self, task: _Task) -> None:
        copy = _Copy(self._work, self._num_threads)
        self._copies.append(copy)
        self._selector.register(copy.answers, selectors.EVENT_READ, copy)
        copy.give(task)

    def _ended(self, copy: _Copy) -> Iterator[tuple[Listed, Transcript]]:
        from nnet3py.recognition.transcribing import Transcript

        self._copies.remove(copy)
        self._selector.unregister(copy.answers)
        status = copy.end()
        if copy.task is None:
            return
        sound, tries = copy.task
        how = ending_of(status)
        if tries < _TRIES:
            log.warning(f"The process that worked on {sound.path} ended with {how}; another one tries again")
            self._begin(_Task(sound, tries + 1))
            return
        yield sound, Transcript(sound.path, sound.name, error=f"the process that worked on it ended with {how}, twice")

    def end(self) -> None:
        """End all copies at once."""
        for copy in self._copies:
            with suppress(ProcessLookupError):
                os.kill(copy.process, signal.SIGTERM)
        for copy in self._copies:
            copy.end()
        self._copies.clear()
        self._selector.close()


def _serve(work: Work, num_threads: int) -> int:
    """Transcribe what standard input names, until it ends; what is said of it goes to standard output."""
    from nnet3py.engine.threads import set_num_threads
    from nnet3py.recognition.sound import Listed

    signal.signal(signal.SIGINT, signal.SIG_IGN)           # of a terminal: the first process decides what it means
    for number in system.ENDING_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    set_num_threads(num_threads)

    def say(message: dict[str, Any]) -> None:
        content = memoryview(json.dumps(message).encode() + b"\n")
        while content:
            content = content[os.write(1, content):]

    def tell(sound: Listed, seconds: float, duration: float) -> None:
        say({"seconds": seconds, "duration": duration})

    for line in sys.stdin.buffer:
        say(work(Listed(*json.loads(line)), tell).as_data())
    return 0
