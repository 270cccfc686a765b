"""nnet3py/egs/example.py: examples in files, and reading ahead."""
from __future__ import annotations

import io

import numpy as np
import pytest
from paths import DATA, shared_golden

import nnet3py
from nnet3py.egs.chain_example import read_chain_egs
from nnet3py.egs.discriminative_example import read_discriminative_egs
from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo, examples_ahead, num_bytes, num_merged, read_egs
from nnet3py.egs.make import time_indexes
from nnet3py.egs.raw_example import RAW_EXAMPLE, copying_holder
from nnet3py.errors import FormatError, Nnet3Error, ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix, to_dense
from nnet3py.io.tables import SequentialReader, TableWriter, write_table
from nnet3py.io.tokens import TokenReader, TokenWriter

ARCHIVES = [DATA / "egs" / "compressed.ark", DATA / "egs" / "uncompressed.ark"]
GOLDEN = ["train/egs.ark", "tools/get-egs/egs.ark", "tools/merge-egs/egs.ark"]

TEXT_PRECISION = 1e-6          # text has 7 digits

# The documented text of an example.
TEXT = b"""<Nnet3Eg> <NumIo> 2 <NnetIo> input <I1V> 3 <I1> 0 -1 0 <I1> 0 0 0 <I1> 0 1 0  [
  0 0 
  0 0.5 
  0 0 ]
</NnetIo> <NnetIo> output <I1V> 2 <I1> 0 0 0 <I1> 0 1 0 rows=2 dim=5 [ 3 1 ] dim=5 [ 1 0.25 ] 
</NnetIo> </Nnet3Eg> """  # noqa: W291


def example():
    features = np.zeros((3, 2), dtype=np.float32)
    features[1, 1] = 0.5
    return NnetExample([NnetIo("input", time_indexes(-1, 3), features),
                        NnetIo("output", time_indexes(0, 2), SparseMatrix.from_rows([[(3, 1.0)], [(1, 0.25)]], 5))])


def written(value, binary, holder=EXAMPLE):
    stream = io.BytesIO()
    holder.write(TokenWriter(stream, binary), value)
    return stream.getvalue()


def copied(path, tmp_path, read_holder, write_holder):
    with SequentialReader(f"ark:{path}", read_holder) as reader, \
            TableWriter(f"ark:{tmp_path}/copy", write_holder) as writer:
        for key, value in reader:
            writer.write(key, value)
    return (tmp_path / "copy").read_bytes()


def test_the_documented_text():
    assert written(example(), False) == TEXT
    found = EXAMPLE.read(TokenReader(io.BytesIO(TEXT)))
    assert written(found, True) == written(example(), True)
    assert written(found, True).startswith(b"<Nnet3Eg> <NumIo> \4\2\0\0\0<NnetIo> input <I1V> \4\3\0\0\0\xff\1\1FM ")
    assert found.find("output").features.shape == (2, 5) and found.find("ivector") is None
    assert found.size() == 3


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda p: p.stem)
@pytest.mark.parametrize("holder", [EXAMPLE, RAW_EXAMPLE], ids=["decoded", "raw"])
def test_kaldis_bytes_come_back(path, holder, tmp_path):
    assert copied(path, tmp_path, holder, holder) == path.read_bytes()


@pytest.mark.parametrize("name", GOLDEN)
def test_kaldis_larger_archives_come_back(name, tmp_path):
    path = shared_golden() / name
    for holder in (EXAMPLE, RAW_EXAMPLE):
        assert copied(path, tmp_path, holder, holder) == path.read_bytes()


def test_the_public_reader():
    entries = list(nnet3py.read_egs(f"ark:{ARCHIVES[0]}"))
    key, first = entries[0]
    assert key.endswith("-0") and [io.name for io in first.io] == ["input", "output"]
    assert isinstance(first.io[0].features, CompressedMatrix) and isinstance(first.io[1].features, SparseMatrix)
    assert first.io[0].indexes.dtype == np.int32 and first.io[0].indexes[:, 1].tolist() == list(range(-4, 11))
    assert nnet3py.read_egs is read_egs


def test_text_and_binary_say_the_same(tmp_path):
    write_table(f"ark,t:{tmp_path}/t", EXAMPLE, read_egs(f"ark:{ARCHIVES[1]}"))
    assert b"\n" not in (tmp_path / "t").read_bytes()[-4:]            # the next key would follow on the same line
    with TableWriter(f"ark:{tmp_path}/b", RAW_EXAMPLE) as binary:      # a raw reader of text decodes
        with SequentialReader(f"ark:{tmp_path}/t", RAW_EXAMPLE) as reader:
            for key, value in reader:
                binary.write(key, value)
    for (key, a), (other, b) in zip(read_egs(f"ark:{ARCHIVES[1]}"), read_egs(f"ark:{tmp_path}/b"), strict=True):
        assert key == other
        assert all(np.array_equal(x.indexes, y.indexes) for x, y in zip(a.io, b.io, strict=True))
        for x, y in zip(a.io, b.io, strict=True):
            np.testing.assert_allclose(to_dense(x.features), to_dense(y.features), rtol=TEXT_PRECISION)
    assert copying_holder("ark:x", "ark,b:y") is RAW_EXAMPLE and copying_holder("ark:x", "ark,t:y") is EXAMPLE


def test_compression():
    one = example()
    one.compress()
    assert isinstance(one.io[0].features, CompressedMatrix) and isinstance(one.io[1].features, SparseMatrix)
    np.testing.assert_allclose(one.io[0].features.to_dense(), example().io[0].features, atol=1e-4)
    assert one.structure() == example().structure()


@pytest.mark.parametrize("holder", [EXAMPLE, RAW_EXAMPLE], ids=["decoded", "raw"])
def test_damaged_examples(holder):
    data = b"\0B" + written(example(), True)
    for end in range(len(data) - 1):
        with pytest.raises(FormatError):
            holder.read_value(TokenReader(io.BytesIO(data[:end])))
    rng = np.random.default_rng(1)
    for _ in range(300):
        damaged = bytearray(data)
        for place in rng.integers(2, len(data), 2):
            damaged[place] = rng.integers(0, 256)
        try:
            holder.read_value(TokenReader(io.BytesIO(bytes(damaged))))
        except Nnet3Error as error:
            assert str(error)


def test_what_cannot_be_written():
    with pytest.raises(ShapeError, match="at least one"):
        written(NnetExample([]), True)
    with pytest.raises(ShapeError, match="3 indexes but 2 rows"):
        written(NnetExample([NnetIo("input", time_indexes(0, 3), np.zeros((2, 2), np.float32))]), True)


EGS = DATA / "egs"


def test_examples_come_decompressed() -> None:
    expected = list(read_egs(f"ark:{EGS / 'compressed.ark'}"))
    found = list(examples_ahead(read_egs(f"ark:{EGS / 'compressed.ark'}"), most_bytes=1))
    assert any(isinstance(io.features, CompressedMatrix) for _, eg in expected for io in eg.io)
    assert [key for key, _ in found] == [key for key, _ in expected]
    for (_, one), (_, other) in zip(found, expected, strict=True):
        for dense, compressed in zip(one.io, other.io, strict=True):
            assert not isinstance(dense.features, CompressedMatrix)
            assert np.array_equal(to_dense(dense.features), to_dense(compressed.features))


@pytest.mark.parametrize(("read", "name"), [
    (read_egs, "uncompressed.ark"), (read_chain_egs, "chain.ark"), (read_discriminative_egs, "discriminative.ark")])
def test_sizes_are_about_those_of_files(read, name: str) -> None:
    entries = list(examples_ahead(read(f"ark:{EGS / name}")))
    in_memory, in_file = sum(num_bytes(eg) for _, eg in entries), (EGS / name).stat().st_size
    assert entries and 0.2 * in_file < in_memory < 4 * in_file       # small examples are mostly tags


@pytest.mark.parametrize(("read", "name"), [(read_egs, "uncompressed.ark"), (read_chain_egs, "chain.ark")])
def test_how_many_were_merged(read, name: str) -> None:
    for entry in read(f"ark:{EGS / name}"):
        io = (entry[1].io if hasattr(entry[1], "io") else entry[1].inputs)[0]
        assert num_merged(entry) == len(np.unique(io.indexes[:, 0]))


def test_a_damaged_archive_is_an_error(tmp_path) -> None:
    data = (EGS / "uncompressed.ark").read_bytes()
    (tmp_path / "bad.ark").write_bytes(data[:len(data) // 2])
    with pytest.raises(Nnet3Error, match=r"bad\.ark, byte [0-9]+"):
        list(examples_ahead(read_egs(f"ark:{tmp_path / 'bad.ark'}")))
