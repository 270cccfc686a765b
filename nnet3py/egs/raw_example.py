"""Copying of examples without decoding them: shuffling, random selection, distribution over archives.

A binary example is kept as its bytes. Its end is found by passing over its tokens and arrays (``io/skim.py``), in the
form in which Kaldi writes them today; an example in an older form is decoded to find its end. Light: no numpy. Kaldi:
nnet3-shuffle-egs, nnet3-subset-egs, nnet3-copy-egs.
"""
from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from nnet3py.formats.layouts import walk_matrix
from nnet3py.io.holder import Holder
from nnet3py.io.skim import Incomplete, Skimmer, Unusual, Walk, walked
from nnet3py.io.specifiers import parse_wspecifier
from nnet3py.random_sequence import CRandom, float32, shuffled

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter


_ESCAPE, _FULL_INDEX = b"\x7f", 16             # first byte, and number of bytes, of an Index that is written in full
_INT, _FLOAT = 4, 4                            # bytes
_FST_HEADER = struct.Struct("<iQqqq")          # after the version: flags, properties, start, states, arcs
_ACCEPTOR, _LATTICE = (
    b"".join([b"\xd6\xfd\xb2\x7e", *(struct.pack("<i", len(name)) + name for name in names), struct.pack("<i", 2)])
    for names in ((b"compact_acceptor", b"standard"), (b"vector", b"lattice4")))    # magic number, kinds, version
_ELEMENT, _LATTICE_ARC = 12, 20                # bytes of an arc of a compact acceptor, and of a lattice


def walk_example(walk: Walk) -> None:
    """Advance ``walk`` past a frame-level example; it records the place of each input's and output's matrix."""
    for _ in range(walk.integer(b"<Nnet3Eg> <NumIo> ")):
        _walk_io(walk)
    walk.expect(b"</Nnet3Eg> ")


def walk_chain_example(walk: Walk) -> None:
    """Advance ``walk`` past a chain example."""
    _walk_sequences(walk, b"Nnet3ChainEg", b"NnetChainSup", _walk_chain_output)


def walk_discriminative_example(walk: Walk) -> None:
    """Advance ``walk`` past a discriminative example."""
    _walk_sequences(walk, b"Nnet3DiscriminativeEg", b"NnetDiscriminativeSup", _walk_discriminative_output)


def _walk_sequences(walk: Walk, example: bytes, output: bytes, walk_output: Callable[[Walk], None]) -> None:
    """Advance ``walk`` past a chain or discriminative example.

    ``example`` and ``output`` are the tags of the example and of an output; ``walk_output`` passes over the rest of an
    output after its indexes.
    """
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
    """Advance ``walk`` past a vector of Indexes: most have one byte, others an escape byte and 15 more."""
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
    """Advance ``walk`` past the header of a binary FST; return its number of states.

    ``kinds`` are the header's first bytes: magic number, FST type and arc type.
    """
    walk.expect(kinds)
    flags, _, _, num_states, _ = _FST_HEADER.unpack(walk.take(_FST_HEADER.size))
    if flags or num_states < 0:                    # symbol tables, or padding
        raise Unusual
    return num_states


def _walk_acceptor(walk: Walk) -> None:
    num_states = _walk_fst_header(walk, _ACCEPTOR)
    walk.skip(_INT * num_states)                   # first element of each state, and the number of elements
    walk.skip(_ELEMENT * int.from_bytes(walk.take(_INT), "little"))


def _walk_lattice(walk: Walk) -> None:
    for _ in range(_walk_fst_header(walk, _LATTICE)):
        walk.skip(2 * _FLOAT)
        walk.skip(_LATTICE_ARC * int.from_bytes(walk.take(8), "little"))


RawExample: TypeAlias = "bytes | object"       # object: an NnetExample, read from text


def _write_raw(writer: TokenWriter, value: RawExample) -> None:
    if isinstance(value, bytes):
        writer.raw(value)
    else:
        value.write(writer)  # type: ignore[attr-defined]


def _reading_of(load: Callable[[], Holder], walk: Callable[[Walk], None]) -> Callable[[TokenReader], RawExample]:
    """Return a function that reads an example: as its bytes from binary files, decoded from text files."""
    def read(reader: TokenReader) -> RawExample:
        value = walked(reader, walk) if reader.binary else None
        if value is not None:
            return value
        holder = load()
        if not reader.binary:
            return holder.read(reader)
        reader.start_capture()
        holder.read(reader)
        return reader.end_capture()

    return read


_DECODING: dict[Holder[RawExample], Callable[[], Holder]] = {}


def _raw_holder(name: str, module: str, decoding: str, walk: Callable[[Walk], None]) -> Holder[RawExample]:
    """Make the holder of undecoded examples; ``decoding`` names the holder, in ``module``, that decodes them."""
    def load() -> Holder:
        return getattr(import_module(f"nnet3py.egs.{module}"), decoding)

    holder: Holder[RawExample] = Holder(name, _reading_of(load, walk), _write_raw, skimmer=lambda: Skimmer(walk))
    _DECODING[holder] = load
    return holder


RAW_EXAMPLE = _raw_holder("training example", "example", "EXAMPLE", walk_example)
RAW_CHAIN_EXAMPLE = _raw_holder("chain example", "chain_example", "CHAIN_EXAMPLE", walk_chain_example)
RAW_DISCRIMINATIVE_EXAMPLE = _raw_holder("discriminative example", "discriminative_example", "DISCRIMINATIVE_EXAMPLE",
                                         walk_discriminative_example)


def are_binary(*wspecifiers: str) -> bool:
    """Return whether the tables of all wspecifiers are binary. Raises SpecifierError."""
    return all(parse_wspecifier(wspecifier).binary for wspecifier in wspecifiers)


def copying_holder(*wspecifiers: str, raw: Holder[RawExample] = RAW_EXAMPLE) -> Holder:
    """Return the holder for copying examples: ``raw``, without decoding, if all wspecifiers are binary.

    Otherwise the holder that decodes examples of the same kind.
    """
    return raw if are_binary(*wspecifiers) else _DECODING[raw]()


Item = TypeVar("Item")


def shuffle(items: Iterable[Item], seed: int = 0) -> Iterator[Item]:
    """Yield all ``items`` in random order; all of them are held in memory."""
    held = list(items)
    for position in shuffled(len(held), seed):
        yield held[position]


def shuffle_with_buffer(items: Iterable[Item], buffer_size: int, seed: int = 1) -> Iterator[Item]:
    """Yield ``items`` in an order that is random within about ``buffer_size`` positions.

    Each item replaces the item in a random slot of a buffer of that size, which is yielded; at the end the items in the
    buffer are yielded in their order. ``seed`` is that of the C library's generator; 1 is the unseeded state, which
    Kaldi's programs use except for chain examples.
    """
    random = CRandom(seed)
    slots: list[Item | None] = [None] * buffer_size
    for item in items:
        slot = random.integer(0, buffer_size - 1)
        occupant = slots[slot]
        slots[slot] = item
        if occupant is not None:
            yield occupant
    yield from (item for item in slots if item is not None)


def subset(items: Iterable[Item], count: int, seed: int = 0, randomize_order: bool = True) -> tuple[list[Item], int]:
    """Choose ``count`` of ``items`` at random (all if there are fewer); return these, and the number of all items.

    They are shuffled if ``randomize_order``. As in Kaldi, ``seed`` determines only their order, not the choice.
    """
    random = CRandom()
    kept: list[Item] = []
    seen = 0
    for item in items:
        if seen < count:
            kept.append(item)
        elif count > 0 and random.happens(float32(float32(count) / float32(seen + 1))):
            kept[random.integer(0, count - 1)] = item
        seen += 1
    return [kept[i] for i in shuffled(len(kept), seed)] if randomize_order else kept, seen
