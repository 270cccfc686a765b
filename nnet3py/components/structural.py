"""Components without trained parameters that copy, permute, sum, multiply or distribute columns; norms of groups."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent, compiled_for_others, copy_if_apart
from nnet3py.components.fields import LARGEST_DIM, OLDER, Field, Fields, InFiles, as_float32, invalid_initializer
from nnet3py.components.nonlinear import NonlinearComponent
from nnet3py.components.updatable import normal, read_config_vector
from nnet3py.errors import CompileError
from nnet3py.formats.matrices import read_vector
from nnet3py.index import lookup

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

IN_PLACE = Properties.SIMPLE | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE


class NoOpComponent(SameDimComponent):
    """Copy of the input, whose derivative is multiplied by ``backprop_scale``. Kaldi: NoOpComponent."""

    FIELDS = (Field("<Dim>", "dim", "dim", "dim"),
              # In older files this type is a nonlinearity, whose statistics and settings are dropped.
              *(Field(field.tag, field.kind, default=OLDER) for field in NonlinearComponent.FIELDS[2:]),
              Field("<BackpropScale>", "float32", "backprop_scale", "backprop-scale", default=1.0, hidden=1.0))

    properties = IN_PLACE

    def __init__(self, dim: int, backprop_scale: float = 1.0) -> None:
        self.dim = dim
        self.backprop_scale = as_float32(backprop_scale)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        copy_if_apart(ops, y, x)

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
    """Base of components whose input consists of blocks with as many columns as the output."""

    FIELDS: ClassVar[Fields] = (Field("<InputDim>", "dim", "input_dim", "input-dim"),
                                Field("<OutputDim>", "dim", "output_dim", "output-dim"))
    FEWEST_BLOCKS = 1       # in config lines
    input_dim = output_dim = 0

    def __init__(self, input_dim: int, output_dim: int) -> None:
        self.input_dim, self.output_dim = input_dim, output_dim

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Self:
        input_dim, output_dim = line.get_int("input-dim", 0), line.get_int("output-dim", 0)
        if output_dim <= 0 or not cls.FEWEST_BLOCKS * output_dim <= input_dim <= LARGEST_DIM or input_dim % output_dim:
            raise invalid_initializer(line, cls.__name__, "input-dim must be a positive multiple of output-dim, "
                                      f"{cls.FEWEST_BLOCKS} times as large or more")
        return cls(input_dim, output_dim)

    def check_read(self, reader: TokenReader) -> None:
        if self.input_dim % self.output_dim:
            raise reader.error(f"expected an output dimension that divides the input dimension {self.input_dim}, "
                               f"found {self.output_dim}")


class ElementwiseProductComponent(BlockComponent):
    """Elementwise product of the input's blocks of ``output_dim`` columns. Kaldi: ElementwiseProductComponent."""

    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT
    FEWEST_BLOCKS = 2

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.multiply_blocks(y, x)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.multiply_blocks_backprop(dx, x, dy)


class SumBlockComponent(BlockComponent):
    """Sum of the input's blocks of ``output_dim`` columns, times ``scale``. Kaldi: SumBlockComponent."""

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
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Self:
        component = super().from_config(line, rng)
        component.block_scale = as_float32(line.get_float("scale", 1.0))
        return component


class SumGroupComponent(Component):
    """Sums of groups of consecutive input columns. Kaldi: SumGroupComponent.

    ``sizes`` : int32 (output_dim,), number of columns of each group.
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


class PermuteComponent(SameDimComponent):
    """Permutation of columns: output column i is input column ``column_map[i]``. Kaldi: PermuteComponent.

    ``column_map`` : int32 (dim,), a permutation of 0..dim-1.
    """

    FIELDS = (Field("<ColumnMap>", "integer_vector", "column_map"),)
    properties = Properties.SIMPLE
    CONSTANTS = ("column_map", "inverse_map")

    def __init__(self, column_map: np.ndarray) -> None:
        self.column_map, self.dim = np.ascontiguousarray(column_map, dtype=np.int32), len(column_map)
        self.inverse_map = np.argsort(self.column_map).astype(np.int32)

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

    # Not a table of fields: in older binary files the map is a vector of floats, which only the first byte tells.
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
        entries = "".join(f"{entry} " for entry in self.column_map[:5]) + ("... " if self.dim > 5 else "")
        return f"{type(self).__name__}, dim={self.dim} , column-map=[ {entries}]"


def _integers(text: str) -> np.ndarray:
    """Parse integers between commas or colons, as int64; an empty array for any other text."""
    pieces = [piece for piece in text.replace(":", ",").split(",") if piece]
    try:
        return np.array([int(piece) for piece in pieces], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.empty(0, dtype=np.int64)


def _is_permutation(column_map: np.ndarray) -> bool:
    return column_map.size > 0 and bool(np.array_equal(np.sort(column_map), np.arange(column_map.size)))


class _FixedVectorComponent(SameDimComponent):
    """Base of components with a vector that is not trained: ``vector``, float32 (dim,)."""

    properties = IN_PLACE
    CONSTANTS = ("vector",)
    CONFIG_KEY = ""       # key of config lines for the file with the vector

    def __init__(self, vector: np.ndarray) -> None:
        self.vector, self.dim = np.ascontiguousarray(vector, dtype=np.float32), vector.size

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
    """Fixed scale of each column. Kaldi: FixedScaleComponent."""

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
    """Fixed offset of each column. Kaldi: FixedBiasComponent."""

    CONFIG_KEY = "bias"
    FIELDS = (Field("<Bias>", "vector", "vector", "bias"),)
    INFO = ("input-dim", "output-dim", "bias")

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        copy_if_apart(ops, y, x)
        ops.add_vec_to_rows(y, self.vector, 1.0, 1.0)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            copy_if_apart(ops, dx, dy)


class PnormComponent(BlockComponent):
    """2-norms of groups of consecutive input columns, the nonlinearity of older models. Kaldi: PnormComponent."""

    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_NEEDS_OUTPUT

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.pnorm(y, x)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.pnorm_backprop(dx, x, y, dy)


@dataclass
class DistributeComponentPrecomputedIndexes(InFiles):
    """Input row and first column of each output row. Kaldi's class of this name.

    ``places`` is int32 (output rows, 2): input row, first column.
    """

    FIELDS = (Field("<Pairs>", "integer_pairs", "places"),)

    places: np.ndarray

    def __post_init__(self) -> None:
        self.last_row, self.last_col = (int(last) for last in self.places.max(axis=0, initial=0))

    def check_read(self, reader: TokenReader) -> None:
        if self.places.min(initial=0) < 0:
            raise reader.error(f"expected pairs of a row and a column after <Pairs>, found {int(self.places.min())}")


class DistributeComponent(BlockComponent):
    """Distribution of B blocks of columns over x: output (n, t, x) is block x mod B of input (n, t, floor(x / B)).

    Kaldi: DistributeComponent.
    """

    properties = Properties(0)

    @property
    def num_blocks(self) -> int:
        """Number B of blocks of an input row."""
        return self.input_dim // self.output_dim

    def input_indexes(self, indexes: np.ndarray) -> np.ndarray:
        wanted = indexes.copy()
        wanted[:, 2] //= self.num_blocks
        return wanted[:, None, :]

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray,
                           need_backprop: bool) -> DistributeComponentPrecomputedIndexes:
        rows = lookup(inputs, self.input_indexes(outputs)[:, 0])
        if rows.min(initial=0) < 0:
            raise CompileError("an output of a DistributeComponent has no input row")
        columns = outputs[:, 2] % self.num_blocks * self.output_dim
        return DistributeComponentPrecomputedIndexes(np.stack([rows, columns], axis=1).astype(np.int32))

    def propagate(self, ops: Ops, indexes: DistributeComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                  memo: None) -> None:
        self.check_precomputed(indexes, x, y, False)
        ops.copy_row_pieces(y, x, indexes.places)

    def backprop(self, ops: Ops, indexes: DistributeComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                 dy: DeviceArray, memo: None, update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None:
            return
        self.check_precomputed(indexes, dx, dy, True)
        if dy.shape[0] != self.num_blocks * dx.shape[0]:
            ops.set_const(dx, 0.0)      # some blocks are in no output row
        ops.copy_to_row_pieces(dx, dy, indexes.places)

    def check_precomputed(self, indexes: DistributeComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                          need_backprop: bool) -> None:
        last_row, last_col = indexes.last_row, indexes.last_col + self.output_dim - 1
        if len(indexes.places) != y.shape[0] or y.shape[0] and (last_row >= x.shape[0] or last_col >= x.shape[1]):
            raise compiled_for_others("a distribution", x, y)
