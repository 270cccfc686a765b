"""Matrices of a file, or of a table, as arrays."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nnet3py.formats.holders import FLOAT_MATRIX, select_matrix_range
from nnet3py.formats.matrices import read_matrix
from nnet3py.io.object_files import read_object
from nnet3py.io.specifiers import split_range
from nnet3py.io.tables import SequentialReader


def read_matrix_file(rxfilename: str, dtype: type = np.float32) -> np.ndarray:
    """One matrix (rows, cols) of ``dtype`` from a file; the name may end with a range: ``feats.ark:15[0:9,:]``.

    Compressed matrices are decoded. Kaldi: ReadKaldiObject for Matrix.
    """
    name, rows_and_columns = split_range(rxfilename)
    matrix = read_object(name, lambda reader: read_matrix(reader, dtype=dtype))
    return matrix if rows_and_columns is None else select_matrix_range(matrix, rows_and_columns)


def read_matrices(rspecifier: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The matrices of a table: yields (key, float32 array (rows, cols)); compressed matrices are decoded.

    Raises SpecifierError, FormatError, Nnet3Error. Kaldi: SequentialBaseFloatMatrixReader.
    """
    with SequentialReader(rspecifier, FLOAT_MATRIX) as reader:
        yield from reader
