"""The 2-norm of groups of columns, which older acoustic models have as their nonlinearity."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.components.fields import invalid_initializer
from nnet3py.components.structural import BlockComponent

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops


class PnormComponent(BlockComponent):
    """Each output column is the 2-norm of a group of consecutive input columns. Kaldi: PnormComponent."""

    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_NEEDS_OUTPUT

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.pnorm(y, x)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.pnorm_backprop(dx, x, y, dy)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> PnormComponent:
        input_dim, output_dim = line.get_int("input-dim", 0), line.get_int("output-dim", 0)
        if input_dim <= 0 or output_dim <= 0 or input_dim % output_dim:
            raise invalid_initializer(line, cls.__name__, "input-dim must be a positive multiple of output-dim")
        return cls(input_dim, output_dim)
