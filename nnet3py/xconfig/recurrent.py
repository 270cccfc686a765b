"""What recurrent layers share: a cell, a delay, truncated derivatives, and projections of the output."""
from __future__ import annotations

import math

from nnet3py.xconfig.layer import ConfigLines, Layer, Value, lower

NO_DROPOUT = -1.0

RECURRENCE: dict[str, Value] = {"input": "[-1]", "cell-dim": -1, "clipping-threshold": 30.0, "zeroing-interval": 20,
                                "zeroing-threshold": 15.0, "delay": -1}
PROJECTIONS: dict[str, Value] = {"recurrent-projection-dim": -1, "non-recurrent-projection-dim": -1}

PRODUCT = "ElementwiseProductComponent"
AFFINE = "NaturalGradientAffineComponent"
PER_ELEMENT_SCALE = "NaturalGradientPerElementScaleComponent"


class RecurrentLayer(Layer):
    """A layer with a cell of ``cell-dim`` columns that looks ``delay`` frames back (or ahead, if it is positive).

    Attributes
    ----------
    cell : cell-dim
    projected : columns of the recurrent and of the non-recurrent projection; without projections the cell's and 0
    l2 : the setting l2-regularize, empty if it is zero
    """

    CELL_FROM_INPUT = False      # cell-dim is the input's dimension if it is not given

    def derive(self) -> None:
        if self.CELL_FROM_INPUT and self.integer("cell-dim") <= 0:
            self.values["cell-dim"] = self.input_dim
        self.need_positive("cell-dim")
        self.cell = self.integer("cell-dim")
        self.need(self.integer("delay") != 0, "delay= must not be zero",
                  "it is negative for a layer that goes forward in time, positive for one that goes backward")
        self.need_within(0.0, math.inf, "clipping-threshold", "zeroing-threshold")
        self.need_positive("zeroing-interval")
        self.projected = self._projections() if "recurrent-projection-dim" in self.OPTIONS else (self.cell, 0)
        self.dropout = self.number("dropout-proportion") if "dropout-proportion" in self.OPTIONS else NO_DROPOUT
        self.need(self.dropout == NO_DROPOUT or 0.0 <= self.dropout <= 1.0,
                  f"dropout-proportion= must be from 0 to 1, or -1.0 for none, found {self.dropout}")
        if "self-repair-scale-nonlinearity" in self.OPTIONS:
            self.need_within(0.0, 1.0, "self-repair-scale-nonlinearity")
        l2 = self.number("l2-regularize") if "l2-regularize" in self.OPTIONS else 0.0
        self.need(l2 >= 0.0, f"l2-regularize= must not be negative, found {l2}")
        self.l2 = f"l2-regularize={l2} " if l2 != 0.0 else ""

    def _projections(self) -> tuple[int, int]:
        recurrent, other = "recurrent-projection-dim", "non-recurrent-projection-dim"
        if self.integer(recurrent) <= 0:
            self.values[recurrent] = self.cell // 4
        if self.integer(other) <= 0:
            self.values[other] = self.values[recurrent]
        dims = self.integer(recurrent), self.integer(other)
        self.need(dims[0] > 0, f"{recurrent}= is a quarter of cell-dim={self.cell} unless given, which is nothing")
        self.need(sum(dims) <= self.cell, f"{recurrent}={dims[0]} and {other}={dims[1]} together exceed "
                  f"cell-dim={self.cell}")
        return dims

    def output_dim(self) -> int:
        return sum(self.projected)

    def auxiliary(self, part: str) -> tuple[str, int]:
        return self.at(part), self.cell

    # -- pieces of config lines --------------------------------------------------------------------------------------

    def delayed(self, node: str) -> str:
        """Return the value of the layer's node ``node`` ``delay`` frames away, or zero before the beginning."""
        return f"IfDefined(Offset({self.at(node)}, {self.integer('delay')}))"

    def with_delayed(self, node: str) -> str:
        """Return the layer's input with ``delayed(node)`` appended."""
        return f"Append({self.input}, {self.delayed(node)})"

    def truncation(self) -> str:
        """Return the settings of BackpropTruncationComponent after its dimension."""
        return (f"{self.pairs('clipping-threshold', 'zeroing-threshold', 'zeroing-interval')} "
                f"recurrence-interval={abs(self.integer('delay'))}")

    def self_repair(self) -> str:
        """Return the setting self-repair-scale of sigmoids and tanhs."""
        return f"self-repair-scale={self.number('self-repair-scale-nonlinearity'):.10f}"

    def per_element_options(self) -> str:
        """Return the settings of per-element scales: peephole weights begin at random unless the options say otherwise."""
        options = self.string("ng-per-element-scale-options")
        if "param-mean" in options or "param-stddev" in options:
            return options
        return f"{options} param-mean=0.0 param-stddev=1.0 "

    # -- config lines ------------------------------------------------------------------------------------------------

    def component(self, lines: ConfigLines, part: str, type: str, settings: str) -> None:
        """Return a component called ``layer.part``."""
        lines.component(self.at(part), type, settings)

    def node(self, lines: ConfigLines, part: str, component: str, input: str) -> None:
        """Return a node called ``layer.part`` for the component ``layer.component``."""
        lines.node(self.at(part), self.at(component), input)

    def range(self, lines: ConfigLines, part: str, source: str, offset: int, dim: int) -> None:
        """Return a node called ``layer.part`` with some columns of the node ``layer.source``."""
        lines.dim_range(self.at(part), self.at(source), offset, dim)

    def append(self, *parts: str) -> str:
        """This layer's nodes side by side."""
        return f"Append({', '.join(map(self.at, parts))})"

    def sum(self, *parts: str) -> str:
        """Return the sum of this layer's nodes."""
        return f"Sum({', '.join(map(self.at, parts))})"

    def dropout_component(self, lines: ConfigLines, part: str, dim: int) -> None:
        """Return a dropout component; ``dropout-proportion`` is not ``NO_DROPOUT``."""
        self.component(lines, part, "DropoutComponent", f"dim={dim} dropout-proportion={self.dropout} "
                       f"dropout-per-frame={lower(self.flag('dropout-per-frame'))}")
