"""Examples of chain training: inputs, and outputs with a supervision. Kaldi: nnet-chain-example.h, chain-supervision.h.

``SequenceOutput`` and ``SequenceExample`` are what chain and discriminative examples have in common. The rows of an
output go frame after frame, and within a frame sequence after sequence.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from nnet3py.egs.example import MAX_IO, NnetIo
from nnet3py.errors import ShapeError
from nnet3py.formats.general import compressed
from nnet3py.formats.holders import Holder
from nnet3py.formats.index_vector import read_index_vector, write_index_vector
from nnet3py.formats.matrices import read_vector, write_vector
from nnet3py.io.tables import Entries, SequentialReader
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_binary import read_binary_fst, write_binary_fst
from nnet3py.transducers.fst_operations import breadth_first, concatenated, without_epsilons
from nnet3py.transducers.fst_text import read_text_fst, write_text_fst

COMPACT = "compact_acceptor"
SMALLEST_FST = {True: 70, False: 2}       # bytes; in binary a header, in text two newlines


@dataclass
class Supervision:
    """Supervision of chain training: an FST with times, or, end to end, an FST without times for each sequence.

    Attributes
    ----------
    weight : factor of the objective
    num_sequences : the number of sequences, which follow each other in ``fst``
    frames_per_sequence : the frames of each sequence at the network's output; -1: not known
    label_dim : labels are 1 to ``label_dim``: pdf-ids plus 1, or transition-ids
    fst : an acceptor whose paths have ``num_sequences`` × ``frames_per_sequence`` arcs; None end to end
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
        """True if there is an FST for each sequence (``e2e_fsts``)."""
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
            result.alignment_pdfs = reader.tagged("<AlignmentPdfs>", TokenReader.integer_vector)
        reader.expect("</Supervision>")
        return result

    def write(self, writer: TokenWriter) -> None:
        """Write the supervision; ShapeError if it is end to end and has not one FST per sequence."""
        if self.is_end_to_end and (len(self.e2e_fsts) != self.num_sequences or not self.e2e_fsts):
            raise ShapeError(f"a supervision of {self.num_sequences} sequences has {len(self.e2e_fsts)} FSTs")
        writer.token("<Supervision>")
        writer.tagged("<Weight>", TokenWriter.float32, self.weight)
        for tag, number in (("<NumSequences>", self.num_sequences), ("<FramesPerSeq>", self.frames_per_sequence),
                            ("<LabelDim>", self.label_dim)):
            writer.token(tag)
            writer.integer(number)
        writer.tagged("<End2End>", TokenWriter.boolean, self.is_end_to_end)
        if self.fst is not None:
            _write_fst(writer, self.fst)
        else:
            writer.token("<Fsts>")
            for fst in self.e2e_fsts:
                _write_fst(writer, fst)
            writer.token("</Fsts>")
        if len(self.alignment_pdfs):
            writer.tagged("<AlignmentPdfs>", TokenWriter.integer_vector, self.alignment_pdfs)
        writer.token("</Supervision>")


def merge_supervisions(supervisions: Sequence[Supervision]) -> Supervision:
    """Return the supervision of all sequences, one after the other. Kaldi: ``MergeSupervision``.

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
            raise ShapeError("the supervision of an example has no path, so the examples cannot be merged")
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
    """Read the supervisions of a table, as chain-get-supervision writes it; yields (key, Supervision)."""
    with SequentialReader(rspecifier, SUPERVISION) as reader:
        yield from reader


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
        raise ShapeError(f"derivative weights of frames are stored as 1/255ths, so they must lie between 0 and 1; "
                         f"found {values.min()} to {values.max()}")
    if writer.binary:
        writer.integer_vector((np.float32(255.0) * values + np.float32(0.5)).astype(np.uint8), "uint8")
    else:
        write_vector(writer, values)


Output = TypeVar("Output", bound="SequenceOutput")
Example = TypeVar("Example", bound="SequenceExample")


@dataclass
class SequenceOutput:
    """Base of the outputs of chain and discriminative examples."""

    TAG: ClassVar[str]                # in files
    SUPERVISION: ClassVar[type[Any]]

    name: str  # the name of the network's output node
    # int32 (rows, 3), the Indexes (n, t, x) of the rows: for frame i of sequence n of S sequences, row i × S + n is
    # (n, t0 + i × step, 0)
    indexes: np.ndarray
    supervision: Any  # the supervision of all sequences
    # factors of the derivatives of the rows, float32 (rows,); empty: all are 1
    deriv_weights: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))

    @classmethod
    def read(cls: type[Output], reader: TokenReader) -> Output:
        """Read from the opening to the closing tag; FormatError for anything else."""
        reader.expect(f"<{cls.TAG}>")
        result = cls(reader.token(), read_index_vector(reader), cls.SUPERVISION.read(reader))
        result._read_weights(reader)
        problem = result._problem()
        if problem:
            raise reader.error(problem)
        return result

    def write(self, writer: TokenWriter) -> None:
        """Write the output; ShapeError if the numbers of indexes and weights do not fit the supervision."""
        problem = self._problem()
        if problem:
            raise ShapeError(problem)
        writer.token(f"<{self.TAG}>")
        writer.token(self.name)
        write_index_vector(writer, self.indexes)
        self.supervision.write(writer)
        self._write_weights(writer)
        writer.token(f"</{self.TAG}>")

    def _read_weights(self, reader: TokenReader) -> None:
        """Read the weights and the closing tag."""
        raise NotImplementedError

    def _write_weights(self, writer: TokenWriter) -> None:
        """Write the weights."""
        raise NotImplementedError

    def _problem(self) -> str | None:
        return rows_problem(self.name, self.indexes, self.supervision.num_sequences,
                            self.supervision.frames_per_sequence, self.deriv_weights)


@dataclass
class SequenceExample:
    """An example: its inputs and outputs, in the file's order."""

    TAG: ClassVar[str]                # in files
    OUTPUT: ClassVar[type[SequenceOutput]]

    inputs: list[NnetIo]
    outputs: list[Any]

    @classmethod
    def read(cls: type[Example], reader: TokenReader) -> Example:
        """Read from the opening to the closing tag; FormatError for anything else."""
        reader.expect(f"<{cls.TAG}>")
        inputs = [NnetIo.read(reader) for _ in range(_count(reader, "<NumInputs>"))]
        outputs = [cls.OUTPUT.read(reader) for _ in range(_count(reader, "<NumOutputs>"))]
        reader.expect(f"</{cls.TAG}>")
        return cls(inputs, outputs)

    def write(self, writer: TokenWriter) -> None:
        """Write the example; ShapeError if it has no inputs or outputs, or numbers of rows do not fit."""
        if not self.inputs or not self.outputs:
            raise ShapeError(f"an example needs inputs and outputs; it has {len(self.inputs)} and {len(self.outputs)}")
        writer.token(f"<{self.TAG}>")
        for name, parts in (("<NumInputs>", self.inputs), ("<NumOutputs>", self.outputs)):
            writer.token(name)
            writer.integer(len(parts))
            writer.newline_if_text()
            for part in parts:
                part.write(writer)
                writer.newline_if_text()
        writer.token(f"</{self.TAG}>")

    def compress(self) -> None:
        """Compress every dense input, in place; the others stay as they are."""
        for io in self.inputs:
            io.features = compressed(io.features)

    def structure(self) -> tuple[tuple[tuple[str, tuple[int, int], bytes], ...], tuple[tuple[str, bytes], ...]]:
        """Return names, indexes and dimensions of inputs and outputs; only examples with the same ones are merged."""
        return (tuple((io.name, io.features.shape, io.indexes.tobytes()) for io in self.inputs),
                tuple((output.name, output.indexes.tobytes()) for output in self.outputs))

    def size(self) -> int:
        """Return the largest number of indexes of any input or output."""
        return max(len(part.indexes) for part in (*self.inputs, *self.outputs))


def rows_problem(name: str, indexes: np.ndarray, num_sequences: int, frames_per_sequence: int,
                 deriv_weights: np.ndarray) -> str | None:
    """Check the indexes and weights of an output; return a message about what is wrong, or None. Kaldi: ``CheckDim``.

    For frame i of sequence n, row i × ``num_sequences`` + n of ``indexes`` must be (n, t0 + i × step, 0). There must be
    a weight of 0 or more for each row, or none at all. ``name`` is the output in the message.
    """
    if frames_per_sequence == -1:
        return None                             # Kaldi's mark of a supervision that was never filled
    if num_sequences < 1 or frames_per_sequence < 2 or len(indexes) != num_sequences * frames_per_sequence:
        return (f"output '{name}' has {len(indexes)} indexes for {num_sequences} sequences of {frames_per_sequence} "
                "frames (2 or more)")
    first, step = int(indexes[0, 1]), int(indexes[num_sequences, 1]) - int(indexes[0, 1])
    frames, sequences = np.divmod(np.arange(len(indexes)), num_sequences)
    wanted = np.stack([sequences, first + step * frames, np.zeros_like(frames)], axis=1)
    if not np.array_equal(indexes, wanted):
        return f"the indexes of output '{name}' are not in the order of frames, then sequences"
    if len(deriv_weights) not in (0, len(indexes)) or not (deriv_weights >= 0.0).all():
        return f"output '{name}' needs {len(indexes)} weights of 0 or more, or none; it has {len(deriv_weights)}"
    return None


def _count(reader: TokenReader, tag: str) -> int:
    reader.expect(tag)
    count = reader.integer()
    if not 0 < count <= MAX_IO:
        raise reader.error(f"expected 1 to {MAX_IO} after {tag}, found {count}")
    return count


@dataclass
class NnetChainSupervision(SequenceOutput):
    """Output of a chain example. In files its weights may be floats, bytes (older), or missing (older still)."""

    TAG, SUPERVISION = "NnetChainSup", Supervision
    supervision: Supervision

    def _read_weights(self, reader: TokenReader) -> None:
        token = reader.token()
        if token in ("<DW>", "<DW2>"):
            self.deriv_weights = read_char_vector(reader) if token == "<DW>" else read_vector(reader)
            token = reader.token()
        reader.check_token(token, f"</{self.TAG}>")

    def _write_weights(self, writer: TokenWriter) -> None:
        writer.tagged("<DW2>", write_vector, self.deriv_weights)


@dataclass
class NnetChainExample(SequenceExample):
    """A chain example: its inputs and outputs, in the file's order."""

    TAG, OUTPUT = "Nnet3ChainEg", NnetChainSupervision
    outputs: list[NnetChainSupervision]


CHAIN_EXAMPLE: Holder[NnetChainExample] = Holder("chain example", NnetChainExample.read,
                                                 lambda writer, value: value.write(writer))


def read_chain_egs(rspecifier: str) -> Iterator[tuple[str, NnetChainExample]]:
    """Read the chain examples of a table, one after the other.

    Parameters
    ----------
    rspecifier : such as ``ark:cegs.1.ark``

    Yields
    ------
    (key, NnetChainExample) : with ``.inputs`` and ``.outputs``

    Raises
    ------
    SpecifierError : an rspecifier that cannot be used
    FormatError : bytes that hold no chain examples
    Nnet3Error : a file that cannot be read

    Kaldi: SequentialNnetChainExampleReader.
    """
    return Entries(rspecifier, CHAIN_EXAMPLE, "read_chain_egs")
