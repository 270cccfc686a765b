"""Examples of chain training: inputs, and outputs with a supervision. Kaldi: ``nnet-chain-example.h``."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnet3py.egs.char_vector import read_char_vector
from nnet3py.egs.example import NnetIo
from nnet3py.egs.sequence_outputs import (
    read_inputs_and_outputs,
    rows_problem,
    sequence_structure,
    write_inputs_and_outputs,
)
from nnet3py.egs.supervision import Supervision
from nnet3py.errors import ShapeError
from nnet3py.io.general import compressed
from nnet3py.io.holders import Holder
from nnet3py.io.index_vector import read_index_vector, write_index_vector
from nnet3py.io.matrices import read_vector, write_vector
from nnet3py.io.tables import SequentialReader
from nnet3py.io.tokens import TokenReader, TokenWriter

_TAG = "Nnet3ChainEg"


@dataclass
class NnetChainSupervision:
    """One output of a chain example.

    Attributes
    ----------
    name : of the network's output node
    indexes : int32 (rows, 3): row i S + n is (n, t0 + i step, 0), for frame i of sequence n of S
    supervision : what the output should be
    deriv_weights : float32 (rows,), what the derivatives are multiplied with; empty: 1
    """

    name: str
    indexes: np.ndarray
    supervision: Supervision
    deriv_weights: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))

    @classmethod
    def read(cls, reader: TokenReader) -> NnetChainSupervision:
        """Read from ``<NnetChainSup>`` to ``</NnetChainSup>``; FormatError for anything else.

        Weights may be floats (``<DW2>``), bytes (``<DW>``, older), or missing (older still).
        """
        reader.expect("<NnetChainSup>")
        result = cls(reader.token(), read_index_vector(reader), Supervision.read(reader))
        token = reader.token()
        if token in ("<DW>", "<DW2>"):
            result.deriv_weights = read_char_vector(reader) if token == "<DW>" else read_vector(reader)
            token = reader.token()
        reader.check_token(token, "</NnetChainSup>")
        problem = result._problem()
        if problem:
            raise reader.error(problem)
        return result

    def write(self, writer: TokenWriter) -> None:
        """Write it; ShapeError if indexes and weights do not fit the supervision."""
        problem = self._problem()
        if problem:
            raise ShapeError(problem)
        writer.token("<NnetChainSup>")
        writer.token(self.name)
        write_index_vector(writer, self.indexes)
        self.supervision.write(writer)
        writer.token("<DW2>")
        write_vector(writer, self.deriv_weights)
        writer.token("</NnetChainSup>")

    def _problem(self) -> str | None:
        return rows_problem(self.name, self.indexes, self.supervision.num_sequences,
                            self.supervision.frames_per_sequence, self.deriv_weights)


@dataclass
class NnetChainExample:
    """A chain example: its inputs and outputs, in the file's order."""

    inputs: list[NnetIo]
    outputs: list[NnetChainSupervision]

    @classmethod
    def read(cls, reader: TokenReader) -> NnetChainExample:
        """Read from ``<Nnet3ChainEg>`` to ``</Nnet3ChainEg>``; FormatError for anything else."""
        return cls(*read_inputs_and_outputs(reader, _TAG, NnetChainSupervision.read))

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


CHAIN_EXAMPLE: Holder[NnetChainExample] = Holder("chain example", NnetChainExample.read,
                                                 lambda writer, value: value.write(writer))


def read_chain_egs(rspecifier: str) -> Iterator[tuple[str, NnetChainExample]]:
    """The chain examples of a table: yields (key, NnetChainExample).

    Raises SpecifierError, FormatError, Nnet3Error. Kaldi: SequentialNnetChainExampleReader.
    """
    with SequentialReader(rspecifier, CHAIN_EXAMPLE) as reader:
        yield from reader
