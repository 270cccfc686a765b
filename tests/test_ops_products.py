"""Matrix products against float64, with every combination of transposes, strides and degenerate sizes.

Additions with a factor that lies on the device, too.
"""
from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_cases import check, matrix, vector

from nnet3py.engine import product_rule, threads
from nnet3py.engine.jit import Kernel
from nnet3py.ops import get_ops
from nnet3py.ops.cpu import products

ops = get_ops("cpu")


def operands(rng, m, k, n, trans_a, trans_b, strided=True):
    a = matrix(rng, *((k, m) if trans_a else (m, k)), strided)
    b = matrix(rng, *((n, k) if trans_b else (k, n)), strided)
    return a, b


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("size", [(1, 1, 1), (1, 7, 5), (5, 7, 1), (5, 1, 3), (8, 16, 16), (33, 65, 17), (64, 128, 96)])
def test_add_mat_mat(size, trans_a, trans_b):
    rng = np.random.default_rng(5)
    m, k, n = size
    for strided in (False, True):
        for alpha, beta in ((1.0, 0.0), (-0.5, 1.0), (2.0, -0.25), (0.0, 0.5)):
            a, b = operands(rng, m, k, n, trans_a, trans_b, strided)
            check(ops, "add_mat_mat", matrix(rng, m, n, strided), a, b, alpha, beta, trans_a, trans_b, scale=k)


@pytest.mark.parametrize("size", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_empty_sizes(size, beta):
    rng = np.random.default_rng(6)
    m, k, n = size
    for trans_a in (False, True):
        for trans_b in (False, True):
            a, b = operands(rng, m, k, n, trans_a, trans_b)
            check(ops, "add_mat_mat", matrix(rng, m, n), a, b, 1.0, beta, trans_a, trans_b)


@pytest.mark.parametrize("k", [0, 1, 40])
def test_beta_zero_forgets_nan(k):
    rng = np.random.default_rng(7)
    dst = np.full((5, 6), np.nan, np.float32)
    a, b = operands(rng, 5, k, 6, False, False)
    ops.add_mat_mat(dst, a, b, 1.0, 0.0)
    np.testing.assert_allclose(dst, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)


def test_one_row_of_any_stride():
    x = np.arange(24, dtype=np.float32).reshape(2, 12)
    one = np.lib.stride_tricks.as_strided(x, (1, 3), (0, 4))     # the stride of a single row means nothing
    dst = np.zeros((1, 4), np.float32)
    ops.add_mat_mat(dst, one, np.eye(3, 4, dtype=np.float32), 1.0, 0.0)
    np.testing.assert_array_equal(dst, [[0, 1, 2, 0]])


@settings(deadline=None, max_examples=60)
@given(m=st.integers(0, 12), k=st.integers(0, 12), n=st.integers(0, 12), trans_a=st.booleans(), trans_b=st.booleans(),
       strided=st.booleans(), alpha=st.sampled_from([0.0, 1.0, -2.0]), beta=st.sampled_from([0.0, 1.0, 0.5]))
def test_any_size(m, k, n, trans_a, trans_b, strided, alpha, beta):
    rng = np.random.default_rng(m + 13 * k + 169 * n)
    a, b = operands(rng, m, k, n, trans_a, trans_b, strided)
    check(ops, "add_mat_mat", matrix(rng, m, n, strided), a, b, alpha, beta, trans_a, trans_b, scale=k + 1)


def test_transposes_can_be_named():
    rng = np.random.default_rng(8)
    dst, a, b = matrix(rng, 3, 4), matrix(rng, 3, 5), matrix(rng, 4, 5)
    ops.add_mat_mat(dst, a, b, 1.0, 0.0, trans_b=True)
    np.testing.assert_allclose(dst, a @ b.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [(0, 3, 4), (3, 0, 4), (1, 1, 1), (5, 7, 3), (70, 9, 65), (300, 96, 520)])
def test_affine(size):
    rng = np.random.default_rng(9)
    m, k, n = size
    for strided in (False, True):
        src, weights = operands(rng, m, k, n, False, True, strided)
        check(ops, "affine", matrix(rng, m, n, strided), src, weights, vector(rng, n), scale=k + 1)


@pytest.mark.parametrize("size", [(1, 1, 1), (5, 7, 3), (70, 9, 65), (130, 5, 48), (200, 150, 96), (64, 33, 515)])
@pytest.mark.parametrize("starts, stride", [((0,), 1), ((2, 0, 5), 3)])
def test_spliced_affine(size, starts, stride):
    rng = np.random.default_rng(10)
    m, k, n = size
    src, weights = matrix(rng, max(starts) + stride * m, k), matrix(rng, n, k * len(starts))
    nothing, no_sums, parts = np.zeros(0, np.float32), np.zeros((0, 0), np.float32), -(-m // 64)
    places = np.array(starts, np.int32)
    for floor, scale, sums in ((-np.inf, nothing, no_sums), (0.0, vector(rng, n), no_sums),
                               (0.0, nothing, matrix(rng, 2 * parts, n)),
                               (-np.inf, vector(rng, n), matrix(rng, 2 * parts, n))):
        offset = vector(rng, scale.size)
        check(ops, "spliced_affine", matrix(rng, m, n), sums, src, weights, vector(rng, n), scale, offset, places,
              stride, floor, scale=3 * k * len(starts) * (m if sums.size else 1) + 1)


def test_an_affine_map_in_one_piece_has_the_bits_of_its_parts():
    rng = np.random.default_rng(11)
    src, weights, bias = matrix(rng, 203, 150), matrix(rng, 100, 300), vector(rng, 100)
    nothing = np.zeros(0, np.float32)
    together, apart = np.empty((200, 100), np.float32), np.empty((200, 100), np.float32)
    ops.spliced_affine(together, nothing.reshape(0, 0), src, weights, bias, nothing, nothing,
                       np.array([0, 3], np.int32), 1, 0.0)
    ops.affine(apart, src[:200], weights[:, :150], bias)
    ops.add_mat_mat(apart, src[3:], weights[:, 150:], 1.0, 1.0, trans_b=True)
    ops.relu(apart, apart)
    np.testing.assert_array_equal(together, apart)


@pytest.fixture
def with_threads():
    """Runs something with some number of threads."""
    def run(count, function):
        threads.set_num_threads(count)
        return function()

    yield run
    threads.set_num_threads(None)


@pytest.mark.parametrize("size", [(1900, 130, 90), (90, 130, 1900), (777, 150, 515)])
def test_products_are_the_same_with_any_number_of_threads(size, with_threads):
    rng = np.random.default_rng(12)
    m, k, n = size
    src, weights, bias, scale = matrix(rng, m + 3, k), matrix(rng, n, 2 * k), vector(rng, n), vector(rng, n)

    def results():
        spliced, sums, product, affine = (np.empty(shape, np.float32) for shape in ((m, n), (2 * -(-m // 64), n),
                                                                                    (m, n), (m, n)))
        ops.spliced_affine(spliced, sums, src, weights, bias, scale, bias, np.array([0, 3], np.int32), 1, 0.0)
        ops.add_mat_mat(product, src[:m], weights[:, :k], 1.0, 0.0, trans_b=True)
        ops.affine(affine, src[:m], weights[:, k:], bias)
        return spliced, sums, product, affine

    alone = with_threads(1, results)
    for count in (2, 3):
        for found, wanted in zip(with_threads(count, results), alone, strict=True):
            np.testing.assert_array_equal(found, wanted)


# -- additions with a factor on the device -----------------------------------------------------------------------------


FEW_ROUNDINGS = 1e-6       # float32 sums of up to 9 products, of the largest value
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
    np.testing.assert_allclose(found, wanted, atol=FEW_ROUNDINGS * np.abs(wanted).max())
    assert not np.array_equal(found, before)


@pytest.mark.parametrize("name", ["add_mat_by", "add_row_sum_by", "add_mat_mat_by"])
def test_nothing_is_added_by_a_factor_of_zero(name: str) -> None:
    before, sources = destination_and_sources(name)
    found = before.copy()
    getattr(get_ops("cpu"), name)(found, *(np.full_like(source, np.nan) for source in sources),
                                  np.zeros(1, np.float32))
    np.testing.assert_array_equal(found, before)


# -- parts of affine maps ----------------------------------------------------------------------------------------------


ROUNDING = 1e-5      # float32 sums of up to 300 products, and of 64 rows of them
DIM, STRIDE = 70, 2
STARTS = np.array([3, 0], np.int32)
affine_part = Kernel(products._spliced_affine_part.py_func,
                     "int int mat mat mat mat vec vec vec ivec int f32 bool", False, None)


@pytest.mark.parametrize("by_blas", [False, True])
@pytest.mark.parametrize("rows, columns, parts", [
    (150, 101, [(0, 150)]), (150, 101, [(0, 128), (128, 150)]), (80, 101, [(48, 101), (0, 48)])])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("summed", [False, True])
def test_parts_of_affine_maps(by_blas: bool, rows: int, columns: int, parts: list, scaled: bool, summed: bool) -> None:
    """Threads share rows of tall results, columns of wide ones."""
    product_rule.load_blas()
    rng = np.random.default_rng(3)
    given = (matrix(rng, 3 + STRIDE * rows, DIM), matrix(rng, columns, 2 * DIM), vector(rng, columns),
             *(vector(rng, columns if scaled else 0) for _ in range(2)))
    dst, sums = matrix(rng, rows, columns), matrix(rng, 2 * -(-rows // 64) if summed else 0, columns)
    wanted, wanted_sums = np.empty(dst.shape), np.empty(sums.shape)
    reference.spliced_affine(wanted, wanted_sums, *(array.astype(np.float64) for array in given), STARTS, STRIDE, 0.5)
    for first, last in parts:
        affine_part(first, last, dst, sums, *given, STARTS, STRIDE, 0.5, by_blas)
    for array, wanted_array in ((dst, wanted), (sums, wanted_sums)):
        np.testing.assert_allclose(array, wanted_array, rtol=ROUNDING,
                                   atol=ROUNDING * np.abs(wanted_sums).max(initial=50.0))
