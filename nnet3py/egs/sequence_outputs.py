"""What chain and discriminative examples have in common: inputs, and outputs with a supervision each.

The rows of an output go frame after frame, and within a frame all sequences.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from nnet3py.egs.example import MAX_IO, NnetIo
from nnet3py.errors import ShapeError
from nnet3py.formats.general import compressed
from nnet3py.formats.index_vector import read_index_vector, write_index_vector
from nnet3py.io.tokens import TokenReader, TokenWriter

Output = TypeVar("Output", bound="SequenceOutput")
Example = TypeVar("Example", bound="SequenceExample")


@dataclass
class SequenceOutput:
    """One output of an example.

    Attributes
    ----------
    name : of the network's output node
    indexes : int32 (rows, 3): row i S + n is (n, t0 + i step, 0), for frame i of sequence n of S
    supervision : what the output should be
    deriv_weights : float32 (rows,), what the derivatives are multiplied with; empty: 1
    """

    TAG: ClassVar[str]                # in files
    SUPERVISION: ClassVar[type[Any]]

    name: str
    indexes: np.ndarray
    supervision: Any
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
        """Write it; ShapeError if indexes and weights do not fit the supervision."""
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
        """Write it; ShapeError for an example without inputs or outputs, or with rows that do not fit."""
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
        """What examples that can be merged share: names and indexes, and the dimensions of inputs."""
        return (tuple((io.name, io.features.shape, io.indexes.tobytes()) for io in self.inputs),
                tuple((output.name, output.indexes.tobytes()) for output in self.outputs))

    def size(self) -> int:
        """The largest number of indexes of any input or output."""
        return max(len(part.indexes) for part in (*self.inputs, *self.outputs))


def rows_problem(name: str, indexes: np.ndarray, num_sequences: int, frames_per_sequence: int,
                 deriv_weights: np.ndarray) -> str | None:
    """Why rows cannot belong to that many sequences of that many frames, or None.

    Row ``i num_sequences + n`` must be (n, t0 + i step, 0) for frame i of sequence n, and there must be a weight of 0
    or more for each row, or none at all. Kaldi: ``CheckDim``.
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
