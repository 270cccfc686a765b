"""How the values of each type of table are read and written. Kaldi: ``kaldi-holder.h``."""
from __future__ import annotations

import logging
from functools import partial
from typing import Any

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.dense_skimmer import dense_skimmer
from nnet3py.formats.general import read_compressed, read_general_matrix, to_dense, write_general_matrix
from nnet3py.formats.kaldi_io_adapter import read_matrix, read_vector
from nnet3py.formats.matrices import write_matrix, write_vector
from nnet3py.formats.posteriors import read_posterior, write_posterior
from nnet3py.formats.simple_values import (
    read_bool_value,
    read_float_pairs,
    read_int_pairs,
    read_int_vector,
    read_int_vectors,
    read_integer_value,
    read_real_value,
    write_bool_value,
    write_float_pairs,
    write_int_pairs,
    write_int_vector,
    write_int_vectors,
    write_integer_value,
    write_real_value,
)
from nnet3py.io.holder import Holder
from nnet3py.io.specifiers import RANGE_TOLERANCE, parse_range
from nnet3py.io.token_values import TOKEN, TOKEN_VECTOR

__all__ = ["TOKEN", "TOKEN_VECTOR", "Holder"]          # and its instances below

logger = logging.getLogger(__name__)


def _bounds(part: tuple[int, int] | None, size: int, tolerance: int, what: str, text: str) -> slice:
    if part is None:
        return slice(0, size)
    first, last = part
    if last >= size + tolerance or first >= size:
        raise Nnet3Error(f"the range '[{text}]' lies outside the {size} {what}")
    if last >= size:
        logger.warning("The range '[%s]' ends beyond the %d %s; it was cut", text, size, what)
    return slice(first, min(last + 1, size))


def select_matrix_range(matrix: Any, text: str) -> np.ndarray:
    """The rows and columns of a matrix that ``first:last,first:last`` names, both included; a dense array.

    Up to two rows beyond the end are tolerated. Nnet3Error for a range that lies outside.
    """
    dense = to_dense(matrix)
    rows, columns = parse_range(text, 2)
    return dense[_bounds(rows, dense.shape[0], RANGE_TOLERANCE, "rows", text),
                 _bounds(columns, dense.shape[1], 0, "columns", text)]


def select_vector_range(vector: np.ndarray, text: str) -> np.ndarray:
    """The elements of a vector that ``first:last`` names, both included. Nnet3Error for what lies outside."""
    return vector[_bounds(parse_range(text, 1)[0], len(vector), RANGE_TOLERANCE, "elements", text)]


FLOAT_MATRIX: Holder[np.ndarray] = Holder("matrix", read_matrix, write_matrix, select=select_matrix_range,
                                          skimmer=dense_skimmer)
DOUBLE_MATRIX: Holder[np.ndarray] = Holder("matrix", partial(read_matrix, dtype=np.float64), write_matrix,
                                           select=select_matrix_range)
GENERAL_MATRIX: Holder[Any] = Holder("matrix", read_general_matrix, write_general_matrix, select=select_matrix_range)
COMPRESSED_MATRIX: Holder[Any] = Holder(
    "compressed matrix", read_compressed, write_general_matrix,
    select=lambda value, text: CompressedMatrix.compress(select_matrix_range(value, text)))
FLOAT_VECTOR: Holder[np.ndarray] = Holder("vector", read_vector, write_vector, select=select_vector_range)
DOUBLE_VECTOR: Holder[np.ndarray] = Holder("vector", partial(read_vector, dtype=np.float64), write_vector,
                                           select=select_vector_range)
INT32: Holder[int] = Holder("integer", read_integer_value, write_integer_value)
FLOAT: Holder[float] = Holder("number", read_real_value, partial(write_real_value, double=False))
DOUBLE: Holder[float] = Holder("number", read_real_value, partial(write_real_value, double=True))
BOOL: Holder[bool] = Holder("boolean", read_bool_value, write_bool_value)
INT_VECTOR: Holder[np.ndarray] = Holder("integer vector", read_int_vector, write_int_vector)
INT_VECTOR_VECTOR: Holder[list[np.ndarray]] = Holder("list of integer vectors", read_int_vectors, write_int_vectors)
INT_PAIR_VECTOR: Holder[np.ndarray] = Holder("list of integer pairs", read_int_pairs, write_int_pairs)
FLOAT_PAIR_VECTOR: Holder[np.ndarray] = Holder("list of pairs of numbers", read_float_pairs, write_float_pairs)
POSTERIOR: Holder[Any] = Holder("posterior", read_posterior, write_posterior)
