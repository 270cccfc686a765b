"""Components without parameters that copy, permute, sum or multiply columns, and fixed scales and biases."""
from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent
from nnet3py.components.fields import LARGEST_DIM, OLDER, Field, Fields, as_float32, invalid_initializer
from nnet3py.components.nonlinear import NonlinearComponent
from nnet3py.components.updatable import normal, read_config_vector
from nnet3py.formats.matrices import read_vector

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

IN_PLACE = Properties.SIMPLE | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE


class NoOpComponent(SameDimComponent):
    """Copies its input; the derivative is multiplied by ``backprop_scale``. Kaldi: NoOpComponent."""

    FIELDS = (Field("<Dim>", "dim", "dim", "dim"),
              # it was once a nonlinearity: its statistics and settings are dropped
              *(Field(field.tag, field.kind, default=OLDER) for field in NonlinearComponent.FIELDS[2:]),
              Field("<BackpropScale>", "float32", "backprop_scale", "backprop-scale", default=1.0, hidden=1.0))

    properties = IN_PLACE

    def __init__(self, dim: int, backprop_scale: float = 1.0) -> None:
        self.dim = dim
        self.backprop_scale = as_float32(backprop_scale)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        if x is not y:
            ops.copy_mat(y, x, 1.0)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None and (dx is not dy or self.backprop_scale != 1.0):
            ops.copy_mat(dx, dy, self.backprop_scale)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> NoOpComponent:
        dim, backprop_scale = line.get_int("dim", 0), line.get_float("backprop-scale", 1.0)
        if dim <= 0:
            raise invalid_initializer(line, cls.__name__, "dim is required and must be positive; the other key is "
                                      "backprop-scale")
        return cls(dim, backprop_scale)


class BlockComponent(Component):
    """A component whose input has as many columns as several outputs side by side."""

    FIELDS: ClassVar[Fields] = (Field("<InputDim>", "dim", "_input_dim", "input-dim"),
                                Field("<OutputDim>", "dim", "_output_dim", "output-dim"))

    def __init__(self, input_dim: int, output_dim: int) -> None:
        self._input_dim, self._output_dim = input_dim, output_dim

    @property
    def input_dim(self) -> int:
        return self._input_dim

    @property
    def output_dim(self) -> int:
        return self._output_dim

    def check_read(self, reader: TokenReader) -> None:
        if self.input_dim % self.output_dim:
            raise reader.error(f"expected an output dimension that divides the input dimension {self.input_dim}, "
                               f"found {self.output_dim}")


class ElementwiseProductComponent(BlockComponent):
    """y is the elementwise product of the input's blocks of ``output_dim`` columns.

    Kaldi: ElementwiseProductComponent.
    """

    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.multiply_blocks(y, x)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.multiply_blocks_backprop(dx, x, dy)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> ElementwiseProductComponent:
        input_dim, output_dim = line.get_int("input-dim", 0), line.get_int("output-dim", 0)
        if output_dim <= 0 or input_dim <= output_dim or input_dim % output_dim:
            raise invalid_initializer(line, cls.__name__, "input-dim must be a multiple of output-dim, twice or more")
        return cls(input_dim, output_dim)


class SumBlockComponent(BlockComponent):
    """y += scale times the sum of the input's blocks of ``output_dim`` columns. Kaldi: SumBlockComponent."""

    FIELDS = (*BlockComponent.FIELDS, Field("<Scale>", "float32", "block_scale", "scale"))

    properties = Properties.SIMPLE | Properties.PROPAGATE_ADDS | Properties.BACKPROP_ADDS

    def __init__(self, input_dim: int, output_dim: int, block_scale: float = 1.0) -> None:
        super().__init__(input_dim, output_dim)
        self.block_scale = as_float32(block_scale)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.add_sum_of_blocks(y, x, self.block_scale)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.add_to_blocks(dx, dy, self.block_scale)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> SumBlockComponent:
        input_dim, output_dim = line.get_int("input-dim", 0), line.get_int("output-dim", 0)
        scale = line.get_float("scale", 1.0)
        if input_dim <= 0 or output_dim <= 0 or input_dim % output_dim:
            raise invalid_initializer(line, cls.__name__, "input-dim must be a positive multiple of output-dim; the "
                                      "other key is scale")
        return cls(input_dim, output_dim, scale)


class SumGroupComponent(Component):
    """Each output column is the sum of a group of consecutive input columns. Kaldi: SumGroupComponent.

    Parameters
    ----------
    sizes : int32 (output_dim,), how many columns each group has
    """

    FIELDS = (Field("<Sizes>", "integer_vector", "sizes"),)
    properties = Properties.SIMPLE
    CONSTANTS = ("groups",)

    def __init__(self, sizes: np.ndarray) -> None:
        ends = np.cumsum(sizes, dtype=np.int64)
        self.groups = np.stack([ends - sizes, ends], axis=1).astype(np.int32)   # (begin, end) of each group
        self.sizes = np.asarray(sizes, dtype=np.int32)

    @property
    def input_dim(self) -> int:
        return int(self.sizes.sum())

    @property
    def output_dim(self) -> int:
        return len(self.sizes)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.sum_column_groups(y, x, self.groups)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.copy_to_column_groups(dx, dy, self.groups)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> SumGroupComponent:
        sizes_text = line.get_string("sizes", "")
        if sizes_text:
            sizes = _integers(sizes_text)
            if sizes.size == 0 or sizes.min() <= 0 or sizes.sum() > LARGEST_DIM:
                raise invalid_initializer(line, cls.__name__, "sizes must be positive whole numbers, as in 3,4,5")
            return cls(sizes)
        input_dim, output_dim = line.get_int("input-dim", 0), line.get_int("output-dim", 0)
        if input_dim <= 0 or output_dim <= 0 or input_dim % output_dim:
            raise invalid_initializer(line, cls.__name__, "give sizes, or input-dim and an output-dim that divides it")
        return cls(np.full(output_dim, input_dim // output_dim))

    def check_read(self, reader: TokenReader) -> None:
        if self.sizes.size == 0 or self.sizes.min() <= 0 or self.input_dim > LARGEST_DIM:
            raise reader.error(f"expected positive group sizes that sum to at most {LARGEST_DIM}")


class PermuteComponent(Component):
    """Output column i is input column ``column_map[i]``. Kaldi: PermuteComponent.

    Parameters
    ----------
    column_map : int32 (dim,), a permutation of 0..dim-1
    """

    FIELDS = (Field("<ColumnMap>", "integer_vector", "column_map"),)
    properties = Properties.SIMPLE
    CONSTANTS = ("column_map", "inverse_map")

    def __init__(self, column_map: np.ndarray) -> None:
        self.column_map = np.ascontiguousarray(column_map, dtype=np.int32)
        self.inverse_map = np.argsort(self.column_map).astype(np.int32)

    @property
    def input_dim(self) -> int:
        return len(self.column_map)

    @property
    def output_dim(self) -> int:
        return len(self.column_map)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.copy_cols(y, x, self.column_map)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.copy_cols(dx, dy, self.inverse_map)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> PermuteComponent:
        column_map = _integers(line.get_string("column-map", ""))
        if not _is_permutation(column_map):
            raise invalid_initializer(line, cls.__name__, "column-map must be a permutation of 0, 1, ..., dim-1")
        return cls(column_map)

    # Irregular: in older binary files the map is a vector of floats, which only the first byte shows.
    @classmethod
    def read(cls, reader: TokenReader) -> PermuteComponent:
        reader.expect_one_or_two("<PermuteComponent>", "<ColumnMap>")
        if reader.binary and reader.peek_byte() == b"F":       # old files: a float vector
            column_map = (read_vector(reader) + np.float32(0.5)).astype(np.int64)
            if column_map.size:
                column_map[-1] = column_map.size - 1           # as Kaldi reads these files
        else:
            column_map = reader.integer_vector().astype(np.int64)
        if not _is_permutation(column_map):
            raise reader.error("expected each number from 0 to dim-1 once after <ColumnMap>, found "
                               + np.array2string(column_map, threshold=10, edgeitems=4))
        reader.expect("</PermuteComponent>")
        return cls(column_map)

    def info(self, verbose: int = 0) -> str:
        dim = len(self.column_map)
        entries = "".join(f"{entry} " for entry in self.column_map[:5]) + ("... " if dim > 5 else "")
        return f"{type(self).__name__}, dim={dim} , column-map=[ {entries}]"


def _integers(text: str) -> np.ndarray:
    """The whole numbers between commas or colons, as int64; none if anything else is there."""
    pieces = [piece for piece in text.replace(":", ",").split(",") if piece]
    try:
        return np.array([int(piece) for piece in pieces], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.empty(0, dtype=np.int64)


def _is_permutation(column_map: np.ndarray) -> bool:
    return column_map.size > 0 and bool(np.array_equal(np.sort(column_map), np.arange(column_map.size)))


class _FixedVectorComponent(Component):
    """A component with one vector that training does not change: ``vector``, float32 (dim,)."""

    properties = IN_PLACE
    CONSTANTS = ("vector",)
    CONFIG_KEY = ""       # the key for the file with the vector

    def __init__(self, vector: np.ndarray) -> None:
        self.vector = np.ascontiguousarray(vector, dtype=np.float32)

    @property
    def input_dim(self) -> int:
        return self.vector.size

    @property
    def output_dim(self) -> int:
        return self.vector.size

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        vector = read_config_vector(line, cls.CONFIG_KEY)
        if vector is not None:
            if vector.size == 0:
                raise invalid_initializer(line, cls.__name__, f"{cls.CONFIG_KEY} must name a vector with elements")
            return cls(vector)
        dim = line.get_int("dim", 0)
        value = line.get_float("scale", float("nan")) if cls.CONFIG_KEY == "scales" else float("nan")
        if dim <= 0:
            raise invalid_initializer(line, cls.__name__, f"give {cls.CONFIG_KEY}=<file>, or a positive dim")
        return cls(normal(rng, (dim,), 1.0) if np.isnan(value) else np.full(dim, value))

    def check_read(self, reader: TokenReader) -> None:
        if self.vector.size == 0:
            raise reader.error(f"expected a vector with elements after {self.FIELDS[0].tag}")


class FixedScaleComponent(_FixedVectorComponent):
    """Multiplies each column by a fixed number. Kaldi: FixedScaleComponent."""

    CONFIG_KEY = "scales"
    FIELDS = (Field("<Scales>", "vector", "vector", "scales"),)
    INFO = ("input-dim", "output-dim", "scales")

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.mul_cols_vec(y, x, self.vector)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.mul_cols_vec(dx, dy, self.vector)


class FixedBiasComponent(_FixedVectorComponent):
    """Adds a fixed number to each column. Kaldi: FixedBiasComponent."""

    CONFIG_KEY = "bias"
    FIELDS = (Field("<Bias>", "vector", "vector", "bias"),)
    INFO = ("input-dim", "output-dim", "bias")

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        if x is not y:
            ops.copy_mat(y, x, 1.0)
        ops.add_vec_to_rows(y, self.vector, 1.0, 1.0)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None and dx is not dy:
            ops.copy_mat(dx, dy, 1.0)
