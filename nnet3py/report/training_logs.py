"""Logs and folder of a training: objectives, accuracies, changes of parameters, statistics; command, options, results.

Logs are laid out as by Kaldi's training scripts, so folders that Kaldi made are read as well:
``log/train.I.J.log`` (iteration I, job J), ``log/compute_prob_{train,valid}.I.log`` and ``log/progress.I.log``. Such
folders have no record of a driver's options; these are left out then.
"""
from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nnet3py import system
from nnet3py.errors import UsageError
from nnet3py.option_file import text_of

_NUMBER = r"[-+0-9.e]+|-?inf|-?nan"
_VALUE = rf"(?:{_NUMBER})(?: \+ (?:{_NUMBER}))*(?: = (?:{_NUMBER}))?"       # 'a', or 'a + b = sum' with auxiliary terms
_TRAIN = re.compile(rf"LOG .* Overall average objective function for '([^']+)' is ({_VALUE}) over ({_NUMBER}) frames")
_PROB = re.compile(rf"LOG .* Overall (log-likelihood|objective|log-probability|accuracy) for '([^']+)' is ({_VALUE}) "
                   r"per frame")
_MAX_CHANGE = re.compile(rf"For (\S+), per-component max-change was enforced ({_NUMBER}) *% of the time")
_GLOBAL_MAX_CHANGE = re.compile(rf"The global max-change was enforced ({_NUMBER}) *% of the time")
_ACCOUNTING = re.compile(rf"^# Accounting: .*?\btime=({_NUMBER})(?:.*\bthreads=(\d+))?")
_LEARNING_RATE = re.compile(rf"--learning-rate=({_NUMBER})")
_PER_LAYER = re.compile(r"LOG .* (Parameter differences per layer are|Relative parameter differences per layer are|"
                        r"Norms of parameter matrices from <new-nnet-in> are) +\[ (.*) \]")
_COMPONENT = re.compile(r"^component name=(\S+) type=(\w+), (.*)$")
_INFO_LINE = re.compile(r"^(num-parameters|left-context|right-context|modulus): (\d+)$")
_SUMMARY = re.compile(r"\[percentiles\([^)]*\)=\(([^)]*)\), mean=(\S+), stddev=([^\]]+)\]")
_FIELD = re.compile(r"([\w{},.-]+)=(\{ .*? \}(?=,|$)|\[[^\]]*\]|(?:[^,{\[]|,(?! ))+)(?:, |$)")
_LOG_FILE = re.compile(r"(train|compute_prob_train|compute_prob_valid|progress)\.(\d+)(?:\.(\d+))?\.log")


class NoLogs(UsageError):
    """Error for a folder that has no logs of training yet."""


class Summary(NamedTuple):
    """Summary of a vector in a component's line: 13 percentiles (from 0 to 100), mean and standard deviation."""

    percentiles: tuple[float, ...]
    mean: float
    stddev: float


@dataclass(frozen=True)
class ComponentLine:
    """Line ``component name=…`` of nnet3-info."""

    # name and type of the component
    name: str
    type: str
    # the other fields by name: a number, a summary of a vector, a text, or a dict of fields in braces
    fields: dict[str, float | str | Summary | dict]

    def number(self, key: str) -> float:
        """Return the field as a number; NaN where there is none."""
        value = self.fields.get(key)
        return value if isinstance(value, float) else math.nan

    def summary(self, key: str) -> Summary | None:
        """Return the field as a summary; None where there is none (vectors of fewer than 10 values have none)."""
        value = self.fields.get(key)
        return value if isinstance(value, Summary) else None


@dataclass
class TrainLog:
    """Log of a training job."""

    # output -> objective per frame, auxiliary terms included
    objectives: dict[str, float] = field(default_factory=dict)
    frames: dict[str, float] = field(default_factory=dict)    # output -> frames (their weights' sum)
    # component -> per cent of minibatches with a limited change; "" for the whole network
    max_change: dict[str, float] = field(default_factory=dict)
    # duration and threads of the job by its launcher; NaN and 0 if unknown
    seconds: float = math.nan
    threads: int = 0
    # the effective rate times the number of jobs, from the command; NaN if it is not there
    learning_rate: float = math.nan


@dataclass
class ProgressLog:
    """Contents of ``progress.I.log``: components of model I, and changes of parameters since model I-1."""

    components: dict[str, ComponentLine] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)          # num-parameters, left-context, right-context, …
    changes: dict[str, float] = field(default_factory=dict)
    relative_changes: dict[str, float] = field(default_factory=dict)
    norms: dict[str, float] = field(default_factory=dict)


@dataclass
class Iteration:
    """Logs of an iteration I."""

    number: int
    jobs: dict[int, TrainLog] = field(default_factory=dict)    # job number -> its log ``train.I.J.log``
    # (output, "objective" or "accuracy") -> value per frame of model I, from which the iteration begins
    train: dict[tuple[str, str], float] = field(default_factory=dict)
    valid: dict[tuple[str, str], float] = field(default_factory=dict)
    progress: ProgressLog | None = None                        # content of ``progress.I.log``; None without this file


def series(iterations: Sequence[Iteration], data: str, output: str, kind: str) -> list[tuple[int, float]]:
    """Return (iteration, value) pairs of diagnostics; ``data`` is "train" or "valid", ``kind`` as in their keys."""
    pairs = ((iteration.number, (iteration.train if data == "train" else iteration.valid).get((output, kind)))
             for iteration in iterations)
    return [(number, value) for number, value in pairs if value is not None]


def diagnosed_outputs(iterations: Sequence[Iteration], kind: str) -> list[str]:
    """Return the outputs whose ``kind``, "objective" or "accuracy", is in the diagnostics, in order of appearance.

    ``output`` comes first, since others serve regularization or other languages.
    """
    outputs = dict.fromkeys(key[0] for iteration in iterations for key in [*iteration.train, *iteration.valid]
                            if key[1] == kind)
    return sorted(outputs, key=lambda name: name != "output")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _lines(path: Path) -> Iterator[str]:
    with open(path, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            yield line.rstrip("\n")


def read_train_log(path: Path) -> TrainLog:
    """Read ``train.I.J.log``; values that an unfinished log, or that of a failed job, lacks are left out."""
    log = TrainLog()
    for line in _lines(path):
        if matched := _TRAIN.search(line):
            name, value, frames = matched.groups()
            log.objectives[name], log.frames[name] = _number(value.split()[-1]), _number(frames)
        elif matched := _MAX_CHANGE.search(line):
            log.max_change[matched[1]] = _number(matched[2])
        elif matched := _GLOBAL_MAX_CHANGE.search(line):
            log.max_change[""] = _number(matched[1])
        elif matched := _ACCOUNTING.search(line):
            log.seconds, log.threads = _number(matched[1]), int(matched[2] or 0)
        elif math.isnan(log.learning_rate) and (matched := _LEARNING_RATE.search(line)):
            log.learning_rate = _number(matched[1])
    return log


def read_compute_prob_log(path: Path) -> dict[tuple[str, str], float]:
    """Read ``compute_prob_SET.I.log``: (output, "objective" or "accuracy") -> the mean per frame.

    The accuracy of outputs with a quadratic objective is left out: the logs have one, but it is meaningless.
    """
    values = {}
    quadratic = set()
    for line in _lines(path):
        if matched := _PROB.search(line):
            what, output, value = matched.groups()
            if what == "objective":      # of linear objectives it is called log-likelihood
                quadratic.add(output)
            values[output, "accuracy" if what == "accuracy" else "objective"] = _number(value.split()[-1])
    return {key: value for key, value in values.items() if key[1] == "objective" or key[0] not in quadratic}


def read_progress_log(path: Path) -> ProgressLog:
    """Read ``progress.I.log``, the output of nnet3-info and nnet3-show-progress."""
    log = ProgressLog()
    kinds = {"Parameter": log.changes, "Relative": log.relative_changes, "Norms": log.norms}
    for line in _lines(path):
        if component := parse_component_line(line):
            log.components[component.name] = component
        elif matched := _INFO_LINE.match(line):
            log.numbers[matched[1]] = int(matched[2])
        elif matched := _PER_LAYER.search(line):
            values = (entry.rpartition(":") for entry in matched[2].split())
            kinds[matched[1].split()[0]].update({name: _number(value) for name, _, value in values})
    return log


def parse_component_line(line: str) -> ComponentLine | None:
    """Read a component's line of nnet3-info; None for any other line."""
    matched = _COMPONENT.match(line)
    return ComponentLine(matched[1], matched[2], _fields(matched[3])) if matched else None


def _fields(text: str) -> dict[str, float | str | Summary | dict]:
    fields: dict[str, float | str | Summary | dict] = {}
    for key, value in _FIELD.findall(text):
        if key.endswith("-{mean,stddev}"):
            mean, _, stddev = value.partition(",")
            key = key.removesuffix("{mean,stddev}")
            fields[key + "mean"], fields[key + "stddev"] = _number(mean), _number(stddev)
        elif value.startswith("{"):
            fields[key] = _fields(value[2:-2])
        elif matched := _SUMMARY.fullmatch(value):
            percentiles = tuple(_number(part) for part in re.split("[, ]", matched[1]))
            fields[key] = Summary(percentiles, _number(matched[2]), _number(matched[3]))
        else:
            number = _number(value)
            fields[key] = value if math.isnan(number) and "nan" not in value else number
    return fields


def read_iterations(folder: Path, only: int | None = None) -> list[Iteration]:
    """Read the logs of a training, by iteration, or those of iteration ``only``. Raises NoLogs if there are none."""
    iterations: dict[int, Iteration] = {}
    for path in sorted((folder / "log").glob("*.log")) if (folder / "log").is_dir() else []:
        matched = _LOG_FILE.fullmatch(path.name)
        if not matched or (matched[1] == "train") != (matched[3] is not None):
            continue
        number = int(matched[2])
        if only is not None and number != only:
            continue
        iteration = iterations.setdefault(number, Iteration(number))
        if matched[1] == "train":
            iteration.jobs[int(matched[3])] = read_train_log(path)
        elif matched[1] == "progress":
            iteration.progress = read_progress_log(path)
        elif matched[1] == "compute_prob_train":
            iteration.train = read_compute_prob_log(path)
        else:
            iteration.valid = read_compute_prob_log(path)
    if not iterations:
        raise NoLogs(f"{folder} has no logs of a training (log/train.I.J.log, log/compute_prob_valid.I.log)",
                     "give the folder that a training driver wrote, such as exp/tdnn")
    return [iterations[number] for number in sorted(iterations)]


LOCK, RECORD = ".lock", "driver_options.json"              # files of a driver
COMMAND, PLAN, FINISHED, EGS_INFO = "command", "plan", "finished", "egs info"       # in its record
_NO_OPTIONS = (COMMAND, PLAN, FINISHED, EGS_INFO)

_TIME = re.compile(r"^# (?:Started at|Ended \(code -?\d+\) at) \w+ (\w+ +\d+ [\d:]+) \S+ (\d+)", re.MULTILINE)
_WORD_ERRORS = re.compile(r"^%WER ([0-9.]+) \[ (\d+) / (\d+)", re.MULTILINE)
_WORD_ERROR_FILES = ("wer*", "scoring*/best_wer", "scoring*/wer*")      # in a folder decode*
_SHORT = 100_000       # bytes; files of word error rates are much shorter


@dataclass(frozen=True)
class Overview:
    """Overview of a training."""

    # whether a driver trains in the folder now; whether the final model exists
    is_running: bool
    is_finished: bool
    command: str               # command line of the driver; "" without a record
    options: dict[str, str]    # options of the driver by name
    archives: float            # archives of the whole training, counted once for each pass; NaN if unknown
    # length of the whole training; NaN and 0 if unknown
    epochs: float
    iterations: int
    seconds: float    # time from the first job's start to the last job's end so far, with pauses; NaN if unknown
    # data ("train" or "valid") -> (output, "objective" or "accuracy") -> value per frame of the final model
    final: dict[str, dict[tuple[str, str], float]]
    # decoding folder -> (per cent, errors, words), the best of its files
    word_errors: dict[str, tuple[float, int, int]]

    def epochs_before(self, iterations: Sequence[Iteration]) -> dict[int, float]:
        """Return the passes over the data before each iteration; empty if unknown."""
        if not self.archives > 0:
            return {}
        counts = _before(iterations, [float(len(iteration.jobs)) for iteration in iterations])
        return {number: count * self.epochs / self.archives for number, count in counts.items()}


def seconds_before(iterations: Sequence[Iteration]) -> dict[int, float]:
    """Return the seconds of training jobs before each iteration (slowest job of each); empty if unknown."""
    seconds = [max((job.seconds for job in iteration.jobs.values()), default=0.0) for iteration in iterations]
    if any(math.isnan(value) for value in seconds[:-1]) or not sum(seconds[:-1]):
        return {}
    return _before(iterations, seconds)


def _before(iterations: Sequence[Iteration], amounts: Sequence[float]) -> dict[int, float]:
    """Return, for each iteration number, the sum of the ``amounts`` of all earlier iterations."""
    sums, total = {}, 0.0
    for iteration, amount in zip(iterations, amounts, strict=True):
        sums[iteration.number] = total
        total += amount
    return sums


def is_running(folder: Path) -> bool:
    """Return whether a driver of this package trains in the folder now."""
    try:
        with open(folder / LOCK, "r+", encoding="utf-8") as stream:
            return bool(stream.read().strip()) and not system.lock_open_file(stream.fileno())
    except OSError:        # no lock, or none that may be written
        return False


def read_overview(folder: Path) -> Overview:
    """Read everything but the iterations; missing or unreadable files are left out."""
    record = _record(folder)
    plan = record.get(PLAN)
    plan = plan if isinstance(plan, dict) else {}
    running = is_running(folder)
    has_final = any((folder / f"final.{ending}").exists() for ending in ("mdl", "raw"))
    return Overview(running, has_final and not running, str(record.get(COMMAND, "")),
                    {name: _shown(value) for name, value in record.items()
                     if name not in _NO_OPTIONS and not name.startswith("configs/")},
                    float(plan.get("archives", math.nan)), float(plan.get("epochs", math.nan)),
                    int(plan.get("iterations", 0)), _seconds(folder), _final(folder), _word_errors(folder))


def _record(folder: Path) -> dict[str, Any]:
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else text_of(value)


def _seconds(folder: Path) -> float:
    """Return the seconds from the earliest to the latest time in the logs of jobs; NaN if there is none."""
    times = []
    for path in (folder / "log").glob("train.*.log"):
        with open(path, encoding="utf-8", errors="replace") as stream:
            head = stream.read(1000)
            tail = _tail(path)
        for day, year in _TIME.findall(head + "\n" + tail):
            try:
                times.append(datetime.datetime.strptime(f"{day} {year}", "%b %d %H:%M:%S %Y"))
            except ValueError:         # a month in another language
                return math.nan
    return (max(times) - min(times)).total_seconds() if times else math.nan


def _tail(path: Path) -> str:
    with open(path, "rb") as stream:
        stream.seek(max(0, stream.seek(0, 2) - 1000))
        return stream.read().decode("utf-8", "replace")


def _final(folder: Path) -> dict[str, dict[tuple[str, str], float]]:
    """Read the scores of the final model, or of the combined one, which differs only in its priors."""
    values = {}
    for data in ("train", "valid"):
        for which in ("final", "combined"):
            path = folder / "log" / f"compute_prob_{data}.{which}.log"
            scores = read_compute_prob_log(path) if path.exists() else {}
            if scores:
                values[data] = scores
                break
    return values


def _word_errors(folder: Path) -> dict[str, tuple[float, int, int]]:
    best = {}
    for decoding in sorted(folder.glob("decode*")):
        rates = [(float(rate), int(errors), int(words)) for pattern in _WORD_ERROR_FILES
                 for path in decoding.glob(pattern) if path.is_file() and path.stat().st_size < _SHORT
                 for rate, errors, words in _WORD_ERRORS.findall(path.read_text(encoding="utf-8", errors="replace"))]
        if rates:
            best[decoding.name] = min(rates)
    return best
