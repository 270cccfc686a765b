"""LDA: statistics of features, their sums, and transforms; against plain numpy and scipy."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from command_lines import run
from paths import DATA, shared_golden

from nnet3py.feat.transforms import estimate_lda
from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR, read_matrix_file
from nnet3py.formats.lda_stats import LdaStats
from nnet3py.formats.matrices import read_packed
from nnet3py.formats.posteriors import posterior_of_alignment
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tables import TableWriter, write_table

TRANS = str(DATA / "network" / "trans.mdl")      # 20 transition-ids, 10 pdfs
SINGLE = 2e-4       # statistics are written as float32, and inverted
DIM, FRAMES = 4, 300


@pytest.fixture
def data(here: Path) -> tuple[np.ndarray, np.ndarray]:
    """Frames (FRAMES, DIM) and their pdfs; feats, post and stats hold them, in utterances of 100 frames."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1, 17, FRAMES).astype(np.int32)         # two pdfs have no frames
    pdfs = (ids - 1) // 2
    means = rng.standard_normal((10, DIM)) * [3, 1, 0.3, 0.1]
    frames = (means[pdfs] + rng.standard_normal((FRAMES, DIM)) @ rng.standard_normal((DIM, DIM)) + 2).astype("f")
    with TableWriter("ark:feats", FLOAT_MATRIX) as feats, TableWriter("ark:post", POSTERIOR) as posts:
        for start in range(0, FRAMES, 100):
            feats.write(f"u{start}", frames[start:start + 100])
            posts.write(f"u{start}", posterior_of_alignment(ids[start:start + 100]))
    run("acc-lda", TRANS, "ark:feats", "ark:post", "stats")
    return frames.astype(np.float64), pdfs


def covariances(frames: np.ndarray, pdfs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Within and between classes."""
    means = {pdf: frames[pdfs == pdf].mean(axis=0) for pdf in set(pdfs.tolist())}
    centered = frames - np.array([means[pdf] for pdf in pdfs.tolist()])
    within = centered.T @ centered / len(frames)
    return within, np.cov(frames.T, bias=True) - within


def expected_transform(frames: np.ndarray, pdfs: np.ndarray, factor: float) -> np.ndarray:
    within, between = covariances(frames, pdfs)
    values, vectors = scipy.linalg.eigh(between, within)
    transform = vectors.T[::-1]
    return transform * np.sqrt((factor + values[::-1]) / (1 + values[::-1]))[:, None]


def same_up_to_signs(found: np.ndarray, expected: np.ndarray) -> None:
    signs = np.sign((found * expected).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found, signs * expected, rtol=SINGLE, atol=SINGLE)


def test_statistics(data: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    frames, pdfs = data
    stats = read_object("stats", LdaStats.read)
    np.testing.assert_array_equal(stats.counts, np.bincount(pdfs, minlength=10))
    np.testing.assert_allclose(stats.sums[3], frames[pdfs == 3].sum(axis=0), rtol=SINGLE)
    within = covariances(frames, pdfs)[0] * FRAMES
    np.testing.assert_allclose(stats.scatter, within[np.tril_indices(DIM)], rtol=SINGLE, atol=SINGLE)


def test_utterances_that_do_not_fit(data: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    write_table("ark:some", FLOAT_MATRIX, {
        "u0": data[0][:100], "u100": data[0][:99], "u200": data[0][:100, :2], "u300": data[0][:100]})
    capsys.readouterr()
    run("acc-lda", TRANS, "ark:some", "ark:post", "some.stats")
    err = capsys.readouterr().err
    assert "Skipping utterance u100" in err and "Skipping utterance u200" in err
    assert "No posteriors for utterance u300" in err and "Done 1 files, failed for 3" in err
    assert "Written statistics." in err
    assert read_object("some.stats", LdaStats.read).counts.sum() == 100
    run("acc-lda", TRANS, "ark:/dev/null", "ark:post", "none", status=1)
    assert not Path("none").exists()


def test_weights_of_the_same_pdf_count_together(data: tuple[np.ndarray, np.ndarray]) -> None:
    Path("p").write_text("u0" + " [ 1 0.25 2 0.5 5 2 ]" * 100 + "\n")
    run("acc-lda", TRANS, "ark:feats", "ark:p", "weighted")
    np.testing.assert_array_equal(read_object("weighted", LdaStats.read).counts[:4], [75, 0, 200, 0])
    run("acc-lda", "--rand-prune=1.0", TRANS, "ark:feats", "ark:p", "pruned")
    counts = read_object("pruned", LdaStats.read).counts
    assert counts[2] == 200 and counts[0] == round(counts[0]) and 55 <= counts[0] <= 95      # 75 expected, ± 4.3


def test_sum(data: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        run("acc-lda", TRANS, "ark:feats", "ark:post", f"{number}.stats")
    run("sum-lda-accs", "sum", "0.stats", "1.stats", "cat 2.stats |")
    one, three = (read_object(name, LdaStats.read) for name in ("stats", "sum"))
    np.testing.assert_allclose(three.counts, 3 * one.counts)
    np.testing.assert_allclose(three.scatter, 3 * one.scatter, rtol=SINGLE)
    run("sum-lda-accs", "--binary=false", "text", "sum")
    assert Path("text").read_text().startswith("<LDAACCS> <VECSIZE> 4 <NUMCLASSES> 10 <ZERO_ACCS>  [ ")


def test_sum_of_statistics_of_several_dimensions(data: tuple[np.ndarray, np.ndarray],
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    run("select-feats", "0-1", "ark:feats", "ark:narrow")
    run("acc-lda", TRANS, "ark:narrow", "ark:post", "b")
    run("sum-lda-accs", "sum", "stats", "b", status=255)
    assert "b: statistics of 10 classes and dimension 2 cannot be added" in capsys.readouterr().err


def test_sums_are_kaldis() -> None:
    golden = shared_golden() / "tools" / "acc-lda-stats"
    stats = read_object(str(golden / "lda.acc"), LdaStats.read)
    stats.add(read_object(str(golden / "lda.acc"), LdaStats.read))
    expected = read_object(str(golden / "lda2.acc"), LdaStats.read)
    np.testing.assert_array_equal(stats.counts, expected.counts)
    np.testing.assert_allclose(stats.scatter, expected.scatter, rtol=1e-5, atol=1e-5 * np.abs(expected.scatter).max())


def test_lda(data: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    frames, pdfs = data
    run("est-lda", "--dim=3", "--write-full-matrix=full", "lda.mat", "stats")
    found, full = read_matrix_file("lda.mat"), read_matrix_file("full")
    assert found.shape == (3, DIM)
    np.testing.assert_array_equal(full[:3], found)
    same_up_to_signs(full, expected_transform(frames, pdfs, 1.0))
    within, between = covariances(frames @ full.T.astype(np.float64), pdfs)
    np.testing.assert_allclose(within, np.eye(DIM), atol=10 * SINGLE)
    err = capsys.readouterr().err
    values = re.search(r"LDA singular values are  \[ (.*) \]", err)
    assert values is not None
    np.testing.assert_allclose([float(value) for value in values[1].split()], np.diag(between), rtol=0.01, atol=SINGLE)
    for text in ("Data count is 300\n", "Sum of all singular values is", "Sum of selected singular values is"):
        assert text in err


def test_lda_without_mean(data: tuple[np.ndarray, np.ndarray]) -> None:
    run("est-lda", "--dim=2", "--remove-offset", "--within-class-factor=0.1", "lda.mat", "stats")
    found = read_matrix_file("lda.mat").astype(np.float64)
    same_up_to_signs(found[:, :DIM], expected_transform(*data, 0.1)[:2])
    moved = data[0] @ found[:, :DIM].T + found[:, DIM]
    np.testing.assert_allclose(moved.mean(axis=0), 0, atol=100 * SINGLE)


def test_feature_transform(data: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    run("nnet-get-feature-transform", "--max-singular-value=0", "--write-cholesky=ch", "--write-within-covar=w",
        "lda.mat", "stats")
    found = read_matrix_file("lda.mat").astype(np.float64)
    assert found.shape == (DIM, DIM + 1)
    same_up_to_signs(found[:, :DIM], expected_transform(*data, 0.001))
    np.testing.assert_allclose(found[:, DIM], -found[:, :DIM] @ data[0].mean(axis=0), rtol=SINGLE, atol=SINGLE)
    within = covariances(*data)[0]
    rows = np.tril_indices(DIM)
    np.testing.assert_allclose(read_object("w", read_packed), within[rows], rtol=SINGLE, atol=SINGLE)
    np.testing.assert_allclose(read_object("ch", read_packed), np.linalg.cholesky(within)[rows], rtol=SINGLE,
                               atol=SINGLE)
    assert "Applied ceiling" not in capsys.readouterr().err
    run("nnet-get-feature-transform", "--remove-offset=false", "--dim=2", "--max-singular-value=0", "lda.mat", "stats")
    np.testing.assert_allclose(read_matrix_file("lda.mat"), found[:2, :DIM], rtol=SINGLE, atol=SINGLE)


def test_ceiling_of_singular_values(data: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    plain = expected_transform(*data, 0.001)
    left, values, right = np.linalg.svd(plain)
    ceiling = float(values[1:3].mean())
    run("nnet-get-feature-transform", f"--max-singular-value={ceiling}", "lda.mat", "stats")
    expected = (left * np.minimum(values, ceiling)) @ right
    same_up_to_signs(read_matrix_file("lda.mat")[:, :DIM], expected)
    assert f"Applied ceiling to 2 out of 4 singular values of transform using ceiling {ceiling:g}, max is " in (
        capsys.readouterr().err)


def test_a_feature_that_never_changes_gets_a_ridge(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    frames = np.hstack([rng.standard_normal((50, 2)), np.ones((50, 1))])
    stats = LdaStats(np.array([50.0]), frames.sum(axis=0)[None], np.zeros(6))
    centered = frames - frames.mean(axis=0)
    stats.scatter = (centered.T @ centered)[np.tril_indices(3)]
    found = estimate_lda(stats, 3, 0.001, True, 5.0)
    assert np.isfinite(found.matrix).all() and found.matrix.shape == (3, 4)
    np.testing.assert_allclose(found.cholesky @ found.cholesky.T - found.within,
                               1e-3 * np.trace(found.within) / 3 * np.eye(3), atol=1e-12)


@pytest.mark.parametrize(("change", "message"), [
    ({"counts": 0.0}, "found 0"), ({"counts": np.nan}, "found nan"), ({"sums": np.inf}, "NaN or infinity"),
    ({"scatter": np.nan}, "NaN or infinity"), ({"scatter": -1.0}, "not positive definite")])
def test_statistics_of_nothing(data: tuple[np.ndarray, np.ndarray], change: dict[str, float], message: str,
                               capsys: pytest.CaptureFixture[str]) -> None:
    stats = read_object("stats", LdaStats.read)
    for name, value in change.items():
        getattr(stats, name)[...] = value
    write_object("bad", stats.write)
    for name in ("est-lda", "nnet-get-feature-transform"):
        run(name, "--dim=2", "lda.mat", "bad", status=255)
        assert message in capsys.readouterr().err and not Path("lda.mat").exists()


@pytest.mark.parametrize(("name", "words"), [
    ("est-lda", ["--dim=5"]), ("est-lda", ["--dim=0"]), ("nnet-get-feature-transform", ["--dim=5"])])
def test_refused(data: tuple[np.ndarray, np.ndarray], name: str, words: list[str]) -> None:
    run(name, *words, "lda.mat", "stats", status=255)
    assert not Path("lda.mat").exists()


def test_more_dimensions_than_classes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    write_object(str(tmp_path / "s"), LdaStats(np.array([5.0, 6.0]), rng.standard_normal((2, 3)),
                                               np.eye(3)[np.tril_indices(3)]).write)
    words = "--dim=2", str(tmp_path / "m"), str(tmp_path / "s")
    run("est-lda", *words, status=255)
    assert "not less than the number of classes, 2" in capsys.readouterr().err
    run("est-lda", "--allow-large-dim", *words)
    assert read_matrix_file(str(tmp_path / "m")).shape == (2, 3)
