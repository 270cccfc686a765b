"""Random masks as a component's output, for recurrent cells that drop out their gates frame by frame."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.components.fields import Field, as_float32, invalid_initializer
from nnet3py.errors import NumericError

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops


class DropoutMaskComponent(Component):
    """Random factors for other components: 0 with probability ``dropout_proportion``, else 1. No input.

    ``continuous`` masks are uniform between 1 - 2 dropout_proportion and 1 + 2 dropout_proportion instead. In test mode
    the output is the expectation. With 2 or 3 columns the first two share their draw, so that for proportions up to a
    half they are never both 0. Kaldi: DropoutMaskComponent.
    """

    FIELDS = (Field("<OutputDim>", "dim", "_output_dim", "output-dim"),
              Field("<DropoutProportion>", "float32", "dropout_proportion", "dropout-proportion"),
              Field("<TestMode>", "boolean", "test_mode", default=False),
              Field("<Continuous>", "mark", "continuous", "continuous", default=False, omitted=True))

    properties = Properties.RANDOM
    SHARED_DRAW_DIMS = (2, 3)       # number of gates of a cell; the first two decide what it remembers

    def __init__(self, output_dim: int, dropout_proportion: float = 0.5, continuous: bool = False,
                 test_mode: bool = False) -> None:
        self._output_dim = output_dim
        self.dropout_proportion = as_float32(dropout_proportion)
        self.continuous, self.test_mode = continuous, test_mode

    @property
    def input_dim(self) -> int:
        return self._output_dim         # no input is read; networks give the component node itself

    @property
    def output_dim(self) -> int:
        return self._output_dim

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
        if self._output_dim in self.SHARED_DRAW_DIMS:
            draws = ops.scratch(y.shape[0], 1)
            ops.random.fill_uniform(draws)
            ops.complementary_masks(y, draws, proportion)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        """Nothing flows back."""

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> DropoutMaskComponent:
        dim, proportion = line.get_int("output-dim", 0), line.get_float("dropout-proportion", 0.5)
        continuous, test_mode = line.get_bool("continuous", False), line.get_bool("test-mode", False)
        if dim <= 0 or not 0.0 <= proportion <= 1.0:
            raise invalid_initializer(line, cls.__name__, "output-dim must be positive, dropout-proportion between 0 "
                                      "and 1; other keys are continuous and test-mode")
        return cls(dim, proportion, continuous, test_mode)
