"""The numba types for the kinds of arguments of kernels, such as "mat" for a float32 matrix, on CPU and GPU."""
from __future__ import annotations

from typing import Any

from numba.core import types

TYPES: dict[str, Any] = {
    "mat": types.Array(types.float32, 2, "A"),      # columns adjacent, any row stride
    "dmat": types.Array(types.float64, 2, "A"),     # columns adjacent, any row stride
    "imat": types.Array(types.int32, 2, "C"),       # (begin, end) pairs
    "vec": types.Array(types.float32, 1, "C"),
    "rowvec": types.Array(types.float32, 1, "C"),   # an element for each row
    "dvec": types.Array(types.float64, 1, "C"),
    "ivec": types.Array(types.int32, 1, "C"),       # row indexes, -1 for none
    "lvec": types.Array(types.int64, 1, "C"),       # element offsets into an arena, -1 for none
    "f32": types.float32,
    "f64": types.float64,
    "int": types.intp,
    "f32cell": types.float32,                       # on a GPU an array of one element, see `cell_type`
    "intcell": types.intp,
    "bool": types.boolean,
}


def kinds_of(text: str) -> tuple[Any, ...]:
    """Return the numba types of a text of kinds separated by blanks."""
    unknown = [kind for kind in text.split() if kind not in TYPES]
    if unknown:
        raise ValueError(f"unknown argument kinds {unknown}, expected some of {', '.join(TYPES)}")
    return tuple(TYPES[kind] for kind in text.split())


def cell_type(kind: str) -> Any:
    """Return the numba type of the one-element array that is a GPU kernel's argument of a kind such as "f32cell"."""
    return types.Array(TYPES[kind], 1, "C")
