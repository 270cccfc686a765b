"""Affine and linear maps of rows or of blocks of columns: with and without natural gradient, and a fixed one."""
from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.components.fields import LARGEST_DIM, OLDER, Field, Fields
from nnet3py.components.natural_gradient import OnlineNaturalGradient, Rows, natural_gradient_step
from nnet3py.components.normalize import in_blocks
from nnet3py.components.updatable import (
    LINEAR_AND_BIAS,
    OLDER_GRADIENT_MARK,
    ORTHONORMAL_CONSTRAINT,
    PRECONDITIONERS_INFO,
    SETTINGS,
    SMOOTHING,
    WEIGHTS_AND_BIAS,
    UpdatableComponent,
    UpdateSettings,
    bad_initializer,
    initial_weights,
    normal,
    preconditioners_from_config,
    read_config_matrix,
    read_dims,
)

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

def check_bias(reader: TokenReader, linear: np.ndarray, bias: np.ndarray) -> None:
    """Raise FormatError unless ``bias`` has one element for each row of ``linear``."""
    if bias.size != linear.shape[0]:
        raise reader.error(f"the bias has {bias.size} elements, the matrix {linear.shape[0]} rows")


class AffineMap(Component):
    """Base of trained and fixed affine components: y = W x + b."""

    linear_params: np.ndarray
    bias_params: np.ndarray

    @property
    def input_dim(self) -> int:
        return self.linear_params.shape[1]

    @property
    def output_dim(self) -> int:
        return self.linear_params.shape[0]

    def check_read(self, reader: TokenReader) -> None:
        check_bias(reader, self.linear_params, self.bias_params)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.affine(y, x, self.linear_params, self.bias_params)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.add_mat_mat(dx, dy, self.linear_params, 1.0, 1.0)


class TrainedAffineMap(AffineMap, UpdatableComponent):
    """Base of trained affine components, with the plain gradient step."""

    PARAMETERS = ("linear_params", "bias_params")

    def _update(self, ops: Ops, x: DeviceArray, dy: DeviceArray) -> None:
        """Add the gradient step to W and b, from inputs ``x`` and output derivatives ``dy`` of W."""
        ops.add_row_sum(self.bias_params, dy, self.learning_rate, 1.0)
        ops.add_mat_mat(self.linear_params, dy, x, self.learning_rate, 1.0, trans_a=True)


class AffineComponent(TrainedAffineMap):
    """Affine map y = W x + b, trained by plain gradient steps.

    Attributes
    ----------
    linear_params : float32 (output_dim, input_dim)
    bias_params : float32 (output_dim,)
    orthonormal_constraint : float
        Value that the trainer moves the singular values of W to; 0 for no constraint, negative for any common value.
    """

    FIELDS: ClassVar[Fields] = (*SETTINGS, *WEIGHTS_AND_BIAS, OLDER_GRADIENT_MARK, ORTHONORMAL_CONSTRAINT)
    INFO: ClassVar[tuple[str, ...]] = ("orthonormal-constraint", "linear-params", "bias")

    properties = (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_ADDS)

    def __init__(self, linear_params: np.ndarray, bias_params: np.ndarray, orthonormal_constraint: float = 0.0,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.linear_params, self.bias_params = linear_params, bias_params
        self.orthonormal_constraint = orthonormal_constraint

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        super().backprop(ops, indexes, x, y, dy, memo, update, dx)
        if update is not None:
            assert isinstance(update, AffineComponent)
            update._update(ops, x, dy)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        linear, bias = cls._initial_parameters(line, rng)
        return cls(linear, bias, line.get_float("orthonormal-constraint", 0.0), settings)

    @classmethod
    def _initial_parameters(cls, line: ConfigLine, rng: np.random.Generator,
                            bias_mean: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return W and b, random or from the file of key ``matrix``; ``bias_mean`` allows the key ``bias-mean``."""
        if line.get_string("matrix", ""):
            matrix = initial_weights(line, rng, extra_columns=1)
            return np.ascontiguousarray(matrix[:, :-1]), np.ascontiguousarray(matrix[:, -1])
        linear = initial_weights(line, rng, extra_columns=0)
        stddev = line.get_float("bias-stddev", 1.0)
        if not stddev >= 0.0:
            raise bad_initializer(line, "bias-stddev must not be negative")
        mean = line.get_float("bias-mean", 0.0) if bias_mean else 0.0
        return linear, normal(rng, (linear.shape[0],), stddev, mean)


class NaturalGradientAffineComponent(AffineComponent):
    """Affine map y = W x + b, trained by natural gradient.

    ``preconditioner_in``, ``preconditioner_out`` : preconditioners of the rows of [x, 1] and of the rows of the output
    derivative.
    """

    FIELDS = (*SETTINGS, *WEIGHTS_AND_BIAS, Field("<RankIn>", "integer", "preconditioner_in.rank", "rank-in"),
              Field("<RankOut>", "integer", "preconditioner_out.rank", "rank-out"), ORTHONORMAL_CONSTRAINT, *SMOOTHING,
              Field("<MaxChangePerSample>", "float32", default=OLDER), OLDER_GRADIENT_MARK,
              *(Field(tag, "float64", default=OLDER)
                for tag in ("<UpdateCount>", "<ActiveScalingCount>", "<MaxChangeScaleStats>")))
    INFO = (*AffineComponent.INFO, *PRECONDITIONERS_INFO)
    FREEZABLE = ("preconditioner_in", "preconditioner_out")

    def __init__(self, linear_params: np.ndarray, bias_params: np.ndarray, preconditioner_in: OnlineNaturalGradient,
                 preconditioner_out: OnlineNaturalGradient, orthonormal_constraint: float = 0.0,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(linear_params, bias_params, orthonormal_constraint, settings)
        self.preconditioner_in, self.preconditioner_out = preconditioner_in, preconditioner_out

    def _update(self, ops: Ops, x: DeviceArray, dy: DeviceArray) -> None:
        if self.is_gradient:
            super()._update(ops, x, dy)
        else:
            natural_gradient_step(ops, self.linear_params, self.bias_params, self.learning_rate,
                                  self.preconditioner_in, self.preconditioner_out, (x,), dy)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        linear, bias = cls._initial_parameters(line, rng, bias_mean=True)
        constraint = line.get_float("orthonormal-constraint", 0.0)
        inner, outer = preconditioners_from_config(line, linear.shape[1], linear.shape[0])
        return cls(linear, bias, inner, outer, constraint, settings)


class LinearComponent(UpdatableComponent):
    """Linear map y += W x, trained by natural gradient.

    ``params`` : float32 (output_dim, input_dim); ``use_natural_gradient`` : setting without effect, as in Kaldi:
    natural gradient is used unless the component is marked as a gradient.
    """

    PARAMETERS = ("params",)
    FIELDS = (*SETTINGS, Field("<Params>", "weights", "params", "params"), ORTHONORMAL_CONSTRAINT,
              Field("<UseNaturalGradient>", "boolean", "use_natural_gradient", "use-natural-gradient"),
              Field("<RankInOut>", "integer", "preconditioner_in.rank", "rank-in"),
              Field("", "integer", "preconditioner_out.rank", "rank-out"), *SMOOTHING[::-1])
    INFO = ("params", "orthonormal-constraint", "use-natural-gradient", *PRECONDITIONERS_INFO)
    FREEZABLE = ("preconditioner_in", "preconditioner_out")
    properties = (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
                  | Properties.PROPAGATE_ADDS | Properties.BACKPROP_ADDS)

    def __init__(self, params: np.ndarray, preconditioner_in: OnlineNaturalGradient,
                 preconditioner_out: OnlineNaturalGradient, orthonormal_constraint: float = 0.0,
                 use_natural_gradient: bool = True, settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.params = params
        self.preconditioner_in, self.preconditioner_out = preconditioner_in, preconditioner_out
        self.orthonormal_constraint = orthonormal_constraint
        self.use_natural_gradient = use_natural_gradient

    @property
    def input_dim(self) -> int:
        return self.params.shape[1]

    @property
    def output_dim(self) -> int:
        return self.params.shape[0]

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.add_mat_mat(y, x, self.params, 1.0, 1.0, trans_b=True)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.add_mat_mat(dx, dy, self.params, 1.0, 1.0)
        if update is None:
            return
        assert isinstance(update, LinearComponent)
        if update.is_gradient:
            ops.add_mat_mat(update.params, dy, x, update.learning_rate, 1.0, trans_a=True)
        else:
            natural_gradient_step(ops, update.params, None, update.learning_rate,
                                  update.preconditioner_in, update.preconditioner_out, (x,), dy)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        params = initial_weights(line, rng, extra_columns=0)
        inner, outer = preconditioners_from_config(line, params.shape[1], params.shape[0])
        return cls(params, inner, outer, line.get_float("orthonormal-constraint", 0.0),
                   line.get_bool("use-natural-gradient", True), settings)


class FixedAffineComponent(AffineMap):
    """Affine map y = W x + b that is never trained, such as a feature transform.

    ``linear_params`` : float32 (output_dim, input_dim); ``bias_params`` : float32 (output_dim,).
    """

    CONSTANTS = ("linear_params", "bias_params")   # kernels read them
    FIELDS = LINEAR_AND_BIAS
    INFO = ("input-dim", "output-dim", "linear-params", "bias")
    properties = Properties.SIMPLE | Properties.BACKPROP_ADDS

    def __init__(self, linear_params: np.ndarray, bias_params: np.ndarray) -> None:
        self.linear_params, self.bias_params = linear_params, bias_params

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        matrix = read_config_matrix(line, "matrix")
        if matrix is not None:
            if matrix.shape[0] == 0 or matrix.shape[1] < 2:
                raise bad_initializer(line, f"the matrix is {matrix.shape[0]} x {matrix.shape[1]}; its last column is "
                                            "the bias, so that it needs a row and two columns at least")
        else:
            input_dim, output_dim = read_dims(line)
            matrix = normal(rng, (output_dim, input_dim + 1), 1.0)
        return cls(np.ascontiguousarray(matrix[:, :-1]), np.ascontiguousarray(matrix[:, -1]))


LARGEST_RANK = 40


class RepeatedAffineComponent(TrainedAffineMap):
    """Affine map y_k = W x_k + b, the same for each block x_k of the input, trained by plain gradient steps.

    ``linear_params`` : float32 (output_dim / num_repeats, input_dim / num_repeats); ``bias_params`` : float32
    (output_dim / num_repeats,); ``num_repeats`` : number of blocks of input and output.
    """

    FIELDS = (*SETTINGS, Field("<NumRepeats>", "dim", "num_repeats", "num-repeats"), *LINEAR_AND_BIAS,
              OLDER_GRADIENT_MARK)
    properties = (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_ADDS
                  | Properties.INPUT_CONTIGUOUS | Properties.OUTPUT_CONTIGUOUS)

    def __init__(self, linear_params: np.ndarray, bias_params: np.ndarray, num_repeats: int,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.linear_params, self.bias_params = linear_params, bias_params
        self.num_repeats = num_repeats

    @property
    def input_dim(self) -> int:
        return self.num_repeats * self.linear_params.shape[1]

    @property
    def output_dim(self) -> int:
        return self.num_repeats * self.linear_params.shape[0]

    def as_block_affine(self) -> BlockAffineComponent:
        """Return the BlockAffineComponent with a copy of W and b for each block, which computes the same."""
        component = BlockAffineComponent(np.tile(self.linear_params, (self.num_repeats, 1)),
                                         np.tile(self.bias_params, self.num_repeats), self.num_repeats)
        component.copy_settings(self)
        return component

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        super().propagate(ops, indexes, self._input_blocks(x), self._output_blocks(y), memo)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        dy = self._output_blocks(dy)
        if dx is not None:
            super().backprop(ops, indexes, x, y, dy, memo, None, self._input_blocks(dx))
        if update is not None:
            assert isinstance(update, RepeatedAffineComponent)
            update._update(ops, self._input_blocks(x), dy)

    def _input_blocks(self, matrix: DeviceArray) -> DeviceArray:
        return in_blocks(matrix, self.linear_params.shape[1])

    def _output_blocks(self, matrix: DeviceArray) -> DeviceArray:
        return in_blocks(matrix, self.linear_params.shape[0])

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        num_repeats, block_in, block_out = _read_block_dims(line, "num-repeats")
        linear, bias = _initial_parameters(line, rng, (block_out, block_in), bias_stddev=0.0)
        return cls(linear, bias, num_repeats, settings)

    def check_read(self, reader: TokenReader) -> None:
        super().check_read(reader)
        linear = self.linear_params
        if linear.size == 0:
            raise reader.error("the matrix after <LinearParams> is empty")
        if self.num_repeats * max(linear.shape) > LARGEST_DIM:
            raise reader.error(f"{self.num_repeats} repeats of a matrix of {linear.shape[0]} x {linear.shape[1]} make "
                               f"more than {LARGEST_DIM} dimensions")


class NaturalGradientRepeatedAffineComponent(RepeatedAffineComponent):
    """Affine map of each block, trained by natural gradient on the summed gradient of a minibatch.

    Attributes
    ----------
    preconditioner : OnlineNaturalGradient
        Preconditioner of the rows of [dW, db]; never frozen, as in Kaldi.
    """

    def __init__(self, linear_params: np.ndarray, bias_params: np.ndarray, num_repeats: int,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(linear_params, bias_params, num_repeats, settings)
        rank = max(1, min(LARGEST_RANK, linear_params.shape[1] // 2))
        self.preconditioner = OnlineNaturalGradient(rank, update_period=4)

    def _update(self, ops: Ops, x: DeviceArray, dy: DeviceArray) -> None:
        if self.is_gradient:
            super()._update(ops, x, dy)
            return
        num_cols = x.shape[1]
        gradient = ops.scratch(dy.shape[1], num_cols + 1)
        Rows((x,), ones=True).moment(ops, dy, gradient)
        factor = self.preconditioner.precondition(ops, gradient, self.learning_rate)
        ops.add_mat_by(self.linear_params, gradient[:, :num_cols], factor)
        ops.add_mat_by(self.bias_params.reshape(-1, 1), gradient[:, num_cols:], factor)


class BlockAffineComponent(UpdatableComponent):
    """Affine map y_k = W_k x_k + b_k of each block x_k of the input, trained by plain gradient steps.

    ``linear_params`` : float32 (output_dim, input_dim / num_blocks), the matrices W_k one below the other;
    ``bias_params`` : float32 (output_dim,); ``num_blocks`` : number of blocks of input and output.
    """

    PARAMETERS = ("linear_params", "bias_params")
    FIELDS = (*SETTINGS, Field("<NumBlocks>", "dim", "num_blocks", "num-blocks"), *LINEAR_AND_BIAS, OLDER_GRADIENT_MARK)
    properties = (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_ADDS)

    def __init__(self, linear_params: np.ndarray, bias_params: np.ndarray, num_blocks: int,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.linear_params, self.bias_params = linear_params, bias_params
        self.num_blocks = num_blocks

    @property
    def input_dim(self) -> int:
        return self.num_blocks * self.linear_params.shape[1]

    @property
    def output_dim(self) -> int:
        return self.linear_params.shape[0]

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.add_vec_to_rows(y, self.bias_params, 1.0, 0.0)
        for columns, rows in self._blocks():
            ops.add_mat_mat(y[:, rows], x[:, columns], self.linear_params[rows], 1.0, 1.0, trans_b=True)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            for columns, rows in self._blocks():
                ops.add_mat_mat(dx[:, columns], dy[:, rows], self.linear_params[rows], 1.0, 1.0)
        if update is None:
            return
        assert isinstance(update, BlockAffineComponent)
        rate = update.learning_rate
        ops.add_row_sum(update.bias_params, dy, rate, 1.0)
        for columns, rows in self._blocks():
            ops.add_mat_mat(update.linear_params[rows], dy[:, rows], x[:, columns], rate, 1.0, trans_a=True)

    def _blocks(self) -> list[tuple[slice, slice]]:
        """Return each block's columns of the input, and its columns of the output, which are rows of the weights."""
        block_in, block_out = self.linear_params.shape[1], self.linear_params.shape[0] // self.num_blocks
        return [(slice(k * block_in, (k + 1) * block_in), slice(k * block_out, (k + 1) * block_out))
                for k in range(self.num_blocks)]

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        num_blocks, block_in, block_out = _read_block_dims(line, "num-blocks")
        linear, bias = _initial_parameters(line, rng, (num_blocks * block_out, block_in), bias_stddev=1.0)
        return cls(linear, bias, num_blocks, settings)

    def check_read(self, reader: TokenReader) -> None:
        check_bias(reader, self.linear_params, self.bias_params)
        if self.linear_params.size == 0:
            raise reader.error("the matrix after <LinearParams> is empty")
        if self.output_dim % self.num_blocks:
            raise reader.error(f"the matrix has {self.output_dim} rows, expected a multiple of the {self.num_blocks} "
                               "blocks")


# -- initial parameters of both kinds of blocks ------------------------------------------------------------------------


def _read_block_dims(line: ConfigLine, key: str) -> tuple[int, int, int]:
    """Return the number of blocks, from key ``key``, and the columns of a block of input and output."""
    input_dim, output_dim = read_dims(line)
    count = line.get_int(key, 0)
    if count <= 0 or input_dim % count or output_dim % count:
        raise bad_initializer(line, f"{key} must be given, above 0, and divide input-dim and output-dim")
    return count, input_dim // count, output_dim // count


def _initial_parameters(line: ConfigLine, rng: np.random.Generator, shape: tuple[int, int],
                        bias_stddev: float) -> tuple[np.ndarray, np.ndarray]:
    """Return random weights and a random bias; ``bias_stddev`` is the default of the key ``bias-stddev``."""
    stddev = line.get_float("param-stddev", 1.0 / np.sqrt(shape[1]))
    mean, bias_stddev = line.get_float("bias-mean", 0.0), line.get_float("bias-stddev", bias_stddev)
    if not (stddev >= 0.0 and bias_stddev >= 0.0):
        raise bad_initializer(line, "param-stddev and bias-stddev must not be negative")
    return normal(rng, shape, stddev), normal(rng, shape[:1], bias_stddev, mean)
