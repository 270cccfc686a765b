"""Stands in for cuBLAS where there is none: its functions, for matrices in the host's memory.

With it the tests see what nnet3py asks of cuBLAS, and networks in numba's simulator compute their products at numpy's
speed, by the same way as on a GPU.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np


class CublasOnTheHost:
    """Has cuBLAS's functions, and multiplies column-major matrices at host addresses."""

    def __init__(self, failing: str = "") -> None:
        self.modes: list[int] = []
        self.pointer_modes: list[int] = [0]      # 1: factors are on the device
        self.workspace = 0
        self.failing = failing

    def _status(self, name: str) -> int:
        return 13 if name == self.failing else 0

    def cublasCreate_v2(self, handle):
        return self._status("create")

    def cublasSetStream_v2(self, handle, stream):
        self.stream = stream
        return 0

    def cublasSetWorkspace_v2(self, handle, address, size):
        self.workspace = size
        return 0

    def cublasSetMathMode(self, handle, mode):
        self.modes.append(mode)
        return 0

    def cublasSetPointerMode_v2(self, handle, mode):
        self.pointer_modes.append(mode)
        return 0

    def cublasSgemm_v2(self, handle, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        def matrix(address: int, rows: int, cols: int, leading: int) -> np.ndarray:
            assert leading >= max(rows, 1), "cuBLAS refuses this"
            elements = (ctypes.c_float * (leading * max(cols - 1, 0) + rows)).from_address(address)
            return np.lib.stride_tricks.as_strided(np.frombuffer(elements, np.float32), (rows, cols), (4, 4 * leading))

        left = matrix(a, *((k, m) if trans_a else (m, k)), lda)
        right = matrix(b, *((n, k) if trans_b else (k, n)), ldb)
        factors = [factor.contents if self.pointer_modes[-1] else factor._obj for factor in (alpha, beta)]
        target = matrix(c, m, n, ldc)

        def multiply() -> None:
            times, keep = (factor.value for factor in factors)
            product = (left.T if trans_a else left) @ (right.T if trans_b else right)
            target[...] = times * product + (keep * target if keep else 0)

        self.run(multiply)
        return self._status("multiply")

    def run(self, work: Callable[[], None]) -> None:
        """Do it at once."""
        work()
