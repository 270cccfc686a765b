"""The small matrices of the natural gradient's update against numpy."""
from __future__ import annotations

import numpy as np
import pytest
import reference

from nnet3py.ops import get_ops

ROUNDING = 2e-4       # float32 roots and quotients of up to 20 values
RANKS = (1, 2, 5, 20)


def given(rank: int):
    """Spectrum, settings, and the two products of an update with ``rank`` directions."""
    rng = np.random.default_rng(rank)
    dim, num_rows = rank + 7, 50
    rows, w = rng.standard_normal((num_rows, dim)), rng.standard_normal((rank, dim)) / np.sqrt(dim)
    moment = (rows @ w.T).T @ rows
    spectrum = np.concatenate([np.sort(rng.uniform(0.5, 3.0, rank))[::-1], [0.25]]).astype(np.float32)
    settings = np.array([num_rows, dim, 0.3, (rows ** 2).sum(), 4.0])
    return spectrum, settings, (moment @ moment.T).astype(np.float32), (w @ moment.T).astype(np.float32)


@pytest.mark.parametrize("rank", RANKS)
def test_moments(rank):
    spectrum, settings, square, cross = given(rank)
    found, wanted = ([np.full((rank, rank), np.nan, np.float32), np.zeros(1, np.float32)] for _ in range(2))
    get_ops("cpu").natural_gradient_moments(*found, square, cross, spectrum, settings)
    reference.natural_gradient_moments(*wanted, square, cross, spectrum, settings)
    assert found[1] == pytest.approx(wanted[1], rel=ROUNDING)
    np.testing.assert_allclose(found[0], wanted[0], rtol=ROUNDING, atol=ROUNDING * np.abs(wanted[0]).max())


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("smallest", [0.3, 1e-9])
def test_directions(rank, smallest):
    spectrum, settings, square, cross = given(rank)
    rng = np.random.default_rng(1)
    eigenvalues = rng.permutation(np.geomspace(1.0, smallest, rank) if rank > 1 else [smallest]).astype(np.float32)
    vectors = np.linalg.qr(rng.standard_normal((rank, rank)))[0].astype(np.float32)
    scale = np.full(1, 40.0, np.float32)

    def outputs():
        return (np.empty((rank, rank), np.float32), np.empty(rank, np.float32), np.empty(rank + 1, np.float32),
                np.empty(rank, np.float32), np.empty(1, np.float32))

    found, wanted = outputs(), outputs()
    for results, module in ((found, get_ops("cpu")), (wanted, reference)):
        module.natural_gradient_directions(*results, eigenvalues, vectors, spectrum, scale, settings,
                                           np.empty(rank, np.int32))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=ROUNDING, atol=ROUNDING * np.abs(other).max())
    assert wanted[4][0] == (smallest < 1e-6), "small eigenvalues make the result suspect"


def test_eigenvalues_that_are_not_finite_are_reported():
    spectrum, settings, _, _ = given(2)
    verdict, results = np.zeros(1, np.float32), [np.empty(2, np.float32) for _ in range(2)]
    get_ops("cpu").natural_gradient_directions(
        np.empty((2, 2), np.float32), results[0], np.empty(3, np.float32), results[1], verdict,
        np.array([np.inf, 1.0], np.float32), np.eye(2, dtype=np.float32), spectrum, np.ones(1, np.float32), settings,
        np.empty(2, np.int32))
    assert verdict[0] == 2.0


@pytest.mark.parametrize("rank", RANKS)
def test_preconditioned_size(rank):
    rng = np.random.default_rng(rank)
    cross, gram = (rng.standard_normal((rank, rank)).astype(np.float32) for _ in range(2))
    assert get_ops("cpu").preconditioned_size(cross, gram, 100.0) == pytest.approx(
        reference.preconditioned_size(cross, gram, 100.0), rel=ROUNDING)
