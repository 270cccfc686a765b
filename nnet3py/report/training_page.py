"""The report of a training: one page of HTML with everything in it, and its plots as files beside it."""
from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.io.streams import write_text
from nnet3py.network.model_file import read_nnet
from nnet3py.report.draw_network import draw_network
from nnet3py.report.html_page import HEAD, STYLE, list_of
from nnet3py.report.monitor import Monitor
from nnet3py.report.training_logs import Iteration, diagnosed_outputs, read_iterations, series
from nnet3py.report.training_plots import Trainings, save, training_plots

_ABOUT = {
    "relative-change": "Healthy trainings change parameters by some per cent in an iteration, and less at the end.",
    "max-change": "Near 100 % throughout: the learning rate is too high there, or the max-change too small.",
    "learning-rate": "The rate of a job, divided by the number of jobs whose models are averaged.",
    "self-repair": "Units whose mean derivative is beyond its limits are pushed back. Many for long: trouble.",
    "derivatives": "Near 0: saturated or dead units, which learn nothing.",
}


def write_report(folders: Sequence[Path], output: Path) -> Path:
    """Write ``report.html``, ``report.csv`` and the plots into ``output``, which is made; returns the page's path.

    Parameters
    ----------
    folders : trainings; objectives are compared, the rest is about the first

    Raises
    ------
    UsageError : a folder without logs; ``output`` cannot be made
    """
    trainings: Trainings = dict(zip(_labels(folders), map(read_iterations, folders), strict=True))
    plots = training_plots(trainings)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {output} for the report cannot be made: {error.strerror}",
                         "name another with --output-dir") from None
    drawings = {name: save(figure, output, name) for name, figure in plots.items()}
    iterations = next(iter(trainings.values()))
    page = _page(folders[0], trainings, _warnings(iterations), drawings, _network(folders[0], iterations, output))
    write_text(str(output / "report.csv"), training_table(trainings))
    path = output / "report.html"
    write_text(str(path), page)
    return path


def training_table(trainings: Trainings) -> str:
    """What the curves show as comma-separated values: a row for each training and iteration, blank where unknown.

    Columns: training, iteration, jobs, learning_rate (effective), seconds (of the slowest job), then SET_KIND_OUTPUT,
    such as ``valid_objective_output``, per frame.
    """
    everything = [iteration for iterations in trainings.values() for iteration in iterations]
    measures = [(data, kind, output) for kind in ("objective", "accuracy")
                for output in diagnosed_outputs(everything, kind) for data in ("train", "valid")]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["training", "iteration", "jobs", "learning_rate", "seconds", *map("_".join, measures)])
    for label, iterations in trainings.items():
        for iteration in iterations:
            jobs = list(iteration.jobs.values())
            rate = jobs[0].learning_rate / len(jobs) if jobs else math.nan
            values = [rate, max((job.seconds for job in jobs), default=math.nan),
                      *((iteration.train if data == "train" else iteration.valid).get((output, kind), math.nan)
                        for data, kind, output in measures)]
            rows.writerow([label, iteration.number, len(jobs),
                           *("" if math.isnan(value) else f"{value:.7g}" for value in values)])
    return text.getvalue()


def _labels(folders: Sequence[Path]) -> list[str]:
    """The folders' last names, or where two share one the whole paths."""
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


def _warnings(iterations: Sequence[Iteration]) -> list[str]:
    watch = Monitor()
    return [line for count in range(1, len(iterations) + 1) for line in watch.check(iterations[:count])]


def _network(folder: Path, iterations: Sequence[Iteration], output: Path) -> str:
    """The drawing of the last model in the folder, layers collapsed; a sentence where there is none."""
    names = ["final.mdl", "final.raw", *(f"{number}.{ending}" for number in _numbers(iterations)
                                         for ending in ("mdl", "raw"))]
    for name in names:
        path = folder / name
        if path.exists():
            try:
                drawing = draw_network(read_nnet(str(path)), title=name)
            except Nnet3Error as error:
                return f"<p>{html.escape(name)} cannot be drawn: {html.escape(str(error))}</p>"
            svg = drawing.svg()
            write_text(str(output / "network.svg"), svg)
            return f"<figure>{_inline(svg)}</figure>"
    return f"<p>There is no model in {html.escape(str(folder))}.</p>"


def _numbers(iterations: Sequence[Iteration]) -> list[int]:
    last = iterations[-1].number + 1
    return list(range(last, -1, -1))


def _page(folder: Path, trainings: Trainings, warnings: Sequence[str], drawings: dict[str, str], network: str) -> str:
    title = html.escape(folder.resolve().name)
    parts = ["<!DOCTYPE html>", f'<html lang="en"><head>{HEAD}<title>Training of {title}</title>',
             f"<style>{STYLE}</style></head><body>", f"<h1>Training of {title}</h1>",
             f'<p class="where">{html.escape(str(folder.resolve()))}</p>', _summary(trainings),
             "<h2>Warnings</h2>", list_of(warnings)]
    for name, svg in drawings.items():
        about = f"<p>{html.escape(_ABOUT[name])}</p>" if name in _ABOUT else ""
        parts.append(f'<section id="{html.escape(name)}"><figure>{_inline(svg, name)}</figure>{about}</section>')
    parts += ['<h2 id="network">Network</h2>', network, "</body></html>\n"]
    return "\n".join(parts)


def _inline(svg: str, prefix: str = "network") -> str:
    """An SVG document as an element of a page; its ids are made different from those of the other drawings."""
    svg = svg[svg.index("<svg"):]
    names = set(re.findall(r'\bid="([^"]+)"', svg))
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    return re.sub(r'(url\(#|href="#)([^")]+)', lambda match: f"{match[1]}{prefix}-{match[2]}"
                  if match[2] in names else match[0], svg)


def _summary(trainings: Trainings) -> str:
    """A table with a column for each training."""
    rows = [_facts(iterations) for iterations in trainings.values()]
    names = list(dict.fromkeys(name for facts in rows for name in facts))
    head = "".join(f"<th>{html.escape(label)}</th>" for label in ["", *trainings])
    body = "".join(f"<tr><th>{html.escape(name)}</th>"
                   + "".join(f'<td class="number">{html.escape(facts.get(name, "–"))}</td>' for facts in rows) + "</tr>"
                   for name in names)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _facts(iterations: Sequence[Iteration]) -> dict[str, str]:
    jobs = [job for iteration in iterations for job in iteration.jobs.values()]
    facts = {"iterations": str(sum(1 for iteration in iterations if iteration.jobs)),
             "jobs at once": _range([len(iteration.jobs) for iteration in iterations if iteration.jobs])}
    seconds = [max((job.seconds for job in iteration.jobs.values()), default=math.nan) for iteration in iterations
               if iteration.jobs]
    if seconds and all(map(math.isfinite, seconds)):
        facts["time in training jobs"] = _duration(sum(seconds))
    threads = [job.threads for job in jobs if job.threads]
    if threads:
        facts["threads a job"] = _range(threads)
    frames = sum(job.frames.get("output", 0.0) for job in jobs)
    if frames:
        facts["frames trained on"] = f"{frames:,.0f}"
    sizes = [iteration.progress.numbers["num-parameters"] for iteration in iterations
             if iteration.progress is not None and "num-parameters" in iteration.progress.numbers]
    if sizes:
        facts["parameters"] = f"{sizes[-1]:,}"
    for kind in ("objective", "accuracy"):
        for output in diagnosed_outputs(iterations, kind):
            for data, words in (("train", "training data"), ("valid", "held-out data")):
                values = [value for _, value in series(iterations, data, output, kind)]
                if values:
                    facts[f"{kind} of '{output}', {words}"] = f"{values[-1]:.4f} (best {max(values):.4f})"
    return facts


def _range(values: Sequence[int]) -> str:
    if not values:
        return "–"
    return str(min(values)) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
