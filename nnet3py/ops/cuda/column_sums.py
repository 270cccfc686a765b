"""Sums of columns, over matrices of any number of rows, made of the formula of what is added for each element.

A block sums a few columns over a share of the rows and leaves its part; a second launch adds the parts, in their order,
and does with the sums what the operation wants. So a tall matrix keeps the whole GPU busy, however few its columns
are, and the result is the same in every run::

    @column_sums("mat mat")
    def _products(a, b):
        return a * b

    parts = _products.of(a, b)      # (parts, columns); of formulas that return two values, the second's parts follow

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
from nnet3py.ops.cuda import launch
from nnet3py.ops.cuda.launch import MAX_BLOCKS, Kernel, Shape
from nnet3py.ops.cuda.memory import new_array
from nnet3py.ops.cuda.reduce import GROUP, MOST_THREADS, sum_down_column
from nnet3py.ops.cuda.threads import column_blocks, cuda, device_function, own_rows, row

ENOUGH_BLOCKS = 1024        # to keep a GPU busy
LEAST_ROWS = 256            # of a part, so that there is more to sum than to finish
ZERO, DOUBLE_ZERO = np.float32(0), np.float64(0)

_local = threading.local()


@device_function
def is_refused(counters, place, draw):
    """Whether nothing is to be added to statistics, since ``draw`` is 0 and something is stored already."""
    return draw[0] == 0 and counters[place] != 0.0


@device_function
def total(parts, first, last, j):
    """The sum of rows ``first`` to ``last`` - 1 of column ``j``."""
    value = parts[first, j]
    for p in range(first + 1, last):
        value += parts[p, j]
    return value


def launch_shares(rows: int, cols: int) -> Shape:
    """A block for each group of columns and share of the rows."""
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
    """Make the kernel of a formula of elements, see the module.

    Parameters
    ----------
    kinds : of the arguments, all "mat"
    terms : how many values the formula returns
    double : whether they are added in float64
    unless_refused : the place of the counter that, with a draw, decides whether anything is summed; both are given to
        ``of`` after the matrices
    """
    return lambda formula: ColumnSums(formula, kinds, terms, double, unless_refused)


class ColumnSums(Kernel):
    """The first of the two launches; :meth:`of` does it."""

    def __init__(self, formula: Callable[..., Any], kinds: str, terms: int, double: bool,
                 unless_refused: int | None) -> None:
        guarded = " dvec intcell" if unless_refused is not None else ""
        loop = _loop_over(formula, terms, double, unless_refused)
        super().__init__(loop, f"{'dmat' if double else 'mat'} {kinds}{guarded}", 1, launch_shares, False)
        self.terms, self.dtype = terms, np.float64 if double else np.float32

    def of(self, *args: Any) -> Any:
        """The parts of the sums, valid until the next call; row ``t * count + p`` is part p of term t."""
        rows, cols = args[0].shape
        shape = self.shape(rows, cols)
        parts = _place_for(self.terms * max(shape[0][1], 1), cols, self.dtype)
        if shape != launch.EMPTY_GRID:
            self.launch(shape, parts, *args)
        return parts


def _place_for(rows: int, cols: int, dtype: Any) -> Any:
    """Device memory that every call uses again. What was too small is kept, since captured launches write to it."""
    places = _local.__dict__.setdefault(np.dtype(dtype).name, [])
    if not places or places[-1].size < rows * cols:
        places.append(new_array(max(2 * rows * cols, 1 << 16), dtype))
    return places[-1][:rows * cols].reshape(rows, cols)


def _loop_over(formula: Callable[..., Any], terms: int, double: bool, unless_refused: int | None) -> Any:
    """The function whose loops the formula is for; it stands where the formula stands."""
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
