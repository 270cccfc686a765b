"""Trained vectors: scales and offsets of columns, and constant rows."""
from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent, copy_if_apart
from nnet3py.components.fields import OLDER, Field, Fields, Values, fields_info
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.normalize import in_blocks
from nnet3py.components.updatable import (
    OLDER_GRADIENT_MARK,
    OLDER_SETTINGS,
    SETTINGS,
    SETTINGS_INFO,
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
    """Return a random normal float32 vector (dim,), by the keys ``param-mean`` and ``param-stddev`` of the line."""
    mean, stddev = line.get_float("param-mean", default_mean), line.get_float("param-stddev", 0.0)
    if dim <= 0 or not stddev >= 0.0:
        raise bad_initializer(line, "dim must be above 0 and param-stddev must not be negative")
    return normal(rng, (dim,), stddev, mean)


def vector_from_file(line: ConfigLine) -> np.ndarray | None:
    """Return the vector in the file of key ``vector``, or None; the key ``dim``, if given, must be its size."""
    vector = read_config_vector(line, "vector")
    if vector is not None and (vector.size == 0 or line.get_int("dim", vector.size) != vector.size):
        raise bad_initializer(line, f"the vector has {vector.size} elements, which must be dim and above 0")
    return vector


def read_block_dim(line: ConfigLine, dim: int) -> int:
    """Return the value of the key ``block-dim``, which must divide ``dim`` (its default)."""
    block_dim = line.get_int("block-dim", dim)
    if dim <= 0 or block_dim <= 0 or dim % block_dim != 0:
        raise bad_initializer(line, "dim and block-dim must be above 0, and block-dim must divide dim")
    return block_dim


class PerElementScaleComponent(SameDimComponent, UpdatableComponent):
    """Elementwise scale y = s * x, trained by plain gradient steps.

    ``scales`` : float32 (dim,).
    """

    PARAMETERS = ("scales",)
    FIELDS: ClassVar[Fields] = (*SETTINGS, Field("<Params>", "vector", "scales", "scales"), OLDER_GRADIENT_MARK)
    INFO: ClassVar[tuple[str, ...]] = ("scales-min", "scales-max", "scales")
    properties = (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
                  | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE)

    def __init__(self, scales: np.ndarray, settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.scales, self.dim = scales, scales.size

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.mul_cols_vec(y, x, self.scales)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if update is not None:   # before dx, which may share the memory of dy
            assert isinstance(update, PerElementScaleComponent)
            update._update(ops, x, dy)
        if dx is not None:
            ops.mul_cols_vec(dx, dy, self.scales)

    def _update(self, ops: Ops, x: DeviceArray, dy: DeviceArray) -> None:
        ops.add_row_sum_product(self.scales, x, dy, self.learning_rate, 1.0)

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
    """Elementwise scale y = s * x, trained by natural gradient: rows of the gradient are preconditioned, then summed.

    ``preconditioner`` : preconditioner of the rows of x * dy.
    """

    FIELDS = (*SETTINGS, Field("<Params>", "vector", "scales", "scales"),
              Field("<IsGradient>", "boolean", "is_gradient"),         # once more
              Field("<Rank>", "integer", "preconditioner.rank", "rank"),
              Field("<UpdatePeriod>", "integer", "preconditioner.update_period", "update-period"),
              Field("<NumSamplesHistory>", "float32", "preconditioner.num_samples_history", "num-samples-history"),
              Field("<Alpha>", "float32", "preconditioner.alpha", "alpha"),
              Field("<MaxChangePerMinibatch>", "float32", default=OLDER))
    INFO = (*PerElementScaleComponent.INFO, "rank", "update-period", "num-samples-history", "alpha")
    FREEZABLE = ("preconditioner",)

    def __init__(self, scales: np.ndarray, preconditioner: OnlineNaturalGradient,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(scales, settings)
        self.preconditioner = preconditioner

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
    """Elementwise offset y = x + o, where o may be repeated over blocks of columns.

    ``offsets`` : float32 (block_dim,); ``dim`` : number of columns of input and output, a multiple of block_dim.
    """

    PARAMETERS = ("offsets",)
    FIELDS = (*SETTINGS, Field("<Offsets>", "vector", "offsets", "offsets"), OLDER_GRADIENT_MARK,
              Field("<Dim>", "dim", "dim", default=None),
              Field("<UseNaturalGradient>", "boolean", "use_natural_gradient", "use-natural-gradient", default=True))
    INFO = ("offsets-min", "offsets-max", "block-dim", "use-natural-gradient", "offsets")

    def __init__(self, offsets: np.ndarray, dim: int, use_natural_gradient: bool = True,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.offsets, self.dim = offsets, dim
        self.use_natural_gradient = use_natural_gradient
        self.preconditioner = OnlineNaturalGradient(rank=20, update_period=4)   # never frozen, as in Kaldi

    @property
    def properties(self) -> Properties:
        flags = (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_IN_PLACE
                 | Properties.PROPAGATE_IN_PLACE)
        return flags if self.offsets.shape[0] == self.dim else flags | Properties.OUTPUT_CONTIGUOUS

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        copy_if_apart(ops, y, x)
        ops.add_vec_to_rows(in_blocks(y, self.offsets.shape[0]), self.offsets, 1.0, 1.0)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            copy_if_apart(ops, dx, dy)
        if update is None:
            return
        assert isinstance(update, PerElementOffsetComponent)
        add_sum(ops, update.offsets, in_blocks(dy, self.offsets.shape[0]), update, update.preconditioner)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        offsets = vector_from_file(line)
        dim = line.get_int("dim", 0) if offsets is None else offsets.size
        if offsets is None:
            offsets = initial_vector(line, rng, read_block_dim(line, dim), default_mean=0.0)
        return cls(offsets, dim, line.get_bool("use-natural-gradient", True), settings)

    @property
    def block_dim(self) -> int:
        """Number of columns of a block."""
        return self.offsets.shape[0]

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        return super().from_fields(reader, {**values, "dim": values["dim"] or values["offsets"].size})

    def check_read(self, reader: TokenReader) -> None:
        check_blocks(reader, self.dim, self.offsets.size)


def add_sum(ops: Ops, dst: DeviceArray, rows: DeviceArray,
            update: PerElementOffsetComponent | ScaleAndOffsetComponent | TrainedRow,
            preconditioner: OnlineNaturalGradient) -> None:
    """Add the sum of ``rows``, times the learning rate of ``update``, to ``dst`` (dim,).

    If ``update`` trains with natural gradient, the rows are preconditioned first.
    """
    if update.is_gradient or not update.use_natural_gradient:
        ops.add_row_sum(dst, rows, update.learning_rate, 1.0)
        return
    copied = ops.scratch(rows.shape[0], rows.shape[1])
    ops.copy_mat(copied, rows, 1.0)
    ops.add_row_sum_by(dst, copied, preconditioner.precondition(ops, copied, update.learning_rate))


def check_blocks(reader: TokenReader, dim: int, block_dim: int) -> None:
    """Raise FormatError unless ``dim`` is a multiple of ``block_dim``."""
    if dim <= 0 or block_dim == 0 or dim % block_dim != 0:
        raise reader.error(f"<Dim> is {dim}, expected a multiple of the {block_dim} parameters")


SMALLEST_SCALE = 1.0e-4   # least absolute scale of ScaleAndOffset, so that its input can be recovered from its output


class ScaleAndOffsetComponent(SameDimComponent, UpdatableComponent):
    """Elementwise scale and offset y = s * x + o, which may be repeated over blocks of columns.

    Scales near 0 act as +-1e-4.

    Attributes
    ----------
    scales, offsets : float32 (block_dim,)
    dim : int
        Number of columns of input and output, a multiple of block_dim.
    """

    PARAMETERS = ("scales", "offsets")
    FIELDS = (*SETTINGS, Field("<Dim>", "dim", "dim"), Field("<Scales>", "vector", "scales", "scales"),
              Field("<Offsets>", "vector", "offsets", "offsets"),
              Field("<UseNaturalGradient>", "boolean", "use_natural_gradient"),
              Field("<Rank>", "integer", "rank", "rank"))
    INFO = ("rank", "block-size", "scales", "offsets")

    def __init__(self, scales: np.ndarray, offsets: np.ndarray, dim: int, use_natural_gradient: bool = True,
                 rank: int = 20, update_period: int = 4, settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.scales, self.offsets, self.dim = scales, offsets, dim
        self.use_natural_gradient = use_natural_gradient
        self.preconditioner_scale = OnlineNaturalGradient(rank, update_period)   # never frozen,
        self.preconditioner_offset = OnlineNaturalGradient(rank, update_period)  # as in Kaldi

    @property
    def properties(self) -> Properties:
        flags = (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_IN_PLACE
                 | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_NEEDS_OUTPUT)
        if self.scales.shape[0] == self.dim:
            return flags
        return flags | Properties.INPUT_CONTIGUOUS | Properties.OUTPUT_CONTIGUOUS

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        y, x = (in_blocks(matrix, self.scales.size) for matrix in (y, x))
        ops.scale_and_offset(y, x, self.scales, self.offsets, SMALLEST_SCALE)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        block_dim = self.scales.shape[0]
        dy = in_blocks(dy, block_dim)
        if update is not None:   # before dx, which may share the memory of dy
            assert isinstance(update, ScaleAndOffsetComponent)
            self._update(ops, in_blocks(y, block_dim), dy, update)
        if dx is not None:
            ops.mul_cols_vec(in_blocks(dx, block_dim), dy, self.scales)

    def _update(self, ops: Ops, y: DeviceArray, dy: DeviceArray, update: ScaleAndOffsetComponent) -> None:
        add_sum(ops, update.offsets, dy, update, update.preconditioner_offset)
        gradient = ops.scratch(dy.shape[0], dy.shape[1])
        ops.scale_gradient_from_output(gradient, y, dy, self.scales, self.offsets, SMALLEST_SCALE)
        rate = update.learning_rate
        if update.use_natural_gradient and not update.is_gradient:
            ops.add_row_sum_by(update.scales, gradient, update.preconditioner_scale.precondition(ops, gradient, rate))
        else:
            ops.add_row_sum(update.scales, gradient, rate, 1.0)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        dim = line.get_int("dim", 0)
        block_dim = read_block_dim(line, dim)
        rank = line.get_int("rank", 20)
        if rank <= 0:
            raise bad_initializer(line, "rank must be above 0")
        return cls(np.ones(block_dim, dtype=np.float32), np.zeros(block_dim, dtype=np.float32), dim,
                   line.get_bool("use-natural-gradient", True), rank, settings=settings)

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        if values["rank"] <= 0:
            raise reader.error(f"<Rank> is {values['rank']}, expected a number above 0")
        # Kaldi's reader leaves the update period at 1; only a component from a config has period 4.
        return super().from_fields(reader, {**values, "update_period": 1})

    def check_read(self, reader: TokenReader) -> None:
        check_blocks(reader, self.dim, self.scales.size)
        if self.offsets.size != self.scales.size:
            raise reader.error(f"{self.offsets.size} offsets, expected {self.scales.size}, the number of scales")

    @property
    def rank(self) -> int:
        """Rank of the preconditioners."""
        return self.preconditioner_scale.rank

    @property
    def block_size(self) -> int | None:
        """Number of columns of a block, or None if there is only one block."""
        return None if self.scales.size == self.dim else self.scales.size


class TrainedRow(UpdatableComponent):
    """Base of components that output the same trained vector in each row.

    Kaldi writes ``max-change`` and ``l2-regularize`` into the files of these types but cannot read all of them again
    (ConstantComponent no ``<L2Regularize>``, ConstantFunctionComponent neither). We write the same bytes and read all.

    ``output`` : float32 (output_dim,); ``is_updatable`` : False if training, ``scale`` and ``add`` leave the vector
    unchanged; ``use_natural_gradient`` : whether the rows of the output derivative are preconditioned.
    """

    PARAMETERS = ("output",)
    FIELDS: ClassVar[Fields] = (
        *OLDER_SETTINGS, Field("<Output>", "vector", "output", "output"),
        Field("<IsUpdatable>", "boolean", "is_updatable", "is-updatable"),
        Field("<UseNaturalGradient>", "boolean", "use_natural_gradient", "use-natural-gradient"))
    INFO: ClassVar[tuple[str, ...]] = ("output-dim", "is-updatable", "use-natural-gradient", "output")
    DIM_KEYS: ClassVar[tuple[str, ...]] = ("output-dim",)       # required keys of config lines

    def __init__(self, output: np.ndarray, is_updatable: bool = True, use_natural_gradient: bool = True,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.output, self.is_updatable = output, is_updatable
        self.use_natural_gradient = use_natural_gradient
        self.preconditioner = OnlineNaturalGradient()   # never frozen, as in Kaldi

    @property
    def output_dim(self) -> int:
        return self.output.shape[0]

    def parameters(self) -> dict[str, np.ndarray]:
        return super().parameters() if self.is_updatable else {}

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.add_vec_to_rows(y, self.output, 1.0, 0.0)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        assert update is None or isinstance(update, TrainedRow)
        if update is not None and update.is_updatable:
            add_sum(ops, update.output, dy, update, update.preconditioner)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        *input_dim, output_dim = (line.get_int(key, 0) for key in cls.DIM_KEYS)
        if min(output_dim, *input_dim, 1) <= 0:
            raise bad_initializer(line, f"{' and '.join(cls.DIM_KEYS)} must be given and above 0")
        mean, stddev = line.get_float("output-mean", 0.0), line.get_float("output-stddev", 0.0)
        return cls(normal(rng, (output_dim,), stddev, mean), *input_dim,      # type: ignore[arg-type, call-arg]
                   line.get_bool("is-updatable", True), line.get_bool("use-natural-gradient", True), settings)

    def check_read(self, reader: TokenReader) -> None:
        if self.output.size == 0:
            raise reader.error("the vector after <Output> is empty")

    def info(self, verbose: int = 0) -> str:
        """Return Kaldi's text, in which the type and its dimensions appear twice."""
        name = type(self).__name__
        return (f"{name}{fields_info(self, self.FIELDS, SETTINGS_INFO)}, {name}"
                + fields_info(self, self.FIELDS, self.INFO))


class ConstantFunctionComponent(TrainedRow):
    """Trained vector for each row of an input, whose values are ignored."""

    FIELDS = (*OLDER_SETTINGS, Field("<InputDim>", "dim", "input_dim"), *TrainedRow.FIELDS[len(OLDER_SETTINGS):])
    INFO = ("input-dim", *TrainedRow.INFO)
    DIM_KEYS = ("input-dim", "output-dim")
    input_dim = 0

    def __init__(self, output: np.ndarray, input_dim: int, is_updatable: bool = True,
                 use_natural_gradient: bool = True, settings: UpdateSettings | None = None) -> None:
        super().__init__(output, is_updatable, use_natural_gradient, settings)
        self.input_dim = input_dim

    @property
    def properties(self) -> Properties:
        flags = Properties.SIMPLE | Properties.BACKPROP_ADDS
        if self.is_updatable:
            flags |= Properties.UPDATABLE
        return flags | Properties.PROPAGATE_IN_PLACE if self.input_dim == self.output_dim else flags


class ConstantComponent(TrainedRow):
    """Trained vector for each requested row, without input."""

    @property
    def properties(self) -> Properties:
        return Properties.UPDATABLE if self.is_updatable else Properties(0)

    @property
    def input_dim(self) -> int:
        """Number of columns that the input descriptor must have, though none of its rows is ever needed."""
        return self.output_dim

    def input_indexes(self, indexes: np.ndarray) -> np.ndarray:
        return np.zeros((len(indexes), 0, 3), dtype=np.int32)
