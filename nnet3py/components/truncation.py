"""Components that pass values on unchanged and hold derivatives in bounds on the way back, for recurrent networks."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent, compiled_for_others
from nnet3py.components.fields import as_float32, invalid_initializer, read_dim
from nnet3py.components.info_text import number, significant, truth
from nnet3py.formats.matrices import read_vector, write_vector

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader, TokenWriter
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

NUM_CLIPPED, COUNT, NUM_SELF_REPAIRED, NUM_BACKPROPPED = range(4)     # places in ClipGradientComponent.counters
CLIPPED, ZEROED, ROWS, BOUNDARIES = range(4)                          # places in BackpropTruncationComponent.counters


class ClipGradientComponent(SameDimComponent):
    """Identity forward; backward, rows are scaled down to a norm, or elements clipped. Kaldi: ClipGradientComponent.

    ``counters`` (float64, (4,), whole numbers): rows clipped and rows seen, calls in which self-repair acted, calls.
    Self-repair pulls inputs back towards ``self_repair_target`` when too many rows are clipped.
    """

    STATISTICS = ("counters",)
    properties = (Properties.SIMPLE | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
                  | Properties.BACKPROP_NEEDS_INPUT)

    def __init__(self, dim: int, clipping_threshold: float = 15.0, norm_based_clipping: bool = False,
                 proportion_threshold: float = 1.0, self_repair_target: float = 0.0,
                 self_repair_scale: float = 0.0) -> None:
        self.dim = dim
        self.clipping_threshold = as_float32(clipping_threshold)
        self.norm_based_clipping = norm_based_clipping
        self.self_repair_clipped_proportion_threshold = as_float32(proportion_threshold)
        self.self_repair_target = as_float32(self_repair_target)
        self.self_repair_scale = as_float32(self_repair_scale)
        self.counters = np.zeros(4)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        if x is not y:
            ops.copy_mat(y, x, 1.0)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None:
            return
        assert update is None or isinstance(update, ClipGradientComponent)
        if self.clipping_threshold == 0.0:
            ops.set_const(dx, 0.0)
            return
        # without a component to update, nothing is counted: the counters are passed, but not written
        counters = self.counters if update is None else update.counters
        if self.norm_based_clipping:
            ops.clip_rows(dx, counters, dy, self.clipping_threshold, update is not None)
        else:
            ops.clip_elements(dx, counters, dy, self.clipping_threshold, update is not None)
        if update is None or self.self_repair_clipped_proportion_threshold >= 1.0 or self.self_repair_scale == 0.0:
            return
        ops.clip_gradient_repair(dx, counters, x, self.counters, self.self_repair_clipped_proportion_threshold,
                                 self.self_repair_target, self.self_repair_scale, ops.random.draw_uniform())

    # The counters are whole numbers in Kaldi: a fraction is cut off, and only the first two are scaled and added.

    def scale(self, factor: float) -> None:
        self.counters[:2] = np.trunc(self.counters[:2] * np.float32(factor)) if factor else 0.0

    def add(self, alpha: float, other: Component) -> None:
        assert isinstance(other, ClipGradientComponent)
        self.counters[:2] = np.trunc(self.counters[:2] + np.float32(alpha) * other.counters[:2])

    # -- files and text -------------------------------------------------------------------------------------

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

    @classmethod
    def read(cls, reader: TokenReader) -> ClipGradientComponent:
        reader.expect_one_or_two("<ClipGradientComponent>", "<Dim>")
        component = cls(read_dim(reader, "<Dim>"))
        reader.expect("<ClippingThreshold>")
        component.clipping_threshold = as_float32(reader.real())
        reader.expect("<NormBasedClipping>")
        component.norm_based_clipping = reader.boolean()
        token = reader.token()
        if token == "<SelfRepairClippedProportionThreshold>":
            component.self_repair_clipped_proportion_threshold = as_float32(reader.real())
            reader.expect("<SelfRepairTarget>")
            component.self_repair_target = as_float32(reader.real())
            reader.expect("<SelfRepairScale>")
            component.self_repair_scale = as_float32(reader.real())
            token = reader.token()
        reader.check_token(token, "<NumElementsClipped>")
        component.counters[NUM_CLIPPED] = reader.integer()
        reader.expect("<NumElementsProcessed>")
        component.counters[COUNT] = reader.integer()
        token = reader.token()
        if token == "<NumSelfRepaired>":
            component.counters[NUM_SELF_REPAIRED] = reader.integer()
            reader.expect("<NumBackpropped>")
            component.counters[NUM_BACKPROPPED] = reader.integer()
            token = reader.token()
        reader.check_token(token, "</ClipGradientComponent>")
        return component

    def write(self, writer: TokenWriter) -> None:
        writer.token("<ClipGradientComponent>")
        writer.token("<Dim>")
        writer.integer(self.dim)
        writer.token("<ClippingThreshold>")
        writer.float32(self.clipping_threshold)
        writer.token("<NormBasedClipping>")
        writer.boolean(self.norm_based_clipping)
        for tag, value in (("<SelfRepairClippedProportionThreshold>", self.self_repair_clipped_proportion_threshold),
                           ("<SelfRepairTarget>", self.self_repair_target),
                           ("<SelfRepairScale>", self.self_repair_scale)):
            writer.token(tag)
            writer.float32(value)
        for tag, place in (("<NumElementsClipped>", NUM_CLIPPED), ("<NumElementsProcessed>", COUNT),
                           ("<NumSelfRepaired>", NUM_SELF_REPAIRED), ("<NumBackpropped>", NUM_BACKPROPPED)):
            writer.token(tag)
            writer.integer(int(self.counters[place]))
        writer.token("</ClipGradientComponent>")

    def info(self, verbose: int = 0) -> str:
        clipped, count = float(self.counters[NUM_CLIPPED]), float(self.counters[COUNT])
        text = (f"{type(self).__name__}, dim={self.dim}, norm-based-clipping={truth(self.norm_based_clipping)}, "
                f"clipping-threshold={number(self.clipping_threshold)}, "
                f"clipped-proportion={number(clipped / count if count > 0 else 0.0)}")
        if self.self_repair_scale != 0.0:
            text += (", self-repair-clipped-proportion-threshold="
                     f"{number(self.self_repair_clipped_proportion_threshold)}, "
                     f"self-repair-target={number(self.self_repair_target)}, "
                     f"self-repair-scale={number(self.self_repair_scale)}")
        return text


@dataclass
class BackpropTruncationComponentPrecomputedIndexes:
    """Which rows lie at a boundary of the zeroing intervals. Kaldi's class of this name.

    ``zeroing`` is float32 (rows,): -1 at a boundary, 0 elsewhere; ``zeroing_sum`` is how many are at one.
    """

    zeroing: np.ndarray
    zeroing_sum: float

    @classmethod
    def read(cls, reader: TokenReader) -> BackpropTruncationComponentPrecomputedIndexes:
        """Read the fields after the opening tag, which may be still there, and the closing tag."""
        reader.expect_one_or_two(f"<{cls.__name__}>", "<Zeroing>")
        zeroing = read_vector(reader)
        reader.expect("<ZeroingSum>")
        indexes = cls(zeroing, reader.real())
        reader.expect(f"</{cls.__name__}>")
        return indexes

    def write(self, writer: TokenWriter) -> None:
        """Write the opening tag, the fields and the closing tag."""
        writer.token(f"<{type(self).__name__}>")
        writer.token("<Zeroing>")
        write_vector(writer, self.zeroing)
        writer.token("<ZeroingSum>")
        writer.float32(self.zeroing_sum)
        writer.token(f"</{type(self).__name__}>")


class BackpropTruncationComponent(SameDimComponent):
    """Scales forward; backward, rows are clipped to a norm, and large ones at interval boundaries become zero.

    Kaldi: BackpropTruncationComponent. ``counters`` (float64, (4,)): rows clipped, rows zeroed, rows seen, rows at
    boundaries.
    """

    STATISTICS = ("counters",)
    properties = Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
    NO_LIMIT = 1.0e10      # what a threshold of 0 stands for

    def __init__(self, dim: int, scale: float = 1.0, clipping_threshold: float = 30.0, zeroing_threshold: float = 15.0,
                 zeroing_interval: int = 20, recurrence_interval: int = 1) -> None:
        self.dim = dim
        self.value_scale = as_float32(scale)
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

    # -- files and text -------------------------------------------------------------------------------------

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

    @classmethod
    def read(cls, reader: TokenReader) -> BackpropTruncationComponent:
        name = cls.__name__
        reader.expect_one_or_two(f"<{name}>", "<Dim>")
        component = cls(read_dim(reader, "<Dim>"))
        token = reader.token()
        if token == "<Scale>":
            component.value_scale, token = as_float32(reader.real()), reader.token()
        reader.check_token(token, "<ClippingThreshold>")
        component.clipping_threshold = as_float32(reader.real())
        reader.expect("<ZeroingThreshold>")
        component.zeroing_threshold = as_float32(reader.real())
        reader.expect("<ZeroingInterval>")
        component.zeroing_interval = reader.integer()
        reader.expect("<RecurrenceInterval>")
        component.recurrence_interval = reader.integer()
        if min(component.zeroing_interval, component.recurrence_interval) < 1:
            raise reader.error("expected a zeroing interval and a recurrence interval of at least 1, found "
                               f"{component.zeroing_interval} and {component.recurrence_interval}")
        for tag, place in cls._COUNTER_TAGS:
            reader.expect(tag)
            component.counters[place] = reader.real()
        reader.expect(f"</{name}>")
        return component

    _COUNTER_TAGS = (("<NumElementsClipped>", CLIPPED), ("<NumElementsZeroed>", ZEROED),
                     ("<NumElementsProcessed>", ROWS), ("<NumZeroingBoundaries>", BOUNDARIES))

    def write(self, writer: TokenWriter) -> None:
        writer.token("<BackpropTruncationComponent>")
        writer.token("<Dim>")
        writer.integer(self.dim)
        for tag, value in (("<Scale>", self.value_scale), ("<ClippingThreshold>", self.clipping_threshold),
                           ("<ZeroingThreshold>", self.zeroing_threshold)):
            writer.token(tag)
            writer.float32(value)
        writer.token("<ZeroingInterval>")
        writer.integer(self.zeroing_interval)
        writer.token("<RecurrenceInterval>")
        writer.integer(self.recurrence_interval)
        for tag, place in self._COUNTER_TAGS:
            writer.token(tag)
            writer.float64(self.counters[place])
        writer.token("</BackpropTruncationComponent>")

    def info(self, verbose: int = 0) -> str:
        clipped, zeroed, rows, boundaries = (float(value) for value in self.counters)
        return (f"{type(self).__name__}, dim={self.dim}, scale={number(self.value_scale)}, "
                f"count={significant(rows, 3)}, recurrence-interval={self.recurrence_interval}, "
                f"clipping-threshold={number(self.clipping_threshold)}, "
                f"clipped-proportion={number(clipped / rows if rows > 0 else 0.0)}, "
                f"zeroing-threshold={number(self.zeroing_threshold)}, zeroing-interval={self.zeroing_interval}, "
                f"zeroed-proportion={number(zeroed / boundaries if boundaries > 0 else 0.0)}, "
                f"count-zeroing-boundaries={int(boundaries)}")
