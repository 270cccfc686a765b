"""nnet3py/egs/reading_ahead.py: what comes is what is in the table, decompressed; and how large it is."""
from __future__ import annotations

import numpy as np
import pytest
from paths import DATA

from nnet3py.egs.chain_example import read_chain_egs
from nnet3py.egs.discriminative_example import read_discriminative_egs
from nnet3py.egs.example import read_egs
from nnet3py.egs.reading_ahead import examples_ahead, num_bytes, num_merged
from nnet3py.errors import Nnet3Error
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import to_dense

EGS = DATA / "egs"


def test_examples_come_decompressed() -> None:
    expected = list(read_egs(f"ark:{EGS / 'compressed.ark'}"))
    found = list(examples_ahead(read_egs(f"ark:{EGS / 'compressed.ark'}"), most_bytes=1))
    assert any(isinstance(io.features, CompressedMatrix) for _, eg in expected for io in eg.io)
    assert [key for key, _ in found] == [key for key, _ in expected]
    for (_, one), (_, other) in zip(found, expected, strict=True):
        for io, compressed in zip(one.io, other.io, strict=True):
            assert not isinstance(io.features, CompressedMatrix)
            assert np.array_equal(to_dense(io.features), to_dense(compressed.features))


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
