"""Work in a folder that is done in stages by jobs, and resumed after any interruption.

:class:`StagedWork` is the base of the drivers other than network training; a subclass lists its steps.
"""
from __future__ import annotations

import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, ClassVar, NamedTuple

from nnet3py.drivers.egs.make_egs import fingerprint
from nnet3py.drivers.folder import FolderLock, TrainingFolder, differences
from nnet3py.drivers.jobs.executor import Executor, Job
from nnet3py.drivers.jobs.executors import make_executor
from nnet3py.drivers.staged_options import WorkOptions
from nnet3py.errors import UsageError

logger = logging.getLogger(__name__)

MARKS = ".steps"
_CLEAR_LINE = "\r\x1b[K"


class Step(NamedTuple):
    """Step of staged work: jobs that run at the same time, then a function in this process.

    Attributes
    ----------
    stage : number for ``--stage``
    name : name of the mark
    title : text for log and terminal
    jobs : jobs, whose logs have different names
    action : function that is called after the jobs
    needs : files that must exist before
    leaves : files that are not needed afterwards, and are removed
    result : function that returns a result to show, "" for none
    """

    stage: int
    name: str
    title: str
    jobs: Sequence[Job] = ()
    action: Callable[[], None] | None = None
    needs: Sequence[Path] = ()
    leaves: Sequence[Path] = ()
    result: Callable[[], str] | None = None


class StagedWork(ABC):
    """Base of work in ``options.dir``. :meth:`run` continues where the folder stands.

    Each job touches its mark, a file in ``.steps``, once what it wrote is complete. If a folder was begun with other
    options or data, nothing is done unless the user says by ``--stage`` where to begin.

    Parameters
    ----------
    options : of the driver
    executor : executor of the jobs, which the caller closes; None: the one that the options ask for
    terminal : stream to rewrite lines on; None: a log line for each step
    """

    models: ClassVar[str] = "mdl"

    def __init__(self, options: WorkOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
        options.check()
        self.options, self.terminal, self._given_executor = options, terminal, executor
        self.path = Path(options.dir)
        self.folder = TrainingFolder(options.dir, self.models)
        self.executor: Executor

    # -- what a kind of work says --------------------------------------------------------------------------------------

    @abstractmethod
    def begin(self) -> None:
        """Look at the inputs; Nnet3Error if they cannot be used."""

    @abstractmethod
    def inputs(self) -> Iterable[Path]:
        """Files on which the result depends."""

    @abstractmethod
    def steps(self) -> Sequence[Step]:
        """Return all steps in their order, the same whenever they are asked for."""

    @property
    @abstractmethod
    def product(self) -> Path:
        """File that exists when the work is complete."""

    # -- the work ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Do what is not done yet. Raises Nnet3Error if that is not possible; what is complete by then is kept."""
        self.begin()
        (self.path / "log").mkdir(parents=True, exist_ok=True)
        with FolderLock(self.path):
            self.folder.remove_temporary()
            self._decide_where_to_begin()
            executor = self._given_executor or make_executor(self.options.cmd or "run.pl", self.options.scheduler,
                                                             cores=self.options.num_threads or None)
            self.executor = executor
            try:
                self._run_steps()
            finally:
                if self._given_executor is None:
                    executor.close()

    def job(self, command: str, log: str) -> Job:
        """Return a job with a log of that name."""
        return Job(command, self.folder.log(log))

    def log_value(self, log: str, pattern: str) -> str:
        """Return the last match of a pattern's group in a log; "" if there is none."""
        try:
            text = self.folder.log(log).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        matches = re.findall(pattern, text)
        return str(matches[-1]) if matches else ""

    def _run_steps(self) -> None:
        steps, ran = self.steps(), False
        for number, step in enumerate(steps, 1):
            if self.options.exit_stage is not None and step.stage >= self.options.exit_stage:
                logger.info("Exiting early due to --exit-stage=%d", self.options.exit_stage)
                return
            if not self._is_done(step.stage, step.name):
                ran = True
                self._do(step, f"[{number}/{len(steps)}] {step.title}")
            if self.options.cleanup:
                for path in step.leaves:
                    path.unlink(missing_ok=True)
        logger.info("%s %s", self.product, "is complete" if ran else "is there already")

    def _do(self, step: Step, title: str) -> None:
        for path in step.needs:
            if not path.exists():
                raise UsageError(f"stage {step.stage} needs {path}, which is not there",
                                 "begin with an earlier --stage; it may have been removed as not needed any more")
        begun = time.monotonic()
        if self.terminal is None:
            logger.info("%s", title)
        else:
            self.terminal.write(f"{_CLEAR_LINE}{title}   …")
            self.terminal.flush()
        left = [Job(f"{job.command} && touch {self._mark(step.stage, job.log.stem)}", job.log, job.cmd_options)
                for job in step.jobs if not self._is_done(step.stage, job.log.stem)]
        if left:
            self.executor.run(left)
        if step.action is not None:
            step.action()
        self._mark(step.stage, step.name).touch()
        products = step.result() if step.result is not None else ""
        if self.terminal is not None:
            words = "   ".join(filter(None, [title, products, f"{time.monotonic() - begun:.1f} s"]))
            self.terminal.write(f"{_CLEAR_LINE}{words}\n")
            self.terminal.flush()
        elif products:
            logger.info("%s: %s", title, products)

    # -- marks ---------------------------------------------------------------------------------------------------------

    def _mark(self, stage: int, name: str) -> Path:
        return self.path / MARKS / f"{stage}.{name}"

    def _is_done(self, stage: int, name: str) -> bool:
        return self._mark(stage, name).exists()

    def _decide_where_to_begin(self) -> None:
        now = {**self.options.binding(), **fingerprints(self.inputs())}
        recorded, start = self.folder.recorded(), self.options.stage
        marks = self.path / MARKS
        changed = differences(recorded, now) if recorded is not None else []
        complete = list(marks.iterdir()) if marks.is_dir() and recorded is not None else []
        if changed and complete and start is None:
            raise UsageError(f"{self.path} was begun with other options or data: {'; '.join(changed)}",
                             f"use another --dir, or --stage={min(step.stage for step in self.steps())} to do all "
                             "again, or --stage=N to go on from stage N with the options as they are now")
        if changed and complete:
            logger.warning("from stage %s on, other options or data than before are used: %s", start,
                           "; ".join(changed))
        if complete and start is None and not self.product.exists() and self._is_done(
                self.steps()[-1].stage, self.steps()[-1].name):
            logger.info("%s is not there any more; all is done again", self.product)
            start = min(step.stage for step in self.steps())
        marks.mkdir(exist_ok=True)
        for mark in marks.iterdir():
            if recorded is None or (start is not None and int(mark.name.split(".")[0]) >= start):
                mark.unlink()
        self.folder.record(now)


def fingerprints(paths: Iterable[Path]) -> Mapping[str, str]:
    """Return fingerprints of files by name, which change when the files do."""
    return {str(path): fingerprint(path) for path in paths}
