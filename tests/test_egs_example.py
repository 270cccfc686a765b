"""Examples in files: Kaldi's own bytes come back, and what is not an example is refused."""
from __future__ import annotations

import io

import numpy as np
import pytest
from paths import DATA, shared_golden

import nnet3py
from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo, read_egs
from nnet3py.egs.make import time_indexes
from nnet3py.egs.raw_example import RAW_EXAMPLE, copying_holder
from nnet3py.errors import FormatError, Nnet3Error, ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix, to_dense
from nnet3py.io.tables import SequentialReader, TableWriter
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
    with TableWriter(f"ark,t:{tmp_path}/t", EXAMPLE) as writer:
        for key, value in read_egs(f"ark:{ARCHIVES[1]}"):
            writer.write(key, value)
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
