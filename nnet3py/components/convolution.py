"""Convolution over time and height."""
from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnet3py.components.affine import check_bias
from nnet3py.components.base import Component, Properties, compiled_for_others
from nnet3py.components.convolution_geometry import (
    ConvolutionComputation,
    ConvolutionModel,
    ConvolutionStep,
    compile_convolution,
    convolution_grid,
)
from nnet3py.components.fields import Field, InFiles, Values, fields_info, number
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.normalize import in_blocks
from nnet3py.components.time_grid import at_time_offsets
from nnet3py.components.updatable import (
    OLDER_SETTINGS,
    SETTINGS_INFO,
    UpdatableComponent,
    UpdateSettings,
    bad_initializer,
    default_rank_out,
    make_preconditioners,
    normal,
)
from nnet3py.errors import CompileError

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)

DEFAULT_MAX_MEMORY_MB = 200.0
DEFAULT_HISTORY = 4.0      # minibatches, of both preconditioners
UPDATE_PERIOD = 1
_TOO_SHORT = "num-minibatches-history must be above 1, not {:g}"
_PAIR = re.compile(r"\s*([+-]?[0-9]{1,9})\s*,\s*([+-]?[0-9]{1,9})\s*")


@dataclass
class TimeHeightConvolutionComponentPrecomputedIndexes(InFiles):
    """Steps of the convolution for the rows of one command. Kaldi's class of this name."""

    FIELDS = (Field("<Computation>", ConvolutionComputation, "computation"),)

    computation: ConvolutionComputation


class _Piece(NamedTuple):
    """Part of a step for a range of output times, with views of the matrices of the call."""

    step: ConvolutionStep
    x: DeviceArray        # (rows, heights and filters of the input)
    y: DeviceArray        # (rows * height_out, filters of the output)
    temp: DeviceArray | None     # (rows, gathered columns of x), contiguous scratch; None if x need not be gathered

    def inputs(self) -> DeviceArray:
        """Return the input with a row for each row of ``y``: the temporary matrix, or ``x`` itself."""
        matrix = self.x if self.temp is None else self.temp
        return matrix.reshape(self.y.shape[0], -1)

    def gathered(self, ops: Ops) -> DeviceArray:
        """Gather the input columns into the temporary matrix, and return ``inputs()``."""
        if self.temp is not None:
            ops.copy_col_blocks(self.temp, self.x, self.step.height_map)
        return self.inputs()


class TimeHeightConvolutionComponent(UpdatableComponent):
    """Convolution over time and height with zero padding of heights; ``ConvolutionModel`` has the formula.

    Attributes
    ----------
    linear_params : float32 (num_filters_out, offsets * num_filters_in), the blocks of the offsets side by side
    bias_params : float32 (num_filters_out,)
    preconditioner_in, preconditioner_out : OnlineNaturalGradient
        Preconditioners of the rows and of the columns of the gradient of [linear_params, bias_params].
    """

    PARAMETERS = ("linear_params", "bias_params")
    FIELDS = (*OLDER_SETTINGS, Field("<Model>", ConvolutionModel, "model"),
              Field("<LinearParams>", "matrix", "linear_params", "filter-params"),
              Field("<BiasParams>", "vector", "bias_params", "bias-params"),
              Field("<MaxMemoryMb>", "float32", "max_memory_mb", "max-memory-mb"),
              Field("<UseNaturalGradient>", "boolean", "use_natural_gradient"),
              Field("<NumMinibatchesHistory>", "float32", "preconditioner_in.num_minibatches_history",
                    "num-minibatches-history"),
              Field("<AlphaInOut>", "float32", "preconditioner_in.alpha", "alpha"),
              Field("", "float32", "preconditioner_out.alpha"),
              Field("<RankInOut>", "integer", "preconditioner_in.rank", "rank-in"),
              Field("", "integer", "preconditioner_out.rank", "rank-out"))
    PRECONDITIONER = {"update_period": UPDATE_PERIOD}
    FREEZABLE = ("preconditioner_in", "preconditioner_out")
    properties = (Properties.UPDATABLE | Properties.REORDERS_INDEXES | Properties.BACKPROP_ADDS
                  | Properties.BACKPROP_NEEDS_INPUT | Properties.INPUT_CONTIGUOUS | Properties.OUTPUT_CONTIGUOUS)

    def __init__(self, model: ConvolutionModel, linear_params: np.ndarray, bias_params: np.ndarray,
                 preconditioner_in: OnlineNaturalGradient, preconditioner_out: OnlineNaturalGradient,
                 max_memory_mb: float = DEFAULT_MAX_MEMORY_MB, use_natural_gradient: bool = True,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.model = model
        self.linear_params, self.bias_params = linear_params, bias_params
        self.preconditioner_in, self.preconditioner_out = preconditioner_in, preconditioner_out
        self.max_memory_mb = max_memory_mb
        self.use_natural_gradient = use_natural_gradient

    @property
    def input_dim(self) -> int:
        return self.model.input_dim

    @property
    def output_dim(self) -> int:
        return self.model.output_dim

    def input_indexes(self, indexes: np.ndarray) -> np.ndarray:
        return at_time_offsets(indexes, self.model.time_offsets)

    def is_computable(self, indexes: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        required = np.isin(self.model.time_offsets, self.model.required_time_offsets)
        return np.asarray(available[:, required].all(axis=1)), available

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        grid = convolution_grid(self.model, inputs, outputs)
        return grid.input_rows(inputs), grid.output_rows(outputs)

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray,
                           need_backprop: bool) -> TimeHeightConvolutionComponentPrecomputedIndexes:
        grid = convolution_grid(self.model, inputs, outputs)
        if not (np.array_equal(grid.input_rows(inputs), inputs) and np.array_equal(grid.output_rows(outputs), outputs)):
            raise CompileError("the rows of a convolution are not in the order of reorder_indexes")
        return TimeHeightConvolutionComponentPrecomputedIndexes(
            compile_convolution(self.model, grid, self.max_memory_mb))

    def propagate(self, ops: Ops, indexes: TimeHeightConvolutionComponentPrecomputedIndexes, x: DeviceArray,
                  y: DeviceArray, memo: None) -> None:
        ops.add_vec_to_rows(in_blocks(y, self.model.num_filters_out), self.bias_params, 1.0, 0.0)
        for piece in self._pieces(ops, indexes.computation, x, y):
            ops.add_mat_mat(piece.y, piece.gathered(ops), self._weights(piece), 1.0, 1.0, trans_b=True)

    def backprop(self, ops: Ops, indexes: TimeHeightConvolutionComponentPrecomputedIndexes, x: DeviceArray,
                 y: DeviceArray, dy: DeviceArray, memo: None, update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            for piece in self._pieces(ops, indexes.computation, dx, dy):
                beta = 1.0 if piece.temp is None else 0.0
                ops.add_mat_mat(piece.inputs(), piece.y, self._weights(piece), 1.0, beta)
                if piece.temp is not None:
                    ops.add_to_col_blocks(piece.x, piece.temp, piece.step.height_map)
        assert update is None or isinstance(update, TimeHeightConvolutionComponent)
        if update is not None and update.learning_rate != 0.0:
            update._step(ops, indexes.computation, x, dy)

    def _pieces(self, ops: Ops, computation: ConvolutionComputation, x: DeviceArray,
                y: DeviceArray) -> Iterator[_Piece]:
        """Yield the steps of the computation in pieces of as many output times as the temporary matrix can hold."""
        self._check_fit(computation, x, y)
        x = in_blocks(x, computation.num_filters_in * computation.height_in)
        temp = ops.scratch_vector(computation.temp_rows * computation.temp_cols)
        times, images = computation.times_per_chunk, computation.num_images
        for begin in range(0, computation.num_t_out, times):
            rows = min(times, computation.num_t_out - begin) * images
            piece_of_y = in_blocks(y[begin * images:begin * images + rows], computation.num_filters_out)
            for step, needs_copy in zip(computation.steps, computation.needs_copy, strict=True):
                first, cols = (begin + step.time_shift) * images, computation.num_filters_in * step.height_map.size
                yield _Piece(step, x[first:first + rows], piece_of_y,
                             temp[:rows * cols].reshape(rows, cols) if needs_copy else None)

    def check_precomputed(self, indexes: TimeHeightConvolutionComponentPrecomputedIndexes, x: DeviceArray,
                          y: DeviceArray, need_backprop: bool) -> None:
        self._check_fit(indexes.computation, x, y)

    def _check_fit(self, computation: ConvolutionComputation, x: DeviceArray, y: DeviceArray) -> None:
        """Raise ShapeError unless the computation, which may come from a file, is this component's, for these rows."""
        expected = (self.model.num_filters_in, self.model.num_filters_out, self.model.height_out,
                    computation.num_t_out * computation.num_images,
                    computation.num_t_in * computation.num_images * computation.height_in)
        dims = (computation.num_filters_in, computation.num_filters_out, computation.height_out, y.shape[0],
                 x.shape[0] * self.model.height_in)
        if dims != expected or computation.max_param_col > self.linear_params.shape[1]:
            raise compiled_for_others("a convolution", x, y)

    def _weights(self, piece: _Piece) -> DeviceArray:
        """Return the columns of the parameters that a piece uses."""
        start = piece.step.params_start_col
        return self.linear_params[:, start:start + piece.inputs().shape[1]]

    def _step(self, ops: Ops, computation: ConvolutionComputation, x: DeviceArray, dy: DeviceArray) -> None:
        """Add the learning rate times the gradient, preconditioned or plain, to the parameters."""
        num_rows, num_cols = self.linear_params.shape
        gradient = ops.scratch(num_rows, num_cols + 1)
        self._gradient(ops, computation, x, dy, gradient)
        parts = ((self.linear_params, gradient[:, :num_cols]),
                 (self.bias_params.reshape(-1, 1), gradient[:, num_cols:]))
        if not self.use_natural_gradient or self.is_gradient:
            for params, part in parts:
                ops.add_mat(params, part, self.learning_rate)
            return
        self.preconditioner_in.precondition(ops, gradient)      # the rows of the gradient first, then its columns
        transposed = ops.scratch(num_cols + 1, num_rows)
        ops.copy_transposed(transposed, gradient)
        factor = self.preconditioner_out.precondition(ops, transposed, self.learning_rate, after=self.preconditioner_in)
        ops.copy_transposed(gradient, transposed)
        for params, part in parts:
            ops.add_mat_by(params, part, factor)

    def _gradient(self, ops: Ops, computation: ConvolutionComputation, x: DeviceArray, dy: DeviceArray,
                  dst: DeviceArray) -> None:
        """Set ``dst`` to the derivatives with respect to the parameters and, in a last column, to the bias."""
        last = dst.shape[1] - 1
        bias = ops.scratch_vector(dst.shape[0])
        ops.add_row_sum(bias, in_blocks(dy, self.model.num_filters_out), 1.0, 0.0)
        ops.copy_mat(dst[:, last:], bias.reshape(-1, 1), 1.0)
        ops.set_const(dst[:, :last], 0.0)
        for piece in self._pieces(ops, computation, x, dy):
            inputs, start = piece.gathered(ops), piece.step.params_start_col
            ops.add_mat_mat(dst[:, start:start + inputs.shape[1]], piece.y, inputs, 1.0, 1.0, trans_a=True)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        model = _model_from_config(line)
        max_memory_mb = line.get_float("max-memory-mb", DEFAULT_MAX_MEMORY_MB)
        if not np.float32(max_memory_mb) > 0.0:
            raise bad_initializer(line, "max-memory-mb must be above 0")
        stddev, bias_stddev = line.get_float("param-stddev", -1.0), line.get_float("bias-stddev", 0.0)
        if stddev < 0.0:
            stddev = 1.0 / np.sqrt(model.param_cols)
        if line.get_bool("init-unit", False):
            linear = _unit_filters(line, model)
        else:
            linear = normal(rng, (model.num_filters_out, model.param_cols), stddev)
        bias = normal(rng, (model.num_filters_out,), bias_stddev)
        history = line.get_float("num-minibatches-history", DEFAULT_HISTORY)
        if not history > 1.0:
            raise bad_initializer(line, _TOO_SHORT.format(history))
        inner, outer = make_preconditioners(
            line, (default_rank_out(model.param_cols + 1), default_rank_out(model.num_filters_out)),
            ("alpha-in", "alpha-out"), update_period=UPDATE_PERIOD, num_minibatches_history=history)
        return cls(model, linear, bias, inner, outer, max_memory_mb, line.get_bool("use-natural-gradient", True),
                   settings)

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        history = values["preconditioner_in.num_minibatches_history"]
        if not history > 1.0:
            raise reader.error(_TOO_SHORT.format(history))
        return super().from_fields(reader, values)

    def check_read(self, reader: TokenReader) -> None:
        linear, model = self.linear_params, self.model
        check_bias(reader, linear, self.bias_params)
        if linear.shape != (model.num_filters_out, model.param_cols):
            raise reader.error(f"expected a matrix of {model.num_filters_out} x {model.param_cols} after "
                               f"<LinearParams>, found {linear.shape[0]} x {linear.shape[1]}")
        if not self.max_memory_mb > 0.0:
            raise reader.error(f"expected a number above 0 after <MaxMemoryMb>, found {self.max_memory_mb:g}")

    def info(self, verbose: int = 0) -> str:
        model = fields_info(self, self.FIELDS, SETTINGS_INFO) + f" {self.model.info()}"     # Kaldi has no comma between
        text = (type(self).__name__ + model + fields_info(self, self.FIELDS, ("filter-params", "bias-params"))
                + f", num-params={self.num_parameters()}, max-memory-mb={number(self.max_memory_mb)}, "
                f"use-natural-gradient={int(self.use_natural_gradient)}")
        names = ("num-minibatches-history", "rank-in", "rank-out", "alpha")
        return text + fields_info(self, self.FIELDS, names) if self.use_natural_gradient else text


def _model_from_config(line: ConfigLine) -> ConvolutionModel:
    """Return the convolution model that a config line describes. Raises ConfigError for an impossible one."""
    filters_in, filters_out, height_in, height_out = (
        line.get_int(key) for key in ("num-filters-in", "num-filters-out", "height-in", "height-out"))
    if line.has("offsets"):
        offsets = _parse_offsets(line)
    else:
        times, heights = _rising_list(line, "time-offsets"), _rising_list(line, "height-offsets")
        offsets = [(time, height) for time in times for height in heights]
    times = sorted({time for time, _ in offsets})
    required = _rising_list(line, "required-time-offsets") if line.has("required-time-offsets") else times
    model = ConvolutionModel(filters_in, filters_out, height_in, height_out, line.get_int("height-subsample-out", 1),
                             np.array(offsets, dtype=np.int32), np.array(required, dtype=np.int32))
    fault = model.fault()
    if fault is not None:
        raise bad_initializer(line, fault)
    unused = model.unused_height()
    if unused is not None:
        logger.warning("a convolution does not use input height %d: %s", unused, line.whole_line)
    return model


def _parse_offsets(line: ConfigLine) -> list[tuple[int, int]]:
    pairs = [_PAIR.fullmatch(piece) for piece in line.get_string("offsets").split(";")]
    offsets = sorted((int(pair[1]), int(pair[2])) for pair in pairs if pair is not None)
    if None in pairs or len(set(offsets)) != len(offsets):
        raise bad_initializer(line, "offsets must be pairs of time and height such as -1,0;0,0;0,1, none of them twice")
    return offsets


def _rising_list(line: ConfigLine, key: str) -> list[int]:
    values = line.get_ints(key)
    if not values or any(a >= b for a, b in zip(values[:-1], values[1:], strict=True)):
        raise bad_initializer(line, f"{key} must be integers in rising order, none of them twice")
    return values


def _unit_filters(line: ConfigLine, model: ConvolutionModel) -> np.ndarray:
    """Return the parameters that make the convolution copy its input."""
    place = np.flatnonzero((model.offsets == 0).all(axis=1))
    if model.num_filters_in != model.num_filters_out or place.size == 0:
        raise bad_initializer(line, "init-unit needs as many filters out as in, and the offset 0,0")
    linear = np.zeros((model.num_filters_out, model.param_cols), dtype=np.float32)
    start = model.num_filters_in * int(place[0])
    linear[:, start:start + model.num_filters_in] = np.eye(model.num_filters_in)
    return linear
