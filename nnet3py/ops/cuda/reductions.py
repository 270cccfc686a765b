"""Sums on the GPU: over the rows of a matrix, or over everything.

The operations are those of ``ops/cpu/reductions.py``. The order of a sum depends on sizes alone. Sums to one number are
computed in float64; the host waits for them, so code that must be fast does not use them. Sums of columns are made from
a formula for one element. A block sums a few columns over a part of the rows and stores this partial sum; a second
launch adds the partial sums, in their order, and finishes the operation. So a tall matrix of few columns keeps the
whole GPU busy, and the result is the same in every run::

    @column_sums("mat mat")
    def _products(a, b):
        return a * b

    parts = _products.of(a, b)      # (parts, columns); for a formula with two results, the parts of the second follow

    @kernel("vec mat f32")
    def _finish(dst, parts, alpha):
        for j in own_columns(dst.shape[0]):
            dst[j] = alpha * total(parts, 0, parts.shape[0], j)
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from nnet3py.engine.generated import function_of_text
from nnet3py.ops.arrays import DeviceArray
from nnet3py.ops.cuda import launch
from nnet3py.ops.cuda.launch import MAX_BLOCKS, Kernel, Shape, kernel
from nnet3py.ops.cuda.memory import new_array, results, summed_by_host
from nnet3py.ops.cuda.threads import (
    GROUP,
    MOST_THREADS,
    column_blocks,
    cuda,
    device_function,
    formula,
    is_first_of_block,
    launch_parts,
    own_columns,
    own_rows,
    row,
    sum_down_column,
    sum_over_block,
)
from nnet3py.ops.formulas import functions
from nnet3py.ops.table import documented

ENOUGH_BLOCKS = 1024        # blocks that keep a GPU busy
LEAST_ROWS = 256            # rows of a partial sum: with fewer, the second launch would have too much to add
ZERO, DOUBLE_ZERO = np.float32(0), np.float64(0)

_local = threading.local()


@device_function
def is_refused(counters, place, draw):
    """Return whether a call must not add statistics: ``draw`` is 0 and the counter at ``place`` is not 0."""
    return draw[0] == 0 and counters[place] != 0.0


@device_function
def total(parts, first, last, j):
    """Return the sum of ``parts[first:last, j]``."""
    value = parts[first, j]
    for p in range(first + 1, last):
        value += parts[p, j]
    return value


def launch_shares(rows: int, cols: int) -> Shape:
    """Return grid and block: a block of threads for each group of columns in each part of the rows."""
    if not cols:
        return launch.EMPTY_GRID
    forced = launch.forced()
    if forced:
        return forced
    across = min(-(-cols // GROUP), MAX_BLOCKS)
    return (across, max(1, min(-(-rows // LEAST_ROWS), -(-ENOUGH_BLOCKS // across)))), (GROUP, MOST_THREADS // GROUP)


_TEMPLATE = """
def {name}(parts, {names}{guard_names}):
    shared = cuda.shared.array(MOST_THREADS, dtype)
    {guard}
    cols, num_parts, p = {first}.shape[1], cuda.gridDim.y, cuda.blockIdx.y
    for start in column_blocks(cols):
        there = start + cuda.threadIdx.x < cols
        j = start + cuda.threadIdx.x if there else cols - 1
        {sums} = {zeros}
        for i in own_rows({first}.shape[0]):
            {values} = formula({elements})
            {additions}
        {reductions}
        if there and cuda.threadIdx.y == 0:
            {stores}
"""


def column_sums(kinds: str, terms: int = 1, double: bool = False,
                unless_refused: int | None = None) -> Callable[[Callable[..., Any]], ColumnSums]:
    """Return a decorator that turns a formula for one element into sums of columns, see the module.

    Parameters
    ----------
    kinds : kinds of the formula's arguments, a "mat" for each
    terms : number of values that the formula returns
    double : True to add in float64
    unless_refused : index of the counter for :func:`is_refused`; ``of`` then takes ``counters`` and ``draw`` after the
        matrices, and sums nothing if refused. None to sum always
    """
    return lambda formula: ColumnSums(formula, kinds, terms, double, unless_refused)


class ColumnSums(Kernel):
    """Kernel of the first of the two launches of a sum of columns: it computes partial sums; called by :meth:`of`."""

    def __init__(self, formula: Callable[..., Any], kinds: str, terms: int, double: bool,
                 unless_refused: int | None) -> None:
        guarded = " dvec intcell" if unless_refused is not None else ""
        loop = _loop_over(formula, terms, double, unless_refused)
        super().__init__(loop, f"{'dmat' if double else 'mat'} {kinds}{guarded}", 1, launch_shares, False)
        self.terms, self.dtype = terms, np.float64 if double else np.float32

    def of(self, *args: Any) -> Any:
        """Queue the kernel; return partial sums (terms * count, columns), valid until the next call.

        Row ``t * count + p`` is partial sum p of the formula's result t.
        """
        rows, cols = args[0].shape
        shape = self.shape(rows, cols)
        parts = _place_for(self.terms * max(shape[0][1], 1), cols, self.dtype)
        if shape != launch.EMPTY_GRID:
            self.launch(shape, parts, *args)
        return parts


def _place_for(rows: int, cols: int, dtype: Any) -> Any:
    """Return a device matrix for partial sums in memory that calls share.

    When larger memory is made the smaller one is kept, since captured launches write to it.
    """
    places = _local.__dict__.setdefault(np.dtype(dtype).name, [])
    if not places or places[-1].size < rows * cols:
        places.append(new_array(max(2 * rows * cols, 1 << 16), dtype))
    return places[-1][:rows * cols].reshape(rows, cols)


def _loop_over(formula: Callable[..., Any], terms: int, double: bool, unless_refused: int | None) -> Any:
    """Return a Python function that sums the formula over rows; its source file and name are those of the formula."""
    place = formula.__code__
    names = place.co_varnames[:place.co_argcount]
    count = range(terms)
    zero = "DOUBLE_ZERO" if double else "ZERO"
    source = _TEMPLATE.format(
        name=formula.__name__, names=", ".join(names), first=names[0],
        guard_names="" if unless_refused is None else ", counters, draw",
        guard="" if unless_refused is None else f"if is_refused(counters, {unless_refused}, draw): return",
        sums=", ".join(f"sum{t}" for t in count), zeros=", ".join([zero] * terms),
        values=", ".join(f"value{t}" for t in count), elements=", ".join(f"row({name}, i)[j]" for name in names),
        additions="; ".join(f"sum{t} += value{t}" for t in count),
        reductions="; ".join(f"sum{t} = sum_down_column(shared, sum{t})" for t in count),
        stores="; ".join(f"parts[{t} * num_parts + p, j] = sum{t}" for t in count))
    return function_of_text(source, {
        "np": np, "cuda": cuda, "MOST_THREADS": MOST_THREADS, "dtype": np.float64 if double else np.float32,
        "ZERO": ZERO, "DOUBLE_ZERO": DOUBLE_ZERO, "column_blocks": column_blocks, "own_rows": own_rows,
        "row": row, "sum_down_column": sum_down_column, "is_refused": is_refused,
        "formula": device_function(formula)}, formula)


# -- the operations ----------------------------------------------------------------------------------------------------


keep = formula(functions.keep)


@column_sums("mat")
def sum_of_values(src):
    return src


@column_sums("mat mat")
def _column_products(a, b):
    return a * b


@kernel("vec mat f32 f32")
def _put_sums(dst, parts, alpha, beta):
    for _ in own_rows(1):
        for j in own_columns(dst.shape[0]):
            dst[j] = alpha * total(parts, 0, parts.shape[0], j) + keep(beta, dst[j])


@documented
def add_row_sum(dst: DeviceArray, src: DeviceArray, alpha: float, beta: float) -> None:
    _put_sums(dst, sum_of_values.of(src), alpha, beta)


@documented
def add_row_sum_product(dst: DeviceArray, a: DeviceArray, b: DeviceArray, alpha: float, beta: float) -> None:
    _put_sums(dst, _column_products.of(a, b), alpha, beta)


# -- to one number -----------------------------------------------------------------------------------------------------


@kernel("dvec mat mat", shape=launch_parts)
def _products(parts, a, b):
    """Set ``parts[k]`` to the sum of products of the elements that block k of threads reads."""
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    part = DOUBLE_ZERO
    for i in own_rows(a.shape[0]):
        x, y = row(a, i), row(b, i)
        for j in own_columns(x.shape[0]):
            part += np.float64(x[j]) * np.float64(y[j])
    whole = sum_over_block(shared, part)
    if is_first_of_block():
        parts[cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x] = whole


@documented
@summed_by_host
def sum_product(a: DeviceArray, b: DeviceArray) -> int:
    if not a.size:
        return 0
    shape = launch_parts(*a.shape)
    count = shape[0][0] * shape[0][1]
    _products.launch(shape, results().place(count), a, b)
    return count
