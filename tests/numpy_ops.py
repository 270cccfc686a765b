"""A slow numpy twin of an ops object: the generic operations that components call, written as plainly as possible.

It keeps the dtype of what it is given, so that a component whose arrays are float64 can be tested in float64.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import reference
import reference_natural_gradient


class NumpyRandom:
    """Random numbers for components; a test may set ``integers`` and ``uniforms`` to lists of what to draw next."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self.integers: list[int] = []
        self.uniforms: list[float] = []

    def integer(self, n: int) -> int:
        return self.integers.pop(0) if self.integers else int(self._rng.integers(n))

    def uniform(self) -> float:
        return self.uniforms.pop(0) if self.uniforms else float(self._rng.random())

    draw_integer, draw_uniform = integer, uniform

    def fill_uniform(self, dst: np.ndarray) -> None:
        dst[...] = self._rng.random(dst.shape)

    def fill_normal(self, dst: np.ndarray) -> None:
        dst[...] = self._rng.standard_normal(dst.shape)

    def begin_minibatch(self, seed: int, minibatch: int) -> None:
        self._rng = np.random.default_rng([seed, minibatch])

    def select(self, component_index: int, call: int = 0) -> None:
        """Accepted and ignored: one stream serves all components here."""


class NumpyOps:
    """Operations on numpy arrays of ``dtype``; scratch memory is new, and full of NaN, in each call."""

    device = "cpu"

    def __init__(self, dtype: Any = np.float32, seed: int = 0) -> None:
        self.dtype = dtype
        self.random = NumpyRandom(seed)
        self._handed_out: list[np.ndarray] = []

    # -- memory

    def new_vector(self, size: int, dtype: Any = None) -> np.ndarray:
        kind = np.dtype(dtype or self.dtype)
        return np.full(size, np.nan if kind.kind == "f" else -1, dtype=kind)

    def scratch(self, rows: int, cols: int) -> np.ndarray:
        self._handed_out.append(np.full((rows, cols), np.nan, dtype=self.dtype))
        return self._handed_out[-1]

    def scratch_vector(self, dim: int) -> np.ndarray:
        return self.scratch(1, dim)[0]

    def mark_scratch(self) -> int:
        return len(self._handed_out)

    def release_scratch(self, mark: int) -> None:
        """Every scratch array is new, and what was taken back is full of NaN again."""
        for array in self._handed_out[mark:]:
            array.fill(np.nan)
        del self._handed_out[mark:]

    def reset_scratch(self) -> None:
        self._handed_out.clear()

    def copy_in(self, dst: np.ndarray, host: np.ndarray) -> None:
        dst[...] = host

    def copy_out(self, view: np.ndarray) -> np.ndarray:
        return view.copy()

    def upload(self, host: np.ndarray) -> np.ndarray:
        return host

    keep = upload

    # -- rows

    def set_const(self, dst: np.ndarray, value: float) -> None:
        dst[...] = value

    def copy_mat(self, dst: np.ndarray, src: np.ndarray, alpha: float) -> None:
        dst[...] = alpha * src

    def sum_mats(self, dst: np.ndarray, a: np.ndarray, b: np.ndarray, alpha: float, beta: float) -> None:
        dst[...] = alpha * a + beta * b

    def add_mat(self, dst: np.ndarray, src: np.ndarray, alpha: float) -> None:
        dst += alpha * src

    # -- products

    def affine(self, dst: np.ndarray, src: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> None:
        dst[...] = src @ weights.T + bias

    def add_mat_mat(self, dst: np.ndarray, a: np.ndarray, b: np.ndarray, alpha: float, beta: float,
                    trans_a: bool = False, trans_b: bool = False) -> None:
        product = alpha * ((a.T if trans_a else a) @ (b.T if trans_b else b))
        dst[...] = product if beta == 0 else product + beta * dst

    # -- elementwise

    def add_vec_to_rows(self, dst: np.ndarray, vec: np.ndarray, alpha: float, beta: float) -> None:
        dst[...] = alpha * vec if beta == 0 else alpha * vec + beta * dst

    def mul_cols_vec(self, dst: np.ndarray, src: np.ndarray, vec: np.ndarray) -> None:
        dst[...] = src * vec

    def mul_rows_vec(self, dst: np.ndarray, src: np.ndarray, vec: np.ndarray) -> None:
        dst[...] = src * vec[:, None]

    def add_mat_diag_vec(self, dst: np.ndarray, src: np.ndarray, vec: np.ndarray, alpha: float, beta: float) -> None:
        dst[...] = alpha * src * vec if beta == 0 else alpha * src * vec + beta * dst

    def add_diag_vec_mat(self, dst: np.ndarray, vec: np.ndarray, src: np.ndarray, alpha: float, beta: float) -> None:
        scaled = alpha * vec[:, None] * src
        dst[...] = scaled if beta == 0 else scaled + beta * dst

    def mul_elements(self, dst: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
        dst[...] = a * b

    def add_mat_elements(self, dst: np.ndarray, a: np.ndarray, b: np.ndarray, alpha: float, beta: float) -> None:
        dst[...] = alpha * a * b if beta == 0 else alpha * a * b + beta * dst

    def set_vec(self, dst: np.ndarray, value: float) -> None:
        dst[...] = value

    def copy_vec(self, dst: np.ndarray, src: np.ndarray, alpha: float) -> None:
        dst[...] = alpha * src

    def add_vec(self, dst: np.ndarray, src: np.ndarray, alpha: float, beta: float) -> None:
        dst[...] = alpha * src + beta * dst

    # -- trained scales and offsets

    def scale_and_offset(self, dst: np.ndarray, src: np.ndarray, scales: np.ndarray, offsets: np.ndarray,
                         smallest: float) -> None:
        dst[...] = src * away_from_zero(scales, smallest) + offsets

    def scale_gradient_from_output(self, dst: np.ndarray, y: np.ndarray, dy: np.ndarray, scales: np.ndarray,
                                   offsets: np.ndarray, smallest: float) -> None:
        dst[...] = (y - offsets) / away_from_zero(scales, smallest) * dy

    # -- reductions

    def add_row_sum(self, dst: np.ndarray, src: np.ndarray, alpha: float, beta: float) -> None:
        dst[...] = alpha * src.sum(axis=0) + (0 if beta == 0 else beta * dst)

    def add_row_sum_sq(self, dst: np.ndarray, src: np.ndarray, alpha: float, beta: float) -> None:
        dst[...] = alpha * (src * src).sum(axis=0) + (0 if beta == 0 else beta * dst)

    def add_row_sum_product(self, dst: np.ndarray, a: np.ndarray, b: np.ndarray, alpha: float, beta: float) -> None:
        dst[...] = alpha * (a * b).sum(axis=0) + (0 if beta == 0 else beta * dst)

    def add_row_sum_double(self, dst: np.ndarray, src: np.ndarray, alpha: float) -> None:
        dst += alpha * src.sum(axis=0, dtype=np.float64)

    def add_row_sum_sq_double(self, dst: np.ndarray, src: np.ndarray, alpha: float) -> None:
        dst += alpha * (src.astype(np.float64) ** 2).sum(axis=0)

    def add_col_sum_product(self, dst: np.ndarray, a: np.ndarray, b: np.ndarray, alpha: float, beta: float) -> None:
        dst[...] = alpha * (a * b).sum(axis=1) + (0 if beta == 0 else beta * dst)

    symmetric_eigen = staticmethod(reference.symmetric_eigen)
    orthogonalize = staticmethod(reference_natural_gradient.orthogonalize)
    natural_gradient_moments = staticmethod(reference_natural_gradient.natural_gradient_moments)
    natural_gradient_directions = staticmethod(reference_natural_gradient.natural_gradient_directions)
    natural_gradient_size = staticmethod(reference_natural_gradient.natural_gradient_size)
    natural_gradient_rest = staticmethod(reference_natural_gradient.natural_gradient_rest)
    preconditioned_size = staticmethod(reference_natural_gradient.preconditioned_size)
    exact_size = staticmethod(reference_natural_gradient.exact_size)
    natural_gradient_factor = staticmethod(reference_natural_gradient.natural_gradient_factor)
    natural_gradient_fault = staticmethod(reference_natural_gradient.natural_gradient_fault)
    add_mat_by = staticmethod(reference_natural_gradient.add_mat_by)
    add_mat_mat_by = staticmethod(reference_natural_gradient.add_mat_mat_by)
    add_row_sum_by = staticmethod(reference_natural_gradient.add_row_sum_by)

    def natural_gradient_failed(self) -> Callable[[], bool]:
        return lambda: True

    def sum_sq(self, src: np.ndarray) -> float:
        return float((src.astype(np.float64) ** 2).sum())

    def sum_product(self, a: np.ndarray, b: np.ndarray) -> float:
        return float((a.astype(np.float64) * b).sum())

    def dot(self, a: np.ndarray, b: np.ndarray) -> float:
        return float(a.astype(np.float64) @ b)


def away_from_zero(scales: np.ndarray, smallest: float) -> np.ndarray:
    """``scales``, those closer to 0 than ``smallest`` replaced by +-``smallest``."""
    return np.where(np.abs(scales) >= smallest, scales, np.where(scales >= 0, smallest, -smallest))
