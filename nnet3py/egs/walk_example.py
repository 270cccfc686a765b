"""Walking over the bytes of binary examples, to find where they end: what :class:`~nnet3py.io.skim.Skimmer` needs.

Only the present form of each kind is known here. Light: no numpy.
"""
from __future__ import annotations

import struct
from collections.abc import Callable

from nnet3py.formats.layouts import walk_matrix
from nnet3py.io.skim import Incomplete, Unusual, Walk

_ESCAPE, _FULL_INDEX = b"\x7f", 16             # of a coded list of indexes: the byte before a full one, bytes of that
_INT, _FLOAT = 4, 4                            # bytes
_FST_HEADER = struct.Struct("<iQqqq")          # after the version: flags, properties, start, states, arcs
_ACCEPTOR, _LATTICE = (
    b"".join([b"\xd6\xfd\xb2\x7e", *(struct.pack("<i", len(name)) + name for name in names), struct.pack("<i", 2)])
    for names in ((b"compact_acceptor", b"standard"), (b"vector", b"lattice4")))    # magic number, kinds, version
_ELEMENT, _LATTICE_ARC = 12, 20                # bytes


def walk_example(walk: Walk) -> None:
    """Pass over an example of ordinary training, noting a part for the matrix of each input and output."""
    for _ in range(walk.integer(b"<Nnet3Eg> <NumIo> ")):
        _walk_io(walk)
    walk.expect(b"</Nnet3Eg> ")


def walk_chain_example(walk: Walk) -> None:
    """Pass over an example of chain training."""
    _walk_sequences(walk, b"Nnet3ChainEg", b"NnetChainSup", _walk_chain_output)


def walk_discriminative_example(walk: Walk) -> None:
    """Pass over an example of discriminative training."""
    _walk_sequences(walk, b"Nnet3DiscriminativeEg", b"NnetDiscriminativeSup", _walk_discriminative_output)


def _walk_sequences(walk: Walk, example: bytes, output: bytes, walk_output: Callable[[Walk], None]) -> None:
    """An example with these tokens around it and around each of its outputs."""
    for _ in range(walk.integer(b"<%b> <NumInputs> " % example)):
        _walk_io(walk)
    for _ in range(walk.integer(b"<NumOutputs> ")):
        walk.expect(b"<%b> " % output)
        walk.word()
        _walk_indexes(walk)
        walk_output(walk)
        walk.expect(b"</%b> " % output)
    walk.expect(b"</%b> " % example)


def _walk_chain_output(walk: Walk) -> None:
    _walk_supervision(walk)
    walk.skip(_FLOAT * walk.integer(b"<DW2> FV "))


def _walk_discriminative_output(walk: Walk) -> None:
    walk.expect(b"<DiscriminativeSupervision> <Weight> \4")
    walk.skip(_FLOAT)
    for tag in (b"<NumSequences> ", b"<FramesPerSeq> "):
        walk.integer(tag)
    walk.skip(_INT * walk.integer(b"<NumAli> "))
    walk.expect(b"<DenLat> ")
    _walk_lattice(walk)
    walk.expect(b"</DiscriminativeSupervision> <DW> \1")
    walk.skip(int.from_bytes(walk.take(_INT), "little"))


def _walk_io(walk: Walk) -> None:
    walk.expect(b"<NnetIo> ")
    walk.word()
    _walk_indexes(walk)
    walk_matrix(walk)
    walk.expect(b"</NnetIo> ")


def _walk_indexes(walk: Walk) -> None:
    """A list of indexes: most take a byte, those after an escape byte many more."""
    count = walk.integer(b"<I1V> ")
    while count > 0:
        codes = walk.take(count)
        place = codes.find(_ESCAPE)
        if place < 0:
            return
        walk.at += place + _FULL_INDEX - count
        count -= place + 1
    if walk.at > len(walk.data):
        raise Incomplete


def _walk_supervision(walk: Walk) -> None:
    walk.expect(b"<Supervision> <Weight> \4")
    walk.skip(_FLOAT)
    sequences = walk.integer(b"<NumSequences> ")
    for tag in (b"<FramesPerSeq> ", b"<LabelDim> "):
        walk.integer(tag)
    walk.expect(b"<End2End> ")
    if walk.take(1) == b"T":
        walk.expect(b"<Fsts> ")
        for _ in range(sequences):
            _walk_acceptor(walk)
        walk.expect(b"</Fsts> ")
    else:
        _walk_acceptor(walk)
    tag = walk.word()
    if tag == b"<AlignmentPdfs>":
        walk.skip(_INT * walk.integer())
        tag = walk.word()
    if tag != b"</Supervision>":
        raise Unusual


def _walk_fst_header(walk: Walk, kinds: bytes) -> int:
    """Pass the head of a binary FST of these kinds; returns its number of states."""
    walk.expect(kinds)
    flags, _, _, num_states, _ = _FST_HEADER.unpack(walk.take(_FST_HEADER.size))
    if flags or num_states < 0:                    # symbol tables, or padding
        raise Unusual
    return num_states


def _walk_acceptor(walk: Walk) -> None:
    num_states = _walk_fst_header(walk, _ACCEPTOR)
    walk.skip(_INT * num_states)                   # where the elements of each state begin, and last the end
    walk.skip(_ELEMENT * int.from_bytes(walk.take(_INT), "little"))


def _walk_lattice(walk: Walk) -> None:
    for _ in range(_walk_fst_header(walk, _LATTICE)):
        walk.skip(2 * _FLOAT)
        walk.skip(_LATTICE_ARC * int.from_bytes(walk.take(8), "little"))
