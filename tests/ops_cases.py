"""Shared by the tests of operations: awkward sizes, strided matrices, and the comparison with the reference."""
from __future__ import annotations

import numpy as np
import reference

SIZES = [(0, 3), (1, 1), (3, 0), (5, 1), (1, 9), (7, 13), (33, 65)]
FLOAT32_SUM = 3e-6      # relative to the sum of absolute values: float32 rounds by 6e-8, a few dozen terms


def matrix(rng: np.random.Generator, rows: int, cols: int, strided: bool = True) -> np.ndarray:
    """A float32 (rows, cols) matrix of normal numbers; inside a larger one if ``strided``."""
    whole = rng.standard_normal((rows + 1, cols + 4 if strided else cols)).astype(np.float32)
    return whole[1:, 2:2 + cols] if strided else whole[1:]


def vector(rng: np.random.Generator, dim: int) -> np.ndarray:
    """A float32 (dim,) vector of normal numbers."""
    return rng.standard_normal(dim).astype(np.float32)


def double_copy(argument):
    """The argument for the reference: arrays copied, float32 widened."""
    if not isinstance(argument, np.ndarray):
        return argument
    return argument.astype(np.float64) if argument.dtype == np.float32 else argument.copy()


def check(ops, name: str, *args, tolerance: float = FLOAT32_SUM, scale: float = 1.0):
    """Run an operation and its reference on the same arguments; compare every array argument, and the result.

    ``scale`` is the size of the sums inside (the number of terms, say). Memory around a strided destination is compared
    too. Returns the operation's result.
    """
    wide = [double_copy(argument) for argument in args]
    around = [argument.base.copy() if isinstance(argument, np.ndarray) and argument.base is not None else None
              for argument in args]
    expected = getattr(reference, name)(*wide)
    result = getattr(ops, name)(*args)
    for argument, want, before in zip(args, wide, around, strict=True):
        if isinstance(argument, np.ndarray):
            np.testing.assert_allclose(argument, want, rtol=tolerance, atol=tolerance * scale, err_msg=name)
            if before is not None:
                assert_untouched_around(argument, before)
    if expected is not None:
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
    return result


def assert_untouched_around(view: np.ndarray, before: np.ndarray) -> None:
    """Nothing but ``view`` may differ between its base array and the base's copy ``before``."""
    after = view.base.copy()
    offset = view.__array_interface__["data"][0] - view.base.__array_interface__["data"][0]
    for array in (after, before):
        np.ndarray(view.shape, view.dtype, array, offset, view.strides)[...] = 0
    np.testing.assert_array_equal(after, before)
