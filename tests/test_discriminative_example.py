"""Discriminative examples: their layout, in text and binary, and wrong ones."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from io_samples import check_survives, reader_of, written

from nnet3py.egs.chain_example import read_char_vector, write_char_vector
from nnet3py.egs.discriminative_example import (
    DISCRIMINATIVE_EXAMPLE,
    DiscriminativeSupervision,
    NnetDiscriminativeExample,
    NnetDiscriminativeSupervision,
    read_discriminative_egs,
)
from nnet3py.egs.example import NnetIo
from nnet3py.errors import FormatError, ShapeError
from nnet3py.io.tables import write_table
from nnet3py.transducers.lattice import read_lattice

TEXT = (b"<Nnet3DiscriminativeEg> <NumInputs> 1 \n"
        b"<NnetIo> input <I1V> 1 <I1> 0 -1 0  [\n  0.5 2 ]\n</NnetIo> \n"
        b"<NumOutputs> 1 \n"
        b"<NnetDiscriminativeSup> output <I1V> 4 <I1> 0 0 0 <I1> 1 0 0 <I1> 0 3 0 <I1> 1 3 0 "
        b"<DiscriminativeSupervision> <Weight> 1 <NumSequences> 2 <FramesPerSeq> 2 <NumAli> [ 3 4 3 5 ]\n"
        b"<DenLat> \n0\t1\t3\t7\t0.5,1.25\n0\t1\t4\t0\n1\t2\t3\t8\t-1,0\n2\t0.25,0\n\n</DiscriminativeSupervision> "
        b"<DW>  [ 1 0.2 0 1 ]\n</NnetDiscriminativeSup> \n</Nnet3DiscriminativeEg> ")


def save(value: NnetDiscriminativeExample, binary: bool) -> bytes:
    return written(lambda writer: value.write(writer), binary=binary)


def example() -> NnetDiscriminativeExample:
    return NnetDiscriminativeExample.read(reader_of(TEXT, False))


def test_the_layout_in_text() -> None:
    eg = example()
    supervision = eg.outputs[0].supervision
    assert (supervision.weight, supervision.num_sequences, supervision.frames_per_sequence) == (1.0, 2, 2)
    assert supervision.num_ali.tolist() == [3, 4, 3, 5]
    assert supervision.den_lat.num_arcs == 3
    assert save(eg, False) == TEXT


def test_the_layout_in_binary() -> None:
    data = save(example(), True)
    order = [b"<Nnet3DiscriminativeEg> <NumInputs> \4\1\0\0\0<NnetIo> ", b"<NumOutputs> \4\1\0\0\0",
             b"<NnetDiscriminativeSup> output <I1V> \4\4\0\0\0", b"<DiscriminativeSupervision> <Weight> \4\0\0\x80\x3f",
             b"<NumSequences> \4\2\0\0\0<FramesPerSeq> \4\2\0\0\0<NumAli> \4\4\0\0\0\3\0\0\0",
             b"<DenLat> \xd6\xfd\xb2\x7e\6\0\0\0vector\x08\0\0\0lattice4", b"</DiscriminativeSupervision> ",
             b"<DW> \1\4\0\0\0\xff\x33\0\xff</NnetDiscriminativeSup> </Nnet3DiscriminativeEg> "]
    places = [data.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)
    again = NnetDiscriminativeExample.read(reader_of(data, True))
    assert save(again, True) == data
    assert save(again, False) == TEXT


def test_tables(tmp_path: Path) -> None:
    for binary in ("b", "t"):
        first, second = (f"{tmp_path}/{binary}{n}" for n in (1, 2))
        write_table(f"ark,{binary}:{first}", DISCRIMINATIVE_EXAMPLE, ((key, example()) for key in ("u1", "u2")))
        write_table(f"ark,{binary}:{second}", DISCRIMINATIVE_EXAMPLE, read_discriminative_egs(f"ark:{first}"))
        assert Path(first).read_bytes() == Path(second).read_bytes()


def test_lattices_are_sorted_when_read() -> None:
    mixed = TEXT.replace(b"\n0\t1\t3\t7\t0.5,1.25\n0\t1\t4\t0\n1\t2\t3\t8\t-1,0\n2\t0.25,0\n",
                         b"\n2\t1\t3\t7\t0.5,1.25\n2\t1\t4\t0\n1\t0\t3\t8\t-1,0\n0\t0.25,0\n")
    assert mixed != TEXT
    assert save(NnetDiscriminativeExample.read(reader_of(mixed, False)), False) == TEXT


def test_bytes_for_weights() -> None:
    values = np.arange(256, dtype=np.float32) / np.float32(255)
    data = written(write_char_vector, values, binary=True)
    assert data == b"\1\0\1\0\0" + bytes(range(256))
    assert written(write_char_vector, read_char_vector(reader_of(data, True)), binary=True) == data
    with pytest.raises(ShapeError, match="between 0 and 1"):
        written(write_char_vector, np.array([1.5]), binary=True)


@pytest.mark.parametrize("old, new, message", [
    (b"<NumAli> [", b"<NumAly> [", "<NumAli>"), (b"<DW> ", b"<DW2> ", "<DW>"), (b"2\t0.25,0", b"2\t0.25", "two costs"),
    (b"1\t2\t3\t8", b"1\t0\t3\t8", "cycle"), (b"<I1> 1 3 0", b"<I1> 1 4 0", "order of frames"),
    (b"<FramesPerSeq> 2", b"<FramesPerSeq> 3", "4 indexes for 2 sequences of 3"), (b"0.2 0 1 ]", b"0.2 0 ]", "weights"),
    (b"0.2 0 1 ]", b"-0.2 0 1 ]", "0 or more")])
def test_wrong_examples_are_refused(old: bytes, new: bytes, message: str) -> None:
    assert old in TEXT
    with pytest.raises(FormatError, match=message):
        NnetDiscriminativeExample.read(reader_of(TEXT.replace(old, new), False))


def test_what_does_not_fit_is_not_written() -> None:
    io = NnetIo("input", np.zeros((1, 3), np.int32), np.zeros((1, 2), np.float32))
    lattice = read_lattice(reader_of(b"\n0 1 1 1\n1\n\n", False))
    empty = DiscriminativeSupervision(np.zeros(0, np.int32), lattice)
    output = NnetDiscriminativeSupervision("output", np.zeros((0, 3), np.int32), empty)
    with pytest.raises(ShapeError, match="-1 frames"):
        save(NnetDiscriminativeExample([io], [output]), True)
    with pytest.raises(ShapeError, match="inputs and outputs"):
        save(NnetDiscriminativeExample([], [output]), True)


def test_compressing() -> None:
    eg = example()
    eg.compress()
    assert not isinstance(eg.inputs[0].features, np.ndarray)


@pytest.mark.parametrize("binary", [True, False])
def test_damaged_examples_are_refused(binary: bool) -> None:
    check_survives(NnetDiscriminativeExample.read, save(example(), binary), binary)
