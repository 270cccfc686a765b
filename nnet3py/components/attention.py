"""Restricted self-attention: each frame attends to a fixed number of frames around it."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnet3py.components.base import Component, Properties, compiled_for_others
from nnet3py.components.fields import (
    LARGEST_DIM,
    Field,
    InFiles,
    Values,
    as_float32,
    invalid_initializer,
    number,
    take_part,
)
from nnet3py.components.time_grid import TimeGrid, at_time_offsets
from nnet3py.errors import CompileError

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Memory, Ops

LARGEST_REACH = 1 << 24         # frames; a file with a larger reach is damaged
LARGEST_NUM_WEIGHTS = 1 << 18   # heads times positions, so that a damaged number cannot cost more memory
HEADS_IN_INFO = 5
STATS_DRAWS = 3                 # statistics are stored unless a draw from this many numbers gives 0


@dataclass
class RestrictedAttentionComponentPrecomputedIndexes(InFiles):
    """Grid of the times and sequences of input and output rows. Kaldi's class of this name."""

    FIELDS = (Field("<Io>", TimeGrid, "grid"),)

    grid: TimeGrid


@dataclass(frozen=True)
class AttentionShape:
    """Frames that an attention component attends to, and dimensions of its heads, in the order of fields in files."""

    num_heads: int
    key_dim: int
    value_dim: int
    num_left_inputs: int
    num_right_inputs: int
    time_stride: int
    num_left_inputs_required: int
    num_right_inputs_required: int
    output_context: bool
    key_scale: float

    @property
    def positions(self) -> int:
        """Number of frames that each frame attends to. Kaldi: context-dim."""
        return self.num_left_inputs + 1 + self.num_right_inputs

    @property
    def head_input_dim(self) -> int:
        """Columns of a head's input: key, value, query, and a term per position that is added to the products."""
        return 2 * self.key_dim + self.value_dim + self.positions

    @property
    def head_output_dim(self) -> int:
        """Columns of a head's output: value and, with ``output_context``, the weights."""
        return self.value_dim + (self.positions if self.output_context else 0)

    def fault(self) -> str:
        """Return the reason why the shape is impossible; empty if it is possible."""
        left, right = self.num_left_inputs, self.num_right_inputs
        if min(self.num_heads, self.key_dim, self.value_dim, self.time_stride) < 1:
            return "num-heads, key-dim, value-dim and time-stride must be given and above 0"
        if min(left, right) < 0 or left + right == 0:
            return "num-left-inputs and num-right-inputs must be given, not negative, and not both 0"
        if not (0 <= self.num_left_inputs_required <= left and 0 <= self.num_right_inputs_required <= right):
            return "num-left-inputs-required and num-right-inputs-required must be from 0 to num-{left,right}-inputs"
        if not 0.0 < self.key_scale <= 1.0:
            return "key-scale must be above 0 and at most 1"
        if (self.num_heads * self.head_input_dim > LARGEST_DIM or self.num_heads * self.positions > LARGEST_NUM_WEIGHTS
                or self.time_stride * max(left, right) > LARGEST_REACH):
            return "the dimensions are larger than any model's"
        return ""


class _Head(NamedTuple):
    """Matrices of one head: views of those of the whole component. ``y`` is the output or its derivative."""

    keys: DeviceArray        # (input rows, key_dim)
    values: DeviceArray      # (input rows, value_dim)
    queries: DeviceArray     # (output rows, key_dim)
    added: DeviceArray       # (output rows, positions), added to the scaled products
    weights: DeviceArray     # (output rows, positions)
    y: DeviceArray           # (output rows, value_dim)
    y_weights: DeviceArray   # (output rows, positions or none)


class RestrictedAttentionComponent(Component):
    """Multi-head attention to the frames around t, weighted by the softmax of key-query products.

    For position o and frame t + d, d = (o - num_left_inputs) * time_stride, the weight is the softmax over o of
    key_scale key(t + d) . query(t) + added_o(t). Kaldi: RestrictedAttentionComponent.

    Attributes
    ----------
    count : float64 (1,), number of rows in the statistics
    entropy : float64 (num_heads,), sum over those rows of the entropy of the weights
    posterior : float64 (num_heads, positions), sum of the weights
    stored : bool (1,), whether statistics were ever requested: until then, files hold none
    """

    STATISTICS = ("count", "entropy", "posterior")
    FIELDS = (Field("<NumHeads>", "integer", "shape.num_heads", "num-heads"),
              Field("<KeyDim>", "integer", "shape.key_dim", "key-dim"),
              Field("<ValueDim>", "integer", "shape.value_dim", "value-dim"),
              Field("<NumLeftInputs>", "integer", "shape.num_left_inputs", "num-left-inputs"),
              Field("<NumRightInputs>", "integer", "shape.num_right_inputs", "num-right-inputs"),
              Field("<TimeStride>", "integer", "shape.time_stride", "time-stride"),
              Field("<NumLeftInputsRequired>", "integer", "shape.num_left_inputs_required", "num-left-inputs-required"),
              Field("<NumRightInputsRequired>", "integer", "shape.num_right_inputs_required",
                    "num-right-inputs-required"),
              Field("<OutputContext>", "boolean", "shape.output_context", "output-context"),
              Field("<KeyScale>", "float32", "shape.key_scale", "key-scale"),
              Field("<StatsCount>", "float64", "count.0"),
              Field("<EntropyStats>", "double_vector", "stored_entropy"),
              Field("<PosteriorStats>", "double_matrix", "stored_posterior"))
    INFO = ("input-dim", "output-dim", "num-heads", "time-stride", "key-dim", "value-dim", "num-left-inputs",
            "num-right-inputs", "context-dim", "num-left-inputs-required", "num-right-inputs-required",
            "output-context", "key-scale")
    properties = (Properties.REORDERS_INDEXES | Properties.BACKPROP_NEEDS_INPUT | Properties.PROPAGATE_ADDS
                  | Properties.BACKPROP_ADDS | Properties.STORES_STATS | Properties.USES_MEMO)

    def __init__(self, shape: AttentionShape) -> None:
        self.shape = shape
        self.count, self.entropy = np.zeros(1), np.zeros(shape.num_heads)
        self.posterior = np.zeros((shape.num_heads, shape.positions))
        self.stored = np.zeros(1, dtype=bool)

    @property
    def input_dim(self) -> int:
        return self.shape.num_heads * self.shape.head_input_dim

    @property
    def output_dim(self) -> int:
        return self.shape.num_heads * self.shape.head_output_dim

    def _positions(self) -> np.ndarray:
        """Return the distance of each position from the frame itself, in input frames, int32 (positions,)."""
        return np.arange(-self.shape.num_left_inputs, self.shape.num_right_inputs + 1, dtype=np.int32)

    def input_indexes(self, indexes: np.ndarray) -> np.ndarray:
        return at_time_offsets(indexes, self._positions() * self.shape.time_stride)

    def is_computable(self, indexes: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = self._positions()
        required = (-self.shape.num_left_inputs_required <= places) & (places <= self.shape.num_right_inputs_required)
        return np.asarray(available[:, required].all(axis=1)), available

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        grid = self._grid(inputs, outputs)
        return grid.input_rows(inputs), grid.output_rows(outputs)

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray,
                           need_backprop: bool) -> RestrictedAttentionComponentPrecomputedIndexes:
        return RestrictedAttentionComponentPrecomputedIndexes(self._grid(inputs, outputs))

    def _grid(self, inputs: np.ndarray, outputs: np.ndarray) -> TimeGrid:
        """Return the grid of input and output, with one step for both and all positions of all outputs in the input."""
        shape, grid = self.shape, TimeGrid.from_indexes(inputs, outputs)
        stride = shape.time_stride
        step_in, step_out = grid.step_in or stride, grid.step_out or stride
        step = math.gcd(step_in, step_out, stride)
        grid.num_in = 1 + step_in // step * (grid.num_in - 1)
        grid.num_out = 1 + step_out // step * (grid.num_out - 1)
        grid.step_in = grid.step_out = step
        last_out, last_in = (first + (num - 1) * step for first, num in ((grid.start_out, grid.num_out),
                                                                         (grid.start_in, grid.num_in)))
        left, right = grid.start_out - stride * shape.num_left_inputs, last_out + stride * shape.num_right_inputs
        left_required = grid.start_out - stride * shape.num_left_inputs_required
        right_required = last_out + stride * shape.num_right_inputs_required
        if not (left <= grid.start_in <= left_required and right_required <= last_in <= right) or (
                grid.start_in - left) % step:
            raise CompileError(f"attention cannot use inputs from t={grid.start_in} to t={last_in} for outputs from "
                               f"t={grid.start_out} to t={last_out}, {step} apart: it wants t={left} to t={right}, and "
                               f"at least t={left_required} to t={right_required}")
        grid.start_in, grid.num_in = left, 1 + (right - left) // step
        return grid

    def new_memo(self, ops: Memory, num_rows: int) -> DeviceArray:
        """Return storage for the weights, (output rows, heads * positions)."""
        cols = self.posterior.size
        return ops.new_vector(num_rows * cols).reshape(num_rows, cols)

    def propagate(self, ops: Ops, indexes: RestrictedAttentionComponentPrecomputedIndexes, x: DeviceArray,
                  y: DeviceArray, memo: DeviceArray) -> None:
        shift, first_row = self._shift(indexes.grid, x, y)
        heads = [self._head(h, first_row, x, memo, y) for h in range(self.shape.num_heads)]
        for head in heads:
            ops.copy_mat(head.weights, head.added, 1.0)
            ops.add_shifted_dots(head.weights, head.queries, head.keys, shift, self.shape.key_scale)
        weights = self._rows_of_heads(memo)
        ops.softmax(weights, weights)
        for head in heads:
            ops.add_shifted_rows(head.y, head.weights, head.values, shift, 1.0)
            if self.shape.output_context:
                ops.add_mat(head.y_weights, head.weights, 1.0)    # Kaldi sets these columns; they are zero there

    def backprop(self, ops: Ops, indexes: RestrictedAttentionComponentPrecomputedIndexes, x: DeviceArray,
                 y: DeviceArray, dy: DeviceArray, memo: DeviceArray, update: Component | None,
                 dx: DeviceArray | None) -> None:
        if dx is None:
            return
        (shift, first_row), scale = self._shift(indexes.grid, x, dy), self.shape.key_scale
        dweights = ops.scratch(*memo.shape)
        if not self.shape.output_context:
            ops.set_const(dweights, 0.0)
        heads = [(self._head(h, first_row, x, memo, dy), self._head(h, first_row, dx, dweights, dy))
                 for h in range(self.shape.num_heads)]
        for given, deriv in heads:
            if self.shape.output_context:
                ops.copy_mat(deriv.weights, given.y_weights, 1.0)
            ops.add_shifted_dots(deriv.weights, given.y, given.values, shift, 1.0)
        rows = self._rows_of_heads(dweights)
        ops.softmax_backprop(rows, self._rows_of_heads(memo), rows)
        for given, deriv in heads:
            ops.add_mat(deriv.added, deriv.weights, 1.0)
            ops.add_shifted_rows(deriv.queries, deriv.weights, given.keys, shift, scale)
            ops.add_to_shifted_rows(deriv.keys, deriv.weights, given.queries, shift, scale)
            ops.add_to_shifted_rows(deriv.values, given.weights, given.y, shift, 1.0)

    def store_stats(self, ops: Ops, x: DeviceArray, y: DeviceArray, memo: DeviceArray) -> None:
        self.stored[0] = True
        draw = ops.random.draw_integer(STATS_DRAWS)
        ops.attention_store_stats(self.count, self.entropy, self.posterior, memo, draw)

    def check_precomputed(self, indexes: RestrictedAttentionComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                          need_backprop: bool) -> None:
        self._shift(indexes.grid, x, y)

    def _shift(self, grid: TimeGrid, x: DeviceArray, y: DeviceArray) -> tuple[int, int]:
        """Return the number of input rows between neighboring positions, and the input row of the first output row.

        Raises ShapeError for a grid, perhaps from a file, that is not this component's or not for these rows.
        """
        step, images, shape = max(grid.step_in, 1), grid.num_images, self.shape
        shift, first_row = (images * frames // step for frames in (
            shape.time_stride, shape.time_stride * shape.num_left_inputs))
        if ((x.shape[0], y.shape[0]) != (images * grid.num_in, images * grid.num_out)
                or x.shape[0] != y.shape[0] + (shape.positions - 1) * shift or shift < 0 or shape.time_stride % step
                or grid.start_out - grid.start_in != shape.time_stride * shape.num_left_inputs):
            raise compiled_for_others("attention", x, y)
        return shift, first_row

    def _head(self, h: int, first_row: int, x: DeviceArray, weights: DeviceArray, y: DeviceArray) -> _Head:
        """Return the matrices of head ``h``: views of input, weights and output, or of the derivatives of these."""
        shape, rows = self.shape, slice(first_row, first_row + y.shape[0])
        key, value = h * shape.head_input_dim, h * shape.head_input_dim + shape.key_dim
        query, added, end = value + shape.value_dim, value + shape.value_dim + shape.key_dim, key + shape.head_input_dim
        y_value, y_end = h * shape.head_output_dim, (h + 1) * shape.head_output_dim
        y_weights = y_value + shape.value_dim
        return _Head(x[:, key:value], x[:, value:query], x[rows, query:added], x[rows, added:end],
                     weights[:, h * shape.positions:(h + 1) * shape.positions],
                     y[:, y_value:y_weights], y[:, y_weights:y_end])

    def _rows_of_heads(self, weights: DeviceArray) -> DeviceArray:
        """Return the weights, or their derivative, as a matrix with a row for each output row and head."""
        return weights.reshape(-1, self.shape.positions)

    def add(self, alpha: float, other: Component) -> None:
        assert isinstance(other, RestrictedAttentionComponent)
        super().add(alpha, other)
        self.stored |= other.stored

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> RestrictedAttentionComponent:
        key_dim, value_dim = line.get_int("key-dim", 0), line.get_int("value-dim", 0)
        left, right = line.get_int("num-left-inputs", -1), line.get_int("num-right-inputs", -1)
        left_required, right_required = (
            all_of_them if given < 0 else given for given, all_of_them in (
                (line.get_int("num-left-inputs-required", -1), left),
                (line.get_int("num-right-inputs-required", -1), right)))
        key_scale = line.get_float("key-scale", -1.0)
        if key_scale < 0.0:
            key_scale = 1.0 / math.sqrt(max(key_dim, 1))
        shape = AttentionShape(line.get_int("num-heads", 1), key_dim, value_dim, left, right,
                               line.get_int("time-stride", 1), left_required, right_required,
                               line.get_bool("output-context", True), as_float32(key_scale))
        if shape.fault():
            raise invalid_initializer(line, cls.__name__, shape.fault())
        return cls(shape)

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        shape = AttentionShape(**take_part(values, "shape"))
        if shape.fault():
            values_read = ", ".join(f"{name} {value}" for name, value in vars(shape).items())
            raise reader.error(f"{shape.fault()}; found {values_read}")
        entropy, posterior = values.pop("stored_entropy"), values.pop("stored_posterior")
        component = super().from_fields(reader, {**values, "shape": shape})
        if entropy.size or posterior.size or component.count[0] != 0.0:
            if entropy.shape != component.entropy.shape or posterior.shape != component.posterior.shape:
                raise reader.error(f"expected {component.entropy.size} elements after <EntropyStats> and "
                                   f"{' x '.join(map(str, component.posterior.shape))} after <PosteriorStats>, found "
                                   f"{entropy.size} and {' x '.join(map(str, posterior.shape))}")
            component.entropy[...], component.posterior[...] = entropy, posterior
            component.stored[0] = True
        return component

    @property
    def stored_entropy(self) -> np.ndarray:
        """Entropy sums as in files, empty if statistics were never requested."""
        return self.entropy if self.stored[0] else self.entropy[:0]

    @property
    def stored_posterior(self) -> np.ndarray:
        """Posterior sums as in files, empty if statistics were never requested."""
        return self.posterior if self.stored[0] else self.posterior[:0]

    @property
    def context_dim(self) -> int:
        """Number of positions; Kaldi's name for :attr:`AttentionShape.positions`."""
        return self.shape.positions

    def info(self, verbose: int = 0) -> str:
        text, count = super().info(verbose), float(self.count[0])
        if count != 0.0:
            text += f", entropy={_averages(self.entropy, count)}"
            for h, sums in enumerate(self.posterior[:HEADS_IN_INFO]):
                text += f" posterior-stats[{h}]={_averages(sums, count)}"
            text += f" stats-count={number(count)}"
        return text


def _averages(sums: np.ndarray, count: float) -> str:
    return "".join(f"{number(float(value) / count)}," for value in sums)
