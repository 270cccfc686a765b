"""Additions with a factor that lies on the device: on the CPU, by the operations that take it as a number."""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cpu import load


def add_mat_by(dst: np.ndarray, src: np.ndarray, factor: np.ndarray) -> None:
    """``dst += factor[0] src``; nothing if that factor is 0, whatever ``src`` holds."""
    if factor[0]:
        load("add_mat")(dst, src, factor.item())


def add_mat_mat_by(dst: np.ndarray, a: np.ndarray, b: np.ndarray, factor: np.ndarray) -> None:
    """``dst += factor[0] aᵀ b``; nothing if that factor is 0, whatever ``a`` and ``b`` hold."""
    if factor[0]:
        load("add_mat_mat")(dst, a, b, factor.item(), 1.0, True, False)


def add_row_sum_by(dst: np.ndarray, src: np.ndarray, factor: np.ndarray) -> None:
    """``dst[j] += factor[0] (sum over i of src[i, j])``; nothing if that factor is 0, whatever ``src`` holds."""
    if factor[0]:
        load("add_row_sum")(dst, src, factor.item(), 1.0)
