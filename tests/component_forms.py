"""Every form of every component type, made from its config line and driven by hand on rows such as a compiler makes."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from component_configs import CONFIGS
from numpy_ops import NumpyRandom

from nnet3py.components.base import Component, Properties
from nnet3py.components.registry import component_class
from nnet3py.config_line import ConfigLine
from nnet3py.index import NO_TIME

FORMS = [(type_name, line) for type_name, lines in CONFIGS.items() for line in lines]
FORM_NAMES = [f"{type_name}-{i}" for type_name, lines in CONFIGS.items() for i in range(len(lines))]
NUM_ROWS = 5            # for components that do not look at indexes
SPREAD = 0.5            # of what is added to parameters, some of which would start as 0 or 1


def make(type_name: str, line: str, seed: int = 0) -> Component:
    """The component that a config line makes."""
    config = ConfigLine(line)
    component = component_class(type_name).from_config(config, np.random.default_rng(seed))
    config.check_all_used()
    return component


def make_trained(type_name: str, line: str, seed: int = 0) -> Component:
    """The same with parameters moved away from where they start."""
    component = make(type_name, line, seed)
    if component.has(Properties.UPDATABLE):
        component.perturb(SPREAD, np.random.default_rng(seed))
    return component


def parts(component: Component) -> Iterator[Component]:
    """The component and those inside it."""
    yield component
    for value in vars(component).values():
        for inner in value if isinstance(value, list | tuple) else [value]:
            if isinstance(inner, Component):
                yield from parts(inner)


def arrays(component: Component) -> dict[str, np.ndarray]:
    """Parameters and statistics, those of inner components too, by names that tell them apart."""
    found = {}
    for number, part in enumerate(parts(component)):
        for name in (*part.PARAMETERS, *part.STATISTICS):
            if getattr(part, name) is not None and getattr(part, "is_updatable", True):
                found[f"{number}.{name}"] = getattr(part, name)
    return found


def in_float64(component: Component) -> Component:
    """A copy whose parameters are float64."""
    component = component.copy()
    for part in parts(component):
        for name in part.PARAMETERS:
            if getattr(part, name) is not None:
                setattr(part, name, getattr(part, name).astype(np.float64))
    return component


def as_gradient(component: Component) -> Component:
    """A copy at zero that collects derivatives."""
    gradient = component.copy()
    gradient.scale(0.0)
    if gradient.has(Properties.UPDATABLE):
        gradient.set_as_gradient()
    return gradient


@dataclass
class Rows:
    """What a component is given to know of its rows: their numbers and its own precomputed indexes."""

    name: str
    num_inputs: int
    num_outputs: int
    indexes: Any


def _grid(sequences, times, extra=(0,)) -> np.ndarray:
    return np.array([[n, t, x] for t in times for x in extra for n in sequences], dtype=np.int32)


# Output indexes, and whether an input frame (n, t, x) exists.
PATTERNS = {
    "frames": (_grid(range(2), range(5)), lambda n, t, x: np.full(n.shape, True)),
    "one": (_grid([3], [2]), lambda n, t, x: np.full(n.shape, True)),
    "subsampled": (_grid(range(3), range(0, 9, 3)), lambda n, t, x: np.full(n.shape, True)),
    "uneven": (_grid(range(2), range(4))[[0, 2, 3, 4, 6, 7]], lambda n, t, x: np.full(n.shape, True)),
    "extra": (_grid(range(2), range(3), range(4)), lambda n, t, x: np.full(n.shape, True)),
    "edges": (_grid(range(2), range(7)), lambda n, t, x: (t >= 0) & (t < 7)),
    "holes": (_grid(range(2), range(9)), lambda n, t, x: (t + n) % 4 != 1),
}
# Components whose outputs exist at some times only: type -> the attribute that says how far apart they are.
TIME_STEP = {"StatisticsExtractionComponent": "output_period", "StatisticsPoolingComponent": "input_period"}


def row_patterns(component: Component) -> list[Rows]:
    """The rows to try a component with: those of ``PATTERNS`` of which it can compute any."""
    if component.has(Properties.SIMPLE):
        return [Rows("simple", NUM_ROWS, NUM_ROWS, None)]
    found = (_rows(component, name) for name in PATTERNS)
    return [rows for rows in found if rows is not None]


def _rows(component: Component, name: str) -> Rows | None:
    """The rows of a pattern as the compiler would give them to the component."""
    outputs, exists = PATTERNS[name]
    outputs = outputs.copy()
    outputs[:, 1] *= getattr(component, TIME_STEP.get(type(component).__name__, ""), 1)
    wanted = component.input_indexes(outputs)
    available = (wanted[..., 1] != NO_TIME) & exists(*np.moveaxis(wanted, -1, 0))
    computable, used = component.is_computable(outputs, available)
    if not computable.any():
        return None
    outputs, inputs = outputs[computable], wanted[computable][(used & available)[computable]]
    inputs = np.unique(inputs[:, [1, 2, 0]], axis=0)[:, [2, 0, 1]]        # their order is t, x, n
    if component.has(Properties.REORDERS_INDEXES):
        inputs, outputs = component.reorder_indexes(inputs, outputs)
    return Rows(name, len(inputs), len(outputs), component.precompute_indexes(inputs, outputs, True))


def _statistics(x: np.ndarray) -> None:
    """Counts in the first column are positive, and sums of squares in the second half of the others large."""
    x[:, 0] = 1 + np.abs(x[:, 0])
    x[:, 1 + (x.shape[1] - 1) // 2:] += 20


# Components that are given more than any numbers: type -> what makes such inputs of normal numbers, in place.
MEANINGFUL_INPUTS = {"StatisticsPoolingComponent": _statistics}


@dataclass
class Pass:
    """A forward and a backward pass of one component; every pass draws the same random numbers.

    What the component's flags do not ask for is not given to it.
    """

    ops: Any
    component: Component
    rows: Rows
    memo: Any = field(default=None, init=False)

    def forward(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Compute into ``y``, which may be ``x`` and is returned."""
        self._begin()
        if self.component.has(Properties.USES_MEMO):
            self.memo = self.component.new_memo(self.ops, len(y))
        self.component.propagate(self.ops, self.rows.indexes, x, y, self.memo)
        return y

    def backward(self, x: np.ndarray, y: np.ndarray, dy: np.ndarray, dx: np.ndarray | None,
                 update: Component | None = None) -> np.ndarray | None:
        """Compute into ``dx``, which may be ``dy`` or None and is returned."""
        self._begin()
        self.component.backprop(self.ops, self.rows.indexes,
                                x if self.component.has(Properties.BACKPROP_NEEDS_INPUT) else None,
                                y if self.component.has(Properties.BACKPROP_NEEDS_OUTPUT) else None,
                                dy, self.memo, update, dx)
        return dx

    def _begin(self) -> None:
        self.ops.reset_scratch()
        self.ops.random = NumpyRandom(seed=1)

    # -- matrices of the right sizes

    def inputs(self, dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
        """Normal numbers for the input."""
        x = self._normal(self.rows.num_inputs, self.component.input_dim, dtype, seed)
        MEANINGFUL_INPUTS.get(type(self.component).__name__, lambda x: None)(x)
        return x

    def outputs(self, dtype: Any = np.float64, seed: int = 1) -> np.ndarray:
        """Normal numbers for the output or its derivative."""
        return self._normal(self.rows.num_outputs, self.component.output_dim, dtype, seed)

    @staticmethod
    def _normal(rows: int, cols: int, dtype: Any, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal((rows, cols)).astype(np.float32).astype(dtype)
