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


# -- functions and kernels of a formula -------------------------------------------------------------------------------


_ROW_FUNCTION = """
def {name}({names}):
    count, j, step = np.uint64({first}.shape[0]), first_column(), column_step()
    while j < count:
        j1, j2, j3 = j + step, j + step + step, j + step + step + step
        k1, k2, k3 = inside(j1, j, count), inside(j2, j, count), inside(j3, j, count)
        {loads}
        {first}[j] = formula({values0})
        if j1 < count:
            {first}[j1] = formula({values1})
        if j2 < count:
            {first}[j2] = formula({values2})
        if j3 < count:
            {first}[j3] = formula({values3})
        j = j3 + step
"""
_KERNEL = """
def {name}({names}):
    i, step = first_row(), row_distance()
    while i < {first}.shape[0]:
        compute_row({rows})
        i += step
"""


def row_function(formula: Callable[..., Any], kinds: str) -> Any:
    """Make a device function that computes this thread's elements of a row by a formula.

    Its arguments are those of the formula, with vectors in place of elements of a "mat" or "vec".
    """
    names = _names_of(formula)
    vectors = {name for name, kind in zip(names, kinds.split(), strict=True) if kind in ("mat", "vec")}
    values = {f"values{k}": ", ".join(f"{name}{k}" if name in vectors else name for name in names)
              for k in range(AT_ONCE)}
    loads = "; ".join(f"{name}{k} = {name}[{'k' if k else 'j'}{k or ''}]"
                      for name in names if name in vectors for k in range(AT_ONCE))
    source = _ROW_FUNCTION.format(name=formula.__name__, names=", ".join(names), first=names[0], loads=loads, **values)
    return device_function(function_of_text(source, {
        "np": np, "first_column": first_column, "column_step": column_step, "inside": inside,
        "formula": device_formula(formula)}, formula))


def _names_of(formula: Callable[..., Any]) -> tuple[str, ...]:
    return formula.__code__.co_varnames[:formula.__code__.co_argcount]


def of_elements(kinds: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that makes a kernel from a formula; ``kinds`` are its arguments' kinds, see the module."""
    return lambda formula: element_kernel(formula, kinds, formula)


def element_kernel(formula: Callable[..., Any], kinds: str, like: Callable[..., Any]) -> Kernel:
    """Make a kernel from a formula; it gets the source file, module and docstring of ``like``."""
    names = _names_of(formula)
    of_row = {"mat": "row({0}, i)", "rowvec": "{0}[i]"}
    source = _KERNEL.format(
        name=formula.__name__, names=", ".join(names), first=names[0],
        rows=", ".join(of_row.get(kind, "{0}").format(name) for name, kind in zip(names, kinds.split(), strict=True)))
    loop = function_of_text(source, {"first_row": first_row, "row_distance": row_distance, "row": row,
                                     "compute_row": row_function(formula, kinds)}, like)
    return Kernel(loop, kinds, 0, launch_elements, False)


fill_row, scale_row = row_function(elements.set_const, "mat f32"), row_function(elements.copy_mat, "mat mat f32")
add_row = row_function(elements.add_mat, "mat mat f32")
multiply_row = row_function(elements.mul_elements, "mat mat mat")


# -- the elementwise operations, of the formulas of ``ops/formulas/elements.py`` ---------------------------------------


def make_kernel(operation: Operation) -> Kernel:
    """Make the kernel of an elementwise operation from its formula."""
    formula = getattr(elements, operation.name)
    return element_kernel(formula, operation.kinds, operation.stand_in(__file__, __name__))


KERNELS = {operation.name: make_kernel(operation) for operation in FAMILIES["elementwise"]}
globals().update(KERNELS)       # as names of the module, where kernels are looked up
