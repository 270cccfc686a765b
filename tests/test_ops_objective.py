"""nnet3py/ops/cpu/objective.py against the slow references."""
from __future__ import annotations

import numpy as np
import ops_cases
import pytest

from nnet3py.ops import get_ops


def sparse(rng: np.random.Generator, rows: int, cols: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = rng.integers(0, 3, rows) if cols else np.zeros(rows, dtype=np.int64)
    row_starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    columns = rng.integers(0, max(cols, 1), row_starts[-1]).astype(np.int32)
    return row_starts, columns, ops_cases.vector(rng, row_starts[-1])


@pytest.mark.parametrize("rows, cols", ops_cases.SIZES)
def test_copy_from_sparse(rows, cols):
    rng = np.random.default_rng(1)
    ops_cases.check(get_ops(), "copy_from_sparse", ops_cases.matrix(rng, rows, cols), *sparse(rng, rows, cols))


@pytest.mark.parametrize("rows, cols", ops_cases.SIZES)
def test_sum_product_sparse(rows, cols):
    rng = np.random.default_rng(2)
    src = ops_cases.matrix(rng, rows, cols)
    total = ops_cases.check(get_ops(), "sum_product_sparse", src, *sparse(rng, rows, cols))
    assert isinstance(total, float)
