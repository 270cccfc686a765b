"""Skimming archives (io/skim.py, egs/walk_example.py, formats/): the same entries, bytes and errors."""
from __future__ import annotations

import io
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import io_samples
import numpy as np
import pytest
from chain_graphs import chain_example
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import DATA
from thinned import thinned

from nnet3py.egs.chain_example import CHAIN_EXAMPLE
from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo
from nnet3py.egs.make import time_indexes
from nnet3py.egs.packed_example import PACKED_EXAMPLE, PackedExample
from nnet3py.egs.raw_example import RAW_CHAIN_EXAMPLE, RAW_DISCRIMINATIVE_EXAMPLE, RAW_EXAMPLE
from nnet3py.errors import Nnet3Error
from nnet3py.formats import compressed_code
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix, to_dense
from nnet3py.formats.holders import FLOAT_MATRIX, GENERAL_MATRIX
from nnet3py.formats.layouts import MatrixSkimmer
from nnet3py.formats.matrix_bytes import RAW_MATRIX, decoded_matrix
from nnet3py.io.holder import Holder
from nnet3py.io.skim import Skimmer, Unusual, Walk
from nnet3py.io.tables import SequentialReader
from nnet3py.io.tokens import TokenWriter

EGS = DATA / "egs"
KINDS = {
    "compressed.ark": (RAW_EXAMPLE, EXAMPLE), "uncompressed.ark": (RAW_EXAMPLE, EXAMPLE),
    "chain.ark": (RAW_CHAIN_EXAMPLE, CHAIN_EXAMPLE), "chain-to-merge.ark": (RAW_CHAIN_EXAMPLE, CHAIN_EXAMPLE),
    "chain-merged.ark": (RAW_CHAIN_EXAMPLE, CHAIN_EXAMPLE),
    "discriminative.ark": (RAW_DISCRIMINATIVE_EXAMPLE, DISCRIMINATIVE_EXAMPLE)}
SEEDS = thinned(range(150), keep=4)      # of damage


def written(value: Any, holder: Holder) -> bytes:
    return io_samples.written(holder.write, value, binary=True)


def archive_of(values: list[Any], holder: Holder) -> bytes:
    return b"".join(b"key-%d \0B" % number + written(value, holder) for number, value in enumerate(values))


def unskimmed(holder: Holder) -> Holder:
    return Holder(holder.name, holder.read, holder.write, holder.has_header, holder.select)


def outcome(data: bytes, folder: Path, holder: Holder) -> tuple[list[tuple[str, Any]], str]:
    """The entries of an archive, and what was raised."""
    (folder / "x.ark").write_bytes(data)
    found = []
    try:
        with SequentialReader(f"ark:{folder / 'x.ark'}", holder) as reader:
            for entry in reader:
                found.append(entry)
    except Nnet3Error as error:
        return found, str(error)
    return found, ""


def rows(count: int, dim: int, seed: int, per_row: int = 1) -> SparseMatrix:
    rng = np.random.default_rng(seed)
    return SparseMatrix.from_rows([[(int(column), 0.5) for column in sorted(rng.choice(dim, per_row, replace=False))]
                                   for _ in range(count)], dim)


def examples(count: int, form: str = "CM", seed: int = 0) -> list[NnetExample]:
    """Examples of few layouts."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        length = 12 if number % 5 else 14
        features: Any = rng.normal(size=(length, 6)).astype(np.float32)
        if form != "FM":
            features = CompressedMatrix.compress(features, {"CM": 2, "CM2": 3, "CM3": 5}[form])
        indexes = time_indexes(-2, length)
        indexes[:, 2] = 7 if number % 3 == 0 else 0                # a full index in front
        made.append(NnetExample([NnetIo("input", indexes, features),
                                 NnetIo("output", time_indexes(0, 4), rows(4, 9, number, 1 + number % 2))]))
    return made


# -- the same bytes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_the_walk_ends_where_decoding_ends(name: str) -> None:
    raw, decoding = KINDS[name]
    data = (EGS / name).read_bytes()
    assert raw.skimmer is not None
    found, consumed, unusual = raw.skimmer().entries(data)
    assert consumed == len(data) and not unusual
    with SequentialReader(f"ark:{EGS / name}", decoding) as reader:
        assert [(key.decode(), value) for key, value in found] == [
            (key, written(value, decoding)) for key, value in reader]


def test_the_walk_takes_end_to_end_supervisions() -> None:
    made = [chain_example(np.random.default_rng(seed), 2, 4, 5, end_to_end=True) for seed in range(3)]
    data = archive_of(made, CHAIN_EXAMPLE)
    assert RAW_CHAIN_EXAMPLE.skimmer is not None
    found, consumed, unusual = RAW_CHAIN_EXAMPLE.skimmer().entries(data)
    assert consumed == len(data) and not unusual
    assert [value for _, value in found] == [written(one, CHAIN_EXAMPLE) for one in made]


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_found_in_a_beginning(name: str) -> None:
    raw, _ = KINDS[name]
    data = (EGS / name).read_bytes()
    assert raw.skimmer is not None
    key, value = raw.skimmer().entries(data)[0][0]
    for end in range(len(key) + 3 + len(value)):
        assert raw.skimmer().entries(data[:end]) == ([], 0, False)


@pytest.mark.parametrize("form", ["FM", "CM", "CM2", "CM3"])
@pytest.mark.parametrize("skimmed", [64, 1000, 1 << 18])
def test_entries_across_blocks(form: str, skimmed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = examples(60, form)
    monkeypatch.setattr(Skimmer, "block_bytes", skimmed)
    found, error = outcome(archive_of(made, EXAMPLE), tmp_path, RAW_EXAMPLE)
    assert not error and found == [(f"key-{i}", written(one, EXAMPLE)) for i, one in enumerate(made)]


def sought_in_blocks(make: Callable[[], MatrixSkimmer], size: int) -> MatrixSkimmer:
    skimmer = make()
    skimmer.block_bytes = size
    return skimmer


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("skimmed", [64, 1000, 1 << 18])
def test_matrices_across_blocks(compiled: bool, skimmed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = decoded_matrix(3)
    made = feature_matrices()[:-1] * 3 + feature_matrices()[-1:]
    path = tmp_path / "in"
    path.write_bytes(archive_of(made, GENERAL_MATRIX))
    for holder in (RAW_MATRIX, decoded, FLOAT_MATRIX):
        monkeypatch.setattr(holder, "skimmer", partial(sought_in_blocks, holder.skimmer, skimmed))
    for name in ("COST_OF_LOADING", "COST_IF_LOADED"):
        monkeypatch.setattr(compressed_code, name, -1.0 if compiled else 1e9)
    dense = [np.asarray(to_dense(one), dtype=np.float32) for one in made]
    for holder, expected in ((RAW_MATRIX, [*made[:-1], dense[-1]]), (decoded, dense), (FLOAT_MATRIX, dense)):
        with SequentialReader(f"ark:{path}", holder) as reader:
            found = [(key, value if isinstance(value, bytes) else written(value, holder)) for key, value in reader]
        assert found == [(f"key-{i}", written(one, GENERAL_MATRIX)) for i, one in enumerate(expected)]


@settings(max_examples=40)
@given(data=st.data())
def test_layouts_find_what_walking_finds(data: st.DataObject) -> None:
    forms = data.draw(st.lists(st.sampled_from(["FM", "CM", "CM2", "CM3"]), min_size=1, max_size=4))
    pool = [one for form in forms for one in examples(6, form, data.draw(st.integers(0, 5)))]
    chosen = [pool[i] for i in data.draw(st.lists(st.integers(0, len(pool) - 1), min_size=1, max_size=60))]
    skimmer = RAW_EXAMPLE.skimmer() if RAW_EXAMPLE.skimmer else None
    assert skimmer is not None
    found, consumed, unusual = skimmer.entries(archive_of(chosen, EXAMPLE))
    assert [value for _, value in found] == [written(one, EXAMPLE) for one in chosen] and not unusual
    assert consumed == len(archive_of(chosen, EXAMPLE))


# -- the same errors ---------------------------------------------------------------------------------------------------


def damaged(data: bytes, seed: int) -> bytes:
    chance = random.Random(seed)
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 3)):
        changed[chance.randrange(len(data))] = chance.choice((0, 4, 255, chance.randrange(256)))
    return bytes(changed[:chance.randrange(len(data))] if chance.random() < 0.3 else changed)


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_examples_give_the_same_errors(seed: int, tmp_path: Path) -> None:
    data = damaged(archive_of(examples(14, ["FM", "CM", "CM3"][seed % 3]), EXAMPLE), seed)
    expected, error = outcome(data, tmp_path, unskimmed(RAW_EXAMPLE))
    found, own_error = outcome(data, tmp_path, RAW_EXAMPLE)
    assert own_error == error and found == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_examples_that_are_merged_give_the_same_errors(seed: int, tmp_path: Path) -> None:
    data = damaged(archive_of(examples(14, ["FM", "CM", "CM2"][seed % 3]), EXAMPLE), seed)
    expected, error = outcome(data, tmp_path, EXAMPLE)
    found, own_error = outcome(data, tmp_path, PACKED_EXAMPLE)
    assert own_error == error and [key for key, _ in found] == [key for key, _ in expected]
    for (_, one), (_, other) in zip(found, expected, strict=True):
        plain = one.layout.example if isinstance(one, PackedExample) else one
        assert one.structure() == other.structure() and plain.size() == other.size()
        if isinstance(one, PackedExample):
            assert one.data == written(other, EXAMPLE)


def feature_matrices() -> list[Any]:
    rng = np.random.default_rng(4)
    dense = [rng.normal(size=(rows, 5)).astype(np.float32) for rows in (1, 20, 300)]
    return [*dense, *(CompressedMatrix.compress(one, method) for one in dense for method in (2, 3, 5)),
            dense[1].astype(np.float64)]


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_matrices_give_the_same_errors(seed: int, tmp_path: Path) -> None:
    matrices = feature_matrices()
    random.Random(seed).shuffle(matrices)
    data = archive_of(matrices, GENERAL_MATRIX)
    data = damaged(data, seed) if seed > 4 else data
    expected, error = outcome(data, tmp_path, unskimmed(FLOAT_MATRIX))
    for holder in (FLOAT_MATRIX, RAW_MATRIX):
        found, own_error = outcome(data, tmp_path, holder)
        assert own_error == error and [key for key, _ in found] == [key for key, _ in expected]
    found, _ = outcome(data, tmp_path, FLOAT_MATRIX)
    for (_, one), (_, other) in zip(found, expected, strict=True):
        assert one.dtype == np.float32 and one.flags.writeable
        assert np.array_equal(one.view(np.int32), other.view(np.int32))


def test_unusual_values_are_read(tmp_path: Path) -> None:
    made = examples(8)
    text = io.BytesIO()
    for number, one in enumerate(made):
        text.write(b"text-%d " % number)
        one.write(TokenWriter(text, False))
    data = archive_of(made, EXAMPLE) + b" \n" + text.getvalue() + archive_of(made, EXAMPLE)
    found, error = outcome(data, tmp_path, RAW_EXAMPLE)
    assert not error and [key for key, _ in found] == [
        f"{kind}-{i}" for kind in ("key", "text", "key") for i in range(8)]
    assert [value for _, value in found[-8:]] == [written(one, EXAMPLE) for one in made]


def test_a_layout_is_learned_where_it_pays() -> None:
    skimmer = Skimmer(lambda walk: walk.skip(walk.integer(b"A ")))
    alike, other = b"k \0BA \4\3\0\0\0abc", b"k \0BA \4\1\0\0\0a"
    skimmer.entries(2 * alike)
    assert len(skimmer._layouts) == 0
    skimmer.entries(2 * alike + 5 * other)
    assert len(skimmer._layouts) == 1
    skimmer.entries(other)
    assert [layout.sample for layout in skimmer._layouts] == [b"A \4\1\0\0\0a", b"A \4\3\0\0\0abc"]
    found = skimmer.entries(3 * other + 2 * alike)[0]
    assert found == 3 * [(b"k", b"A \4\1\0\0\0a")] + 2 * [(b"k", b"A \4\3\0\0\0abc")]
    assert [place for place, _ in skimmer.runs] == [0, 3]


def test_a_walk_knows_its_end() -> None:
    walk = Walk(b"xx<A> \4\2\0\0\0ab", 2)
    assert walk.integer(b"<A> ") == 2
    walk.skip(2)
    assert walk.at == len(walk.data) and walk.skipped == [(9, 2)]
    assert Walk(b"\4\0\0\0\0", 0).integer() == 0
    with pytest.raises(Unusual):
        Walk(b"\4\xff\xff\xff\xff", 0).integer()
