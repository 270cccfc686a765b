"""Weights of frames in older files: one byte each, 255 for 1. Kaldi: ReadVectorAsChar, WriteVectorAsChar."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import ShapeError
from nnet3py.formats.matrices import read_vector, write_vector
from nnet3py.io.tokens import TokenReader, TokenWriter

_SCALE = np.float32(1.0 / 255.0)


def read_char_vector(reader: TokenReader) -> np.ndarray:
    """Read weights between 0 and 1: float32 (frames,). In text they are an ordinary vector."""
    if not reader.binary:
        return read_vector(reader)
    return reader.integer_vector("uint8").astype(np.float32) * _SCALE


def write_char_vector(writer: TokenWriter, weights: np.ndarray) -> None:
    """Write weights, rounded to 1/255; ShapeError if one is not between 0 and 1."""
    values = np.asarray(weights, dtype=np.float32)
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise ShapeError(f"weights of frames must lie between 0 and 1 here, found {values.min()} to {values.max()}")
    if writer.binary:
        writer.integer_vector((np.float32(255.0) * values + np.float32(0.5)).astype(np.uint8), "uint8")
    else:
        write_vector(writer, values)
