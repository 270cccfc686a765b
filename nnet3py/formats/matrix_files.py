"""Matrices of a file, or of a table, as arrays."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnet3py.errors import ShapeError
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR, select_matrix_range
from nnet3py.formats.matrices import read_matrix
from nnet3py.io.object_files import read_object
from nnet3py.io.specifiers import split_range
from nnet3py.io.tables import SequentialReader, write_table


def read_matrix_file(rxfilename: str, dtype: type = np.float32) -> np.ndarray:
    """One matrix (rows, cols) of ``dtype`` from a file; the name may end with a range: ``feats.ark:15[0:9,:]``.

    Compressed matrices are decoded. Kaldi: ReadKaldiObject for Matrix.
    """
    name, rows_and_columns = split_range(rxfilename)
    matrix = read_object(name, lambda reader: read_matrix(reader, dtype=dtype))
    return matrix if rows_and_columns is None else select_matrix_range(matrix, rows_and_columns)


def read_matrices(rspecifier: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The matrices of a table, such as features, one after the other; compressed ones are decoded.

    >>> feats = dict(nnet3py.read_matrices("scp:feats.scp"))

    Parameters
    ----------
    rspecifier : of the table

    Yields
    ------
    (key, float32 (rows, cols))

    Raises
    ------
    SpecifierError : an rspecifier that cannot be used
    FormatError : bytes that are no matrices
    Nnet3Error : a file that cannot be read

    Kaldi: SequentialBaseFloatMatrixReader.
    """
    with SequentialReader(rspecifier, FLOAT_MATRIX) as reader:
        yield from reader


def write_matrices(wspecifier: str, matrices: Mapping[str, ArrayLike] | Iterable[tuple[str, ArrayLike]]) -> int:
    """Write a table of matrices, such as features.

    >>> nnet3py.write_matrices("ark,scp:feats.ark,feats.scp", {"utt1": feats})
    1

    Parameters
    ----------
    wspecifier : of the table
    matrices : a dict, or pairs of a key and a matrix, numbers (rows, cols); they become float32

    Returns
    -------
    How many there were.

    Raises
    ------
    ShapeError : what is no matrix of numbers
    SpecifierError : a wspecifier that cannot be used
    Nnet3Error : a file that cannot be written, a key that cannot be one
    """
    pairs = matrices.items() if isinstance(matrices, Mapping) else matrices
    return write_table(wspecifier, FLOAT_MATRIX, ((key, _as_matrix(key, matrix)) for key, matrix in pairs))


def _as_matrix(key: str, matrix: ArrayLike) -> np.ndarray:
    array = np.asarray(matrix)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ShapeError(f"{key}: expected a matrix of numbers (rows, cols), found {array.dtype} {array.shape}")
    return array.astype(np.float32, copy=False)


def read_alignments(rspecifier: str) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """The integer vectors of a table, as alignments are, and classes to train on.

    >>> alignments = dict(nnet3py.read_alignments("ark:gunzip -c exp/tri3_ali/ali.1.gz |"))

    Parameters
    ----------
    rspecifier : of the table

    Yields
    ------
    (key, int32 (frames,)) : transition-ids, pdf-ids, or whatever the table has

    Raises
    ------
    SpecifierError : an rspecifier that cannot be used
    FormatError : bytes that are no integer vectors
    Nnet3Error : a file that cannot be read

    Kaldi: SequentialInt32VectorReader.
    """
    with SequentialReader(rspecifier, INT_VECTOR) as reader:
        yield from reader
