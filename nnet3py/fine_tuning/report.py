"""Stage 9, the report: word error rates before and after fine-tuning; and the decision which model stays."""
from __future__ import annotations

import html
import json
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypedDict

from nnet3py import log, system
from nnet3py.decoding.word_errors import WordErrors, alignment_lines
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.folder import Scored, score
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.io.streams import read_lines, write_text
from nnet3py.report.tables import table
from nnet3py.report.training_page import list_of, page, table_of

Rows = Sequence[Sequence[object]]

HELD_OUT, OLD_TEST = "held_out", "old_test"
NAMES = {HELD_OUT: "held-out part of the new data", OLD_TEST: "test set of the old domain"}
_SHOWN_ERRORS = 20               # utterances with errors in the text
_FEW_WORDS = 100                 # words of a part below which a warning says that rates are unreliable


class ScoresAsDict(TypedDict, total=False):
    """Content of ``scores.json``; for each part the counts of :class:`WordErrors` and ``word_error_rate``."""

    old: dict[str, dict[str, float | None]]
    new: dict[str, dict[str, float | None]]
    is_accepted: bool
    warnings: list[str]


@dataclass
class Scores:
    """Word errors of both models, and the decision."""

    # old, new: errors of the old and the new model by part, ``held_out`` and perhaps ``old_test``
    old: dict[str, WordErrors] = field(default_factory=dict)
    new: dict[str, WordErrors] = field(default_factory=dict)
    is_accepted: bool = False  # whether the new model is moved to ``--out``
    # messages about higher error rates, and about rates measured on too few words
    warnings: list[str] = field(default_factory=list)

    def as_dict(self) -> ScoresAsDict:
        """Return the content of ``scores.json``: counts, and word error rates in per cent."""
        def counts(errors: dict[str, WordErrors]) -> dict[str, dict[str, float | None]]:
            return {part: {**asdict(its), "errors": its.errors,
                           "word_error_rate": None if math.isnan(rate(its)) else rate(its)}
                    for part, its in errors.items()}
        return {"old": counts(self.old), "new": counts(self.new), "is_accepted": self.is_accepted,
                "warnings": self.warnings}


def rate(errors: WordErrors) -> float:
    """Return the word error rate in per cent; NaN without words."""
    return 100.0 * errors.errors / errors.words if errors.words else math.nan


def run(work: WorkFolder, options: FineTuneOptions) -> None:
    """Score both models, write the report, and move the new folder to ``--out`` if its errors allow."""
    if work.scores.is_file() and not work.new_model.exists():        # interrupted after the new folder was moved
        return
    scored = _score(work, options)
    scores = decide(scored, options.max_forgetting)
    facts = _Facts(work, options, scores, scored)
    write_text(str(work.report_text), report_text(facts))
    write_text(str(work.report_page), report_page(facts))
    write_text(str(work.scores), json.dumps(scores.as_dict(), indent=1) + "\n")
    for warning in scores.warnings:
        log.warning(warning)
    if scores.is_accepted:
        publish(work, options.out)


def _score(work: WorkFolder, options: FineTuneOptions) -> dict[str, tuple[Scored, Scored]]:
    """Return recognition results of the old and the new model by part."""
    folder = work.recognized
    folder.mkdir(exist_ok=True)
    parts = [part for part in (HELD_OUT, OLD_TEST) if (work.data(part) / "text").is_file()]
    return {part: (score(options.model, work.data(part), folder / f"{part}.old.json"),
                   score(work.new_model, work.data(part), folder / f"{part}.new.json")) for part in parts}


def decide(scored: dict[str, tuple[Scored, Scored]], max_forgetting: float) -> Scores:
    """Decide whether the new model is accepted, with warnings.

    It is rejected if it makes more errors on held-out data, or if the word error rate on the old domain rises by more
    than ``max_forgetting`` per cent absolute.
    """
    scores = Scores({part: its[0].errors() for part, its in scored.items()},
                    {part: its[1].errors() for part, its in scored.items()}, is_accepted=True)
    for part in scores.old:
        before, after = scores.old[part], scores.new[part]
        rise = rate(after) - rate(before)
        if after.errors > before.errors:
            scores.warnings.append(f"the word error rate rose on the {NAMES[part]}: {rate(before):.2f} % before, "
                                   f"{rate(after):.2f} % after")
        if after.errors > before.errors and (part == HELD_OUT or rise > max_forgetting):
            scores.is_accepted = False
        if before.words < _FEW_WORDS:
            scores.warnings.append(f"the {NAMES[part]} has only {before.words} words: rates are unreliable")
    if not scores.is_accepted:
        scores.warnings.append("the old model stays; the new one is in the work folder, new_model/")
    return scores


def publish(work: WorkFolder, out: str) -> None:
    """Move the new model folder to ``out`` by renaming, in place of one from an earlier run."""
    partial, earlier = f"{out}.partial", f"{out}.earlier"
    try:
        write_text(str(work.published), f"{os.path.abspath(out)}\n")
        parent = os.path.dirname(os.path.abspath(out))
        os.makedirs(parent, exist_ok=True)
        for path in (partial, earlier):
            shutil.rmtree(path, ignore_errors=True)
        source = str(work.new_model)
        if os.stat(source).st_dev != os.stat(parent).st_dev:          # on another file system: renaming is impossible
            source = shutil.copytree(source, partial)
        if os.path.exists(out):
            os.replace(out, earlier)
        os.replace(source, out)
        for path in (earlier, str(work.new_model)):
            shutil.rmtree(path, ignore_errors=True)
    except OSError as error:
        raise Nnet3Error(f"the new folder cannot be moved to {out}: {error.strerror or error}",
                         f"the new model is in {work.new_model}") from None


# -- content of the report ---------------------------------------------------------------------------------------------


@dataclass
class _Facts:
    work: WorkFolder
    options: FineTuneOptions
    scores: Scores
    scored: dict[str, tuple[Scored, Scored]]

    def rates(self) -> Rows:
        """Return a row for each part: name, words, rates before and after, and the change."""
        rows = []
        for part, before in self.scores.old.items():
            after = self.scores.new[part]
            rows.append((NAMES[part], str(before.words), f"{rate(before):.2f} %", f"{rate(after):.2f} %",
                         _change(before, after)))
        return rows

    def speakers(self) -> Rows:
        """Return a row for each speaker of the new data: training utterances, minutes, and held-out rates."""
        train = read_lines(f"{self.work.data('train')}/utt2spk")
        durations = dict(line.split() for line in read_lines(f"{self.work.data('train')}/utt2dur"))
        learned: dict[str, list[float]] = {}
        for line in train:
            key, speaker = line.split()
            learned.setdefault(speaker, []).append(float(durations[key]))
        old, new = self.scored[HELD_OUT]
        rows = []
        for speaker in sorted({*learned, *old.speakers.values()}):
            before, after = old.errors(speaker), new.errors(speaker)
            held_out = (f"{rate(before):.2f} %", f"{rate(after):.2f} %") if before.words else ("–", "–")
            seconds = learned.get(speaker, [])
            rows.append((speaker, str(len(seconds)), f"{sum(seconds) / 60:.1f}", str(before.sentences), *held_out))
        return rows

    def words(self) -> Rows:
        """Return a row for each pronunciation of a new word: source, phones, and how often it was recognized."""
        path = self.work.lang / "new_words.txt"
        old, new = self.scored[HELD_OUT]
        rows = []
        for line in read_lines(str(path)) if path.is_file() else []:
            word, source, *phones = line.split()
            num_spoken, before = old.correct(word)
            rows.append((word, source, " ".join(phones), str(num_spoken), str(before), str(new.correct(word)[1])))
        return rows

    def set_aside(self) -> Rows:
        """Return a row for each kind of problem: its name, and the number of utterances that were not used for it."""
        counts: dict[str, int] = {}
        for problem in json.loads(self.work.problems_json.read_text(encoding="utf-8")):
            if problem["is_fatal"]:
                counts[problem["kind"]] = counts.get(problem["kind"], 0) + 1
        path = self.work.set_aside
        for line in read_lines(str(path)) if path.is_file() else []:
            reason = line.split(" ", 1)[-1].split(":")[0]
            counts[reason] = counts.get(reason, 0) + 1
        return [(kind, str(count)) for kind, count in sorted(counts.items(), key=lambda item: -item[1])]

    def notes(self) -> list[str]:
        """Return the notes on the model folder."""
        path = self.work.model / "notes.txt"
        return read_lines(str(path)) if path.is_file() else []

    def times(self) -> Rows:
        """Return rows with the duration of each stage, their sum, and the memory of the largest process."""
        path = self.work.times
        times = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        rows = [(name, f"{seconds:.1f} s") for name, seconds in times.items()]
        if times:
            rows.append(("together, without this report", f"{sum(times.values()):.1f} s"))
        largest = system.largest_memory()
        return rows if largest is None else [*rows, ("memory of the largest process", f"{largest / 2**20:.0f} MB")]

    def settings(self) -> Rows:
        """Return rows with the name and value of each option, and of what training chose, such as the learning rate."""
        rows = [("model", self.options.model), ("data", self.options.data), ("out", self.options.out)]
        rows += [(name, str(value)) for name, value in self.options.binding().items() if value is not None]
        choice = self.work.choice
        if choice.is_file():
            rows += [(f"chosen: {name}", str(value)) for name, value in
                     json.loads(choice.read_text(encoding="utf-8")).items() if not isinstance(value, list | dict)]
        return rows

    def verdict(self) -> str:
        """Return the first sentence of the report: word error rates before and after, and which model stays."""
        before, after = self.scores.old[HELD_OUT], self.scores.new[HELD_OUT]
        stays = f"it is in {self.options.out}" if self.scores.is_accepted else "the old model stays"
        return (f"Word error rate on the {NAMES[HELD_OUT]}: {rate(before):.2f} % before, {rate(after):.2f} % after "
                f"({_change(before, after)}); {stays}.")


def _change(before: WordErrors, after: WordErrors) -> str:
    if not before.errors:
        return "as before" if not after.errors else "worse"
    percent = 100.0 * (after.errors - before.errors) / before.errors
    return f"{percent:+.0f} % of the errors" if after.errors != before.errors else "as before"


_HEADINGS = {
    "rates": ("", "words", "before", "after", "change"),
    "speakers": ("speaker", "learned from", "minutes", "held out", "before", "after"),
    "words": ("word", "source", "phones", "said", "before", "after"),
    "set_aside": ("set aside", "utterances"), "times": ("stage", "time"), "settings": ("setting", "value")}
_TITLES = {"rates": "Word error rates", "speakers": "Speakers", "words": "New words (in held-out data)",
           "set_aside": "Utterances that were not used", "times": "Time and memory", "settings": "Settings"}


def report_text(facts: _Facts) -> str:
    """Format the report as text, with some held-out utterances that still have errors."""
    parts = [facts.verdict(), *(f"WARNING: {warning}" for warning in facts.scores.warnings), *facts.notes(), ""]
    for name, title in _TITLES.items():
        rows = getattr(facts, name)()
        if rows:
            parts += [title, "", table(_HEADINGS[name], rows)]
    examples = list(_examples(facts.scored[HELD_OUT][1]))
    if examples:
        parts += ["Held-out utterances with errors", "", *examples]
    return "\n".join(parts).rstrip() + "\n"


def _examples(scored: Scored) -> Iterator[str]:
    wrong = [key for key, reference in scored.references.items() if reference != scored.hypotheses[key]]
    for key in wrong[:_SHOWN_ERRORS]:
        yield alignment_lines(key, scored.references[key], scored.hypotheses[key])


def report_page(facts: _Facts) -> str:
    """Format the report as HTML."""
    parts = [f"<p>{html.escape(facts.verdict())}</p>", "<h2>Warnings</h2>", list_of(facts.scores.warnings)]
    if facts.notes():
        parts += ["<h2>The model folder</h2>", list_of(facts.notes())]
    for name, title in _TITLES.items():
        rows: Rows = getattr(facts, name)()
        if rows:
            parts += [f'<section id="{name}"><h2>{html.escape(title)}</h2>', table_of(_HEADINGS[name], rows),
                      "</section>"]
    return page("Fine-tuning of " + Path(facts.options.model).resolve().name, str(Path(facts.options.out).resolve()),
                parts)
