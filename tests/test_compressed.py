"""Compressed matrices: bytes and bits as Kaldi has them."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from io_samples import SAMPLES, archive, check_survives, reader_of, written
from paths import shared_golden

from nnet3py.errors import FormatError, NumericError, ShapeError
from nnet3py.formats import compressed, compressed_code
from nnet3py.formats.compressed import CompressedMatrix, CompressionMethod
from nnet3py.formats.general import read_general_matrix, to_dense, write_general_matrix
from nnet3py.formats.layouts import head_bytes
from nnet3py.formats.matrices import read_matrix, write_matrix

KINDS = {"cm": CompressionMethod.SPEECH_FEATURE, "cm2": CompressionMethod.TWO_BYTE_AUTO,
         "cm3": CompressionMethod.ONE_BYTE_AUTO}
# The largest error is half a step of 1/65535 or 1/255 of the range, and a little for roundings.
STEPS = {"cm2": 0.51 / 65535, "cm3": 0.51 / 255}


def bits(matrix: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(matrix).view(np.int32)


def check_folder(folder: Path, name: str) -> None:
    dense = {key: value for key, value, _ in archive(folder / "feats.ark", read_matrix)}
    decoded = {key: value for key, value, _ in archive(folder / f"feats-{name}.decoded.ark", read_matrix)}
    count = 0
    for key, value, data in archive(folder / f"feats-{name}.ark", read_general_matrix):
        assert value.token == name.upper()
        assert np.array_equal(bits(value.to_dense()), bits(decoded[key]))
        assert written(lambda w, m: m.write(w), value, binary=True) == data
        made = CompressedMatrix.compress(dense[key], KINDS[name])
        assert written(lambda w, m: m.write(w), made, binary=True) == data
        count += 1
    assert count == len(dense)


@pytest.mark.parametrize("name", KINDS)
def test_one_utterance_of_kaldis(name: str) -> None:
    check_folder(SAMPLES, name)


@pytest.mark.parametrize("name", KINDS)
def test_all_utterances_of_kaldis(name: str) -> None:
    check_folder(shared_golden() / "data", name)


@pytest.mark.parametrize("method, text", [
    (3, "434d3220 000020c0 00006040 02000000 02000000 ffff0000 3ccfdbb6"),
    (5, "434d3320 000020c0 00006040 02000000 02000000 ff00ceb6"),
    (2, "434d20 000020c0 00006040 02000000 02000000 3ccffdfffeffffff 0000dbb6dcb6ddb6 ff000040")])
def test_small_examples(method: int, text: str) -> None:
    made = CompressedMatrix.compress(np.array([[1, -2.5], [1 / 3, 1e-10]]), method)
    assert written(lambda w, m: m.write(w), made, binary=True) == bytes.fromhex(text)


@pytest.mark.parametrize("rows, token", [(1, "CM2"), (8, "CM2"), (9, "CM")])
def test_the_automatic_method(rows: int, token: str) -> None:
    assert CompressedMatrix.compress(np.ones((rows, 2))).token == token


@pytest.mark.parametrize("method, values", [(4, [-32768, -1, 0, 32767]), (6, [0, 1, 254, 255]), (7, [0, 1])])
def test_fixed_ranges_are_exact(method: int, values: list[int]) -> None:
    matrix = np.array([values], dtype=np.float32)
    assert np.array_equal(CompressedMatrix.compress(matrix, method).to_dense(), matrix)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("rows", [1, 3, 5, 300])
def test_decoding_is_close(name: str, rows: int) -> None:
    matrix = np.random.default_rng(rows).normal(size=(rows, 7)).astype(np.float32)
    found = CompressedMatrix.compress(matrix, KINDS[name]).to_dense()
    span = matrix.max() - matrix.min()
    np.testing.assert_allclose(found, matrix, rtol=0, atol=span * STEPS.get(name, 0.51 / 63))


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 20), st.integers(1, 4)), elements=st.floats(
    -2.0**100, 2.0**100, width=32)), st.sampled_from(list(CompressionMethod)))
def test_any_matrix_comes_back_as_bytes(matrix: np.ndarray, method: CompressionMethod) -> None:
    made = CompressedMatrix.compress(matrix, method)
    data = written(lambda w, m: m.write(w), made, binary=True)
    found = read_general_matrix(reader_of(data, True))
    assert found.shape == matrix.shape
    assert written(lambda w, m: m.write(w), found, binary=True) == data
    assert np.array_equal(bits(found.to_dense()), bits(read_matrix(reader_of(data, True))))
    assert np.isfinite(found.to_dense()).all()


def use_compiled_code(monkeypatch: pytest.MonkeyPatch, use: bool = True) -> None:
    for name in ("COST_OF_LOADING", "COST_IF_LOADED"):
        monkeypatch.setattr(compressed_code, name, -1.0 if use else 1e9)


@pytest.mark.parametrize("name", KINDS)
def test_large_matrices_decode_to_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_compiled_code(monkeypatch, False)
    matrix = np.random.default_rng(1).normal(size=(70_000, 3)).astype(np.float32)
    made = CompressedMatrix.compress(matrix, KINDS[name])
    by_table = made.to_dense()
    for first in (0, 4000, 69_900):
        part = made.take_rows(np.arange(first, first + 100)).to_dense()       # few rows: no tables
        assert np.array_equal(bits(by_table[first:first + 100]), bits(part))
    use_compiled_code(monkeypatch)
    assert np.array_equal(bits(made.to_dense()), bits(by_table))
    wide = np.zeros((70_000, 5), dtype=np.float32)
    made.decode_into(wide[:, 1:4])
    assert np.array_equal(wide[:, 1:4], by_table)
    assert not wide[:, [0, 4]].any()


def matrices_of_all_sorts() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    made = [rng.normal(size=(rows, cols)) * 10.0 ** rng.integers(-30, 30) for rows, cols in
            rng.integers(1, [300, 12], size=(60, 2))]
    made += [np.round(one) for one in (rng.normal(size=(rows, 5)) for rows in range(1, 40))]          # many equal ones
    made += [np.full((20, 3), 2.5), np.zeros((9, 2)), np.array([[1e38], [-1e38]] * 8), np.full((9, 2), 1e-44)]
    spread = np.zeros((64, 3))
    spread[:, 1], spread[5, 2] = 1e-36, 3e37
    return [one.astype(np.float32) for one in [*made, spread]]


@pytest.mark.parametrize("method", CompressionMethod)
def test_compiled_code_gives_the_same_bits(method: CompressionMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    for matrix in matrices_of_all_sorts():
        use_compiled_code(monkeypatch, False)
        made = CompressedMatrix.compress(matrix, method)
        dense = made.to_dense()
        use_compiled_code(monkeypatch)
        again = CompressedMatrix.compress(matrix, method)
        files = [written(lambda w, m: m.write(w), one, binary=True) for one in (made, again)]
        assert files[0] == files[1]
        assert np.array_equal(bits(again.to_dense()), bits(dense))


def test_floats_decode_to_the_bits_of_doubles() -> None:
    rng = np.random.default_rng(5)
    codes = np.broadcast_to(np.arange(256, dtype=np.uint8)[None, :, None], (40, 256, 8))
    for exponent in (-38, -31, -29, -20, 0, 8, 30, 33, 37):
        points = np.sort(rng.normal(size=(40, 8, 4)), axis=-1) * 10.0 ** exponent
        points[:10] = np.round(points[:10], 1)
        points = points.astype(np.float32)
        found, exact = (np.empty(codes.shape, dtype=np.float32) for _ in range(2))
        compressed._decode_pieces(codes, points, found)
        with np.errstate(over="ignore", invalid="ignore"):
            compressed._decode_pieces_in_double(codes, points, exact)
        assert np.array_equal(bits(found), bits(exact))


@pytest.mark.parametrize("name", KINDS)
def test_batches_decode_to_the_same_bits(name: str) -> None:
    rng = np.random.default_rng(6)
    made = [CompressedMatrix.compress(rng.normal(size=(33, 7)) * scale, KINDS[name]) for scale in (1e-35, 1, 1, 1e20)]
    data = np.frombuffer(b"".join(written(lambda w, m: m.write(w), one, binary=True) for one in made), dtype=np.uint8)
    found = np.empty((4, 33, 7), dtype=np.float32)
    compressed.decode_batch(made[0], data.reshape(4, -1), found)
    for one, dense in zip(made, found, strict=True):
        assert np.array_equal(bits(dense), bits(one.to_dense()))


def test_decoding_imports_no_numba() -> None:
    program = ("import sys, numpy; from nnet3py.formats.compressed import CompressedMatrix as C\n"
               "for method in (2, 3, 5): C.compress(numpy.ones((6000, 40)), method).to_dense()\n"
               "sys.exit('numba' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize("name", KINDS)
def test_rows_are_taken_without_another_loss(name: str) -> None:
    made = CompressedMatrix.compress(np.random.default_rng(2).normal(size=(30, 4)), KINDS[name])
    part = made.take_rows([0, 0, *range(8)])
    assert part.token == made.token
    assert np.array_equal(part.to_dense(), made.to_dense()[[0, 0, 0, 1, 2, 3, 4, 5, 6, 7]])
    at_the_end = [25, 26, 27, 28, 29, 29, 29, 29, 29]
    assert np.array_equal(made.take_rows(at_the_end).to_dense(), made.to_dense()[at_the_end])
    few = made.take_rows([3, 1])
    assert few.token == ("CM2" if name == "cm" else made.token)
    span = np.ptp(made.to_dense()[[3, 1]])
    np.testing.assert_allclose(few.to_dense(), made.to_dense()[[3, 1]], atol=span * STEPS["cm2"] if name == "cm" else 0)
    assert made.take_rows([]).shape == (0, 0)
    with pytest.raises(ShapeError):
        made.take_rows([30])


def test_scaling_keeps_the_codes() -> None:
    made = CompressedMatrix.compress(np.random.default_rng(3).normal(size=(30, 4)))
    assert made.scaled(2.0).codes is made.codes
    assert np.array_equal(made.scaled(2.0).to_dense(), 2 * made.to_dense())


def test_compressed_matrices_are_dense_in_text() -> None:
    made = CompressedMatrix.compress(np.random.default_rng(4).normal(size=(9, 3)).astype(np.float32))
    assert written(write_general_matrix, made, binary=False) == written(write_matrix, made.to_dense(), binary=False)


def test_empty_matrices() -> None:
    empty = CompressedMatrix.compress(np.empty((0, 0)))
    assert written(write_general_matrix, empty, binary=True) == b"FM \4\0\0\0\0\4\0\0\0\0"
    for zeros in (16, 20):                         # what is consumed by Kaldi, and what it writes
        reader = reader_of(b"CM " + bytes(zeros) + b"key", True)
        assert read_general_matrix(reader).shape == (0, 0)
        assert reader.peek(3) == b"key"


@pytest.mark.parametrize("token", ["CM", "CM2", "CM3"])
@pytest.mark.parametrize("dims", [(2147483647, 0), (0, 2147483647), (1, 0), (-1, 0), (0, -1), (-1, -1)])
def test_a_header_without_elements_is_damaged(token: str, dims: tuple[int, int]) -> None:
    data = head_bytes(token, *dims, 0.0, 1.0) + bytes(100)
    with pytest.raises(FormatError, match=f"dimensions of a compressed matrix, found {dims[0]} x {dims[1]}"):
        read_general_matrix(reader_of(data, True))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_numbers(value: float) -> None:
    with pytest.raises(NumericError):
        CompressedMatrix.compress(np.array([[1.0, value]]))


def test_a_column_whose_percentiles_are_one_number_has_the_first_code_above_them(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The range is so small beside the values that the percentiles of a constant column are the same float32."""
    matrix = np.full((20, 2), 1e6, dtype=np.float32)
    matrix[:, 1] += np.float32(0.0625)
    for compiled in (False, True):
        use_compiled_code(monkeypatch, compiled)
        made = CompressedMatrix.compress(matrix, CompressionMethod.SPEECH_FEATURE)
        np.testing.assert_array_equal(made.to_dense(), matrix)
        assert (made.codes == 192).all()


@pytest.mark.parametrize("token", ["CM", "CM2", "CM3"])
def test_lengths_are_checked_first(token: str) -> None:
    data = token.encode() + b" " + bytes(8) + b"\xff\xff\xff\x7f\xff\xff\xff\x7f" + bytes(100)
    with pytest.raises(FormatError, match="only 100 bytes follow"):
        read_general_matrix(reader_of(data, True))


@pytest.mark.parametrize("name", KINDS)
def test_damaged_bytes_are_refused(name: str) -> None:
    made = CompressedMatrix.compress(np.random.default_rng(5).normal(size=(5, 3)), KINDS[name])
    data = written(lambda w, m: m.write(w), made, binary=True)
    check_survives(lambda reader: to_dense(read_general_matrix(reader)), data, True, count=300)
