"""Elementwise nonlinearities and softmax, with their statistics and self-repair. Kaldi: ``NonlinearComponent``."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent
from nnet3py.components.fields import as_float32, invalid_initializer, read_block_dim, read_dim, read_vector_of
from nnet3py.components.info_text import number, significant, vector_summary
from nnet3py.errors import ConfigError
from nnet3py.formats.matrices import write_vector

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader, TokenWriter
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

UNSET = -1000.0            # a self-repair threshold that was not given
COUNT, ODERIV_COUNT, NUM_REPAIRED, NUM_PROCESSED = range(4)     # places in NonlinearComponent.counters
VALUE, DERIV, ODERIV = range(3)                                 # places in NonlinearComponent.stored


class NonlinearComponent(SameDimComponent):
    """What the nonlinearities share: dimensions, statistics, the settings of self-repair, and their file fields.

    ``value_sum``, ``deriv_sum`` and ``oderiv_sumsq`` (float64, (dim,)) are sums over the rows that were stored;
    ``counters`` (float64, (4,)) holds how many rows the first two and the third have seen, and how many dimensions
    self-repair has changed and looked at. ``stored`` says which of the three sums were ever stored: Kaldi's files hold
    an empty vector until then. It stays on the host, shared by a component's device twin.
    """

    STATISTICS = ("value_sum", "deriv_sum", "oderiv_sumsq", "counters")

    def __init__(self, dim: int, block_dim: int | None = None, lower_threshold: float = UNSET,
                 upper_threshold: float = UNSET, self_repair_scale: float = 0.0) -> None:
        self.dim = dim
        self.block_dim = block_dim or dim
        self.self_repair_lower_threshold = as_float32(lower_threshold)
        self.self_repair_upper_threshold = as_float32(upper_threshold)
        self.self_repair_scale = as_float32(self_repair_scale)
        self.value_sum, self.deriv_sum, self.oderiv_sumsq = np.zeros(dim), np.zeros(dim), np.zeros(dim)
        self.counters = np.zeros(4)
        self.stored = np.zeros(3, dtype=bool)

    def add(self, alpha: float, other: Component) -> None:
        super().add(alpha, other)
        assert isinstance(other, NonlinearComponent)
        self.stored |= other.stored

    # -- statistics -----------------------------------------------------------------------------------------

    def _store_output_deriv(self, ops: Ops, dy: DeviceArray) -> None:
        """Add ``dy``'s squares to ``oderiv_sumsq``: the first time always, then three times out of four."""
        ops.output_deriv_stats(self.oderiv_sumsq, self.counters, dy, ops.random.draw_integer(4))
        self.stored[ODERIV] = True

    def store_output_deriv_parts(self, ops: Ops, squares: DeviceArray, num_rows: int) -> None:
        """The same of derivatives of ``num_rows`` rows, of whose squares ``squares`` has sums."""
        ops.output_deriv_stats_of_parts(self.oderiv_sumsq, self.counters, squares, num_rows, ops.random.draw_integer(4))
        self.stored[ODERIV] = True

    # -- files and text -------------------------------------------------------------------------------------

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
    def read(cls, reader: TokenReader) -> NonlinearComponent:
        name = cls.__name__
        reader.expect_one_or_two(f"<{name}>", "<Dim>")
        component = cls(read_dim(reader, "<Dim>"))
        if reader.peek_token() == "B":
            reader.expect("<BlockDim>")
            component.block_dim = read_block_dim(reader, component.dim)
        component.read_statistics(reader, name)
        return component

    def read_statistics(self, reader: TokenReader, type_name: str) -> None:
        """Read what follows the dimensions: statistics and the settings of self-repair, up to the closing tag."""
        self._read_sums(reader)
        token = reader.token()
        for tag, place in (("<NumDimsSelfRepaired>", NUM_REPAIRED), ("<NumDimsProcessed>", NUM_PROCESSED)):
            if token == tag:
                self.counters[place], token = reader.real(), reader.token()
        for tag, attribute in _SETTINGS:
            if token == tag:
                setattr(self, attribute, as_float32(reader.real()))
                token = reader.token()
        reader.check_token(token, f"</{type_name}>")

    def _read_sums(self, reader: TokenReader) -> None:
        """Read the averages and their counts, and turn them into sums."""
        value = read_vector_of(reader, "<ValueAvg>", self.dim, may_be_empty=True)
        deriv = read_vector_of(reader, "<DerivAvg>", self.dim, may_be_empty=True)
        reader.expect("<Count>")
        self.counters[COUNT] = reader.real()
        rms = np.empty(0, dtype=np.float32)
        if reader.peek_token() == "O":
            rms = read_vector_of(reader, "<OderivRms>", self.dim, may_be_empty=True)
            reader.expect("<OderivCount>")
            self.counters[ODERIV_COUNT] = reader.real()
        self.stored[:] = value.size > 0, deriv.size > 0, rms.size > 0
        mean_square = np.square(rms, dtype=np.float64)
        for total, average, count in ((self.value_sum, value, self.counters[COUNT]),
                                      (self.deriv_sum, deriv, self.counters[COUNT]),
                                      (self.oderiv_sumsq, mean_square, self.counters[ODERIV_COUNT])):
            if average.size:
                np.multiply(average, count, out=total, dtype=np.float64)

    def _averages(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean value and derivative, and rms of the output derivative, in float64; empty if never stored."""
        count = self.counters[COUNT] or 1.0
        mean_square = self.oderiv_sumsq / (self.counters[ODERIV_COUNT] or 1.0)
        rms = np.sqrt(np.maximum(mean_square, 0.0))
        averages = self.value_sum / count, self.deriv_sum / count, rms
        value, deriv, oderiv = (average if stored else average[:0]
                                for average, stored in zip(averages, self.stored, strict=True))
        return value, deriv, oderiv

    def write(self, writer: TokenWriter) -> None:
        name = type(self).__name__
        writer.token(f"<{name}>")
        writer.token("<Dim>")
        writer.integer(self.dim)
        if self.block_dim != self.dim:
            writer.token("<BlockDim>")
            writer.integer(self.block_dim)
        value, deriv, rms = self._averages()
        for tag, vector in (("<ValueAvg>", value), ("<DerivAvg>", deriv)):
            writer.token(tag)
            write_vector(writer, vector.astype(np.float32))
        writer.token("<Count>")
        writer.float64(self.counters[COUNT])
        writer.token("<OderivRms>")
        write_vector(writer, rms.astype(np.float32))
        for tag, place in (("<OderivCount>", ODERIV_COUNT), ("<NumDimsSelfRepaired>", NUM_REPAIRED),
                           ("<NumDimsProcessed>", NUM_PROCESSED)):
            writer.token(tag)
            writer.float64(self.counters[place])
        for tag, attribute in _SETTINGS:
            setting = getattr(self, attribute)
            if setting != (0.0 if tag == "<SelfRepairScale>" else UNSET):
                writer.token(tag)
                writer.float32(setting)
        writer.token(f"</{name}>")

    def info(self, verbose: int = 0) -> str:
        text = f"{type(self).__name__}, dim={self.dim}"
        if self.block_dim != self.dim:
            text += f", block-dim={self.block_dim}"
        if self.self_repair_lower_threshold != UNSET:
            text += f", self-repair-lower-threshold={number(self.self_repair_lower_threshold)}"
        if self.self_repair_upper_threshold != UNSET:
            text += f", self-repair-upper-threshold={number(self.self_repair_upper_threshold)}"
        if self.self_repair_scale != 0.0:
            text += f", self-repair-scale={number(self.self_repair_scale)}"
        count, oderiv_count, repaired, processed = (float(value) for value in self.counters)
        value, deriv, rms = (average.astype(np.float32) for average in self._averages())
        if count > 0 and value.size:
            text += f", count={significant(count, 3)}"
            text += f", self-repaired-proportion={number(repaired / processed if processed > 0 else 0.0)}"
            text += f", value-avg={vector_summary(value)}"
            if deriv.size:
                text += f", deriv-avg={vector_summary(deriv)}"
        if oderiv_count > 0 and rms.size:
            text += f", oderiv-rms={vector_summary(rms)}, oderiv-count={number(oderiv_count)}"
        return text

    # -- self-repair ----------------------------------------------------------------------------------------

    def _repair_scale(self) -> float:
        """The scale of self-repair, 0 while it is off or nothing is known of the derivatives.

        Raises
        ------
        ConfigError : a scale that is not between 0 and 0.1
        """
        if self.self_repair_scale == 0.0 or not self.stored[DERIV]:
            return 0.0
        if not 0.0 < self.self_repair_scale < 0.1:
            raise ConfigError(f"{type(self).__name__} needs 0 < self-repair-scale < 0.1, "
                              f"found {number(self.self_repair_scale)}")
        return self.self_repair_scale


_SETTINGS = (("<SelfRepairLowerThreshold>", "self_repair_lower_threshold"),
             ("<SelfRepairUpperThreshold>", "self_repair_upper_threshold"),
             ("<SelfRepairScale>", "self_repair_scale"))


class _Squashing(NonlinearComponent):
    """What sigmoid and tanh share: self-repair of the columns whose average derivative is too small.

    ``OPERATION`` names the forward operation; with ``_backprop`` and ``_stats`` behind it, the other two.
    """

    OPERATION = ""
    DEFAULT_THRESHOLD = 0.0

    @property
    def properties(self) -> Properties:
        return (Properties.SIMPLE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.PROPAGATE_IN_PLACE
                | Properties.STORES_STATS)

    def _repair(self, ops: Ops, update: NonlinearComponent | None) -> DeviceArray:
        """How much to pull each column's derivative back towards 0: float32 (dim,), a scratch vector."""
        repair = ops.scratch_vector(self.dim)
        if update is None:
            ops.set_vec(repair, 0.0)
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
    """y = 1 / (1 + exp(-x)). Kaldi: SigmoidComponent."""

    OPERATION = "sigmoid"
    DEFAULT_THRESHOLD = 0.05


class TanhComponent(_Squashing):
    """y = tanh(x). Kaldi: TanhComponent."""

    OPERATION = "tanh"
    DEFAULT_THRESHOLD = 0.2


class RectifiedLinearComponent(NonlinearComponent):
    """y = max(x, 0). Kaldi: RectifiedLinearComponent. Only the sign of ``y`` is used going back."""

    DEFAULT_LOWER, DEFAULT_UPPER = 0.05, 0.95     # of the proportion of rows in which a unit is active

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
        """What to take from each column's derivative: float32 (dim,), the same in every block; a scratch vector."""
        repair = ops.scratch_vector(self.dim)
        scale = self._repair_scale() if update is not None else 0.0
        if update is None or scale == 0.0:
            ops.set_vec(repair, 0.0)
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
    """Each row becomes exp(x) / sum(exp(x)), at least 1e-20. Kaldi: SoftmaxComponent."""

    @property
    def properties(self) -> Properties:
        return (Properties.SIMPLE | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
                | Properties.BACKPROP_NEEDS_OUTPUT | Properties.STORES_STATS)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.softmax(y, x)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if update is not None:
            assert isinstance(update, NonlinearComponent)
            update._store_output_deriv(ops, dy)      # before dx, which may be dy's memory
        if dx is not None:
            ops.softmax_backprop(dx, y, dy)

    def store_stats(self, ops: Ops, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.value_stats(self.value_sum, self.counters, y)
        self.stored[VALUE] = True


class LogSoftmaxComponent(NonlinearComponent):
    """Each row becomes x - log(sum(exp(x))). Kaldi: LogSoftmaxComponent.

    It announces statistics, but Kaldi stores none of its values, so neither do we: only of output derivatives.
    """

    @property
    def properties(self) -> Properties:
        return Properties.SIMPLE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.STORES_STATS

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.log_softmax(y, x)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if update is not None:
            assert isinstance(update, NonlinearComponent)
            update._store_output_deriv(ops, dy)
        if dx is not None:
            ops.log_softmax_backprop(dx, y, dy)
