"""Sizes, factors and small matrices of the natural gradient against numpy."""
from __future__ import annotations

import numpy as np
import pytest
import reference

from nnet3py.ops import get_ops
from nnet3py.ops.formulas.updates import REST, SIZE, SUSPECT, TRACE, WANTED

ROUNDING = 2e-4       # float32 roots and quotients of up to 20 values
RANKS = (1, 2, 5, 20)
NUMBERS = np.array([100.0, 25.0, 0.0, 40.0, 0.0])


def given(rank: int):
    """Spectrum, settings, the rows' sum of squares, and the two products of an update with ``rank`` directions."""
    rng = np.random.default_rng(rank)
    dim, num_rows = rank + 7, 50
    rows, w = rng.standard_normal((num_rows, dim)), rng.standard_normal((rank, dim)) / np.sqrt(dim)
    moment = (rows @ w.T).T @ rows
    spectrum = np.concatenate([np.sort(rng.uniform(0.5, 3.0, rank))[::-1], [0.25]]).astype(np.float32)
    return (spectrum, (float(num_rows), float(dim), 0.3, 4.0), (rows ** 2).sum(),
            (moment @ moment.T).astype(np.float32), (w @ moment.T).astype(np.float32))


def both(name: str, outputs, *args):
    """Run an operation and its twin on copies of ``outputs``; returns these as they have become."""
    found, wanted = ([output.copy() for output in outputs] for _ in range(2))
    getattr(get_ops("cpu"), name)(*found, *args)
    getattr(reference, name)(*wanted, *args)
    return found, wanted


def compare(name: str, outputs, *args):
    """The same, which must be equal but for rounding; returns the operation's."""
    found, wanted = both(name, outputs, *args)
    for one, other in zip(found, wanted, strict=True):
        largest = np.abs(other[np.isfinite(other)]).max(initial=0.0)
        np.testing.assert_allclose(one, other, rtol=ROUNDING, atol=ROUNDING * largest)
    return found


def unset(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan, np.float32)


@pytest.mark.parametrize("rank", RANKS)
def test_moments(rank):
    spectrum, settings, _, square, cross = given(rank)
    compare("natural_gradient_moments", (unset(rank, rank), NUMBERS, unset(rank)), square, cross, spectrum, *settings)


def test_moments_of_nan_are_told():
    spectrum, settings, _, square, cross = given(2)
    numbers = NUMBERS.copy()
    square[0, 0] = np.nan
    get_ops("cpu").natural_gradient_moments(unset(2, 2), numbers, unset(2), square, cross, spectrum, *settings)
    assert np.isnan(numbers[TRACE])


def directions(rank: int, eigenvalues: np.ndarray):
    """The arguments of an update with these eigenvalues: outputs, then the others."""
    spectrum, settings, size, _, _ = given(rank)
    vectors = np.linalg.qr(np.random.default_rng(1).standard_normal((rank, rank)))[0].astype(np.float32)
    numbers = NUMBERS.copy()
    numbers[SIZE] = size
    inverse = (1.0 / reference.direction_lengths(spectrum[:-1], spectrum[-1], 4.0, rank + 7)).astype(np.float32)
    outputs = unset(rank, rank), unset(rank), unset(rank), spectrum, numbers, unset(rank)
    return outputs, inverse, eigenvalues.astype(np.float32), vectors, *settings


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("smallest", [0.3, 1e-9])
def test_directions(rank, smallest):
    values = np.random.default_rng(1).permutation(np.geomspace(1.0, smallest, rank) if rank > 1 else [smallest])
    found = compare("natural_gradient_directions", *directions(rank, values))
    assert found[4][SUSPECT] == (smallest < 1e-6), "small eigenvalues make the result suspect"


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_eigenvalues_that_are_not_finite_are_reported(value, place):
    outputs, *others = directions(3, np.insert([2.0, 1.0], place, value))
    get_ops("cpu").natural_gradient_directions(*outputs, *others)
    assert np.isnan(outputs[4][TRACE])


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (40, 9)])
def test_sizes(shape):
    x = np.random.default_rng(2).standard_normal((shape[0] + 1, shape[1] + 2)).astype(np.float32)[1:, 1:-1]
    for further in (False, True):
        found, = compare("natural_gradient_size", (NUMBERS,), x, 7.0, further)
        assert found[REST] == NUMBERS[REST]
    found, = compare("natural_gradient_rest", (NUMBERS,), x)
    assert found[SIZE] == NUMBERS[SIZE]


@pytest.mark.parametrize("rank", RANKS)
def test_preconditioned_size(rank):
    rng = np.random.default_rng(rank)
    cross, gram = (rng.standard_normal((rank, rank)).astype(np.float32) for _ in range(2))
    found, = compare("preconditioned_size", (NUMBERS,), cross, gram)
    assert found[WANTED] == 0.0
    cross, gram = 40.0 * np.eye(2, dtype=np.float32), np.zeros((2, 2), np.float32)
    small, = compare("preconditioned_size", (NUMBERS,), cross, gram)
    assert small[WANTED] == 1.0 and small[REST] == 0.0


@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (6, 5), (70, 300)])
def test_exact_size(shape, ones):
    if get_ops("cpu").device == "cuda" and shape[0] * shape[1] > 100:
        shape = 9, 11
    rng, numbers = np.random.default_rng(3), NUMBERS.copy()
    x, projected = (rng.standard_normal((shape[0], cols)).astype(np.float32) for cols in (shape[1], 3))
    w = rng.standard_normal((3, shape[1] + 4)).astype(np.float32)
    unchanged, = compare("exact_size", (numbers,), x, projected, w, 2, ones)
    assert np.array_equal(unchanged, numbers), "nobody has asked for it"
    numbers[WANTED] = 1.0
    found, = compare("exact_size", (numbers,), x, projected, w, 2, ones)
    assert found[REST] > numbers[REST]


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize(("place", "value", "factor"), [
    (REST, 25.0, 2.0), (SIZE, 0.0, 1.0), (REST, 0.0, np.inf), (SIZE, np.nan, 0.0), (SIZE, 1e39, 0.0),
    (TRACE, np.inf, 0.0)])
def test_factor(place, value, factor, second):
    numbers = NUMBERS.copy()
    numbers[place] = value
    found = compare("natural_gradient_factor", (unset(1),), NUMBERS, numbers, 0.5, True) if second else compare(
        "natural_gradient_factor", (unset(1),), numbers, NUMBERS, 0.5, False)
    assert found[0][0] == pytest.approx(factor * (1.0 if second else 0.5))
    fault = 0 if factor != 0.0 else 2 if place == TRACE else 1
    assert get_ops("cpu").natural_gradient_fault(numbers) == fault == reference.natural_gradient_fault(numbers)


def test_small_moments_are_not_scaled():
    spectrum, settings, _, square, cross = given(5)
    small = 1e-5
    _, found, _ = compare("natural_gradient_moments", (unset(5, 5), NUMBERS, unset(5)), small * small * square,
                          small * cross, small * spectrum, *settings)
    assert found[TRACE] == 1.0
