"""The way over the bytes of binary examples, to find where they end: what :class:`~nnet3py.io.skim.Skimmer` needs.

Only the present form of each kind is known here. Light: no numpy.
"""
from __future__ import annotations

import struct
from typing import NamedTuple

from nnet3py.io.skim import Incomplete, Unusual, Walk

_ESCAPE, _FULL_INDEX = b"\x7f", 16             # of a coded list of indexes: the byte before a full one, bytes of that
_ROW = struct.Struct("<4s4xbi")                # of a sparse matrix: SV, dim, count
_DIMENSIONS = struct.Struct("<bibi")
_COMPRESSED_DIMENSIONS = struct.Struct("<ii")
_BYTES_PER_ELEMENT = {b"FM ": 4, b"DM ": 8, b"CM ": 1, b"CM2 ": 2, b"CM3 ": 1}
_INT, _FLOAT = 4, 4                            # bytes
_FST_HEADER = struct.Struct("<iQqqq")          # after the version: flags, properties, start, states, arcs
_ACCEPTOR, _LATTICE = (
    b"".join([b"\xd6\xfd\xb2\x7e", *(struct.pack("<i", len(name)) + name for name in names), struct.pack("<i", 2)])
    for names in ((b"compact_acceptor", b"standard"), (b"vector", b"lattice4")))    # magic number, kinds, version
_ELEMENT, _LATTICE_ARC = 12, 20                # bytes
_PAIR = 10                                     # bytes of index and value, each with its size


class Part(NamedTuple):
    """Where an input or output of an example lies, in bytes from the example's begin.

    ``kind`` is the token of its matrix, which takes the bytes from ``first`` to ``end``; ``rows`` and ``columns`` are
    the numbers of a matrix that is not sparse.
    """

    kind: bytes
    first: int
    end: int
    rows: int
    columns: int


def walk_example(walk: Walk) -> None:
    """Pass over an example of ordinary training, noting a :class:`Part` for each input and output."""
    for _ in range(walk.integer(b"<Nnet3Eg> <NumIo> ")):
        _walk_io(walk)
    walk.expect(b"</Nnet3Eg> ")


def walk_chain_example(walk: Walk) -> None:
    """Pass over an example of chain training."""
    for _ in range(walk.integer(b"<Nnet3ChainEg> <NumInputs> ")):
        _walk_io(walk)
    for _ in range(walk.integer(b"<NumOutputs> ")):
        walk.expect(b"<NnetChainSup> ")
        walk.word()
        _walk_indexes(walk)
        _walk_supervision(walk)
        walk.skip(_FLOAT * walk.integer(b"<DW2> FV "))
        walk.expect(b"</NnetChainSup> ")
    walk.expect(b"</Nnet3ChainEg> ")


def walk_discriminative_example(walk: Walk) -> None:
    """Pass over an example of discriminative training."""
    for _ in range(walk.integer(b"<Nnet3DiscriminativeEg> <NumInputs> ")):
        _walk_io(walk)
    for _ in range(walk.integer(b"<NumOutputs> ")):
        walk.expect(b"<NnetDiscriminativeSup> ")
        walk.word()
        _walk_indexes(walk)
        walk.expect(b"<DiscriminativeSupervision> <Weight> \4")
        walk.skip(_FLOAT)
        for tag in (b"<NumSequences> ", b"<FramesPerSeq> "):
            walk.integer(tag)
        walk.skip(_INT * walk.integer(b"<NumAli> "))
        walk.expect(b"<DenLat> ")
        _walk_lattice(walk)
        walk.expect(b"</DiscriminativeSupervision> <DW> \1")
        walk.skip(int.from_bytes(walk.take(_INT), "little"))
        walk.expect(b"</NnetDiscriminativeSup> ")
    walk.expect(b"</Nnet3DiscriminativeEg> ")


def _walk_io(walk: Walk) -> None:
    walk.expect(b"<NnetIo> ")
    walk.word()
    _walk_indexes(walk)
    _walk_matrix(walk)
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


def _walk_matrix(walk: Walk) -> None:
    first = walk.at
    kind = walk.word() + b" "
    rows = columns = 0
    if kind == b"SM ":
        rows = walk.integer()
        for _ in range(rows):
            token, count_size, count = _ROW.unpack(walk.take(_ROW.size))
            if token != b"SV \4" or count_size != 4 or count < 0:
                raise Unusual
            walk.skip(_PAIR * count)
    elif kind in _BYTES_PER_ELEMENT:
        size = 0
        if kind[0:1] == b"C":
            walk.skip(8)                           # minimum and range
            rows, columns = _COMPRESSED_DIMENSIONS.unpack(walk.take(_COMPRESSED_DIMENSIONS.size))
            size = 8 * columns if kind == b"CM " else 0
            sound = rows > 0 < columns
        else:
            rows_size, rows, columns_size, columns = _DIMENSIONS.unpack(walk.take(_DIMENSIONS.size))
            sound = rows_size == columns_size == 4 and rows >= 0 <= columns
        if not sound:
            raise Unusual
        walk.skip(rows * columns * _BYTES_PER_ELEMENT[kind] + size)
    else:
        raise Unusual
    walk.parts.append(Part(kind, first - walk.begin, walk.at - walk.begin, rows, columns))


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
