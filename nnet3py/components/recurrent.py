"""Cores of recurrent layers: the elementwise part of an LSTM with its peephole weights, and two kinds of GRU."""
from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.components.fields import (
    LARGEST_DIM,
    Field,
    Values,
    as_float32,
    fields_info,
    invalid_initializer,
    number,
    parameter_stats,
    significant,
    vector_summary,
)
from nnet3py.components.natural_gradient import OnlineNaturalGradient, natural_gradient_step
from nnet3py.components.nonlinear import COUNT, NUM_REPAIRED
from nnet3py.components.updatable import SETTINGS, UpdatableComponent, UpdateSettings, normal

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

NUM_GATES = 5                                # nonlinearities: i, f, tanh of c_part, o, tanh of c
PARAMETER_ROWS = ("w_ic", "w_fc", "w_oc")
GATE_NAMES = ("i_t_sigmoid", "f_t_sigmoid", "c_t_tanh", "o_t_sigmoid", "m_t_tanh")
SUM_ROWS = 13                                # rows of sums of lstm_backprop: 3 gradients, 5 values, 5 slopes


class LstmNonlinearityComponent(UpdatableComponent):
    """Elementwise part of an LSTM layer: new cell and output from the gates' sums and the previous cell.

    Columns of the input are i_part, f_part, c_part, o_part, c_prev (``cell_dim`` each) and, with ``use_dropout``, a
    mask for each of the gates i, f and o; those of the output are c and m. Kaldi: LstmNonlinearityComponent.

    ``params`` : float32 (3, cell_dim), peephole weights w_ic, w_fc, w_oc; ``self_repair_config`` : float32 (10,),
    thresholds of the five nonlinearities' average derivatives, then scales.
    """

    PARAMETERS = ("params",)
    FIELDS = (*SETTINGS, Field("<Params>", "matrix", "params"), Field("<ValueAvg>", "matrix", "value_avg"),
              Field("<DerivAvg>", "matrix", "deriv_avg"), Field("<SelfRepairConfig>", "vector", "self_repair_config"),
              Field("<SelfRepairProb>", "vector", "self_repair_prob"),
              Field("<UseDropout>", "boolean", "use_dropout", default=False, omitted=True),
              Field("<Count>", "float64", "count.0"))
    INFO = ("cell-dim", "use-dropout")
    STATISTICS = ("value_sum", "deriv_sum", "self_repair_total", "count")
    CONSTANTS = ("self_repair_config",)
    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    FREEZABLE = ("preconditioner",)

    def __init__(self, params: np.ndarray, self_repair_config: np.ndarray, use_dropout: bool = False,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.params = np.ascontiguousarray(params, dtype=np.float32)
        self.self_repair_config = np.ascontiguousarray(self_repair_config, dtype=np.float32)
        self.use_dropout = use_dropout
        self.value_sum = np.zeros((NUM_GATES, self.cell_dim))
        self.deriv_sum = np.zeros((NUM_GATES, self.cell_dim))
        self.self_repair_total = np.zeros(NUM_GATES)
        self.count = np.zeros(1)
        self.preconditioner = OnlineNaturalGradient(rank=20, update_period=2, num_samples_history=1000.0, alpha=4.0)

    @property
    def cell_dim(self) -> int:
        """Number of cells of the layer."""
        return self.params.shape[1]

    @property
    def input_dim(self) -> int:
        return 5 * self.cell_dim + (3 if self.use_dropout else 0)

    @property
    def output_dim(self) -> int:
        return 2 * self.cell_dim

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.lstm_propagate(y, x, self.params)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        assert update is None or isinstance(update, LstmNonlinearityComponent)
        if dx is None and update is None:
            return
        repair, flagged = ops.scratch(NUM_GATES, self.cell_dim), ops.scratch_vector(NUM_GATES)
        ops.lstm_self_repair(repair, flagged, self.deriv_sum, self.count, self.self_repair_config)
        sums = ops.scratch(SUM_ROWS, self.cell_dim)
        ops.lstm_backprop(x if dx is None else dx, sums, x, dy, self.params, repair, dx is not None)
        if dx is not None and self.use_dropout:     # dropout masks have no derivative
            ops.set_const(dx[:, 5 * self.cell_dim:], 0.0)
        if update is None:
            return
        ops.lstm_store_stats(update.value_sum, update.deriv_sum, update.self_repair_total, update.count, sums, flagged,
                             x.shape[0])
        gradient = sums[:3]
        if update.is_gradient:
            ops.add_mat(update.params, gradient, update.learning_rate)
        else:
            factor = update.preconditioner.precondition(ops, gradient, update.learning_rate)
            ops.add_mat_by(update.params, gradient, factor)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> LstmNonlinearityComponent:
        settings = UpdateSettings.from_config(line)
        cell_dim = line.get_int("cell-dim", 0)
        stddev = line.get_float("param-stddev", 1.0)
        tanh_threshold = line.get_float("tanh-self-repair-threshold", 0.2)
        sigmoid_threshold = line.get_float("sigmoid-self-repair-threshold", 0.05)
        scale = line.get_float("self-repair-scale", 1.0e-5)
        use_dropout = line.get_bool("use-dropout", False)
        if cell_dim <= 0 or not stddev >= 0.0:
            raise invalid_initializer(line, cls.__name__, "cell-dim is required and must be positive, param-stddev not "
                                      "be negative; other keys are {tanh,sigmoid}-self-repair-threshold, "
                                      "self-repair-scale, use-dropout and those of every trainable component")
        if not 0.0 <= tanh_threshold <= 1.0 or not 0.0 <= sigmoid_threshold <= 0.25 or not 0.0 <= scale <= 0.1:
            raise invalid_initializer(line, cls.__name__, "tanh-self-repair-threshold must be between 0 and 1, "
                                      "sigmoid-self-repair-threshold between 0 and 0.25, self-repair-scale between 0 "
                                      "and 0.1")
        thresholds = [sigmoid_threshold, sigmoid_threshold, tanh_threshold, sigmoid_threshold, tanh_threshold]
        config = np.array(thresholds + [scale] * NUM_GATES)
        return cls(normal(rng, (3, cell_dim), stddev), config, use_dropout, settings)

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        params, count = values["params"], values["count.0"]
        value, deriv, repaired = (values.pop(name).astype(np.float64)
                                  for name in ("value_avg", "deriv_avg", "self_repair_prob"))
        cell_dim = params.shape[1]
        if params.shape[0] != 3 or not 0 < cell_dim <= LARGEST_DIM:
            raise reader.error(f"expected 3 rows of peephole weights after <Params>, found {params.shape}")
        for tag, matrix in (("<ValueAvg>", value), ("<DerivAvg>", deriv)):
            if matrix.shape != (NUM_GATES, cell_dim):
                raise reader.error(f"expected {NUM_GATES} rows of {cell_dim} after {tag}, found {matrix.shape}")
        if values["self_repair_config"].size != 2 * NUM_GATES or repaired.size != NUM_GATES:
            raise reader.error(f"expected {2 * NUM_GATES} elements after <SelfRepairConfig> and {NUM_GATES} after "
                               f"<SelfRepairProb>, found {values['self_repair_config'].size} and {repaired.size}")
        component = super().from_fields(reader, values)
        component.value_sum[...], component.deriv_sum[...] = value * count, deriv * count
        component.self_repair_total[...] = repaired * (count * cell_dim)
        return component

    @property
    def value_avg(self) -> np.ndarray:
        """Mean values, float32 (5, cell_dim)."""
        return self._averages()[0]

    @property
    def deriv_avg(self) -> np.ndarray:
        """Mean derivatives, float32 (5, cell_dim)."""
        return self._averages()[1]

    @property
    def self_repair_prob(self) -> np.ndarray:
        """Proportion of repaired cells for each nonlinearity, float32 (5,)."""
        return self._averages()[2]

    def _averages(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean values and derivatives, (5, cell_dim), and repaired proportions, (5,), in float32.

        The division is in float64, so that a file keeps its bytes when it is read and written; for a count of 0 the
        results are the sums.
        """
        count = self.count[0]
        divisor, cells = (count, count * self.cell_dim) if count != 0.0 else (1.0, 1.0)
        return ((self.value_sum / divisor).astype(np.float32), (self.deriv_sum / divisor).astype(np.float32),
                (self.self_repair_total / cells).astype(np.float32))

    def info(self, verbose: int = 0) -> str:
        text = super().info(verbose)
        for name, weights in zip(PARAMETER_ROWS, self.params, strict=True):
            text += parameter_stats(name, weights)
        count = float(self.count[0])
        if count > 0:
            text += f", count={significant(count, 3)}"
        value, deriv, repaired = self._averages()
        for k, name in enumerate(GATE_NAMES):
            text += (f", {name}={{ self-repair-lower-threshold={number(float(self.self_repair_config[k]))}, "
                     f"self-repair-scale={number(float(self.self_repair_config[NUM_GATES + k]))}")
            if count != 0.0:
                text += (f", self-repaired-proportion={number(float(repaired[k]))}, "
                         f"value-avg={vector_summary(value[k])}, deriv-avg={vector_summary(deriv[k])}")
            text += " }"
        return text


NUM_SAMPLES_HISTORY = 2000.0    # rows over which the preconditioners of GRUs average


_STATISTICS = (Field("<ValueAvg>", "vector", "value_avg", size="cell_dim"),
               Field("<DerivAvg>", "vector", "deriv_avg", size="cell_dim"),
               Field("<SelfRepairTotal>", "float64", f"counters.{NUM_REPAIRED}"),
               Field("<Count>", "float64", f"counters.{COUNT}"),
               Field("<SelfRepairThreshold>", "float32", "self_repair_threshold", "self-repair-threshold"),
               Field("<SelfRepairScale>", "float32", "self_repair_scale", "self-repair-scale"))


class _GruCore(UpdatableComponent):
    """Base of GRU cores: h = tanh(a sum) and c = (1 - z) h + z c_prev, with output (h, c) and statistics of h.

    The first ``cell_dim`` columns of the input are z. Derived classes define the columns of the previous cell
    (``_previous``), the sum (``_form_sum``), its training (``_train``) and its derivatives (``_backprop_sum``).

    Attributes
    ----------
    w_h : float32, trained weights of the sum; the first dimension is ``cell_dim``
    value_sum, deriv_sum : float64 (cell_dim,), sums over the counted rows of h and of 1 - h^2
    counters : float64 (4,), as in NonlinearComponent: counted rows, cells in need of self-repair
    """

    PARAMETERS = ("w_h",)
    STATISTICS = ("value_sum", "deriv_sum", "counters")
    LAST_INFO: ClassVar[tuple[str, ...]] = ()       # names in the information text after the statistics
    properties = (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
                  | Properties.BACKPROP_NEEDS_OUTPUT | Properties.BACKPROP_ADDS)

    def __init__(self, w_h: np.ndarray, self_repair_threshold: float = 0.2, self_repair_scale: float = 1.0e-5,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.w_h = np.ascontiguousarray(w_h, dtype=np.float32)
        self.self_repair_threshold = as_float32(self_repair_threshold)
        self.self_repair_scale = as_float32(self_repair_scale)
        self.value_sum, self.deriv_sum = np.zeros(self.cell_dim), np.zeros(self.cell_dim)
        self.counters = np.zeros(4)

    @property
    def cell_dim(self) -> int:
        """Number of cells of the layer."""
        return self.w_h.shape[0]

    @property
    def output_dim(self) -> int:
        return 2 * self.cell_dim

    def _columns(self, matrix: DeviceArray, part: int) -> DeviceArray:
        """Return columns ``part * cell_dim`` to ``(part + 1) * cell_dim`` of ``matrix``."""
        return matrix[:, part * self.cell_dim:(part + 1) * self.cell_dim]

    def _previous(self, matrix: DeviceArray) -> DeviceArray:
        """Return the columns of the previous cell."""
        raise NotImplementedError

    def _form_sum(self, ops: Ops, x: DeviceArray, dst: DeviceArray) -> None:
        """Set ``dst`` (rows, cell_dim) to the sum of which h is the tanh."""
        raise NotImplementedError

    def _train(self, ops: Ops, x: DeviceArray, d_sum: DeviceArray) -> None:
        """Add the gradient step to the weights, from the derivative ``d_sum`` of the sum, which is not changed."""
        raise NotImplementedError

    def _backprop_sum(self, ops: Ops, x: DeviceArray, d_sum: DeviceArray, dx: DeviceArray) -> None:
        """Add to ``dx`` the derivative of the sum with respect to its inputs, times ``d_sum``."""
        raise NotImplementedError

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        self._form_sum(ops, x, y[:, :self.cell_dim])
        ops.gru_propagate(y, self._columns(x, 0), self._previous(x))

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None and update is None:
            return
        z = self._columns(x, 0)
        d_sum = ops.scratch(x.shape[0], self.cell_dim)
        ops.gru_sum_deriv(d_sum, z, y, dy)
        if update is not None:
            assert isinstance(update, _GruCore)
            update._store_and_repair(ops, y[:, :self.cell_dim], d_sum)
            update._train(ops, x, d_sum)    # first, as in Kaldi: with update=self the derivatives use the new weights
        if dx is not None:
            ops.gru_gate_deriv(self._columns(dx, 0), self._previous(dx), z, self._previous(x), y, dy)
            self._backprop_sum(ops, x, d_sum, dx)

    def _store_and_repair(self, ops: Ops, h: DeviceArray, d_sum: DeviceArray) -> None:
        """Add h to the statistics in half of the calls; then add self-repair to ``d_sum`` where the mean slope is low.

        The statistics are those of the component that is updated (in training those of the current minibatch); other
        nonlinearities use those of the component that propagates.
        """
        repair = ops.scratch_vector(self.cell_dim)
        ops.gru_repair(repair, self.value_sum, self.deriv_sum, self.counters, h, self.self_repair_threshold,
                       ops.random.draw_uniform())
        ops.add_mat_diag_vec(d_sum, h, repair, -self.self_repair_scale, 1.0)

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        value, deriv, count = values.pop("value_avg"), values.pop("deriv_avg"), values[f"counters.{COUNT}"]
        cell_dim, recurrent_dim = values.pop("cell_dim"), values.pop("recurrent_dim", None)
        shape = (cell_dim,) if recurrent_dim is None else (cell_dim, recurrent_dim)
        if values["w_h"].shape != shape or (recurrent_dim or 0) > cell_dim:
            raise reader.error(f"expected weights of {' x '.join(map(str, shape))} after <w_h>, not more columns than "
                               f"rows, found {' x '.join(map(str, values['w_h'].shape))}")
        component = super().from_fields(reader, values)
        np.multiply(value, count, out=component.value_sum, dtype=np.float64)
        np.multiply(deriv, count, out=component.deriv_sum, dtype=np.float64)
        return component

    @property
    def value_avg(self) -> np.ndarray:
        """Mean h, float32 (cell_dim,)."""
        return self._average(self.value_sum)

    @property
    def deriv_avg(self) -> np.ndarray:
        """Mean slope, float32 (cell_dim,)."""
        return self._average(self.deriv_sum)

    def _average(self, total: np.ndarray) -> np.ndarray:
        """Return a sum divided by the count, or the sum if the count is 0.

        The division is in float64, so that a file keeps its bytes when it is read and written.
        """
        return (total / (self.counters[COUNT] or 1.0)).astype(np.float32)

    def info(self, verbose: int = 0) -> str:
        statistics, count = "", float(self.counters[COUNT])
        if count > 0:
            repaired = float(self.counters[NUM_REPAIRED]) / (count * self.cell_dim)
            statistics = (f", count={significant(count, 3)}, self-repaired-proportion={number(repaired)}"
                          f", value-avg={vector_summary(self.value_avg)}, deriv-avg={vector_summary(self.deriv_avg)}")
        return super().info(verbose) + statistics + fields_info(self, self.FIELDS, self.LAST_INFO)


class GruNonlinearityComponent(_GruCore):
    """Core of a GRU with full or projected recurrence, from gates, previous cell and output to the new cell.

    h = tanh(hpart + W_h (r * s_prev)), c = (1 - z) h + z c_prev. Columns of the input are z (cell_dim),
    r (recurrent_dim), hpart (cell_dim), c_prev (cell_dim) and s_prev (recurrent_dim). The last is left out if both
    dimensions are equal: then s_prev is c_prev. Kaldi: GruNonlinearityComponent.

    ``w_h`` : float32 (cell_dim, recurrent_dim); ``preconditioner_in``, ``preconditioner_out`` : preconditioners of the
    rows r * s_prev and of the derivative of the sum.
    """

    FIELDS = (*SETTINGS, Field("<CellDim>", "dim", "cell_dim", "cell-dim"),
              Field("<RecurrentDim>", "dim", "recurrent_dim", "recurrent-dim"), Field("<w_h>", "matrix", "w_h", "w_h"),
              *_STATISTICS, Field("<Alpha>", "float32", "preconditioner_in.alpha", "alpha"),
              Field("<RankInOut>", "integer", "preconditioner_in.rank", "rank-in"),
              Field("", "integer", "preconditioner_out.rank", "rank-out"),
              Field("<UpdatePeriod>", "integer", "preconditioner_in.update_period", "update-period"))
    INFO = ("cell-dim", "recurrent-dim", "w_h", "self-repair-threshold", "self-repair-scale")
    LAST_INFO = ("alpha", "rank-in", "rank-out", "update-period")
    FREEZABLE = ("preconditioner_in", "preconditioner_out")

    def __init__(self, w_h: np.ndarray, preconditioner_in: OnlineNaturalGradient,
                 preconditioner_out: OnlineNaturalGradient, self_repair_threshold: float = 0.2,
                 self_repair_scale: float = 1.0e-5, settings: UpdateSettings | None = None) -> None:
        super().__init__(w_h, self_repair_threshold, self_repair_scale, settings)
        self.preconditioner_in, self.preconditioner_out = preconditioner_in, preconditioner_out

    @property
    def recurrent_dim(self) -> int:
        """Number of columns of the previous output that the recurrence uses."""
        return self.w_h.shape[1]

    @property
    def input_dim(self) -> int:
        if self.recurrent_dim == self.cell_dim:
            return 4 * self.cell_dim
        return 3 * self.cell_dim + 2 * self.recurrent_dim

    def _reset_gate(self, matrix: DeviceArray) -> DeviceArray:
        return matrix[:, self.cell_dim:self.cell_dim + self.recurrent_dim]

    def _hpart(self, matrix: DeviceArray) -> DeviceArray:
        start = self.cell_dim + self.recurrent_dim
        return matrix[:, start:start + self.cell_dim]

    def _previous(self, matrix: DeviceArray) -> DeviceArray:
        start = 2 * self.cell_dim + self.recurrent_dim
        return matrix[:, start:start + self.cell_dim]

    def _previous_output(self, matrix: DeviceArray) -> DeviceArray:
        return matrix[:, matrix.shape[1] - self.recurrent_dim:]

    def _gated(self, ops: Ops, x: DeviceArray) -> DeviceArray:
        """Return r * s_prev, in scratch."""
        gated = ops.scratch(x.shape[0], self.recurrent_dim)
        ops.mul_elements(gated, self._reset_gate(x), self._previous_output(x))
        return gated

    def _form_sum(self, ops: Ops, x: DeviceArray, dst: DeviceArray) -> None:
        ops.copy_mat(dst, self._hpart(x), 1.0)
        ops.add_mat_mat(dst, self._gated(ops, x), self.w_h, 1.0, 1.0, trans_b=True)

    def _train(self, ops: Ops, x: DeviceArray, d_sum: DeviceArray) -> None:
        gated = self._gated(ops, x)
        if self.is_gradient:
            ops.add_mat_mat(self.w_h, d_sum, gated, self.learning_rate, 1.0, trans_a=True)
        else:
            natural_gradient_step(ops, self.w_h, None, self.learning_rate, self.preconditioner_in,
                                  self.preconditioner_out, (gated,), d_sum)

    def _backprop_sum(self, ops: Ops, x: DeviceArray, d_sum: DeviceArray, dx: DeviceArray) -> None:
        d_gated = ops.scratch(x.shape[0], self.recurrent_dim)
        ops.add_mat(self._hpart(dx), d_sum, 1.0)
        ops.add_mat_mat(d_gated, d_sum, self.w_h, 1.0, 0.0)
        ops.add_mat_elements(self._reset_gate(dx), d_gated, self._previous_output(x), 1.0, 1.0)
        ops.add_mat_elements(self._previous_output(dx), d_gated, self._reset_gate(x), 1.0, 1.0)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> GruNonlinearityComponent:
        settings = UpdateSettings.from_config(line)
        cell_dim, stddev, repair = _gru_values(line, cls.__name__)
        recurrent_dim = line.get_int("recurrent-dim", -1)
        recurrent_dim = cell_dim if recurrent_dim < 0 else recurrent_dim
        if not 0 < recurrent_dim <= cell_dim:
            raise invalid_initializer(line, cls.__name__, "recurrent-dim must be positive and not above cell-dim (its "
                                                          "default)")
        inner, outer = _preconditioners(line, cls.__name__, (line.get_int("rank-in", 20), line.get_int("rank-out", 80)),
                                        default_period=4)
        return cls(normal(rng, (cell_dim, recurrent_dim), stddev), inner, outer, *repair, settings)


class OutputGruNonlinearityComponent(_GruCore):
    """Core of a GRU with an output gate, where the recurrence within h is one weight per cell.

    h = tanh(hpart + w_h * c_prev), c = (1 - z) h + z c_prev. Columns of the input are z, hpart and c_prev (``cell_dim``
    each). Kaldi: OutputGruNonlinearityComponent.

    ``w_h`` : float32 (cell_dim,); ``preconditioner`` : preconditioner of the rows of the gradient, one for each row of
    a minibatch.
    """

    FIELDS = (*SETTINGS, Field("<CellDim>", "dim", "cell_dim", "cell-dim"),
              Field("<w_h>", "weight_vector", "w_h", "w_h"), *_STATISTICS,
              Field("<Alpha>", "float32", "preconditioner.alpha", "alpha"),
              Field("<Rank>", "integer", "preconditioner.rank", "rank"),
              Field("<UpdatePeriod>", "integer", "preconditioner.update_period", "update-period"))
    INFO = ("cell-dim", "w_h", "self-repair-threshold", "self-repair-scale")
    LAST_INFO = ("alpha", "rank", "update-period")
    FREEZABLE = ("preconditioner",)

    def __init__(self, w_h: np.ndarray, preconditioner: OnlineNaturalGradient, self_repair_threshold: float = 0.2,
                 self_repair_scale: float = 1.0e-5, settings: UpdateSettings | None = None) -> None:
        super().__init__(w_h, self_repair_threshold, self_repair_scale, settings)
        self.preconditioner = preconditioner

    @property
    def input_dim(self) -> int:
        return 3 * self.cell_dim

    def _previous(self, matrix: DeviceArray) -> DeviceArray:
        return self._columns(matrix, 2)

    def _form_sum(self, ops: Ops, x: DeviceArray, dst: DeviceArray) -> None:
        ops.copy_mat(dst, self._columns(x, 1), 1.0)
        ops.add_mat_diag_vec(dst, self._previous(x), self.w_h, 1.0, 1.0)

    def _train(self, ops: Ops, x: DeviceArray, d_sum: DeviceArray) -> None:
        if self.is_gradient:
            ops.add_row_sum_product(self.w_h, d_sum, self._previous(x), self.learning_rate, 1.0)
            return
        gradient = ops.scratch(*d_sum.shape)
        ops.mul_elements(gradient, self._previous(x), d_sum)
        factor = self.preconditioner.precondition(ops, gradient, self.learning_rate)
        ops.add_row_sum_by(self.w_h, gradient, factor)

    def _backprop_sum(self, ops: Ops, x: DeviceArray, d_sum: DeviceArray, dx: DeviceArray) -> None:
        ops.add_mat(self._columns(dx, 1), d_sum, 1.0)
        ops.add_mat_diag_vec(self._previous(dx), d_sum, self.w_h, 1.0, 1.0)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> OutputGruNonlinearityComponent:
        settings = UpdateSettings.from_config(line)
        cell_dim, stddev, repair = _gru_values(line, cls.__name__, default_stddev=1.0)
        preconditioner, = _preconditioners(line, cls.__name__, (line.get_int("rank", 8),), default_period=10)
        weights = normal(rng, (cell_dim,), stddev, line.get_float("param-mean", 0.0))
        return cls(weights, preconditioner, *repair, settings)


# -- config lines ------------------------------------------------------------------------------------------------------


def _gru_values(line: ConfigLine, type_name: str,
                default_stddev: float | None = None) -> tuple[int, float, tuple[float, float]]:
    """Return number of cells, standard deviation of initial weights, and threshold and scale of self-repair.

    The default standard deviation is, if not given, 1 / sqrt(number of cells).
    """
    cell_dim = line.get_int("cell-dim", 0)
    if not 0 < cell_dim <= LARGEST_DIM:
        raise invalid_initializer(line, type_name, f"cell-dim is required and must be between 1 and {LARGEST_DIM}")
    threshold, scale = line.get_float("self-repair-threshold", 0.2), line.get_float("self-repair-scale", 1.0e-5)
    stddev = line.get_float("param-stddev", default_stddev or float(1.0 / np.sqrt(cell_dim)))
    if not (threshold >= 0.0 and scale >= 0.0 and stddev >= 0.0):
        raise invalid_initializer(line, type_name, "self-repair-threshold, self-repair-scale and param-stddev must not "
                                                   "be negative")
    return cell_dim, stddev, (threshold, scale)


def _preconditioners(line: ConfigLine, type_name: str, ranks: tuple[int, ...],
                     default_period: int) -> list[OnlineNaturalGradient]:
    """Return a preconditioner for each rank, with the keys ``alpha`` and ``update-period``."""
    alpha, period = line.get_float("alpha", 4.0), line.get_int("update-period", default_period)
    try:
        return [OnlineNaturalGradient(rank, period, NUM_SAMPLES_HISTORY, alpha) for rank in ranks]
    except ValueError as error:
        raise invalid_initializer(line, type_name, str(error)) from error
