"""Additions with a factor that lies on the device: on the CPU, by the operations that take it as a number."""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cpu import load
from nnet3py.ops.table import documented


@documented
def add_mat_by(dst: np.ndarray, src: np.ndarray, factor: np.ndarray) -> None:
    if factor[0]:
        load("add_mat")(dst, src, factor.item())


@documented
def add_mat_mat_by(dst: np.ndarray, a: np.ndarray, b: np.ndarray, factor: np.ndarray) -> None:
    if factor[0]:
        load("add_mat_mat")(dst, a, b, factor.item(), 1.0, True, False)


@documented
def add_row_sum_by(dst: np.ndarray, src: np.ndarray, factor: np.ndarray) -> None:
    if factor[0]:
        load("add_row_sum")(dst, src, factor.item(), 1.0)
