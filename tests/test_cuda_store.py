"""Arithmetic on whole networks on the GPU, without one: in numba's simulator, and compiled to PTX.

See tests/cuda_checks.py: run as a program, in a process of its own, this file compares it with numpy.
"""
from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import COMPUTE_CAPABILITIES, check_in_simulator, check_ptx

STARTS = [0, 5, 5, 12, 30]                                      # one segment is empty
LAUNCHES = [((1, 1), (1, 1)), ((2, 2), (4, 1)), ((3, 5), (2, 1))]     # grid and block
KERNELS = {"_partial_products": True, "_sum_of_parts": True, "_scale_floats": False, "_scale_doubles": True,
           "_add_floats": False, "_add_doubles": True, "limit_changes": True}         # name: whether in float64
# sums of squares and limits of components, the global limit, the scale
CHANGES = [([4.0, 1.0, 9.0], [1.0, 0.0, np.nan], 0.0, 1.0), ([4.0, 1.0, 0.0], [1.0, 3.0, 0.0], 1.2, -0.5),
           ([np.inf, 1.0], [0.0, 0.0], 2.0, 1.0), ([np.nan, 1.0], [0.5, 0.5], 2.0, 1.0), ([], [], 2.0, 1.0)]
TOLERANCE = 1e-6      # float32 products, rounded once more or less


def test_in_the_simulator():
    check_in_simulator(__file__, len(LAUNCHES) * (2 + len(CHANGES)))


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("compute_capability", COMPUTE_CAPABILITIES)
def test_compiles_to_ptx(name, compute_capability):
    from nnet3py.ops.cuda import store
    check_ptx(store, name, compute_capability, KERNELS[name])


def simulate() -> int:
    """Compare with numpy; returns the number of cases."""
    from nnet3py.ops import device
    from nnet3py.ops.cuda import launch
    from nnet3py.ops.cuda.store import Segments

    cuda, rng, cases = device.cuda(), np.random.default_rng(6), 0
    factors = np.array([0.0, 2.0, 1.0, -0.5])
    repeated = np.repeat(factors, np.diff(STARTS))
    for grid, block in LAUNCHES:
        for dtype in (np.float32, np.float64):
            a, b = rng.standard_normal((2, STARTS[-1])).astype(dtype)
            a[1], b[2] = np.nan, np.nan                         # where the factor is 0
            with launch.forced_launch(grid, block):
                first, second = (Segments(cuda.to_device(values), np.array(STARTS)) for values in (a, b))
                on_device = cuda.to_device(factors.astype(dtype))
                first.add(on_device, second)
                wanted = np.where(repeated != 0, a + repeated * b, a)
                np.testing.assert_allclose(first.values.copy_to_host(), wanted, rtol=TOLERANCE)
                first.scale(on_device)
                wanted = np.where(repeated != 0, repeated * wanted, 0)
                np.testing.assert_allclose(first.values.copy_to_host(), wanted, rtol=TOLERANCE)
                if dtype == np.float32:
                    products = wanted.astype(np.float64) * np.nan_to_num(b)
                    other = Segments(cuda.to_device(np.nan_to_num(b)), np.array(STARTS))
                    sums = [products[i:j].sum() for i, j in zip(STARTS[:-1], STARTS[1:], strict=True)]
                    on_host = first.queue_dot_products(other).copy_to_host()
                    np.testing.assert_allclose(on_host, sums, rtol=TOLERANCE, atol=TOLERANCE)
            cases += 1
        for change in CHANGES:
            with launch.forced_launch(grid, block):
                check_limits(*change)
            cases += 1
    return cases


def check_limits(squares, limits, global_limit, scale) -> None:
    """The factors are those that the host would find."""
    from nnet3py.ops import device
    from nnet3py.ops.cuda.store import limit_changes
    from nnet3py.runtime.parameter_store import limiting_factors

    squares, limits = np.array(squares, float), np.array(limits, float)
    wanted = limiting_factors(squares, limits, global_limit, abs(scale))
    found = [device.cuda().to_device(np.empty(len(squares) + (place == 0), dtype)) for place, dtype in enumerate(
        (np.float64, np.float32, np.float32, np.float64, np.float64))]
    limit_changes(*found, *map(device.cuda().to_device, (squares, limits)), global_limit, scale, 0.75)
    factors, add, remain, add_double, remain_double = (array.copy_to_host() for array in found)
    np.testing.assert_allclose(factors, wanted, rtol=TOLERANCE)
    applied = not np.isnan(wanted[-1])
    for mine in (add, add_double):
        np.testing.assert_allclose(mine, wanted[:-1] * wanted[-1] * scale if applied else 0, rtol=TOLERANCE)
    for mine in (remain, remain_double):
        np.testing.assert_array_equal(mine, np.where(np.isnan(limits), 1, 0.75 * applied))


if __name__ == "__main__":
    print(simulate())
