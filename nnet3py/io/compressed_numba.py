"""Compressing and decoding by compiled code, to the same bits as ``compressed.py``; for when there is much of it.

numba is imported when the first of these functions is called, which lets other threads run while it works; see
``compiling.py``.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from nnet3py.io.compiling import compiled

_SIXTY_THIRD = 1.0 / 63.0
_HIGH_PART = float(np.float32(_SIXTY_THIRD))          # exact products with floats; see compressed.py
_LOW_PART = _SIXTY_THIRD - _HIGH_PART
_SCRATCH_ROWS = 1024                                  # decoded at a time, so that the target's rows stay in the cache


def _decode_columns(codes, points, target):
    num_cols, num_rows = codes.shape
    scratch = np.empty(_SCRATCH_ROWS, np.float32)
    for begin in range(0, num_rows, _SCRATCH_ROWS):
        count = min(num_rows - begin, _SCRATCH_ROWS)
        for col in range(num_cols):
            p0, p25, p75 = points[col, 0], points[col, 1], points[col, 2]
            low, middle, high = p25 - p0, p75 - p25, points[col, 3] - p75
            base = np.float64(p75)
            column = codes[col]
            for row in range(count):
                code = np.float32(column[begin + row])
                first = np.float32(np.float64(p0) + np.float64(low * code) * (1.0 / 64.0))
                second = np.float32(np.float64(p25) + np.float64(middle * (code - np.float32(64))) * (1.0 / 128.0))
                product = np.float64(high * (code - np.float32(192)))
                large = product * _HIGH_PART
                total = base + large
                part = total - base
                lost = (base - (total - part)) + (large - part)
                third = np.float32(total + (lost + product * _LOW_PART))
                scratch[row] = first if code <= np.float32(64) else second if code <= np.float32(192) else third
            for row in range(count):
                target[begin + row, col] = scratch[row]


def _decode_uniform(codes, minimum, step, target):
    for row in range(codes.shape[0]):
        for col in range(codes.shape[1]):
            target[row, col] = np.float32(np.float64(minimum) + np.float64(step) * np.float64(codes[row, col]))


def _compress_columns(values, minimum, scale, step, percentiles, codes):
    num_rows, num_cols = values.shape
    column, coded = np.empty(num_rows, np.float32), np.empty(num_rows, np.uint16)
    uppers, lowers = np.empty(256, np.int32), np.empty(257, np.int32)
    found, points = np.empty(4, np.int64), np.empty(4, np.float32)
    for col in range(num_cols):
        lowest, highest = 65535, 0
        for row in range(num_rows):
            column[row] = values[row, col]
            fraction = min(max((column[row] - minimum) / scale, np.float32(0)), np.float32(1))
            coded[row] = np.int32(np.float64(fraction * np.float32(65535)) + 0.499)
        # The order statistics of the values have the codes that are the order statistics of the values' codes. They
        # are found by counting first their upper and then their lower bytes, which takes no branches.
        uppers[:] = 0
        for row in range(num_rows):
            code = np.int32(coded[row])
            lowest, highest = min(lowest, code), max(highest, code)
            uppers[code >> 8] += 1
        upper, before = 0, 0
        for place in range(1, 3):
            rank = num_rows // 4 * (1 if place == 1 else 3)
            while before + uppers[upper] <= rank:
                before += uppers[upper]
                upper += 1
            lowers[:] = 0
            for row in range(num_rows):
                code = np.int32(coded[row])
                lowers[(code & 255) if (code >> 8) == upper else 256] += 1
            lower, below_it = 0, before
            while below_it + lowers[lower] <= rank:
                below_it += lowers[lower]
                lower += 1
            found[place] = 256 * upper + lower
        found[0], found[3] = lowest, highest
        least = 0
        for place in range(4):
            code = min(max(found[place], least), 65532 + place)
            least = code + 1
            percentiles[col, place] = code
            points[place] = np.float32(np.float64(minimum) + np.float64(step) * np.float64(code))
        p0, p25, p75 = points[0], points[1], points[2]
        low, middle, high = p25 - p0, p75 - p25, points[3] - p75
        for row in range(num_rows):
            value = column[row]
            below, between = value < p25, value < p75
            base = p0 if below else p25 if between else p75
            size = low if below else middle if between else high
            steps = np.float32(64) if below else np.float32(128) if between else np.float32(63)
            part = np.float64((value - base) / size * steps) + 0.5
            part = min(max(part, 0.0), np.float64(steps)) if part == part else 0.0
            codes[col, row] = np.int32(part) + (0 if below else 64 if between else 192)


def _decode_batch(data, places, ranges, steps, target):
    percentiles = np.empty(4, np.int64)
    for one in range(places.shape[0]):
        at, begin, num_rows, num_cols = places[one, 0], places[one, 1], places[one, 2], places[one, 3]
        points = np.empty((num_cols, 4), np.float32)
        for col in range(num_cols):
            for place in range(4):
                percentiles[place] = np.int64(data[at]) + 256 * np.int64(data[at + 1])
                points[col, place] = np.float32(
                    np.float64(ranges[one, 0]) + np.float64(steps[one]) * np.float64(percentiles[place]))
                at += 2
        count = num_rows * num_cols
        _decode_columns_compiled(data[at:at + count].reshape((num_cols, num_rows)), points,
                                 target[begin:begin + count].reshape((num_rows, num_cols)))


def _compress_batch(values, places, ranges, percentile_step, percentiles, codes):
    column_of = 0
    for one in range(places.shape[0]):
        begin, num_rows, num_cols = places[one, 0], places[one, 1], places[one, 2]
        count = num_rows * num_cols
        part = values[begin:begin + count]
        lowest = highest = part[0]
        for i in range(count):
            lowest, highest = min(lowest, part[i]), max(highest, part[i])
            if not abs(part[i]) <= np.float32(3.4028234663852886e38):
                highest = np.float32(np.nan)
                break
        scale = np.float32(highest - lowest)
        ranges[one, 0], ranges[one, 1] = lowest, scale
        if scale > np.float32(0) and scale <= np.float32(3.4028234663852886e38):
            _compress_columns_compiled(part.reshape((num_rows, num_cols)), lowest, scale, scale * percentile_step,
                                       percentiles[column_of:column_of + num_cols],
                                       codes[begin:begin + count].reshape((num_cols, num_rows)))
        column_of += num_cols


_decode_columns_compiled: Any = None                  # set before what calls them is compiled
_compress_columns_compiled: Any = None


@cache
def _compiled(function: Callable[..., Any], code_type: str = "uint8") -> Callable[..., Any]:
    """``function`` compiled for codes of that type."""
    global _decode_columns_compiled, _compress_columns_compiled
    from numba import types

    if function is _decode_batch:
        _decode_columns_compiled = _compiled(_decode_columns)
    elif function is _compress_batch:
        _compress_columns_compiled = _compiled(_compress_columns)
    code, real = getattr(types, code_type), types.float32
    codes, matrix = types.Array(code, 2, "C", readonly=True), types.Array(real, 2, "C", readonly=True)
    signature = {
        _decode_columns: types.void(codes, matrix, real[:, :]),
        _decode_uniform: types.void(codes, real, real, real[:, :]),
        _decode_batch: types.void(types.Array(types.uint8, 1, "C", readonly=True), types.int64[:, ::1],
                                  real[:, ::1], real[::1], real[::1]),
        _compress_batch: types.void(types.Array(real, 1, "C", readonly=True), types.int64[:, ::1], real[:, ::1], real,
                                    types.uint16[:, ::1], types.uint8[::1]),
        _compress_columns: types.void(matrix, real, real, real, types.uint16[:, ::1], types.uint8[:, ::1]),
    }[function]
    return compiled(function, signature)


def decode_columns(codes: np.ndarray, points: np.ndarray, target: np.ndarray) -> None:
    """Decode bytes (cols, rows) between the percentiles (cols, 4) into ``target``, float32 (rows, cols)."""
    _compiled(_decode_columns)(codes, points, target)


def decode_uniform(codes: np.ndarray, minimum: np.float32, step: np.float32, target: np.ndarray) -> None:
    """``target`` := ``minimum + step * codes``, for uint8 or uint16 (rows, cols)."""
    _compiled(_decode_uniform, codes.dtype.name)(codes, minimum, step, target)


def compress_columns(values: np.ndarray, minimum: np.float32, scale: np.float32, step: np.float32,
                     percentiles: np.ndarray, codes: np.ndarray) -> None:
    """Compress float32 (rows, cols), 5 rows or more, in the CM layout: into uint16 (cols, 4) and uint8 (cols, rows).

    ``scale`` is the range of the values, ``step`` what a percentile's code is a multiple of.
    """
    _compiled(_compress_columns)(values, minimum, scale, step, percentiles, codes)


def compilations() -> list[Callable[[], Any]]:
    """Functions that compile each of these loops, or load it from the disk."""
    forms = ((_decode_columns, "uint8"), (_decode_uniform, "uint8"), (_decode_uniform, "uint16"),
             (_compress_columns, "uint8"), (_decode_batch, "uint8"), (_compress_batch, "uint8"))
    return [partial(_compiled, *form) for form in forms]


def decode_batch(data: np.ndarray, places: np.ndarray, ranges: np.ndarray, steps: np.ndarray,
                 target: np.ndarray) -> None:
    """Decode matrices of the CM layout, without giving way to other threads' Python in between.

    ``data`` is uint8; ``places`` int64 (n, 4) says of each matrix where its percentiles begin there and its elements in
    ``target`` float32, and its rows and columns; ``ranges`` float32 (n, 2) are minimum and range, ``steps`` (n,) what
    a percentile's code is a multiple of.
    """
    _compiled(_decode_batch)(data, places, ranges, steps, target)


def compress_batch(values: np.ndarray, places: np.ndarray, ranges: np.ndarray, percentile_step: np.float32,
                   percentiles: np.ndarray, codes: np.ndarray) -> None:
    """Compress matrices, 5 rows or more, in the CM layout, without giving way to other threads' Python in between.

    ``values`` is float32; ``places`` int64 (n, 3) says where each matrix begins there, and its rows and columns.
    Written are ``ranges`` float32 (n, 2), minimum and range; ``percentiles`` uint16 (columns of all, 4); ``codes``
    uint8, as many as values. A matrix whose range is not above 0 and finite is left out.
    """
    _compiled(_compress_batch)(values, places, ranges, percentile_step, percentiles, codes)
