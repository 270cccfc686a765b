"""Compression and decoding with compiled code, for large amounts; the bits are those of ``compressed.py``.

Inputs are bytes, or memory addresses; outputs are memory addresses. ``compressed_loops.py`` has the loops. Light.
"""
from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, TypeAlias

from nnet3py.engine.loop import Loop

if TYPE_CHECKING:
    import numpy as np

PERCENTILE_STEP = 1.52590218966964e-05                # Kaldi's 1/65535 of the CM layout, a float
_SCRATCH = 1024                                       # floats that decode_columns works in
_PLACE, _RANGE = 40, 8                                # bytes of a matrix in places and ranges
_FEWEST_EACH = 8                                      # matrices for which starting a thread pays
_COUNTS = 513                                         # integers that compress_columns counts with

# What compiled code saves per element, and the cost of loading it. It is used once what it would have saved so far
# exceeds that cost; so at worst the time is twice what it could have been.
_SAVED_DECODING, _SAVED_COMPRESSING = 13e-9, 45e-9   # seconds
COST_OF_LOADING, COST_IF_LOADED = 0.06, 0.005        # seconds, the latter where llvmlite is loaded already

Source: TypeAlias = "bytes | int"

_decode_columns = Loop("nnet3py.formats.compressed_loops", "decode_columns", "u1* u1* i8* f4* f4 i8 f4* f4*")
_decode_bytes = Loop("nnet3py.formats.compressed_loops", "decode_uniform", "u1* f4 f4 i8 f4*")
_decode_words = Loop("nnet3py.formats.compressed_loops", "decode_uniform", "u2* f4 f4 i8 f4*")
_find_ranges = Loop("nnet3py.formats.compressed_loops", "find_ranges", "f4* i8* i8 f4*")
_compress_columns = Loop("nnet3py.formats.compressed_loops", "compress_columns",
                         "f4* i8* f4* f4 i8 u2* u1* f4* u2* i4*")
LOOPS = (_decode_columns, _decode_bytes, _decode_words, _find_ranges, _compress_columns)


_saved_seconds = 0.0            # that compiled code would have saved in this process so far


def _is_worthwhile(num_elements: int, each: float) -> bool:
    """Count ``num_elements`` that save ``each`` seconds; return whether all so far save more than loading takes."""
    global _saved_seconds
    _saved_seconds += num_elements * each
    return _saved_seconds > (COST_IF_LOADED if "llvmlite" in sys.modules else COST_OF_LOADING)


def expect_decoding(num_elements: int) -> bool:
    """Count elements that are to be decoded; return whether to decode them with compiled code."""
    return _is_worthwhile(num_elements, _SAVED_DECODING)


def expect_compressing(num_elements: int) -> bool:
    """Count elements that are to be compressed; return whether to compress them with compiled code."""
    return _is_worthwhile(num_elements, _SAVED_COMPRESSING)


def address(values: np.ndarray) -> int:
    """Return the memory address of an array's elements; the array must live while it is used."""
    return values.__array_interface__["data"][0]


def decode_columns(percentiles: Source, codes: Source, places: bytes, ranges: bytes, target: int,
                   num_threads: int = 1) -> None:
    """Decode matrices of the CM layout to floats, in ``num_threads`` threads.

    Parameters
    ----------
    percentiles, codes : buffers that contain the matrices' percentiles and codes
    places : int64 (matrices, 5) as bytes: the byte where percentiles begin and where codes begin, the float of
        ``target`` where elements begin, rows, columns
    ranges : float32 (matrices, 2) as bytes: minimum and range
    target : memory address of the floats to write
    """
    count = len(places) // _PLACE
    num_threads = max(1, min(num_threads, count // _FEWEST_EACH))
    starts = [count * part // num_threads for part in range(num_threads + 1)]
    own, *others = [(percentiles, codes, places[_PLACE * first:_PLACE * end],
                     ranges[_RANGE * first:_RANGE * end], target)
                    for first, end in zip(starts, starts[1:], strict=False)]
    threads = [threading.Thread(target=_decode_part, args=part) for part in others]
    for thread in threads:
        thread.start()
    _decode_part(*own)
    for thread in threads:
        thread.join()


def _decode_part(percentiles: Source, codes: Source, places: bytes, ranges: bytes, target: int) -> None:
    from ctypes import addressof, c_float

    scratch = (c_float * _SCRATCH)()
    _decode_columns(percentiles, codes, places, ranges, PERCENTILE_STEP, len(places) // _PLACE, target,
                    addressof(scratch))


def decode_uniform(codes: Source, code_bytes: int, minimum: float, step: float, count: int, target: int) -> None:
    """Decode ``count`` codes of one or two bytes to floats: ``minimum + step * code``."""
    (_decode_bytes if code_bytes == 1 else _decode_words)(codes, minimum, step, count, target)


def find_ranges(values: Source, places: bytes, ranges: int) -> None:
    """Find minimum and range of matrices of floats, and write them to address ``ranges``, float32 (matrices, 2).

    ``places`` is int64 (matrices, 3) as bytes: the float where a matrix begins, rows, columns. The range is NaN if an
    element is not finite.
    """
    _find_ranges(values, places, len(places) // 24, ranges)


def compress_columns(values: Source, places: bytes, most_rows: int, ranges: Source, percentiles: int,
                     codes: int) -> None:
    """Compress matrices of floats, of 5 to ``most_rows`` rows, in the CM layout.

    ``places`` and ``ranges`` are those of :func:`find_ranges`. To the addresses ``percentiles`` (uint16, four for each
    column of each matrix) and ``codes`` (a byte for each element) the results are written, except for matrices whose
    range is 0 or not finite.
    """
    import ctypes

    column, coded = (ctypes.c_float * most_rows)(), (ctypes.c_uint16 * most_rows)()
    counts = (ctypes.c_int32 * _COUNTS)()
    _compress_columns(values, places, ranges, PERCENTILE_STEP, len(places) // 24, percentiles, codes,
                      ctypes.addressof(column), ctypes.addressof(coded), ctypes.addressof(counts))
