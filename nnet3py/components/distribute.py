"""Cutting an input into blocks of columns, each of which gets an x of its own."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties, compiled_for_others
from nnet3py.components.fields import LARGEST_DIM, Field, InFiles, invalid_initializer
from nnet3py.components.structural import BlockComponent
from nnet3py.errors import CompileError
from nnet3py.index import lookup

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops


@dataclass
class DistributeComponentPrecomputedIndexes(InFiles):
    """Where each output row comes from. Kaldi's class of this name.

    ``places`` is int32 (output rows, 2): an input row, and the first of its columns.
    """

    FIELDS = (Field("<Pairs>", "integer_pairs", "places"),)

    places: np.ndarray

    def __post_init__(self) -> None:
        self.last_row, self.last_col = (int(last) for last in self.places.max(axis=0, initial=0))

    def check_read(self, reader: TokenReader) -> None:
        if self.places.min(initial=0) < 0:
            raise reader.error(f"expected pairs of a row and a column after <Pairs>, found {int(self.places.min())}")


class DistributeComponent(BlockComponent):
    """The output at (n, t, x) is block x mod B of the input at (n, t, floor(x / B)), of B blocks of columns.

    Kaldi: DistributeComponent.
    """

    properties = Properties(0)

    @property
    def num_blocks(self) -> int:
        """B, the number of blocks of an input row."""
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
            ops.set_const(dx, 0.0)      # some blocks went nowhere
        ops.copy_to_row_pieces(dx, dy, indexes.places)

    def check_precomputed(self, indexes: DistributeComponentPrecomputedIndexes, x: DeviceArray, y: DeviceArray,
                          need_backprop: bool) -> None:
        last_row, last_col = indexes.last_row, indexes.last_col + self.output_dim - 1
        if len(indexes.places) != y.shape[0] or y.shape[0] and (last_row >= x.shape[0] or last_col >= x.shape[1]):
            raise compiled_for_others("a distribution", x, y)

    # -- files and text ----------------------------------------------------------------------------------------------

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> DistributeComponent:
        input_dim, output_dim = line.get_int("input-dim", 0), line.get_int("output-dim", 0)
        if output_dim <= 0 or not 0 < input_dim <= LARGEST_DIM or input_dim % output_dim:
            raise invalid_initializer(line, cls.__name__, "input-dim must be a positive multiple of output-dim")
        return cls(input_dim, output_dim)
