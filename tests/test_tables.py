"""Tables: what is read, what is written, and what is said when an archive, a script or a pipe is bad."""
from __future__ import annotations

import logging
import os
import threading

import numpy as np
import pytest
from paths import shared_golden

import nnet3py
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.io.holders import FLOAT_MATRIX, FLOAT_VECTOR, INT32, INT_VECTOR, TOKEN, TOKEN_VECTOR
from nnet3py.io.tables import RandomAccessMappedReader, RandomAccessReader, SequentialReader, TableWriter, read_matrices

RNG = np.random.default_rng(7)
MATRICES = {f"utt{i}": RNG.standard_normal((4 + i, 3)).astype(np.float32) for i in range(5)}


def write_matrices(wspecifier, items=None):
    with TableWriter(wspecifier, FLOAT_MATRIX) as writer:
        for key, value in (items or MATRICES).items():
            writer.write(key, value)


def assert_same(found, expected=None):
    found, expected = dict(found), expected or MATRICES
    assert list(found) == list(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-6)       # text has 7 digits


@pytest.mark.parametrize("options", ["ark", "ark,t", "b,ark", "ark,f"])
def test_archives(tmp_path, options):
    write_matrices(f"{options}:{tmp_path}/a.ark")
    assert_same(read_matrices(f"ark:{tmp_path}/a.ark"))
    assert_same(nnet3py.read_matrices(f"ark,bg:{tmp_path}/a.ark"))
    assert_same(read_matrices(f"ark:cat {tmp_path}/a.ark |"))


def test_bytes_of_an_archive(tmp_path):
    with TableWriter(f"ark:{tmp_path}/a", INT_VECTOR) as writer:
        writer.write("k", [1, -2])
    assert (tmp_path / "a").read_bytes() == b"k \0B\4\2\0\0\0\4\1\0\0\0\4\xfe\xff\xff\xff"
    with TableWriter(f"ark,t:{tmp_path}/a", INT_VECTOR) as writer:
        writer.write("k", [1, -2])
        writer.write("é", [])
    assert (tmp_path / "a").read_bytes() == "k 1 -2 \né \n".encode()


@pytest.mark.parametrize("options", ["ark,scp", "ark,scp,t"])
def test_archives_with_scripts(tmp_path, options):
    ark, scp = tmp_path / "a.ark", tmp_path / "a.scp"
    write_matrices(f"{options}:{ark},{scp}")
    lines = scp.read_text().splitlines()
    data = ark.read_bytes()
    for line, key in zip(lines, MATRICES, strict=True):
        name, place = line.split(" ")
        path, offset = place.rsplit(":", 1)
        assert name == key and path == str(ark) and data[:int(offset)].endswith(key.encode() + b" ")
    assert_same(read_matrices(f"scp:{scp}"))
    with RandomAccessReader(f"scp:{scp}", FLOAT_MATRIX) as reader:
        assert "utt3" in reader and "other" not in reader
        np.testing.assert_allclose(reader["utt3"], MATRICES["utt3"], rtol=1e-6)


def test_writing_to_the_files_of_a_script(tmp_path):
    (tmp_path / "s").write_text("".join(f"{key} {tmp_path}/{key}.mat\n" for key in MATRICES))
    write_matrices(f"scp:{tmp_path}/s")
    assert_same(read_matrices(f"scp:{tmp_path}/s"))
    assert (tmp_path / "utt0.mat").read_bytes().startswith(b"\0BFM ")
    with pytest.raises(Nnet3Error, match="no entry for key new"):
        write_matrices(f"scp:{tmp_path}/s", {"new": MATRICES["utt0"]})
    write_matrices(f"scp,p:{tmp_path}/s", {"new": MATRICES["utt0"]})
    assert not (tmp_path / "new.mat").exists()


def test_ranges_in_scripts(tmp_path, caplog):
    write_matrices(f"ark,scp:{tmp_path}/a,{tmp_path}/s")
    place = (tmp_path / "s").read_text().split()[1]
    m = MATRICES["utt0"]                                            # 4 x 3

    def read(part):
        (tmp_path / "r").write_text(f"x {place}[{part}]\n")
        return dict(read_matrices(f"scp:{tmp_path}/r"))["x"]

    assert np.array_equal(read("1:2"), m[1:3])
    assert np.array_equal(read(":,1:1"), m[:, 1:2])
    assert np.array_equal(read("3:3,0:2"), m[3:4])
    assert not caplog.records
    assert np.array_equal(read("0:6"), m)
    assert "cut" in caplog.text
    for part in ("0:7", "4:5", "0:1,0:3", "1", "2:1"):
        with pytest.raises(Nnet3Error):
            read(part)
    (tmp_path / "v").write_bytes(b"\0B\4\1\0\0\0")
    (tmp_path / "r").write_text(f"x {tmp_path}/v[0:0]\n")
    with pytest.raises(Nnet3Error, match="range"), SequentialReader(f"scp:{tmp_path}/r", INT32) as reader:
        list(reader)


def test_an_object_is_loaded_once_for_its_ranges(tmp_path):
    (tmp_path / "m").write_bytes(b"")
    write_matrices(f"ark,scp:{tmp_path}/a,{tmp_path}/s", {"utt": MATRICES["utt4"]})
    name = f"tee -a {tmp_path}/log < {tmp_path}/only |"
    (tmp_path / "only").write_bytes((tmp_path / "a").read_bytes()[4:])
    (tmp_path / "r").write_text(f"a {name}[0:1]\nb {name}[2:3]\nc {name}\n")
    found = dict(read_matrices(f"scp:{tmp_path}/r"))
    assert np.array_equal(np.concatenate([found["a"], found["b"]]), MATRICES["utt4"][:4])
    assert (tmp_path / "log").stat().st_size == (tmp_path / "only").stat().st_size


def test_empty_tables(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    assert list(read_matrices(f"ark:{tmp_path}/empty")) == list(read_matrices(f"scp:{tmp_path}/empty")) == []


def test_a_truncated_archive(tmp_path, caplog):
    write_matrices(f"ark:{tmp_path}/a")
    data = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(data[:-10])
    found = []
    with pytest.raises(FormatError, match="utt4"), SequentialReader(f"ark:{tmp_path}/a", FLOAT_MATRIX) as reader:
        found.extend(key for key, _ in reader)
    assert found == list(MATRICES)[:-1]
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    with SequentialReader(f"ark,p:{tmp_path}/a", FLOAT_MATRIX) as reader:
        assert len(list(reader)) == 4
    (tmp_path / "a").write_bytes(data[:20])
    with pytest.raises(FormatError), SequentialReader(f"ark,p:{tmp_path}/a", FLOAT_MATRIX) as reader:
        list(reader)


@pytest.mark.parametrize("data", [b"key\x0bx", b"\0B garbage", b"a \0Cx", b"a \0BXX ",
                                  b"a \0BFM \4\xff\xff\xff\x7f\4\2\0\0\0",
                                  b"a  [ x ]\n", b"a  [\n 1 2\n 3 ]\n", b"a " + bytes(40)])
def test_garbage_is_refused(tmp_path, data):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(FormatError):
        list(read_matrices(f"ark:{tmp_path}/a"))


def test_a_failing_pipe(tmp_path, caplog):
    write_matrices(f"ark:{tmp_path}/a")
    with pytest.raises(Nnet3Error, match="status 3"):
        assert_same(list(read_matrices(f"ark:cat {tmp_path}/a; exit 3 |")))
    assert_same(read_matrices(f"ark,p:cat {tmp_path}/a; exit 3 |"))
    with pytest.raises(Nnet3Error, match="status 3"):    # Kaldi does not look; but keys may be missing for that reason
        with RandomAccessReader(f"ark:cat {tmp_path}/a; exit 3 |", FLOAT_MATRIX) as reader:
            assert "none" not in reader
    with RandomAccessReader(f"ark,p:cat {tmp_path}/a; exit 3 |", FLOAT_MATRIX) as reader:
        assert "none" not in reader
    with SequentialReader("ark:yes 'k v' |", TOKEN) as reader:
        assert next(iter(reader)) == ("k", "v")


def test_bad_scripts(tmp_path, caplog):
    write_matrices(f"ark,scp:{tmp_path}/a,{tmp_path}/s")
    good = (tmp_path / "s").read_text()
    (tmp_path / "s").write_text(good + "lonely\n")
    found = []
    with pytest.raises(FormatError, match="lonely"), SequentialReader(f"scp:{tmp_path}/s", FLOAT_MATRIX) as reader:
        found.extend(key for key, _ in reader)
    assert found == list(MATRICES)
    with pytest.raises(FormatError, match="line 6"):
        RandomAccessReader(f"scp:{tmp_path}/s", FLOAT_MATRIX)
    (tmp_path / "s").write_text("b /nowhere\n" + good)
    with pytest.raises(Nnet3Error, match="/nowhere"):
        list(read_matrices(f"scp:{tmp_path}/s"))
    assert_same(read_matrices(f"scp,p:{tmp_path}/s"))
    with SequentialReader(f"scp:{tmp_path}/s", FLOAT_MATRIX) as reader:      # a value not asked for is not read
        assert [key for key, _ in reader.lazy()][0] == "b"
    with RandomAccessReader(f"scp,p:{tmp_path}/s", FLOAT_MATRIX) as random:
        assert "b" not in random and "utt0" in random
    with RandomAccessReader(f"scp:{tmp_path}/s", FLOAT_MATRIX) as random:
        assert "b" in random
        with pytest.raises(Nnet3Error, match="/nowhere"):
            random["b"]
    with pytest.raises(FormatError, match="binary header"):
        (tmp_path / "s").write_bytes(b"\0B")
        SequentialReader(f"scp:{tmp_path}/s", FLOAT_MATRIX)
    (tmp_path / "s").write_text(good + good.splitlines()[0])
    with pytest.raises(FormatError, match="twice"):
        RandomAccessReader(f"scp:{tmp_path}/s", FLOAT_MATRIX)
    assert len(list(read_matrices(f"scp:{tmp_path}/s"))) == 6
    (tmp_path / "s").write_text("".join(reversed(good.splitlines(True))))
    assert "utt1" in RandomAccessReader(f"scp:{tmp_path}/s", FLOAT_MATRIX)
    with pytest.raises(FormatError, match="order"):
        RandomAccessReader(f"scp,s:{tmp_path}/s", FLOAT_MATRIX)


def integers(path, keys):
    with TableWriter(f"ark:{path}", INT32) as writer:
        for i, key in enumerate(keys):
            writer.write(key, i)
    return path


def test_random_access_to_archives(tmp_path):
    path = integers(tmp_path / "a", "abcde")
    for options in ("", ",s", ",s,cs", ",o", ",o,s", ",o,s,cs", ",p"):
        with RandomAccessReader(f"ark{options}:{path}", INT32) as reader:
            assert "b" in reader and reader["b"] == 1
            assert "c" in reader and reader.get("d") == 3 and reader.get("x") is None
            with pytest.raises(Nnet3Error, match="no key y"):
                reader["y"]
            with pytest.raises(Nnet3Error, match="cannot be a key"):
                "a b" in reader  # noqa: B015
    with RandomAccessReader(f"ark:{path}", INT32) as reader:
        assert [reader[key] for key in "eadcb"] == [4, 0, 3, 2, 1]
    with RandomAccessReader(f"ark,s:{path}", INT32) as reader:
        assert [reader[key] for key in "eadcb"] == [4, 0, 3, 2, 1]
    with RandomAccessReader(f"ark,s,cs:{path}", INT32) as reader:
        assert reader["c"] == 2
        with pytest.raises(Nnet3Error, match="after c"):
            reader["b"]


def test_values_are_dropped_when_asked_once(tmp_path):
    path = integers(tmp_path / "a", "abc")
    with RandomAccessReader(f"ark,o:{path}", INT32) as reader:
        assert reader["a"] == 0 and reader["a"] == 0 and reader["b"] == 1
        with pytest.raises(Nnet3Error, match="twice"):
            reader["a"]
        assert reader["c"] == 2 and "b" not in reader
    with RandomAccessReader(f"ark,o,s:{path}", INT32) as reader:
        assert "a" in reader and reader["a"] == 0
        with pytest.raises(Nnet3Error, match="twice"):
            "a" in reader  # noqa: B015


def test_archives_that_break_their_promise(tmp_path):
    unsorted, twice = integers(tmp_path / "u", "bac"), integers(tmp_path / "t", "aab")
    for options in (",s", ",s,cs"):
        for path in (unsorted, twice):
            with RandomAccessReader(f"ark{options}:{path}", INT32) as reader:
                with pytest.raises(FormatError, match="sorted"):
                    reader.get("c")
    with pytest.raises(FormatError, match="twice"), RandomAccessReader(f"ark:{twice}", INT32) as reader:
        reader.get("b")


def test_a_damaged_archive_in_random_access(tmp_path, caplog):
    path = integers(tmp_path / "a", "abc")
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(FormatError, match="key c"), RandomAccessReader(f"ark:{path}", INT32) as reader:
        assert reader["b"] == 1 and "c" not in reader
    with RandomAccessReader(f"ark,p:{path}", INT32) as reader:
        assert "c" not in reader


def test_mapped_access(tmp_path):
    path = integers(tmp_path / "a", ["spk1", "spk2"])
    (tmp_path / "utt2spk").write_text("u1 spk1\nu2 spk2\nu3 spk3\n")
    with RandomAccessMappedReader(f"ark:{path}", f"ark:{tmp_path}/utt2spk", INT32) as reader:
        assert reader["u2"] == 1 and "u1" in reader and "u3" not in reader and reader.get("u3") is None
        with pytest.raises(Nnet3Error, match="u4"):
            "u4" in reader  # noqa: B015
    with RandomAccessMappedReader(f"ark:{path}", "", INT32) as reader:
        assert reader["spk1"] == 0 and "spk3" not in reader


def test_nothing_half_written_remains(tmp_path):
    with pytest.raises(ValueError), TableWriter(f"ark,scp:{tmp_path}/a,{tmp_path}/s", INT32) as writer:
        writer.write("a", 1)
        raise ValueError
    with pytest.raises(Nnet3Error), TableWriter(f"ark,scp:{tmp_path}/a,{tmp_path}/no/s", INT32):
        pass
    with pytest.raises(Nnet3Error, match="key"), TableWriter(f"ark:{tmp_path}/a", INT32) as writer:
        writer.write("a b", 1)
    assert os.listdir(tmp_path) == []


def test_reading_ahead_stops_with_its_reader(tmp_path):
    write_matrices(f"ark:{tmp_path}/a")
    before = threading.active_count()
    entries = iter(read_matrices(f"ark,bg:{tmp_path}/a"))
    next(entries)
    entries.close()
    assert threading.active_count() == before
    (tmp_path / "b").write_bytes(b"a \0Bgarbage")
    with pytest.raises(FormatError):
        list(read_matrices(f"ark,bg:{tmp_path}/b"))


def test_vectors_and_names(tmp_path):
    (tmp_path / "v").write_text("a  [ 1 2.5 ]\nb  [ ]\n")
    with SequentialReader(f"ark:{tmp_path}/v", FLOAT_VECTOR) as reader:
        assert [(k, v.tolist()) for k, v in reader] == [("a", [1.0, 2.5]), ("b", [])]
    (tmp_path / "t").write_text("a x y\nb\nc z")
    with SequentialReader(f"ark:{tmp_path}/t", TOKEN_VECTOR) as reader:
        assert list(reader) == [("a", ["x", "y"]), ("b", []), ("c", ["z"])]


@pytest.mark.parametrize("name", ["feats.ark", "feats.txt", "feats-cm.ark", "feats-cm2.ark", "feats-cm3.ark"])
def test_kaldis_features(name):
    data = shared_golden() / "data"
    decoded = data / name.replace(".ark", ".decoded.ark")
    expected = dict(read_matrices(f"ark:{decoded if decoded.exists() else data / 'feats.ark'}"))
    found = dict(read_matrices(f"ark:{data / name}"))
    assert list(found) == list(expected)[:len(found)] and len(found) == (2 if name == "feats.txt" else 12)
    for key in found:
        np.testing.assert_allclose(found[key], expected[key], rtol=2e-6, atol=1e-6)
