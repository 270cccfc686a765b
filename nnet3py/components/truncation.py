"""Components that limit derivatives in the backward pass of recurrent networks; the forward pass copies or scales."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent, compiled_for_others, copy_if_apart
from nnet3py.components.fields import Field, InFiles, as_float32, fields_info, invalid_initializer, number, significant

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

NUM_CLIPPED, COUNT, NUM_SELF_REPAIRED, NUM_BACKPROPPED = range(4)     # elements of ClipGradientComponent.counters
CLIPPED, ZEROED, ROWS, BOUNDARIES = range(4)                          # of BackpropTruncationComponent.counters


class ClipGradientComponent(SameDimComponent):
    """Copy of the input whose derivative is limited: rows are scaled down to a norm, or elements clipped.

    Self-repair pulls inputs towards ``self_repair_target`` when too many rows are clipped. Kaldi:
    ClipGradientComponent.

    ``counters`` : float64 (4,), whole numbers: clipped rows, all rows, calls in which self-repair acted, calls.
    """

    STATISTICS = ("counters",)
    FIELDS = (Field("<Dim>", "dim", "dim", "dim"),
              Field("<ClippingThreshold>", "float32", "clipping_threshold", "clipping-threshold"),
              Field("<NormBasedClipping>", "boolean", "norm_based_clipping", "norm-based-clipping"),
              Field("<SelfRepairClippedProportionThreshold>", "float32", "self_repair_clipped_proportion_threshold",
                    "self-repair-clipped-proportion-threshold", default=1.0),
              Field("<SelfRepairTarget>", "float32", "self_repair_target", "self-repair-target", default=0.0),
              Field("<SelfRepairScale>", "float32", "self_repair_scale", "self-repair-scale", default=0.0),
              Field("<NumElementsClipped>", "integer", f"counters.{NUM_CLIPPED}"),
              Field("<NumElementsProcessed>", "integer", f"counters.{COUNT}"),
              Field("<NumSelfRepaired>", "integer", f"counters.{NUM_SELF_REPAIRED}", default=0),
              Field("<NumBackpropped>", "integer", f"counters.{NUM_BACKPROPPED}", default=0))
    INFO = ("dim", "norm-based-clipping", "clipping-threshold", "clipped-proportion")
    properties = (Properties.SIMPLE | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
                  | Properties.BACKPROP_NEEDS_INPUT)

    def __init__(self, dim: int, clipping_threshold: float = 15.0, norm_based_clipping: bool = False,
                 self_repair_clipped_proportion_threshold: float = 1.0, self_repair_target: float = 0.0,
                 self_repair_scale: float = 0.0) -> None:
        self.dim = dim
        self.clipping_threshold = as_float32(clipping_threshold)
        self.norm_based_clipping = norm_based_clipping
        self.self_repair_clipped_proportion_threshold = as_float32(self_repair_clipped_proportion_threshold)
        self.self_repair_target = as_float32(self_repair_target)
        self.self_repair_scale = as_float32(self_repair_scale)
        self.counters = np.zeros(4)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        copy_if_apart(ops, y, x)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None:
            return
        assert update is None or isinstance(update, ClipGradientComponent)
        if self.clipping_threshold == 0.0:
            ops.set_const(dx, 0.0)
            return
        # Without a component to update, the counters are passed but not written.
        counters = self.counters if update is None else update.counters
        if self.norm_based_clipping:
            ops.clip_rows(dx, counters, dy, self.clipping_threshold, update is not None)
        else:
            ops.clip_elements(dx, counters, dy, self.clipping_threshold, update is not None)
        if update is None or self.self_repair_clipped_proportion_threshold >= 1.0 or self.self_repair_scale == 0.0:
            return
        ops.clip_gradient_repair(dx, counters, x, self.counters, self.self_repair_clipped_proportion_threshold,
                                 self.self_repair_target, self.self_repair_scale, ops.random.draw_uniform())

    # Counters are integers in Kaldi: fractions are truncated, and only the first two are scaled and added.

    def scale(self, factor: float) -> None:
        self.counters[:2] = np.trunc(self.counters[:2] * np.float32(factor)) if factor else 0.0

    def add(self, alpha: float, other: Component) -> None:
        assert isinstance(other, ClipGradientComponent)
        self.counters[:2] = np.trunc(self.counters[:2] + np.float32(alpha) * other.counters[:2])

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> ClipGradientComponent:
        dim = line.get_int("dim", 0)
        threshold = line.get_float("clipping-threshold", 15.0)
        norm_based = line.get_bool("norm-based-clipping", False)
        repair = (line.get_float("self-repair-clipped-proportion-threshold", 0.01),
                  line.get_float("self-repair-target", 0.0), line.get_float("self-repair-scale", 1.0))
        if dim <= 0 or not threshold >= 0.0 or not min(repair) >= 0.0:
            raise invalid_initializer(line, cls.__name__, "dim must be positive; clipping-threshold and self-repair-"
                                      "{clipped-proportion-threshold,target,scale} not negative; the other key is "
                                      "norm-based-clipping")
        return cls(dim, threshold, norm_based, *repair)

    @property
    def clipped_proportion(self) -> float:
        """Proportion of clipped rows."""
        return float(self.counters[NUM_CLIPPED] / (self.counters[COUNT] or 1.0))

    def info(self, verbose: int = 0) -> str:
        repair = ("self-repair-clipped-proportion-threshold", "self-repair-target", "self-repair-scale")
        return super().info(verbose) + (fields_info(self, self.FIELDS, repair) if self.self_repair_scale else "")


@dataclass
class BackpropTruncationComponentPrecomputedIndexes(InFiles):
    """Rows at the boundaries of intervals where derivatives are zeroed. Kaldi's class of this name.

    ``zeroing`` is float32 (rows,): -1 at a boundary, 0 elsewhere; ``zeroing_sum`` is the number of rows at boundaries.
    """

    FIELDS = (Field("<Zeroing>", "vector", "zeroing"), Field("<ZeroingSum>", "float32", "zeroing_sum"))

    zeroing: np.ndarray
    zeroing_sum: float


class BackpropTruncationComponent(SameDimComponent):
    """Scaling whose derivative is limited: rows are clipped to a norm, and large ones zeroed at interval boundaries.

    Kaldi: BackpropTruncationComponent.

    ``counters`` : float64 (4,), clipped rows, zeroed rows, all rows, rows at boundaries.
    """

    STATISTICS = ("counters",)
    FIELDS = (Field("<Dim>", "dim", "dim"), Field("<Scale>", "float32", "value_scale", default=1.0),
              Field("<ClippingThreshold>", "float32", "clipping_threshold"),
              Field("<ZeroingThreshold>", "float32", "zeroing_threshold"),
              Field("<ZeroingInterval>", "integer", "zeroing_interval"),
              Field("<RecurrenceInterval>", "integer", "recurrence_interval"),
              Field("<NumElementsClipped>", "float64", f"counters.{CLIPPED}"),
              Field("<NumElementsZeroed>", "float64", f"counters.{ZEROED}"),
              Field("<NumElementsProcessed>", "float64", f"counters.{ROWS}"),
              Field("<NumZeroingBoundaries>", "float64", f"counters.{BOUNDARIES}"))
    properties = Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
    NO_LIMIT = 1.0e10      # threshold that 0 in config lines stands for

    def __init__(self, dim: int, value_scale: float = 1.0, clipping_threshold: float = 30.0,
                 zeroing_threshold: float = 15.0, zeroing_interval: int = 20, recurrence_interval: int = 1) -> None:
        self.dim = dim
        self.value_scale = as_float32(value_scale)
        self.clipping_threshold, self.zeroing_threshold = as_float32(clipping_threshold), as_float32(zeroing_threshold)
        self.zeroing_interval, self.recurrence_interval = zeroing_interval, recurrence_interval
        self.counters = np.zeros(4)

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray,
                           need_backprop: bool) -> BackpropTruncationComponentPrecomputedIndexes:
        position = outputs[:, 1].astype(np.int64) - outputs[:, 0]
        boundary = position // self.zeroing_interval != (position - self.recurrence_interval) // self.zeroing_interval
        return BackpropTruncationComponentPrecomputedIndexes(-boundary.astype(np.float32), float(boundary.sum()))

    def check_precomputed(self, indexes: BackpropTruncationComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                          need_backprop: bool) -> None:
        if not x.shape[0] == y.shape[0] == len(indexes.zeroing):
            raise compiled_for_others("the boundaries of a truncation", x, y)

    def propagate(self, ops: Ops, indexes: BackpropTruncationComponentPrecomputedIndexes, x: DeviceArray,
                  y: DeviceArray, memo: None) -> None:
        if x is not y or self.value_scale != 1.0:
            ops.copy_mat(y, x, self.value_scale)

    def backprop(self, ops: Ops, indexes: BackpropTruncationComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                 dy: DeviceArray, memo: None, update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None:
            return
        assert update is None or isinstance(update, BackpropTruncationComponent)
        counters = self.counters if update is None else update.counters
        ops.truncate_gradient(dx, counters, dy, indexes.zeroing, self.value_scale,
                              self.clipping_threshold or self.NO_LIMIT, self.zeroing_threshold or self.NO_LIMIT,
                              update is not None)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> BackpropTruncationComponent:
        dim = line.get_int("dim", 0)
        scale = line.get_float("scale", 1.0)
        thresholds = line.get_float("clipping-threshold", 30.0), line.get_float("zeroing-threshold", 15.0)
        intervals = line.get_int("zeroing-interval", 20), line.get_int("recurrence-interval", 1)
        if dim <= 0 or not scale > 0.0 or not min(thresholds) >= 0.0 or min(intervals) < 1:
            raise invalid_initializer(line, cls.__name__, "dim and scale must be positive, {clipping,zeroing}-"
                                      "threshold not negative, {zeroing,recurrence}-interval at least 1")
        return cls(dim, scale, *thresholds, *intervals)

    def check_read(self, reader: TokenReader) -> None:
        if min(self.zeroing_interval, self.recurrence_interval) < 1:
            raise reader.error("expected a zeroing interval and a recurrence interval of at least 1, found "
                               f"{self.zeroing_interval} and {self.recurrence_interval}")

    def info(self, verbose: int = 0) -> str:
        clipped, zeroed, rows, boundaries = (float(value) for value in self.counters)
        return (f"{type(self).__name__}, dim={self.dim}, scale={number(self.value_scale)}, "
                f"count={significant(rows, 3)}, recurrence-interval={self.recurrence_interval}, "
                f"clipping-threshold={number(self.clipping_threshold)}, "
                f"clipped-proportion={number(clipped / rows if rows > 0 else 0.0)}, "
                f"zeroing-threshold={number(self.zeroing_threshold)}, zeroing-interval={self.zeroing_interval}, "
                f"zeroed-proportion={number(zeroed / boundaries if boundaries > 0 else 0.0)}, "
                f"count-zeroing-boundaries={int(boundaries)}")
