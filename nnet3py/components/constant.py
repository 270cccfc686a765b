"""Trained vectors that every row of the output equals: with an input whose values do not count, or without any."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.components.elementwise import add_preconditioned_sum
from nnet3py.components.fields import read_dim
from nnet3py.components.info_text import parameter_stats, truth
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.updatable import UpdatableComponent, UpdateSettings, bad_initializer, normal
from nnet3py.formats.matrices import read_vector, write_vector

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader, TokenWriter
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

    def __init__(self, output: np.ndarray, is_updatable: bool = True, use_natural_gradient: bool = True,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.output = output
        self.is_updatable = is_updatable
        self.use_natural_gradient = use_natural_gradient
        self.preconditioner = OnlineNaturalGradient()   # not reached by freezing, as in Kaldi

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

    @classmethod
    def _read_settings(cls, reader: TokenReader, next_tag: str) -> UpdateSettings:
        """Read the common prefix, which may lack the learning rate in files of these types, and the tag after it."""
        settings, token = UpdateSettings.read_or_token(reader, cls.__name__)
        reader.check_token(token or reader.token(), next_tag)
        return settings

    @classmethod
    def _read_output(cls, reader: TokenReader) -> tuple[np.ndarray, bool, bool]:
        """The vector, whose tag was read before, and the two switches, up to the closing tag."""
        output = read_vector(reader)
        if output.size == 0:
            raise reader.error("the vector after <Output> is empty")
        reader.expect("<IsUpdatable>")
        is_updatable = reader.boolean()
        reader.expect("<UseNaturalGradient>")
        use_natural_gradient = reader.boolean()
        reader.expect(f"</{cls.__name__}>")
        return output, is_updatable, use_natural_gradient

    def _write_output(self, writer: TokenWriter) -> None:
        writer.token("<Output>")
        write_vector(writer, self.output)
        writer.token("<IsUpdatable>")
        writer.boolean(self.is_updatable)
        writer.token("<UseNaturalGradient>")
        writer.boolean(self.use_natural_gradient)
        writer.token(f"</{type(self).__name__}>")

    def _info(self, verbose: int, dims: str) -> str:
        """Kaldi's text, in which the type and its dimensions stand twice."""
        return (f"{super().info(verbose)}, {type(self).__name__}, {dims}, is-updatable={truth(self.is_updatable)}, "
                f"use-natural-gradient={truth(self.use_natural_gradient)}"
                + parameter_stats("output", self.output, with_mean=True))


class ConstantFunctionComponent(TrainedRow):
    """A trained vector for every row of an input, whose values do not count.

    Attributes
    ----------
    input_dim : columns of the input
    """

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

    @classmethod
    def read(cls, reader: TokenReader) -> Component:
        settings = cls._read_settings(reader, "<InputDim>")
        input_dim = read_dim(reader, "<InputDim>")
        reader.expect("<Output>")
        output, is_updatable, use_natural_gradient = cls._read_output(reader)
        return cls(output, input_dim, is_updatable, use_natural_gradient, settings)

    def write(self, writer: TokenWriter) -> None:
        self.write_prefix(writer)
        writer.token("<InputDim>")
        writer.integer(self.input_dim)
        self._write_output(writer)

    def info(self, verbose: int = 0) -> str:
        return self._info(verbose, f"input-dim={self.input_dim}, output-dim={self.output_dim}")


class ConstantComponent(TrainedRow):
    """A trained vector for every row that is asked for; there is no input."""

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

    @classmethod
    def read(cls, reader: TokenReader) -> Component:
        settings = cls._read_settings(reader, "<Output>")
        output, is_updatable, use_natural_gradient = cls._read_output(reader)
        return cls(output, is_updatable, use_natural_gradient, settings)

    def write(self, writer: TokenWriter) -> None:
        self.write_prefix(writer)
        self._write_output(writer)

    def info(self, verbose: int = 0) -> str:
        return self._info(verbose, f"output-dim={self.output_dim}")
