"""Folder of a training: models, lock, recorded options; and work in a folder in stages, resumed after interruptions.

:class:`StagedWork` is the base of the drivers other than network training; a subclass lists its steps.
"""
from __future__ import annotations

import json
import logging
import os
import re
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, NamedTuple

from nnet3py import system
from nnet3py.drivers.executor import Executor, Job
from nnet3py.drivers.executors import make_executor
from nnet3py.drivers.staged_options import WorkOptions
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.io import temporary_files
from nnet3py.io.streams import write_text
from nnet3py.report.training_logs import LOCK, RECORD

logger = logging.getLogger(__name__)

MARKS = ".steps"
_RECORD_HINT = "remove the file, and say by --stage=N where to continue"
_LARGE_FILE = 16 << 20                                 # bytes; larger files are not read for their fingerprint
_CLEAR_LINE = "\r\x1b[K"


class FolderInUse(Nnet3Error):
    """Error: another driver is training in the folder."""


class FolderLock:
    """Lock on a folder against other drivers; a context manager.

    The operating system releases the lock when its holder ends, even if it is killed. Raises FolderInUse.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
        self._stream: IO[str] | None = None

    def __enter__(self) -> FolderLock:
        stream = open(self.path, "a+", encoding="utf-8")
        if not system.lock_open_file(stream.fileno()):
            stream.seek(0)
            holder = stream.read().strip() or "an unknown process"
            stream.close()
            raise FolderInUse(f"{self.path.parent} is being trained in already, by {holder}",
                              "wait for it, or end it; a training is resumed where it ended")
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {system.host_name()}\n")
        stream.flush()
        self._stream = stream
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        assert self._stream is not None
        self._stream.truncate(0)
        self._stream.close()


class TrainingFolder:
    """Folder of a training: paths of its models, logs and configs, and its record of options.

    ``path``: the folder as the user named it, relative or absolute, as commands name it, too. ``suffix``: file suffix
    of models, ``raw`` or ``mdl``.
    """

    def __init__(self, path: str, suffix: str) -> None:
        self.path, self.suffix = Path(path), suffix

    def model(self, which: int | str) -> Path:
        """Return the path of model ``which``: a number, ``combined`` or ``final``."""
        return self.path / f"{which}.{self.suffix}"

    def log(self, name: str) -> Path:
        """Return the path of the log ``name``; ``.log`` is appended."""
        return self.path / "log" / f"{name}.log"

    @property
    def configs(self) -> Path:
        """Path of the folder that xconfig-to-configs wrote."""
        return self.path / "configs"

    def has_model(self, which: int | str) -> bool:
        """Return whether a model exists and is not empty; it is then complete, as programs rename finished files."""
        try:
            return self.model(which).stat().st_size > 0
        except OSError:
            return False

    def last_model(self) -> int:
        """Return the number of the last complete model; -1 if there is none."""
        names = (re.fullmatch(rf"([0-9]+)\.{self.suffix}", file.name) for file in self.path.iterdir())
        return max((int(name_match[1]) for name_match in names if name_match and self.has_model(int(name_match[1]))),
                   default=-1)

    def remove_job_models(self, iteration: int) -> None:
        """Remove the networks that the jobs of an iteration wrote, after their average was made."""
        for file in self.path.glob(f"{iteration + 1}.*.raw"):
            if re.fullmatch(rf"{iteration + 1}\.([0-9]+|best)\.raw", file.name):
                file.unlink(missing_ok=True)
        (self.path / f"cache.{iteration}").unlink(missing_ok=True)

    def remove_temporary(self) -> None:
        """Remove temporary files of programs that were killed."""
        for file in self.path.iterdir():
            if temporary_files.NAME.fullmatch(file.name):
                file.unlink(missing_ok=True)

    # -- options -------------------------------------------------------------------------------------------------------

    def record(self, values: Mapping[str, Any]) -> None:
        """Write the record of options on which the models depend, a JSON file."""
        write_text(str(self.path / RECORD), json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False) + "\n")

    def recorded(self) -> dict[str, Any] | None:
        """Read the record of options; None if there is none, FormatError for an invalid file."""
        try:
            text = (self.path / RECORD).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"cannot be read: {error}", path=str(self.path / RECORD)) from error
        try:
            options = json.loads(text)
        except ValueError as error:
            raise FormatError(f"expected the recorded options of an earlier run, as JSON: {error}",
                              path=str(self.path / RECORD), hint=_RECORD_HINT) from error
        if not isinstance(options, dict):
            raise FormatError("expected the recorded options of an earlier run, a JSON object, found a "
                              f"{type(options).__name__}", path=str(self.path / RECORD), hint=_RECORD_HINT)
        return options


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a text for each option that is in both records, but with different values."""
    after = json.loads(json.dumps(dict(now)))       # tuples become lists, as in the record
    return [f"{name} was {_shown(before[name])} and is {_shown(after[name])}"
            for name in sorted(before) if name in after and before[name] != after[name]]


def _shown(value: Any) -> str:
    return "unset" if value is None or value == [] else " ".join(value) if isinstance(value, list) else str(value)


def read_vars(folder: TrainingFolder) -> dict[str, str]:
    """Read ``configs/vars``, lines of ``name=value``; names of contexts without ``model_`` (older) get this prefix.

    Raises UsageError if there are no configs, FormatError if the file is malformed.
    """
    path = folder.configs / "vars"
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", f"make the network's configs first: xconfig-to-configs "
                                                   f"--xconfig-file=… --config-dir={folder.configs}") from None
    values = {}
    for line in lines:
        name, equals, value = line.strip().partition("=")
        if line.strip():
            if not equals:
                raise FormatError(f"expected name=value, found {line!r}", path=str(path))
            values[name if name.startswith("model_") or "context" not in name else f"model_{name}"] = value
    if int(values.get("num_hidden_layers", "1") or 1) > 1:
        raise FormatError(f"num_hidden_layers={values['num_hidden_layers']}, expected 1: networks that grow layer by "
                          "layer while they are trained are not supported", path=str(path),
                          hint="make the configs with xconfig-to-configs")
    return values


def context_from_vars(folder: TrainingFolder) -> tuple[int, int]:
    """Return the network's left and right context, in frames."""
    values = read_vars(folder)
    try:
        return int(values["model_left_context"]), int(values["model_right_context"])
    except (KeyError, ValueError) as error:
        raise FormatError(f"expected model_left_context=NUMBER and model_right_context=NUMBER ({error})",
                          path=str(folder.configs / "vars"), hint="make the configs with xconfig-to-configs") from None


class Step(NamedTuple):
    """Step of staged work: jobs that run at the same time, then a function in this process."""

    stage: int                                # number for ``--stage``
    name: str                                 # name of the mark
    title: str                                # text for log and terminal
    jobs: Sequence[Job] = ()                  # jobs, whose logs have different names
    action: Callable[[], None] | None = None  # function that is called after the jobs
    needs: Sequence[Path] = ()                # files that must exist before the step
    leaves: Sequence[Path] = ()               # files that are not needed after the step, and are then removed
    # function that returns a text with a result, such as a likelihood, to show after the step; "" for none
    result: Callable[[], str] | None = None


class StagedWork(ABC):
    """Base of drivers whose work, in ``options.dir``, consists of steps; :meth:`run` does those that are not complete.

    When its output is complete, each job makes its mark, an empty file in ``.steps``. If the folder was begun with
    other options or data, :meth:`run` raises UsageError unless ``--stage`` is given.

    Parameters
    ----------
    options : options of the driver
    executor : executor of the jobs, which the caller closes; None: an executor is made by ``--cmd`` and ``--scheduler``
    terminal : text stream of a terminal, on which each step has a line that is rewritten; None: steps are logged
    """

    models: ClassVar[str] = "mdl"

    def __init__(self, options: WorkOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
        options.check()
        self.options, self.terminal, self._given_executor = options, terminal, executor
        self.path = Path(options.dir)
        self.folder = TrainingFolder(options.dir, self.models)
        self.executor: Executor

    # -- for subclasses ------------------------------------------------------------------------------------------------

    @abstractmethod
    def begin(self) -> None:
        """Check the inputs; raise Nnet3Error if they cannot be used."""

    @abstractmethod
    def inputs(self) -> Iterable[Path]:
        """Return the paths of files on which the result depends, such as lists of the data and models."""

    @abstractmethod
    def steps(self) -> Sequence[Step]:
        """Return all steps in their order, the same ones at each call."""

    @property
    @abstractmethod
    def product(self) -> Path:
        """Path of the file that exists when the work is complete."""

    # -- the work ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Do the steps that are not complete. Raises Nnet3Error if one fails; complete steps are kept."""
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
        """Return the job of a command whose log is called ``log``."""
        return Job(command, self.folder.log(log))

    def log_value(self, log: str, pattern: str) -> str:
        """Return the group of the last match of a regular expression in a log; "" if there is none."""
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
                                 "begin with an earlier --stage; --cleanup=true removes files after their last use")
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
        now = {**self.options.binding(), **{str(path): fingerprint(path) for path in self.inputs()}}
        recorded, start = self.folder.recorded(), self.options.stage
        marks = self.path / MARKS
        changed = differences(recorded, now) if recorded is not None else []
        complete = list(marks.iterdir()) if marks.is_dir() and recorded is not None else []
        if changed and complete and start is None:
            raise UsageError(f"{self.path} was begun with other options or data: {'; '.join(changed)}",
                             f"use another --dir, or --stage={min(step.stage for step in self.steps())} to repeat "
                             "all, or --stage=N to continue from stage N with the present options")
        if changed and complete:
            logger.warning("from stage %s on, other options or data than before are used: %s", start,
                           "; ".join(changed))
        if complete and start is None and not self.product.exists() and self._is_done(
                self.steps()[-1].stage, self.steps()[-1].name):
            logger.info("%s does not exist any more; all steps are repeated", self.product)
            start = min(step.stage for step in self.steps())
        marks.mkdir(exist_ok=True)
        for mark in marks.iterdir():
            if recorded is None or (start is not None and int(mark.name.split(".")[0]) >= start):
                mark.unlink()
        self.folder.record(now)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file; the target appears when it is complete."""
    temporary = target.with_name(f".{target.name}")
    shutil.copyfile(source, temporary)
    temporary.replace(target)


def fingerprint(path: Path) -> str:
    """Return a text that differs if a file has changed: its SHA-256 sum, or size and time of change of a large file.

    "" for a file that does not exist.
    """
    try:
        status = path.stat()
        if status.st_size > _LARGE_FILE:
            return f"{status.st_size} {status.st_mtime_ns}"
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
