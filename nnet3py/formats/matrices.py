"""Dense matrices, vectors and packed symmetric matrices, in text and in binary.

Kaldi: ``Matrix``, ``Vector``, ``SpMatrix``, ``TpMatrix``.
"""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.layouts import COMPRESSED, DENSE, head_bytes, read_head
from nnet3py.io.tokens import TEXT_FLOAT, TokenReader, TokenWriter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

_NUMBERS_TEXT = re.compile(rb"[-+.0-9a-zA-Z; \t\n\r\v\f]*")
_PLAIN_TEXT = re.compile(rb"[-+.0-9eE \t\n\r\v\f]*")
_FRACTIONAL_EXPONENT = re.compile(rb"[eE][-+]?[0-9]*\.")
# a word that is not a number where Kaldi's matrix reader wants one: it must begin with a digit or '-'
_BAD_NUMBER = re.compile(
    rb"(?<![^\s;])(?!(?:-?[0-9]+\.?[0-9]*|-\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?=[\s;]|\Z)"
    rb"|(?:[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN])(?=[\s;]|\Z))[^\s;]+")
_ROWS_AT_ONCE = 1 << 15         # numbers formatted in one go
_DTYPES: dict[str, np.dtype[np.floating]] = {"F": np.dtype(np.float32), "D": np.dtype(np.float64)}


# -- reading ---------------------------------------------------------------------------------------------------------


def read_matrix(reader: TokenReader, dtype: DTypeLike = np.float32) -> np.ndarray:
    """Read a matrix (rows, cols) of ``dtype``; other precisions are converted, compressed matrices decoded.

    Raises FormatError for other contents. Kaldi: Matrix::Read.
    """
    if not reader.binary:
        return read_text_matrix(reader, dtype)
    token = reader.token()
    if token in COMPRESSED:
        return CompressedMatrix.read_after_token(reader, token).to_dense().astype(dtype, copy=False)
    return read_matrix_after_token(reader, token, dtype)


def read_matrix_after_token(reader: TokenReader, token: str, dtype: DTypeLike = np.float32) -> np.ndarray:
    """Read what follows the token ``FM`` or ``DM`` of a binary matrix (rows, cols)."""
    if token not in DENSE:
        raise reader.unexpected(token, "a matrix (FM, DM or compressed)")
    head = read_head(reader, token)
    values = reader.array(_DTYPES[token[0]], head.num_rows * head.num_cols, "matrix elements")
    return _converted(values.reshape(head.num_rows, head.num_cols), dtype)


def _converted(values: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Return ``values`` as ``dtype``; a double beyond the range of float becomes infinite, as in Kaldi."""
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)


def read_vector(reader: TokenReader, dtype: DTypeLike = np.float32) -> np.ndarray:
    """Read a vector (dim,) of ``dtype``; the other precision is converted. Kaldi: Vector::Read."""
    if not reader.binary:
        text = _bracketed_numbers(reader)
        if b"\n" in text.strip() or b";" in text:
            raise reader.error("expected a vector on one line, found more lines", hint="is it a matrix?")
        return _parse_numbers(reader, text, dtype)
    token = reader.token()
    if token not in ("FV", "DV"):
        raise reader.unexpected(token, "a vector (FV or DV)")
    return _converted(reader.array(_DTYPES[token[0]], reader.integer(), "vector elements"), dtype)


def read_packed(reader: TokenReader, dtype: DTypeLike = np.float32) -> np.ndarray:
    """Read the lower triangle, by rows, of a symmetric or triangular matrix, (dim (dim + 1) / 2,). Kaldi: PackedMatrix.
    """
    reader.skip_whitespace()
    if not reader.binary and reader.peek(1) == b"[":
        values = _parse_numbers(reader, _bracketed_numbers(reader), dtype)
        dim = int((np.sqrt(8.0 * len(values) + 1.0) - 1.0) / 2.0)
        if dim * (dim + 1) // 2 != len(values):
            raise reader.error(f"expected the elements of a lower triangle, found {len(values)} of them")
        return values
    token = reader.token()
    if token not in ("FP", "DP"):
        raise reader.unexpected(token, "a packed matrix (FP or DP)")
    dim = reader.integer()
    reader.check_count(dim)
    count = dim * (dim + 1) // 2
    if reader.binary:
        return _converted(reader.array(_DTYPES[token[0]], count, "matrix elements"), dtype)
    reader.check_count(count, 2, "matrix elements")
    return np.fromiter((reader.real() for _ in range(count)), dtype=dtype, count=-1)


def read_text_matrix(reader: TokenReader, dtype: DTypeLike = np.float32) -> np.ndarray:
    """Read a matrix in text: ``[``, rows ended by newlines or ``;``, ``]``."""
    text = _bracketed_numbers(reader).replace(b";", b"\n")
    values = _parse_numbers(reader, text, dtype)
    if values.size == 0:
        return values.reshape(0, 0)
    newlines = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    per_line = np.bincount(np.searchsorted(newlines, _word_starts(text)))
    per_row = per_line[per_line > 0]
    if np.any(per_row != per_row[0]):
        odd = int(np.flatnonzero(per_row != per_row[0])[0])
        raise reader.error(f"expected rows of {per_row[0]} numbers, found {per_row[odd]} in row {odd}")
    return values.reshape(len(per_row), -1)


def _bracketed_numbers(reader: TokenReader) -> bytes:
    """Read the text between ``[`` and ``]``, and the newline after it; return the text."""
    reader.skip_whitespace()
    byte = reader.peek(1)
    if byte != b"[":
        hint = "binary data begins with \\0B" if byte[:1] in (b"F", b"D", b"C", b"\0") else None
        raise reader.unexpected_bytes(reader.peek(20), "[", hint)
    reader.raw(1)
    text = reader.take_while(_NUMBERS_TEXT)
    byte = reader.peek(1)
    if byte != b"]":
        raise reader.unexpected_bytes(byte, "a number or ]")
    reader.raw(1)
    after = reader.peek(1)
    if after == b"\r":
        reader.raw(1)
        after = reader.peek(1)
    if after == b"\n":
        reader.raw(1)
    return text


def _word_starts(text: bytes) -> np.ndarray:
    blank = np.frombuffer(text, dtype=np.uint8) <= ord(" ")
    return np.flatnonzero(~blank & np.concatenate(([True], blank[:-1])))


def _parse_numbers(reader: TokenReader, text: bytes, dtype: DTypeLike) -> np.ndarray:
    text = text.replace(b";", b" ")
    values = _parse_plain_numbers(text)
    if values is None:
        bad = _BAD_NUMBER.search(text)
        if bad is not None:
            raise reader.error(f"expected a number, found '{bad[0][:40].decode('latin-1')}'")
        values = np.fromstring(text, dtype=np.float64, sep=" ")
    result = _converted(values, dtype)
    if np.isinf(result).any() and b"inf" not in text.lower():
        raise reader.error(f"expected numbers that fit into {np.dtype(dtype).name}, found a larger one")
    return result


def _parse_plain_numbers(text: bytes) -> np.ndarray | None:
    """Parse numbers with numpy, float64 (numbers,); None if it might accept text that Kaldi does not."""
    starts = _word_starts(text)
    if not len(starts):
        return np.empty(0)
    letters = np.frombuffer(text, dtype=np.uint8)
    first = letters[starts]
    numeric = (first == ord("-")) | ((ord("0") <= first) & (first <= ord("9")))
    if not numeric.all() or not _PLAIN_TEXT.fullmatch(text) or _has_glued_numbers(text, letters, starts):
        return None
    try:
        values = np.fromstring(text, dtype=np.float64, sep=" ")
    except (DeprecationWarning, ValueError):        # messages of different versions of numpy for text that is no number
        return None
    return values if len(values) == len(starts) else None


def _has_glued_numbers(text: bytes, letters: np.ndarray, starts: np.ndarray) -> bool:
    """Return whether text has a word such as ``1-2`` or ``1.2.3``, which numpy would parse as two numbers."""
    before_sign = letters[:-1][(letters[1:] == ord("-")) | (letters[1:] == ord("+"))]
    if np.any((before_sign == ord(".")) | ((ord("0") <= before_sign) & (before_sign <= ord("9")))):
        return True
    words_of_points = np.searchsorted(starts, np.flatnonzero(letters == ord(".")), side="right")
    return bool(np.any(words_of_points[1:] == words_of_points[:-1])) or bool(_FRACTIONAL_EXPONENT.search(text))


# -- writing ---------------------------------------------------------------------------------------------------------


def _stored(array: ArrayLike) -> tuple[np.ndarray, str]:
    """Return the array in the type in which it is stored, float64 or float32, and that type's letter, D or F."""
    array = np.asarray(array)
    letter = "D" if array.dtype == np.float64 else "F"
    return array.astype(_DTYPES[letter], copy=False), letter


def write_matrix(writer: TokenWriter, matrix: np.ndarray) -> None:
    """Write a matrix (rows, cols): ``FM``, or ``DM`` if it is float64. Kaldi: Matrix::Write."""
    values, letter = _stored(matrix)
    rows, cols = values.shape if values.size else (0, 0)
    if writer.binary:
        writer.raw(head_bytes(letter + "M", rows, cols))
        writer.array(values, values.dtype)
        return
    if rows == 0:
        writer.raw(b" [ ]\n")
        return
    writer.raw(b" [")
    row_format = b"\n  " + TEXT_FLOAT * cols
    step = max(1, _ROWS_AT_ONCE // cols)
    for first in range(0, rows, step):
        block = values[first:first + step]
        writer.raw(row_format * len(block) % tuple(block.ravel().tolist()))
    writer.raw(b"]\n")


def write_vector(writer: TokenWriter, vector: np.ndarray) -> None:
    """Write a vector (dim,): ``FV``, or ``DV`` if it is float64. Kaldi: Vector::Write."""
    values, letter = _stored(vector)
    if writer.binary:
        writer.token(letter + "V")
        writer.integer(len(values))
        writer.array(values, values.dtype)
        return
    writer.raw(b" [ ")
    for first in range(0, len(values), _ROWS_AT_ONCE):
        block = values[first:first + _ROWS_AT_ONCE]
        writer.raw(TEXT_FLOAT * len(block) % tuple(block.tolist()))
    writer.raw(b"]\n")


def write_packed(writer: TokenWriter, values: np.ndarray) -> None:
    """Write the lower triangle, by rows, of a symmetric or triangular matrix, (dim (dim + 1) / 2,)."""
    values, letter = _stored(values)
    dim = int((np.sqrt(8.0 * len(values) + 1.0) - 1.0) / 2.0)
    if writer.binary:
        writer.token(letter + "P")
        writer.integer(dim)
        writer.array(values, values.dtype)
        return
    starts = [row * (row + 1) // 2 for row in range(dim)]
    rows = [TEXT_FLOAT * (row + 1) % tuple(values[start:start + row + 1].tolist()) for row, start in enumerate(starts)]
    writer.raw(b"[\n" + b"\n".join(rows) + b"]\n" if dim else b"[ ]\n")
