"""Compressing many matrices at once, from the bytes of files to the bytes of files.

Compiled code goes through a batch in one call, so that other threads can meanwhile read and write.
"""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nnet3py.formats.compressed import CompressedMatrix, CompressionMethod
from nnet3py.formats.compressed_code import address, compress_columns, find_ranges
from nnet3py.formats.dense_skimmer import dense_matrix
from nnet3py.formats.layouts import Head, head_bytes, head_of
from nnet3py.io.byte_pieces import BytePieces

BATCH = 1 << 21                 # bytes of floats that are handled at once
_FEWEST_ROWS = 9                # of a matrix that the automatic method compresses by columns


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
                      dtype=np.int64).tobytes()
    elements = b"".join([memoryview(values[i])[head.begin:] for i, head in zip(chosen, heads, strict=True)])
    floats = np.frombuffer(elements, dtype="<f4").astype(np.float32, copy=False)
    ranges = np.empty((len(chosen), 2), dtype=np.float32)
    percentiles, codes = np.empty((columns[-1], 4), dtype=np.uint16), np.empty(begins[-1], dtype=np.uint8)
    find_ranges(address(floats), places, address(ranges))
    compress_columns(address(floats), places, max(head.num_rows for head in heads), address(ranges),
                     address(percentiles), address(codes))
    shown, data = percentiles.astype("<u2", copy=False).data.cast("B"), codes.data
    for i, head, begin, size, column, (minimum, scale) in zip(chosen, heads, begins, sizes, columns, ranges.tolist(),
                                                             strict=False):
        if 0.0 < scale < float("inf"):
            results[i] = BytePieces([head_bytes("CM", head.num_rows, head.num_cols, minimum, scale),
                                     shown[8 * column:8 * (column + head.num_cols)], data[begin:begin + size]])
