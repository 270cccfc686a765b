"""Affine and linear maps of each row: with and without natural gradient, and one that is never trained."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.components.fields import read_fields, write_fields
from nnet3py.components.info_text import number, parameter_stats, truth
from nnet3py.components.layer_fields import (
    check_bias,
    initial_weights,
    preconditioner_info,
    preconditioners_from_config,
    read_dims,
    read_linear_and_bias,
    read_orthonormal_constraint,
    write_linear_and_bias,
    write_orthonormal_constraint,
)
from nnet3py.components.layer_gradient import natural_gradient_step
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.updatable import (
    PRECONDITIONER_FIELDS,
    UpdatableComponent,
    UpdateSettings,
    bad_initializer,
    normal,
    read_config_matrix,
    read_preconditioner,
)
from nnet3py.formats.matrices import read_matrix, read_vector, write_matrix

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader, TokenWriter
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops


class AffineMap(Component):
    """y = W x + b: what the trained and the fixed affine components compute."""

    linear_params: np.ndarray
    bias_params: np.ndarray

    @property
    def input_dim(self) -> int:
        return self.linear_params.shape[1]

    @property
    def output_dim(self) -> int:
        return self.linear_params.shape[0]

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.affine(y, x, self.linear_params, self.bias_params)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.add_mat_mat(dx, dy, self.linear_params, 1.0, 1.0)


class TrainedAffineMap(AffineMap, UpdatableComponent):
    """What the trained affine components share: their parameters, and the plain step along the gradient."""

    PARAMETERS = ("linear_params", "bias_params")

    def _update(self, ops: Ops, x: DeviceArray, dy: DeviceArray) -> None:
        """Change W and b; a row of ``x`` and ``dy`` is what W is applied to, and the derivative of what comes out."""
        ops.add_row_sum(self.bias_params, dy, self.learning_rate, 1.0)
        ops.add_mat_mat(self.linear_params, dy, x, self.learning_rate, 1.0, trans_a=True)


class AffineComponent(TrainedAffineMap):
    """y = W x + b, trained by plain gradient steps.

    Attributes
    ----------
    linear_params : float32 (output_dim, input_dim)
    bias_params : float32 (output_dim,)
    orthonormal_constraint : what the trainer pulls W's singular values to; 0 for nothing, negative for a common value
    """

    def __init__(self, linear_params: np.ndarray, bias_params: np.ndarray, orthonormal_constraint: float = 0.0,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.orthonormal_constraint = orthonormal_constraint

    @property
    def properties(self) -> Properties:
        return (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
                | Properties.BACKPROP_ADDS)

    # -- computing ---------------------------------------------------------------------------------------------------

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        super().backprop(ops, indexes, x, y, dy, memo, update, dx)
        if update is not None:
            assert isinstance(update, AffineComponent)
            update._update(ops, x, dy)

    # -- files and text ----------------------------------------------------------------------------------------------

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        linear, bias = cls._initial_parameters(line, rng)
        return cls(linear, bias, line.get_float("orthonormal-constraint", 0.0), settings)

    @classmethod
    def _initial_parameters(cls, line: ConfigLine, rng: np.random.Generator,
                            bias_mean: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """W and b, from the file that ``matrix`` names or random; ``bias_mean`` allows the key ``bias-mean``."""
        if line.get_string("matrix", ""):
            matrix = initial_weights(line, rng, extra_columns=1)
            return np.ascontiguousarray(matrix[:, :-1]), np.ascontiguousarray(matrix[:, -1])
        linear = initial_weights(line, rng, extra_columns=0)
        stddev = line.get_float("bias-stddev", 1.0)
        if not stddev >= 0.0:
            raise bad_initializer(line, "bias-stddev must not be negative")
        mean = line.get_float("bias-mean", 0.0) if bias_mean else 0.0
        return linear, normal(rng, (linear.shape[0],), stddev, mean)

    @classmethod
    def read(cls, reader: TokenReader) -> Component:
        settings = UpdateSettings.read(reader, cls.__name__)
        linear, bias = read_linear_and_bias(reader)
        settings.read_older_gradient_mark(reader)
        constraint = read_orthonormal_constraint(reader)
        reader.expect(f"</{cls.__name__}>")
        return cls(linear, bias, constraint, settings)

    def write(self, writer: TokenWriter) -> None:
        self.write_prefix(writer)
        write_linear_and_bias(writer, self.linear_params, self.bias_params)
        write_orthonormal_constraint(writer, self.orthonormal_constraint)
        writer.token(f"</{type(self).__name__}>")

    def info(self, verbose: int = 0) -> str:
        text = super().info(verbose)
        if self.orthonormal_constraint != 0.0:
            text += f", orthonormal-constraint={number(self.orthonormal_constraint)}"
        text += parameter_stats("linear-params", self.linear_params, norms=True, singular_values=verbose >= 2)
        return text + parameter_stats("bias", self.bias_params, with_mean=True)


class NaturalGradientAffineComponent(AffineComponent):
    """y = W x + b, trained by natural gradient: inputs and output derivatives are preconditioned.

    Attributes
    ----------
    preconditioner_in : of the rows of [x, 1]
    preconditioner_out : of the rows of the output derivative
    """

    def __init__(self, linear_params: np.ndarray, bias_params: np.ndarray, preconditioner_in: OnlineNaturalGradient,
                 preconditioner_out: OnlineNaturalGradient, orthonormal_constraint: float = 0.0,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(linear_params, bias_params, orthonormal_constraint, settings)
        self.preconditioner_in = preconditioner_in
        self.preconditioner_out = preconditioner_out

    def preconditioners(self) -> tuple[OnlineNaturalGradient, ...]:
        return self.preconditioner_in, self.preconditioner_out

    def _update(self, ops: Ops, x: DeviceArray, dy: DeviceArray) -> None:
        if self.is_gradient:
            super()._update(ops, x, dy)
        else:
            natural_gradient_step(ops, self.linear_params, self.bias_params, self.learning_rate,
                                  self.preconditioner_in, self.preconditioner_out, (x,), dy)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        linear, bias = cls._initial_parameters(line, rng, bias_mean=True)
        constraint = line.get_float("orthonormal-constraint", 0.0)
        inner, outer = preconditioners_from_config(line, linear.shape[1], linear.shape[0])
        return cls(linear, bias, inner, outer, constraint, settings)

    @classmethod
    def read(cls, reader: TokenReader) -> Component:
        name = cls.__name__
        settings = UpdateSettings.read(reader, name)
        linear, bias = read_linear_and_bias(reader)
        reader.expect("<RankIn>")
        rank_in = reader.integer()
        reader.expect("<RankOut>")
        rank_out = reader.integer()
        constraint = read_orthonormal_constraint(reader)
        smoothing = read_fields(reader, PRECONDITIONER_FIELDS).values()
        cls._read_older_fields(reader, settings)
        reader.check_token(reader.token(), f"</{name}>", f"<{name}>")   # very old files close with the opening tag
        inner, outer = (read_preconditioner(reader, rank, *smoothing) for rank in (rank_in, rank_out))
        return cls(linear, bias, inner, outer, constraint, settings)

    @staticmethod
    def _read_older_fields(reader: TokenReader, settings: UpdateSettings) -> None:
        if reader.peek_token() == "M":
            reader.expect("<MaxChangePerSample>")
            reader.real()
        settings.read_older_gradient_mark(reader)
        if reader.peek_token() == "U":
            for token in ("<UpdateCount>", "<ActiveScalingCount>", "<MaxChangeScaleStats>"):
                reader.expect(token)
                reader.real()

    def write(self, writer: TokenWriter) -> None:
        self.write_prefix(writer)
        write_linear_and_bias(writer, self.linear_params, self.bias_params)
        writer.token("<RankIn>")
        writer.integer(self.preconditioner_in.rank)
        writer.token("<RankOut>")
        writer.integer(self.preconditioner_out.rank)
        write_orthonormal_constraint(writer, self.orthonormal_constraint)
        write_fields(writer, self.preconditioner_in, PRECONDITIONER_FIELDS)
        writer.token(f"</{type(self).__name__}>")

    def info(self, verbose: int = 0) -> str:
        return super().info(verbose) + preconditioner_info(self.preconditioner_in, self.preconditioner_out)


class LinearComponent(UpdatableComponent):
    """y += W x, trained by natural gradient.

    Attributes
    ----------
    params : float32 (output_dim, input_dim)
    use_natural_gradient : kept and shown, but as in Kaldi it changes nothing; only a gradient is updated plainly
    """

    PARAMETERS = ("params",)

    def __init__(self, params: np.ndarray, preconditioner_in: OnlineNaturalGradient,
                 preconditioner_out: OnlineNaturalGradient, orthonormal_constraint: float = 0.0,
                 use_natural_gradient: bool = True, settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.params = params
        self.preconditioner_in = preconditioner_in
        self.preconditioner_out = preconditioner_out
        self.orthonormal_constraint = orthonormal_constraint
        self.use_natural_gradient = use_natural_gradient

    @property
    def properties(self) -> Properties:
        return (Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
                | Properties.PROPAGATE_ADDS | Properties.BACKPROP_ADDS)

    @property
    def input_dim(self) -> int:
        return self.params.shape[1]

    @property
    def output_dim(self) -> int:
        return self.params.shape[0]

    def preconditioners(self) -> tuple[OnlineNaturalGradient, ...]:
        return self.preconditioner_in, self.preconditioner_out

    # -- computing ---------------------------------------------------------------------------------------------------

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.add_mat_mat(y, x, self.params, 1.0, 1.0, trans_b=True)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is not None:
            ops.add_mat_mat(dx, dy, self.params, 1.0, 1.0)
        if update is None:
            return
        assert isinstance(update, LinearComponent)
        if update.is_gradient:
            ops.add_mat_mat(update.params, dy, x, update.learning_rate, 1.0, trans_a=True)
        else:
            natural_gradient_step(ops, update.params, None, update.learning_rate,
                                  update.preconditioner_in, update.preconditioner_out, (x,), dy)

    # -- files and text ----------------------------------------------------------------------------------------------

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        settings = UpdateSettings.from_config(line)
        params = initial_weights(line, rng, extra_columns=0)
        inner, outer = preconditioners_from_config(line, params.shape[1], params.shape[0])
        return cls(params, inner, outer, line.get_float("orthonormal-constraint", 0.0),
                   line.get_bool("use-natural-gradient", True), settings)

    @classmethod
    def read(cls, reader: TokenReader) -> Component:
        settings = UpdateSettings.read(reader, cls.__name__)
        reader.expect("<Params>")
        params = read_matrix(reader)
        constraint = read_orthonormal_constraint(reader)
        reader.expect("<UseNaturalGradient>")
        use_natural_gradient = reader.boolean()
        reader.expect("<RankInOut>")
        ranks = reader.integer(), reader.integer()
        alpha, history, period = read_fields(reader, PRECONDITIONER_FIELDS[::-1]).values()
        reader.expect(f"</{cls.__name__}>")
        inner, outer = (read_preconditioner(reader, rank, period, history, alpha) for rank in ranks)
        return cls(params, inner, outer, constraint, use_natural_gradient, settings)

    def write(self, writer: TokenWriter) -> None:
        self.write_prefix(writer)
        writer.token("<Params>")
        write_matrix(writer, self.params)
        write_orthonormal_constraint(writer, self.orthonormal_constraint)
        writer.token("<UseNaturalGradient>")
        writer.boolean(self.use_natural_gradient)
        writer.token("<RankInOut>")
        writer.integer(self.preconditioner_in.rank)
        writer.integer(self.preconditioner_out.rank)
        write_fields(writer, self.preconditioner_in, PRECONDITIONER_FIELDS[::-1])
        writer.token(f"</{type(self).__name__}>")

    def info(self, verbose: int = 0) -> str:
        text = super().info(verbose)
        text += parameter_stats("params", self.params, norms=True, singular_values=verbose >= 2)
        if self.orthonormal_constraint != 0.0:
            text += f", orthonormal-constraint={number(self.orthonormal_constraint)}"
        return (f"{text}, use-natural-gradient={truth(self.use_natural_gradient)}"
                + preconditioner_info(self.preconditioner_in, self.preconditioner_out))


class FixedAffineComponent(AffineMap):
    """y = W x + b with W and b that are never trained (a feature transform).

    Attributes
    ----------
    linear_params : float32 (output_dim, input_dim)
    bias_params : float32 (output_dim,)
    """

    CONSTANTS = ("linear_params", "bias_params")   # kernels read them

    def __init__(self, linear_params: np.ndarray, bias_params: np.ndarray) -> None:
        self.linear_params = linear_params
        self.bias_params = bias_params

    @property
    def properties(self) -> Properties:
        return Properties.SIMPLE | Properties.BACKPROP_ADDS

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        matrix = read_config_matrix(line, "matrix")
        if matrix is not None:
            if matrix.shape[0] == 0 or matrix.shape[1] < 2:
                raise bad_initializer(line, f"the matrix is {matrix.shape[0]} x {matrix.shape[1]}; its last column is "
                                            "the bias, so that it needs a row and two columns at least")
        else:
            input_dim, output_dim = read_dims(line)
            matrix = normal(rng, (output_dim, input_dim + 1), 1.0)
        return cls(np.ascontiguousarray(matrix[:, :-1]), np.ascontiguousarray(matrix[:, -1]))

    @classmethod
    def read(cls, reader: TokenReader) -> Component:
        reader.expect_one_or_two(f"<{cls.__name__}>", "<LinearParams>")
        linear = read_matrix(reader)
        reader.expect("<BiasParams>")
        bias = read_vector(reader)
        check_bias(reader, linear, bias)
        reader.expect(f"</{cls.__name__}>")
        return cls(linear, bias)

    def write(self, writer: TokenWriter) -> None:
        writer.token(f"<{type(self).__name__}>")
        write_linear_and_bias(writer, self.linear_params, self.bias_params)
        writer.token(f"</{type(self).__name__}>")

    def info(self, verbose: int = 0) -> str:
        return (super().info(verbose) + parameter_stats("linear-params", self.linear_params)
                + parameter_stats("bias", self.bias_params, with_mean=True))
