"""Examples that are merged, or cut to some frames, without being decoded one by one.

An example is kept as its bytes in the file, with a layout: the names, indexes and forms of its matrices, and where in
the bytes they lie. Nearly all examples of an archive have the same layout, which is decoded once. The matrices of a
minibatch of one layout are decoded and encoded again by few array operations for all of its examples. To cut an example
to some frames, the bytes of these are copied; which bytes they are is computed once for each layout and choice of
frames, by the selector for decoded examples. All other examples are decoded, then merged or cut as usual, with the same
result to the bit.
"""
from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nnet3py.egs.changes import ExampleSelector, shifted
from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo
from nnet3py.egs.merger import joined_indexes, merge_examples
from nnet3py.egs.raw_example import walk_example
from nnet3py.errors import Nnet3Error
from nnet3py.formats.compressed import CompressedMatrix, decode_batch
from nnet3py.formats.compressed_code import expect_decoding
from nnet3py.formats.general import SparseMatrix, write_general_matrix
from nnet3py.formats.index_vector import write_index_vector
from nnet3py.formats.layouts import FORMS, SPARSE_HEAD_BYTES, SPARSE_PAIR_BYTES, SPARSE_ROW, Part, head_bytes
from nnet3py.io.holder import BytePieces, Holder
from nnet3py.io.skim import Entry, Layout, Skimmer
from nnet3py.io.tokens import TokenReader, TokenWriter

_PLANS = 64                                    # plans of minibatches that are kept


class _Sparse(NamedTuple):
    """The elements of a sparse matrix in the bytes of an example.

    ``places`` is the first byte of each element, ``continues`` whether the element before is in the same row.
    """

    places: np.ndarray
    continues: np.ndarray
    num_cols: int


class PackedLayout:
    """A layout of examples (see the module), with one of its examples decoded.

    Attributes
    ----------
    example : one example of this layout
    parts : for each input and output, the place of its matrix in the bytes
    structure, size : structure and size of examples of this layout, as of NnetExample
    """

    def __init__(self, layout: Layout) -> None:
        self.example = decoded(layout.sample)
        self.parts: tuple[Part, ...] = layout.parts
        self.length = len(layout.sample)
        self.structure = self.example.structure()
        self.size = self.example.size()
        self._sparse = [_sparse(part, node_io.features) for part,
                        node_io in zip(self.parts, self.example.io, strict=True)
                        if isinstance(node_io.features, SparseMatrix)]

    @property
    def is_plain(self) -> bool:
        """True if examples of this layout can be merged without being decoded."""
        names = {node_io.name for node_io in self.example.io}
        kinds = {part.kind for part in self.parts}
        return (len(names) == len(self.example.io) and "DM" not in kinds
                and all(node_io.features.shape[0] for node_io in self.example.io))

    def num_sound(self, examples: np.ndarray) -> int:
        """Return the number of valid examples before the first invalid one in ``examples``, uint8 (examples, bytes).

        An example is invalid if decoding it would raise an error. Only elements of sparse matrices are checked: the
        other bytes are the same in each example of the layout, or may have any value.
        """
        count = len(examples)
        for places, continues, num_cols in self._sparse:
            elements = examples[:count, places[:, None] + np.arange(SPARSE_PAIR_BYTES)]
            columns = np.ascontiguousarray(elements[:, :, 1:5]).view("<i4")[:, :, 0]
            bad = (elements[:, :, 0] != 4) | (elements[:, :, 5] != 4) | (columns < 0) | (columns >= num_cols)
            bad[:, 1:] |= (columns[:, 1:] <= columns[:, :-1]) & continues[1:]
            wrong = bad.any(axis=1)
            count = int(wrong.argmax()) if wrong.any() else count
        return count


class PackedExample:
    """An example as its bytes in the file, with their layout; it can be merged like an NnetExample."""

    __slots__ = ("data", "layout")

    def __init__(self, data: bytes, layout: PackedLayout) -> None:
        self.data, self.layout = data, layout

    def structure(self) -> tuple[Any, ...]:
        """Return names, indexes and dimensions of inputs and outputs; only examples with the same ones are merged."""
        return self.layout.structure

    def size(self) -> int:
        """Return the largest number of indexes of any input or output."""
        return self.layout.size


def decoded(data: bytes) -> NnetExample:
    """Decode an example from its bytes in a binary file, without the header. Raises FormatError."""
    return NnetExample.read(TokenReader(io.BytesIO(data), binary=True))


def as_written(*values: str | int | np.ndarray) -> bytes:
    """Return the bytes of tokens (str), integers and arrays of indexes in a binary file."""
    stream = io.BytesIO()
    writer = TokenWriter(stream, binary=True)
    for value in values:
        if isinstance(value, str):
            writer.token(value)
        elif isinstance(value, int):
            writer.integer(value)
        else:
            write_index_vector(writer, value)
    return stream.getvalue()


def _sparse(part: Part, matrix: SparseMatrix) -> _Sparse:
    rows = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.row_starts))
    places = part.first + SPARSE_HEAD_BYTES + SPARSE_ROW.size * (rows + 1) + SPARSE_PAIR_BYTES * np.arange(len(rows))
    return _Sparse(places, np.diff(rows, prepend=-1) == 0, matrix.num_cols)


class PackingSkimmer(Skimmer):
    """Skimmer that splits an archive into PackedExample.

    It stops before an example that is invalid, which the ordinary reader then reads, and raises the error.
    """

    block_bytes = 1 << 17            # twice as much as where nothing is done with the entries found

    def __init__(self) -> None:
        super().__init__(walk_example)
        self._packed: dict[bytes, PackedLayout] = {}

    def entries(self, data: bytes) -> tuple[list[Entry], int, bool]:
        """Return the examples at the beginning of ``data``, the number of their bytes, and whether the next is invalid.

        The examples are pairs (key, PackedExample), or (key, NnetExample) while their layout is not known. Invalid
        examples are left to the ordinary reader.
        """
        entries, consumed, unusual = super().entries(data)
        values: list[Entry] = []
        ends = [*(first for first, _ in self.runs[1:]), len(entries)]
        for (first, layout), end in zip(self.runs, ends, strict=False):
            values += self._run(entries[first:end], layout)
            if len(values) < end:
                return values, sum(len(key) + len(b" \0B") + len(value) for key, value in entries[:len(values)]), True
        return values, consumed, unusual

    def value_at(self, source: int, at: int) -> Any | None:
        """Return None, so that a single value of a list (scp) is decoded by the ordinary reader."""
        return None

    def _run(self, entries: list[Entry], layout: Layout | None) -> list[Entry]:
        """Return the examples of ``entries``, (key, bytes) of one layout, up to the first that is invalid."""
        packed = None
        try:
            if layout is not None:
                packed = self._packed.get(layout.pattern.pattern)
                if packed is None:
                    packed = self._packed[layout.pattern.pattern] = PackedLayout(layout)
                    if len(self._packed) == 1 and any(part.kind == "CM" for part in packed.parts):
                        expect_decoding(self.archive_bytes)
            if packed is None or not packed.is_plain:
                return _read(entries)
        except Nnet3Error:
            return _read(entries)
        examples = np.frombuffer(b"".join([value for _, value in entries]), dtype=np.uint8)
        count = packed.num_sound(examples.reshape(len(entries), packed.length))
        return [(key, PackedExample(value, packed)) for key, value in entries[:count]]


def _read(entries: list[Entry]) -> list[Entry]:
    values = []
    for key, value in entries:
        try:
            values.append((key, decoded(value)))
        except Nnet3Error:
            break
    return values


class _Plan(NamedTuple):
    """For an input or output of a minibatch: its number in the examples, and the bytes before its matrix."""

    place: int
    head: bytes


@lru_cache(maxsize=_PLANS)
def _plan(layout: PackedLayout, count: int) -> list[_Plan]:
    examples = [layout.example] * count
    plan = []
    for place, member in sorted(enumerate(layout.example.io), key=lambda item: item[1].name):
        indexes = joined_indexes(examples, [member] * count, range(count))
        plan.append(_Plan(place, as_written("<NnetIo>", member.name, indexes)))
    return plan


def merge_packed(examples: Sequence[Any], compress: bool = False) -> BytePieces | NnetExample:
    """Merge PackedExample and NnetExample objects into one example, to be written in binary.

    Its bytes, and errors raised, are those of :func:`~nnet3py.egs.merger.merge_examples`. The result is BytePieces if
    all examples are PackedExample of one layout, else an NnetExample.
    """
    first = examples[0]
    if not all(isinstance(example, PackedExample) and example.layout is first.layout for example in examples):
        return merge_examples([decoded(example.data) if isinstance(example, PackedExample) else example
                               for example in examples],
                              compress)
    layout, count = first.layout, len(examples)
    data = np.frombuffer(b"".join([example.data for example in examples]), dtype=np.uint8).reshape(count, layout.length)
    minibatch = BytePieces()
    writer = TokenWriter(minibatch.stream, binary=True)
    writer.token("<Nnet3Eg>")
    writer.tagged("<NumIo>", TokenWriter.integer, len(layout.parts))
    for place, head in _plan(layout, count):
        writer.raw(head)
        _write_matrix(writer, data, layout.parts[place], layout.example.io[place].features, compress)
        writer.token("</NnetIo>")
    writer.token("</Nnet3Eg>")
    return minibatch


_spare = np.empty(0, dtype=np.float32)


def _memory(size: int) -> np.ndarray:
    """Return an uninitialized array, float32 (size,), in the memory of the last minibatch if that is no longer in use.

    Allocating memory of this size takes as long as decoding into it.
    """
    global _spare
    if len(_spare) < size or sys.getrefcount(_spare) > 2:          # the variable, and the argument
        _spare = np.empty(size, dtype=np.float32)
    return _spare[:size]


def _write_matrix(writer: TokenWriter, data: np.ndarray, part: Part, matrix: Any, compress: bool) -> None:
    """Write the matrix of one input or output of a minibatch: its rows in all examples, ``data``, uint8 (n, bytes).

    ``part`` is the place of the matrix in the bytes, ``matrix`` that of one of the examples, for its form.
    """
    if isinstance(matrix, SparseMatrix):
        writer.token("SM")
        writer.integer(len(data) * matrix.num_rows)
        writer.array(data[:, part.first + SPARSE_HEAD_BYTES:part.end], np.uint8)
        return
    num_rows, num_cols = matrix.shape
    dense = _memory(len(data) * num_rows * num_cols).reshape(len(data), num_rows, num_cols)
    if isinstance(matrix, CompressedMatrix):
        decode_batch(matrix, data[:, part.first:part.end], dense)
    else:
        dense.reshape(len(data), -1).view(np.uint8)[...] = data[:, part.end - dense[0].nbytes:part.end]
    rows = dense.reshape(-1, num_cols)
    write_general_matrix(writer, CompressedMatrix.compress(rows) if compress else rows)


PACKED_EXAMPLE: Holder[Any] = Holder("training example", EXAMPLE.read, EXAMPLE.write, skimmer=PackingSkimmer)


_MOST_CUTS = 4096           # cuts that are kept; an archive has few layouts, and few frames in each

_Piece: TypeAlias = "bytes | slice"          # bytes that are always the same, or where they stand in the example


class _Rows(NamedTuple):
    first: int
    number: int


class PackedSelector:
    """Function that applies an :class:`ExampleSelector` to a PackedExample, mostly without decoding it.

    Written in binary, the result is the same to the bit as that of the ExampleSelector; so are errors and warnings.
    """

    def __init__(self, selector: ExampleSelector) -> None:
        self._selector = selector
        self._ranges: dict[PackedLayout, tuple[int, int]] = {}
        self._cuts: dict[tuple[PackedLayout, int, int], list[_Piece] | None] = {}

    def __call__(self, example: PackedExample | NnetExample) -> BytePieces | NnetExample | None:
        """Return an example with the selected frames; None if it has no output at the selected time.

        Raises Nnet3Error as :class:`ExampleSelector`.
        """
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
        """Return the pieces of which an example of this layout consists when it is cut to outputs ``low`` to ``high``.

        A piece is constant bytes, or a slice of the example's bytes. None if the example must be decoded.
        """
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
    """Return the first row of ``kept`` in ``whole``, and the number of its rows; None if they are not consecutive."""
    count = len(kept.indexes)
    first = int((whole.indexes == kept.indexes[0]).all(axis=1).argmax())
    return _Rows(first, count) if np.array_equal(whole.indexes[first:first + count], kept.indexes) else None


def _matrix_pieces(part: Part, whole: NnetIo, rows: _Rows) -> list[_Piece] | None:
    """Return the pieces of which a matrix with only the given rows consists; None if it must be decoded.

    Some rows of a compressed matrix must be, as they become dense.
    """
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
