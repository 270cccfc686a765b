"""Decoding and compressing many matrices at once, from the bytes of their files to those bytes.

Compiled code goes through a batch in one call, so that other threads can meanwhile read and write.
"""
from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nnet3py.io import compressed_numba
from nnet3py.io.byte_pieces import BytePieces
from nnet3py.io.compressed import HEADER, PERCENTILE_STEP, CompressedMatrix, CompressionMethod
from nnet3py.io.dense_skimmer import dense_matrix
from nnet3py.io.raw_matrix import Head, head_of

BATCH = 1 << 21                 # bytes of floats that are handled at once
_FEWEST_ROWS = 9                # of a matrix that the automatic method compresses by columns
_DENSE = struct.Struct("<3sbibi")


def batches(entries: Iterable[tuple[str, Any]]) -> Iterator[list[tuple[str, Any]]]:
    """Yield the entries, whose values are matrices or their bytes, in batches."""
    batch: list[tuple[str, Any]] = []
    size = 0
    for key, value in entries:
        batch.append((key, value))
        size += len(value) * (1 if value[:3] == b"FM " else 4) if isinstance(value, bytes) else BATCH
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def decoded(values: Sequence[Any]) -> list[Any]:
    """Each matrix dense: as bytes to be written, or float32 (rows, cols)."""
    results: list[Any] = [
        None if isinstance(value, bytes) and value[:3] == b"CM " else
        value if isinstance(value, bytes) and value[:3] == b"FM " else dense_matrix(value) for value in values]
    chosen = [i for i, result in enumerate(results) if result is None]
    if not chosen:
        return results
    heads = [head_of(values[i]) for i in chosen]
    sizes = [head.num_rows * head.num_cols for head in heads]
    sources = itertools.accumulate((len(values[i]) for i in chosen), initial=0)
    targets = list(itertools.accumulate(sizes, initial=0))
    places = np.array([(source + head.begin, target, head.num_rows, head.num_cols)
                       for source, target, head in zip(sources, targets, heads, strict=False)], dtype=np.int64)
    ranges = np.array([(head.minimum, head.range) for head in heads], dtype=np.float32)
    dense = np.empty(targets[-1], dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        compressed_numba.decode_batch(np.frombuffer(b"".join([values[i] for i in chosen]), dtype=np.uint8), places,
                                      ranges, ranges[:, 1] * PERCENTILE_STEP, dense)
    data = dense.astype("<f4", copy=False).data.cast("B")
    for i, head, first, size in zip(chosen, heads, targets, sizes, strict=False):
        start = _DENSE.pack(b"FM ", 4, head.num_rows, 4, head.num_cols)
        results[i] = BytePieces([start, data[4 * first:4 * (first + size)]])
    return results


def compressed(values: Sequence[Any], method: int) -> list[Any]:
    """Each matrix compressed: as bytes to be written, or CompressedMatrix. NumericError for NaN or infinity."""
    heads = [head_of(value) if isinstance(value, bytes) else None for value in values]
    results: list[Any] = [None] * len(values)
    if method in (CompressionMethod.AUTOMATIC, CompressionMethod.SPEECH_FEATURE):
        chosen = [i for i, head in enumerate(heads) if head and head.kind == "FM" and head.num_rows >= _FEWEST_ROWS]
        if chosen:
            _compress_columns(values, results, chosen, [head for head in map(heads.__getitem__, chosen) if head])
    return [CompressedMatrix.compress(dense_matrix(value), method) if result is None else result
            for value, result in zip(values, results, strict=True)]


def _compress_columns(values: Sequence[Any], results: list[Any], chosen: list[int], heads: list[Head]) -> None:
    """Set the results of the values that are chosen; those that have no range, or are not finite, are left None."""
    sizes = [head.num_rows * head.num_cols for head in heads]
    begins = list(itertools.accumulate(sizes, initial=0))
    columns = list(itertools.accumulate((head.num_cols for head in heads), initial=0))
    places = np.array([(begin, head.num_rows, head.num_cols) for begin, head in zip(begins, heads, strict=False)],
                      dtype=np.int64)
    elements = b"".join([memoryview(values[i])[head.begin:] for i, head in zip(chosen, heads, strict=True)])
    floats = np.frombuffer(elements, dtype="<f4").astype(np.float32, copy=False)
    ranges = np.empty((len(chosen), 2), dtype=np.float32)
    percentiles, codes = np.empty((columns[-1], 4), dtype=np.uint16), np.empty(begins[-1], dtype=np.uint8)
    compressed_numba.compress_batch(floats, places, ranges, PERCENTILE_STEP, percentiles, codes)
    shown, data = percentiles.astype("<u2", copy=False).data.cast("B"), codes.data
    for i, head, begin, size, column, (minimum, scale) in zip(chosen, heads, begins, sizes, columns, ranges.tolist(),
                                                             strict=False):
        if 0.0 < scale < float("inf"):
            results[i] = BytePieces([b"CM " + HEADER.pack(minimum, scale, head.num_rows, head.num_cols),
                                     shown[8 * column:8 * (column + head.num_cols)], data[begin:begin + size]])
