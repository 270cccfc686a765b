"""Tables of matrices and of alignments, for Python programs."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnet3py
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.holders import INT_VECTOR
from nnet3py.io.tables import write_table

pytestmark = pytest.mark.usefixtures("here")


def test_matrices_come_back() -> None:
    """Of a dict and of pairs, of any numbers, through an archive with a script."""
    matrices = {"a": np.arange(6.0).reshape(2, 3), "b": [[1, 2]], "c": np.ones((1, 1), bool)}
    assert nnet3py.write_matrices("ark,scp:a.ark,a.scp", matrices) == 3
    assert nnet3py.write_matrices("ark,t:b.ark", iter(matrices.items())) == 3
    for rspecifier in ("scp:a.scp", "ark:b.ark"):
        read = dict(nnet3py.read_matrices(rspecifier))
        assert list(read) == list(matrices) and all(matrix.dtype == np.float32 for matrix in read.values())
        for key, matrix in matrices.items():
            np.testing.assert_array_equal(read[key], np.asarray(matrix, np.float32))


@pytest.mark.parametrize("wrong", [np.ones(3), np.ones((2, 2, 2)), [["a"]], 3])
def test_what_is_no_matrix(wrong: object) -> None:
    with pytest.raises(ShapeError, match="u1: expected a matrix of numbers"):
        nnet3py.write_matrices("ark:a.ark", {"u1": wrong})       # type: ignore[dict-item]
    assert not Path("a.ark").exists()


def test_alignments() -> None:
    write_table("ark,t:ali.txt", INT_VECTOR, {"a": np.array([1, 1, 2], np.int32), "b": np.zeros(0, np.int32)})
    read = dict(nnet3py.read_alignments("ark:ali.txt"))
    assert {key: values.tolist() for key, values in read.items()} == {"a": [1, 1, 2], "b": []}
    assert read["a"].dtype == np.int32
    with pytest.raises(Nnet3Error, match="missing"):
        list(nnet3py.read_alignments("ark:missing"))
