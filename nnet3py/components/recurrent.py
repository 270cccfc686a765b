"""The elementwise part of an LSTM layer, with its peephole weights."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.components.fields import LARGEST_DIM, Field, Values, invalid_initializer
from nnet3py.components.info_text import number, parameter_stats, significant, vector_summary
from nnet3py.components.natural_gradient import OnlineNaturalGradient
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
SUM_ROWS = 13                                # of lstm_backprop: 3 parameter gradients, 5 values, 5 slopes


class LstmNonlinearityComponent(UpdatableComponent):
    """From the sums at the gates and the previous cell to the new cell and its output.

    Kaldi: LstmNonlinearityComponent.

    The input's columns are i_part, f_part, c_part, o_part, c_prev (``cell_dim`` each) and, with ``use_dropout``, one
    mask for each of the gates i, f and o; the output's are c and m.

    Parameters
    ----------
    params : float32 (3, cell_dim), the peephole weights w_ic, w_fc, w_oc
    self_repair_config : float32 (10,), thresholds of the five nonlinearities' average derivatives, then their scales
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
        """Cells in the layer."""
        return self.params.shape[1]

    @property
    def input_dim(self) -> int:
        return 5 * self.cell_dim + (3 if self.use_dropout else 0)

    @property
    def output_dim(self) -> int:
        return 2 * self.cell_dim

    def preconditioners(self) -> tuple[OnlineNaturalGradient, ...]:
        return (self.preconditioner,)

    # -- computation ----------------------------------------------------------------------------------------

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
        ops.lstm_backprop(x if dx is None else dx, sums, x, dy, self.params, repair,
                          dx is not None)
        if dx is not None and self.use_dropout:     # nothing flows into the dropout masks
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

    # -- files and text -------------------------------------------------------------------------------------

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
        """The proportion of cells repaired, for each nonlinearity: float32 (5,)."""
        return self._averages()[2]

    def _averages(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean values and derivatives, (5, cell_dim), and proportions repaired, (5,): float32; sums if nothing counted.

        Divided in float64, so that a file that is read and written again keeps its bytes.
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
