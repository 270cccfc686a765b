"""Affine maps of blocks of columns: the same map for every block, or one for each."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.affine import TrainedAffineMap, check_bias
from nnet3py.components.base import Component, Properties
from nnet3py.components.elementwise import blocks
from nnet3py.components.fields import LARGEST_DIM, Field
from nnet3py.components.layer_fields import LINEAR_AND_BIAS, read_dims
from nnet3py.components.natural_gradient import OnlineNaturalGradient, Rows
from nnet3py.components.updatable import (
    OLDER_GRADIENT_MARK,
    SETTINGS,
    UpdatableComponent,
    UpdateSettings,
    bad_initializer,
    normal,
)

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

LARGEST_RANK = 40


class RepeatedAffineComponent(TrainedAffineMap):
    """y_k = W x_k + b for each of several blocks x_k of the input, trained by plain gradient steps.

    Attributes
    ----------
    linear_params : float32 (output_dim / num_repeats, input_dim / num_repeats)
    bias_params : float32 (output_dim / num_repeats,)
    num_repeats : how many blocks input and output have
    """

    FIELDS = (*SETTINGS, Field("<NumRepeats>", "dim", "num_repeats", "num-repeats"), *LINEAR_AND_BIAS,
              OLDER_GRADIENT_MARK)

    def __init__(self, linear_params: np.ndarray, bias_params: np.ndarray, num_repeats: int,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.num_repeats = num_repeats

    @property
    def properties(self) -> Properties:
        return (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_ADDS
                | Properties.INPUT_CONTIGUOUS | Properties.OUTPUT_CONTIGUOUS)

    @property
    def input_dim(self) -> int:
        return self.num_repeats * self.linear_params.shape[1]

    @property
    def output_dim(self) -> int:
        return self.num_repeats * self.linear_params.shape[0]

    def as_block_affine(self) -> BlockAffineComponent:
        """The BlockAffineComponent that computes the same, with a copy of W and b for each block."""
        component = BlockAffineComponent(np.tile(self.linear_params, (self.num_repeats, 1)),
                                         np.tile(self.bias_params, self.num_repeats), self.num_repeats)
        component.copy_settings(self)
        return component

    # -- computing ---------------------------------------------------------------------------------------------------

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
        return blocks(matrix, self.linear_params.shape[1])

    def _output_blocks(self, matrix: DeviceArray) -> DeviceArray:
        return blocks(matrix, self.linear_params.shape[0])

    # -- files and text ----------------------------------------------------------------------------------------------

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
    """The same map for each block, trained by natural gradient: the rows of a minibatch's gradient are preconditioned.

    Attributes
    ----------
    preconditioner : of the rows of [dW, db]; never frozen, as in Kaldi
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
    """y_k = W_k x_k + b_k for each of several blocks x_k of the input, trained by plain gradient steps.

    Attributes
    ----------
    linear_params : float32 (output_dim, input_dim / num_blocks), the W_k one below the other
    bias_params : float32 (output_dim,)
    num_blocks : how many blocks input and output have
    """

    PARAMETERS = ("linear_params", "bias_params")
    FIELDS = (*SETTINGS, Field("<NumBlocks>", "dim", "num_blocks", "num-blocks"), *LINEAR_AND_BIAS, OLDER_GRADIENT_MARK)

    def __init__(self, linear_params: np.ndarray, bias_params: np.ndarray, num_blocks: int,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.num_blocks = num_blocks

    @property
    def properties(self) -> Properties:
        return (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
                | Properties.BACKPROP_ADDS)

    @property
    def input_dim(self) -> int:
        return self.num_blocks * self.linear_params.shape[1]

    @property
    def output_dim(self) -> int:
        return self.linear_params.shape[0]

    # -- computing ---------------------------------------------------------------------------------------------------

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
        """For each block its columns of the input, and its columns of the output, which are rows of the weights."""
        block_in, block_out = self.linear_params.shape[1], self.linear_params.shape[0] // self.num_blocks
        return [(slice(k * block_in, (k + 1) * block_in), slice(k * block_out, (k + 1) * block_out))
                for k in range(self.num_blocks)]

    # -- files and text ----------------------------------------------------------------------------------------------

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


# -- what both have in common ------------------------------------------------------------------------------------------


def _read_block_dims(line: ConfigLine, key: str) -> tuple[int, int, int]:
    """The number of blocks, which ``key`` gives, and the columns of one block of the input and of the output."""
    input_dim, output_dim = read_dims(line)
    count = line.get_int(key, 0)
    if count <= 0 or input_dim % count or output_dim % count:
        raise bad_initializer(line, f"{key} must be given, above 0, and divide input-dim and output-dim")
    return count, input_dim // count, output_dim // count


def _initial_parameters(line: ConfigLine, rng: np.random.Generator, shape: tuple[int, int],
                        bias_stddev: float) -> tuple[np.ndarray, np.ndarray]:
    """Random weights of that shape and a random bias; ``bias_stddev`` is the default of its key."""
    stddev = line.get_float("param-stddev", 1.0 / np.sqrt(shape[1]))
    mean, bias_stddev = line.get_float("bias-mean", 0.0), line.get_float("bias-stddev", bias_stddev)
    if not (stddev >= 0.0 and bias_stddev >= 0.0):
        raise bad_initializer(line, "param-stddev and bias-stddev must not be negative")
    return normal(rng, shape, stddev), normal(rng, shape[:1], bias_stddev, mean)
