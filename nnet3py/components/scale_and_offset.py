"""The trained scale and offset that usually follow batch normalization."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent
from nnet3py.components.elementwise import add_preconditioned_sum, blocks, check_blocks, read_block_dim
from nnet3py.components.fields import Field, Values
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.updatable import SETTINGS, UpdatableComponent, UpdateSettings, bad_initializer

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

SMALLEST_SCALE = 1.0e-4   # ScaleAndOffset acts as if no scale were closer to 0, so that its input can be recovered


class ScaleAndOffsetComponent(SameDimComponent, UpdatableComponent):
    """y = s * x + o, where s and o may be repeated over blocks of columns; scales near 0 act as +-1e-4.

    Attributes
    ----------
    scales, offsets : float32 (block_dim,)
    dim : columns of input and output, a multiple of block_dim
    """

    PARAMETERS = ("scales", "offsets")
    FIELDS = (*SETTINGS, Field("<Dim>", "dim", "dim"), Field("<Scales>", "vector", "scales", "scales"),
              Field("<Offsets>", "vector", "offsets", "offsets"),
              Field("<UseNaturalGradient>", "boolean", "use_natural_gradient"),
              Field("<Rank>", "integer", "rank", "rank"))
    INFO = ("rank", "block-size", "scales", "offsets")

    def __init__(self, scales: np.ndarray, offsets: np.ndarray, dim: int, use_natural_gradient: bool = True,
                 rank: int = 20, update_period: int = 4, settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.scales = scales
        self.offsets = offsets
        self.dim = dim
        self.use_natural_gradient = use_natural_gradient
        self.preconditioner_scale = OnlineNaturalGradient(rank, update_period)   # never frozen,
        self.preconditioner_offset = OnlineNaturalGradient(rank, update_period)  # as in Kaldi

    @property
    def properties(self) -> Properties:
        flags = (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_IN_PLACE
                 | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_NEEDS_OUTPUT)
        if self.scales.shape[0] == self.dim:
            return flags
        return flags | Properties.INPUT_CONTIGUOUS | Properties.OUTPUT_CONTIGUOUS

    # -- computing ---------------------------------------------------------------------------------------------------

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        block_dim = self.scales.shape[0]
        ops.scale_and_offset(blocks(y, block_dim), blocks(x, block_dim), self.scales, self.offsets, SMALLEST_SCALE)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        block_dim = self.scales.shape[0]
        dy = blocks(dy, block_dim)
        if update is not None:   # first, since dx may lie where dy does
            assert isinstance(update, ScaleAndOffsetComponent)
            self._update(ops, blocks(y, block_dim), dy, update)
        if dx is not None:
            ops.mul_cols_vec(blocks(dx, block_dim), dy, self.scales)

    def _update(self, ops: Ops, y: DeviceArray, dy: DeviceArray, update: ScaleAndOffsetComponent) -> None:
        rate, natural = update.learning_rate, update.use_natural_gradient and not update.is_gradient
        if natural:
            add_preconditioned_sum(ops, update.offsets, dy, update.preconditioner_offset, rate)
        else:
            ops.add_row_sum(update.offsets, dy, rate, 1.0)
        gradient = ops.scratch(dy.shape[0], dy.shape[1])
        ops.scale_gradient_from_output(gradient, y, dy, self.scales, self.offsets, SMALLEST_SCALE)
        if natural:
            ops.add_row_sum_by(update.scales, gradient, update.preconditioner_scale.precondition(ops, gradient, rate))
        else:
            ops.add_row_sum(update.scales, gradient, rate, 1.0)

    # -- files and text ----------------------------------------------------------------------------------------------

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        dim = line.get_int("dim", 0)
        block_dim = read_block_dim(line, dim)
        rank = line.get_int("rank", 20)
        if rank <= 0:
            raise bad_initializer(line, "rank must be above 0")
        return cls(np.ones(block_dim, dtype=np.float32), np.zeros(block_dim, dtype=np.float32), dim,
                   line.get_bool("use-natural-gradient", True), rank, settings=settings)

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        if values["rank"] <= 0:
            raise reader.error(f"<Rank> is {values['rank']}, expected a number above 0")
        # Kaldi's reader leaves the update period at 1; only a component from a config has period 4.
        return super().from_fields(reader, {**values, "update_period": 1})

    def check_read(self, reader: TokenReader) -> None:
        check_blocks(reader, self.dim, self.scales.size)
        if self.offsets.size != self.scales.size:
            raise reader.error(f"{self.offsets.size} offsets, expected {self.scales.size}, the number of scales")

    @property
    def rank(self) -> int:
        """The rank of the preconditioners."""
        return self.preconditioner_scale.rank

    @property
    def block_size(self) -> int | None:
        """Columns of a block, or None if there is only one."""
        return None if self.scales.size == self.dim else self.scales.size

