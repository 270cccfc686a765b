"""Calls that are joined do what they did apart; others stay as they are."""
from __future__ import annotations

import numpy as np
from numpy_ops import NumpyOps

from nnet3py.runtime.joining import join_calls


def test_a_copy_and_an_addition_become_one_sum() -> None:
    ops, rng = NumpyOps(), np.random.default_rng(0)
    dst, a, b = (rng.standard_normal((3, 4)).astype(np.float32) for _ in range(3))
    apart = [(ops.copy_mat, (dst, a, 0.66)), (ops.add_mat, (dst, b, 2.0))]
    calls, commands = join_calls(ops, apart, [5, 6], lambda c, matrix: True)
    assert [function for function, _ in calls] == [ops.sum_mats] and commands == [6]
    for function, args in apart:
        function(*args)
    wanted = dst.copy()
    for function, args in calls:
        function(*args)
    np.testing.assert_allclose(dst, wanted, rtol=1e-6)


def test_what_depends_on_the_copy_itself_stays() -> None:
    ops = NumpyOps()
    dst, other, a = (np.ones((2, 2), np.float32) for _ in range(3))
    for calls in ([(ops.copy_mat, (dst, a, 1.0)), (ops.add_mat, (dst, dst, 1.0))],
                  [(ops.copy_mat, (dst, a, 1.0)), (ops.add_mat, (other, a, 1.0))],
                  [(ops.add_mat, (dst, a, 1.0)), (ops.add_mat, (dst, other, 1.0))]):
        assert join_calls(ops, calls, [0, 1], lambda c, matrix: True) == (calls, [0, 1])
