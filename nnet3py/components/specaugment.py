"""SpecAugment's masking of stretches of time (its frequency masks are made by GeneralDropoutComponent)."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent, compiled_for_others
from nnet3py.components.fields import Field, as_float32, invalid_initializer
from nnet3py.errors import CompileError, NumericError

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader, TokenWriter
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Memory, Ops

LONGEST_RUN = 1 << 30       # frames; a tiny proportion would make it longer than an int32 can hold


@dataclass
class SpecAugmentTimeMaskComponentPrecomputedIndexes:
    """The rows of each sequence in the order of their times. Kaldi's class of this name.

    Attributes
    ----------
    rows : int32 (rows,), sequence after sequence
    starts : int32 (sequences + 1,), where each sequence starts in ``rows``, and the end
    """

    rows: np.ndarray
    starts: np.ndarray

    # Irregular: the rows are a list of lists.
    @classmethod
    def read(cls, reader: TokenReader) -> SpecAugmentTimeMaskComponentPrecomputedIndexes:
        """Read the fields after the opening tag, which may still be there, and the closing tag."""
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
    """Sets random stretches of time of each sequence to zero. Kaldi: SpecAugmentTimeMaskComponent.

    Stretches of 1 to ``time_mask_max_frames`` zeroed frames alternate with stretches of kept ones, so long that about
    ``zeroed_proportion`` of all frames is zeroed. Kept values are not scaled. In test mode nothing is zeroed.
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
        """The longest possible stretch of kept frames; less than 1 if the proportion is too large."""
        zeroed, whole = np.float32(self.zeroed_proportion), np.float32(1.0)
        with np.errstate(over="ignore"):
            longest = np.float32(self.time_mask_max_frames) * (whole - zeroed) / zeroed
        return int(np.clip(np.nan_to_num(longest), 0, LONGEST_RUN))

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray,
                           need_backprop: bool) -> SpecAugmentTimeMaskComponentPrecomputedIndexes:
        if not np.array_equal(inputs, outputs):
            raise CompileError("a SpecAugmentTimeMaskComponent has as many input rows as output rows, the same ones")
        rows = np.lexsort((outputs[:, 1], outputs[:, 0])).astype(np.int32)
        starts = np.flatnonzero(np.diff(outputs[rows, 0])) + 1
        return SpecAugmentTimeMaskComponentPrecomputedIndexes(
            rows, np.array([0, *starts, len(rows)], dtype=np.int32))

    def check_precomputed(self, indexes: SpecAugmentTimeMaskComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                          need_backprop: bool) -> None:
        if not x.shape[0] == y.shape[0] == len(indexes.rows):
            raise compiled_for_others("a mask over time", x, y)

    def new_memo(self, ops: Memory, num_rows: int) -> DeviceArray:
        """The mask, float32 (rows,)."""
        return ops.new_vector(num_rows)

    def propagate(self, ops: Ops, indexes: SpecAugmentTimeMaskComponentPrecomputedIndexes, x: DeviceArray,
                  y: DeviceArray, memo: DeviceArray) -> None:
        if self.copies_its_input:
            if x is not y:
                ops.copy_mat(y, x, 1.0)
            return
        longest_kept = self._longest_kept
        if longest_kept < 1 or self.time_mask_max_frames < 1:
            raise NumericError(f"no stretch of kept frames is short enough for a zeroed proportion of "
                               f"{self.zeroed_proportion:g} with at most {self.time_mask_max_frames} zeroed frames")
        draws = ops.scratch(1, len(indexes.rows) + len(indexes.starts) - 1)
        ops.random.fill_uniform(draws)
        ops.time_mask(memo, draws, indexes.rows, indexes.starts, self.zeroed_proportion, self.time_mask_max_frames,
                      longest_kept)
        ops.mul_rows_vec(y, x, memo)

    def backprop(self, ops: Ops, indexes: SpecAugmentTimeMaskComponentPrecomputedIndexes, x: DeviceArray,
                 y: DeviceArray, dy: DeviceArray, memo: DeviceArray, update: Component | None,
                 dx: DeviceArray | None) -> None:
        if dx is None:
            return
        if not self.copies_its_input:
            ops.mul_rows_vec(dx, dy, memo)
        elif dx is not dy:
            ops.copy_mat(dx, dy, 1.0)

    # -- files and text -------------------------------------------------------------------------------------

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
