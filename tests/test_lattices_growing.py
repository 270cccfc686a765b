"""Larger arrays."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.lattices.growing import enlarged


@pytest.mark.parametrize("array", [np.arange(3, dtype=np.int32), np.arange(8.0).reshape(4, 2)])
def test_rows_stay(array):
    larger = enlarged(array)
    assert larger.shape == (2 * len(array), *array.shape[1:]) and larger.dtype == array.dtype
    np.testing.assert_array_equal(larger[:len(array)], array)
