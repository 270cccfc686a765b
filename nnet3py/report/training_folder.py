"""What the folder of a training says besides its iterations: whether it runs, its command, what it reached.

Folders that Kaldi made have no record of a driver; what it would say is left out then.
"""
from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnet3py import system
from nnet3py.report.training_logs import Iteration, read_compute_prob_log

LOCK, RECORD = ".lock", "driver_options.json"              # files of a driver
COMMAND, PLAN, FINISHED, EGS_INFO = "command", "plan", "finished", "egs info"       # in its record
_NO_OPTIONS = (COMMAND, PLAN, FINISHED, EGS_INFO)

_TIME = re.compile(r"^# (?:Started at|Ended \(code -?\d+\) at) \w+ (\w+ +\d+ [\d:]+) \S+ (\d+)", re.MULTILINE)
_WORD_ERRORS = re.compile(r"^%WER ([0-9.]+) \[ (\d+) / (\d+)", re.MULTILINE)
_WORD_ERROR_FILES = ("wer*", "scoring*/best_wer", "scoring*/wer*")      # in a folder decode*
_SHORT = 100_000       # bytes; files of word error rates are much shorter


@dataclass(frozen=True)
class Overview:
    """A training as a whole.

    Attributes
    ----------
    is_running, is_finished : a driver trains in the folder now; its final model is there
    command : the one that trains like this; empty where there is no record of it
    options : name -> value, of the driver
    archives : of the whole training, each counted as often as it is gone through; NaN if unknown
    epochs, iterations : of the whole training; NaN and 0 if unknown
    seconds : from the first job's start to the last one's end so far, pauses included; NaN if logs do not say
    final : data ("train" or "valid") -> (output, "objective" or "accuracy") -> per frame, of the final model
    word_errors : folder of a decoding -> (per cent, errors, words), the best of its files
    """

    is_running: bool
    is_finished: bool
    command: str
    options: dict[str, str]
    archives: float
    epochs: float
    iterations: int
    seconds: float
    final: dict[str, dict[tuple[str, str], float]]
    word_errors: dict[str, tuple[float, int, int]]

    def epochs_before(self, iterations: Sequence[Iteration]) -> dict[int, float]:
        """Iteration -> passes over the data before it; empty if unknown."""
        if not self.archives > 0:
            return {}
        counts = _before(iterations, [float(len(iteration.jobs)) for iteration in iterations])
        return {number: count * self.epochs / self.archives for number, count in counts.items()}


def seconds_before(iterations: Sequence[Iteration]) -> dict[int, float]:
    """Iteration -> seconds of training jobs before it (of each iteration's slowest one); empty if logs do not say."""
    seconds = [max((job.seconds for job in iteration.jobs.values()), default=0.0) for iteration in iterations]
    if any(math.isnan(value) for value in seconds[:-1]) or not sum(seconds[:-1]):
        return {}
    return _before(iterations, seconds)


def _before(iterations: Sequence[Iteration], amounts: Sequence[float]) -> dict[int, float]:
    """Iteration -> the sum of the amounts of those before it."""
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
    """Everything but the iterations; what is not there, or cannot be read, is left out."""
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
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _seconds(folder: Path) -> float:
    """Between the earliest and the latest time that the logs of jobs name."""
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
    """What was computed of the final model, or of the combined one, from which it differs only in its priors."""
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
