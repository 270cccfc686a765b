"""Decoding and compression of many matrices in one call of compiled code, from and to the bytes of files.

During that call other threads can read and write.
"""
from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nnet3py.formats.compressed import CompressedMatrix, CompressionMethod
from nnet3py.formats.compressed_code import address, compress_columns, decode_columns, expect_decoding, find_ranges
from nnet3py.formats.layouts import DENSE, FORMS, Found, Head, MatrixSkimmer, head_bytes, head_of
from nnet3py.io.holder import BytePieces

_DTYPES = {kind: (np.dtype(form.element), np.dtype(form.element).newbyteorder("=")) for kind, form in FORMS.items()}


def _stored(data: bytes, head: Head) -> CompressedMatrix | np.ndarray:
    """Return a copy of the matrix with header ``head`` in ``data``, in the form in which it is stored."""
    kind, minimum, range_, num_rows, num_cols, begin, end = head
    count = num_rows * num_cols
    stored, native = _DTYPES[kind]
    elements = np.frombuffer(data, stored, count, end - count * stored.itemsize).astype(native)
    if kind == "CM":
        percentiles = np.frombuffer(data, "<u2", 4 * num_cols, begin).astype(np.uint16).reshape(num_cols, 4)
        return CompressedMatrix(kind, minimum, range_, elements.reshape(num_cols, num_rows), percentiles)
    elements = elements.reshape(num_rows, num_cols)
    return elements if kind in DENSE else CompressedMatrix(kind, minimum, range_, elements)


def _dense(matrix: Any) -> np.ndarray:
    return matrix.to_dense() if isinstance(matrix, CompressedMatrix) else matrix


def dense_matrix(value: Any) -> np.ndarray:
    """Return a matrix (dense, compressed, or the bytes of either) as float32 (rows, cols)."""
    return _dense(_stored(value, head_of(value)) if isinstance(value, bytes) else value)


def _all_dense(data: bytes, entries: list[Found]) -> list[np.ndarray]:
    return [_decoded(data, entry.head) if entry.head.kind == "CM" else _dense(_stored(data, entry.head))
            for entry in entries]


def _decoded(data: bytes, head: Head) -> np.ndarray:
    num_rows, num_cols = head.num_rows, head.num_cols
    if not expect_decoding(num_rows * num_cols):
        return _dense(_stored(data, head))
    result = np.empty((num_rows, num_cols), dtype=np.float32)
    decode_columns(data, data, struct.pack("=5q", head.begin, head.end - result.size, 0, num_rows, num_cols),
                   struct.pack("=2f", head.minimum, head.range), address(result))
    return result


def dense_skimmer() -> MatrixSkimmer:
    """Return a MatrixSkimmer whose values are dense matrices, float32 (rows, cols)."""
    return MatrixSkimmer(_all_dense)


BATCH = 1 << 21                 # bytes of floats that are handled at once
_FEWEST_ROWS = 9                # of a matrix that the automatic method compresses by columns


def batches(entries: Iterable[tuple[str, Any]]) -> Iterator[list[tuple[str, Any]]]:
    """Yield the entries, whose values are matrices or their bytes, in lists of about ``BATCH`` bytes."""
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
    """Compress matrices (dense, or the bytes of dense ones); NumericError for NaN or infinity.

    Returns
    -------
    List of BytePieces or CompressedMatrix
    """
    heads = [head_of(value) if isinstance(value, bytes) else None for value in values]
    results: list[Any] = [None] * len(values)
    if method in (CompressionMethod.AUTOMATIC, CompressionMethod.SPEECH_FEATURE):
        chosen = [i for i, head in enumerate(heads) if head and head.kind == "FM" and head.num_rows >= _FEWEST_ROWS]
        if chosen:
            _compress_columns(values, results, chosen, [head for head in map(heads.__getitem__, chosen) if head])
    return [CompressedMatrix.compress(dense_matrix(value), method) if result is None else result
            for value, result in zip(values, results, strict=True)]


def _compress_columns(values: Sequence[Any], results: list[Any], chosen: list[int], heads: list[Head]) -> None:
    """Compress ``values[i]`` for i in ``chosen`` with compiled code, and write them to ``results``.

    ``results`` stays None for matrices whose range is 0 or not finite.
    """
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
