"""Training examples: what one or more sequences feed into a network and what its output should be.

Kaldi: ``NnetIo`` and ``NnetExample`` of ``nnet-example.h``.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnet3py.errors import ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, compressed, read_general_matrix, write_general_matrix
from nnet3py.formats.holders import Holder
from nnet3py.formats.index_vector import read_index_vector, write_index_vector
from nnet3py.index import format_indexes
from nnet3py.io.read_ahead import read_ahead
from nnet3py.io.tables import Entries, write_table
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.provided import Shown

MAX_IO = 1_000_000             # more inputs and outputs in one example are taken for garbage


@dataclass(repr=False)
class NnetIo(Shown):
    """Input or output of an example.

    Attributes
    ----------
    name : the name of the network's input or output node
    indexes : int32 (rows, 3), the Index (n, t, x) of each row; not to be changed in place, as examples may share the
        array
    features : a matrix of as many rows: float32 array, CompressedMatrix or SparseMatrix
    """

    name: str
    indexes: np.ndarray
    features: GeneralMatrix

    def __repr__(self) -> str:
        rows, cols = self.features.shape
        return (f"<NnetIo {self.name!r}: {rows} x {cols} {type(self.features).__name__}, indexes "
                f"{format_indexes(self.indexes)}>")

    @classmethod
    def read(cls, reader: TokenReader) -> NnetIo:
        """Read from ``<NnetIo>`` to ``</NnetIo>``; FormatError for anything else."""
        reader.expect("<NnetIo>")
        name = reader.token()
        indexes = read_index_vector(reader)
        features = read_general_matrix(reader)
        reader.expect("</NnetIo>")
        if features.shape[0] != len(indexes):
            raise reader.error(f"io '{name}' of an example has {len(indexes)} indexes but {features.shape[0]} rows")
        return cls(name, indexes, features)

    def write(self, writer: TokenWriter) -> None:
        """Write the input or output; ShapeError if there are not as many rows as indexes."""
        if self.features.shape[0] != len(self.indexes):
            raise ShapeError(f"io '{self.name}' has {len(self.indexes)} indexes but {self.features.shape[0]} rows")
        writer.token("<NnetIo>")
        writer.token(self.name)
        write_index_vector(writer, self.indexes)
        write_general_matrix(writer, self.features)
        writer.token("</NnetIo>")


@dataclass(repr=False)
class NnetExample(Shown):
    """A frame-level example: inputs of a network, and supervision of its outputs.

    Attributes
    ----------
    io : inputs and outputs, in the file's order
    """

    io: list[NnetIo]

    def __repr__(self) -> str:
        return f"NnetExample({self.io})"

    @classmethod
    def read(cls, reader: TokenReader) -> NnetExample:
        """Read from ``<Nnet3Eg>`` to ``</Nnet3Eg>``; FormatError for anything else."""
        reader.expect("<Nnet3Eg>")
        count = reader.tagged("<NumIo>", TokenReader.integer)
        if not 0 < count <= MAX_IO:
            raise reader.error(f"expected an example with 1 to {MAX_IO} inputs and outputs, found {count}")
        io = [NnetIo.read(reader) for _ in range(count)]
        reader.expect("</Nnet3Eg>")
        return cls(io)

    def write(self, writer: TokenWriter) -> None:
        """Write the example; ShapeError if it has no inputs and outputs, or not as many rows as indexes."""
        if not self.io:
            raise ShapeError("an example needs at least one input or output")
        writer.token("<Nnet3Eg>")
        writer.tagged("<NumIo>", TokenWriter.integer, len(self.io))
        for io in self.io:
            io.write(writer)
        writer.token("</Nnet3Eg>")

    def find(self, name: str) -> NnetIo | None:
        """Return the first input or output called ``name``, or None."""
        return next((io for io in self.io if io.name == name), None)

    def compress(self) -> None:
        """Compress every dense matrix, in place; the others stay as they are. Kaldi: NnetExample::Compress."""
        for io in self.io:
            io.features = compressed(io.features)

    def structure(self) -> tuple[tuple[str, tuple[int, int], bytes], ...]:
        """Return names, indexes and dimensions of all inputs and outputs; only examples with the same ones are merged.

        Kaldi: NnetExampleStructure.
        """
        return tuple((io.name, io.features.shape, io.indexes.tobytes()) for io in self.io)

    def size(self) -> int:
        """Return the largest number of indexes of any input or output. Kaldi: GetNnetExampleSize."""
        return max((len(io.indexes) for io in self.io), default=0)


EXAMPLE: Holder[NnetExample] = Holder("training example", NnetExample.read, lambda writer, value: value.write(writer))


def read_egs(rspecifier: str) -> Iterator[tuple[str, NnetExample]]:
    """Read the examples of a table, one after the other.

    Parameters
    ----------
    rspecifier : such as ``ark:egs.ark``

    Yields
    ------
    (key, NnetExample)

    Raises
    ------
    SpecifierError : an rspecifier that cannot be used
    FormatError : bytes that are no examples
    Nnet3Error : a file that cannot be read

    Kaldi: SequentialNnetExampleReader.
    """
    return Entries(rspecifier, EXAMPLE, "read_egs")


def write_egs(wspecifier: str, examples: Mapping[str, NnetExample] | Iterable[tuple[str, NnetExample]]) -> int:
    """Write a table of examples.

    Parameters
    ----------
    wspecifier : such as ``ark:egs.ark``
    examples : a dict, or pairs of a key and an example

    Returns
    -------
    The number of examples.

    Raises
    ------
    SpecifierError : a wspecifier that cannot be used
    ShapeError : an example whose rows and indexes differ in number
    Nnet3Error : a file that cannot be written

    Kaldi: NnetExampleWriter.
    """
    return write_table(wspecifier, EXAMPLE, examples)


MOST_BYTES = 1 << 26            # of the examples that are held; an example of common size is a megabyte
_MOST = 8                       # examples that are held; more would not hide more
_ARC, _STATE = 16, 12           # bytes in memory, of an FST


def examples_ahead(entries: Iterable[tuple[str, Any]], most_bytes: int = MOST_BYTES) -> Iterator[tuple[str, Any]]:
    """Yield (key, example) of ``entries`` with decompressed inputs, while a thread reads the next entries.

    Examples may be of any kind. At most ``most_bytes`` of examples are read ahead. Errors of the thread are raised by
    the generator, which must be closed if not all entries are consumed.
    """
    return read_ahead(_decompressed(entries), _MOST, most_bytes, lambda entry: num_bytes(entry[1]))


def _decompressed(entries: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for key, example in entries:
        for io in _inputs(example):
            if isinstance(io.features, CompressedMatrix):
                io.features = io.features.to_dense()
        yield key, example


def _inputs(example: Any) -> list[Any]:
    """Return the ``NnetIo`` objects of an example: inputs and outputs of a frame-level example, inputs of others."""
    return example.io if hasattr(example, "io") else example.inputs


def num_merged(entry: tuple[str, Any]) -> int:
    """Return the number of sequences of the example in a pair (key, example), by the last n of its first input."""
    inputs = _inputs(entry[1])
    return int(inputs[0].indexes[-1, 0]) + 1 if inputs and len(inputs[0].indexes) else 1


def num_bytes(example: Any) -> int:
    """Return the approximate size of an example in memory, in bytes."""
    total = 0
    for io in _inputs(example):
        features = io.features
        total += io.indexes.nbytes
        if isinstance(features, SparseMatrix):
            total += features.row_starts.nbytes + features.columns.nbytes + features.values.nbytes
        else:
            total += features.codes.nbytes if isinstance(features, CompressedMatrix) else features.nbytes
    for output in getattr(example, "outputs", ()):
        supervision = output.supervision
        fsts = [getattr(supervision, "fst", None) or getattr(supervision, "den_lat", None),
                *getattr(supervision, "e2e_fsts", ())]
        total += output.indexes.nbytes + sum(_ARC * fst.num_arcs + _STATE * fst.num_states for fst in fsts if fst)
    return total
