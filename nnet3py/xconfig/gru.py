"""GRU layers: with separate gates (``gru-layer``, ``pgru-layer``, ``opgru-layer``, ``norm-…``), or ``fast-…``.

z is the update gate, r the reset gate, o the output gate (of the opgru family, which has no r), h the proposal for
the cell y. The recurrence is s: the output, or the first columns of its projection. In ``fast-…`` layers c is the cell
and y the output; the cell's component gives the proposal h and the cell side by side.
"""
from __future__ import annotations

from nnet3py.xconfig.layer import Value
from nnet3py.xconfig.recurrent import (
    AFFINE,
    NO_DROPOUT,
    PER_ELEMENT_SCALE,
    PRODUCT,
    PROJECTIONS,
    RECURRENCE,
    RecurrentLayer,
)

GRU: dict[str, Value] = {**RECURRENCE, "ng-per-element-scale-options": " max-change=0.75 ",
                         "ng-affine-options": " max-change=0.75 ", "self-repair-scale-nonlinearity": 1e-05}
DROPOUT: dict[str, Value] = {"dropout-proportion": NO_DROPOUT, "dropout-per-frame": True}


class GruBase(RecurrentLayer):
    """Base class of GRU layers."""

    NORMALIZED = False      # whether the output is batch-normalized and the recurrence renormalized
    OUTPUT_GATE = False     # whether there is an output gate instead of a reset gate
    PREDROP = "{}_predrop_t"      # name of a gate's node before dropout

    def affine(self, part: str, input_dim: int, output_dim: int) -> None:
        """Append an affine component."""
        l2 = f" {self.l2}" if "l2-regularize" in self.OPTIONS else ""
        self.component(part, AFFINE,
                       f"input-dim={input_dim} output-dim={output_dim} {self.string('ng-affine-options')}{l2}")

    def gate_dims(self) -> dict[str, int]:
        """Return the dimension of each gate, by its letter."""
        return {"z": self.cell, "o": self.cell} if self.OUTPUT_GATE else {"z": self.cell, "r": self.projected[0]}

    def add_gate_components(self) -> None:
        """Append the sigmoids of both gates."""
        for gate, dim in self.gate_dims().items():
            self.component(gate, "SigmoidComponent", f"dim={dim} {self.self_repair()}")

    def add_dropout_components(self) -> None:
        """Append dropout of both gates, for which the opgru family has one component."""
        if self.dropout == NO_DROPOUT:
            return
        if self.OUTPUT_GATE:
            self.dropout_component("dropout", self.cell)
        else:
            for gate, dim in self.gate_dims().items():
                self.dropout_component(f"dropout_{gate}", dim)

    def add_gate(self, gate: str, matrix: str) -> None:
        """Append the nodes of a gate."""
        self.node(f"{gate}_t_pre", matrix, self.with_delayed("s_t"))
        if self.dropout == NO_DROPOUT:
            self.node(f"{gate}_t", gate, self.at(f"{gate}_t_pre"))
        else:
            before = self.PREDROP.format(gate)
            self.node(before, gate, self.at(f"{gate}_t_pre"))
            self.node(f"{gate}_t", "dropout" if self.OUTPUT_GATE else f"dropout_{gate}", self.at(before))

    def add_truncation(self) -> None:
        """Append the component that truncates derivatives through time."""
        self.component("s_r", "BackpropTruncationComponent", f"dim={self.projected[0]} {self.truncation()}")

    def add_norms(self) -> None:
        """Append batch normalization of the output, and renormalization of the recurrence."""
        self.component("batchnorm", "BatchNormComponent", f"dim={self.output_dim()} target-rms=1.0")
        self.component("renorm", "NormalizeComponent", f"dim={self.projected[0]} target-rms=1.0")


class GruLayer(GruBase):
    """``gru-layer``: no projection; the output has ``cell-dim`` columns."""

    OPTIONS = GRU
    CELL_FROM_INPUT = True
    CELL = "s_t"            # name of the node of which the update gate keeps a part

    def output(self) -> str:
        return self.at("s_t")

    def add(self) -> None:
        self.add_matrices()
        self.add_gate_components()
        self.component("h", "TanhComponent", f"dim={self.cell} {self.self_repair()}")
        self.add_products()
        self.add_dropout_components()
        for gate in self.gate_dims():
            self.add_gate(gate, f"W_z.xs_{gate}")
        self.add_proposal()
        # 1 - z is the weight of the proposal in the cell.
        rest = f"Sum(Scale(-1.0,{self.at('z_t')}), Const(1.0, {self.cell}))"
        self.node("y1_t", "y1", f"Append({self.at('h_t')}, {rest})")
        self.node("y2_t", "y2", f"Append({self.delayed(self.CELL)}, {self.at('z_t')})")
        self.node("y_t", "y", self.sum("y1_t", "y2_t"))
        self.add_output()

    def add_matrices(self) -> None:
        """Append the affine components of gates and proposal."""
        recurrent = self.projected[0]
        for gate, dim in self.gate_dims().items():
            self.affine(f"W_z.xs_{gate}", self.input_dim + recurrent, dim)
        self.affine("W_h.UW", self.input_dim + (0 if self.OUTPUT_GATE else recurrent), self.cell)

    def add_products(self) -> None:
        """Append the products with gates, and the sum that is the cell."""
        first, dim = ("o1", self.cell) if self.OUTPUT_GATE else ("h1", self.projected[0])
        for part, columns in ((first, dim), ("y1", self.cell), ("y2", self.cell)):
            self.component(part, PRODUCT, f"input-dim={2 * columns} output-dim={columns}")
        self.component("y", "NoOpComponent", f"dim={self.cell}")

    def add_proposal(self) -> None:
        """Append the nodes that compute the proposal ``h_t`` from the input and the gated recurrence."""
        self.node("h1_t", "h1", f"Append({self.at('r_t')}, {self.delayed('s_t')})")
        self.node("h_t_pre", "W_h.UW", f"Append({self.input}, {self.at('h1_t')})")
        self.node("h_t", "h", self.at("h_t_pre"))

    def add_output(self) -> None:
        """Append the nodes from the cell to output and recurrence."""
        self.add_truncation()
        self.node("s_t", "s_r", self.at("y_t"))


class PgruLayer(GruLayer):
    """``pgru-layer``: the output is projected, and only a part of it is fed back."""

    OPTIONS = {**GRU, **PROJECTIONS}
    AUXILIARY = ("h_t",)
    CELL_FROM_INPUT = False
    CELL = "y_t"
    RENORM = "s_renorm_t"      # name of the node of the renormalized recurrence

    def output(self) -> str:
        return self.at("sn_t")

    def projection_input(self) -> str:
        """Append the nodes of the projection's input, and return its name."""
        return "y_t"

    def add_output(self) -> None:
        recurrent, _ = self.projected
        source = self.projection_input()
        self.affine("W_s.ys", self.cell, self.output_dim())
        self.add_truncation()
        projected = "sn_nobatchnorm_t" if self.NORMALIZED else "sn_t"
        self.node(projected, "W_s.ys", self.at(source))
        self.range("s_t_preclip", projected, 0, recurrent)
        fed_back = "s_t_preclip"
        if self.NORMALIZED:
            self.add_norms()
            self.node("sn_t", "batchnorm", self.at(projected))
            self.node(self.RENORM, "renorm", self.at(fed_back))
            fed_back = self.RENORM
        self.node("s_t", "s_r", self.at(fed_back))


class NormPgruLayer(PgruLayer):
    """``norm-pgru-layer``: ``pgru-layer`` with batch-normalized output and renormalized recurrence."""

    OPTIONS = {**PgruLayer.OPTIONS, **DROPOUT}
    NORMALIZED = True


class OpgruLayer(PgruLayer):
    """``opgru-layer``: an output gate instead of a reset gate; the cell enters its proposal element by element."""

    OUTPUT_GATE = True

    def add_matrices(self) -> None:
        super().add_matrices()
        self.component("W_h.UW_elementwise", PER_ELEMENT_SCALE, f"dim={self.cell} {self.per_element_options()}")

    def add_proposal(self) -> None:
        self.node("h_t_pre", "W_h.UW", self.input)
        self.node("h_t_pre2", "W_h.UW_elementwise", self.delayed("y_t"))
        self.node("h_t", "h", self.sum("h_t_pre", "h_t_pre2"))

    def projection_input(self) -> str:
        self.node("y_o_t", "o1", self.append("o_t", "y_t"))
        return "y_o_t"


class NormOpgruLayer(OpgruLayer):
    """``norm-opgru-layer``: ``opgru-layer`` with batch-normalized output and renormalized recurrence."""

    OPTIONS = {**OpgruLayer.OPTIONS, **DROPOUT, "l2-regularize": 0.0}
    NORMALIZED = True
    RENORM = "s_t_preclip_renorm"


NONLINEARITY: dict[str, Value] = {"gru-nonlinearity-options": " max-change=0.75"}


class FastGruLayer(GruBase):
    """``fast-gru-layer``: no projection; the output has ``cell-dim`` columns."""

    OPTIONS = {**GRU, "ng-per-element-scale-options": " max-change=0.75", **NONLINEARITY}
    CELL_FROM_INPUT = True
    PREDROP = "{}_t_predrop"
    RECURRENT_MATRIX = "xh"      # suffix of the matrices of input and recurrence

    def output(self) -> str:
        return self.at("y_t")

    def add(self) -> None:
        gates = self.gate_dims()
        for gate, dim in gates.items():
            self.affine(f"W_{gate}.{self.RECURRENT_MATRIX}", self.input_dim + self.projected[0], dim)
        self.affine("W_hpart.x", self.input_dim, self.cell)
        self.add_gate_components()
        self.add_dropout_components()
        for gate in gates:
            self.add_gate(gate, f"W_{gate}.{self.RECURRENT_MATRIX}")
        self.node("hpart_t", "W_hpart.x", self.input)
        self.add_cell()
        self.add_output()

    def add_cell_component(self, type: str, settings: str, *inputs: str) -> None:
        """Append the cell's component and its node."""
        self.component("gru_nonlin", type, f"{settings} {self.string('gru-nonlinearity-options')}")
        self.node("gru_nonlin_t", "gru_nonlin", f"Append({', '.join(inputs)})")

    def add_cell(self) -> None:
        """Append the nodes of the cell."""
        self.add_cell_component("GruNonlinearityComponent", f"cell-dim={self.cell}", self.at("z_t"),
                                self.at("r_t"), self.at("hpart_t"), self.delayed("s_t"))
        self.range("y_t", "gru_nonlin_t", self.cell, self.cell)

    def add_output(self) -> None:
        """Append the nodes from the cell to output and recurrence."""
        self.add_truncation()
        self.node("s_t", "s_r", self.at("y_t"))


class FastPgruLayer(FastGruLayer):
    """``fast-pgru-layer``: the output is projected, and only a part of it is fed back."""

    OPTIONS = {**GRU, **PROJECTIONS, **NONLINEARITY}
    AUXILIARY = ("c_t",)
    CELL_FROM_INPUT = False
    RECURRENT_MATRIX = "xs"
    PROJECTION, PRECLIP = "W_y.c", "s_t_pre"      # the projection's matrix; the node of the recurrence before clipping

    def add_cell(self) -> None:
        self.add_cell_component("GruNonlinearityComponent",
                                f"cell-dim={self.cell} recurrent-dim={self.projected[0]}", self.at("z_t"),
                                self.at("r_t"), self.at("hpart_t"), self.delayed("c_t"), self.delayed("s_t"))
        self.range("c_t", "gru_nonlin_t", self.cell, self.cell)

    def projection_input(self) -> str:
        """Append the nodes of the projection's input, and return its name."""
        return "c_t"

    def add_output(self) -> None:
        recurrent, _ = self.projected
        source = self.projection_input()
        self.affine(self.PROJECTION, self.cell, self.output_dim())
        projected = "y_t_tmp" if self.NORMALIZED else "y_t"
        self.node(projected, self.PROJECTION, self.at(source))
        self.add_truncation()
        self.range(self.PRECLIP, projected, 0, recurrent)
        fed_back = self.PRECLIP
        if self.NORMALIZED:
            self.add_norms()
            self.node("s_t_renorm", "renorm", self.at(fed_back))
            self.node("y_t", "batchnorm", self.at(projected))
            fed_back = "s_t_renorm"
        self.node("s_t", "s_r", self.at(fed_back))


class FastNormPgruLayer(FastPgruLayer):
    """``fast-norm-pgru-layer``: ``fast-pgru-layer`` with normalized output and normalized feedback."""

    OPTIONS = {**FastPgruLayer.OPTIONS, **DROPOUT}
    NORMALIZED = True


class FastOpgruLayer(FastPgruLayer):
    """``fast-opgru-layer``: an output gate instead of a reset gate."""

    OUTPUT_GATE = True
    PROJECTION, PRECLIP = "W_y.cdoto", "s_t_preclip"

    def add_cell(self) -> None:
        self.add_cell_component("OutputGruNonlinearityComponent", f"cell-dim={self.cell}", self.at("z_t"),
                                self.at("hpart_t"), self.delayed("c_t"))
        self.range("c_t", "gru_nonlin_t", self.cell, self.cell)

    def projection_input(self) -> str:
        self.component("cdoto", PRODUCT, f"input-dim={2 * self.cell} output-dim={self.cell}")
        self.node("cdoto", "cdoto", self.append("c_t", "o_t"))
        return "cdoto"


class FastNormOpgruLayer(FastOpgruLayer):
    """``fast-norm-opgru-layer``: ``fast-opgru-layer`` with normalized output and normalized feedback."""

    OPTIONS = {**FastOpgruLayer.OPTIONS, **DROPOUT}
    NORMALIZED = True
    PRECLIP = "s_t_pre"
