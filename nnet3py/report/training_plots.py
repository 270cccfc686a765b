"""Plots of a training's logs, made with matplotlib (the extra ``plot``), over iterations, epochs or time.

Iterations of trainings with different numbers of jobs, or different data, cannot be compared; epochs and hours can.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnet3py.errors import Nnet3Error
from nnet3py.extras import load
from nnet3py.report.monitor import mean_derivatives
from nnet3py.report.svg import BLUE, GRAY, GREEN, INK, ORANGE
from nnet3py.report.training_logs import (
    ComponentLine,
    Iteration,
    ProgressLog,
    Summary,
    diagnosed_outputs,
    seconds_before,
    series,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Trainings = Mapping[str, Sequence[Iteration]]      # label -> its iterations
Values = dict[str, dict[int, float]]               # row -> iteration -> value
Epochs = Mapping[str, Mapping[int, float]]         # label -> iteration -> passes before it; empty: unknown

ITERATION, EPOCH = "iteration", "epoch"
_UNITS = ((7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))   # from so many seconds on
AXES = (EPOCH, ITERATION, *(unit for _, _, unit in _UNITS))
_BY = "-by-"
_TICKS = 5
_FEW_POINTS, _MANY_POINTS = 3, 9                   # from so many on the first one, or tenth, may be left out of a plot


@dataclass(frozen=True)
class Axis:
    """Horizontal axis of a plot."""

    name: str    # one of AXES
    # label of a training -> iteration -> position on the axis; empty for an axis of iterations
    places: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    # further lines of tick labels below the iterations: name of the line -> iteration -> value
    rows: Values = field(default_factory=dict)

    def points(self, label: str, values: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
        """Convert (iteration, value) pairs to (position on the axis, value); skip iterations of unknown position."""
        if not self.places:
            return [(float(number), value) for number, value in values]
        places = self.places[label]
        return [(places[number], value) for number, value in values if number in places]

    def label(self, axes: Any) -> None:
        """Set the label and the ticks of the horizontal axis of matplotlib's ``axes``."""
        if self.places:
            axes.set_xlabel("epochs" if self.name == EPOCH else f"{self.name} in training jobs")
        elif not self.rows:
            whole_iterations(axes)
            axes.set_xlabel(ITERATION)
        else:
            whole_iterations(axes)
            _label_rows(axes, self.rows)


def choose_axes(trainings: Trainings, epochs: Epochs) -> list[Axis]:
    """Choose the horizontal axes of plots.

    One training has an axis of iterations, with epochs and time as further tick labels. Several have an axis of
    epochs, one of iterations, and one of time, of which the first and last are left out if unknown.
    """
    seconds = {label: seconds_before(iterations) for label, iterations in trainings.items()}
    longest = max((value for times in seconds.values() for value in times.values()), default=0.0)
    size, unit = next((size, unit) for least, size, unit in _UNITS if longest >= least)
    times = {label: {number: value / size for number, value in before.items()} for label, before in seconds.items()}
    if len(trainings) == 1:
        [label] = trainings
        rows = {name: dict(row) for name, row in ((EPOCH, epochs.get(label, {})), (unit, times[label])) if row}
        return [Axis(ITERATION, rows=rows)]
    axes = [Axis(EPOCH, epochs)] if all(epochs.get(label) for label in trainings) else []
    axes.append(Axis(ITERATION))
    if all(times.values()):
        axes.append(Axis(unit, times))
    return axes


def figure_name(name: str, axis: Axis, axes: Sequence[Axis]) -> str:
    """Return the name of a figure, from the name of the plot and of the axis; without the latter for ``axes[0]``."""
    return name if axis is axes[0] else f"{name}{_BY}{axis.name}"


def split_name(name: str) -> tuple[str, str]:
    """Split the name of a figure into plot and axis, which is "" if the name has none."""
    plot, _, axis = name.rpartition(_BY)
    return (plot, axis) if axis in AXES else (name, "")


def whole_iterations(axes: Any) -> None:
    """Let the horizontal axis of matplotlib's ``axes`` have ticks at integers only."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(_TICKS, integer=True, min_n_ticks=1))


def _label_rows(axes: Any, rows: Values) -> None:
    """Label the ticks with iterations and, in further lines, the values of ``rows``."""
    limits = axes.get_xlim()
    labeled = set.intersection(*(set(row) for row in rows.values()))
    ticks = [round(tick) for tick in axes.xaxis.get_major_locator().tick_values(*limits) if round(tick) in labeled]
    axes.set_xticks(ticks, ["\n".join([str(tick), *(_short(row[tick], row) for row in rows.values())])
                            for tick in ticks])
    axes.set_xlim(limits)
    axes.annotate("\n".join([ITERATION, *rows]), (0.0, 0.0), (-14.0, -7.0), "axes fraction", "offset points",
                  ha="right", va="top", color=INK)


def _short(value: float, row: Mapping[int, float]) -> str:
    """Format a value of a row of tick labels: two decimals if all values of the row are below 2, else one."""
    text = f"{value:.2f}" if max(row.values()) < 2.0 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def leave_out_the_start(axes: Any) -> None:
    """Let the vertical axis leave out the first values if they would take most of it, and write that on the plot.

    Beside the untrained model all later ones look alike. In long trainings the first tenth is left out, too.
    """
    lines = [line.get_ydata() for line in axes.lines]
    if max(map(len, lines), default=0) < _FEW_POINTS:
        return
    lowest, high = min(line.min() for line in lines), max(line.max() for line in lines)
    settled = [line[-(-(len(line) - 1) // 10) if len(line) >= _MANY_POINTS else 1:] for line in lines]
    low = min(part.min() for part in settled if part.size)
    if high - lowest > 2 * (high - low) > 0:
        axes.set_ylim(low - 0.3 * (high - low), high + 0.1 * (high - low))
        axes.annotate(f"begins at {lowest:.3g}, below", (0.0, 1.0), (6.0, -4.0), "axes fraction", "offset points",
                      va="top", color=GRAY)         # where lines that rise leave room


_COLORS = (BLUE, ORANGE, GREEN, "#8b5fbf", "#b3435f", "#5b7f8c")
_WIDTH, _HEIGHT = 4.8, 3.3                         # inches: two side by side on a page, one on a narrow screen
_ROW, _FRAME = 0.26, 1.3                           # inches: a row of a map, and what is around the rows
_GRID_COLUMNS, _GRID_HEIGHT = 2, 1.4
_SUBS, _FEW_SUBS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 3.0)      # numbers in each decade along a logarithmic axis
_WIDE = 20.0                                       # a range in which the second are enough
_PERCENTILE_5, _MEDIAN, _PERCENTILE_95 = 3, 6, 9   # places in a summary
_STYLE = {"font.size": 10.0, "axes.titlesize": 11.5, "axes.edgecolor": GRAY, "axes.labelcolor": INK, "text.color": INK,
          "xtick.color": INK, "ytick.color": INK, "axes.grid": True, "grid.color": "#e3e7eb", "axes.axisbelow": True,
          "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "nnet3py", "svg.fonttype": "none",
          "font.family": "sans-serif", "legend.frameon": False}


def training_plots(trainings: Trainings, epochs: Epochs | None = None) -> dict[str, Figure]:
    """Make all plots for which the logs have values, by name, the most important first.

    Objectives, accuracies and learning rates are of all ``trainings``, the rest of the first one. The former are drawn
    over each axis of :func:`~nnet3py.report.training_plots.choose_axes`, which is part of the name (``split_name``).
    Raises Nnet3Error where matplotlib is not installed.
    """
    first = next(iter(trainings.values()))
    axes = choose_axes(trainings, epochs or {})
    everything = [iteration for iterations in trainings.values() for iteration in iterations]
    figures: dict[str, Figure | None] = {
        figure_name(f"{kind}-{output}", axis, axes): _curves(trainings, output, kind, axis)
        for kind in ("objective", "accuracy") for output in diagnosed_outputs(everything, kind) for axis in axes}
    for axis in axes:
        figures[figure_name("learning-rate", axis, axes)] = _learning_rates(trainings, axis)
    for name, (title, values, log) in component_values(first).items():
        if values:
            figures[name] = _map(title, values, log)
    for name, (title, pick) in {"values": ("Mean values of units", "value-avg"),
                                "derivatives": ("Mean derivatives of units", "deriv-avg")}.items():
        bands = _bands(first, pick)
        if bands:
            figures[name] = _small_plots(title, bands)
    return {name: figure for name, figure in figures.items() if figure is not None}


def save(figure: Figure, folder: Path, name: str) -> str:
    """Write ``NAME.svg`` and ``NAME.png`` into ``folder``; return the text of the SVG."""
    with _style():
        figure.savefig(folder / f"{name}.png", dpi=110)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    return (folder / f"{name}.svg").read_text(encoding="utf-8")


def _style() -> Any:
    return _matplotlib().rc_context(_STYLE)


def why_no_plots() -> str:
    """Return a sentence on how to install matplotlib if it is missing, else ""."""
    try:
        _matplotlib()
    except Nnet3Error as error:
        return str(error)
    return ""


def _matplotlib() -> Any:
    return load("matplotlib", "plots need", "plot")


def _figure(width: float, height: float) -> Any:
    _matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _plain_numbers(axis: Any) -> None:
    """Format tick labels of a logarithmic axis as 0.0015 rather than 1.5 × 10⁻³."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=_FEW_SUBS if high > _WIDE * low else _SUBS))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))


def _curves(trainings: Trainings, output: str, kind: str, axis: Axis) -> Figure:
    """Plot the objective or accuracy of an output: on training data as thin lines, on held-out data as thick ones."""
    with _style():
        figure = _figure(_WIDTH, _HEIGHT)
        axes = figure.subplots()
        for color, (label, iterations) in zip(_COLORS * len(trainings), trainings.items(), strict=False):
            for data, what, width, style in (("train", "training", 1.2, "--"), ("valid", "held out", 2.2, "-")):
                points = [(x, y) for x, y in axis.points(label, series(iterations, data, output, kind))
                          if math.isfinite(y)]
                if points:
                    axes.plot(*zip(*points, strict=True), color=color, linewidth=width, linestyle=style,
                              marker="o" if len(points) < 3 else None,
                              label=what if len(trainings) == 1 else f"{label}, {what}")
        axes.set_title(f"{kind.capitalize()} per frame of '{output}'", loc="left")
        if axes.lines:
            axes.legend(loc="lower right")
            leave_out_the_start(axes)
        axis.label(axes)
    return figure


def _learning_rates(trainings: Trainings, axis: Axis) -> Figure | None:
    with _style():
        figure = _figure(_WIDTH, _HEIGHT)
        axes = figure.subplots()
        drawn = False
        for color, (label, iterations) in zip(_COLORS * len(trainings), trainings.items(), strict=False):
            points = axis.points(label, effective_rates(iterations))
            if points:
                axes.plot(*zip(*points, strict=True), color=color, label=label, marker="o" if len(points) < 3 else None)
                drawn = True
        if not drawn:
            return None
        axes.set_title("Effective learning rate", loc="left")
        axes.set_yscale("log")
        _plain_numbers(axes.yaxis)
        axis.label(axes)
        if len(trainings) > 1:
            axes.legend()
    return figure


def effective_rates(iterations: Sequence[Iteration]) -> list[tuple[int, float]]:
    """Return (iteration, learning rate of a job divided by the number of jobs) pairs, as far as logs have them."""
    return [(iteration.number, job.learning_rate / len(iteration.jobs)) for iteration in iterations
            for job in list(iteration.jobs.values())[:1] if job.learning_rate > 0]


def component_values(iterations: Sequence[Iteration]) -> dict[str, tuple[str, Values, bool]]:
    """Return the data of all heat maps: name -> (title, values by component and iteration, whether colors are log)."""
    return {
        "relative-change": ("Relative change of parameters",
                            _of_progress(iterations, lambda log: log.relative_changes.items()), True),
        "norm": ("Size of parameters (2-norm)", _of_progress(iterations, lambda log: log.norms.items()), True),
        "max-change": ("Minibatches cut by max-change, %", _max_change(iterations), False),
        "self-repair": ("Units under self-repair, %", _of_components(
            iterations, lambda fields: 100 * _number(fields, "self-repaired-proportion")), False),
        "output-derivative": ("Size of derivatives at the output (rms)", _of_components(
            iterations, lambda fields: _mean(fields, "oderiv-rms")), True),
        "clipping": ("Derivatives clipped, %", _of_components(
            iterations, lambda fields: 100 * _number(fields, "clipped-proportion")), False),
    }


def _max_change(iterations: Sequence[Iteration]) -> Values:
    """Return the per cent of minibatches whose change was limited, the mean over jobs, by component and iteration."""
    limits = {iteration.number: [job.max_change for job in iteration.jobs.values() if job.objectives]
              for iteration in iterations}
    names = sorted({name for jobs in limits.values() for job in jobs for name in job})
    return {name or "(whole network)": {number: sum(job.get(name, 0.0) for job in jobs) / len(jobs)
                                        for number, jobs in limits.items() if jobs} for name in names}


def _of_progress(iterations: Sequence[Iteration], pick: Callable[[ProgressLog], Iterable[tuple[str, Any]]]) -> Any:
    """Return the entries that ``pick`` finds in progress logs, by their name and iteration, without NaN."""
    values: dict[str, dict[int, Any]] = {}
    for iteration in iterations:
        for name, value in pick(iteration.progress) if iteration.progress is not None else ():
            if isinstance(value, Summary) or math.isfinite(value):
                values.setdefault(name, {})[iteration.number] = value
    return values


def _of_components(iterations: Sequence[Iteration], pick: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Return what ``pick`` finds in the fields of components' lines, by component and iteration, without NaN.

    Parts of recurrent cells have entries of their own.
    """
    return _of_progress(iterations, lambda log: ((name, pick(fields)) for component in log.components.values()
                                                 for name, fields in _parts(component)))


def _parts(component: ComponentLine) -> list[tuple[str, Mapping[str, Any]]]:
    inner = {f"{component.name} {key}": fields for key, fields in component.fields.items() if isinstance(fields, dict)}
    return [(component.name, component.fields), *inner.items()]


def _number(fields: Mapping[str, Any], key: str) -> float:
    value = fields.get(key)
    return value if isinstance(value, float) else math.nan


def _mean(fields: Mapping[str, Any], key: str) -> float:
    value = fields.get(key)
    return value.mean if isinstance(value, Summary) else math.nan


def _map(title: str, values: Values, log: bool) -> Figure:
    """Plot a heat map with a row for each component and a column for each iteration."""
    import numpy as np
    from matplotlib.colors import LogNorm, Normalize

    numbers = sorted({number for row in values.values() for number in row})
    matrix = np.array([[row.get(number, math.nan) for number in numbers] for row in values.values()])
    positive = matrix[np.isfinite(matrix) & (matrix > 0)]
    if log and positive.size:
        norm: Any = LogNorm(positive.min(), max(positive.max(), positive.min() * 1.01))
    else:
        norm = Normalize(0.0, max(float(np.nanmax(matrix)), 1e-6) if log else 100.0)
    with _style():
        figure = _figure(_WIDTH, _FRAME + _ROW * len(values))
        axes = figure.subplots()
        axes.grid(False)
        edges = np.arange(len(numbers) + 1) - 0.5
        mesh = axes.pcolormesh(edges, np.arange(len(values) + 1) - 0.5, matrix, norm=norm, cmap="viridis", linewidth=0)
        step = max(1, -(-len(numbers) // (_TICKS + 1)))
        axes.set_xticks(range(0, len(numbers), step), [str(number) for number in numbers[::step]])
        axes.set_yticks(range(len(values)), list(values))
        axes.invert_yaxis()
        axes.set_xlabel("iteration")
        figure.suptitle(title, x=0.02, ha="left", fontsize=_STYLE["axes.titlesize"])   # as wide as names and map
        bar = figure.colorbar(mesh, ax=axes, fraction=0.06, pad=0.02)
        if isinstance(norm, LogNorm):
            _plain_numbers(bar.ax.yaxis)
    return figure


def _bands(iterations: Sequence[Iteration], key: str) -> dict[str, dict[int, Summary]]:
    """Return the summaries in the field ``key`` (values or derivatives) of nonlinearities, by name and iteration."""
    return _of_progress(iterations, lambda log: (
        (name, fields[key]) for component in log.components.values()
        if any(mean_derivatives(component)) or component.summary("deriv-avg") is not None
        for name, fields in _parts(component) if isinstance(fields.get(key), Summary)))     # type: ignore[no-any-return]


def _small_plots(title: str, bands: dict[str, dict[int, Summary]]) -> Figure:
    """Plot, for each nonlinearity, the median over its units, and the band from the 5th to the 95th percentile."""
    rows = -(-len(bands) // _GRID_COLUMNS)
    with _style():
        figure = _figure(_WIDTH, 0.5 + _GRID_HEIGHT * rows)
        grid = figure.subplots(rows, _GRID_COLUMNS, squeeze=False, sharex=True).ravel()
        for axes, (name, summaries) in zip(grid, bands.items(), strict=False):
            numbers = list(summaries)
            low, middle, high = ([summary.percentiles[place] for summary in summaries.values()]
                                 for place in (_PERCENTILE_5, _MEDIAN, _PERCENTILE_95))
            axes.fill_between(numbers, low, high, color=BLUE, alpha=0.18, linewidth=0)
            axes.plot(numbers, middle, color=BLUE, marker="o" if len(numbers) < 3 else None)
            axes.set_title(name, fontsize=9)
            whole_iterations(axes)
        for axes in grid[len(bands):]:
            axes.set_visible(False)
        for axes in grid[:len(bands)][-_GRID_COLUMNS:]:       # the lowest of each column
            axes.tick_params(labelbottom=True)
        figure.suptitle(title, x=0.02, ha="left", fontsize=_STYLE["axes.titlesize"])
    return figure
