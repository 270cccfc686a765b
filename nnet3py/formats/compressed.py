"""Matrices stored in one or two bytes per element. Kaldi: ``CompressedMatrix``.

Three layouts: ``CM`` (a byte per element, four percentiles per column), ``CM2`` (two bytes, one range for the matrix)
and ``CM3`` (a byte, one range for the matrix). Decoding computes ``minimum + step * code`` with a single rounding
(fused multiply-add), as Kaldi's usual builds do, so that the bits are equal.
"""
from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import numpy as np

from nnet3py.errors import NumericError, ShapeError
from nnet3py.formats import compressed_code
from nnet3py.formats.compressed_code import PERCENTILE_STEP, address, expect_compressing, expect_decoding
from nnet3py.formats.layouts import FORMS, RANGE_BYTES, head_bytes, read_head
from nnet3py.io.tokens import TokenReader, TokenWriter

_PERCENTILE_STEP = np.float32(PERCENTILE_STEP)
_LOW, _HIGH = 64, 192                                # the codes of the 25th and the 75th percentile
_FEWEST_COMPILED_ROWS = 5                            # four order statistics are taken of so many
_FEWEST_CM_ROWS = 8                                  # fewer rows of a CM matrix are kept as CM2
_TABLE_ROWS = 256                                    # from here on decoding a column by a table of 256 is faster

_BATCH = 1 << 14                                     # elements decoded at once, so that they stay in the cache
_ROWS_AT_ONCE = 4096                                 # keeps the part of the target that is written in the cache

_TINY, _HUGE = 1e-30, 1e33                           # numbers between these can be computed in float32

# 1/63 in two parts: a float32 times the first is exact in double, so the product can be added nearly unrounded.
_SIXTY_THIRD = 1.0 / 63.0
_SIXTY_THIRD_HIGH = float(np.float32(_SIXTY_THIRD))
_SIXTY_THIRD_LOW = _SIXTY_THIRD - _SIXTY_THIRD_HIGH


class CompressionMethod(IntEnum):
    """Values of the option ``--compression-method``. Kaldi: CompressionMethod."""

    AUTOMATIC = 1
    SPEECH_FEATURE = 2
    TWO_BYTE_AUTO = 3
    TWO_BYTE_SIGNED_INTEGER = 4
    ONE_BYTE_AUTO = 5
    ONE_BYTE_UNSIGNED_INTEGER = 6
    ONE_BYTE_ZERO_ONE = 7


_TOKEN_OF_METHOD = {
    CompressionMethod.SPEECH_FEATURE: "CM", CompressionMethod.TWO_BYTE_AUTO: "CM2",
    CompressionMethod.TWO_BYTE_SIGNED_INTEGER: "CM2", CompressionMethod.ONE_BYTE_AUTO: "CM3",
    CompressionMethod.ONE_BYTE_UNSIGNED_INTEGER: "CM3", CompressionMethod.ONE_BYTE_ZERO_ONE: "CM3"}
_FIXED_RANGES = {
    CompressionMethod.TWO_BYTE_SIGNED_INTEGER: (-32768.0, 65535.0),
    CompressionMethod.ONE_BYTE_UNSIGNED_INTEGER: (0.0, 255.0), CompressionMethod.ONE_BYTE_ZERO_ONE: (0.0, 1.0)}


class CompressedMatrix:
    """A matrix in compressed form, decoded by :meth:`to_dense`.

    Attributes
    ----------
    token : ``CM``, ``CM2`` or ``CM3``
    minimum, range : float32, least value, and largest value minus least
    codes : uint8 (cols, rows) for CM, uint16 (rows, cols) for CM2, uint8 (rows, cols) for CM3
    percentiles : uint16 (cols, 4) for CM, else None
    """

    def __init__(self, token: str, minimum: float | np.float32, range: float | np.float32, codes: np.ndarray,
                 percentiles: np.ndarray | None = None) -> None:
        self.token = token
        self.minimum, self.range = np.float32(minimum), np.float32(range)
        self.codes, self.percentiles = codes, percentiles

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        first, second = self.codes.shape
        return (second, first) if self.token == "CM" else (first, second)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.shape[0]

    @property
    def num_cols(self) -> int:
        """Number of columns."""
        return self.shape[1]

    # -- files -----------------------------------------------------------------------------------------------------

    @classmethod
    def read_after_token(cls, reader: TokenReader, token: str) -> CompressedMatrix:
        """Read what follows the token ``CM``, ``CM2`` or ``CM3``."""
        _, minimum, range_, rows, cols, _, _ = read_head(reader, token)
        if not rows:
            if reader.peek(4) == bytes(4):       # Kaldi writes 20 bytes after the token of an empty one
                reader.raw(4)
            return cls._empty()
        if token == "CM":
            reader.check_count(cols, 8 + rows, "columns of a compressed matrix")
            percentiles = reader.array("u2", 4 * cols).reshape(cols, 4)
            return cls(token, minimum, range_, reader.array("u1", rows * cols).reshape(cols, rows), percentiles)
        codes = reader.array(FORMS[token].element, rows * cols, "elements of a compressed matrix")
        return cls(token, minimum, range_, codes.reshape(rows, cols))

    @classmethod
    def _empty(cls) -> CompressedMatrix:
        return cls("CM3", 0.0, 0.0, np.empty((0, 0), dtype=np.uint8))

    def write(self, writer: TokenWriter) -> None:
        """Write the matrix in binary, without decoding it; it must not be empty."""
        writer.raw(head_bytes(self.token, *self.shape, self.minimum, self.range))
        if self.percentiles is not None:
            writer.array(self.percentiles, "u2")
        writer.array(self.codes, self.codes.dtype)

    # -- compressing -----------------------------------------------------------------------------------------------

    @classmethod
    def compress(cls, matrix: np.ndarray, method: int = CompressionMethod.AUTOMATIC) -> CompressedMatrix:
        """Compress a float matrix (rows, cols). NumericError if it has NaN or infinity.

        Kaldi: CompressedMatrix::CopyFromMat.
        """
        values = np.ascontiguousarray(matrix, dtype=np.float32)
        if values.ndim != 2:
            raise ShapeError(f"expected a matrix to compress, found an array of {values.ndim} dimensions")
        if not values.size:
            return cls._empty()
        method = CompressionMethod(method)
        if method is CompressionMethod.AUTOMATIC:
            method = (CompressionMethod.SPEECH_FEATURE if len(values) > 8 else CompressionMethod.TWO_BYTE_AUTO)
        lowest, highest = values.min(), values.max()
        if not (np.isfinite(lowest) and np.isfinite(highest)):
            raise NumericError("a matrix with NaN or infinity cannot be compressed", "store it uncompressed")
        if method in _FIXED_RANGES:
            minimum, range_ = map(np.float32, _FIXED_RANGES[method])
        else:
            if highest == lowest:
                with np.errstate(over="ignore"):
                    highest = np.float32(float(lowest) + (1.0 + abs(float(lowest))))
            minimum = lowest
            with np.errstate(over="ignore"):
                range_ = np.float32(highest - lowest)
            if not np.isfinite(range_):
                raise NumericError(f"a matrix with values from {lowest} to {highest} cannot be compressed: the "
                                   "difference overflows", "store it uncompressed")
        token = _TOKEN_OF_METHOD[method]
        if token == "CM":
            return cls._compress_columns(values, minimum, range_)
        codes = _quantize(values, minimum, range_, 65535 if token == "CM2" else 255)
        return cls(token, minimum, range_, codes)

    @classmethod
    def _compress_columns(cls, values: np.ndarray, minimum: np.float32, range_: np.float32) -> CompressedMatrix:
        if len(values) >= _FEWEST_COMPILED_ROWS and expect_compressing(values.size):
            num_rows, num_cols = values.shape
            percentiles = np.empty((num_cols, 4), dtype=np.uint16)
            codes = np.empty((num_cols, num_rows), dtype=np.uint8)
            compressed_code.compress_columns(address(values), struct.pack("=3q", 0, num_rows, num_cols), num_rows,
                                             struct.pack("=2f", minimum, range_), address(percentiles), address(codes))
            return cls("CM", minimum, range_, codes, percentiles)
        columns = np.ascontiguousarray(values.T)
        percentiles = _percentile_codes(columns, minimum, range_)
        p0, p25, p75, p100 = (p[:, None] for p in _decode_percentiles(percentiles, minimum, range_).T)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            low = _segment(columns, p0, p25, _LOW, 0)
            middle = _segment(columns, p25, p75, _HIGH - _LOW, _LOW)
            high = _segment(columns, p75, p100, 255 - _HIGH, _HIGH)
        codes = np.where(columns < p25, low, np.where(columns < p75, middle, high))
        return cls("CM", minimum, range_, codes, percentiles)

    # -- decoding --------------------------------------------------------------------------------------------------

    def to_dense(self) -> np.ndarray:
        """Return the decoded matrix, float32 (rows, cols), a new array."""
        result = np.empty(self.shape, dtype=np.float32)
        self.decode_into(result)
        return result

    def decode_into(self, target: np.ndarray) -> None:
        """Decode into ``target``, float32 (rows, cols) of any strides."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.percentiles is None:
                self._decode_uniform(target)
            else:
                self._decode_columns(target)

    def _decode_uniform(self, target: np.ndarray) -> None:
        largest = 65535 if self.token == "CM2" else 255
        step = _uniform_step(self.token, self.range)
        if target.flags.c_contiguous and expect_decoding(self.codes.size):
            codes = np.ascontiguousarray(self.codes)
            compressed_code.decode_uniform(address(codes), codes.itemsize, self.minimum, step, codes.size,
                                           address(target))
        elif self.codes.size <= largest:
            target[...] = _fused(self.minimum, step, self.codes)
        else:
            # "clip" lets numpy write straight into target
            np.take(_fused(self.minimum, step, np.arange(largest + 1)), self.codes, out=target, mode="clip")

    def _decode_columns(self, target: np.ndarray) -> None:
        assert self.percentiles is not None
        if target.flags.c_contiguous and expect_decoding(self.codes.size):
            codes, percentiles = np.ascontiguousarray(self.codes), np.ascontiguousarray(self.percentiles, dtype="<u2")
            place, range_ = struct.pack("=5q", 0, 0, 0, *self.shape), struct.pack("=2f", self.minimum, self.range)
            compressed_code.decode_columns(address(percentiles), address(codes), place, range_, address(target))
            return
        points = _decode_percentiles(self.percentiles, self.minimum, self.range)
        if self.codes.shape[1] >= _TABLE_ROWS:
            _look_up_columns(_decode_tables(points), self.codes, target)
        elif target.flags.c_contiguous:
            _decode_pieces(self.codes.T[None], points[None], target[None])
        else:
            target[...] = _decode_pieces(self.codes.T[None], points[None], np.empty((1, *target.shape), np.float32))[0]

    # -- parts -----------------------------------------------------------------------------------------------------

    def take_rows(self, indexes: Any) -> CompressedMatrix:
        """Return the rows ``indexes`` (int array, repeats allowed), without another loss of precision.

        Codes and header are copied; only fewer than 8 rows of a CM matrix become CM2, which is nearly exact. Kaldi: the
        constructor of CompressedMatrix that takes a range of rows.
        """
        rows = np.asarray(indexes, dtype=np.int64)
        if rows.size and not (0 <= int(rows.min()) and int(rows.max()) < self.num_rows):
            raise ShapeError(f"expected rows from 0 to {self.num_rows - 1} of a compressed matrix, found {rows.min()} "
                             f"to {rows.max()}")
        if not rows.size:
            return self._empty()
        codes = np.ascontiguousarray(self.codes[:, rows] if self.token == "CM" else self.codes[rows])
        part = CompressedMatrix(self.token, self.minimum, self.range, codes, self.percentiles)
        if self.token == "CM" and len(rows) < _FEWEST_CM_ROWS:
            return self.compress(part.to_dense(), CompressionMethod.TWO_BYTE_AUTO)
        return part

    def scaled(self, factor: float) -> CompressedMatrix:
        """Return this matrix times ``factor``; codes are not copied. Kaldi: CompressedMatrix::Scale."""
        alpha = np.float32(factor)
        with np.errstate(over="ignore", invalid="ignore"):
            return CompressedMatrix(self.token, self.minimum * alpha, self.range * alpha, self.codes, self.percentiles)


def decode_batch(like: CompressedMatrix, data: np.ndarray, target: np.ndarray) -> None:
    """Decode ``n`` matrices of the layout and shape of ``like`` into ``target``, float32 (n, rows, cols), contiguous.

    ``data`` is uint8 (n, bytes): a row has the bytes of a matrix in a file, from its token on.
    """
    rows, cols = like.shape
    form = FORMS[like.token]
    begin, ranges = form.head_bytes, slice(len(form.token), len(form.token) + RANGE_BYTES)
    if like.token == "CM" and expect_decoding(target.size):
        bodies = np.arange(len(data)) * data.strides[0] + begin
        places = np.empty((len(data), 5), dtype=np.int64)
        places[:, 0], places[:, 1] = bodies, bodies + 8 * cols
        places[:, 2], places[:, 3], places[:, 4] = np.arange(len(data)) * rows * cols, rows, cols
        compressed_code.decode_columns(address(data), address(data), places.tobytes(),
                                       data[:, ranges].tobytes(), address(target))
        return
    minimum, range_ = np.ascontiguousarray(data[:, ranges]).view("<f4").T[:, :, None, None]
    body = data[:, begin:]
    with np.errstate(over="ignore", invalid="ignore"):
        if like.token == "CM":
            percentiles = np.ascontiguousarray(body[:, :8 * cols]).view("<u2").reshape(-1, cols, 4)
            codes = body[:, 8 * cols:].reshape(-1, cols, rows).transpose(0, 2, 1)
            points = _decode_percentiles(percentiles, minimum, range_)
            step = max(1, _BATCH // (rows * cols))
            for start in range(0, len(target), step):
                part = slice(start, start + step)
                _decode_pieces(codes[part], points[part], target[part])
        else:
            kind = like.codes.dtype.newbyteorder("<")
            codes = np.ascontiguousarray(body).view(kind).reshape(-1, rows, cols)
            target[...] = _fused(minimum, _uniform_step(like.token, range_), codes)


# -- the arithmetic, all in Kaldi's precision --------------------------------------------------------------------------


def _quantize(values: np.ndarray, minimum: np.float32, range_: np.float32, largest: int) -> np.ndarray:
    """Return codes 0 … ``largest`` of float32 ``values``, uint16 or uint8."""
    with np.errstate(over="ignore"):
        fraction = np.clip((values - minimum) / range_, np.float32(0), np.float32(1))
    codes = (fraction * np.float32(largest)).astype(np.float64) + 0.499     # Kaldi's constant, not 0.5
    return codes.astype(np.uint16 if largest > 255 else np.uint8)


def _percentile_codes(columns: np.ndarray, minimum: np.float32, range_: np.float32) -> np.ndarray:
    """Return the codes of four percentiles of each column of (cols, rows), uint16 (cols, 4), made strictly increasing.
    """
    count = columns.shape[1]
    quarter = count // 4
    ranks = [0, quarter, 3 * quarter, count - 1] if count >= 5 else list(range(count))
    statistics = np.partition(columns, ranks, axis=1)[:, ranks]
    codes = _quantize(statistics, minimum, range_, 65535).astype(np.int32)
    result = np.empty((len(columns), 4), dtype=np.int32)
    for place in range(4):
        lowest = result[:, place - 1] + 1 if place else 0
        wanted = codes[:, place] if place < len(ranks) else lowest
        result[:, place] = np.minimum(np.maximum(wanted, lowest), 65532 + place)
    return result.astype(np.uint16)


def _segment(columns: np.ndarray, low: np.ndarray, high: np.ndarray, steps: int, first: int) -> np.ndarray:
    """Return the codes ``first`` to ``first + steps`` of values between the percentiles ``low`` and ``high``, uint8."""
    fraction = (columns - low) / (high - low) * np.float32(steps)
    codes = np.nan_to_num(np.clip(fraction.astype(np.float64) + 0.5, 0.0, steps), nan=0.0)
    return (codes.astype(np.int16) + first).astype(np.uint8)


# The minimum, range and step are one float32, or an array of one for each matrix.


def _fused(minimum: Any, step: Any, codes: np.ndarray) -> np.ndarray:
    """Return minimum + step * codes with a single rounding to float32; the product is exact in float64."""
    return (minimum.astype(np.float64) + step.astype(np.float64) * codes.astype(np.float64)).astype(np.float32)


def _uniform_step(token: str, range_: Any) -> Any:
    return (range_.astype(np.float64) * (1.0 / (65535.0 if token == "CM2" else 255.0))).astype(np.float32)


def _decode_percentiles(percentiles: np.ndarray, minimum: Any, range_: Any) -> np.ndarray:
    return _fused(minimum, range_ * _PERCENTILE_STEP, percentiles)


def _decode_tables(points: np.ndarray) -> np.ndarray:
    """Return the values of all 256 codes for each row of percentile values (cols, 4), float32 (cols, 256)."""
    codes = np.broadcast_to(np.arange(256, dtype=np.uint8)[None, :, None], (1, 256, len(points)))
    return np.ascontiguousarray(_decode_pieces(codes, points[None], np.empty(codes.shape, dtype=np.float32))[0].T)


def _decode_pieces(codes: np.ndarray, points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Decode codes (n, rows, cols) with percentile values (n, cols, 4) into ``target``, contiguous.

    Codes between two percentiles are decoded linearly. Kaldi computes two of the three pieces in double and rounds; in
    float32 the result is the same unless numbers are too small or too large for it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        bases = np.ascontiguousarray(points.transpose(2, 0, 1))           # percentile first: (4, n, cols)
        steps = bases[1:] - bases[:-1]
        sizes = np.abs(steps)
        if not ((sizes == 0) | (sizes > _TINY)).all() or not (np.abs(bases) < _HUGE).all():
            return _decode_pieces_in_double(codes, points, target)
        codes = np.ascontiguousarray(codes)
        np.multiply(codes, steps[0, :, None], out=target, dtype=np.float32)
        target *= np.float32(1.0 / _LOW)
        target += bases[0, :, None]
        middle = codes.astype(np.float32)
        middle -= np.float32(_LOW)
        middle *= steps[1, :, None]
        middle *= np.float32(1.0 / (_HIGH - _LOW))
        middle += bases[1, :, None]
        # Bits are chosen by masks, without branches.
        chosen, other = target.view(np.int32), middle.view(np.int32)
        other ^= chosen
        other &= np.negative((codes > _LOW).view(np.int8), dtype=np.int32)
        chosen ^= other
        places = np.flatnonzero(codes > _HIGH)
        num_rows, num_cols = codes.shape[1:]
        rows = places // num_cols
        columns = places + (rows // num_rows - rows) * num_cols
        above = codes.reshape(-1)[places].astype(np.float32) - np.float32(_HIGH)
        products = steps[2].reshape(-1)[columns] * above
        target.reshape(-1)[places] = _add_fused(bases[2].reshape(-1)[columns].astype(np.float64),
                                                products.astype(np.float64))
    return target


def _decode_pieces_in_double(codes: np.ndarray, points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Decode as :func:`_decode_pieces` does, in double as Kaldi, for numbers too small or too large for float32."""
    p0, p25, p75, p100 = (points[:, None, :, place] for place in range(4))
    steps = codes.astype(np.float32)
    low = p0 + ((p25 - p0) * steps).astype(np.float64) * (1.0 / _LOW)
    middle = p25 + ((p75 - p25) * (steps - np.float32(_LOW))).astype(np.float64) * (1.0 / (_HIGH - _LOW))
    product = ((p100 - p75) * (steps - np.float32(_HIGH))).astype(np.float64)
    high = _add_fused(p75.astype(np.float64), product)
    target[...] = np.where(codes <= _LOW, low, np.where(codes <= _HIGH, middle, high)).astype(np.float32)
    return target


def _add_fused(base: np.ndarray, product: np.ndarray) -> np.ndarray:
    """Return base + product / 63 with a single rounding: the low part of 1/63 is added to the rounding error."""
    large = product * _SIXTY_THIRD_HIGH
    total = base + large
    part = total - base
    lost = (base - (total - part)) + (large - part)
    return total + (lost + product * _SIXTY_THIRD_LOW)


def _look_up_columns(tables: np.ndarray, codes: np.ndarray, target: np.ndarray) -> None:
    for first in range(0, codes.shape[1], _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        for column, table in enumerate(tables):
            target[rows, column] = table[codes[column, rows]]
