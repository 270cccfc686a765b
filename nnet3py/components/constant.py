"""Trained vectors as every row of the output: with an input whose values do not matter, or without any."""
from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.components.elementwise import add_preconditioned_sum
from nnet3py.components.fields import Field, Fields, fields_info
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.updatable import (
    OLDER_SETTINGS,
    SETTINGS_INFO,
    UpdatableComponent,
    UpdateSettings,
    bad_initializer,
    normal,
)

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops


class TrainedRow(UpdatableComponent):
    """Every row of y is the same trained vector.

    Kaldi writes ``max-change`` and ``l2-regularize`` into the files of these types but cannot read all of them again
    (ConstantComponent no ``<L2Regularize>``, ConstantFunctionComponent neither). We write the same bytes and read all.

    Attributes
    ----------
    output : float32 (output_dim,)
    is_updatable : if not, training, scaling and adding leave the vector alone
    use_natural_gradient : precondition the rows of the output derivative
    """

    PARAMETERS = ("output",)
    FIELDS: ClassVar[Fields] = (
        *OLDER_SETTINGS, Field("<Output>", "vector", "output", "output"),
        Field("<IsUpdatable>", "boolean", "is_updatable", "is-updatable"),
        Field("<UseNaturalGradient>", "boolean", "use_natural_gradient", "use-natural-gradient"))
    INFO: ClassVar[tuple[str, ...]] = ("output-dim", "is-updatable", "use-natural-gradient", "output")

    def __init__(self, output: np.ndarray, is_updatable: bool = True, use_natural_gradient: bool = True,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.output = output
        self.is_updatable = is_updatable
        self.use_natural_gradient = use_natural_gradient
        self.preconditioner = OnlineNaturalGradient()   # never frozen, as in Kaldi

    @property
    def output_dim(self) -> int:
        return self.output.shape[0]

    def parameters(self) -> dict[str, np.ndarray]:
        return super().parameters() if self.is_updatable else {}

    # -- computing ---------------------------------------------------------------------------------------------------

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.add_vec_to_rows(y, self.output, 1.0, 0.0)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if update is None:
            return
        assert isinstance(update, TrainedRow)
        if not update.is_updatable:
            return
        if update.use_natural_gradient and not update.is_gradient:
            add_preconditioned_sum(ops, update.output, dy, update.preconditioner, update.learning_rate)
        else:
            ops.add_row_sum(update.output, dy, update.learning_rate, 1.0)

    # -- files and text ----------------------------------------------------------------------------------------------

    @staticmethod
    def _initial_output(line: ConfigLine, rng: np.random.Generator, output_dim: int) -> np.ndarray:
        """The random vector that a config line asks for."""
        mean, stddev = line.get_float("output-mean", 0.0), line.get_float("output-stddev", 0.0)
        return normal(rng, (output_dim,), stddev, mean)

    def check_read(self, reader: TokenReader) -> None:
        if self.output.size == 0:
            raise reader.error("the vector after <Output> is empty")

    def info(self, verbose: int = 0) -> str:
        """Kaldi's text, in which the type and its dimensions appear twice."""
        name = type(self).__name__
        return (f"{name}{fields_info(self, self.FIELDS, SETTINGS_INFO)}, {name}"
                + fields_info(self, self.FIELDS, self.INFO))


class ConstantFunctionComponent(TrainedRow):
    """A trained vector for every row of an input, whose values do not matter.

    Attributes
    ----------
    input_dim : columns of the input
    """

    FIELDS = (*OLDER_SETTINGS, Field("<InputDim>", "dim", "_input_dim"), *TrainedRow.FIELDS[len(OLDER_SETTINGS):])
    INFO = ("input-dim", *TrainedRow.INFO)

    def __init__(self, output: np.ndarray, input_dim: int, is_updatable: bool = True,
                 use_natural_gradient: bool = True, settings: UpdateSettings | None = None) -> None:
        super().__init__(output, is_updatable, use_natural_gradient, settings)
        self._input_dim = input_dim

    @property
    def properties(self) -> Properties:
        flags = Properties.SIMPLE | Properties.BACKPROP_ADDS
        if self.is_updatable:
            flags |= Properties.UPDATABLE
        return flags | Properties.PROPAGATE_IN_PLACE if self.input_dim == self.output_dim else flags

    @property
    def input_dim(self) -> int:
        return self._input_dim

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        output_dim, input_dim = line.get_int("output-dim", 0), line.get_int("input-dim", 0)
        if output_dim <= 0 or input_dim <= 0:
            raise bad_initializer(line, "input-dim and output-dim must be given and above 0")
        output = cls._initial_output(line, rng, output_dim)
        return cls(output, input_dim, line.get_bool("is-updatable", True),
                   line.get_bool("use-natural-gradient", True), settings)


class ConstantComponent(TrainedRow):
    """A trained vector for every requested row; there is no input."""

    @property
    def properties(self) -> Properties:
        return Properties.UPDATABLE if self.is_updatable else Properties(0)

    @property
    def input_dim(self) -> int:
        """The columns that the descriptor before it must have, though no row of it is ever needed."""
        return self.output_dim

    def input_indexes(self, indexes: np.ndarray) -> np.ndarray:
        return np.zeros((len(indexes), 0, 3), dtype=np.int32)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        output_dim = line.get_int("output-dim", 0)
        if output_dim <= 0:
            raise bad_initializer(line, "output-dim must be given and above 0")
        output = cls._initial_output(line, rng, output_dim)
        return cls(output, line.get_bool("is-updatable", True), line.get_bool("use-natural-gradient", True), settings)
