"""Report of a training: one HTML page that holds everything, and its plots as files beside it.

Style, lists and tables of pages are shared with other reports (fine-tuning, notebooks).
"""
from __future__ import annotations

import csv
import html
import io
import math
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.io.streams import write_text
from nnet3py.network.model_file import read_nnet
from nnet3py.report.draw_network import draw_network
from nnet3py.report.monitor import all_messages
from nnet3py.report.tensorboard import write_events
from nnet3py.report.training_logs import (
    Iteration,
    NoLogs,
    Overview,
    diagnosed_outputs,
    is_running,
    read_iterations,
    read_overview,
    seconds_before,
    series,
)
from nnet3py.report.training_plots import (
    AXES,
    EPOCH,
    ITERATION,
    Trainings,
    save,
    split_name,
    training_plots,
    why_no_plots,
)

STYLE = """
body { font: 15px/1.5 Helvetica, Arial, 'DejaVu Sans', sans-serif; color: #22303c; background: #fff;
       max-width: 62rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem }
p.where { color: #66727e; margin-top: 0 }
table { border-collapse: collapse } th, td { padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top }
th { color: #66727e; font-weight: normal } td.number { text-align: right; font-variant-numeric: tabular-nums }
ul.warnings li { margin: .3rem 0 } figure { margin: 1rem 0; overflow-x: auto } svg { max-width: 100%; height: auto }
thead th { border-bottom: 1px solid #cfd6dc; text-align: right }
"""

# Narrow screens are told that the page is made for them; else they show it at a desktop's width, and tiny.
HEAD = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'


def page(title: str, where: str, parts: Sequence[str], head: str = "") -> str:
    """Return a page of parts, which are HTML as ``head`` is; title and the line below it are text."""
    return "\n".join(["<!DOCTYPE html>",
                      f'<html lang="en"><head>{HEAD}<title>{html.escape(title)}</title>',
                      f"<style>{STYLE}</style>{head}</head><body>", f"<h1>{html.escape(title)}</h1>",
                      f'<p class="where">{html.escape(where)}</p>', *parts, "</body></html>\n"])


def list_of(lines: Sequence[str]) -> str:
    """Return an HTML list of texts; a sentence if there are none."""
    if not lines:
        return "<p>None.</p>"
    return '<ul class="warnings">' + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>"


def table_of(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return an HTML table of texts, perhaps without headings; all columns but the first are aligned to the right."""
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    head = f"<thead><tr>{head}</tr></thead>" if headings else ""
    body = "".join("<tr>" + f"<th>{html.escape(str(row[0]))}</th>" + "".join(
        f'<td class="number">{html.escape(str(value))}</td>' for value in row[1:]) + "</tr>" for row in rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


Overviews = Mapping[str, Overview]     # label -> what its folder says
_RELOAD = 15           # seconds after which the page of a training that runs is loaded again
_PAUSE = 4             # the least time between two reports, in times that writing one takes
_SHOWN_WARNINGS = 5    # more are folded away

_ABOUT = {
    "objective": "The training objective of each iteration's model, before it trains. If held-out data fall "
                 "behind training data, the network overfits.",
    "accuracy": "Part of the frames whose most probable class is the right one.",
    "learning-rate": "The rate of a job, divided by the number of jobs whose models are averaged.",
    "relative-change": "Change in an iteration by the parameters' size. Healthy: some per cent, and less at the end.",
    "norm": "2-norm of the parameters. One that only grows: try l2-regularize.",
    "max-change": "Near 100 % throughout: the learning rate is too high there, or the max-change too small.",
    "self-repair": "Units whose mean derivative is beyond its limits are pushed back. A persistently high share means "
                   "trouble.",
    "output-derivative": "Root mean square of the derivatives that arrive. Much smaller in the layers far from the "
                         "output: these hardly learn.",
    "clipping": "Derivatives that were too large and cut. More than half: they explode.",
    "values": "Over frames; line: the median unit, band: nine units of ten.",
    "derivatives": "Over frames; line: the median unit, band: nine units of ten. Near 0: saturated or dead units, "
                   "which learn nothing.",
}
_CURVES = ("objective", "accuracy", "learning")      # beginnings of the names of plots about the whole network
_STYLE = """
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: .6rem 2rem;
         align-items: start }
.columns { columns: 27rem 2; column-gap: 2rem } .columns figure { break-inside: avoid }
.plots figure, .columns figure { margin: 0; padding: .4rem 0 } .plots svg, .columns svg { width: 100% }
figcaption { color: #66727e; font-size: .87rem }
.scroll { overflow-x: auto } .state { margin: .8rem 0 }
tbody th { min-width: 8rem } td.number { white-space: nowrap }
.axis { margin-right: 1rem; cursor: pointer; color: #66727e } input:checked + .axis { color: inherit }
progress { width: 100%; max-width: 24rem; display: block }
pre { overflow-x: auto; background: #eef1f4; padding: .6rem .8rem; font-size: .82rem }
details { margin: .6rem 0 } summary { cursor: pointer } details td { overflow-wrap: anywhere }
@media (max-width: 30rem) { body { margin: 1rem auto; padding: 0 .8rem } th, td { padding-right: .6rem }
}
""" + "\n".join(f"#axis-{axis}:checked ~ .plots figure[data-axis]:not([data-axis={axis}]) {{ display: none }}"
               for axis in AXES)
_SMALLEST = 0.6        # the drawing of the network becomes that small on a narrow screen before it scrolls


def write_report(folders: Sequence[Path], output: Path, tensorboard: bool = False) -> Path:
    """Write ``report.html``, ``report.csv`` and the plots into ``output``, which is made; returns the page's path.

    The page of a training that runs is reloaded by the browser now and then; :func:`follow` rewrites it.

    Parameters
    ----------
    folders : trainings; objectives are compared, the rest is about the first
    tensorboard : whether ``output`` gets a folder ``tensorboard``, of all of them, as well

    Without matplotlib the page says how to install it in the place of the plots.

    Raises
    ------
    UsageError : a folder without logs; ``output`` cannot be made
    Nnet3Error : the package for TensorBoard is not installed
    """
    trainings: Trainings = dict(zip(_labels(folders), map(read_iterations, folders), strict=True))
    overviews = dict(zip(trainings, map(read_overview, folders), strict=True))
    iterations = next(iter(trainings.values()))
    plots = {} if why_no_plots() else training_plots(
        trainings, {label: overview.epochs_before(trainings[label]) for label, overview in overviews.items()})
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {output} for the report cannot be made: {error.strerror}",
                         "name another with --output-dir") from None
    drawings = {name: save(figure, output, name) for name, figure in plots.items()}
    text = _page(folders[0], trainings, overviews, drawings, _network(folders[0], iterations, output))
    write_text(str(output / "report.csv"), training_table(trainings))
    if tensorboard:
        write_events(trainings, output / "tensorboard", (folders[0] / "log").stat().st_mtime)
    path = output / "report.html"
    write_text(str(path), text)
    return path


def follow(folders: Sequence[Path], output: Path, tensorboard: bool = False,
           sleep: Callable[[float], None] = time.sleep) -> Path:
    """Repeat :func:`write_report` as long as the first of the trainings runs.

    Raises UsageError as it does, but waits for the first logs of a training that runs.
    """
    while True:
        running, begun = is_running(folders[0]), time.monotonic()
        try:
            path = write_report(folders, output, tensorboard)
        except NoLogs:
            if not running:
                raise
        else:
            if not running:
                return path
        sleep(max(_RELOAD, _PAUSE * (time.monotonic() - begun)))


def training_table(trainings: Trainings) -> str:
    """Return the values of the curves as CSV: a row for each training and iteration, blank where unknown.

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
    """Return labels for trainings: the names of their folders, or the whole paths if two names are equal."""
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


def _network(folder: Path, iterations: Sequence[Iteration], output: Path) -> str:
    """Draw the last model in a folder, write ``network.svg``, and return it as HTML; without a model, a sentence."""
    names = ["final.mdl", "final.raw", *(f"{number}.{ending}" for number in range(iterations[-1].number + 1, -1, -1)
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
            least = _SMALLEST * (drawing.bounds[2] - drawing.bounds[0])
            shown = _inline(svg).replace("<svg", f'<svg style="min-width: {least:.0f}px"', 1)
            return f'<figure class="network">{shown}</figure>'
    return f"<p>There is no model in {html.escape(str(folder))}.</p>"


def _page(folder: Path, trainings: Trainings, overviews: Overviews, drawings: Mapping[str, str], network: str) -> str:
    first = folder.resolve().name
    title = f"Training of {first}" if len(trainings) == 1 else f"Trainings {', '.join(trainings)}"
    note = "" if len(trainings) == 1 else (
        f"<p>The first table and plots compare all, the rest is about {html.escape(first)}.</p>")
    overview, iterations = next(iter(overviews.values())), next(iter(trainings.values()))
    reload = f'<meta http-equiv="refresh" content="{_RELOAD}">' if overview.is_running else ""
    parts = [note, _state(overview, iterations), f'<div class="scroll">{_summary(trainings, overviews)}</div>',
             _how(overview), "<h2>Warnings</h2>", _folded_list(all_messages(iterations)),
             "<h2>How it went</h2>", _figures(drawings), '<h2 id="network">Network</h2>', network]
    return page(title, str(folder.resolve()), parts, f"<style>{_STYLE}</style>{reload}")


def _figures(drawings: Mapping[str, str]) -> str:
    """Return the plots with captions, and buttons to choose the axis if plots have several."""
    if not drawings:
        return f"<p>{html.escape(why_no_plots())}</p>"
    names = {name: split_name(name) for name in drawings}
    others = list(dict.fromkeys(axis for _, axis in names.values() if axis))
    several = {plot for plot, axis in names.values() if axis}
    default = EPOCH if ITERATION in others else ITERATION
    parts, inside = [_axis_choice([default, *others]) if others else "", '<div class="plots">'], False
    for name, svg in drawings.items():
        plot, axis = names[name]
        if not inside and plot.partition("-")[0] not in _CURVES:
            inside = True
            parts.append('</div><h2>Inside the network</h2><div class="columns">')
        about = _ABOUT.get(plot) or _ABOUT.get(plot.partition("-")[0], "")
        caption = f"<figcaption>{html.escape(about)}</figcaption>" if about else ""
        over = f' data-axis="{axis or default}"' if plot in several else ""
        parts.append(f'<figure id="{html.escape(name)}"{over}>{_inline(svg, name)}{caption}</figure>')
    return "\n".join([*parts, "</div>"])


def _axis_choice(axes: Sequence[str]) -> str:
    """Return HTML with a radio button for each axis; the page's style sheet shows the figures of the chosen one."""
    return "Over " + "".join(
        f'<input type="radio" name="axis" id="axis-{axis}"{" checked" * (axis == axes[0])}>'
        f'<label class="axis" for="axis-{axis}"> {axis if axis.endswith("s") else axis + "s"}</label>' for axis in axes)


def _state(overview: Overview, iterations: Sequence[Iteration]) -> str:
    """Return a paragraph on whether the training runs and how far it is."""
    done = sum(1 for iteration in iterations for job in iteration.jobs.values() if job.objectives)
    part = min(done / overview.archives, 1.0) if overview.archives > 0 else math.nan
    if overview.is_finished:
        return '<p class="state">Finished.</p>'
    has_plan = math.isfinite(part)
    words = "Training now" if overview.is_running else "Not finished"
    if has_plan:
        words += f": epoch {part * overview.epochs:.2f} of {overview.epochs:g}, iteration {iterations[-1].number} of " \
                 f"{overview.iterations - 1}"
    trained = seconds_before(iterations).get(iterations[-1].number, 0.0)
    if has_plan and overview.is_running and trained and part:
        words += f"; about {_duration(trained * (1 - part) / part)} left"
    bar = f'<progress value="{part:.3f}"></progress>' if has_plan else ""
    return f'<p class="state">{words}.{bar}</p>'


def _how(overview: Overview) -> str:
    """Return HTML with the command of the training and, collapsed, its options; "" if they are unknown."""
    parts = []
    if overview.command:
        parts.append(f"<h2>Command</h2><pre>{html.escape(_lines(overview.command))}</pre>")
    if overview.options:
        rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
                       for name, value in sorted(overview.options.items()))
        parts.append(f'<details><summary>Options</summary><div class="scroll"><table>{rows}</table></div></details>')
    return "\n".join(parts)


def _lines(command: str) -> str:
    """Return a command with one option per line, still valid for a shell; unchanged if it cannot be split."""
    try:
        return " \\\n  ".join(map(shlex.quote, shlex.split(command)))
    except ValueError:
        return command


def _folded_list(lines: Sequence[str]) -> str:
    """Return an HTML list of the first lines, and of the others in a collapsed element."""
    rest = lines[_SHOWN_WARNINGS:]
    more = f"<details><summary>{len(rest)} more</summary>{list_of(rest)}</details>" if rest else ""
    return list_of(lines[:_SHOWN_WARNINGS]) + more


def _inline(svg: str, prefix: str = "network") -> str:
    """Return an SVG document as an element of a page, with ids that differ from those of other drawings."""
    svg = svg[svg.index("<svg"):]
    names = set(re.findall(r'\bid="([^"]+)"', svg))
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    return re.sub(r'(url\(#|href="#)([^")]+)', lambda match: f"{match[1]}{prefix}-{match[2]}"
                  if match[2] in names else match[0], svg)


def _summary(trainings: Trainings, overviews: Overviews) -> str:
    """Return an HTML table with a column for each training; there are no headings for a single one."""
    results = [_results(iterations, overviews[label]) for label, iterations in trainings.items()]
    efforts = [_effort(iterations, overviews[label]) for label, iterations in trainings.items()]
    names = list(dict.fromkeys(name for facts in (*results, *efforts) for name in facts))
    rows = [reached | spent for reached, spent in zip(results, efforts, strict=True)]
    return table_of(["", *trainings] if len(rows) > 1 else (),
                    [(name, *(facts.get(name, "–") for facts in rows)) for name in names])


def _results(iterations: Sequence[Iteration], overview: Overview) -> dict[str, str]:
    """Return rows of the summary, name -> text: word error rates, then objectives and accuracies per frame."""
    facts = {f"word error rate, {name}": f"{rate:.2f} % ({errors:,} of {words:,})"
             for name, (rate, errors, words) in overview.word_errors.items()}
    kinds = ("objective", "accuracy")
    for output in dict.fromkeys(output for kind in kinds for output in diagnosed_outputs(iterations, kind)):
        for kind in kinds:
            for data, words in (("valid", "held-out data"), ("train", "training data")):
                values = [value for _, value in series(iterations, data, output, kind)]
                final = overview.final.get(data, {}).get((output, kind))
                if final is not None:
                    values.append(final)
                if values:
                    facts[f"{kind} of '{output}', {words}"] = f"{values[-1]:.4f} (best {max(values):.4f})"
    return facts


def _effort(iterations: Sequence[Iteration], overview: Overview) -> dict[str, str]:
    """Return rows of the summary, name -> text, about duration, epochs, frames, jobs, and size of the network."""
    jobs = [job for iteration in iterations for job in iteration.jobs.values()]
    facts = {"duration": _duration(overview.seconds)} if math.isfinite(overview.seconds) else {}
    seconds = [max((job.seconds for job in iteration.jobs.values()), default=math.nan) for iteration in iterations
               if iteration.jobs]
    if seconds and all(map(math.isfinite, seconds)):
        facts["time in training jobs"] = _duration(sum(seconds))
    if math.isfinite(overview.epochs):
        facts["epochs"] = f"{overview.epochs:g}"
    facts["iterations"] = str(sum(1 for iteration in iterations if iteration.jobs))
    facts["jobs at once"] = _range([len(iteration.jobs) for iteration in iterations if iteration.jobs])
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
    return facts


def _range(values: Sequence[int]) -> str:
    if not values:
        return "–"
    return str(min(values)) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
