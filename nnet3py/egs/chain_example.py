"""Examples of chain training: inputs, and outputs with a supervision. Kaldi: ``nnet-chain-example.h``."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3py.egs.char_vector import read_char_vector
from nnet3py.egs.sequence_outputs import SequenceExample, SequenceOutput
from nnet3py.egs.supervision import Supervision
from nnet3py.formats.holders import Holder
from nnet3py.formats.matrices import read_vector, write_vector
from nnet3py.io.tables import Entries
from nnet3py.io.tokens import TokenReader, TokenWriter


@dataclass
class NnetChainSupervision(SequenceOutput):
    """One output of a chain example. In files its weights may be floats, bytes (older), or missing (older still)."""

    TAG, SUPERVISION = "NnetChainSup", Supervision
    supervision: Supervision

    def _read_weights(self, reader: TokenReader) -> None:
        token = reader.token()
        if token in ("<DW>", "<DW2>"):
            self.deriv_weights = read_char_vector(reader) if token == "<DW>" else read_vector(reader)
            token = reader.token()
        reader.check_token(token, f"</{self.TAG}>")

    def _write_weights(self, writer: TokenWriter) -> None:
        writer.token("<DW2>")
        write_vector(writer, self.deriv_weights)


@dataclass
class NnetChainExample(SequenceExample):
    """A chain example: its inputs and outputs, in the file's order."""

    TAG, OUTPUT = "Nnet3ChainEg", NnetChainSupervision
    outputs: list[NnetChainSupervision]


CHAIN_EXAMPLE: Holder[NnetChainExample] = Holder("chain example", NnetChainExample.read,
                                                 lambda writer, value: value.write(writer))


def read_chain_egs(rspecifier: str) -> Iterator[tuple[str, NnetChainExample]]:
    """The chain examples of a table, one after the other.

    Parameters
    ----------
    rspecifier : such as ``ark:cegs.1.ark``

    Yields
    ------
    (key, NnetChainExample) : with ``.inputs`` and ``.outputs``

    Raises
    ------
    SpecifierError : an rspecifier that cannot be used
    FormatError : bytes that are no chain examples
    Nnet3Error : a file that cannot be read

    Kaldi: SequentialNnetChainExampleReader.
    """
    return Entries(rspecifier, CHAIN_EXAMPLE, "read_chain_egs")
