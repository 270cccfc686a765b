"""Statistics over time: sums over groups of frames, and means and standard deviations over windows of such sums."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties, compiled_for_others
from nnet3py.components.fields import LARGEST_DIM, Field, InFiles, as_float32, fields_text, invalid_initializer
from nnet3py.components.time_grid import at_time_offsets, by_sequence, check_ranges, row_ranges, rows_inside, times_of
from nnet3py.errors import CompileError
from nnet3py.index import NO_TIME

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

MOST_CHOICES = 1 << 20      # frames of a window; more, hours of speech, must be a mistake in a file or config line


# -- extraction --------------------------------------------------------------------------------------------------------


@dataclass
class StatisticsExtractionComponentPrecomputedIndexes(InFiles):
    """Input rows that each output row sums, and the output row of each input row. Kaldi's class of this name."""

    FIELDS = (Field("<ForwardIndexes>", "integer_pairs", "forward"), Field("<Counts>", "vector", "counts"),
              Field("<BackwardIndexes>", "integer_vector", "backward"))

    forward: np.ndarray     # int32 (outputs, 2), begin and end of the input rows of each output row
    counts: np.ndarray      # float32 (outputs,), number of these rows
    backward: np.ndarray    # int32 (inputs,), output row of each input row; empty without backward pass

    def check_read(self, reader: TokenReader) -> None:
        check_ranges(reader, "<ForwardIndexes>", self.forward)
        if len(self.counts) != len(self.forward):
            raise reader.error(f"expected {len(self.forward)} counts, one for each range, found {len(self.counts)}")
        if len(self.backward) and self.forward.max(initial=0) > len(self.backward):
            raise reader.error(f"expected ranges of {len(self.backward)} rows, found one that ends at row "
                               f"{self.forward.max()}")
        if self.backward.min(initial=0) < 0 or self.backward.max(initial=-1) >= len(self.forward):
            raise reader.error(f"expected rows between 0 and {len(self.forward) - 1} after <BackwardIndexes>")


class StatisticsExtractionComponent(Component):
    """Count, sum and perhaps sum of squares of the frames in each group of ``output_period`` frames.

    Groups start at multiples of ``output_period``, which are the output times, and consist of the existing frames at
    multiples of ``input_period``. Kaldi: StatisticsExtractionComponent.
    """

    FIELDS = (Field("<InputDim>", "dim", "dim"), Field("<InputPeriod>", "integer", "input_period"),
              Field("<OutputPeriod>", "integer", "output_period"),
              Field("<IncludeVarinance>", "boolean", "include_variance"))               # Kaldi's spelling in files

    def __init__(self, dim: int, input_period: int = 1, output_period: int = 1, include_variance: bool = True) -> None:
        self.dim = dim
        self.input_period, self.output_period = input_period, output_period
        self.include_variance = include_variance

    @property
    def properties(self) -> Properties:
        flags = Properties.PROPAGATE_ADDS | Properties.REORDERS_INDEXES
        return flags | Properties.BACKPROP_NEEDS_INPUT if self.include_variance else flags

    @property
    def input_dim(self) -> int:
        return self.dim

    @property
    def output_dim(self) -> int:
        return 1 + (2 if self.include_variance else 1) * self.dim

    def _group_starts(self, indexes: np.ndarray) -> np.ndarray:
        """Return the start time of each index's group, int64 (rows,)."""
        return times_of(indexes) // self.output_period * self.output_period

    def input_indexes(self, indexes: np.ndarray) -> np.ndarray:
        starts = indexes.copy()
        timed = indexes[:, 1] != NO_TIME
        starts[timed, 1] = self._group_starts(indexes[timed])
        return at_time_offsets(starts, np.arange(0, self.output_period, self.input_period, dtype=np.int32))

    def is_computable(self, indexes: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(available.any(axis=1)), available

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return by_sequence(inputs), by_sequence(outputs)

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray,
                           need_backprop: bool) -> StatisticsExtractionComponentPrecomputedIndexes:
        starts = self._group_starts(outputs)
        forward = row_ranges(inputs, outputs, starts, starts + self.output_period - 1)
        counts = forward[:, 1] - forward[:, 0]
        backward = np.repeat(np.arange(len(forward), dtype=np.int32), counts)
        if not np.array_equal(rows_inside(forward), np.arange(len(inputs))):
            raise CompileError(f"a StatisticsExtractionComponent with output-period={self.output_period} gives one "
                               "output row for each group of frames, but several are wanted of one group",
                               hint=f"ask for it at times that are multiples of {self.output_period}: Round(node, "
                               f"{self.output_period})")
        return StatisticsExtractionComponentPrecomputedIndexes(
            forward, counts.astype(np.float32), backward if need_backprop else np.zeros(0, np.int32))

    def check_precomputed(self, indexes: StatisticsExtractionComponentPrecomputedIndexes, x: DeviceArray,
                          y: DeviceArray, need_backprop: bool) -> None:
        if (len(indexes.forward) != y.shape[0] or indexes.forward.max(initial=0) > x.shape[0]
                or need_backprop and len(indexes.backward) != x.shape[0]):
            raise compiled_for_others("the ranges of statistics", x, y)

    def propagate(self, ops: Ops, indexes: StatisticsExtractionComponentPrecomputedIndexes, x: DeviceArray,
                  y: DeviceArray, memo: None) -> None:
        ops.extract_statistics(y, x, indexes.forward)

    def backprop(self, ops: Ops, indexes: StatisticsExtractionComponentPrecomputedIndexes, x: DeviceArray,
                 y: DeviceArray, dy: DeviceArray, memo: None, update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None:
            return
        if self.include_variance:
            ops.extract_statistics_backprop(dx, x, dy, indexes.backward)
        else:
            ops.copy_rows(dx, dy[:, 1:], indexes.backward, 1.0)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> StatisticsExtractionComponent:
        component = cls(line.get_int("input-dim", 0), line.get_int("input-period", 1),
                        line.get_int("output-period", 1), line.get_bool("include-variance", True))
        if component.dim <= 0 or component._wrong_periods():
            raise invalid_initializer(line, cls.__name__, "input-dim and input-period must be positive, output-period "
                                      f"a multiple of input-period, at most {MOST_CHOICES} times as long")
        return component

    def _wrong_periods(self) -> bool:
        return not 0 < self.input_period <= self.output_period <= MOST_CHOICES * self.input_period \
            or self.output_period % self.input_period != 0

    def check_read(self, reader: TokenReader) -> None:
        if self._wrong_periods():
            raise reader.error("expected an output period that is a multiple of the input period, found "
                               f"{self.output_period} and {self.input_period}")


# -- pooling -----------------------------------------------------------------------------------------------------------


@dataclass
class StatisticsPoolingComponentPrecomputedIndexes(InFiles):
    """Input rows that each output row uses, and output rows that use each input row. Kaldi's class of this name."""

    FIELDS = (Field("<ForwardIndexes>", "integer_pairs", "forward"),
              Field("<BackwardIndexes>", "integer_pairs", "backward"))

    forward: np.ndarray    # int32 (outputs, 2), begin and end of the input rows of each output row
    # int32 (inputs, 2), begin and end of the output rows that use each input row; empty without backward pass
    backward: np.ndarray

    def check_read(self, reader: TokenReader) -> None:
        check_ranges(reader, "<ForwardIndexes>", self.forward)
        check_ranges(reader, "<BackwardIndexes>", self.backward)
        for ranges, rows in ((self.forward, self.backward), (self.backward, self.forward)):
            if len(self.backward) and ranges.max(initial=0) > len(rows):
                raise reader.error(f"expected ranges of {len(rows)} rows, found one that ends at row {ranges.max()}")


class StatisticsPoolingComponent(Component):
    """Mean, and perhaps standard deviation, over a window of outputs of a StatisticsExtractionComponent.

    The window reaches from ``left_context`` frames before the output's time to ``right_context`` frames after it, at
    multiples of ``input_period``; missing frames are left out. The first ``num_log_count_features`` output columns are
    the logarithm of the number of frames. Kaldi: StatisticsPoolingComponent.

    The backward pass ignores the counts, and the floor of variances.
    """

    FIELDS = (Field("<InputDim>", "dim", "input_dim"), Field("<InputPeriod>", "integer", "input_period"),
              Field("<LeftContext>", "integer", "left_context"), Field("<RightContext>", "integer", "right_context"),
              Field("<NumLogCountFeatures>", "integer", "num_log_count_features"),
              Field("<OutputStddevs>", "boolean", "output_stddevs"),
              Field("<VarianceFloor>", "float32", "variance_floor"))
    input_dim = 0

    def __init__(self, input_dim: int, input_period: int = 1, left_context: int = 0, right_context: int = 0,
                 num_log_count_features: int = 0, output_stddevs: bool = False, variance_floor: float = 1e-10) -> None:
        self.input_dim = input_dim
        self.input_period = input_period
        self.left_context, self.right_context = left_context, right_context
        self.num_log_count_features = num_log_count_features
        self.output_stddevs = output_stddevs
        self.variance_floor = as_float32(variance_floor)

    @property
    def properties(self) -> Properties:
        flags = Properties.REORDERS_INDEXES | Properties.BACKPROP_ADDS
        if self.output_stddevs or self.num_log_count_features > 0:
            flags |= Properties.BACKPROP_NEEDS_OUTPUT
        return flags | Properties.BACKPROP_NEEDS_INPUT if self.num_log_count_features == 0 else flags

    @property
    def output_dim(self) -> int:
        return self.input_dim - 1 + self.num_log_count_features

    def _on_period(self, indexes: np.ndarray) -> np.ndarray:
        return (indexes[:, 1] % self.input_period == 0) & (indexes[:, 1] != NO_TIME)

    def input_indexes(self, indexes: np.ndarray) -> np.ndarray:
        offsets = np.arange(-self.left_context, self.right_context + 1, self.input_period, dtype=np.int32)
        wanted = at_time_offsets(indexes, offsets)
        wanted[~self._on_period(indexes), :, 1] = NO_TIME
        return wanted

    def is_computable(self, indexes: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return available.any(axis=1) & self._on_period(indexes), available

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return by_sequence(inputs), by_sequence(outputs)

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray,
                           need_backprop: bool) -> StatisticsPoolingComponentPrecomputedIndexes:
        times = times_of(outputs)
        forward = row_ranges(inputs, outputs, times - self.left_context, times + self.right_context)
        if not need_backprop:
            return StatisticsPoolingComponentPrecomputedIndexes(forward, np.zeros((0, 2), np.int32))
        times = times_of(inputs)
        backward = row_ranges(outputs, inputs, times - self.right_context, times + self.left_context)
        return StatisticsPoolingComponentPrecomputedIndexes(forward, backward)

    def check_precomputed(self, indexes: StatisticsPoolingComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                          need_backprop: bool) -> None:
        if (len(indexes.forward) != y.shape[0] or indexes.forward.max(initial=0) > x.shape[0]
                or need_backprop and len(indexes.backward) != x.shape[0]
                or indexes.backward.max(initial=0) > y.shape[0]):
            raise compiled_for_others("the ranges of pooling", x, y)

    def propagate(self, ops: Ops, indexes: StatisticsPoolingComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                  memo: None) -> None:
        ops.pool_statistics(y, x, indexes.forward, self.num_log_count_features, self.output_stddevs,
                            self.variance_floor)

    def backprop(self, ops: Ops, indexes: StatisticsPoolingComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                 dy: DeviceArray, memo: None, update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None:
            return
        if self.num_log_count_features > 0:
            counts = y[:, :1]
        else:
            counts = ops.scratch(dy.shape[0], 1)
            ops.set_const(counts, 0.0)
            ops.add_row_ranges(counts, x[:, :1], indexes.forward, 1.0)
        by_sums = ops.scratch(dy.shape[0], self.input_dim - 1)
        ops.pool_statistics_backprop(by_sums, y if self.output_stddevs else dy, dy, counts,
                                     self.num_log_count_features, self.output_stddevs)
        ops.add_row_ranges(dx[:, 1:], by_sums, indexes.backward, 1.0)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> StatisticsPoolingComponent:
        component = cls(line.get_int("input-dim", 0), line.get_int("input-period", 1),
                        line.get_int("left-context", -1), line.get_int("right-context", -1),
                        line.get_int("num-log-count-features", 0), line.get_bool("output-stddevs", False),
                        line.get_float("variance-floor", 1e-10))
        wrong = "input-dim must be positive" if component.input_dim <= 0 else component._fault_of_settings()
        if wrong:
            raise invalid_initializer(line, cls.__name__, wrong)
        return component

    def _fault_of_settings(self) -> str:
        """Return the reason why the settings, apart from the dimension, are impossible; empty if they are possible."""
        contexts = self.left_context, self.right_context
        if self.input_period < 1 or min(contexts) < 0 or not 0 < sum(contexts) < MOST_CHOICES * self.input_period \
                or any(context % self.input_period for context in contexts):
            return ("left-context and right-context must be multiples of input-period, not negative, not both 0, and "
                    f"make a window of at most {MOST_CHOICES} frames")
        if self.num_log_count_features < 0 or not 0 < self.output_dim <= LARGEST_DIM:
            return f"num-log-count-features must not be negative, and make an output of 1 to {LARGEST_DIM} dimensions"
        if not 0.0 < self.variance_floor < 1.0:
            return "variance-floor must lie between 0 and 1"
        if self.output_stddevs and self.input_dim % 2 == 0:
            return "with output-stddevs=true, input-dim must be odd: a count, sums and as many sums of squares"
        return ""

    def check_read(self, reader: TokenReader) -> None:
        wrong = self._fault_of_settings()
        if wrong:
            raise reader.error(f"{wrong}; found {fields_text(self, self.FIELDS)}")
