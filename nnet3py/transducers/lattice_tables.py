"""Tables of lattices, for Python programs."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nnet3py.io.tables import SequentialReader, write_table
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.lattice import COMPACT_LATTICES


def read_lattices(rspecifier: str) -> Iterator[tuple[str, CompactLattice]]:
    """The lattices of a table, such as decoding leaves; those that are not compact are made so.

    >>> for key, lattice in nnet3py.read_lattices("ark:gunzip -c lat.1.gz |"):
    ...     print(key, lattice.num_states)

    Parameters
    ----------
    rspecifier : of the table

    Yields
    ------
    (key, CompactLattice) : one after the other

    Raises
    ------
    SpecifierError : an rspecifier that cannot be used
    FormatError : bytes that are no lattices
    Nnet3Error : a file that cannot be read

    Kaldi: SequentialCompactLatticeReader.
    """
    with SequentialReader(rspecifier, COMPACT_LATTICES) as reader:
        yield from reader


def write_lattices(wspecifier: str,
                   lattices: Mapping[str, CompactLattice] | Iterable[tuple[str, CompactLattice]]) -> int:
    """Write a table of lattices, which Kaldi's programs read.

    >>> nnet3py.write_lattices("ark:lat.ark", {"utt1": recognizer.transcribe("a.wav").lattice})
    1

    Parameters
    ----------
    wspecifier : of the table
    lattices : a dict, or pairs of a key and a lattice

    Returns
    -------
    How many there were.

    Raises
    ------
    SpecifierError : a wspecifier that cannot be used
    Nnet3Error : a file that cannot be written, a key that cannot be one
    """
    return write_table(wspecifier, COMPACT_LATTICES, lattices)
