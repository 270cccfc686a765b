"""The elementwise operations on the GPU, and other kernels made from a formula for one element.

A GPU waits for memory unless many accesses are in flight. So a thread loads the elements of several columns before it
stores the first result; the compiler cannot reorder loads and stores so, since a store might change what is loaded
next. The formula is a function of numbers::

    @of_elements("mat vec vec")
    def _scale_and_shift(dst, scale, offset):
        return dst * scale + offset

A matrix stands for its element, a vector for the element of the column, or of the row if it is a ``rowvec``; the result
goes into the first argument.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnet3py.engine.generated import function_of_text
from nnet3py.ops.cuda.launch import EMPTY_GRID, MAX_BLOCKS, THREADS, Kernel, Shape, forced
from nnet3py.ops.cuda.threads import cuda, device_function, row
from nnet3py.ops.cuda.threads import formula as device_formula
from nnet3py.ops.formulas import elements
from nnet3py.ops.table import FAMILIES, Operation

AT_ONCE = 4             # columns whose elements a thread loads before it uses them
MOST_BLOCKS = 4096      # of a grid


def launch_elements(rows: int, cols: int) -> Shape:
    """Return grid and block for threads that take :data:`AT_ONCE` columns at a time."""
    if not rows or not cols:
        return EMPTY_GRID
    shape = forced()
    if shape:
        return shape
    width = 32
    while width * AT_ONCE < cols and width < THREADS:
        width *= 2
    height = THREADS // width
    across = min(-(-cols // (width * AT_ONCE)), MAX_BLOCKS)
    return (across, min(-(-rows // height), max(1, MOST_BLOCKS // across))), (width, height)


@device_function
def first_row():
    """Return the number of the first row that this thread computes."""
    return np.int64(cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y)


@device_function
def row_distance():
    """Return the step from one row of this thread to the next."""
    return np.int64(cuda.gridDim.y * cuda.blockDim.y)


@device_function
def first_column():
    """Return the number of the first column that this thread computes."""
    return np.uint64(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)


@device_function
def column_step():
    """Return the step from one column of this thread to the next."""
    return np.uint64(cuda.gridDim.x * cuda.blockDim.x)


@device_function
def inside(column, otherwise, count):
    """Return ``column`` if it is less than ``count``, else ``otherwise``."""
    return column if column < count else otherwise


# -- whole rows --------------------------------------------------------------------------------------------------------


@device_function
def fill_row(d, value):
    """Set ``d[j] = value`` in this thread's columns."""
    j, step, count = first_column(), column_step(), np.uint64(d.shape[0])
    while j < count:
        d[j] = value
        j += step


@device_function
def scale_row(d, s, alpha):
    """Set ``d[j] = alpha s[j]`` in this thread's columns; ``d`` may be ``s``."""
    j, step, count = first_column(), column_step(), np.uint64(d.shape[0])
    while j < count:
        j1, j2, j3 = j + step, j + step + step, j + step + step + step
        s0, s1 = s[j], s[inside(j1, j, count)]
        s2, s3 = s[inside(j2, j, count)], s[inside(j3, j, count)]
        d[j] = alpha * s0
        if j1 < count:
            d[j1] = alpha * s1
        if j2 < count:
            d[j2] = alpha * s2
        if j3 < count:
            d[j3] = alpha * s3
        j = j3 + step


@device_function
def add_row(d, s, alpha):
    """Compute ``d[j] += alpha s[j]`` in this thread's columns."""
    j, step, count = first_column(), column_step(), np.uint64(d.shape[0])
    while j < count:
        j1, j2, j3 = j + step, j + step + step, j + step + step + step
        k1, k2, k3 = inside(j1, j, count), inside(j2, j, count), inside(j3, j, count)
        s0, s1, s2, s3 = s[j], s[k1], s[k2], s[k3]
        d0, d1, d2, d3 = d[j], d[k1], d[k2], d[k3]
        d[j] = d0 + alpha * s0
        if j1 < count:
            d[j1] = d1 + alpha * s1
        if j2 < count:
            d[j2] = d2 + alpha * s2
        if j3 < count:
            d[j3] = d3 + alpha * s3
        j = j3 + step


@device_function
def multiply_row(d, s, m):
    """Set ``d[j] = s[j] m[j]`` in this thread's columns; ``d`` may be ``s``."""
    j, step, count = first_column(), column_step(), np.uint64(d.shape[0])
    while j < count:
        j1, j2, j3 = j + step, j + step + step, j + step + step + step
        k1, k2, k3 = inside(j1, j, count), inside(j2, j, count), inside(j3, j, count)
        s0, s1, s2, s3 = s[j], s[k1], s[k2], s[k3]
        m0, m1, m2, m3 = m[j], m[k1], m[k2], m[k3]
        d[j] = s0 * m0
        if j1 < count:
            d[j1] = s1 * m1
        if j2 < count:
            d[j2] = s2 * m2
        if j3 < count:
            d[j3] = s3 * m3
        j = j3 + step


# -- kernels of a formula ----------------------------------------------------------------------------------------------

_TEMPLATE = """
def {name}({names}):
    count = np.uint64({first}.shape[1])
    step = column_step()
    i, row_step = first_row(), row_distance()
    while i < {first}.shape[0]:
{rows}
        j = first_column()
        while j < count:
            j1, j2, j3 = j + step, j + step + step, j + step + step + step
            k1, k2, k3 = inside(j1, j, count), inside(j2, j, count), inside(j3, j, count)
{loads}
            {first}_row[j] = formula({values0})
            if j1 < count:
                {first}_row[j1] = formula({values1})
            if j2 < count:
                {first}_row[j2] = formula({values2})
            if j3 < count:
                {first}_row[j3] = formula({values3})
            j = j3 + step
        i += row_step
"""


def of_elements(kinds: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that makes a kernel from a formula; ``kinds`` are its arguments' kinds, see the module."""
    return lambda formula: element_kernel(formula, kinds, formula)


def element_kernel(formula: Callable[..., Any], kinds: str, like: Callable[..., Any]) -> Kernel:
    """Make a kernel from a formula; it gets the source file, module and docstring of ``like``."""
    return Kernel(_loop_over(formula, kinds.split(), like), kinds, 0, launch_elements, False)


def _loop_over(formula: Callable[..., Any], kinds: list[str], like: Callable[..., Any]) -> Any:
    """Return a Python function that loops over a thread's elements and calls the formula for each."""
    place = formula.__code__
    names = place.co_varnames[:place.co_argcount]
    rows, loads = [], []
    for name, kind in zip(names, kinds, strict=True):
        if kind == "mat":
            rows.append(f"        {name}_row = row({name}, i)")
        elif kind == "rowvec":
            rows.append(f"        {name}_here = {name}[i]")
        elif kind == "vec":
            rows.append(f"        {name}_row = {name}")
        if kind in ("mat", "vec"):
            loads += [f"            {name}{k} = {name}_row[{'k' if k else 'j'}{k or ''}]" for k in range(AT_ONCE)]
    values = {f"values{k}": ", ".join(
        f"{name}_here" if kind == "rowvec" else f"{name}{k}" if kind in ("mat", "vec") else name
        for name, kind in zip(names, kinds, strict=True)) for k in range(AT_ONCE)}
    source = _TEMPLATE.format(
        name=formula.__name__, names=", ".join(names), first=names[0], rows="\n".join(rows),
        loads="\n".join(loads), **values)
    return function_of_text(source, {
        "np": np, "row": row, "first_row": first_row, "row_distance": row_distance, "first_column": first_column,
        "column_step": column_step, "inside": inside, "formula": device_formula(formula)}, like)


# -- the elementwise operations, of the formulas of ``ops/formulas/elements.py`` ---------------------------------------


def make_kernel(operation: Operation) -> Kernel:
    """Make the kernel of an elementwise operation from its formula."""
    formula = getattr(elements, operation.name)
    return element_kernel(formula, operation.kinds, operation.stand_in(__file__, __name__))


KERNELS = {operation.name: make_kernel(operation) for operation in FAMILIES["elementwise"]}
globals().update(KERNELS)       # as names of the module, where kernels are looked up
