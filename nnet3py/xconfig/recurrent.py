"""Base of recurrent layers, and LSTM layers: with separate gates, or (``fast-…``) with one matrix for all gates."""
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
    """Layer with a cell of ``cell-dim`` columns whose recurrence goes ``delay`` frames back, or ahead if positive.

    Attributes
    ----------
    cell : int
        Value of cell-dim.
    projected : tuple of int
        Columns of the recurrent and of the non-recurrent projection; cell-dim and 0 without projections.
    l2 : str
        Setting l2-regularize, empty for 0.
    """

    CELL_FROM_INPUT = False      # whether cell-dim defaults to the input's dimension

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

    def build(self, lines: ConfigLines) -> None:
        self.lines = lines
        self.add()

    def add(self) -> None:
        """Append this layer's components and nodes to ``lines``."""
        raise NotImplementedError

    def auxiliary(self, part: str) -> tuple[str, int]:
        return self.at(part), self.cell

    def delayed(self, node: str) -> str:
        """Return the descriptor of the node ``layer.node`` at an offset of ``delay`` frames, zero where undefined."""
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
        """Return the settings of per-element scales (peephole weights), which by default are initialized at random."""
        options = self.string("ng-per-element-scale-options")
        if "param-mean" in options or "param-stddev" in options:
            return options
        return f"{options} param-mean=0.0 param-stddev=1.0 "

    def component(self, part: str, type: str, settings: str) -> None:
        """Append the component ``layer.part``."""
        self.lines.component(self.at(part), type, settings)

    def node(self, part: str, component: str, input: str) -> None:
        """Append the node ``layer.part`` of the component ``layer.component``."""
        self.lines.node(self.at(part), self.at(component), input)

    def range(self, part: str, source: str, offset: int, dim: int) -> None:
        """Append the dim-range node ``layer.part`` with some columns of the node ``layer.source``."""
        self.lines.dim_range(self.at(part), self.at(source), offset, dim)

    def append(self, *parts: str) -> str:
        """Return the descriptor of this layer's nodes appended."""
        return f"Append({', '.join(map(self.at, parts))})"

    def sum(self, *parts: str) -> str:
        """Return the descriptor ``Sum(…)`` of nodes of this layer, given by their names without the layer's."""
        return f"Sum({', '.join(map(self.at, parts))})"

    def dropout_component(self, part: str, dim: int) -> None:
        """Append a dropout component; ``dropout-proportion`` must not be ``NO_DROPOUT``."""
        self.component(part, "DropoutComponent", f"dim={dim} dropout-proportion={self.dropout} "
                       f"dropout-per-frame={lower(self.flag('dropout-per-frame'))}")


LSTM: dict[str, Value] = {**RECURRENCE, "l2-regularize": 0.0, "decay-time": -1.0}


class LstmBase(RecurrentLayer):
    """Base class of LSTM layers; adds the option of a decay of the cell's memory."""

    def derive(self) -> None:
        super().derive()
        decay, delay = self.number("decay-time"), abs(self.integer("delay"))
        self.scale = 1.0 if decay < 0.0 else 1.0 - delay / decay if decay > 0.0 else 0.0
        self.need(self.scale > 0.0, f"decay-time= must be above the delay of {delay} frames, or -1.0 for none, found "
                  f"{decay}")

    def truncation(self) -> str:
        return f"{super().truncation()} scale={self.scale}"


class LstmLayer(LstmBase):
    """``lstm-layer``: no projection; the output has ``cell-dim`` columns."""

    OPTIONS = {**LSTM, "ng-per-element-scale-options": " max-change=0.75", "ng-affine-options": " max-change=0.75 ",
               "self-repair-scale-nonlinearity": 1e-05}
    AUXILIARY = ("c_t",)
    CELL_FROM_INPUT = True

    def output(self) -> str:
        return self.at("m_t")

    def affine_settings(self, input_dim: int, output_dim: int) -> str:
        """Return the settings of an affine component."""
        return f"input-dim={input_dim} output-dim={output_dim} {self.string('ng-affine-options')} {self.l2}"

    def add(self) -> None:
        self.add_components()
        self.component("r", "BackpropTruncationComponent", f"dim={self.cell} {self.truncation()}")
        self.add_nodes()
        self.node("r_t", "r", self.at("m_t"))

    def add_components(self) -> None:
        """Append the components of the gates and of the cell."""
        cell = self.cell
        affine = self.affine_settings(self.input_dim + self.projected[0], cell)
        scale = f"dim={cell} {self.per_element_options()} {self.l2}"
        for gate in "ifo":
            self.component(f"W_{gate}.xr", AFFINE, affine)
            self.component(f"w_{gate}.c", PER_ELEMENT_SCALE, f" {scale}" if gate == "f" else scale)
        self.component("W_c.xr", AFFINE, affine)
        for part, type in zip("ifogh", ["SigmoidComponent"] * 3 + ["TanhComponent"] * 2, strict=True):
            self.component(part, type, f"dim={cell} {self.self_repair()}")
        if self.dropout != NO_DROPOUT:
            self.dropout_component("dropout", cell)
        for part in ("c1", "c2", "m"):
            self.component(part, PRODUCT, f"input-dim={2 * cell} output-dim={cell}")
        self.component("c", "BackpropTruncationComponent", f"dim={cell} {self.truncation()}")

    def add_nodes(self) -> None:
        """Append the nodes of the gates and of the cell, up to the output ``m_t``; blanks are as in Kaldi's configs."""
        x_and_r, c_before = self.with_delayed("r_t"), self.delayed("c_t")
        self.node("c_t", "c", self.sum("c1_t", "c2_t"))
        for gate in "ifo":
            self.node(f"{gate}1_t", f"W_{gate}.xr", x_and_r)
            if gate == "o":
                self.node("o2_t", "w_o.c", self.at("c_t"))      # the output gate sees the new cell
            else:
                self.node(f"{gate}2_t", f"w_{gate}.c ", c_before)
            self._add_gate(gate)
        self.node("h_t", "h", self.at("c_t"))
        self.node("g1_t", "W_c.xr", x_and_r)
        self.node("g_t", "g", self.at("g1_t"))
        self.node("c1_t", "c1 ", f"Append({self.at('f_t')}, {c_before})")
        self.node("c2_t", "c2", self.append("i_t", "g_t"))
        self.node("m_t", "m", self.append("o_t", "h_t"))

    def _add_gate(self, gate: str) -> None:
        total = self.sum(f"{gate}1_t", f"{gate}2_t")
        if self.dropout == NO_DROPOUT:
            self.node(f"{gate}_t", gate, total)
        else:
            self.node(f"{gate}_t_predrop", gate, total)
            self.node(f"{gate}_t", "dropout", self.at(f"{gate}_t_predrop"))


class LstmpLayer(LstmLayer):
    """``lstmp-layer``: the output is projected, and only a part of it is fed back."""

    OPTIONS = {**LSTM, **PROJECTIONS, "ng-per-element-scale-options": " max-change=0.75 ",
               "ng-affine-options": " max-change=0.75 ", "self-repair-scale-nonlinearity": 1e-05,
               "dropout-proportion": NO_DROPOUT, "dropout-per-frame": False}
    CELL_FROM_INPUT = False

    def output(self) -> str:
        return self.at("rp_t")

    def add(self) -> None:
        recurrent, _ = self.projected
        self.add_components()
        self.add_nodes()
        self.component("W_rp.m", AFFINE, self.affine_settings(self.cell, self.output_dim()))
        self.component("r", "BackpropTruncationComponent", f"dim={recurrent} {self.truncation()}")
        self.node("rp_t", "W_rp.m", self.at("m_t"))
        self.range("r_t_preclip", "rp_t", 0, recurrent)
        self.node("r_t", "r", self.at("r_t_preclip"))


class BatchNormalized(RecurrentLayer):
    """Base, beside that of a layer, of the layer with its output batch-normalized."""

    def output(self) -> str:
        return f"{super().output()}_batchnorm"

    def add(self) -> None:
        super().add()
        self.lines.step(self.output(), "BatchNormComponent", f"dim={self.output_dim()}", super().output())


class LstmpBatchNormLayer(BatchNormalized, LstmpLayer):
    """``lstmp-batchnorm-layer``: ``lstmp-layer`` with its output batch-normalized."""


FAST: dict[str, Value] = {**LSTM, "lstm-nonlinearity-options": " max-change=0.75",
                          "ng-affine-options": " max-change=1.5"}


class FastLstmLayer(LstmBase):
    """``fast-lstm-layer``: no projection; the output has ``cell-dim`` columns."""

    OPTIONS = FAST
    CELL_FROM_INPUT = True

    def output(self) -> str:
        return self.at("m")

    def affine_settings(self, input_dim: int, output_dim: int) -> str:
        """Return the settings of an affine component."""
        return f"input-dim={input_dim} output-dim={output_dim} {self.string('ng-affine-options')} {self.l2}"

    def add(self) -> None:
        self.component("W_all", AFFINE, self.affine_settings(self.input_dim + self.cell, 4 * self.cell))
        self.add_cell_components()
        self.node("W_all", "W_all", self.with_delayed("m_trunc"))
        self.add_cell_nodes("W_all")

    def add_cell_components(self) -> None:
        """Append the cell's nonlinearity, and the truncation of derivatives through cell and output."""
        self.component("lstm_nonlin", "LstmNonlinearityComponent",
                       f"cell-dim={self.cell} {self.string('lstm-nonlinearity-options')} {self.l2}")
        self.component("cm_trunc", "BackpropTruncationComponent", f"dim={2 * self.cell} {self.truncation()}")

    def add_cell_nodes(self, gates: str) -> None:
        """Append the nodes from the node ``gates`` to the output m."""
        cell = self.cell
        self.node("lstm_nonlin", "lstm_nonlin", f"Append({self.at(gates)}, {self.delayed('c_trunc')})")
        self.range("m", "lstm_nonlin", cell, cell)
        self.node("cm_trunc", "cm_trunc", self.at("lstm_nonlin"))
        self.range("c_trunc", "cm_trunc", 0, cell)
        self.range("m_trunc", "cm_trunc", cell, cell)


class FastLstmBatchNormLayer(BatchNormalized, FastLstmLayer):
    """``fast-lstm-batchnorm-layer``: ``fast-lstm-layer`` with its output batch-normalized."""


class LstmbLayer(FastLstmBatchNormLayer):
    """``lstmb-layer``: the matrix of all gates has an orthonormal bottleneck; the output is batch-normalized."""

    OPTIONS = {**FAST, "bottleneck-dim": -1, "orthonormal-constraint": 1.0, "self-scale": 1.0}
    CELL_FROM_INPUT = False

    def derive(self) -> None:
        super().derive()
        self.need_positive("bottleneck-dim")

    def add(self) -> None:
        gates, bottleneck = 4 * self.cell, self.integer("bottleneck-dim")
        options = self.string("ng-affine-options")
        self.component("W_all_a", "LinearComponent",
                       f"input-dim={self.input_dim + self.cell} {self.pairs('orthonormal-constraint')} "
                       f"output-dim={bottleneck} {options}")
        self.component("W_all_b", "LinearComponent", self.affine_settings(bottleneck, gates))
        self.component("W_all_b_so", "ScaleAndOffsetComponent", f"dim={gates} max-change=0.75")
        self.add_cell_components()
        scaled = f"Scale({self.number('self-scale')}, {self.at('m_trunc')})"
        self.node("W_all_a", "W_all_a", f"Append({self.input}, IfDefined(Offset({scaled}, {self.integer('delay')})))")
        self.node("W_all_b", "W_all_b", self.at("W_all_a"))
        self.node("W_all_b_so", "W_all_b_so", self.at("W_all_b"))
        self.add_cell_nodes("W_all_b_so")
        self.lines.step(self.output(), "BatchNormComponent", f"dim={self.cell}", self.at("m"))


class FastLstmpLayer(FastLstmLayer):
    """``fast-lstmp-layer``: the output is projected, and only a part of it is fed back."""

    OPTIONS = {**FAST, **PROJECTIONS, "dropout-proportion": NO_DROPOUT}
    AUXILIARY = ("c_t",)
    CELL_FROM_INPUT = False

    def output(self) -> str:
        return self.at("rp")

    def auxiliary(self, part: str) -> tuple[str, int]:
        return self.at("c"), self.cell

    def add(self) -> None:
        recurrent, _ = self.projected
        drops = self.dropout != NO_DROPOUT
        self.component("W_all", AFFINE, self.affine_settings(self.input_dim + recurrent, 4 * self.cell))
        self.component("lstm_nonlin", "LstmNonlinearityComponent", f"cell-dim={self.cell} "
                       f"use-dropout={lower(drops)} {self.string('lstm-nonlinearity-options')} {self.l2}")
        self.component("cr_trunc", "BackpropTruncationComponent", f"dim={self.cell + recurrent} {self.truncation()}")
        if drops:
            # The mask has no input: its node names itself as input, which is never computed.
            self.lines.step(self.at("dropout_mask"), "DropoutMaskComponent",
                       f"output-dim=3 dropout-proportion={self.dropout}", self.at("dropout_mask"))
        self.component("W_rp", AFFINE, self.affine_settings(self.cell, self.output_dim()))
        self.node("W_all", "W_all", self.with_delayed("r_trunc"))
        mask = f", {self.at('dropout_mask')}" if drops else ""
        self.node("lstm_nonlin", "lstm_nonlin", f"Append({self.at('W_all')}, {self.delayed('c_trunc')}{mask})")
        self.range("c", "lstm_nonlin", 0, self.cell)
        self.range("m", "lstm_nonlin", self.cell, self.cell)
        self.node("rp", "W_rp", self.at("m"))
        self.range("r", "rp", 0, recurrent)
        self.node("cr_trunc", "cr_trunc", self.append("c", "r"))
        self.range("c_trunc", "cr_trunc", 0, self.cell)
        self.range("r_trunc", "cr_trunc", self.cell, recurrent)


class FastLstmpBatchNormLayer(BatchNormalized, FastLstmpLayer):
    """``fast-lstmp-batchnorm-layer``: ``fast-lstmp-layer`` with its output batch-normalized."""
