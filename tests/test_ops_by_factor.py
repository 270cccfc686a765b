"""Additions with a factor that lies on the device, against numpy."""
from __future__ import annotations

import numpy as np
import pytest
import reference

from nnet3py.ops import get_ops

ROUNDING = 1e-6       # float32 sums of up to 9 products, of the largest value
FACTOR = np.array([0.25], np.float32)


def destination_and_sources(name: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """What an operation is given: parts of larger matrices."""
    rng = np.random.default_rng(4)
    src, whole = (rng.standard_normal((7, 9)).astype(np.float32) for _ in range(2))
    return {"add_mat_by": (whole[:, 1:5], [src[:, 2:6]]), "add_row_sum_by": (whole[0], [src]),
            "add_mat_mat_by": (whole[:4, :3], [src[:, :4], whole[:, 5:8]])}[name]


@pytest.mark.parametrize("name", ["add_mat_by", "add_row_sum_by", "add_mat_mat_by"])
def test_additions(name: str) -> None:
    before, sources = destination_and_sources(name)
    found, wanted = before.copy(), before.copy()
    getattr(get_ops("cpu"), name)(found, *sources, FACTOR)
    getattr(reference, name)(wanted, *sources, FACTOR)
    np.testing.assert_allclose(found, wanted, atol=ROUNDING * np.abs(wanted).max())
    assert not np.array_equal(found, before)


@pytest.mark.parametrize("name", ["add_mat_by", "add_row_sum_by", "add_mat_mat_by"])
def test_nothing_is_added_by_a_factor_of_zero(name: str) -> None:
    before, sources = destination_and_sources(name)
    found = before.copy()
    getattr(get_ops("cpu"), name)(found, *(np.full_like(source, np.nan) for source in sources),
                                  np.zeros(1, np.float32))
    np.testing.assert_array_equal(found, before)
