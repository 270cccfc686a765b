"""The step of the orthonormal constraint against its slow twin."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import check

from nnet3py.ops import get_ops

ops = get_ops("cpu")


@pytest.mark.parametrize("spread", [0.01, 0.2, 0.6])
@pytest.mark.parametrize("constraint", [0.7, -1.0])
@pytest.mark.parametrize("dim", [1, 4, 9])
def test_step(dim, constraint, spread):
    basis = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0]
    p = (basis * np.linspace(1 - spread, 1 + spread, dim) ** 2) @ basis.T
    check(ops, "orthonormal_step", p.astype(np.float32), np.zeros(1, np.float32), constraint, scale=100)


@pytest.mark.parametrize(("value", "wanted"), [(0.0, 1.0), (np.nan, np.nan), (np.inf, np.nan)])
def test_no_step(value, wanted):
    p, ratio = np.full((3, 3), value, np.float32), np.zeros(1, np.float32)
    with np.errstate(invalid="ignore"):
        ops.orthonormal_step(p, ratio, -1.0)
    np.testing.assert_array_equal(ratio, [wanted])
    assert not p.any()
