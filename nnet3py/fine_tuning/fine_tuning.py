"""The driver of fine-tuning, ``nnet3py.fine_tune``, which runs the stages."""
from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.drivers.executor import Executor
from nnet3py.drivers.staged import StagedWork, Step
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.requirements import requirements
from nnet3py.io.streams import write_text
from nnet3py.option_fields import OptionValue

if TYPE_CHECKING:
    from nnet3py.fine_tuning.report import ScoresAsDict

_TITLES = {"check": "Checking the data", "model": "Reading the model", "words": "Words and graph",
           "features": "Features and i-vectors", "align": "Alignments", "egs": "Examples", "train": "Training",
           "folder": "The new folder", "report": "Word error rates before and after"}
STAGES = tuple(_TITLES)


class FineTuning(StagedWork):
    """Driver of ``nnet3py fine-tune``, whose stages are numbered from 1."""

    options: FineTuneOptions

    def __init__(self, options: FineTuneOptions, executor: Executor | None = None,
                 terminal: IO[str] | None = None) -> None:
        super().__init__(options, executor, terminal)
        self.work = WorkFolder(options.dir)

    def begin(self) -> None:
        options = self.options
        needed = requirements(options.model)
        for note in needed.notes:
            log.log(note)
        if not needed.can_fine_tune:
            raise Nnet3Error(f"{options.model} cannot be fine-tuned: {'; '.join(needed.notes)}")
        for name, path in (("data", options.data), ("held-out-data", options.held_out_data),
                           ("old-data", options.old_data), ("old-test", options.old_test),
                           ("lexicon", options.lexicon), ("lm-text", options.lm_text)):
            if path and not os.path.exists(path):
                raise UsageError(f"there is no {path}, the value of {name}")
        if os.path.exists(options.out) and not self.work.published.is_file():
            raise UsageError(f"{options.out} exists already", "name another folder with --out, or remove it")
        self.path.mkdir(parents=True, exist_ok=True)

    def inputs(self) -> Iterator[Path]:
        yield from map(Path, requirements(self.options.model).files.values())
        options = self.options
        for name in (options.data, options.held_out_data, options.old_data, options.old_test):
            if name and os.path.isdir(name):
                yield from (Path(name, file) for file in ("wav.scp", "text", "utt2spk", "segments")
                            if os.path.isfile(os.path.join(name, file)))
            elif name:
                yield Path(name)
        yield from (Path(name) for name in (self.options.lexicon, self.options.lm_text) if name)

    @property
    def product(self) -> Path:
        return Path(self.options.out) if self.is_accepted else self.work.report_page

    @property
    def is_accepted(self) -> bool:
        """True if the new model was moved to ``--out``; False as long as there are no scores."""
        try:
            return bool(json.loads(self.work.scores.read_text(encoding="utf-8"))["is_accepted"])
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def steps(self) -> Sequence[Step]:
        return [Step(number, name, title, action=partial(self._run_stage, name))
                for number, (name, title) in enumerate(_TITLES.items(), 1)]

    def _run_stage(self, name: str) -> None:
        """Run a stage, the module of this name, and record its time, which adds to that of earlier attempts."""
        if name in ("check", "folder"):        # results for earlier data, or of an earlier new model
            for path in (self.work.scores, *self.work.recognized.glob("*.json" if name == "check" else "*.new.json")):
                path.unlink(missing_ok=True)
        more = {"egs": (self.executor,), "train": (self.executor, self.terminal)}.get(name, ())
        begun = time.monotonic()
        try:      # imported late: the stages need most of the package, and errors before them should come quickly
            import_module(f"nnet3py.fine_tuning.{name}").run(self.work, self.options, *more)
        finally:
            path = self.work.times
            times = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            times[name] = times.get(name, 0.0) + time.monotonic() - begun
            write_text(str(path), json.dumps(times) + "\n")


@dataclass
class FineTuned:
    """Outcome of fine-tuning.

    Attributes
    ----------
    path : model folder to use: the new one, or the old one if the new one has a higher word error rate
    is_new : whether ``path`` is the new folder
    scores : content of ``scores.json``: counts of errors and word error rates before and after
    report, report_page : the report as text, and the path of the report as HTML
    """

    path: str
    is_new: bool
    scores: ScoresAsDict
    report: str
    report_page: str


def fine_tune(model: str | os.PathLike[str], data: str | os.PathLike[str], out: str | os.PathLike[str],
              terminal: IO[str] | None = None, **options: OptionValue | None) -> FineTuned:
    """Fine-tune a model folder on speech and write a new model folder. An interrupted run is resumed.

    Parameters
    ----------
    model : model folder of any layout that ``transcribe`` accepts
    data : Kaldi data folder, folder of sounds with a text file each, or table of file and text
    out : new model folder; logs and the report are in ``OUT.work``
    terminal : stream for progress; None to log progress
    options : further fields of :class:`~nnet3py.fine_tuning.plan.FineTuneOptions`, such as ``layers="last"``

    Returns
    -------
    FineTuned : the folder to use, and word error rates before and after

    Raises
    ------
    Nnet3Error : an unusable model or unusable data
    UsageError : invalid options
    """
    try:
        fields: dict[str, Any] = {**options, "model": os.fspath(model), "data": os.fspath(data), "out": os.fspath(out)}
        values = FineTuneOptions(**fields)
    except TypeError as error:
        raise UsageError(str(error), "see the fields of nnet3py.fine_tuning.plan.FineTuneOptions") from None
    return run(values, terminal)


def run(options: FineTuneOptions, terminal: IO[str] | None = None) -> FineTuned:
    """Run fine-tuning with given options; see :func:`fine_tune`."""
    work = FineTuning(options, terminal=terminal)
    work.run()
    files = work.work
    if not files.report_text.is_file():                 # --exit-stage
        return FineTuned(options.model, False, {}, "", "")
    return FineTuned(options.out if work.is_accepted else options.model, work.is_accepted,
                     json.loads(files.scores.read_text(encoding="utf-8")),
                     files.report_text.read_text(encoding="utf-8"), str(files.report_page))
