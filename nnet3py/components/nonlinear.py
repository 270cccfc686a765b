"""Elementwise nonlinearities and softmax, with statistics and self-repair, and functions in Python as components.

Kaldi: ``NonlinearComponent``.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nnet3py.components.base import Component, Memo, Precomputed, Properties, SameDimComponent
from nnet3py.components.fields import (
    AS_DIM,
    Field,
    Fields,
    Values,
    as_float32,
    invalid_initializer,
    number,
    significant,
    vector_summary,
)
from nnet3py.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

UNSET = -1000.0            # self-repair threshold that was not given
COUNT, ODERIV_COUNT, NUM_REPAIRED, NUM_PROCESSED = range(4)     # elements of NonlinearComponent.counters
VALUE, DERIV, ODERIV = range(3)                                 # elements of NonlinearComponent.stored


class NonlinearComponent(SameDimComponent):
    """Base of nonlinearities: dimensions, statistics, settings of self-repair, and fields of files.

    Attributes
    ----------
    value_sum, deriv_sum, oderiv_sumsq : float64 (dim,)
        Sums over the stored rows of values, derivatives and squared output derivatives.
    counters : float64 (4,)
        Number of rows in the first two sums and in the third, number of dimensions that self-repair has changed, and
        number that it has examined.
    stored : bool (3,)
        Whether each sum was ever stored: until then Kaldi's files hold an empty vector. This array is on the host also
        in the component's copy on a device.
    """

    STATISTICS = ("value_sum", "deriv_sum", "oderiv_sumsq", "counters")
    FIELDS = (
        Field("<Dim>", "dim", "dim", "dim"),
        Field("<BlockDim>", "block_dim", "block_dim", "block-dim", default=AS_DIM, omitted=True),
        Field("<ValueAvg>", "vector", "value_avg", size="dim", may_be_empty=True),
        Field("<DerivAvg>", "vector", "deriv_avg", size="dim", may_be_empty=True),
        Field("<Count>", "float64", f"counters.{COUNT}"),
        Field("<OderivRms>", "vector", "oderiv_rms", size="dim", may_be_empty=True, default=np.zeros(0)),
        Field("<OderivCount>", "float64", f"counters.{ODERIV_COUNT}", default=0.0),
        Field("<NumDimsSelfRepaired>", "float64", f"counters.{NUM_REPAIRED}", default=0.0),
        Field("<NumDimsProcessed>", "float64", f"counters.{NUM_PROCESSED}", default=0.0),
        Field("<SelfRepairLowerThreshold>", "float32", "self_repair_lower_threshold", "self-repair-lower-threshold",
              default=UNSET, omitted=True),
        Field("<SelfRepairUpperThreshold>", "float32", "self_repair_upper_threshold", "self-repair-upper-threshold",
              default=UNSET, omitted=True),
        Field("<SelfRepairScale>", "float32", "self_repair_scale", "self-repair-scale", default=0.0, omitted=True))

    def __init__(self, dim: int, block_dim: int | None = None, self_repair_lower_threshold: float = UNSET,
                 self_repair_upper_threshold: float = UNSET, self_repair_scale: float = 0.0) -> None:
        self.dim = dim
        self.block_dim = block_dim or dim
        self.self_repair_lower_threshold = as_float32(self_repair_lower_threshold)
        self.self_repair_upper_threshold = as_float32(self_repair_upper_threshold)
        self.self_repair_scale = as_float32(self_repair_scale)
        self.value_sum, self.deriv_sum, self.oderiv_sumsq = np.zeros(dim), np.zeros(dim), np.zeros(dim)
        self.counters = np.zeros(4)
        self.stored = np.zeros(3, dtype=bool)

    def add(self, alpha: float, other: Component) -> None:
        super().add(alpha, other)
        assert isinstance(other, NonlinearComponent)
        self.stored |= other.stored

    def _store_output_deriv(self, ops: Ops, dy: DeviceArray) -> None:
        """Add the squares of ``dy`` to ``oderiv_sumsq``, in the first call and in three of four later ones."""
        ops.output_deriv_stats(self.oderiv_sumsq, self.counters, dy, ops.random.draw_integer(4))
        self.stored[ODERIV] = True

    def store_output_deriv_parts(self, ops: Ops, squares: DeviceArray, num_rows: int) -> None:
        """Add squared output derivatives of ``num_rows`` rows, as partial sums ``squares``, to ``oderiv_sumsq``."""
        ops.output_deriv_stats_of_parts(self.oderiv_sumsq, self.counters, squares, num_rows, ops.random.draw_integer(4))
        self.stored[ODERIV] = True

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> NonlinearComponent:
        dim = line.get_int("dim", 0)
        block_dim = line.get_int("block-dim", dim)
        component_settings = (line.get_float("self-repair-lower-threshold", UNSET),
                              line.get_float("self-repair-upper-threshold", UNSET),
                              line.get_float("self-repair-scale", 0.0))
        if dim <= 0:
            raise invalid_initializer(line, cls.__name__, "dim is required and must be positive; other keys are "
                                      "block-dim and self-repair-{lower-threshold,upper-threshold,scale}")
        if block_dim <= 0 or dim % block_dim:
            raise invalid_initializer(line, cls.__name__, f"block-dim must divide dim={dim}")
        return cls(dim, block_dim, *component_settings)

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        averages = [values.pop(name) for name in ("value_avg", "deriv_avg", "oderiv_rms")]
        component = super().from_fields(reader, values)
        averages[2] = np.square(averages[2], dtype=np.float64)
        counts = component.counters[[COUNT, COUNT, ODERIV_COUNT]]
        component.stored[:] = [average.size > 0 for average in averages]
        for name, average, count in zip(cls.STATISTICS[:3], averages, counts, strict=True):
            if average.size:
                np.multiply(average, count, out=getattr(component, name), dtype=np.float64)
        return component

    @property
    def value_avg(self) -> np.ndarray:
        """Mean value of each column, as in files: float32 (dim,), or (0,) if none was ever stored."""
        return self._average(VALUE, self.counters[COUNT])

    @property
    def deriv_avg(self) -> np.ndarray:
        """Mean derivative of each column, float32 (dim,) or (0,)."""
        return self._average(DERIV, self.counters[COUNT])

    @property
    def oderiv_rms(self) -> np.ndarray:
        """Root mean square of the output derivative of each column, float32 (dim,) or (0,)."""
        mean_square = self._average(ODERIV, self.counters[ODERIV_COUNT], np.float64)
        return np.sqrt(np.maximum(mean_square, 0.0)).astype(np.float32)

    def _average(self, place: int, count: float, dtype: type = np.float32) -> np.ndarray:
        """Return the sum number ``place`` of ``STATISTICS`` divided by ``count``; (0,) if it was never stored."""
        total = getattr(self, self.STATISTICS[place])
        return (total / (count or 1.0) if self.stored[place] else total[:0]).astype(dtype)

    def info(self, verbose: int = 0) -> str:
        text = super().info(verbose)
        count, oderiv_count, repaired, processed = (float(value) for value in self.counters)
        if count > 0 and self.stored[VALUE]:
            text += f", count={significant(count, 3)}"
            text += f", self-repaired-proportion={number(repaired / processed if processed > 0 else 0.0)}"
            text += f", value-avg={vector_summary(self.value_avg)}"
            if self.stored[DERIV]:
                text += f", deriv-avg={vector_summary(self.deriv_avg)}"
        if oderiv_count > 0 and self.stored[ODERIV]:
            text += f", oderiv-rms={vector_summary(self.oderiv_rms)}, oderiv-count={number(oderiv_count)}"
        return text

    def _repair_scale(self) -> float:
        """Return the scale of self-repair, 0 while it is off or there are no statistics of derivatives.

        Raises ConfigError for a scale that is not between 0 and 0.1.
        """
        if self.self_repair_scale == 0.0 or not self.stored[DERIV]:
            return 0.0
        if not 0.0 < self.self_repair_scale < 0.1:
            raise ConfigError(f"{type(self).__name__} needs 0 < self-repair-scale < 0.1, "
                              f"found {number(self.self_repair_scale)}")
        return self.self_repair_scale


class _Squashing(NonlinearComponent):
    """Base of sigmoid and tanh, with self-repair of the columns whose average derivative is too small.

    ``OPERATION`` is the name of the forward operation in ``ops``; those of backward pass and statistics end in
    ``_backprop`` and ``_stats``.
    """

    OPERATION = ""
    DEFAULT_THRESHOLD = 0.0

    properties = (Properties.SIMPLE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.PROPAGATE_IN_PLACE
                  | Properties.STORES_STATS)

    def _repair(self, ops: Ops, update: NonlinearComponent | None) -> DeviceArray:
        """Return the factor by which self-repair pulls each column towards 0: float32 (dim,), scratch."""
        repair = ops.scratch_vector(self.dim)
        if update is None:
            ops.set_const(repair.reshape(1, self.dim), 0.0)
            return repair
        scale = self._repair_scale()
        if scale and self.self_repair_upper_threshold != UNSET:
            raise ConfigError(f"Do not set self-repair-upper-threshold for {type(self).__name__}, it has no effect.",
                              "remove it from the config")
        lower = self.self_repair_lower_threshold
        threshold = self.DEFAULT_THRESHOLD if lower == UNSET else lower
        ops.low_slope_repair(repair, update.counters, self.deriv_sum, self.counters, threshold, scale,
                             ops.random.draw_uniform() if scale else 1.0)
        return repair

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        getattr(ops, self.OPERATION)(y, x)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None:
            return
        assert update is None or isinstance(update, NonlinearComponent)
        getattr(ops, f"{self.OPERATION}_backprop")(dx, y, dy, self._repair(ops, update))
        if update is not None:
            update._store_output_deriv(ops, dy)

    def store_stats(self, ops: Ops, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        store = getattr(ops, f"{self.OPERATION}_stats")
        store(self.value_sum, self.deriv_sum, self.counters, y, ops.random.draw_integer(2))
        self.stored[:ODERIV] = True


class SigmoidComponent(_Squashing):
    """Sigmoid, y = 1 / (1 + exp(-x)). Kaldi: SigmoidComponent."""

    OPERATION = "sigmoid"
    DEFAULT_THRESHOLD = 0.05


class TanhComponent(_Squashing):
    """Hyperbolic tangent, y = tanh(x). Kaldi: TanhComponent."""

    OPERATION = "tanh"
    DEFAULT_THRESHOLD = 0.2


class RectifiedLinearComponent(NonlinearComponent):
    """Rectifier, y = max(x, 0). Kaldi: RectifiedLinearComponent. The backward pass uses only the sign of ``y``."""

    DEFAULT_LOWER, DEFAULT_UPPER = 0.05, 0.95     # proportions of rows in which a unit should be active

    @property
    def properties(self) -> Properties:
        flags = (Properties.SIMPLE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.PROPAGATE_IN_PLACE
                 | Properties.STORES_STATS)
        return flags | Properties.INPUT_CONTIGUOUS if self.block_dim != self.dim else flags

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.relu(y, x)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None:
            return
        assert update is None or isinstance(update, NonlinearComponent)
        ops.relu_backprop(dx, y, dy, self.repair(ops, update))
        if update is not None:
            update._store_output_deriv(ops, dy)

    def repair(self, ops: Ops, update: NonlinearComponent | None) -> DeviceArray:
        """Return the term that self-repair subtracts from each column's derivative: float32 (dim,), scratch."""
        repair = ops.scratch_vector(self.dim)
        scale = self._repair_scale() if update is not None else 0.0
        if update is None or scale == 0.0:
            ops.set_const(repair.reshape(1, self.dim), 0.0)
            return repair
        lower, upper = self.self_repair_lower_threshold, self.self_repair_upper_threshold
        ops.relu_repair(repair, update.counters, self.deriv_sum, self.counters, self.block_dim,
                        self.DEFAULT_LOWER if lower == UNSET else lower,
                        self.DEFAULT_UPPER if upper == UNSET else upper, scale, ops.random.draw_uniform())
        return repair

    def store_stats(self, ops: Ops, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.relu_stats(self.value_sum, self.deriv_sum, self.counters, y, ops.random.draw_integer(2))
        self.stored[:ODERIV] = True


class SoftmaxComponent(NonlinearComponent):
    """Softmax of each row, exp(x) / sum(exp(x)), at least 1e-20. Kaldi: SoftmaxComponent."""

    properties = (Properties.SIMPLE | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
                  | Properties.BACKPROP_NEEDS_OUTPUT | Properties.STORES_STATS)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.softmax(y, x)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if update is not None:
            assert isinstance(update, NonlinearComponent)
            update._store_output_deriv(ops, dy)      # before dx, which may share the memory of dy
        if dx is not None:
            ops.softmax_backprop(dx, y, dy)

    def store_stats(self, ops: Ops, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.value_stats(self.value_sum, self.counters, y)
        self.stored[VALUE] = True


class LogSoftmaxComponent(NonlinearComponent):
    """Log-softmax of each row, x - log(sum(exp(x))). Kaldi: LogSoftmaxComponent.

    As in Kaldi only statistics of output derivatives are stored, although the flags announce those of values.
    """

    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.STORES_STATS

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.log_softmax(y, x)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if update is not None:
            assert isinstance(update, NonlinearComponent)
            update._store_output_deriv(ops, dy)
        if dx is not None:
            ops.log_softmax_backprop(dx, y, dy)


class FunctionComponent(SameDimComponent):
    """Elementwise function y = ``function(x)`` in Python, as a base class for components of your own.

    >>> @nnet3py.register_component
    ... class SoftplusComponent(nnet3py.FunctionComponent):
    ...     @staticmethod
    ...     def function(x):
    ...         return math.log(1.0 + math.exp(x))
    ...     @staticmethod
    ...     def derivative(x, y):
    ...         return 1.0 / (1.0 + math.exp(-x))

    ``function`` and ``derivative`` take and return numbers. numba compiles them when a network first computes with
    them. ``derivative`` also takes the result ``y``, and is needed for training only. The
    key of config lines is ``dim``. Both run on the CPU; on a GPU the matrices are copied to the host and back, which is
    slow, unlike operations of ``ops`` (``docs/tutorial.md``, a component of your own).

    Parameters
    ----------
    dim : number of columns of input and output
    """

    FIELDS: ClassVar[Fields] = (Field("<Dim>", "dim", "dim", "dim"),)
    properties = Properties(Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_NEEDS_OUTPUT)

    function: Callable[[float], float]
    derivative: Callable[[float, float], float] | None = None

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def propagate(self, ops: Ops, indexes: Precomputed, x: DeviceArray, y: DeviceArray, memo: Memo) -> None:
        values = ops.copy_out(x)          # copying tells that this call is not made of operations of ``ops`` alone
        _compiled(type(self).function, 1)(values, values, values)
        ops.copy_in(y, values)

    def backprop(self, ops: Ops, indexes: Precomputed, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: Memo,
                 update: Component | None, dx: DeviceArray | None) -> None:
        derivative = type(self).derivative
        if derivative is None:
            raise ConfigError(f"{type(self).__name__} has no derivative, so that nothing before it can be trained",
                              "give the class a static method derivative(x, y)")
        if dx is not None:
            slopes = ops.copy_out(x)
            _compiled(derivative, 2)(slopes, ops.copy_out(y), slopes)
            ops.copy_in(dx, np.multiply(slopes, ops.copy_out(dy), out=slopes))

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Self:
        return cls(line.get_int("dim"))


@cache
def _compiled(function: Callable[..., float], num_arguments: int) -> Callable[..., Any]:
    """Return the compiled loop z = function(x), or z = function(x, y), over contiguous matrices; z may be one of them.
    """
    import numba

    element: Any = numba.njit(error_model="numpy")(function)
    if num_arguments == 1:
        def loop(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
            for i in range(z.size):
                z.flat[i] = element(x.flat[i])
    else:
        def loop(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
            for i in range(z.size):
                z.flat[i] = element(x.flat[i], y.flat[i])
    return numba.njit(error_model="numpy", nogil=True)(loop)      # type: ignore[no-any-return]
