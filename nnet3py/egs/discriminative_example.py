"""Examples of discriminative training (MMI, sMBR): inputs, and outputs with an alignment and a lattice.

Kaldi: ``nnet-discriminative-example.h``, ``discriminative-supervision.h``.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nnet3py.egs.chain_example import SequenceExample, SequenceOutput, read_char_vector, write_char_vector
from nnet3py.errors import ShapeError
from nnet3py.formats.holders import Holder
from nnet3py.io.tables import SequentialReader
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import concatenated, top_sorted
from nnet3py.transducers.lattice import read_lattice, write_lattice


@dataclass
class DiscriminativeSupervision:
    """Supervision of discriminative training: the reference alignment and a lattice of competitors.

    Attributes
    ----------
    num_ali : int32 (frames,), the transition-ids of the reference, sequence after sequence
    den_lat : the lattice of recognized paths; its states are in topological order
    weight : factor of the objective
    num_sequences, frames_per_sequence : the number of sequences in ``num_ali``, and of frames of each; -1: not known
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
        weight = reader.tagged("<Weight>", TokenReader.float32)
        num_sequences = reader.tagged("<NumSequences>", TokenReader.integer)
        frames = reader.tagged("<FramesPerSeq>", TokenReader.integer)
        num_ali = reader.tagged("<NumAli>", TokenReader.integer_vector)
        reader.expect("<DenLat>")
        lattice = top_sorted(read_lattice(reader))
        if lattice is None:
            raise reader.error("expected a lattice, found one with a cycle of arcs")
        reader.expect("</DiscriminativeSupervision>")
        return cls(num_ali, lattice, weight, num_sequences, frames)

    def write(self, writer: TokenWriter) -> None:
        """Write the supervision; ShapeError if it has no frames."""
        if self.num_sequences < 1 or self.frames_per_sequence < 1:
            raise ShapeError(f"a supervision has {self.num_sequences} sequences of {self.frames_per_sequence} frames, "
                             "expected 1 or more of both")
        writer.token("<DiscriminativeSupervision>")
        writer.tagged("<Weight>", TokenWriter.float32, self.weight)
        writer.tagged("<NumSequences>", TokenWriter.integer, self.num_sequences)
        writer.tagged("<FramesPerSeq>", TokenWriter.integer, self.frames_per_sequence)
        writer.tagged("<NumAli>", TokenWriter.integer_vector, self.num_ali)
        writer.tagged("<DenLat>", write_lattice, self.den_lat)
        writer.token("</DiscriminativeSupervision>")


def merge_supervisions(supervisions: Sequence[DiscriminativeSupervision]) -> DiscriminativeSupervision:
    """Return the supervision of all sequences, one after the other: lattices are joined by epsilon arcs.

    One supervision is returned as it is. ShapeError if they differ in weight or frames per sequence. Kaldi:
    ``AppendSupervision``.
    """
    first = supervisions[0]
    if len(supervisions) == 1:
        return first
    for name in ("weight", "frames_per_sequence"):
        values = sorted({getattr(supervision, name) for supervision in supervisions})
        if len(values) > 1:
            raise ShapeError("Failed to merge discriminative examples-- inconsistent lengths or weights: "
                             f"{name} " + " vs. ".join(map(str, values)))
    lattice = top_sorted(concatenated([supervision.den_lat for supervision in supervisions]))
    if lattice is None:
        raise ShapeError("a lattice of an example has a cycle of arcs")
    return DiscriminativeSupervision(np.concatenate([supervision.num_ali for supervision in supervisions]), lattice,
                                     first.weight,
                                     sum(supervision.num_sequences
                                         for supervision in supervisions), first.frames_per_sequence)


@dataclass
class NnetDiscriminativeSupervision(SequenceOutput):
    """Output of a discriminative example. Its weights lie between 0 and 1, and are stored as 1/255ths."""

    TAG, SUPERVISION = "NnetDiscriminativeSup", DiscriminativeSupervision
    supervision: DiscriminativeSupervision

    def _read_weights(self, reader: TokenReader) -> None:
        self.deriv_weights = reader.tagged("<DW>", read_char_vector)
        reader.expect(f"</{self.TAG}>")

    def _write_weights(self, writer: TokenWriter) -> None:
        writer.tagged("<DW>", write_char_vector, self.deriv_weights)


@dataclass
class NnetDiscriminativeExample(SequenceExample):
    """A discriminative example: its inputs and outputs, in the file's order."""

    TAG, OUTPUT = "Nnet3DiscriminativeEg", NnetDiscriminativeSupervision
    outputs: list[NnetDiscriminativeSupervision]


DISCRIMINATIVE_EXAMPLE: Holder[NnetDiscriminativeExample] = Holder(
    "discriminative example", NnetDiscriminativeExample.read, lambda writer, value: value.write(writer))


def read_discriminative_egs(rspecifier: str) -> Iterator[tuple[str, NnetDiscriminativeExample]]:
    """Read the discriminative examples of a table; yields (key, NnetDiscriminativeExample).

    Raises SpecifierError, FormatError, Nnet3Error. Kaldi: SequentialNnetDiscriminativeExampleReader.
    """
    with SequentialReader(rspecifier, DISCRIMINATIVE_EXAMPLE) as reader:
        yield from reader
