"""Feature files of HTK and Sphinx, which ``copy-feats`` reads.

Both are big-endian and carry no ``\\0B``, but for Sphinx's that are written: Kaldi's program writes little-endian ones,
and Sphinx finds out. Kaldi: HtkMatrixHolder, SphinxMatrixHolder.
"""
from __future__ import annotations

import struct

import numpy as np

from nnet3py.errors import ShapeError
from nnet3py.formats.holders import Holder
from nnet3py.formats.matrices import write_matrix
from nnet3py.io.tokens import TokenReader, TokenWriter

SPHINX_DIM = 13                 # the file does not tell
_HTK_HEADER = struct.Struct(">iihH")   # samples, period in units of 100 ns, bytes per sample, kind
_COMPRESSED, _CHECKSUM, _BASE_KIND = 0o2000, 0o10000, 0o77
TEN_MILLISECONDS = 100000
_LARGEST_SAMPLE = 0x7FFF        # bytes
_WAVEFORMS = (0, 5)             # WAVEFORM and IREFC hold samples, not vectors


def _big_endian(reader: TokenReader, dtype: str, count: int) -> np.ndarray:
    return reader.array("u1", count * np.dtype(dtype).itemsize).view(dtype)


def read_htk_matrix(reader: TokenReader) -> np.ndarray:
    """A parameter file of HTK: float32 (frames, dim). Compressed ones (kind _C) are decoded, checksums are skipped.

    Raises FormatError.
    """
    num_samples, _, sample_bytes, kind = _HTK_HEADER.unpack(reader.raw(_HTK_HEADER.size))
    compressed = bool(kind & _COMPRESSED)
    value_bytes = 2 if compressed else 4
    if kind & _BASE_KIND in _WAVEFORMS or num_samples < 0 or sample_bytes <= 0 or sample_bytes % value_bytes:
        raise reader.error(f"expected an HTK parameter file, found a header of {num_samples} samples of {sample_bytes} "
                           f"bytes, kind {kind}")
    dim = sample_bytes // value_bytes
    if compressed:
        if num_samples < 4:
            raise reader.error(f"a compressed HTK file begins with 4 samples of factors, found {num_samples}")
        factors = _big_endian(reader, ">f4", 2 * dim).reshape(2, dim).astype(np.float32)
        rows = num_samples - 4
        values = _big_endian(reader, ">i2", rows * dim).reshape(rows, dim)
        matrix = (values + factors[1]) / factors[0]
    else:
        matrix = _big_endian(reader, ">f4", num_samples * dim).reshape(num_samples, dim)
    if kind & _CHECKSUM:
        reader.raw(2)
    return np.ascontiguousarray(matrix, dtype=np.float32)


def read_sphinx_matrix(reader: TokenReader) -> np.ndarray:
    """A feature file of Sphinx: float32 (frames, 13). Raises FormatError."""
    (count,) = struct.unpack(">i", reader.raw(4))
    if count < 0 or count % SPHINX_DIM:
        raise reader.error(f"expected a Sphinx file of {SPHINX_DIM} numbers a frame, found {count} numbers")
    return _big_endian(reader, ">f4", count).reshape(-1, SPHINX_DIM).astype(np.float32)


def htk_holder(kind: int, period: int = TEN_MILLISECONDS) -> Holder[np.ndarray]:
    """HTK files whose header says ``kind``, such as 6 for MFCC, and a frame every ``period`` of 100 ns.

    Writing raises ShapeError for more columns than such files can have. Kaldi: WriteHtk.
    """
    def write(writer: TokenWriter, matrix: np.ndarray) -> None:
        if 4 * matrix.shape[1] > _LARGEST_SAMPLE:
            raise ShapeError(f"features of {matrix.shape[1]} columns do not fit into an HTK file, which has at most "
                             f"{_LARGEST_SAMPLE // 4}")
        writer.raw(_HTK_HEADER.pack(matrix.shape[0], period, 4 * matrix.shape[1], kind))
        writer.raw(matrix.astype(">f4").tobytes())

    return Holder("HTK matrix", read_htk_matrix, write, has_header=False)


def write_sphinx_matrix(writer: TokenWriter, matrix: np.ndarray) -> None:
    """A feature file of Sphinx, of any number of columns, which the file does not tell. Kaldi: WriteSphinx."""
    writer.raw(struct.pack("<i", matrix.size))
    writer.raw(matrix.astype("<f4").tobytes())


HTK_MATRIX: Holder[np.ndarray] = Holder("HTK matrix", read_htk_matrix, write_matrix, has_header=False)
SPHINX_MATRIX: Holder[np.ndarray] = Holder("Sphinx matrix", read_sphinx_matrix, write_matrix, has_header=False)
