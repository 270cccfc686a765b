"""Two networks side by side: which components differ, and by how much."""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nnet3py.components.base import Component
from nnet3py.network.model_file import AnyModelOrFile, network_or_file
from nnet3py.network.structure import component_arrays, component_form
from nnet3py.report.tables import table

HEADINGS = ("component", "difference", "largest", "relative")
EQUAL, NUMBERS, FORM = "none", "numbers", "form"
ONLY_FIRST, ONLY_SECOND = "only in the first", "only in the second"


@dataclass(frozen=True)
class ComponentDifference:
    """A component of either network.

    Attributes
    ----------
    difference : ``none``; ``numbers``; ``form``, that is type, dimensions or settings other than training's;
        ``only in the first``, ``only in the second``
    absolute : the largest absolute difference of two numbers; NaN where they cannot be compared
    relative : the largest difference of two numbers, relative to the larger one of them
    array : the one that has the largest absolute difference, such as ``linear_params``; empty if there is none
    """

    name: str
    difference: str
    absolute: float
    relative: float
    array: str = ""


@dataclass(frozen=True, repr=False)
class Comparison:
    """What :func:`compare` found; printed, a table of the components that differ.

    Attributes
    ----------
    components : all of either network, in the first one's order
    same_nodes : whether the nodes are the same
    """

    components: tuple[ComponentDifference, ...]
    same_nodes: bool

    @property
    def different(self) -> tuple[ComponentDifference, ...]:
        """Those components that differ."""
        return tuple(each for each in self.components if each.difference != EQUAL)

    @property
    def same(self) -> bool:
        """Whether the networks are the same; then ``a == b``, if the order of the components is, too."""
        return self.same_nodes and not self.different

    def __bool__(self) -> bool:
        """Return whether the networks are the same, so that ``if nnet3py.compare(a, b)`` asks that."""
        return self.same

    def __str__(self) -> str:
        rows = [(each.name, " in ".join(filter(None, (each.difference, each.array))), *(
            "" if math.isnan(value) else f"{value:.3g}" for value in (each.absolute, each.relative)))
            for each in self.different]
        counts = f"{len(rows)} of {len(self.components)} components differ"
        nodes = "the nodes are the same" if self.same_nodes else "the nodes differ"
        return (table(HEADINGS, rows) if rows else "") + f"{counts}; {nodes}"

    def __repr__(self) -> str:
        return str(self)


def compare(a: AnyModelOrFile, b: AnyModelOrFile) -> Comparison:
    """Which components of two networks differ, and by how much.

    Compared are parameters, fixed numbers and the statistics of batch normalization, for components of the same name;
    not what concerns training only, such as learning rates, nor test modes.

    >>> print(nnet3py.compare(nnet, "final.raw"))

    Parameters
    ----------
    a, b : networks, acoustic models, or the files of some

    Returns
    -------
    The comparison: ``.same``, ``.different``; printed, a table.

    Raises
    ------
    UsageError : something else
    Nnet3Error : a file that cannot be read
    """
    first, second = network_or_file(a), network_or_file(b)
    mine, theirs = dict(first.named_components()), dict(second.named_components())
    rows = [_difference(name, mine.get(name), theirs.get(name)) for name in {**mine, **theirs}]
    return Comparison(tuple(rows), first.config_lines() == second.config_lines())


def _difference(name: str, mine: Component | None, theirs: Component | None) -> ComponentDifference:
    if mine is None or theirs is None:
        return ComponentDifference(name, ONLY_FIRST if theirs is None else ONLY_SECOND, math.nan, math.nan)
    if component_form(mine) != component_form(theirs):
        return ComponentDifference(name, FORM, math.nan, math.nan)
    others = component_arrays(theirs)
    sizes = {array: _sizes(value, others[array]) for array, value in component_arrays(mine).items()}
    largest = max(sizes, key=lambda array: sizes[array][0], default="")
    absolute = sizes[largest][0] if sizes else 0.0
    if absolute == 0.0:
        return ComponentDifference(name, EQUAL, 0.0, 0.0)
    return ComponentDifference(name, NUMBERS, absolute, max(size for _, size in sizes.values()), largest)


def _sizes(mine: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Return the largest absolute and relative difference; infinite where one number only is NaN."""
    if np.array_equal(mine, theirs, equal_nan=True):
        return 0.0, 0.0
    first, second = mine.astype(np.float64), theirs.astype(np.float64)
    differ = (first != second) & ~(np.isnan(first) & np.isnan(second))
    first, second = first[differ], second[differ]
    absolute = np.abs(first - second)
    relative = absolute / np.maximum(np.abs(first), np.abs(second))
    return (float(np.where(np.isnan(absolute), np.inf, absolute).max()),
            float(np.where(np.isnan(relative), np.inf, relative).max()))
