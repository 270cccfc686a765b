"""Examples of discriminative training (MMI, sMBR): inputs, and outputs with an alignment and a lattice.

Kaldi: ``nnet-discriminative-example.h``, ``discriminative-supervision.h``.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnet3py.egs.char_vector import read_char_vector, write_char_vector
from nnet3py.egs.example import NnetIo
from nnet3py.egs.sequence_outputs import (
    read_inputs_and_outputs,
    rows_problem,
    sequence_structure,
    write_inputs_and_outputs,
)
from nnet3py.errors import ShapeError
from nnet3py.io.fst import Fst
from nnet3py.io.fst_operations import concatenated
from nnet3py.io.fst_properties import top_sorted
from nnet3py.io.general import compressed
from nnet3py.io.holders import Holder
from nnet3py.io.index_vector import read_index_vector, write_index_vector
from nnet3py.io.lattice import read_lattice, write_lattice
from nnet3py.io.tables import SequentialReader
from nnet3py.io.tokens import TokenReader, TokenWriter

_TAG = "Nnet3DiscriminativeEg"


@dataclass
class DiscriminativeSupervision:
    """The reference and its competitors.

    Attributes
    ----------
    num_ali : int32 (frames,), the transition-ids of the reference, sequence after sequence
    den_lat : the lattice of what was recognised; its states are in topological order
    weight : of this supervision in the objective
    num_sequences, frames_per_sequence : what ``num_ali`` holds
    """

    num_ali: np.ndarray
    den_lat: Fst
    weight: float = 1.0
    num_sequences: int = 1
    frames_per_sequence: int = -1

    @classmethod
    def read(cls, reader: TokenReader) -> DiscriminativeSupervision:
        """Read from ``<DiscriminativeSupervision>`` to its closing tag; FormatError for anything else.

        A lattice whose states are in another order is sorted.
        """
        reader.expect("<DiscriminativeSupervision>")
        reader.expect("<Weight>")
        weight = reader.float32()
        reader.expect("<NumSequences>")
        num_sequences = reader.integer()
        reader.expect("<FramesPerSeq>")
        frames = reader.integer()
        reader.expect("<NumAli>")
        num_ali = reader.integer_vector()
        reader.expect("<DenLat>")
        lattice = top_sorted(read_lattice(reader))
        if lattice is None:
            raise reader.error("expected a lattice, found one with a circle of arcs")
        reader.expect("</DiscriminativeSupervision>")
        return cls(num_ali, lattice, weight, num_sequences, frames)

    def write(self, writer: TokenWriter) -> None:
        """Write it; ShapeError if there is no frame."""
        if self.num_sequences < 1 or self.frames_per_sequence < 1:
            raise ShapeError(f"a supervision of {self.num_sequences} sequences of {self.frames_per_sequence} frames")
        writer.token("<DiscriminativeSupervision>")
        writer.token("<Weight>")
        writer.float32(self.weight)
        writer.token("<NumSequences>")
        writer.integer(self.num_sequences)
        writer.token("<FramesPerSeq>")
        writer.integer(self.frames_per_sequence)
        writer.token("<NumAli>")
        writer.integer_vector(self.num_ali)
        writer.token("<DenLat>")
        write_lattice(writer, self.den_lat)
        writer.token("</DiscriminativeSupervision>")


def merge_supervisions(supervisions: Sequence[DiscriminativeSupervision]) -> DiscriminativeSupervision:
    """The supervision of all sequences, one after the other: lattices are joined by epsilon arcs.

    One supervision is returned as it is. ShapeError if they differ in weight or frames per sequence. Kaldi:
    ``AppendSupervision``.
    """
    first = supervisions[0]
    if len(supervisions) == 1:
        return first
    for name in ("weight", "frames_per_sequence"):
        found = sorted({getattr(one, name) for one in supervisions})
        if len(found) > 1:
            raise ShapeError("Failed to merge discriminative examples-- inconsistent lengths or weights: "
                             f"{name} " + " vs. ".join(map(str, found)))
    lattice = top_sorted(concatenated([one.den_lat for one in supervisions]))
    if lattice is None:
        raise ShapeError("a lattice of an example has a circle of arcs")
    return DiscriminativeSupervision(np.concatenate([one.num_ali for one in supervisions]), lattice, first.weight,
                                     sum(one.num_sequences for one in supervisions), first.frames_per_sequence)


@dataclass
class NnetDiscriminativeSupervision:
    """One output of a discriminative example.

    Attributes
    ----------
    name : of the network's output node
    indexes : int32 (rows, 3): row i S + n is (n, t0 + i step, 0), for frame i of sequence n of S
    supervision : what the output should be
    deriv_weights : float32 (rows,) between 0 and 1, kept in files as 1/255ths; empty: 1
    """

    name: str
    indexes: np.ndarray
    supervision: DiscriminativeSupervision
    deriv_weights: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))

    @classmethod
    def read(cls, reader: TokenReader) -> NnetDiscriminativeSupervision:
        """Read from ``<NnetDiscriminativeSup>`` to its closing tag; FormatError for anything else."""
        reader.expect("<NnetDiscriminativeSup>")
        result = cls(reader.token(), read_index_vector(reader), DiscriminativeSupervision.read(reader))
        reader.expect("<DW>")
        result.deriv_weights = read_char_vector(reader)
        reader.expect("</NnetDiscriminativeSup>")
        problem = result._problem()
        if problem:
            raise reader.error(problem)
        return result

    def write(self, writer: TokenWriter) -> None:
        """Write it; ShapeError if indexes and weights do not fit the supervision."""
        problem = self._problem()
        if problem:
            raise ShapeError(problem)
        writer.token("<NnetDiscriminativeSup>")
        writer.token(self.name)
        write_index_vector(writer, self.indexes)
        self.supervision.write(writer)
        writer.token("<DW>")
        write_char_vector(writer, self.deriv_weights)
        writer.token("</NnetDiscriminativeSup>")

    def _problem(self) -> str | None:
        return rows_problem(self.name, self.indexes, self.supervision.num_sequences,
                            self.supervision.frames_per_sequence, self.deriv_weights)


@dataclass
class NnetDiscriminativeExample:
    """A discriminative example: its inputs and outputs, in the file's order."""

    inputs: list[NnetIo]
    outputs: list[NnetDiscriminativeSupervision]

    @classmethod
    def read(cls, reader: TokenReader) -> NnetDiscriminativeExample:
        """Read from ``<Nnet3DiscriminativeEg>`` to its closing tag; FormatError for anything else."""
        return cls(*read_inputs_and_outputs(reader, _TAG, NnetDiscriminativeSupervision.read))

    def write(self, writer: TokenWriter) -> None:
        """Write it; ShapeError for an example without inputs or outputs, or with rows that do not fit."""
        write_inputs_and_outputs(writer, _TAG, self.inputs, self.outputs)

    def compress(self) -> None:
        """Compress every dense input, in place; the others stay as they are."""
        for io in self.inputs:
            io.features = compressed(io.features)

    def structure(self) -> tuple[Any, ...]:
        """What examples that can be merged share: names, indexes and dimensions."""
        return sequence_structure(self.inputs, self.outputs)

    def size(self) -> int:
        """The largest number of indexes of any input or output."""
        return max(len(part.indexes) for part in (*self.inputs, *self.outputs))


DISCRIMINATIVE_EXAMPLE: Holder[NnetDiscriminativeExample] = Holder(
    "discriminative example", NnetDiscriminativeExample.read, lambda writer, value: value.write(writer))


def read_discriminative_egs(rspecifier: str) -> Iterator[tuple[str, NnetDiscriminativeExample]]:
    """The discriminative examples of a table: yields (key, NnetDiscriminativeExample).

    Raises SpecifierError, FormatError, Nnet3Error. Kaldi: SequentialNnetDiscriminativeExampleReader.
    """
    with SequentialReader(rspecifier, DISCRIMINATIVE_EXAMPLE) as reader:
        yield from reader
