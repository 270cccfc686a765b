"""Arithmetic on all parameters of a network at once, which lie side by side in one vector of device memory.

``starts`` cuts the vector into segments, one for each component; one launch computes all segments. Sums of products are
formed in two steps of a fixed order, so that they are the same in every run.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnet3py.ops.cuda.launch import MAX_BLOCKS, THREADS, Kernel, Shape, cuda, forced, kernel
from nnet3py.ops.cuda.memory import new_array, upload
from nnet3py.ops.cuda.threads import MOST_THREADS, is_first_of_block, launch_block, places_in_block, sum_over_block

PARTS = 64          # blocks that share a segment
ZERO, DOUBLE_ZERO, DOUBLE_ONE = np.float32(0), np.float64(0), np.float64(1)


def _over_segments(rows: int, cols: int) -> Shape:
    """Return grid and block: ``PARTS`` blocks of threads along x, segments along y."""
    (blocks, _), (threads, _) = forced() or ((PARTS, 1), (THREADS, 1))
    return (min(PARTS, blocks), min(cols, MAX_BLOCKS)), (threads, 1)


@kernel("dmat vec vec lvec", over=3, shape=_over_segments)
def _partial_products(parts, a, b, starts):      # type: ignore[no-untyped-def]
    """Set ``parts[s, p]`` to the sum of a[i] b[i] over part p of segment s, in float64."""
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    for s in range(cuda.blockIdx.y, starts.shape[0] - 1, cuda.gridDim.y):
        for p in range(cuda.blockIdx.x, parts.shape[1], cuda.gridDim.x):
            total = DOUBLE_ZERO
            first = starts[s] + p * cuda.blockDim.x + cuda.threadIdx.x
            for i in range(first, starts[s + 1], parts.shape[1] * cuda.blockDim.x):
                total += np.float64(a[i]) * np.float64(b[i])
            total = sum_over_block(shared, total)
            if cuda.threadIdx.x == 0:
                parts[s, p] = total


@kernel("dvec dmat")
def _sum_of_parts(sums, parts):      # type: ignore[no-untyped-def]
    """Set ``sums[s]`` to the sum of row s of ``parts``."""
    for s in range(cuda.grid(2)[0], sums.shape[0], cuda.gridsize(2)[0]):
        total = DOUBLE_ZERO
        for p in range(parts.shape[1]):
            total += parts[s, p]
        sums[s] = total


def _scaling(kinds: str, zero: Any) -> Kernel:
    one = zero + type(zero)(1)

    @kernel(kinds, over=1, shape=_over_segments)
    def scale_segments(values, starts, factors):      # type: ignore[no-untyped-def]
        """Multiply each segment by its factor; for factor 0 even NaN becomes 0."""
        for s in range(cuda.blockIdx.y, starts.shape[0] - 1, cuda.gridDim.y):
            factor = factors[s]
            first = starts[s] + cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
            if factor != one:
                for i in range(first, starts[s + 1], cuda.gridDim.x * cuda.blockDim.x):
                    values[i] = values[i] * factor if factor != zero else zero

    return scale_segments


def _adding(kinds: str, zero: Any) -> Kernel:
    @kernel(kinds, over=2, shape=_over_segments)
    def add_segments(values, others, starts, factors):      # type: ignore[no-untyped-def]
        """Add to each segment that of ``others`` times its factor; for factor 0 nothing is added, even for NaN."""
        for s in range(cuda.blockIdx.y, starts.shape[0] - 1, cuda.gridDim.y):
            factor = factors[s]
            first = starts[s] + cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
            if factor != zero:
                for i in range(first, starts[s + 1], cuda.gridDim.x * cuda.blockDim.x):
                    values[i] += factor * others[i]

    return add_segments


_scale_floats, _scale_doubles = _scaling("vec lvec vec", ZERO), _scaling("dvec lvec dvec", DOUBLE_ZERO)
_add_floats, _add_doubles = _adding("vec vec lvec vec", ZERO), _adding("dvec dvec lvec dvec", DOUBLE_ZERO)


@kernel("dvec vec vec dvec dvec dvec dvec f64 f64 f64", shape=launch_block)
def limit_changes(factors, add, remain, add_double, remain_double, squares, limits, global_limit, scale, momentum):
    # type: ignore[no-untyped-def]
    """Compute factors that limit changes of parameters, as ``limiting_factors`` of ``runtime/parameter_store.py``.

    ``squares`` has the squared norm of each component's change. ``add`` (float32) and ``add_double`` (float64) become
    the factors with which changes are added to parameters; ``remain`` and ``remain_double`` those by which changes are
    multiplied afterwards: ``momentum``; 0 if the change is infinite and not added; 1 where the limit is NaN.
    """
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    count, size, part = squares.shape[0], abs(scale), DOUBLE_ZERO
    for place in places_in_block(count):
        c = np.int64(place)
        own, limit, factor = math.sqrt(squares[c]) * size, limits[c], DOUBLE_ONE
        if limit != limit:
            factor = DOUBLE_ZERO
        elif limit != DOUBLE_ZERO and own > limit:
            factor = limit / own
        factors[c] = factor
        part += factor * factor * squares[c]
    total = size * math.sqrt(sum_over_block(shared, part))
    overall = DOUBLE_ONE
    if global_limit != DOUBLE_ZERO and total > global_limit:
        overall = global_limit / total
    applied = not (overall == DOUBLE_ZERO and total > global_limit)
    for place in places_in_block(count):
        c = np.int64(place)
        factor = factors[c] * scale * overall if applied else DOUBLE_ZERO
        rest = DOUBLE_ONE if limits[c] != limits[c] else momentum if applied else DOUBLE_ZERO
        add[c], add_double[c] = np.float32(factor), np.float64(np.float32(factor))
        remain[c], remain_double[c] = np.float32(rest), np.float64(np.float32(rest))
    if is_first_of_block():
        factors[count] = overall if applied else math.nan


class Segments:
    """Vector in device memory, cut into segments.

    Parameters
    ----------
    values : float32 or float64 device vector
    starts : int64 (segments + 1,), on the host: where segments start, and where the last one ends
    """

    def __init__(self, values: Any, starts: np.ndarray) -> None:
        self.values = values
        self._starts = upload(np.ascontiguousarray(starts, np.int64))
        self._count = len(starts) - 1
        self._scale, self._add = ((_scale_floats, _add_floats) if values.dtype == np.float32
                                  else (_scale_doubles, _add_doubles))
        self._parts: Any = None
        self._products: Any = None

    def scale(self, factors: Any) -> None:
        """Multiply segment s by ``factors[s]``; ``factors`` is a device vector of the values' dtype."""
        self._scale(self.values, self._starts, factors)

    def add(self, factors: Any, other: Segments) -> None:
        """Add ``factors[s]`` times segment s of ``other`` to segment s; ``factors`` is a device vector."""
        self._add(self.values, other.values, self._starts, factors)

    def queue_dot_products(self, other: Segments) -> Any:
        """Queue the dot products of segments with those of ``other``; return float64 (segments,) in device memory.

        The host does not wait; the array is valid until the next call.
        """
        if self._products is None:
            self._products = new_array(self._count, np.float64)
            self._parts = new_array((self._count, PARTS), np.float64)
        if self._count:
            _partial_products(self._parts, self.values, other.values, self._starts)
            _sum_of_parts(self._products, self._parts)
        return self._products
