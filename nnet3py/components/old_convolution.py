"""Deprecated 2-D convolution and 3-D max pooling of older image and speech models.

A row of the input is a tensor with the dimensions x, y and z.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, fields
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.components.fields import LARGEST_DIM, Field, Fields, Values, invalid_initializer, take_part
from nnet3py.components.updatable import (
    SETTINGS,
    UpdatableComponent,
    UpdateSettings,
    bad_initializer,
    normal,
    read_config_matrix,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

ORDERS = ("yzx", "zyx")      # orders of the tensor's dimensions, fastest first; files hold the index in this tuple


@dataclass(frozen=True)
class FilterShape:
    """Dimensions of input tensor and filter, and steps of the filter; fields are named as in files."""

    input_x_dim: int
    input_y_dim: int
    input_z_dim: int
    filt_x_dim: int
    filt_y_dim: int
    filt_x_step: int
    filt_y_step: int

    @property
    def num_x(self) -> int:
        """Number of positions of the filter along x."""
        return 1 + (self.input_x_dim - self.filt_x_dim) // self.filt_x_step

    @property
    def num_y(self) -> int:
        """Number of positions of the filter along y."""
        return 1 + (self.input_y_dim - self.filt_y_dim) // self.filt_y_step

    @property
    def input_dim(self) -> int:
        """Number of elements of the tensor."""
        return self.input_x_dim * self.input_y_dim * self.input_z_dim

    @property
    def filter_dim(self) -> int:
        """Number of elements of a filter, which spans all of z."""
        return self.filt_x_dim * self.filt_y_dim * self.input_z_dim

    def fault(self) -> str:
        """Return the reason why the shape is impossible; empty if it is possible."""
        if min(astuple(self)) <= 0:
            return "all dimensions and steps must be above 0"
        if self.filt_x_dim > self.input_x_dim or self.filt_y_dim > self.input_y_dim:
            return "a filter must not be larger than the input"
        return "" if self.input_dim <= LARGEST_DIM else f"the input must not have more than {LARGEST_DIM} elements"

    def steps_fit(self) -> bool:
        """Return whether the filter's last position ends at the end of the input."""
        return ((self.input_x_dim - self.filt_x_dim) % self.filt_x_step == 0
                and (self.input_y_dim - self.filt_y_dim) % self.filt_y_step == 0)


@dataclass(frozen=True)
class PoolShape:
    """Dimensions of input tensor and pooled boxes, and steps of the boxes; fields are named as in files."""

    input_x_dim: int
    input_y_dim: int
    input_z_dim: int
    pool_x_size: int
    pool_y_size: int
    pool_z_size: int
    pool_x_step: int
    pool_y_step: int
    pool_z_step: int

    @property
    def num_pools(self) -> tuple[int, int, int]:
        """Number of boxes along x, y and z."""
        dims, sizes, steps = self._axes()
        x, y, z = (1 + (dim - size) // step for dim, size, step in zip(dims, sizes, steps, strict=True))
        return x, y, z

    def _axes(self) -> tuple[tuple[int, ...], ...]:
        values = astuple(self)
        return values[:3], values[3:6], values[6:]

    def fault(self) -> str:
        """Return the reason why the shape is impossible; empty if it is possible."""
        if min(astuple(self)) <= 0:
            return "all dimensions, sizes and steps must be above 0"
        for dim, size, step in zip(*self._axes(), strict=True):
            if not dim >= size >= step or (dim - size) % step:
                return ("along each axis the pool must not be larger than the input, the step not larger than the "
                        "pool, and a divisor of the difference between input and pool")
        if math.prod(self._axes()[0]) > LARGEST_DIM:
            return f"the input must not have more than {LARGEST_DIM} elements"
        return ""


_Shape = TypeVar("_Shape", FilterShape, PoolShape)


# -- the fields of shapes: input_x_dim is input-x-dim in config lines and <InputXDim> in files ------------------------


def _key(name: str) -> str:
    return name.replace("_", "-")


def _shape_fields(shape: type) -> Fields:
    return tuple(Field(f"<{field.name.title().replace('_', '')}>", "dim", f"shape.{field.name}", _key(field.name))
                 for field in fields(shape))


def _read_shape(reader: TokenReader, values: Values, kind: type[_Shape]) -> _Shape:
    """Return the shape among the values of a file. Raises FormatError for an impossible shape."""
    shape = kind(**take_part(values, "shape"))
    if shape.fault():
        raise reader.error(f"{shape.fault()}, found {', '.join(f'{_key(k)}={v}' for k, v in asdict(shape).items())}")
    return shape


class ConvolutionComponent(UpdatableComponent):
    """2-D convolution over x and y, with filters that span all of z. Kaldi: ConvolutionComponent (deprecated).

    Output column ``(i num_y + j) num_filters + f`` is filter f at the position (i, j).

    Attributes
    ----------
    shape : FilterShape
        Dimensions of input and filter.
    order : str
        Order of the input's dimensions, one of ``ORDERS``.
    filter_params : float32 (num_filters, filter_dim), a filter's elements in the order x, y, z (z fastest)
    bias_params : float32 (num_filters,)
    taps : int32 (filter_dim,), input columns under the filter at its first position
    """

    PARAMETERS = ("filter_params", "bias_params")
    FIELDS = (*SETTINGS, *_shape_fields(FilterShape),
              Field("<InputVectorization>", "integer", "order_in_files", "input-vectorization"),
              Field("<FilterParams>", "matrix", "filter_params", "filter-params"),
              Field("<BiasParams>", "vector", "bias_params", "bias-params"),
              Field("<IsGradient>", "boolean", "is_gradient", default=False))
    INFO = (*(field.info for field in _shape_fields(FilterShape)), "input-vectorization", "num-filters",
            "filter-params", "bias-params")
    CONSTANTS = ("taps",)
    properties = (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
                  | Properties.BACKPROP_ADDS | Properties.PROPAGATE_ADDS)

    def __init__(self, shape: FilterShape, order: str, filter_params: np.ndarray, bias_params: np.ndarray,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.shape, self.order = shape, order
        self.filter_params, self.bias_params = filter_params, bias_params
        x, y, z = np.ix_(range(shape.filt_x_dim), range(shape.filt_y_dim), range(shape.input_z_dim))
        along_x, along_y, along_z = self._strides()
        self.taps = (x * along_x + y * along_y + z * along_z).ravel().astype(np.int32)

    def _strides(self) -> tuple[int, int, int]:
        """Return the distances in columns between neighbors along x, y and z."""
        y, z = self.shape.input_y_dim, self.shape.input_z_dim
        return (y * z, z, 1) if self.order == "zyx" else (y * z, 1, y)

    @property
    def input_dim(self) -> int:
        return self.shape.input_dim

    @property
    def output_dim(self) -> int:
        return self.shape.num_x * self.shape.num_y * self.num_filters

    @property
    def num_filters(self) -> int:
        """Number of filters."""
        return self.filter_params.shape[0]

    def _places(self) -> Iterator[tuple[int, slice]]:
        """Yield for each position of the filter a number to add to ``taps``, and its output columns."""
        along_x, along_y, _ = self._strides()
        end = 0
        for i in range(self.shape.num_x):
            for j in range(self.shape.num_y):
                begin, end = end, end + self.num_filters
                yield i * self.shape.filt_x_step * along_x + j * self.shape.filt_y_step * along_y, slice(begin, end)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        patch = ops.scratch(x.shape[0], self.shape.filter_dim)
        for start, columns in self._places():
            ops.copy_cols(patch, x[:, start:], self.taps)
            ops.add_vec_to_rows(y[:, columns], self.bias_params, 1.0, 1.0)
            ops.add_mat_mat(y[:, columns], patch, self.filter_params, 1.0, 1.0, trans_b=True)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        patch = ops.scratch(dy.shape[0], self.shape.filter_dim)
        if dx is not None:
            for start, columns in self._places():
                ops.add_mat_mat(patch, dy[:, columns], self.filter_params, 1.0, 0.0)
                ops.add_to_col_blocks(dx[:, start:], patch, self.taps)
        if update is None:
            return
        assert isinstance(update, ConvolutionComponent)
        for start, columns in self._places():
            ops.copy_cols(patch, x[:, start:], self.taps)
            ops.add_row_sum(update.bias_params, dy[:, columns], update.learning_rate, 1.0)
            ops.add_mat_mat(update.filter_params, dy[:, columns], patch, update.learning_rate, 1.0, trans_a=True)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> ConvolutionComponent:
        settings = UpdateSettings.from_config(line)
        shape = FilterShape(*(line.get_int(_key(field.name), 0) for field in fields(FilterShape)))
        order = line.get_string("input-vectorization-order", "zyx")
        fault = shape.fault() or ("" if order in ORDERS else "input-vectorization-order must be zyx or yzx")
        if fault:
            raise bad_initializer(line, f"{fault}; required are "
                                        f"{', '.join(_key(field.name) for field in fields(FilterShape))}")
        matrix = read_config_matrix(line, "matrix")
        if matrix is not None:
            if matrix.shape[1] != shape.filter_dim + 1 or matrix.shape[0] == 0:
                raise bad_initializer(line, f"the matrix is {matrix.shape[0]} x {matrix.shape[1]}, expected "
                                            f"{shape.filter_dim + 1} columns: a filter and its bias in each row")
            return cls(shape, order, np.ascontiguousarray(matrix[:, :-1]), np.ascontiguousarray(matrix[:, -1]),
                       settings)
        num_filters = line.get_int("num-filters", 0)
        stddev = line.get_float("param-stddev", 1.0 / math.sqrt(shape.filter_dim))
        bias_stddev = line.get_float("bias-stddev", 1.0)
        if num_filters <= 0 or not stddev >= 0.0 or not bias_stddev >= 0.0 or not shape.steps_fit():
            raise bad_initializer(line, "num-filters must be above 0, param-stddev and bias-stddev not negative, and "
                                        "the steps must divide the difference between input and filter")
        filters = normal(rng, (num_filters, shape.filter_dim), stddev)
        return cls(shape, order, filters, normal(rng, (num_filters,), bias_stddev), settings)

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        shape, order = _read_shape(reader, values, FilterShape), values.pop("order_in_files")
        filters, bias = values["filter_params"], values["bias_params"]
        if order not in range(len(ORDERS)):
            raise reader.error(f"expected 0 (yzx) or 1 (zyx) after <InputVectorization>, found {order}")
        if filters.shape != (bias.size, shape.filter_dim) or bias.size == 0:
            raise reader.error(f"expected filters of {shape.filter_dim} elements and a bias for each, found a matrix "
                               f"of {filters.shape[0]} x {filters.shape[1]} and {bias.size} biases")
        return super().from_fields(reader, {**values, "shape": shape, "order": ORDERS[order]})

    @property
    def order_in_files(self) -> int:
        """Index of the order in ``ORDERS``, as files have it."""
        return ORDERS.index(self.order)


class MaxpoolingComponent(Component):
    """Max pooling over boxes of a tensor, stored with z fastest, then y. Kaldi: MaxpoolingComponent (deprecated).

    In the backward pass every element of a box that equals the maximum gets the whole derivative.
    """

    FIELDS = _shape_fields(PoolShape)
    CONSTANTS = ("geometry",)
    properties = (Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_NEEDS_OUTPUT
                  | Properties.BACKPROP_ADDS)

    def __init__(self, shape: PoolShape) -> None:
        self.shape = shape
        self.geometry = np.array([*astuple(shape), *shape.num_pools], dtype=np.int32)   # argument of the operations

    @property
    def input_dim(self) -> int:
        return self.shape.input_x_dim * self.shape.input_y_dim * self.shape.input_z_dim

    @property
    def output_dim(self) -> int:
        return math.prod(self.shape.num_pools)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.max_pool(y, x, self.geometry)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.max_pool_backprop(dx, x, y, dy, self.geometry)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> MaxpoolingComponent:
        shape = PoolShape(*(line.get_int(_key(field.name), 0) for field in fields(PoolShape)))
        if shape.fault():
            raise invalid_initializer(line, cls.__name__, f"{shape.fault()}; required are "
                                      f"{', '.join(_key(field.name) for field in fields(PoolShape))}")
        return cls(shape)

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        return super().from_fields(reader, {"shape": _read_shape(reader, values, PoolShape)})
