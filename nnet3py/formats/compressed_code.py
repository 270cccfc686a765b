"""Compressing and decoding by compiled code, to the same bits as ``compressed.py``; for large amounts.

What is read is given as bytes, or as its address; what is written as its address. See ``compressed_loops.py`` for the
loops. Light.
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


class _Saving:
    """A count of the time that compiled code would have saved in this process."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def is_worthwhile(self, num_elements: int, each: float) -> bool:
        """Return whether to use compiled code for ``num_elements`` more, each of which saves ``each`` seconds."""
        self.seconds += num_elements * each
        return self.seconds > (COST_IF_LOADED if "llvmlite" in sys.modules else COST_OF_LOADING)


_saving = _Saving()


def expect_decoding(num_elements: int) -> bool:
    """Announce that many elements to be decoded; return whether compiled code decodes them, from now on."""
    return _saving.is_worthwhile(num_elements, _SAVED_DECODING)


def expect_compressing(num_elements: int) -> bool:
    """Announce that many elements to be compressed; return whether compiled code does it, from now on."""
    return _saving.is_worthwhile(num_elements, _SAVED_COMPRESSING)


def address(values: np.ndarray) -> int:
    """Return the address of an array's elements; the array must outlive its use."""
    return values.__array_interface__["data"][0]


def decode_columns(percentiles: Source, codes: Source, places: bytes, ranges: bytes, target: int,
                   num_threads: int = 1) -> None:
    """Decode matrices of the CM layout to floats, shared by that many threads.

    ``places`` (int64, five for each matrix) says at which byte percentiles and codes begin, at which float of the
    target the elements, and how many rows and columns there are; ``ranges`` (float32, two for each) are minimum and
    range.
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
    """Find minimum and range (float32, two for each) of matrices of floats; a range of NaN if a float is not finite.

    ``places`` (int64, three for each matrix) says at which float it begins, and its rows and columns.
    """
    _find_ranges(values, places, len(places) // 24, ranges)


def compress_columns(values: Source, places: bytes, most_rows: int, ranges: Source, percentiles: int,
                     codes: int) -> None:
    """Compress matrices of floats, of 5 to ``most_rows`` rows, in the CM layout.

    ``places`` and ``ranges`` are those of :func:`find_ranges`. It writes ``percentiles`` (uint16, four for each
    column of each matrix) and ``codes`` (a byte for each float), except for a matrix whose range is not above 0
    and finite.
    """
    import ctypes

    column, coded = (ctypes.c_float * most_rows)(), (ctypes.c_uint16 * most_rows)()
    counts = (ctypes.c_int32 * _COUNTS)()
    _compress_columns(values, places, ranges, PERCENTILE_STEP, len(places) // 24, percentiles, codes,
                      ctypes.addressof(column), ctypes.addressof(coded), ctypes.addressof(counts))
