"""Measurement of tiles and BLAS for each class of products (``engine/product_rule.py``), for ``nnet3py tune``."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from nnet3py.engine import product_rule
from nnet3py.engine.product_rule import ALL_BLAS, FORMS, NO_BLAS, NUM_CLASSES, class_of
from nnet3py.ops import get_ops

SHAPES = ((3456, 96, 768), (3456, 768, 96), (100, 40, 40),                    # m, k, n: small ones
          (512, 512, 512), (3712, 192, 768), (768, 1536, 256))               # and large ones
MARGIN = 1.03                # BLAS has to be faster by this factor: less may be noise
_RUNS, _LEAST_SECONDS = 5, 5e-3


class Measured(NamedTuple):
    """A class of products, and its rates in operations a second (two for each multiplication), geometric means."""

    form: str
    is_large: bool
    tiles: float
    blas: float

    @property
    def chosen(self) -> str:
        """``tiles`` or ``BLAS``."""
        return "BLAS" if self.blas > MARGIN * self.tiles else "tiles"


def measure(seconds: Callable[[Callable[[], object]], float] | None = None) -> Iterator[Measured]:
    """Measure class after class, with the threads that compute; afterwards the old rule holds again.

    Parameters
    ----------
    seconds : function that returns the seconds of a call; None for a stop watch
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
    """Return the rule that takes the faster way in each class, from results in the order of classes."""
    return sum(1 << number for number, result in enumerate(results) if result.chosen == "BLAS")


def _rates(rng: np.random.Generator, shape: tuple[int, int, int], transposed: tuple[bool, bool],
           clock: Callable[[Callable[[], object]], float]) -> tuple[float, float]:
    """Return operations per second of tiles and of BLAS."""
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
    """Return the seconds of a call, the least of some measurements: other work of the machine only adds to them."""
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
