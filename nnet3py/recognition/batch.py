"""Transcribing many files of sound, one after the other or in threads; the JSON lines file of their results."""
from __future__ import annotations

import json
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nnet3py import system
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.recognition.sound import Listed
from nnet3py.recognition.transcribing import Progress, Transcript, forget_kept
from nnet3py.recognition.transcripts import as_json

logger = logging.getLogger(__name__)

Work = Callable[[Listed, Progress], Transcript]
"""``work(sound, progress)`` transcribes a sound; errors are in the transcript."""
Runner = Callable[[Work, Iterable[Listed], Progress], Iterator[tuple[Listed, Transcript]]]
"""``runner(work, sounds, progress)`` yields transcripts as they are done; sounds begin in their order."""


def here(work: Work, sounds: Iterable[Listed], progress: Progress) -> Iterator[tuple[Listed, Transcript]]:
    """Transcribe one sound after the other in this thread, and yield the transcripts. A :data:`Runner`."""
    for sound in sounds:
        yield sound, work(sound, progress)


def in_threads(count: int) -> Runner:
    """Return a runner that transcribes ``count`` sounds at a time, in threads of this process."""
    def run(work: Work, sounds: Iterable[Listed], progress: Progress) -> Iterator[tuple[Listed, Transcript]]:
        waiting = iter(sounds)
        is_over = threading.Event()
        messages: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        tasks: queue.SimpleQueue[Listed | None] = queue.SimpleQueue()

        def tell(sound: Listed, seconds: float, duration: float) -> None:
            if is_over.is_set():
                raise Nnet3Error("the caller wants no more transcripts")
            messages.put((sound, seconds, duration))

        def serve() -> None:
            while (sound := tasks.get()) is not None:
                messages.put((sound, work(sound, tell)))

        for _ in range(count):
            threading.Thread(target=serve, name="nnet3py-transcribe", daemon=True).start()
        num_running = 0
        try:
            for _ in range(count):
                num_running += _give(waiting, tasks)
            while num_running:
                sound, *rest = messages.get()
                if len(rest) > 1:
                    progress(sound, *rest)
                    continue
                num_running += _give(waiting, tasks) - 1
                yield sound, rest[0]
        finally:
            is_over.set()
            for _ in range(count):
                tasks.put(None)

    return run


def _give(waiting: Iterator[Listed], tasks: queue.SimpleQueue[Listed | None]) -> int:
    sound = next(waiting, None)
    if sound is not None:
        tasks.put(sound)
    return int(sound is not None)


def in_order(sounds: Sequence[Listed],
             done: Iterable[tuple[Listed, Transcript]]) -> Iterator[tuple[Listed, Transcript]]:
    """Yield the transcripts of ``done``, which come in any order, in the order of ``sounds``.

    If ``done`` raises KeyboardInterrupt, all transcripts so far are yielded before it is raised again.
    """
    places = {sound: place for place, sound in enumerate(sounds)}
    held: dict[int, tuple[Listed, Transcript]] = {}
    due = 0
    try:
        for sound, transcript in done:
            held[places[sound]] = sound, transcript
            while due in held:
                yield held.pop(due)
                due += 1
    except KeyboardInterrupt:
        yield from (held[place] for place in sorted(held))
        raise


class ResultsFile:
    """A file of JSON lines, to which each transcript is appended when it is done; ``with`` closes the file.

    The file is locked: only one process at a time can open it. An incomplete last line, left by a process that was
    killed while writing, is removed, and its sound is transcribed again.

    ``path``: the file, which is made if it does not exist. ``model``: name of the model.

    Attributes
    ----------
    kept : folder beside the file for the saved states of long sounds

    Raises Nnet3Error if another process is writing the file; FormatError if the file has lines that are not
    transcripts.
    """

    def __init__(self, path: str, model: str) -> None:
        self.path, self.model, self.kept = path, model, path + ".kept"
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "a+b", buffering=0)              # noqa: SIM115 - closed by close()
        if not system.lock_open_file(self._file.fileno()):
            self._file.close()
            raise Nnet3Error(f"another process is writing results into {path}", "wait for it, or name another file")
        try:
            self._done = self._read()
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> set[str]:
        """Return the paths of the sounds that have a line made with this model; remove an incomplete last line."""
        self._file.seek(0)
        content = self._file.read()
        whole = content.rpartition(b"\n")[0] + b"\n" if b"\n" in content else b""
        done = set()
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                values = json.loads(line)
                if values["model"] == self.model:
                    done.add(os.path.abspath(values["file"]))
            except (ValueError, KeyError, TypeError):
                raise FormatError(f"expected lines of JSON with file and model, found {line[:40]!r} in line {number}",
                                  path=self.path) from None
        if len(whole) < len(content):
            if content[len(whole):len(whole) + 1] != b"{":
                raise FormatError(f"expected lines of JSON, found {content[len(whole):][:40]!r} at the end",
                                  path=self.path)
            logger.info("The last line of %s is incomplete and is removed", self.path)
            self._file.truncate(len(whole))
        return done

    def waiting(self, sounds: Sequence[Listed]) -> list[Listed]:
        """Return those of ``sounds`` that have no line in the file yet."""
        return [sound for sound in sounds if os.path.abspath(sound.path) not in self._done]

    def add(self, listed: Listed, transcript: Transcript) -> None:
        """Append the transcript of a sound, and remove the sound's saved state. Raises OSError if the disk is full."""
        line = as_json(listed.name, transcript).encode("utf-8", "surrogateescape")
        view = memoryview(line)
        while view:
            view = view[self._file.write(view):]
        self._done.add(os.path.abspath(listed.path))
        forget_kept(self.kept, listed)

    def close(self) -> None:
        """Close the file, so that other processes can open it."""
        self._file.close()

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
