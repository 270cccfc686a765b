"""Measurement of the two ways to multiply matrices, tiles and BLAS, for ``nnet3py tune``.

They are compared in each class of products that ``engine/product_rule.py`` distinguishes.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from nnet3py.engine import product_rule
from nnet3py.engine.product_rule import ALL_BLAS, FORMS, NO_BLAS, NUM_CLASSES, class_of
from nnet3py.ops import get_ops

SHAPES = ((3456, 96, 768), (3456, 768, 96), (100, 40, 40),                    # (m, k, n): small products
          (512, 512, 512), (3712, 192, 768), (768, 1536, 256))               # and large ones
MARGIN = 1.03                # BLAS has to be faster by this factor: less may be noise
_RUNS, _LEAST_SECONDS = 5, 5e-3


class Measured(NamedTuple):
    """Speed of a class of products.

    Attributes
    ----------
    form : which factors are transposed
    is_large : whether the class is that of large dimensions
    tiles, blas : floating-point operations per second by tiles and by BLAS, geometric means over sizes
    """

    form: str
    is_large: bool
    tiles: float
    blas: float

    @property
    def chosen(self) -> str:
        """The faster way: ``tiles`` or ``BLAS``."""
        return "BLAS" if self.blas > MARGIN * self.tiles else "tiles"


def measure(seconds: Callable[[Callable[[], object]], float] | None = None) -> Iterator[Measured]:
    """Yield the measured speeds of each class of matrix products, with the current number of threads.

    Measuring changes which classes this process computes with BLAS; its choice is restored at the end.

    Parameters
    ----------
    seconds : function that calls a function and returns the seconds it took; None to measure them
    """
    clock, before = seconds or _seconds, product_rule.rule()
    rng = np.random.default_rng(0)
    try:
        for number in range(NUM_CLASSES):
            form, is_large = divmod(number, 2)
            trans_a, trans_b = form >= 2, form % 2 == 1
            ratios = []
            for m, k, n in SHAPES:
                if class_of(m, n, k, trans_a, trans_b) == number:
                    rates = _rates(rng, (m, k, n), (trans_a, trans_b), clock)
                    ratios.append(rates)
            tiles, blas = np.exp(np.mean(np.log(ratios), axis=0))
            yield Measured(FORMS[form], bool(is_large), float(tiles), float(blas))
    finally:
        product_rule.set_rule(before)


def rule_of(results: list[Measured]) -> int:
    """Return the rule (``engine/product_rule.py``) with the faster way for each class, from :func:`measure`."""
    return sum(1 << number for number, result in enumerate(results) if result.chosen == "BLAS")


def _rates(rng: np.random.Generator, shape: tuple[int, int, int], transposed: tuple[bool, bool],
           clock: Callable[[Callable[[], object]], float]) -> tuple[float, float]:
    """Measure a product of (m, k, n) = ``shape``: return the operations per second of tiles and of BLAS."""
    (m, k, n), ops = shape, get_ops("cpu")
    a, b = (rng.standard_normal(size).astype(np.float32) for size in
            ((k, m) if transposed[0] else (m, k), (n, k) if transposed[1] else (k, n)))
    dst = np.zeros((m, n), np.float32)

    def product() -> None:
        ops.add_mat_mat(dst, a, b, 1.0, 0.0, *transposed)

    rates = []
    for rule in (NO_BLAS, ALL_BLAS):
        product_rule.set_rule(rule)
        rates.append(2 * m * k * n / clock(product))
    return rates[0], rates[1]


def _seconds(function: Callable[[], object]) -> float:
    """Return the seconds of a call, as the minimum of several measurements."""
    function()
    times: list[float] = []
    repeat = 1
    while len(times) < _RUNS:
        start = time.perf_counter()
        for _ in range(repeat):
            function()
        passed = time.perf_counter() - start
        if passed < _LEAST_SECONDS and not times:
            repeat *= 2
        else:
            times.append(passed / repeat)
    return min(times)
