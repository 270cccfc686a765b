"""The numba types of the argument kinds that ``ops/table.py`` names; the same for CPU and GPU kernels."""
from __future__ import annotations

from typing import Any

from numba.core import types

TYPES: dict[str, Any] = {
    "mat": types.Array(types.float32, 2, "A"),      # columns adjacent, any row stride
    "dmat": types.Array(types.float64, 2, "A"),     # columns adjacent, any row stride
    "imat": types.Array(types.int32, 2, "C"),       # (begin, end) pairs
    "vec": types.Array(types.float32, 1, "C"),
    "dvec": types.Array(types.float64, 1, "C"),
    "ivec": types.Array(types.int32, 1, "C"),       # row indexes, -1 for none
    "lvec": types.Array(types.int64, 1, "C"),       # element offsets into an arena, -1 for none
    "u8vec": types.Array(types.uint8, 1, "C"),
    "f32": types.float32,
    "f64": types.float64,
    "int": types.intp,
    "bool": types.boolean,
}


def kinds_of(text: str) -> tuple[Any, ...]:
    """The numba types of kinds separated by blanks."""
    unknown = [kind for kind in text.split() if kind not in TYPES]
    if unknown:
        raise ValueError(f"unknown argument kinds {unknown}; known: {', '.join(TYPES)}")
    return tuple(TYPES[kind] for kind in text.split())


def cell_type(scalar: Any) -> Any:
    """The type of a scalar of type ``scalar`` that lies in device memory, in an array of one element."""
    return types.Array(scalar, 1, "C")
