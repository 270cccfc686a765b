"""What layers with a weight matrix share: initial weights, default ranks, and fields of files and information text."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.info_text import number
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.updatable import bad_initializer, normal, read_config_matrix
from nnet3py.formats.matrices import read_matrix, read_vector, write_matrix, write_vector

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader, TokenWriter


def default_rank_in(input_dim: int) -> int:
    """Rank of the preconditioner of a layer's input, if the config leaves it open."""
    return min(20, (input_dim + 1) // 2)


def default_rank_out(output_dim: int) -> int:
    """Rank of the preconditioner of a layer's output derivative, if the config leaves it open."""
    return min(80, (output_dim + 1) // 2)


def initial_weights(line: ConfigLine, rng: np.random.Generator, extra_columns: int) -> np.ndarray:
    """The matrix named by the key ``matrix``, or a random one of ``input-dim`` and ``output-dim``.

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


def preconditioner_info(inner: OnlineNaturalGradient, outer: OnlineNaturalGradient) -> str:
    """The fields of the information text that describe a layer's two preconditioners."""
    return (f", rank-in={inner.rank}, rank-out={outer.rank}, num-samples-history={number(inner.num_samples_history)}, "
            f"update-period={inner.update_period}, alpha={number(inner.alpha)}")


def read_linear_and_bias(reader: TokenReader, may_lack_bias: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Read ``<LinearParams>`` and ``<BiasParams>``, whose sizes must agree (or the bias be empty, if it may)."""
    reader.expect("<LinearParams>")
    linear = read_matrix(reader)
    reader.expect("<BiasParams>")
    bias = read_vector(reader)
    if not (may_lack_bias and bias.size == 0):
        check_bias(reader, linear, bias)
    return linear, bias


def check_bias(reader: TokenReader, linear: np.ndarray, bias: np.ndarray) -> None:
    """Raise FormatError unless ``bias`` has one element per row of ``linear``."""
    if bias.size != linear.shape[0]:
        raise reader.error(f"the bias has {bias.size} elements, the matrix {linear.shape[0]} rows")


def write_linear_and_bias(writer: TokenWriter, linear: np.ndarray, bias: np.ndarray) -> None:
    """Write ``<LinearParams>`` and ``<BiasParams>``."""
    writer.token("<LinearParams>")
    write_matrix(writer, linear)
    writer.token("<BiasParams>")
    write_vector(writer, bias)


def read_orthonormal_constraint(reader: TokenReader) -> float:
    """Read ``<OrthonormalConstraint>`` if it comes next; 0 if not."""
    if reader.peek_token() != "O":
        return 0.0
    reader.expect("<OrthonormalConstraint>")
    return reader.real()


def write_orthonormal_constraint(writer: TokenWriter, constraint: float) -> None:
    """Write ``<OrthonormalConstraint>`` unless it is 0."""
    if constraint != 0.0:
        writer.token("<OrthonormalConstraint>")
        writer.float32(constraint)
