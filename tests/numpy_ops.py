"""A slow numpy twin of an ops object: memory and random numbers are here, the operations are those of reference.py.

It keeps the dtype of what it is given, so that a component whose arrays are float64 can be tested in float64.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import reference


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

    def natural_gradient_failed(self) -> Callable[[], bool]:
        return lambda: True


for _name, _function in vars(reference).items():
    if callable(_function) and not hasattr(NumpyOps, _name):
        setattr(NumpyOps, _name, staticmethod(_function))
