"""Holders, which read and write values of each type of table; and functions for tables of matrices and alignments.

Kaldi: ``kaldi-holder.h``.
"""
from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats import matrices as plain
from nnet3py.formats.general import read_general_matrix, to_dense, write_general_matrix
from nnet3py.formats.kaldi_io_adapter import read_matrix, read_vector
from nnet3py.formats.matrices import write_matrix, write_vector
from nnet3py.formats.matrix_batches import dense_skimmer
from nnet3py.formats.posteriors import read_posterior, write_posterior
from nnet3py.formats.simple_values import (
    read_float_pairs,
    read_int_pairs,
    read_int_vector,
    read_int_vectors,
    read_integer_value,
    read_real_value,
    write_float_pairs,
    write_int_pairs,
    write_int_vector,
    write_int_vectors,
    write_integer_value,
    write_real_value,
)
from nnet3py.io.holder import TOKEN, TOKEN_VECTOR, Holder
from nnet3py.io.object_files import read_object
from nnet3py.io.specifiers import RANGE_TOLERANCE, parse_range, split_range
from nnet3py.io.tables import Entries, write_table

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
    """Return rows and columns of a matrix as a dense array; ``text`` is ``first:last,first:last``, both included.

    The last row may be up to two beyond the end. Nnet3Error for a range that lies outside.
    """
    dense = to_dense(matrix)
    rows, columns = parse_range(text, 2)
    return dense[_bounds(rows, dense.shape[0], RANGE_TOLERANCE, "rows", text),
                 _bounds(columns, dense.shape[1], 0, "columns", text)]


def select_vector_range(vector: np.ndarray, text: str) -> np.ndarray:
    """Return elements of a vector; ``text`` is ``first:last``, both included. Nnet3Error for a range outside."""
    return vector[_bounds(parse_range(text, 1)[0], len(vector), RANGE_TOLERANCE, "elements", text)]


FLOAT_MATRIX: Holder[np.ndarray] = Holder("matrix", read_matrix, write_matrix, select=select_matrix_range,
                                          skimmer=dense_skimmer)
DOUBLE_MATRIX: Holder[np.ndarray] = Holder("matrix", partial(read_matrix, dtype=np.float64), write_matrix,
                                           select=select_matrix_range)
GENERAL_MATRIX: Holder[Any] = Holder("matrix", read_general_matrix, write_general_matrix, select=select_matrix_range)
FLOAT_VECTOR: Holder[np.ndarray] = Holder("vector", read_vector, write_vector, select=select_vector_range)
INT32: Holder[int] = Holder("integer", read_integer_value, write_integer_value)
FLOAT: Holder[float] = Holder("number", read_real_value, partial(write_real_value, double=False))
DOUBLE: Holder[float] = Holder("number", read_real_value, partial(write_real_value, double=True))
INT_VECTOR: Holder[np.ndarray] = Holder("integer vector", read_int_vector, write_int_vector)
INT_VECTOR_VECTOR: Holder[list[np.ndarray]] = Holder("list of integer vectors", read_int_vectors, write_int_vectors)
INT_PAIR_VECTOR: Holder[np.ndarray] = Holder("list of integer pairs", read_int_pairs, write_int_pairs)
FLOAT_PAIR_VECTOR: Holder[np.ndarray] = Holder("list of pairs of numbers", read_float_pairs, write_float_pairs)
POSTERIOR: Holder[Any] = Holder("posterior", read_posterior, write_posterior)


def read_matrix_file(rxfilename: str, dtype: type = np.float32) -> np.ndarray:
    """Read a matrix (rows, cols) of ``dtype`` from a file; the name may end with a range: ``feats.ark:15[0:9,:]``.

    Compressed matrices are decoded. Kaldi: ReadKaldiObject for Matrix.
    """
    name, rows_and_columns = split_range(rxfilename)
    matrix = read_object(name, lambda reader: plain.read_matrix(reader, dtype=dtype))
    return matrix if rows_and_columns is None else select_matrix_range(matrix, rows_and_columns)


def read_matrices(rspecifier: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Iterate over the matrices of a table, such as features; compressed matrices are decoded.

    >>> feats = dict(nnet3py.read_matrices("scp:feats.scp"))

    Parameters
    ----------
    rspecifier : str, rspecifier of the table

    Yields
    ------
    (key, float32 (rows, cols))

    Raises
    ------
    SpecifierError : an invalid rspecifier
    FormatError : bytes that are no matrices
    Nnet3Error : a file that cannot be read

    Kaldi: SequentialBaseFloatMatrixReader.
    """
    return Entries(rspecifier, FLOAT_MATRIX, "read_matrices")


def write_matrices(wspecifier: str, matrices: Mapping[str, ArrayLike] | Iterable[tuple[str, ArrayLike]]) -> int:
    """Write a table of matrices, such as features.

    >>> nnet3py.write_matrices("ark,scp:feats.ark,feats.scp", {"utt1": feats})
    1

    Parameters
    ----------
    wspecifier : str, wspecifier of the table
    matrices : dict, or pairs of a key and a matrix, numbers (rows, cols), which become float32

    Returns
    -------
    int, the number of matrices.

    Raises
    ------
    ShapeError : a value that is no matrix of numbers
    SpecifierError : an invalid wspecifier
    Nnet3Error : a file that cannot be written, an invalid key
    """
    pairs = matrices.items() if isinstance(matrices, Mapping) else matrices
    return write_table(wspecifier, FLOAT_MATRIX, ((key, _as_matrix(key, matrix)) for key, matrix in pairs))


def _as_matrix(key: str, matrix: ArrayLike) -> np.ndarray:
    array = np.asarray(matrix)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ShapeError(f"{key}: expected a matrix of numbers (rows, cols), found {array.dtype} {array.shape}")
    return array.astype(np.float32, copy=False)


def read_alignments(rspecifier: str) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """Iterate over the integer vectors of a table, such as alignments, or classes to train on.

    >>> alignments = dict(nnet3py.read_alignments("ark:gunzip -c exp/tri3_ali/ali.1.gz |"))

    Parameters
    ----------
    rspecifier : str, rspecifier of the table

    Yields
    ------
    (key, int32 (frames,)) : transition-ids, pdf-ids, or whatever the table has

    Raises
    ------
    SpecifierError : an invalid rspecifier
    FormatError : bytes that are no integer vectors
    Nnet3Error : a file that cannot be read

    Kaldi: SequentialInt32VectorReader.
    """
    return Entries(rspecifier, INT_VECTOR, "read_alignments")
