"""GRU layers ``fast-gru-layer``, ``fast-pgru-layer``, ``fast-opgru-layer`` and their like.

Here c is the cell and y the output; the cell's component gives the proposal h and the cell side by side.
"""
from __future__ import annotations

from nnet3py.xconfig.gru import DROPOUT, GRU, GruBase
from nnet3py.xconfig.layer import ConfigLines, Value
from nnet3py.xconfig.recurrent import PRODUCT, PROJECTIONS

NONLINEARITY: dict[str, Value] = {"gru-nonlinearity-options": " max-change=0.75"}


class FastGruLayer(GruBase):
    """``fast-gru-layer``: no projection; the output has ``cell-dim`` columns."""

    OPTIONS = {**GRU, "ng-per-element-scale-options": " max-change=0.75", **NONLINEARITY}
    CELL_FROM_INPUT = True
    PREDROP = "{}_t_predrop"
    RECURRENT_MATRIX = "xh"      # what the matrices of input and fed-back output are called

    def output(self) -> str:
        return self.at("y_t")

    def build(self, lines: ConfigLines) -> None:
        gates = self.gate_dims()
        for gate, dim in gates.items():
            self.affine(lines, f"W_{gate}.{self.RECURRENT_MATRIX}", self.input_dim + self.projected[0], dim)
        self.affine(lines, "W_hpart.x", self.input_dim, self.cell)
        self.add_gate_components(lines)
        self.add_dropout_components(lines)
        for gate in gates:
            self.add_gate(lines, gate, f"W_{gate}.{self.RECURRENT_MATRIX}")
        self.node(lines, "hpart_t", "W_hpart.x", self.input)
        self.add_cell(lines)
        self.add_output(lines)

    def add_cell_component(self, lines: ConfigLines, type: str, settings: str, *inputs: str) -> None:
        """Return the cell's component and its node."""
        self.component(lines, "gru_nonlin", type, f"{settings} {self.string('gru-nonlinearity-options')}")
        self.node(lines, "gru_nonlin_t", "gru_nonlin", f"Append({', '.join(inputs)})")

    def add_cell(self, lines: ConfigLines) -> None:
        """Return the nodes that make the cell."""
        self.add_cell_component(lines, "GruNonlinearityComponent", f"cell-dim={self.cell}", self.at("z_t"),
                                self.at("r_t"), self.at("hpart_t"), self.delayed("s_t"))
        self.range(lines, "y_t", "gru_nonlin_t", self.cell, self.cell)

    def add_output(self, lines: ConfigLines) -> None:
        """Return the nodes from the cell to the output and what is fed back."""
        self.add_truncation(lines)
        self.node(lines, "s_t", "s_r", self.at("y_t"))


class FastPgruLayer(FastGruLayer):
    """``fast-pgru-layer``: the output is projected, and only a part of it is fed back."""

    OPTIONS = {**GRU, **PROJECTIONS, **NONLINEARITY}
    AUXILIARY = ("c_t",)
    CELL_FROM_INPUT = False
    RECURRENT_MATRIX = "xs"
    PROJECTION, PRECLIP = "W_y.c", "s_t_pre"      # the projection's matrix; the node that is to be fed back

    def add_cell(self, lines: ConfigLines) -> None:
        self.add_cell_component(lines, "GruNonlinearityComponent",
                                f"cell-dim={self.cell} recurrent-dim={self.projected[0]}", self.at("z_t"),
                                self.at("r_t"), self.at("hpart_t"), self.delayed("c_t"), self.delayed("s_t"))
        self.range(lines, "c_t", "gru_nonlin_t", self.cell, self.cell)

    def projection_input(self, lines: ConfigLines) -> str:
        """Return the node that is projected."""
        return "c_t"

    def add_output(self, lines: ConfigLines) -> None:
        recurrent, _ = self.projected
        source = self.projection_input(lines)
        self.affine(lines, self.PROJECTION, self.cell, self.output_dim())
        projected = "y_t_tmp" if self.NORMALIZED else "y_t"
        self.node(lines, projected, self.PROJECTION, self.at(source))
        self.add_truncation(lines)
        self.range(lines, self.PRECLIP, projected, 0, recurrent)
        fed_back = self.PRECLIP
        if self.NORMALIZED:
            self.add_norms(lines)
            self.node(lines, "s_t_renorm", "renorm", self.at(fed_back))
            self.node(lines, "y_t", "batchnorm", self.at(projected))
            fed_back = "s_t_renorm"
        self.node(lines, "s_t", "s_r", self.at(fed_back))


class FastNormPgruLayer(FastPgruLayer):
    """``fast-norm-pgru-layer``: ``fast-pgru-layer`` with normalized output and normalized feedback."""

    OPTIONS = {**FastPgruLayer.OPTIONS, **DROPOUT}
    NORMALIZED = True


class FastOpgruLayer(FastPgruLayer):
    """``fast-opgru-layer``: an output gate instead of a reset gate."""

    OUTPUT_GATE = True
    PROJECTION, PRECLIP = "W_y.cdoto", "s_t_preclip"

    def add_cell(self, lines: ConfigLines) -> None:
        self.add_cell_component(lines, "OutputGruNonlinearityComponent", f"cell-dim={self.cell}", self.at("z_t"),
                                self.at("hpart_t"), self.delayed("c_t"))
        self.range(lines, "c_t", "gru_nonlin_t", self.cell, self.cell)

    def projection_input(self, lines: ConfigLines) -> str:
        self.component(lines, "cdoto", PRODUCT, f"input-dim={2 * self.cell} output-dim={self.cell}")
        self.node(lines, "cdoto", "cdoto", self.append("c_t", "o_t"))
        return "cdoto"


class FastNormOpgruLayer(FastOpgruLayer):
    """``fast-norm-opgru-layer``: ``fast-opgru-layer`` with normalized output and normalized feedback."""

    OPTIONS = {**FastOpgruLayer.OPTIONS, **DROPOUT}
    NORMALIZED = True
    PRECLIP = "s_t_pre"
