"""Online natural gradient: its invariants, its counting, and layers whose gradient is preconditioned afterwards."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy_ops import NumpyOps
from reference_natural_gradient import direction_lengths

from nnet3py.components import natural_gradient
from nnet3py.components.natural_gradient import (
    OnlineNaturalGradient,
    Rows,
    check_preconditioners,
    named_preconditioners,
    natural_gradient_step,
)
from nnet3py.components.updatable import UpdatableComponent
from nnet3py.errors import NumericError

NORM = 1e-5           # two float32 norms of a few thousand terms
ORTHONORMAL = 2e-3    # Kaldi lets Q Qᵀ deviate by 1e-3 before it acts
NEARLY_VANISHED = 2e-3    # the same, where they keep a tenthousandth of it
TWO_WAYS = 2e-4       # rounding of float32 differences that keep a hundredth of the squared size
CONVERGED = 0.02      # the estimate lags behind the data by its history


@pytest.fixture
def ops():
    return NumpyOps()


def rows_of(rng: np.random.Generator, num_rows: int, dim: int) -> np.ndarray:
    """Rows with unequal variances and a mean."""
    scales = np.linspace(0.2, 3.0, dim)
    return (rng.standard_normal((num_rows, dim)) * scales + 0.3).astype(np.float32)


def lengths_of(preconditioner: OnlineNaturalGradient, dim: int) -> np.ndarray:
    """The lengths of the rows of W."""
    return direction_lengths(preconditioner.d, preconditioner.rho, preconditioner.alpha, dim).astype(np.float32)


@given(num_rows=st.integers(1, 40), dim=st.integers(2, 30), rank=st.integers(1, 35), period=st.integers(1, 4))
def test_factor_restores_the_norm(num_rows, dim, rank, period):
    ops, rng = NumpyOps(), np.random.default_rng(num_rows)
    preconditioner = OnlineNaturalGradient(rank, period)
    for _ in range(4):
        x = rows_of(rng, num_rows, dim)
        before = np.linalg.norm(x)
        factor = preconditioner.precondition(ops, x)
        assert factor * np.linalg.norm(x) == pytest.approx(before, rel=NORM)
    assert preconditioner.rank == min(rank, dim - 1)
    assert preconditioner.t == 4


def test_kept_directions_are_orthonormal(ops):
    rng, preconditioner = np.random.default_rng(1), OnlineNaturalGradient(rank=8)
    for _ in range(30):
        preconditioner.precondition(ops, rows_of(rng, 50, 25))
    lengths = lengths_of(preconditioner, 25)
    q = preconditioner.w / lengths[:, None]
    np.testing.assert_allclose(q @ q.T, np.eye(8), atol=ORTHONORMAL)


def test_estimate_converges_to_the_second_moments(ops):
    rng, preconditioner = np.random.default_rng(2), OnlineNaturalGradient(rank=3)
    x = rng.standard_normal((4000, 12)).astype(np.float32) * np.array([9, 6, 4] + [1] * 9, dtype=np.float32)
    for _ in range(25):
        preconditioner.precondition(ops, x.copy())
    values = np.sort(np.linalg.eigvalsh(x.T.astype(np.float64) @ x / 4000))[::-1]
    np.testing.assert_allclose(np.sort(preconditioner.d + preconditioner.rho)[::-1], values[:3], rtol=CONVERGED)
    assert preconditioner.rho == pytest.approx(values[3:].mean(), rel=CONVERGED)


def test_result_is_the_smoothed_inverse_of_the_estimate(ops):
    """Q, d and ρ found in the state give F; X̂ must be X times β (F + β/(1+α)·α…)⁻¹, up to one factor for all."""
    rng, preconditioner = np.random.default_rng(3), OnlineNaturalGradient(rank=4, alpha=4.0)
    for _ in range(12):
        preconditioner.precondition(ops, rows_of(rng, 60, 10))
    d, rho, dim = preconditioner.d.astype(np.float64), float(preconditioner.rho), 10
    q = preconditioner.w / lengths_of(preconditioner, dim)[:, None]
    estimate = q.T @ np.diag(d) @ q + rho * np.eye(dim)
    smoothed = estimate + 4.0 * np.trace(estimate) / dim * np.eye(dim)
    x = rows_of(rng, 20, dim)
    expected = x @ np.linalg.inv(smoothed)
    preconditioner.precondition(ops, x)
    np.testing.assert_allclose(x / np.linalg.norm(x), expected / np.linalg.norm(expected), atol=ORTHONORMAL)


def test_zero_rows_stay_zero_and_harm_nothing(ops):
    preconditioner = OnlineNaturalGradient(rank=3)
    for _ in range(30):
        x = np.zeros((10, 8), dtype=np.float32)
        assert preconditioner.precondition(ops, x) == 1.0
        assert not x.any()
    assert np.isfinite(preconditioner.w).all() and (preconditioner.d > 0).all() and preconditioner.rho > 0
    x = rows_of(np.random.default_rng(0), 10, 8)
    assert np.isfinite(preconditioner.precondition(ops, x)) and np.isfinite(x).all()


def test_one_column_is_left_alone(ops):
    preconditioner, x = OnlineNaturalGradient(rank=3), np.ones((5, 1), dtype=np.float32)
    assert preconditioner.precondition(ops, x) == 1.0
    assert (x == 1.0).all() and preconditioner.t == 0 and preconditioner.rank == 3


def updating_calls(preconditioner: OnlineNaturalGradient, ops: NumpyOps, calls: int) -> list[int]:
    """The calls, counted from 0, after which the estimate differs."""
    rng, found, last = np.random.default_rng(4), [], None
    for call in range(calls):
        preconditioner.precondition(ops, rows_of(rng, 9, 6))
        if last is None or not np.array_equal(last, preconditioner.w):
            found.append(call)
        last = preconditioner.w.copy()
    return found


def test_updates_in_the_first_calls_and_then_once_per_period(ops):
    assert updating_calls(OnlineNaturalGradient(rank=2, update_period=4), ops, 24) == [*range(11), 14, 18, 22]


def test_freezing_stops_learning_but_not_counting(ops):
    preconditioner = OnlineNaturalGradient(rank=2)
    preconditioner.frozen = True
    assert updating_calls(preconditioner, ops, 5) == [0]   # the first call initializes even so
    assert preconditioner.t == 5


def test_copies_are_independent(ops):
    import copy
    rng, one = np.random.default_rng(5), OnlineNaturalGradient(rank=2)
    one.precondition(ops, rows_of(rng, 9, 6))
    other, x = copy.deepcopy(one), rows_of(rng, 9, 6)
    mine, theirs = x.copy(), x.copy()
    one.precondition(ops, mine)
    one.precondition(ops, x.copy())
    other.precondition(ops, theirs)
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("calls", [0, 3])
def test_numbers_that_cannot_be_used_are_named(ops, value, calls):
    """The factor is 0, so that nothing is changed; then everything begins anew."""
    preconditioner, rng = OnlineNaturalGradient(rank=2), np.random.default_rng(1)
    for _ in range(calls):
        preconditioner.precondition(ops, rows_of(rng, 5, 3))
        preconditioner.check(ops)
    with np.errstate(all="ignore"):
        assert preconditioner.precondition(ops, np.full((4, 3), value, dtype=np.float32)) == 0.0
    with pytest.raises(NumericError, match="NaN or infinity"):
        preconditioner.check(ops)
    assert np.isfinite(preconditioner.precondition(ops, rows_of(rng, 5, 3))) and preconditioner.t == 1
    preconditioner.check(ops)


def test_numbers_whose_moments_are_too_large_are_named(ops):
    preconditioner, rng = OnlineNaturalGradient(rank=2), np.random.default_rng(1)
    with np.errstate(all="ignore"):
        preconditioner.precondition(ops, 1e18 * rows_of(rng, 5, 3))
    with pytest.raises(NumericError, match="fourth powers"):
        preconditioner.check(ops)


def test_the_component_at_fault_is_named(ops):
    class Network:
        component_names = ("a", "b")
        components = (UpdatableComponent(), UpdatableComponent())

    one, child = OnlineNaturalGradient(rank=2), OnlineNaturalGradient(rank=2)
    Network.components[1].inner, Network.components[1].children = one, [UpdatableComponent()]
    Network.components[1].children[0].preconditioner = child
    named = named_preconditioners(Network)
    assert named == [("b", one), ("b", child)]
    check_preconditioners(ops, named)()
    with np.errstate(all="ignore"):
        child.precondition(ops, np.full((4, 3), np.inf, dtype=np.float32))
    with pytest.raises(NumericError, match="component b: natural gradient"):
        check_preconditioners(ops, named)()


def test_what_the_host_decides():
    preconditioner = OnlineNaturalGradient(rank=2, update_period=4)
    assert preconditioner.decisions(0) == (0,) and preconditioner.decisions(1) == (0, True, True)
    preconditioner.t = 12
    assert preconditioner.decisions(3) == (0, False, False, False, False, False, True)
    preconditioner.frozen = True
    assert preconditioner.decisions(3) == (0, *[False] * 6)


@pytest.mark.parametrize("settings", [{"rank": 0}, {"update_period": 0}, {"num_samples_history": 0.0},
                                      {"num_samples_history": 1e6}, {"alpha": -1.0}, {"alpha": float("nan")},
                                      {"num_minibatches_history": 1.0}])
def test_impossible_settings(settings):
    with pytest.raises(ValueError, match="expected rank and period above 0"):
        OnlineNaturalGradient(**settings)


def test_history_in_minibatches():
    assert OnlineNaturalGradient(num_minibatches_history=4.0)._forgetting(1000) == np.float32(0.25)
    assert OnlineNaturalGradient(num_samples_history=2000.0)._forgetting(100) == pytest.approx(1 - np.exp(-0.05))
    assert OnlineNaturalGradient(num_samples_history=10.0)._forgetting(1000) == np.float32(0.9)


def step(monkeypatch, gradient_first: bool, parts, dy, has_bias: bool, calls: int = 4):
    ops, num_cols = NumpyOps(), sum(part.shape[1] for part in parts)
    weights = np.zeros((dy.shape[1], num_cols), dtype=np.float32)
    bias = np.zeros(dy.shape[1], dtype=np.float32) if has_bias else None
    inner, outer = OnlineNaturalGradient(rank=4, update_period=2), OnlineNaturalGradient(rank=3, update_period=2)
    monkeypatch.setattr(natural_gradient, "_gradient_is_smaller", lambda *_: gradient_first)
    for _ in range(calls):
        natural_gradient_step(ops, weights, bias, 0.01, inner, outer, parts, dy)
    return weights, bias


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("output_dim", [6, 1])
def test_preconditioning_the_gradient_equals_preconditioning_the_rows(monkeypatch, has_bias, output_dim):
    rng = np.random.default_rng(8)
    whole = rows_of(rng, 80, 12)
    parts = whole[0:60, :7], whole[20:80, 7:]
    dy = rows_of(rng, 60, output_dim)
    first = step(monkeypatch, True, parts, dy, has_bias)
    rows = step(monkeypatch, False, parts, dy, has_bias)
    for one, other in zip(first, rows, strict=True):
        if other is not None:
            np.testing.assert_allclose(one, other, atol=TWO_WAYS * np.abs(other).max())


@pytest.mark.parametrize("has_bias", [True, False])
def test_rows_that_nearly_vanish(monkeypatch, has_bias):
    """One direction holds nearly everything: the size after preconditioning cannot be found as a difference."""
    rng = np.random.default_rng(9)
    x = (rng.standard_normal((50, 400)) * 1e-4 + 5.0).astype(np.float32)
    dy = rows_of(rng, 50, 5)
    first, _ = step(monkeypatch, True, (x[:, :150], x[:, 150:]), dy, has_bias)
    rows, _ = step(monkeypatch, False, (x,), dy, has_bias)
    np.testing.assert_allclose(first, rows, atol=NEARLY_VANISHED * np.abs(rows).max())


def test_the_cheaper_way_is_taken():
    many, few = np.zeros((3000, 8)), np.zeros((3, 8))
    assert natural_gradient._gradient_is_smaller(Rows((many,), True), Rows((many,)), 4, 4)
    assert not natural_gradient._gradient_is_smaller(Rows((few,), True), Rows((few,)), 4, 4)


def test_rows_are_what_they_are_joined():
    ops, rng = NumpyOps(), np.random.default_rng(10)
    parts = rng.standard_normal((5, 3)).astype(np.float32), rng.standard_normal((5, 2)).astype(np.float32)
    rows = Rows(parts, ones=True)
    whole = np.hstack([*parts, np.ones((5, 1), dtype=np.float32)])
    np.testing.assert_array_equal(rows.joined(ops), whole)
    assert rows.shape == (5, 6)
    w, left = rng.standard_normal((4, 6)).astype(np.float32), rng.standard_normal((5, 2)).astype(np.float32)
    projected, moment = ops.scratch(5, 4), ops.scratch(2, 6)
    rows.project(ops, w, projected)
    rows.moment(ops, left, moment)
    np.testing.assert_allclose(projected, whole @ w.T, rtol=1e-5)   # float32 sums of 6 terms
    np.testing.assert_allclose(moment, left.T @ whole, rtol=1e-5)
    numbers = np.array([np.nan, 0.0, 1.0, 0.0, 0.0])
    rows.find_size(ops, numbers)
    rows.find_rest(ops, numbers, projected, w)
    assert numbers[0] == pytest.approx((whole ** 2).sum())
    assert numbers[1] == pytest.approx(((whole - projected @ w) ** 2).sum())


@pytest.mark.parametrize(("num_rows", "times"), [(1, 1), (4, 1), (5, 3)])
def test_the_first_rows_are_seen_thrice_if_they_are_more_than_the_rank(monkeypatch, num_rows, times):
    """And then, as those of every call, once more."""
    learned, finish = [], OnlineNaturalGradient.finish_learning
    monkeypatch.setattr(OnlineNaturalGradient, "finish_learning", lambda *args: learned.append(finish(*args)))
    OnlineNaturalGradient(rank=4).precondition(NumpyOps(), rows_of(np.random.default_rng(0), num_rows, 6))
    assert len(learned) == times + 1
