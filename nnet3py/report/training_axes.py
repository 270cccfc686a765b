"""The axes of plots of a training: iterations, with epochs and time below; for several trainings a plot over each.

Iterations of trainings with other numbers of jobs, or other data, cannot be compared; epochs and hours can.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nnet3py.report.svg import GRAY, INK
from nnet3py.report.training_folder import seconds_before
from nnet3py.report.training_logs import Iteration

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
    """The horizontal axis of a plot.

    Attributes
    ----------
    name : one of AXES
    places : label -> iteration -> where it is on the axis; empty for iterations
    rows : what stands below the numbers of iterations
    """

    name: str
    places: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    rows: Values = field(default_factory=dict)

    def points(self, label: str, values: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
        """(iteration, value) -> (place, value); an iteration whose place is not known is left out."""
        if not self.places:
            return [(float(number), value) for number, value in values]
        places = self.places[label]
        return [(places[number], value) for number, value in values if number in places]

    def label(self, axes: Any) -> None:
        """Label matplotlib's ``axes`` so."""
        if self.places:
            axes.set_xlabel("epochs" if self.name == EPOCH else f"{self.name} in training jobs")
        elif not self.rows:
            whole_iterations(axes)
            axes.set_xlabel(ITERATION)
        else:
            whole_iterations(axes)
            _label_rows(axes, self.rows)


def choose_axes(trainings: Trainings, epochs: Epochs) -> list[Axis]:
    """One for one training; for several all that are known of each: epochs, iterations, time."""
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
    """Return the name of a plot over ``axis``: for the first of ``axes`` the plot's name alone."""
    return name if axis is axes[0] else f"{name}{_BY}{axis.name}"


def split_name(name: str) -> tuple[str, str]:
    """Return the plot and its axis, which is empty where the name does not say."""
    plot, _, axis = name.rpartition(_BY)
    return (plot, axis) if axis in AXES else (name, "")


def whole_iterations(axes: Any) -> None:
    """No half iterations along ``axes``."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(_TICKS, integer=True, min_n_ticks=1))


def _label_rows(axes: Any, rows: Values) -> None:
    """Iterations below the axis, and what each of ``rows`` says of them in lines below."""
    limits = axes.get_xlim()
    labeled = set.intersection(*(set(row) for row in rows.values()))
    ticks = [round(tick) for tick in axes.xaxis.get_major_locator().tick_values(*limits) if round(tick) in labeled]
    axes.set_xticks(ticks, ["\n".join([str(tick), *(_short(row[tick], row) for row in rows.values())])
                            for tick in ticks])
    axes.set_xlim(limits)
    axes.annotate("\n".join([ITERATION, *rows]), (0.0, 0.0), (-14.0, -7.0), "axes fraction", "offset points",
                  ha="right", va="top", color=INK)


def _short(value: float, row: Mapping[int, float]) -> str:
    """With one decimal, or two where the whole row is small."""
    text = f"{value:.2f}" if max(row.values()) < 2.0 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def leave_out_the_start(axes: Any) -> None:
    """Begin the axis of values where the lines are later, if what is before takes most of it; a note says so.

    The untrained model knows nothing; drawn with it, all later ones look alike. In long trainings the first tenth is
    left out as well.
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
