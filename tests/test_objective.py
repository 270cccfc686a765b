"""nnet3py/training/objective.py: the same numbers for every kind of supervision."""
from __future__ import annotations

import numpy as np
import pytest
from runtime_cases import ROUNDING, assert_close

from nnet3py.errors import NumericError, ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, to_dense
from nnet3py.ops import get_ops
from nnet3py.training.objective import check_supervision, compute_objective

ROWS, DIM = 7, 5
SPARSE = SparseMatrix.from_rows(
    [[(1, 1.0)], [(0, 0.25), (4, 0.75)], [], [(3, 2.0)], [(2, -0.5)], [(4, 1.0)], [(0, 0.125), (1, 0.5), (2, 0.25)]],
    DIM)


def kinds() -> dict[str, GeneralMatrix]:
    compressed = CompressedMatrix.compress(SPARSE.to_dense())
    return {"sparse": SPARSE, "dense": SPARSE.to_dense(), "double": SPARSE.to_dense().astype(np.float64),
            "compressed": compressed}


def output() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, DIM), dtype=np.float32)


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("with_deriv", [True, False])
def test_linear(kind, with_deriv):
    supervision = kinds()[kind]
    s = to_dense(supervision)
    y, deriv = output(), np.full((ROWS, DIM), 9.0, dtype=np.float32) if with_deriv else None
    found = compute_objective(get_ops("cpu"), "linear", supervision, y, deriv)
    assert found.weight == pytest.approx(float(s.sum(dtype=np.float64)), rel=ROUNDING)
    assert found.value == pytest.approx(float((y.astype(np.float64) * s).sum()), rel=ROUNDING)
    if deriv is not None:
        np.testing.assert_array_equal(deriv, s)
    np.testing.assert_array_equal(y, output())


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("with_deriv", [True, False])
def test_quadratic(kind, with_deriv):
    supervision = kinds()[kind]
    s = to_dense(supervision)
    y, deriv = output(), np.full((ROWS, DIM), 9.0, dtype=np.float32) if with_deriv else None
    found = compute_objective(get_ops("cpu"), "quadratic", supervision, y, deriv)
    assert found.weight == ROWS
    assert found.value == pytest.approx(-0.5 * float(((s - y).astype(np.float64) ** 2).sum()), rel=ROUNDING)
    if deriv is not None:
        assert_close(deriv, s - y)
    np.testing.assert_array_equal(y, output())


@pytest.mark.parametrize("kind", ["linear", "quadratic"])
def test_the_derivative_is_that_of_the_value(kind):
    y, deriv = output(), np.empty((ROWS, DIM), dtype=np.float32)
    compute_objective(get_ops("cpu"), kind, SPARSE, y, deriv)
    step = np.zeros_like(y)
    for row, col in ((0, 1), (1, 4), (3, 0), (6, 2)):
        step[:] = 0
        step[row, col] = 0.5
        high, low = (compute_objective(get_ops("cpu"), kind, SPARSE, y + sign * step, None).value for sign in (1, -1))
        assert high - low == pytest.approx(deriv[row, col], abs=1e-5)    # a quadratic: exact but for rounding


@pytest.mark.parametrize("kind", ["linear", "quadratic"])
def test_bad_supervision_is_named(kind):
    dense = SPARSE.to_dense()
    dense[4, 2] = np.nan
    with pytest.raises(NumericError, match="the supervision has nan in row 4, column 2"):
        compute_objective(get_ops("cpu"), kind, dense, output(), None)
    sparse = SparseMatrix.from_rows([[(0, np.inf)]], DIM)
    with pytest.raises(NumericError, match="the supervision.* has inf"):
        compute_objective(get_ops("cpu"), kind, sparse, output()[:1], None)


def test_supervision_must_fit():
    for supervision in kinds().values():
        check_supervision("output", supervision, (ROWS, DIM))
        message = r"dimension \(num-classes\) mismatch for 'output': 6 \(nnet\) vs. 5 \(egs\)"
        with pytest.raises(ShapeError, match=message):
            check_supervision("output", supervision, (ROWS, 6))
        with pytest.raises(ShapeError, match="supervision of 'output' has 7 rows for 8 output frames"):
            check_supervision("output", supervision, (8, DIM))
