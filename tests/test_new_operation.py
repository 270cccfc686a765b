"""A new elementwise operation needs its declaration and its formula, and is there on both devices."""
from __future__ import annotations

import os

import numpy as np
import pytest
from cuda_checks import COMPUTE_CAPABILITIES, check_in_simulator

ROUNDING = 1e-6      # float32, three operations


def declare() -> None:
    """What one adds to the package for it: a declaration among those of its family, and the formula."""
    from nnet3py.ops import matrix_operations
    from nnet3py.ops.formulas import elements

    def add_weighted_squares(self, dst: Out[Mat], src: Mat, columns: Vec, rows: RowVec, alpha: F32) -> None:  # noqa: F821
        """``dst[i, j] += alpha src[i, j]^2 columns[j] rows[i]``."""

    def formula(dst, src, columns, rows, alpha):
        return dst + alpha * src * src * columns * rows

    formula.__name__ = "add_weighted_squares"
    matrix_operations.Elementwise.add_weighted_squares = declaration = add_weighted_squares
    elements.add_weighted_squares = formula
    assert declaration.__doc__


def operands(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Matrix to add to, matrix, vectors for the columns and the rows."""
    return tuple(rng.standard_normal(shape).astype(np.float32) for shape in ((5, 7), (5, 7), 7, 5))


def expected(dst: np.ndarray, src: np.ndarray, columns: np.ndarray, rows: np.ndarray, alpha: float) -> np.ndarray:
    """The result."""
    return dst + alpha * src ** 2 * columns * rows[:, None]


def test_in_the_simulator_and_on_the_cpu(tmp_path, monkeypatch):
    monkeypatch.setenv("NNET3PY_CACHE", str(tmp_path))       # the kernel is not to stay
    check_in_simulator(__file__, 3)


@pytest.mark.parametrize("compute_capability", COMPUTE_CAPABILITIES)
def test_compiles_to_ptx(compute_capability, monkeypatch):
    from nnet3py.ops import matrix_operations, table
    from nnet3py.ops.cuda import elementwise
    from nnet3py.ops.formulas import elements

    monkeypatch.setattr(matrix_operations.Elementwise, "add_weighted_squares", None, raising=False)
    monkeypatch.setattr(elements, "add_weighted_squares", None, raising=False)
    declare()
    operation = table.Operation(matrix_operations.Elementwise.add_weighted_squares)
    made = elementwise.make_kernel(operation)
    assert made.kinds == ("mat", "mat", "vec", "rowvec", "f32") and made.__doc__ == operation.meaning
    try:
        ptx = made.ptx(compute_capability)
    except Exception as error:
        if "nvvm" in f"{type(error).__name__} {error}".lower():
            pytest.skip(f"NVVM is not installed: {error}")
        raise
    assert ".entry" in ptx and ".f64" not in ptx


def simulate() -> int:
    """Compare the operation with numpy's on both devices; returns the number of comparisons."""
    assert os.environ["NNET3PY_CACHE"]
    declare()
    from nnet3py.ops import device, get_ops
    from nnet3py.ops.cuda.launch import forced_launch

    rng = np.random.default_rng(4)
    dst, *sources = operands(rng)
    want = expected(dst, *sources, 0.5)
    got = dst.copy()
    get_ops("cpu").add_weighted_squares(got, *sources, 0.5)      # type: ignore[attr-defined]
    np.testing.assert_allclose(got, want, rtol=ROUNDING, atol=ROUNDING)
    cuda = device.cuda()
    for shape in (((1, 1), (2, 3)), ((2, 1), (3, 2))):
        on_device = [cuda.to_device(array) for array in (dst, *sources)]
        with forced_launch(*shape):
            get_ops("cuda").add_weighted_squares(*on_device, 0.5)        # type: ignore[attr-defined]
        np.testing.assert_allclose(on_device[0].copy_to_host(), want, rtol=ROUNDING, atol=ROUNDING)
    return 3


if __name__ == "__main__":
    print(simulate())
