"""Choosing frames from examples without decoding them one by one: what is kept is cut out of their bytes.

Which bytes these are is found once for each layout and each choice of frames, by the selector for decoded examples.
"""
from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.egs.packed_example import PackedExample, PackedLayout, as_written, decoded
from nnet3py.egs.select import ExampleSelector, shifted
from nnet3py.formats.general import SparseMatrix
from nnet3py.formats.layouts import FORMS, SPARSE_HEAD_BYTES, SPARSE_PAIR_BYTES, SPARSE_ROW, Part, head_bytes
from nnet3py.io.holder import BytePieces

_MOST_CUTS = 4096           # cuts that are kept; an archive has few layouts, and few frames in each

_Piece: TypeAlias = "bytes | slice"          # bytes that are always the same, or where they stand in the example


class _Rows(NamedTuple):
    first: int
    number: int


class PackedSelector:
    """Applies an :class:`ExampleSelector` to each PackedExample, in its bytes, and to each NnetExample as usual.

    The result, to be written in binary, is the same to the bit; so are errors and warnings.
    """

    def __init__(self, selector: ExampleSelector) -> None:
        self._selector = selector
        self._ranges: dict[PackedLayout, tuple[int, int]] = {}
        self._cuts: dict[tuple[PackedLayout, int, int], list[_Piece] | None] = {}

    def __call__(self, example: PackedExample | NnetExample) -> BytePieces | NnetExample | None:
        """What is kept of an example; None if it has no frame of that number. Raises Nnet3Error."""
        if not isinstance(example, PackedExample):
            return self._selector(example)
        layout, data = example.layout, example.data
        if layout not in self._ranges:
            self._ranges[layout] = self._selector.output_range(layout.example)
        times = self._selector.chosen_times(*self._ranges[layout])
        if times is None:
            return None
        key = (layout, *times)
        if key not in self._cuts:
            if len(self._cuts) >= _MOST_CUTS:
                self._cuts.clear()
            self._cuts[key] = self._cut(layout, *times)
        pieces = self._cuts[key]
        if pieces is None:
            return self._selector.cut(decoded(data), *times)
        return BytePieces([b"".join([data[piece] if isinstance(piece, slice) else piece for piece in pieces])])

    def _cut(self, layout: PackedLayout, low: int, high: int) -> list[_Piece] | None:
        """The pieces of what is kept of examples of this layout; None if some of it has to be computed."""
        whole, kept = layout.example, self._selector.cut(layout.example, low, high)
        pieces: list[_Piece] = [as_written("<Nnet3Eg>", "<NumIo>", len(kept.io))]
        for before, after, part in zip(whole.io, kept.io, layout.parts, strict=True):
            rows = _rows_kept(shifted(before, self._selector.shift), after)
            matrix = None if rows is None else _matrix_pieces(part, before, rows)
            if matrix is None:
                return None
            pieces += [as_written("<NnetIo>", after.name, after.indexes), *matrix, as_written("</NnetIo>")]
        return [*pieces, as_written("</Nnet3Eg>")]


def _rows_kept(whole: NnetIo, kept: NnetIo) -> _Rows | None:
    """The rows of ``whole`` that ``kept`` has; None if others stand between them."""
    count = len(kept.indexes)
    first = int((whole.indexes == kept.indexes[0]).all(axis=1).argmax())
    return _Rows(first, count) if np.array_equal(whole.indexes[first:first + count], kept.indexes) else None


def _matrix_pieces(part: Part, whole: NnetIo, rows: _Rows) -> list[_Piece] | None:
    """The pieces of these rows of a matrix; None for some rows of a compressed one, which become dense."""
    num_rows, num_cols = whole.features.shape
    if rows.number == num_rows:
        return [slice(part.first, part.end)]
    if isinstance(whole.features, SparseMatrix):
        begins = (part.first + SPARSE_HEAD_BYTES + SPARSE_ROW.size * np.arange(num_rows + 1)
                  + SPARSE_PAIR_BYTES * whole.features.row_starts).tolist()
        return [as_written("SM", rows.number), slice(begins[rows.first], begins[rows.first + rows.number])]
    if part.kind != "FM":
        return None
    row_bytes = FORMS["FM"].element_bytes * num_cols
    begin = part.end - (num_rows - rows.first) * row_bytes
    return [head_bytes("FM", rows.number, num_cols), slice(begin, begin + rows.number * row_bytes)]
