"""nnet3py/formats/matrix_batches.py: many matrices converted at once are those converted one by one, to the byte."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from io_samples import written

from nnet3py.cli.feat.copy_feats import copy_feats
from nnet3py.errors import NumericError
from nnet3py.formats import compressed_code
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import to_dense, write_general_matrix
from nnet3py.formats.holders import GENERAL_MATRIX
from nnet3py.formats.matrix_batches import batches, compressed
from nnet3py.formats.matrix_bytes import STORED_MATRIX
from nnet3py.io.tables import SequentialReader, write_table

METHODS = range(1, 8)


def data_of(matrix: Any) -> bytes:
    return written(write_general_matrix, matrix, binary=True)


def result_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else written(STORED_MATRIX.write, value, binary=True)


def matrices() -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    made = [rng.normal(size=(rows, cols)) * scale for rows, cols, scale in
            [(1, 4, 1), (8, 3, 1), (9, 3, 1e-20), (12, 5, 1), (200, 40, 10), (700, 2, 1e20), (33, 1, 1e-36)]]
    made += [np.full((11, 3), 4.0), np.zeros((10, 2)), np.round(made[4])]
    return [one.astype(np.float32) for one in made]


def stored_forms() -> list[Any]:
    return [*matrices(), *(CompressedMatrix.compress(one, method) for one in matrices() for method in (2, 3, 5))]


@pytest.mark.parametrize("method", METHODS)
def test_compressing(method: int) -> None:
    stored = stored_forms()
    for result, one in zip(compressed([*map(data_of, stored)], method), stored, strict=True):
        assert result_bytes(result) == data_of(CompressedMatrix.compress(to_dense(one), method))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (7, 2)])
def test_what_cannot_be_compressed(bad: float, place: tuple[int, int]) -> None:
    made = [np.ones((12, 5), np.float32) for _ in range(3)]
    made[1][place] = bad
    with pytest.raises(NumericError, match="NaN or infinity"):
        compressed([*map(data_of, made)], 1)
    far = np.zeros((12, 5), np.float32)
    far[0, 0], far[1, 1] = 3e38, -3e38
    with pytest.raises(NumericError, match="overflows"):
        compressed([data_of(far)], 1)


def test_batches_have_a_size() -> None:
    entries = [(f"k{i}", b"FM " + bytes(900_000)) for i in range(7)] + [("last", b"CM " + bytes(700_000))]
    found = [[key for key, _ in batch] for batch in batches(entries)]
    assert found == [["k0", "k1", "k2"], ["k3", "k4", "k5"], ["k6", "last"]]


@pytest.mark.parametrize("options", [[], ["--compress=true"], ["--compress=true", "--compression-method=3"]])
@pytest.mark.parametrize("much", [False, True])
def test_copy_feats(options: list[str], much: bool, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COST_OF_LOADING", "COST_IF_LOADED"):
        monkeypatch.setattr(compressed_code, name, -1.0 if much else 1e9)
    stored = stored_forms()
    stored = stored[::-1] if not options else stored               # the first one decides
    write_table(f"ark:{tmp_path}/in", GENERAL_MATRIX, ((f"utt-{number}", one) for number, one in enumerate(stored)))
    assert copy_feats.execute([*options, f"--write-num-frames=ark,t:{tmp_path}/lengths", f"ark:{tmp_path}/in",
                               f"ark,scp:{tmp_path}/out,{tmp_path}/out.scp"]) == 0
    method = 3 if len(options) == 2 else 1
    with SequentialReader(f"scp:{tmp_path}/out.scp", GENERAL_MATRIX) as reader:
        found = list(reader)
    assert [key for key, _ in found] == [f"utt-{number}" for number in range(len(stored))]
    for (_, result), one in zip(found, stored, strict=True):
        dense = to_dense(one)
        assert data_of(result) == data_of(CompressedMatrix.compress(dense, method) if options else dense)
    lengths = [int(line.split()[1]) for line in (tmp_path / "lengths").read_text().splitlines()]
    assert lengths == [one.shape[0] for one in stored]
