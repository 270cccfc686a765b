"""Steps of a job that may be killed at any moment and started again: what is complete is not done twice.

A step leaves a mark, an empty file, when it is complete. A job's command makes its mark itself, right after its output
was renamed to its final name; so work is never done twice, nor taken for done when it is not.
"""
from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from nnet3py.drivers.jobs.executor import Executor, Job
from nnet3py.errors import UsageError
from nnet3py.io.streams import write_text

logger = logging.getLogger(__name__)

_SETTINGS = "settings.json"


class Steps:
    """The marks of a folder in which something is made in steps.

    Parameters
    ----------
    folder : where it is made; marks are in ``.steps`` in it
    settings : all that the result depends on; if the folder was begun with others, everything is made again
    stage : steps of a lower number count as complete, as ``--stage`` of Kaldi's scripts has it
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], stage: int = 0) -> None:
        self.folder, self.stage = folder, stage
        self._marks = folder / ".steps"
        text = json.dumps(dict(settings), sort_keys=True, indent=1) + "\n"
        before = self._marks / _SETTINGS
        if self._marks.is_dir() and (not before.is_file() or before.read_text(encoding="utf-8") != text):
            if before.is_file():
                logger.info("%s was begun with other settings or data; it is made again", folder)
            self.clear()
        if not self._marks.is_dir():
            self._marks.mkdir(parents=True)
            write_text(str(before), text)

    def is_done(self, name: str) -> bool:
        """Whether step ``name`` is complete."""
        return (self._marks / name).exists()

    def mark(self, name: str) -> None:
        """Say that step ``name`` is complete."""
        (self._marks / name).touch()

    def clear(self) -> None:
        """Take nothing as complete any more."""
        shutil.rmtree(self._marks, ignore_errors=True)

    def call(self, number: int, name: str, function: Callable[[], None]) -> None:
        """Do a step in this process, unless it is complete."""
        if number >= self.stage and not self.is_done(name):
            function()
            self.mark(name)

    def run(self, number: int, title: str, jobs: Iterable[tuple[str, Job]], executor: Executor) -> None:
        """Run those jobs of a step, each with its name, that are not complete."""
        if number < self.stage:
            return
        left = [Job(f"{job.command} && touch {self._marks}/{name}", job.log) for name, job in jobs
                if not self.is_done(name)]
        if left:
            logger.info("%s", title)
            executor.run(left)


def check_plain(what: str, path: str | Path) -> None:
    """UsageError if a path has characters with a meaning for the shell, since it stands in commands."""
    if set(str(path)) & set(" \t\n'\"\\$`|&;<>()*?[]{}!#"):
        raise UsageError(f"{what} {path} has a character with a meaning for the shell, and stands in commands",
                         "rename it, or use a link with a plain name")
