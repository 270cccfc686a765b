"""Supervision of chain training: which sequences of pdfs each utterance, or piece of one, may have.

Kaldi: ``chain::Supervision`` (chain-supervision.h).
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnet3py.errors import ShapeError
from nnet3py.formats.holders import Holder
from nnet3py.io.tables import SequentialReader
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_binary import read_binary_fst, write_binary_fst
from nnet3py.transducers.fst_operations import breadth_first, concatenated, without_epsilons
from nnet3py.transducers.fst_text import read_text_fst, write_text_fst

COMPACT = "compact_acceptor"
SMALLEST_FST = {True: 70, False: 2}       # bytes; in binary a header, in text two newlines


@dataclass
class Supervision:
    """The paths of a time-constrained FST, or (end to end) of one FST per sequence that says nothing about time.

    Attributes
    ----------
    weight : of this supervision in the objective
    num_sequences : sequences, which follow each other in ``fst``
    frames_per_sequence : frames of each at the network's output
    label_dim : labels are 1 to ``label_dim``: pdf-ids plus 1, or transition-ids
    fst : an acceptor whose paths have ``num_sequences frames_per_sequence`` arcs; None end to end
    e2e_fsts : an acceptor for each sequence, end to end; else empty
    alignment_pdfs : int32 (frames,), one possible sequence of pdf-ids, for LDA statistics; may be empty
    """

    weight: float = 1.0
    num_sequences: int = 1
    frames_per_sequence: int = -1
    label_dim: int = -1
    fst: Fst | None = None
    e2e_fsts: list[Fst] = field(default_factory=list)
    alignment_pdfs: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @property
    def is_end_to_end(self) -> bool:
        """True if there is an FST per sequence."""
        return self.fst is None

    @classmethod
    def read(cls, reader: TokenReader) -> Supervision:
        """Read from ``<Supervision>`` to ``</Supervision>``; FormatError for anything else.

        The FSTs are not examined beyond their form.
        """
        reader.expect("<Supervision>")
        reader.expect("<Weight>")
        result = cls(weight=reader.float32())
        for tag, name in (("<NumSequences>", "num_sequences"), ("<FramesPerSeq>", "frames_per_sequence"),
                          ("<LabelDim>", "label_dim")):
            reader.expect(tag)
            setattr(result, name, reader.integer())
        reader.expect("<End2End>")
        if reader.boolean():
            reader.expect("<Fsts>")
            if result.num_sequences < 1:
                raise reader.error(f"expected a supervision of 1 or more sequences, found {result.num_sequences}")
            reader.check_count(result.num_sequences, SMALLEST_FST[reader.binary], "FSTs")
            result.e2e_fsts = [_read_fst(reader) for _ in range(result.num_sequences)]
            reader.expect("</Fsts>")
        else:
            result.fst = _read_fst(reader)
        if reader.peek_token() == "A":
            reader.expect("<AlignmentPdfs>")
            result.alignment_pdfs = reader.integer_vector()
        reader.expect("</Supervision>")
        return result

    def write(self, writer: TokenWriter) -> None:
        """Write it; ShapeError if there is not one FST per sequence, end to end."""
        if self.is_end_to_end and (len(self.e2e_fsts) != self.num_sequences or not self.e2e_fsts):
            raise ShapeError(f"a supervision of {self.num_sequences} sequences has {len(self.e2e_fsts)} FSTs")
        writer.token("<Supervision>")
        writer.token("<Weight>")
        writer.float32(self.weight)
        for tag, number in (("<NumSequences>", self.num_sequences), ("<FramesPerSeq>", self.frames_per_sequence),
                            ("<LabelDim>", self.label_dim)):
            writer.token(tag)
            writer.integer(number)
        writer.token("<End2End>")
        writer.boolean(self.is_end_to_end)
        if self.fst is not None:
            _write_fst(writer, self.fst)
        else:
            writer.token("<Fsts>")
            for fst in self.e2e_fsts:
                _write_fst(writer, fst)
            writer.token("</Fsts>")
        if len(self.alignment_pdfs):
            writer.token("<AlignmentPdfs>")
            writer.integer_vector(self.alignment_pdfs)
        writer.token("</Supervision>")


def merge_supervisions(supervisions: Sequence[Supervision]) -> Supervision:
    """The supervision of all sequences, one after the other. Kaldi: ``MergeSupervision``.

    One supervision is returned as it is. Merging drops ``alignment_pdfs``. ShapeError if they differ in
    weight, frames per sequence, labels or kind, which Kaldi does not merge either.
    """
    first = supervisions[0]
    if len(supervisions) == 1:
        return first
    for name in ("weight", "frames_per_sequence", "label_dim", "is_end_to_end"):
        values = sorted({getattr(supervision, name) for supervision in supervisions})
        if len(values) > 1:
            raise ShapeError(f"Mismatch weight or frames_per_sequence  between inputs: {name} "
                             + " vs. ".join(map(str, values)), "examples of one minibatch must agree in these")
    fst = None
    if not first.is_end_to_end:
        fst = breadth_first(without_epsilons(concatenated([supervision.fst for supervision in supervisions
                                                           if supervision.fst is not None])))
        if fst.start < 0:
            raise ShapeError("the supervisions of examples have no common path, so they cannot be merged")
    return Supervision(first.weight, sum(supervision.num_sequences for supervision in supervisions),
                       first.frames_per_sequence,
                       first.label_dim, fst, [fst for supervision in supervisions for fst in supervision.e2e_fsts])


def _read_fst(reader: TokenReader) -> Fst:
    return read_binary_fst(reader) if reader.binary else read_text_fst(reader)


def _write_fst(writer: TokenWriter, fst: Fst) -> None:
    if writer.binary:
        write_binary_fst(writer, fst, COMPACT)
    else:
        write_text_fst(writer, fst)


SUPERVISION: Holder[Supervision] = Holder("supervision", Supervision.read, lambda writer, value: value.write(writer))


def read_supervisions(rspecifier: str) -> Iterator[tuple[str, Supervision]]:
    """The supervisions of a table, as chain-get-supervision writes it: yields (key, Supervision)."""
    with SequentialReader(rspecifier, SUPERVISION) as reader:
        yield from reader
