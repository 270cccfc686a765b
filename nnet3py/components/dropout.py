"""Dropout of elements or rows, dropout with masks shared over time, components that output masks, SpecAugment."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent, compiled_for_others, copy_if_apart
from nnet3py.components.fields import Field, InFiles, as_float32, invalid_initializer, number
from nnet3py.components.normalize import in_blocks
from nnet3py.errors import CompileError, NumericError
from nnet3py.index import numbers_by_appearance

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader, TokenWriter
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Memory, Ops

MOST_REGIONS = 1 << 12      # SpecAugment bands per mask; more must be a mistake


class DropoutComponent(SameDimComponent):
    """Dropout of each element, or each row, with probability ``dropout_proportion``. Kaldi: DropoutComponent.

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
    """Row of the mask matrix for each block of each input row. Kaldi's class of this name."""

    FIELDS = (Field("<NumMaskRows>", "integer", "num_mask_rows"), Field("<Indexes>", "integer_vector", "indexes"))

    num_mask_rows: int     # number of rows of the mask matrix, some of them unused if there are several blocks
    indexes: np.ndarray    # int32 (rows * blocks_per_row,)

    def check_read(self, reader: TokenReader) -> None:
        if not 0 <= self.indexes.min(initial=0) <= self.indexes.max(initial=-1) < max(self.num_mask_rows, 1) \
                or self.num_mask_rows < 0:
            raise reader.error(f"expected row indexes between 0 and {self.num_mask_rows - 1} after <Indexes>")


class _Mask:
    """Memo of a GeneralDropoutComponent: its mask, allocated in the first propagation, when its size is known."""

    def __init__(self) -> None:
        self.matrix: DeviceArray | None = None

    def of_size(self, ops: Ops, rows: int, cols: int) -> DeviceArray:
        """Return the mask, float32 (rows, cols), allocated by the first call."""
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

    @property
    def copies_its_input(self) -> bool:
        return self.test_mode or (self.dropout_proportion == 0.0 and self.specaugment_max_proportion == 0.0)

    def new_memo(self, ops: Memory, num_rows: int) -> _Mask:
        return _Mask()

    def propagate(self, ops: Ops, indexes: GeneralDropoutComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                  memo: _Mask) -> None:
        if self.copies_its_input:
            copy_if_apart(ops, y, x)
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
            copy_if_apart(ops, dx, dy)
            return
        assert memo.matrix is not None
        ops.mul_mask_rows(in_blocks(dx, self.block_dim), in_blocks(dy, self.block_dim), memo.matrix, indexes.indexes)

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
        """Raise FormatError for invalid settings: negative lengths, a band wider than the row."""
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


class DropoutMaskComponent(Component):
    """Random factors for other components, without input: 0 with probability ``dropout_proportion``, else 1.

    ``continuous`` masks are uniform between 1 - 2 dropout_proportion and 1 + 2 dropout_proportion instead. In test mode
    the output is the expectation. With 2 or 3 columns the first two share their draw, so that for proportions up to a
    half they are never both 0. Kaldi: DropoutMaskComponent.
    """

    FIELDS = (Field("<OutputDim>", "dim", "output_dim", "output-dim"),
              Field("<DropoutProportion>", "float32", "dropout_proportion", "dropout-proportion"),
              Field("<TestMode>", "boolean", "test_mode", default=False),
              Field("<Continuous>", "mark", "continuous", "continuous", default=False, omitted=True))

    properties = Properties.RANDOM
    SHARED_DRAW_DIMS = (2, 3)       # columns, one per gate of a cell; input and forget gate come first
    input_dim = output_dim = 0      # no input is read; in config lines the component node itself is the input

    def __init__(self, output_dim: int, dropout_proportion: float = 0.5, continuous: bool = False,
                 test_mode: bool = False) -> None:
        self.input_dim = self.output_dim = output_dim
        self.dropout_proportion = as_float32(dropout_proportion)
        self.continuous, self.test_mode = continuous, test_mode

    def input_indexes(self, indexes: np.ndarray) -> np.ndarray:
        return np.zeros((len(indexes), 0, 3), dtype=np.int32)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        proportion = self.dropout_proportion
        if not 0.0 <= proportion <= 1.0:
            raise NumericError(f"a dropout proportion of {proportion:g}; expected a number between 0 and 1")
        if proportion == 0.0 or self.test_mode:
            ops.set_const(y, 1.0 if self.continuous else 1.0 - proportion)
            return
        ops.random.fill_uniform(y)
        if self.continuous:
            ops.continuous_mask(y, proportion)
            return
        ops.binary_mask(y, proportion, 1.0)
        if self.output_dim in self.SHARED_DRAW_DIMS:
            draws = ops.scratch(y.shape[0], 1)
            ops.random.fill_uniform(draws)
            ops.complementary_masks(y, draws, proportion)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        """Do nothing: there is no input, and no parameter."""

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> DropoutMaskComponent:
        dim, proportion = line.get_int("output-dim", 0), line.get_float("dropout-proportion", 0.5)
        continuous, test_mode = line.get_bool("continuous", False), line.get_bool("test-mode", False)
        if dim <= 0 or not 0.0 <= proportion <= 1.0:
            raise invalid_initializer(line, cls.__name__, "output-dim must be positive, dropout-proportion between 0 "
                                      "and 1; other keys are continuous and test-mode")
        return cls(dim, proportion, continuous, test_mode)


LONGEST_RUN = 1 << 30       # frames, within int32; a tiny proportion would need longer runs


@dataclass
class SpecAugmentTimeMaskComponentPrecomputedIndexes:
    """Rows of each sequence in the order of their times. Kaldi's class of this name."""

    rows: np.ndarray      # int32 (rows,), by sequence, then time
    starts: np.ndarray    # int32 (sequences + 1,), begin of each sequence in ``rows``, then the end of the last

    # Irregular: the rows are a list of lists.
    @classmethod
    def read(cls, reader: TokenReader) -> SpecAugmentTimeMaskComponentPrecomputedIndexes:
        """Read the fields, after the opening tag (which may still be there), and the closing tag."""
        reader.expect_one_or_two(f"<{cls.__name__}>", "<Indexes>")
        count = reader.integer()
        reader.check_count(count, 3, "lists of rows")
        lists = [reader.integer_vector() for _ in range(count)]
        rows = np.concatenate(lists or [np.zeros(0, np.int32)]).astype(np.int32)
        if not np.array_equal(np.sort(rows), np.arange(len(rows))):
            raise reader.error(f"expected each row from 0 to {len(rows) - 1} in one of the lists after <Indexes>")
        reader.expect(f"</{cls.__name__}>")
        return cls(rows, np.cumsum([0, *map(len, lists)], dtype=np.int32))

    def write(self, writer: TokenWriter) -> None:
        """Write the opening tag, the fields and the closing tag."""
        writer.token(f"<{type(self).__name__}>")
        writer.token("<Indexes>")
        writer.integer(len(self.starts) - 1)
        for begin, end in zip(self.starts[:-1], self.starts[1:], strict=True):
            writer.integer_vector(self.rows[begin:end])
        writer.token(f"</{type(self).__name__}>")


class SpecAugmentTimeMaskComponent(SameDimComponent):
    """Mask of random stretches of time of each sequence. Kaldi: SpecAugmentTimeMaskComponent.

    Stretches of 1 to ``time_mask_max_frames`` zeroed frames alternate with stretches of kept frames, of such lengths
    that about ``zeroed_proportion`` of all frames is zeroed. Kept values are not scaled. Test mode zeroes nothing.
    """

    FIELDS = (Field("<Dim>", "dim", "dim", "dim"),
              Field("<ZeroedProportion>", "float32", "zeroed_proportion", "zeroed-proportion"),
              Field("<TimeMaskMaxFrames>", "integer", "time_mask_max_frames", "time-mask-max-frames"),
              Field("<TestMode>", "mark", "test_mode", default=False, omitted=True))

    properties = (Properties.RANDOM | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
                  | Properties.USES_MEMO)

    def __init__(self, dim: int, zeroed_proportion: float = 0.25, time_mask_max_frames: int = 10,
                 test_mode: bool = False) -> None:
        self.dim = dim
        self.zeroed_proportion = as_float32(zeroed_proportion)
        self.time_mask_max_frames = time_mask_max_frames
        self.test_mode = test_mode

    @property
    def copies_its_input(self) -> bool:
        return self.test_mode or self.zeroed_proportion == 0.0

    @property
    def _longest_kept(self) -> int:
        """Length in frames of the longest stretch of kept frames; less than 1 if the proportion is too large."""
        zeroed, whole = np.float32(self.zeroed_proportion), np.float32(1.0)
        with np.errstate(over="ignore"):
            longest = np.float32(self.time_mask_max_frames) * (whole - zeroed) / zeroed
        return int(np.clip(np.nan_to_num(longest), 0, LONGEST_RUN))

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray,
                           need_backprop: bool) -> SpecAugmentTimeMaskComponentPrecomputedIndexes:
        if not np.array_equal(inputs, outputs):
            raise CompileError("a SpecAugmentTimeMaskComponent needs the same rows, in the same order, as input and as "
                               f"output; found {len(inputs)} input rows and {len(outputs)} output rows that differ")
        rows = np.lexsort((outputs[:, 1], outputs[:, 0])).astype(np.int32)
        starts = np.flatnonzero(np.diff(outputs[rows, 0])) + 1
        return SpecAugmentTimeMaskComponentPrecomputedIndexes(rows, np.array([0, *starts, len(rows)], dtype=np.int32))

    def check_precomputed(self, indexes: SpecAugmentTimeMaskComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                          need_backprop: bool) -> None:
        if not x.shape[0] == y.shape[0] == len(indexes.rows):
            raise compiled_for_others("a mask over time", x, y)

    def new_memo(self, ops: Memory, num_rows: int) -> DeviceArray:
        """Return storage for the mask, float32 (rows,)."""
        return ops.new_vector(num_rows)

    def propagate(self, ops: Ops, indexes: SpecAugmentTimeMaskComponentPrecomputedIndexes, x: DeviceArray,
                  y: DeviceArray, memo: DeviceArray) -> None:
        if self.copies_its_input:
            copy_if_apart(ops, y, x)
            return
        longest_kept = self._longest_kept
        if longest_kept < 1 or self.time_mask_max_frames < 1:
            raise NumericError(f"zeroed-proportion={self.zeroed_proportion:g} with time-mask-max-frames="
                               f"{self.time_mask_max_frames} leaves no frame between two masks",
                               "use a smaller proportion (0 or more), or a larger time-mask-max-frames")
        draws = ops.scratch(1, len(indexes.rows) + len(indexes.starts) - 1)
        ops.random.fill_uniform(draws)
        ops.time_mask(memo, draws, indexes.rows, indexes.starts, self.zeroed_proportion, self.time_mask_max_frames,
                      longest_kept)
        ops.mul_rows_vec(y, x, memo)

    def backprop(self, ops: Ops, indexes: SpecAugmentTimeMaskComponentPrecomputedIndexes, x: DeviceArray,
                 y: DeviceArray, dy: DeviceArray, memo: DeviceArray, update: Component | None,
                 dx: DeviceArray | None) -> None:
        if dx is not None and self.copies_its_input:
            copy_if_apart(ops, dx, dy)
        elif dx is not None:
            ops.mul_rows_vec(dx, dy, memo)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> SpecAugmentTimeMaskComponent:
        component = cls(line.get_int("dim", 0), line.get_float("zeroed-proportion", 0.25),
                        line.get_int("time-mask-max-frames", 10))
        if component.dim <= 0 or component.time_mask_max_frames <= 1 \
                or component.zeroed_proportion != 0.0 and component._longest_kept < 1:
            raise invalid_initializer(line, cls.__name__, "dim must be positive, time-mask-max-frames at least 2, "
                                      "zeroed-proportion 0 or more, and so far below 1 that stretches of kept frames "
                                      "can balance the zeroed ones")
        return component
