"""Trained scales and offsets of single columns."""
from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent
from nnet3py.components.fields import OLDER, Field, Fields, Values
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.updatable import (
    OLDER_GRADIENT_MARK,
    SETTINGS,
    UpdatableComponent,
    UpdateSettings,
    bad_initializer,
    normal,
    read_config_vector,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops


def initial_vector(line: ConfigLine, rng: np.random.Generator, dim: int, default_mean: float) -> np.ndarray:
    """A random float32 vector (dim,), by the keys ``param-mean`` and ``param-stddev``."""
    mean, stddev = line.get_float("param-mean", default_mean), line.get_float("param-stddev", 0.0)
    if dim <= 0 or not stddev >= 0.0:
        raise bad_initializer(line, "dim must be above 0 and param-stddev must not be negative")
    return normal(rng, (dim,), stddev, mean)


def vector_from_file(line: ConfigLine) -> np.ndarray | None:
    """The vector in the file that ``vector`` names, or None; the key ``dim``, if given, must be its size."""
    vector = read_config_vector(line, "vector")
    if vector is not None and (vector.size == 0 or line.get_int("dim", vector.size) != vector.size):
        raise bad_initializer(line, f"the vector has {vector.size} elements, which must be dim and above 0")
    return vector


def read_block_dim(line: ConfigLine, dim: int) -> int:
    """The key ``block-dim``, which divides ``dim`` (its default)."""
    block_dim = line.get_int("block-dim", dim)
    if dim <= 0 or block_dim <= 0 or dim % block_dim != 0:
        raise bad_initializer(line, "dim and block-dim must be above 0, and block-dim must divide dim")
    return block_dim


def blocks(matrix: DeviceArray, block_dim: int) -> DeviceArray:
    """The matrix with each row cut into rows of ``block_dim`` columns, (rows * blocks, block_dim), as a view."""
    if matrix.shape[1] == block_dim:
        return matrix
    return matrix.reshape(matrix.shape[0] * (matrix.shape[1] // block_dim), block_dim)


class PerElementScaleComponent(UpdatableComponent):
    """y = s * x, elementwise, trained by plain gradient steps.

    Attributes
    ----------
    scales : float32 (dim,)
    """

    PARAMETERS = ("scales",)
    FIELDS: ClassVar[Fields] = (*SETTINGS, Field("<Params>", "vector", "scales", "scales"), OLDER_GRADIENT_MARK)
    INFO: ClassVar[tuple[str, ...]] = ("scales-min", "scales-max", "scales")

    def __init__(self, scales: np.ndarray, settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.scales = scales

    @property
    def properties(self) -> Properties:
        return (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
                | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE)

    @property
    def input_dim(self) -> int:
        return self.scales.shape[0]

    @property
    def output_dim(self) -> int:
        return self.scales.shape[0]

    # -- computing ---------------------------------------------------------------------------------------------------

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.mul_cols_vec(y, x, self.scales)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if update is not None:   # first, since dx may lie where dy does
            assert isinstance(update, PerElementScaleComponent)
            update._update(ops, x, dy)
        if dx is not None:
            ops.mul_cols_vec(dx, dy, self.scales)

    def _update(self, ops: Ops, x: DeviceArray, dy: DeviceArray) -> None:
        ops.add_row_sum_product(self.scales, x, dy, self.learning_rate, 1.0)

    # -- files and text ----------------------------------------------------------------------------------------------

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        scales = vector_from_file(line)
        if scales is None:
            scales = initial_vector(line, rng, line.get_int("dim", 0), default_mean=1.0)
        return cls(scales, settings)

    def check_read(self, reader: TokenReader) -> None:
        if self.scales.size == 0:
            raise reader.error("the vector after <Params> is empty")


class NaturalGradientPerElementScaleComponent(PerElementScaleComponent):
    """y = s * x, elementwise; the gradient of each row is preconditioned before the rows are summed.

    Attributes
    ----------
    preconditioner : of the rows of x * dy
    """

    FIELDS = (*SETTINGS, Field("<Params>", "vector", "scales", "scales"),
              Field("<IsGradient>", "boolean", "is_gradient"),         # once more
              Field("<Rank>", "integer", "preconditioner.rank", "rank"),
              Field("<UpdatePeriod>", "integer", "preconditioner.update_period", "update-period"),
              Field("<NumSamplesHistory>", "float32", "preconditioner.num_samples_history", "num-samples-history"),
              Field("<Alpha>", "float32", "preconditioner.alpha", "alpha"),
              Field("<MaxChangePerMinibatch>", "float32", default=OLDER))
    INFO = (*PerElementScaleComponent.INFO, "rank", "update-period", "num-samples-history", "alpha")

    def __init__(self, scales: np.ndarray, preconditioner: OnlineNaturalGradient,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(scales, settings)
        self.preconditioner = preconditioner

    def preconditioners(self) -> tuple[OnlineNaturalGradient, ...]:
        return (self.preconditioner,)

    def _update(self, ops: Ops, x: DeviceArray, dy: DeviceArray) -> None:
        if self.is_gradient:
            super()._update(ops, x, dy)
            return
        gradient = ops.scratch(dy.shape[0], dy.shape[1])
        ops.mul_elements(gradient, x, dy)
        ops.add_row_sum_by(self.scales, gradient, self.preconditioner.precondition(ops, gradient, self.learning_rate))

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        try:
            preconditioner = OnlineNaturalGradient(
                line.get_int("rank", 8), line.get_int("update-period", 10),
                line.get_float("num-samples-history", 2000.0), line.get_float("alpha", 4.0))
        except ValueError as error:
            raise bad_initializer(line, str(error)) from error
        scales = read_config_vector(line, "scales")
        if scales is None:
            scales = initial_vector(line, rng, line.get_int("dim", 0), default_mean=1.0)
        if scales.size == 0:
            raise bad_initializer(line, "the vector of scales is empty")
        return cls(scales, preconditioner, settings)


class PerElementOffsetComponent(SameDimComponent, UpdatableComponent):
    """y = x + o, where o may be repeated over blocks of columns.

    Attributes
    ----------
    offsets : float32 (block_dim,)
    dim : columns of input and output, a multiple of block_dim
    """

    PARAMETERS = ("offsets",)
    FIELDS = (*SETTINGS, Field("<Offsets>", "vector", "offsets", "offsets"), OLDER_GRADIENT_MARK,
              Field("<Dim>", "dim", "dim", default=None),
              Field("<UseNaturalGradient>", "boolean", "use_natural_gradient", "use-natural-gradient", default=True))
    INFO = ("offsets-min", "offsets-max", "block-dim", "use-natural-gradient", "offsets")

    def __init__(self, offsets: np.ndarray, dim: int, use_natural_gradient: bool = True,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.offsets = offsets
        self.dim = dim
        self.use_natural_gradient = use_natural_gradient
        self.preconditioner = OnlineNaturalGradient(rank=20, update_period=4)   # never frozen, as in Kaldi

    @property
    def properties(self) -> Properties:
        flags = (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_IN_PLACE
                 | Properties.PROPAGATE_IN_PLACE)
        return flags if self.offsets.shape[0] == self.dim else flags | Properties.OUTPUT_CONTIGUOUS

    # -- computing ---------------------------------------------------------------------------------------------------

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        if y is not x:
            ops.copy_mat(y, x, 1.0)
        ops.add_vec_to_rows(blocks(y, self.offsets.shape[0]), self.offsets, 1.0, 1.0)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None and dx is not dy:
            ops.copy_mat(dx, dy, 1.0)
        if update is None:
            return
        assert isinstance(update, PerElementOffsetComponent)
        gradient = blocks(dy, self.offsets.shape[0])
        if update.use_natural_gradient and not update.is_gradient:
            add_preconditioned_sum(ops, update.offsets, gradient, update.preconditioner, update.learning_rate)
        else:
            ops.add_row_sum(update.offsets, gradient, update.learning_rate, 1.0)

    # -- files and text ----------------------------------------------------------------------------------------------

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        offsets = vector_from_file(line)
        if offsets is not None:
            dim = offsets.size
        else:
            dim = line.get_int("dim", 0)
            offsets = initial_vector(line, rng, read_block_dim(line, dim), default_mean=0.0)
        return cls(offsets, dim, line.get_bool("use-natural-gradient", True), settings)

    @property
    def block_dim(self) -> int:
        """Columns of a block."""
        return self.offsets.shape[0]

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        return super().from_fields(reader, {**values, "dim": values["dim"] or values["offsets"].size})

    def check_read(self, reader: TokenReader) -> None:
        check_blocks(reader, self.dim, self.offsets.size)


def add_preconditioned_sum(ops: Ops, dst: DeviceArray, rows: DeviceArray, preconditioner: OnlineNaturalGradient,
                           rate: float) -> None:
    """Add to ``dst`` the sum of ``rows``, preconditioned, times ``rate``; ``rows`` do not change."""
    copied = ops.scratch(rows.shape[0], rows.shape[1])
    ops.copy_mat(copied, rows, 1.0)
    ops.add_row_sum_by(dst, copied, preconditioner.precondition(ops, copied, rate))


def check_blocks(reader: TokenReader, dim: int, block_dim: int) -> None:
    """Raise FormatError unless ``dim`` is a multiple of ``block_dim``."""
    if dim <= 0 or block_dim == 0 or dim % block_dim != 0:
        raise reader.error(f"<Dim> is {dim}, expected a multiple of the {block_dim} parameters")
