"""LSTM layers whose gates are separate components: ``lstm-layer``, ``lstmp-layer``, ``lstmp-batchnorm-layer``."""
from __future__ import annotations

from nnet3py.xconfig.layer import ConfigLines, Value
from nnet3py.xconfig.recurrent import (
    AFFINE,
    NO_DROPOUT,
    PER_ELEMENT_SCALE,
    PRODUCT,
    PROJECTIONS,
    RECURRENCE,
    RecurrentLayer,
)

LSTM: dict[str, Value] = {**RECURRENCE, "l2-regularize": 0.0, "decay-time": -1.0}


class LstmBase(RecurrentLayer):
    """What all LSTM layers share: a memory that may decay."""

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
        """Return the settings of a full matrix."""
        return f"input-dim={input_dim} output-dim={output_dim} {self.string('ng-affine-options')} {self.l2}"

    def build(self, lines: ConfigLines) -> None:
        self.add_components(lines)
        self.component(lines, "r", "BackpropTruncationComponent", f"dim={self.cell} {self.truncation()}")
        self.add_nodes(lines)
        self.node(lines, "r_t", "r", self.at("m_t"))

    def add_components(self, lines: ConfigLines) -> None:
        """Return the components of the gates and of the cell."""
        cell = self.cell
        affine = self.affine_settings(self.input_dim + self.projected[0], cell)
        scale = f"dim={cell} {self.per_element_options()} {self.l2}"
        for gate in "ifo":
            self.component(lines, f"W_{gate}.xr", AFFINE, affine)
            self.component(lines, f"w_{gate}.c", PER_ELEMENT_SCALE, f" {scale}" if gate == "f" else scale)
        self.component(lines, "W_c.xr", AFFINE, affine)
        for part, type in zip("ifogh", ["SigmoidComponent"] * 3 + ["TanhComponent"] * 2, strict=True):
            self.component(lines, part, type, f"dim={cell} {self.self_repair()}")
        if self.dropout != NO_DROPOUT:
            self.dropout_component(lines, "dropout", cell)
        for part in ("c1", "c2", "m"):
            self.component(lines, part, PRODUCT, f"input-dim={2 * cell} output-dim={cell}")
        self.component(lines, "c", "BackpropTruncationComponent", f"dim={cell} {self.truncation()}")

    def add_nodes(self, lines: ConfigLines) -> None:
        """Return the nodes of the gates and of the cell, up to m_t. Blanks stand where Kaldi has them."""
        x_and_r, c_before = self.with_delayed("r_t"), self.delayed("c_t")
        self.node(lines, "c_t", "c", self.sum("c1_t", "c2_t"))
        for gate in "ifo":
            self.node(lines, f"{gate}1_t", f"W_{gate}.xr", x_and_r)
            if gate == "o":
                self.node(lines, "o2_t", "w_o.c", self.at("c_t"))      # the output gate sees the new cell
            else:
                self.node(lines, f"{gate}2_t", f"w_{gate}.c ", c_before)
            self._add_gate(lines, gate)
        self.node(lines, "h_t", "h", self.at("c_t"))
        self.node(lines, "g1_t", "W_c.xr", x_and_r)
        self.node(lines, "g_t", "g", self.at("g1_t"))
        self.node(lines, "c1_t", "c1 ", f"Append({self.at('f_t')}, {c_before})")
        self.node(lines, "c2_t", "c2", self.append("i_t", "g_t"))
        self.node(lines, "m_t", "m", self.append("o_t", "h_t"))

    def _add_gate(self, lines: ConfigLines, gate: str) -> None:
        total = self.sum(f"{gate}1_t", f"{gate}2_t")
        if self.dropout == NO_DROPOUT:
            self.node(lines, f"{gate}_t", gate, total)
        else:
            self.node(lines, f"{gate}_t_predrop", gate, total)
            self.node(lines, f"{gate}_t", "dropout", self.at(f"{gate}_t_predrop"))


class LstmpLayer(LstmLayer):
    """``lstmp-layer``: the output is projected, and only a part of it is fed back."""

    OPTIONS = {**LSTM, **PROJECTIONS, "ng-per-element-scale-options": " max-change=0.75 ",
               "ng-affine-options": " max-change=0.75 ", "self-repair-scale-nonlinearity": 1e-05,
               "dropout-proportion": NO_DROPOUT, "dropout-per-frame": False}
    CELL_FROM_INPUT = False

    def output(self) -> str:
        return self.at("rp_t")

    def build(self, lines: ConfigLines) -> None:
        recurrent, _ = self.projected
        self.add_components(lines)
        self.add_nodes(lines)
        self.component(lines, "W_rp.m", AFFINE, self.affine_settings(self.cell, self.output_dim()))
        self.component(lines, "r", "BackpropTruncationComponent", f"dim={recurrent} {self.truncation()}")
        self.node(lines, "rp_t", "W_rp.m", self.at("m_t"))
        self.range(lines, "r_t_preclip", "rp_t", 0, recurrent)
        self.node(lines, "r_t", "r", self.at("r_t_preclip"))


class LstmpBatchNormLayer(LstmpLayer):
    """``lstmp-batchnorm-layer``: ``lstmp-layer`` with its output batch-normalized."""

    def output(self) -> str:
        return self.at("rp_t_batchnorm")

    def build(self, lines: ConfigLines) -> None:
        super().build(lines)
        lines.step(self.output(), "BatchNormComponent", f"dim={self.output_dim()}", self.at("rp_t"))
