"""Time-delay layer: splicing at fixed time offsets, then an affine or linear map."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.affine import check_bias
from nnet3py.components.base import Component, Properties, compiled_for_others
from nnet3py.components.fields import Field, InFiles, Values, fields_info, parameter_stats
from nnet3py.components.natural_gradient import OnlineNaturalGradient, natural_gradient_step
from nnet3py.components.time_grid import TimeGrid, at_time_offsets
from nnet3py.components.updatable import (
    SETTINGS,
    WEIGHTS_AND_BIAS,
    UpdatableComponent,
    UpdateSettings,
    bad_initializer,
    default_rank_in,
    default_rank_out,
    make_preconditioners,
    normal,
    read_dims,
)
from nnet3py.errors import CompileError

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

UPDATE_PERIOD = 4   # calls per update of both preconditioners; Kaldi has no option for it


@dataclass
class TdnnComponentPrecomputedIndexes(InFiles):
    """Input row of output row r for time offset i: ``row_offsets[i] + row_stride * r``. Kaldi's class of this name."""

    FIELDS = (Field("<RowStride>", "integer", "row_stride"), Field("<RowOffsets>", "integer_vector", "row_offsets"))

    row_stride: int
    row_offsets: Sequence[int]

    def __post_init__(self) -> None:
        self.row_offsets = [int(offset) for offset in self.row_offsets]


class TdnnComponent(UpdatableComponent):
    """Time-delay layer y(t) = sum over i of W_i x(t + time_offsets[i]) + b. Kaldi: TdnnComponent.

    Attributes
    ----------
    time_offsets : int32 (K,), in the order of the blocks of W
    linear_params : float32 (output_dim, K * input_dim), the blocks W_i side by side
    bias_params : float32 (output_dim,), or None
    preconditioner_in, preconditioner_out : OnlineNaturalGradient
        Preconditioners of the rows of [x(t + offset 0), ..., 1], where the 1 belongs to the bias, and of the output
        derivative.
    """

    PARAMETERS = ("linear_params", "bias_params")
    FIELDS = (*SETTINGS, Field("<TimeOffsets>", "integer_vector", "time_offsets", "time-offsets"), WEIGHTS_AND_BIAS[0],
              Field("<BiasParams>", "vector", "bias_or_nothing"),
              Field("<OrthonormalConstraint>", "float32", "orthonormal_constraint", "orthonormal-constraint",
                    hidden=0.0),
              Field("<UseNaturalGradient>", "boolean", "use_natural_gradient"),
              Field("<NumSamplesHistory>", "float32", "preconditioner_in.num_samples_history", "num-samples-history"),
              Field("<AlphaInOut>|<Alpha>", "float32", "preconditioner_in.alpha", "alpha-in"),
              Field("", "float32", "preconditioner_out.alpha", "alpha-out"),
              Field("<RankInOut>", "integer", "preconditioner_in.rank", "rank-in"),
              Field("", "integer", "preconditioner_out.rank", "rank-out"))
    INFO = ("orthonormal-constraint", "time-offsets", "linear-params")
    PRECONDITIONER = {"update_period": UPDATE_PERIOD}
    FREEZABLE = ("preconditioner_in", "preconditioner_out")

    def __init__(self, time_offsets: np.ndarray, linear_params: np.ndarray, bias_params: np.ndarray | None,
                 preconditioner_in: OnlineNaturalGradient, preconditioner_out: OnlineNaturalGradient,
                 orthonormal_constraint: float = 0.0, use_natural_gradient: bool = True,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.time_offsets = time_offsets
        self.linear_params, self.bias_params = linear_params, bias_params
        self.preconditioner_in, self.preconditioner_out = preconditioner_in, preconditioner_out
        self.orthonormal_constraint = orthonormal_constraint
        self.use_natural_gradient = use_natural_gradient

    @property
    def properties(self) -> Properties:
        flags = (Properties.UPDATABLE | Properties.REORDERS_INDEXES | Properties.BACKPROP_ADDS
                 | Properties.BACKPROP_NEEDS_INPUT)
        return flags if self.bias_params is not None else flags | Properties.PROPAGATE_ADDS

    @property
    def input_dim(self) -> int:
        return self.linear_params.shape[1] // self.time_offsets.size

    @property
    def output_dim(self) -> int:
        return self.linear_params.shape[0]

    def input_indexes(self, indexes: np.ndarray) -> np.ndarray:
        return at_time_offsets(indexes, self.time_offsets)

    def input_shifts(self) -> list[int]:
        return self.time_offsets.tolist()

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        grid = _matched_grid(inputs, outputs)
        return grid.input_rows(inputs), grid.output_rows(outputs)

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray,
                           need_backprop: bool) -> TdnnComponentPrecomputedIndexes:
        grid = _matched_grid(inputs, outputs)
        steps, rest = np.divmod(grid.start_out + self.time_offsets.astype(np.int64) - grid.start_in, grid.step_in)
        if rest.any() or steps.min() < 0:
            raise CompileError(f"a TdnnComponent with time-offsets {self.time_offsets.tolist()} cannot use inputs that "
                               f"start at t={grid.start_in} with step {grid.step_in} for outputs from "
                               f"t={grid.start_out}")
        block, place = np.divmod(steps, grid.reorder_in)
        offsets = grid.reorder_in * block * grid.num_images + place
        return TdnnComponentPrecomputedIndexes(grid.reorder_in, offsets.tolist())

    def check_precomputed(self, indexes: TdnnComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                          need_backprop: bool) -> None:
        last = indexes.row_stride * (y.shape[0] - 1)
        offsets = indexes.row_offsets
        if (len(offsets) != self.time_offsets.size or indexes.row_stride < 1 or min(offsets) < 0
                or max(offsets) + last >= x.shape[0]):
            raise compiled_for_others("a TdnnComponent's time offsets", x, y)

    def propagate(self, ops: Ops, indexes: TdnnComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                  memo: None) -> None:
        parts, blocks = _input_parts(indexes, x, y.shape[0]), self._blocks()
        done = 0
        if self.bias_params is not None:
            ops.affine(y, parts[0], blocks[0], self.bias_params)
            done = 1
        for part, weights in zip(parts[done:], blocks[done:], strict=True):
            ops.add_mat_mat(y, part, weights, 1.0, 1.0, trans_b=True)

    def backprop(self, ops: Ops, indexes: TdnnComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                 dy: DeviceArray, memo: None, update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            for part, weights in zip(_input_parts(indexes, dx, dy.shape[0]), self._blocks(), strict=True):
                ops.add_mat_mat(part, dy, weights, 1.0, 1.0)
        assert update is None or isinstance(update, TdnnComponent)
        if update is None or update.learning_rate == 0.0:
            return
        parts = _input_parts(indexes, x, dy.shape[0])
        if update.use_natural_gradient and not update.is_gradient:
            natural_gradient_step(ops, update.linear_params, update.bias_params, update.learning_rate,
                                  update.preconditioner_in, update.preconditioner_out, parts, dy)
        else:
            update._plain_step(ops, parts, dy)

    def _plain_step(self, ops: Ops, parts: tuple[DeviceArray, ...], dy: DeviceArray) -> None:
        if self.bias_params is not None:
            ops.add_row_sum(self.bias_params, dy, self.learning_rate, 1.0)
        for part, weights in zip(parts, self._blocks(), strict=True):
            ops.add_mat_mat(weights, dy, part, self.learning_rate, 1.0, trans_a=True)

    def _blocks(self) -> tuple[DeviceArray, ...]:
        """Return the blocks of W, one per time offset: views (output_dim, input_dim)."""
        dim = self.input_dim
        return tuple(self.linear_params[:, i * dim:(i + 1) * dim] for i in range(self.time_offsets.size))

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        offsets = np.array(line.get_ints("time-offsets"), dtype=np.int32)
        if offsets.size == 0 or len(set(offsets.tolist())) != offsets.size:
            raise bad_initializer(line, "time-offsets must be given, and none of them twice")
        input_dim, output_dim = read_dims(line)
        spliced_dim = input_dim * offsets.size
        stddev = line.get_float("param-stddev", -1.0)
        if stddev < 0.0:
            stddev = 1.0 / np.sqrt(spliced_dim)
        bias_mean, bias_stddev = line.get_float("bias-mean", 0.0), line.get_float("bias-stddev", 1.0)
        if not bias_stddev >= 0.0:
            raise bad_initializer(line, "bias-stddev must not be negative")
        linear = normal(rng, (output_dim, spliced_dim), stddev)
        bias = normal(rng, (output_dim,), bias_stddev, bias_mean) if line.get_bool("use-bias", True) else None
        inner, outer = make_preconditioners(
            line, (default_rank_in(spliced_dim), default_rank_out(output_dim)), ("alpha-in", "alpha-out"),
            update_period=UPDATE_PERIOD, num_samples_history=line.get_float("num-samples-history", 2000.0))
        return cls(offsets, linear, bias, inner, outer, line.get_float("orthonormal-constraint", 0.0),
                   line.get_bool("use-natural-gradient", True), settings)

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        offsets, linear, bias = values["time_offsets"], values["linear_params"], values.pop("bias_or_nothing")
        if offsets.size == 0 or len(set(offsets.tolist())) != offsets.size or linear.shape[1] % offsets.size != 0:
            raise reader.error(f"time offsets {offsets.tolist()} for a matrix of {linear.shape[1]} columns: expected "
                               "distinct offsets whose number divides the columns")
        if bias.size:
            check_bias(reader, linear, bias)
        return super().from_fields(reader, {**values, "bias_params": bias if bias.size else None})

    @property
    def bias_or_nothing(self) -> np.ndarray:
        """Bias as files hold it; (0,) for a component without bias."""
        return np.zeros(0, dtype=np.float32) if self.bias_params is None else self.bias_params

    def info(self, verbose: int = 0) -> str:
        text = super().info(verbose)
        text += (", has-bias=false" if self.bias_params is None
                 else parameter_stats("bias", self.bias_params, with_mean=True))
        if not self.use_natural_gradient:
            return text + ", use-natural-gradient=false"
        return text + fields_info(self, self.FIELDS, ("rank-in", "rank-out", "num-samples-history", "update-period",
                                                      "alpha-in", "alpha-out"))

    @property
    def update_period(self) -> int:
        """Update period of both preconditioners."""
        return self.preconditioner_in.update_period


def _input_parts(indexes: TdnnComponentPrecomputedIndexes, x: DeviceArray, num_rows: int) -> tuple[DeviceArray, ...]:
    """Return, for each time offset, a view of the input rows that the output rows use, (num_rows, input_dim)."""
    stride, length = indexes.row_stride, indexes.row_stride * (num_rows - 1) + 1
    return tuple(x[offset:offset + length:stride] for offset in indexes.row_offsets)


def _matched_grid(inputs: np.ndarray, outputs: np.ndarray) -> TimeGrid:
    """Return the grid of input and output rows, with the input in blocks that give each time offset a constant stride.
    """
    grid = TimeGrid.from_indexes(inputs, outputs)
    grid.step_in = grid.step_in or grid.step_out or 1
    grid.step_out = grid.step_out or grid.step_in
    if grid.step_out % grid.step_in != 0:
        raise CompileError(f"a TdnnComponent's outputs are {grid.step_out} frames apart, which is not a multiple of "
                           f"its inputs' {grid.step_in}")
    grid.reorder_in = grid.step_out // grid.step_in
    grid.num_in = -(-grid.num_in // grid.reorder_in) * grid.reorder_in
    return grid
