"""Affine and linear maps of each row: with and without natural gradient, and one that is never trained."""
from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.components.fields import OLDER, Field, Fields
from nnet3py.components.layer_fields import (
    LINEAR_AND_BIAS,
    ORTHONORMAL_CONSTRAINT,
    WEIGHTS_AND_BIAS,
    initial_weights,
    preconditioners_from_config,
    read_dims,
)
from nnet3py.components.layer_gradient import natural_gradient_step
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.updatable import (
    OLDER_GRADIENT_MARK,
    PRECONDITIONERS_INFO,
    SETTINGS,
    SMOOTHING,
    UpdatableComponent,
    UpdateSettings,
    bad_initializer,
    normal,
    read_config_matrix,
)

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops


def check_bias(reader: TokenReader, linear: np.ndarray, bias: np.ndarray) -> None:
    """Raise FormatError unless ``bias`` has one element for each row of ``linear``."""
    if bias.size != linear.shape[0]:
        raise reader.error(f"the bias has {bias.size} elements, the matrix {linear.shape[0]} rows")


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

    def check_read(self, reader: TokenReader) -> None:
        check_bias(reader, self.linear_params, self.bias_params)

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
        """Change W and b; the rows of ``x`` are W's inputs, and those of ``dy`` the derivatives of its outputs."""
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

    FIELDS: ClassVar[Fields] = (*SETTINGS, *WEIGHTS_AND_BIAS, OLDER_GRADIENT_MARK, ORTHONORMAL_CONSTRAINT)
    INFO: ClassVar[tuple[str, ...]] = ("orthonormal-constraint", "linear-params", "bias")

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


class NaturalGradientAffineComponent(AffineComponent):
    """y = W x + b, trained by natural gradient: inputs and output derivatives are preconditioned.

    Attributes
    ----------
    preconditioner_in : of the rows of [x, 1]
    preconditioner_out : of the rows of the output derivative
    """

    FIELDS = (*SETTINGS, *WEIGHTS_AND_BIAS, Field("<RankIn>", "integer", "preconditioner_in.rank", "rank-in"),
              Field("<RankOut>", "integer", "preconditioner_out.rank", "rank-out"), ORTHONORMAL_CONSTRAINT, *SMOOTHING,
              Field("<MaxChangePerSample>", "float32", default=OLDER), OLDER_GRADIENT_MARK,
              *(Field(tag, "float64", default=OLDER)
                for tag in ("<UpdateCount>", "<ActiveScalingCount>", "<MaxChangeScaleStats>")))
    INFO = (*AffineComponent.INFO, *PRECONDITIONERS_INFO)

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


class LinearComponent(UpdatableComponent):
    """y += W x, trained by natural gradient.

    Attributes
    ----------
    params : float32 (output_dim, input_dim)
    use_natural_gradient : kept and shown, but without effect, as in Kaldi; only a gradient is updated plainly
    """

    PARAMETERS = ("params",)
    FIELDS = (*SETTINGS, Field("<Params>", "weights", "params", "params"), ORTHONORMAL_CONSTRAINT,
              Field("<UseNaturalGradient>", "boolean", "use_natural_gradient", "use-natural-gradient"),
              Field("<RankInOut>", "integer", "preconditioner_in.rank", "rank-in"),
              Field("", "integer", "preconditioner_out.rank", "rank-out"), *SMOOTHING[::-1])
    INFO = ("params", "orthonormal-constraint", "use-natural-gradient", *PRECONDITIONERS_INFO)

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


class FixedAffineComponent(AffineMap):
    """y = W x + b with W and b that are never trained (a feature transform).

    Attributes
    ----------
    linear_params : float32 (output_dim, input_dim)
    bias_params : float32 (output_dim,)
    """

    CONSTANTS = ("linear_params", "bias_params")   # kernels read them
    FIELDS = LINEAR_AND_BIAS
    INFO = ("input-dim", "output-dim", "linear-params", "bias")

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
