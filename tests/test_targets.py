"""nnet3py/training/targets.py: classes, dense and sparse targets, and what is said of others."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.errors import NumericError, ShapeError
from nnet3py.formats.general import SparseMatrix
from nnet3py.formats.posteriors import Posterior
from nnet3py.training.targets import as_supervision, as_targets, target_width

DENSE = np.array([[0, 1, 0], [2, 0, 0], [0, 0, 0], [0, 0.5, 1]], np.float32)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_classes(dtype: type) -> None:
    found = as_targets(np.array([2, 0, 1], dtype), 3, 3)
    assert found == Posterior.from_lists([[(2, 1.0)], [(0, 1.0)], [(1, 1.0)]])
    assert as_targets([True, False], 2, 2) == Posterior.from_lists([[(1, 1.0)], [(0, 1.0)]])


def test_a_row_without_a_class_does_not_count() -> None:
    supervision = as_supervision([1, -1, 0], 3, 2)
    assert isinstance(supervision, SparseMatrix)
    np.testing.assert_array_equal(supervision.to_dense(), [[0, 1], [0, 0], [1, 0]])


def test_dense_and_sparse_matrices() -> None:
    np.testing.assert_array_equal(as_targets(DENSE.astype(np.float64), 4, 3), DENSE)
    sparse = SparseMatrix.from_rows([[(c, v) for c, v in enumerate(row)] for row in DENSE.tolist()], 3)
    supervision = as_supervision(sparse, 4, 3)
    assert isinstance(supervision, SparseMatrix)
    np.testing.assert_array_equal(supervision.to_dense(), DENSE)
    from scipy.sparse import coo_matrix, csr_matrix
    for kind in (coo_matrix, csr_matrix):
        np.testing.assert_array_equal(as_supervision(kind(DENSE), 4, 3).to_dense(), DENSE)    # type: ignore[union-attr]
    np.testing.assert_array_equal(as_targets([0.5, 1.5], 2, 1), [[0.5], [1.5]])


@pytest.mark.parametrize(("targets", "message"), [
    ([0, 1], r"expected integers \(4,\) for classes below 3, or numbers \(4, 3\), dense or sparse; found int64 \(2,\)"),
    (DENSE.T, r"found float32 \(3, 4\)"),
    ([0.0, 1.0, 2.0, 1.0], r"found float64 \(4,\)"),
    (["a", "b", "c", "d"], r"found <U1 \(4,\)"),
    ([0, 3, 1, 1], "found the class 3, but the output has the classes 0 to 2"),
    ([0, -2, 1, 1], "found the class -2"),
    (SparseMatrix.from_rows([[(0, 1.0)]], 3), r"found a sparse matrix \(1, 3\)"),
])
def test_other_shapes(targets: object, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        as_targets(targets, 4, 3)


def test_what_is_no_number() -> None:
    with pytest.raises(NumericError, match="the targets"):
        as_targets(np.full((4, 3), np.nan), 4, 3)


def test_widths() -> None:
    from scipy.sparse import csr_matrix

    targets = [1, -1, 6], [-1], DENSE, csr_matrix(DENSE), [0.5, 1.5]
    assert list(map(target_width, targets)) == [7, 1, 3, 3, 1]
