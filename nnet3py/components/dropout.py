"""Dropout: of single elements or rows, and by masks shared over time."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent, compiled_for_others
from nnet3py.components.fields import Field, InFiles, as_float32, invalid_initializer
from nnet3py.components.info_text import number
from nnet3py.components.normalize import in_blocks
from nnet3py.index import numbers_by_appearance

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Memory, Ops

MOST_REGIONS = 1 << 12      # of a SpecAugment band, each with a random number per mask: more must be a mistake


class DropoutComponent(SameDimComponent):
    """Sets each element, or each row, to zero with probability ``dropout_proportion``. Kaldi: DropoutComponent.

    Kept values are not scaled up in training; in test mode everything is multiplied by 1 - dropout_proportion. No mask
    is stored: in the backward pass it is recovered as y / x, and where x is 0 the derivative passes.
    """

    FIELDS = (Field("<Dim>", "dim", "dim", "dim"),
              Field("<DropoutProportion>", "float32", "dropout_proportion", "dropout-proportion"),
              Field("<DropoutPerFrame>", "boolean", "per_frame", "dropout-per-frame", default=False),
              Field("<TestMode>", "boolean", "test_mode", default=False))

    properties = (Properties.SIMPLE | Properties.BACKPROP_IN_PLACE | Properties.BACKPROP_NEEDS_INPUT
                  | Properties.BACKPROP_NEEDS_OUTPUT | Properties.RANDOM)

    def __init__(self, dim: int, dropout_proportion: float, per_frame: bool = False, test_mode: bool = False) -> None:
        self.dim = dim
        self.dropout_proportion = as_float32(dropout_proportion)
        self.per_frame = per_frame
        self.test_mode = test_mode

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        if self.test_mode:
            ops.copy_mat(y, x, 1.0 - self.dropout_proportion)
            return
        draws = ops.scratch(x.shape[0], 1 if self.per_frame else self.dim)
        ops.random.fill_uniform(draws)
        if self.per_frame:
            ops.dropout_rows(y, x, draws, self.dropout_proportion)
        else:
            ops.dropout_elements(y, x, draws, self.dropout_proportion)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.dropout_backprop(dx, x, y, dy)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> DropoutComponent:
        dim = line.get_int("dim", 0)
        proportion = line.get_float("dropout-proportion", -1.0)
        per_frame, test_mode = line.get_bool("dropout-per-frame", False), line.get_bool("test-mode", False)
        if dim <= 0 or not 0.0 <= proportion <= 1.0:
            raise invalid_initializer(line, cls.__name__, "dim must be positive, dropout-proportion given and between "
                                      "0 and 1; other keys are dropout-per-frame and test-mode")
        return cls(dim, proportion, per_frame, test_mode)


@dataclass
class GeneralDropoutComponentPrecomputedIndexes(InFiles):
    """Which row of the mask each block of each row uses. Kaldi's class of this name.

    ``indexes`` is int32 (rows blocks_per_row,); ``num_mask_rows`` counts the rows drawn, more than are used if there
    are several blocks.
    """

    FIELDS = (Field("<NumMaskRows>", "integer", "num_mask_rows"), Field("<Indexes>", "integer_vector", "indexes"))

    num_mask_rows: int
    indexes: np.ndarray

    def check_read(self, reader: TokenReader) -> None:
        if not 0 <= self.indexes.min(initial=0) <= self.indexes.max(initial=-1) < max(self.num_mask_rows, 1) \
                or self.num_mask_rows < 0:
            raise reader.error(f"expected row indexes between 0 and {self.num_mask_rows - 1} after <Indexes>")


class _Mask:
    """The memo of a GeneralDropoutComponent: its mask, made at the first propagation, when its size is known."""

    def __init__(self) -> None:
        self.matrix: DeviceArray | None = None

    def of_size(self, ops: Ops, rows: int, cols: int) -> DeviceArray:
        """The mask's float32 (rows, cols) matrix; allocated once, since a bound command's sizes do not change."""
        if self.matrix is None or self.matrix.shape != (rows, cols):
            self.matrix = ops.new_vector(rows * cols).reshape(rows, cols)
        return self.matrix


class GeneralDropoutComponent(SameDimComponent):
    """Dropout with one mask per sequence, or per stretch of time in it. Kaldi: GeneralDropoutComponent.

    ``time_period`` is the length of a stretch in frames, 0 for the whole sequence. With ``specaugment_max_proportion``
    above 0 the masks zero a random band of columns instead, as in SpecAugment.
    """

    FIELDS = (Field("<Dim>", "dim", "dim"), Field("<BlockDim>", "block_dim", "block_dim"),
              Field("<TimePeriod>", "integer", "time_period"),
              Field("<DropoutProportion>", "float32", "dropout_proportion"),
              Field("<SpecAugmentMaxProportion>", "float32", "specaugment_max_proportion", default=0.0, omitted=True),
              Field("<SpecAugmentMaxRegions>", "integer", "specaugment_max_regions", default=1, omitted=True,
                    needs="specaugment_max_proportion"),
              Field("<TestMode>", "mark", "test_mode", default=False, omitted=True),
              Field("<Continuous>", "mark", "continuous", default=False, omitted=True))

    def __init__(self, dim: int, block_dim: int | None = None, time_period: int = 0, dropout_proportion: float = 0.5,
                 specaugment_max_proportion: float = 0.0, specaugment_max_regions: int = 1, continuous: bool = False,
                 test_mode: bool = False) -> None:
        self.dim, self.block_dim = dim, block_dim or dim
        self.time_period = time_period
        self.dropout_proportion = as_float32(dropout_proportion)
        self.specaugment_max_proportion = as_float32(specaugment_max_proportion)
        self.specaugment_max_regions = specaugment_max_regions
        self.continuous, self.test_mode = continuous, test_mode

    @property
    def properties(self) -> Properties:
        flags = (Properties.RANDOM | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
                 | Properties.USES_MEMO)
        if self.block_dim != self.dim:
            flags |= Properties.INPUT_CONTIGUOUS | Properties.OUTPUT_CONTIGUOUS
        return flags

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray,
                           need_backprop: bool) -> GeneralDropoutComponentPrecomputedIndexes:
        stretch = outputs[:, 0].astype(np.int64)
        if self.time_period:
            t = outputs[:, 1].astype(np.int64) // self.time_period
            t -= t.min(initial=0)
            stretch = stretch * (int(t.max(initial=0)) + 1) + t
        numbers, count = numbers_by_appearance(stretch)
        blocks = self.dim // self.block_dim
        return GeneralDropoutComponentPrecomputedIndexes(count * blocks, np.repeat(numbers, blocks).astype(np.int32))

    def check_precomputed(self, indexes: GeneralDropoutComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                          need_backprop: bool) -> None:
        rows = y.shape[0] * (self.dim // self.block_dim)
        if x.shape[0] != y.shape[0] or len(indexes.indexes) != rows or indexes.num_mask_rows > rows:
            raise compiled_for_others("a dropout's masks", x, y)

    # -- computation ----------------------------------------------------------------------------------------

    @property
    def copies_its_input(self) -> bool:
        return self.test_mode or (self.dropout_proportion == 0.0 and self.specaugment_max_proportion == 0.0)

    def new_memo(self, ops: Memory, num_rows: int) -> _Mask:
        return _Mask()

    def propagate(self, ops: Ops, indexes: GeneralDropoutComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                  memo: _Mask) -> None:
        if self.copies_its_input:
            if x is not y:
                ops.copy_mat(y, x, 1.0)
            return
        mask = memo.of_size(ops, indexes.num_mask_rows, self.block_dim)
        self._draw_mask(ops, mask)
        ops.mul_mask_rows(in_blocks(y, self.block_dim), in_blocks(x, self.block_dim), mask, indexes.indexes)

    def _draw_mask(self, ops: Ops, mask: DeviceArray) -> None:
        if self.specaugment_max_proportion != 0.0:
            regions = self.specaugment_max_regions
            draws = ops.scratch(mask.shape[0], regions + 1)
            ops.random.fill_uniform(draws)
            ops.specaugment_mask(mask, draws, int(self.block_dim * self.specaugment_max_proportion + 0.5))
            return
        ops.random.fill_uniform(mask)
        if self.continuous:
            ops.continuous_mask(mask, self.dropout_proportion)
        else:
            kept = 1.0 - self.dropout_proportion
            ops.binary_mask(mask, self.dropout_proportion, 1.0 / kept if kept else 0.0)

    def backprop(self, ops: Ops, indexes: GeneralDropoutComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                 dy: DeviceArray, memo: _Mask, update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None:
            return
        if self.copies_its_input:
            if dx is not dy:
                ops.copy_mat(dx, dy, 1.0)
            return
        assert memo.matrix is not None
        ops.mul_mask_rows(in_blocks(dx, self.block_dim), in_blocks(dy, self.block_dim), memo.matrix, indexes.indexes)

    # -- files and text -------------------------------------------------------------------------------------

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> GeneralDropoutComponent:
        dim = line.get_int("dim", 0)
        block_dim, time_period = line.get_int("block-dim", dim), line.get_int("time-period", 0)
        proportion = line.get_float("dropout-proportion", 0.5)
        max_proportion = line.get_float("specaugment-max-proportion", 0.0)
        max_regions = line.get_int("specaugment-max-regions", 1)
        continuous, test_mode = line.get_bool("continuous", False), line.get_bool("test-mode", False)
        if dim <= 0 or block_dim <= 0 or dim % block_dim or time_period < 0:
            raise invalid_initializer(line, cls.__name__, "dim must be positive, block-dim divide it, time-period not "
                                      "be negative; other keys are dropout-proportion, continuous, test-mode and "
                                      "specaugment-max-{proportion,regions}")
        if max_proportion != 0.0 and (not 0.0 <= max_proportion <= 1.0 or continuous
                                      or not 1 <= max_regions <= MOST_REGIONS):
            raise invalid_initializer(line, cls.__name__, "specaugment-max-proportion must be between 0 and 1, without "
                                      f"continuous, and specaugment-max-regions between 1 and {MOST_REGIONS}")
        return cls(dim, block_dim, time_period, proportion, max_proportion, max_regions, continuous, test_mode)

    def check_read(self, reader: TokenReader) -> None:
        """Refuse settings that cannot give a mask: lengths below zero, a band wider than the row."""
        if self.time_period < 0 or not 0.0 <= self.specaugment_max_proportion <= 1.0 \
                or not 1 <= self.specaugment_max_regions <= MOST_REGIONS:
            raise reader.error(f"expected a time period of at least 0, a SpecAugment proportion between 0 and 1 and 1 "
                               f"to {MOST_REGIONS} regions, found {self.time_period}, "
                               f"{self.specaugment_max_proportion:g} and {self.specaugment_max_regions}")

    def info(self, verbose: int = 0) -> str:
        text = (f"{type(self).__name__}, dim={self.dim}, block-dim={self.block_dim}, "
                f"dropout-proportion={number(self.dropout_proportion)}")
        if self.continuous:
            text += ", continuous=true"
        if self.specaugment_max_proportion != 0.0:
            text += (f", specaugment-max-proportion={number(self.specaugment_max_proportion)}, "
                     f"specaugment-max-regions={self.specaugment_max_regions}")
        return f"{text}, time-period={self.time_period}" if self.time_period > 0 else text
