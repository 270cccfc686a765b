"""What layers with a weight matrix share: initial weights, default ranks, and fields of files and information text."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.fields import Field
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.updatable import bad_initializer, normal, read_config_matrix

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine


def default_rank_in(input_dim: int) -> int:
    """Rank of the preconditioner of a layer's input, if the config does not give it."""
    return min(20, (input_dim + 1) // 2)


def default_rank_out(output_dim: int) -> int:
    """Rank of the preconditioner of a layer's output derivative, if the config does not give it."""
    return min(80, (output_dim + 1) // 2)


def initial_weights(line: ConfigLine, rng: np.random.Generator, extra_columns: int) -> np.ndarray:
    """The matrix named by the key ``matrix``, or a random one with ``input-dim`` and ``output-dim``.

    Parameters
    ----------
    extra_columns : 1 if the matrix in a file has the bias as its last column; a random matrix has none

    Returns
    -------
    float32 (output-dim, input-dim [+ extra_columns if it comes from a file])
    """
    matrix = read_config_matrix(line, "matrix")
    if matrix is not None:
        input_dim = line.get_int("input-dim", matrix.shape[1] - extra_columns)
        output_dim = line.get_int("output-dim", matrix.shape[0])
        if matrix.shape != (output_dim, input_dim + extra_columns) or matrix.size == 0 or input_dim == 0:
            raise bad_initializer(line, f"the matrix is {matrix.shape[0]} x {matrix.shape[1]}, expected "
                                        f"{output_dim} x {input_dim + extra_columns}")
        return matrix
    input_dim, output_dim = read_dims(line)
    stddev = line.get_float("param-stddev", 1.0 / np.sqrt(input_dim))
    if not stddev >= 0.0:
        raise bad_initializer(line, "param-stddev must not be negative")
    return normal(rng, (output_dim, input_dim), stddev)


def read_dims(line: ConfigLine) -> tuple[int, int]:
    """The required keys ``input-dim`` and ``output-dim``, both above 0."""
    input_dim, output_dim = line.get_int("input-dim", 0), line.get_int("output-dim", 0)
    if input_dim <= 0 or output_dim <= 0:
        raise bad_initializer(line, "input-dim and output-dim must be given and above 0")
    return input_dim, output_dim


def preconditioners_from_config(line: ConfigLine, input_dim: int,
                                output_dim: int) -> tuple[OnlineNaturalGradient, OnlineNaturalGradient]:
    """The two preconditioners of a layer; a negative rank means the default for the dimension."""
    rank_in, rank_out = line.get_int("rank-in", -1), line.get_int("rank-out", -1)
    period = line.get_int("update-period", 4)
    history, alpha = line.get_float("num-samples-history", 2000.0), line.get_float("alpha", 4.0)
    rank_in = default_rank_in(input_dim) if rank_in < 0 else rank_in
    rank_out = default_rank_out(output_dim) if rank_out < 0 else rank_out
    try:
        return (OnlineNaturalGradient(rank_in, period, history, alpha),
                OnlineNaturalGradient(rank_out, period, history, alpha))
    except ValueError as error:
        raise bad_initializer(line, str(error)) from error


LINEAR_AND_BIAS = (Field("<LinearParams>", "matrix", "linear_params", "linear-params"),
                   Field("<BiasParams>", "vector", "bias_params", "bias"))
WEIGHTS_AND_BIAS = (LINEAR_AND_BIAS[0]._replace(kind="weights"), LINEAR_AND_BIAS[1])
ORTHONORMAL_CONSTRAINT = Field("<OrthonormalConstraint>", "float32", "orthonormal_constraint", "orthonormal-constraint",
                               default=0.0, omitted=True)
