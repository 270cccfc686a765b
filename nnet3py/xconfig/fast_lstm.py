"""LSTM layers with one matrix for all gates and one component for the cell: ``fast-lstm-layer`` and its relatives."""
from __future__ import annotations

from nnet3py.xconfig.layer import ConfigLines, Value, lower
from nnet3py.xconfig.lstm import LSTM, LstmBase
from nnet3py.xconfig.recurrent import AFFINE, NO_DROPOUT, PROJECTIONS

FAST: dict[str, Value] = {**LSTM, "lstm-nonlinearity-options": " max-change=0.75",
                          "ng-affine-options": " max-change=1.5"}


class FastLstmLayer(LstmBase):
    """``fast-lstm-layer``: no projection; the output has ``cell-dim`` columns."""

    OPTIONS = FAST
    CELL_FROM_INPUT = True

    def output(self) -> str:
        return self.at("m")

    def affine_settings(self, input_dim: int, output_dim: int) -> str:
        """Return the settings of a full matrix."""
        return f"input-dim={input_dim} output-dim={output_dim} {self.string('ng-affine-options')} {self.l2}"

    def build(self, lines: ConfigLines) -> None:
        self.component(lines, "W_all", AFFINE, self.affine_settings(self.input_dim + self.cell, 4 * self.cell))
        self.add_cell_components(lines)
        self.node(lines, "W_all", "W_all", self.with_delayed("m_trunc"))
        self.add_cell_nodes(lines, "W_all")

    def add_cell_components(self, lines: ConfigLines) -> None:
        """Return the cell's nonlinearity, and the truncation of derivatives through cell and output."""
        self.component(lines, "lstm_nonlin", "LstmNonlinearityComponent",
                       f"cell-dim={self.cell} {self.string('lstm-nonlinearity-options')} {self.l2}")
        self.component(lines, "cm_trunc", "BackpropTruncationComponent", f"dim={2 * self.cell} {self.truncation()}")

    def add_cell_nodes(self, lines: ConfigLines, gates: str) -> None:
        """Return the nodes that make the output m from the node ``gates``."""
        cell = self.cell
        self.node(lines, "lstm_nonlin", "lstm_nonlin", f"Append({self.at(gates)}, {self.delayed('c_trunc')})")
        self.range(lines, "m", "lstm_nonlin", cell, cell)
        self.node(lines, "cm_trunc", "cm_trunc", self.at("lstm_nonlin"))
        self.range(lines, "c_trunc", "cm_trunc", 0, cell)
        self.range(lines, "m_trunc", "cm_trunc", cell, cell)


class FastLstmBatchNormLayer(FastLstmLayer):
    """``fast-lstm-batchnorm-layer``: ``fast-lstm-layer`` with its output batch-normalized."""

    def output(self) -> str:
        return self.at("m_batchnorm")

    def build(self, lines: ConfigLines) -> None:
        super().build(lines)
        lines.step(self.output(), "BatchNormComponent", f"dim={self.cell}", self.at("m"))


class LstmbLayer(FastLstmBatchNormLayer):
    """``lstmb-layer``: the matrix of all gates has an orthonormal bottleneck; the output is batch-normalized."""

    OPTIONS = {**FAST, "bottleneck-dim": -1, "orthonormal-constraint": 1.0, "self-scale": 1.0}
    CELL_FROM_INPUT = False

    def derive(self) -> None:
        super().derive()
        self.need_positive("bottleneck-dim")

    def build(self, lines: ConfigLines) -> None:
        gates, bottleneck = 4 * self.cell, self.integer("bottleneck-dim")
        options = self.string("ng-affine-options")
        self.component(lines, "W_all_a", "LinearComponent",
                       f"input-dim={self.input_dim + self.cell} {self.pairs('orthonormal-constraint')} "
                       f"output-dim={bottleneck} {options}")
        self.component(lines, "W_all_b", "LinearComponent", self.affine_settings(bottleneck, gates))
        self.component(lines, "W_all_b_so", "ScaleAndOffsetComponent", f"dim={gates} max-change=0.75")
        self.add_cell_components(lines)
        scaled = f"Scale({self.number('self-scale')}, {self.at('m_trunc')})"
        self.node(lines, "W_all_a", "W_all_a",
                  f"Append({self.input}, IfDefined(Offset({scaled}, {self.integer('delay')})))")
        self.node(lines, "W_all_b", "W_all_b", self.at("W_all_a"))
        self.node(lines, "W_all_b_so", "W_all_b_so", self.at("W_all_b"))
        self.add_cell_nodes(lines, "W_all_b_so")
        lines.step(self.output(), "BatchNormComponent", f"dim={self.cell}", self.at("m"))


class FastLstmpLayer(FastLstmLayer):
    """``fast-lstmp-layer``: the output is projected, and only a part of it is fed back."""

    OPTIONS = {**FAST, **PROJECTIONS, "dropout-proportion": NO_DROPOUT}
    AUXILIARY = ("c_t",)
    CELL_FROM_INPUT = False

    def output(self) -> str:
        return self.at("rp")

    def auxiliary(self, part: str) -> tuple[str, int]:
        return self.at("c"), self.cell

    def build(self, lines: ConfigLines) -> None:
        recurrent, _ = self.projected
        drops = self.dropout != NO_DROPOUT
        self.component(lines, "W_all", AFFINE, self.affine_settings(self.input_dim + recurrent, 4 * self.cell))
        self.component(lines, "lstm_nonlin", "LstmNonlinearityComponent", f"cell-dim={self.cell} "
                       f"use-dropout={lower(drops)} {self.string('lstm-nonlinearity-options')} {self.l2}")
        self.component(lines, "cr_trunc", "BackpropTruncationComponent",
                       f"dim={self.cell + recurrent} {self.truncation()}")
        if drops:
            # The mask depends only on its index; its node names itself as input, which is never computed.
            lines.step(self.at("dropout_mask"), "DropoutMaskComponent",
                       f"output-dim=3 dropout-proportion={self.dropout}", self.at("dropout_mask"))
        self.component(lines, "W_rp", AFFINE, self.affine_settings(self.cell, self.output_dim()))
        self.node(lines, "W_all", "W_all", self.with_delayed("r_trunc"))
        mask = f", {self.at('dropout_mask')}" if drops else ""
        self.node(lines, "lstm_nonlin", "lstm_nonlin", f"Append({self.at('W_all')}, {self.delayed('c_trunc')}{mask})")
        self.range(lines, "c", "lstm_nonlin", 0, self.cell)
        self.range(lines, "m", "lstm_nonlin", self.cell, self.cell)
        self.node(lines, "rp", "W_rp", self.at("m"))
        self.range(lines, "r", "rp", 0, recurrent)
        self.node(lines, "cr_trunc", "cr_trunc", self.append("c", "r"))
        self.range(lines, "c_trunc", "cr_trunc", 0, self.cell)
        self.range(lines, "r_trunc", "cr_trunc", self.cell, recurrent)


class FastLstmpBatchNormLayer(FastLstmpLayer):
    """``fast-lstmp-batchnorm-layer``: ``fast-lstmp-layer`` with its output batch-normalized."""

    def output(self) -> str:
        return self.at("rp_batchnorm")

    def build(self, lines: ConfigLines) -> None:
        super().build(lines)
        lines.step(self.output(), "BatchNormComponent", f"dim={self.output_dim()}", self.at("rp"))
