"""nnet3py/gaussians/: likelihoods against scipy, selection and posteriors against slow twins, estimation, files."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from io_samples import reader_of
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from nnet3py.errors import FormatError, Nnet3Error, ShapeError
from nnet3py.gaussians.estimation import (
    MEANS,
    VARIANCES,
    WEIGHTS,
    FrameSample,
    GmmStats,
    add_frames,
    begin_full,
    begin_mixture,
    diag_objective,
    estimate_diag,
    estimate_full,
    full_objective,
    parse_flags,
    split,
    train_mixture,
)
from nnet3py.gaussians.mixtures import (
    DiagGmm,
    FullGmm,
    dense_posteriors,
    preselected_log_likelihoods,
    pruned_posteriors,
    select,
    select_among,
    selected_posteriors,
)
from nnet3py.gaussians.options import DiagOptions, FullOptions
from nnet3py.gaussians.symmetric import outer_products, packed, unpacked
from nnet3py.io.object_files import read_object, write_object
from nnet3py.random_sequence import CRandom

SINGLE = 2e-4          # log-likelihoods are sums of float32 products
ALL = MEANS | VARIANCES | WEIGHTS


def mixtures(seed: int, count: int = 5, dim: int = 3) -> tuple[FullGmm, list[np.ndarray], list[np.ndarray]]:
    """A mixture, with its means and covariances."""
    rng = np.random.default_rng(seed)
    means = [*rng.standard_normal((count, dim)) * 2]
    roots = rng.standard_normal((count, dim, dim))
    covariances = [root @ root.T + 0.5 * np.eye(dim) for root in roots]
    weights = rng.dirichlet(np.ones(count))
    return FullGmm.of_moments(weights, np.array(means), np.array(covariances)), means, covariances


def features_of(seed: int, frames: int = 40, dim: int = 3) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((frames, dim)) * 2).astype(np.float32)


def test_likelihoods_are_scipys() -> None:
    full, means, covariances = mixtures(1)
    x = features_of(2)
    expected = np.stack([np.log(w) + multivariate_normal(m, c).logpdf(x)
                         for w, m, c in zip(full.weights, means, covariances, strict=True)], axis=1)
    np.testing.assert_allclose(full.log_likelihoods(x), expected, rtol=SINGLE, atol=SINGLE)
    diag = full.to_diagonal()
    expected = np.stack([np.log(w) + multivariate_normal(m, np.diag(np.diag(c))).logpdf(x)
                         for w, m, c in zip(full.weights, means, covariances, strict=True)], axis=1)
    np.testing.assert_allclose(diag.log_likelihoods(x), expected, rtol=SINGLE, atol=SINGLE)
    np.testing.assert_allclose(FullGmm.of_diagonal(diag).log_likelihoods(x), expected, rtol=SINGLE, atol=SINGLE)
    with pytest.raises(ShapeError, match="dimension 3"):
        full.log_likelihoods(x[:, :2])


def slow_posteriors(row: np.ndarray, most: int, least: float) -> list[tuple[int, float]]:
    highest = row.max()
    kept = [(float(np.exp(value - highest)), number) for number, value in enumerate(row)
            if least == 0 or value > highest + np.log(least) or value == highest]
    kept = sorted(kept, reverse=True)[:most]
    total = cut = sum(value for value, _ in kept)
    cut *= least
    while len(kept) > 1 and kept[-1][0] < cut:
        total -= kept.pop()[0]
    return [(number, value / total) for value, number in kept]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), most=st.integers(1, 9), least=st.sampled_from([0.0, 0.01, 0.1, 0.4, 0.99]))
def test_pruned_posteriors(seed: int, most: int, least: float) -> None:
    log_likes = (np.random.default_rng(seed).standard_normal((7, 6)) * 2).astype(np.float32)
    found = pruned_posteriors(log_likes, most, least)
    for frame, row in zip(found.posterior, log_likes, strict=True):
        expected = slow_posteriors(row, most, least)
        assert [number for number, _ in frame] == [number for number, _ in expected]
        assert [value for _, value in frame] == pytest.approx([value for _, value in expected], rel=SINGLE)
    kept = [np.array([number for number, _ in frame]) for frame in found.posterior]
    np.testing.assert_allclose(found.log_likes, [logsumexp(row[numbers]) for row, numbers in
                                                 zip(log_likes, kept, strict=True)], rtol=SINGLE, atol=SINGLE)


def test_no_frames() -> None:
    assert len(pruned_posteriors(np.zeros((0, 4), dtype=np.float32), 2, 0.1).posterior) == 0


def test_selection() -> None:
    full = mixtures(3, 8)[0]
    x, diag = features_of(4), full.to_diagonal()
    for gmm in (full, diag):
        log_likes = gmm.log_likelihoods(x)
        found = select(gmm, x, 3)
        np.testing.assert_array_equal(found.numbers, np.argsort(-log_likes, axis=1, kind="stable")[:, :3])
        chosen, _ = select_among(gmm, x, [*found.numbers], 2)
        if gmm is full:
            assert [one.tolist() for one in chosen] == found.numbers[:, :2].tolist()
            posterior, total = selected_posteriors(gmm, x, [*found.numbers], 0.0)
            assert total == pytest.approx(float(found.log_likes.sum()), rel=SINGLE)
            for frame in posterior:
                assert sum(value for _, value in frame) == pytest.approx(1.0, abs=SINGLE)
    few, _ = selected_posteriors(full, x, [*select(full, x, 3).numbers], 0.3)
    assert all(value >= 0.3 for frame in few for _, value in frame) and all(len(frame) for frame in few)


@pytest.mark.parametrize("is_full", [False, True])
def test_lists_of_one_length_are_read_as_any_others(is_full: bool) -> None:
    """All at once, and frame by frame, the same to the bit; among them are such that are taken for consecutive ones."""
    rng = np.random.default_rng(5)
    full = mixtures(6, 6)[0]
    gmm, features = full if is_full else full.to_diagonal(), features_of(6, 40)
    selection = [rng.permutation(6)[:4].astype(np.int32) for _ in range(40)]
    selection[3], selection[4] = np.array([1, 5, 0, 4], dtype=np.int32), np.array([0, 5, 1, 3], dtype=np.int32)
    together, log_likes = dense_posteriors(gmm, features, selection)
    apart, log_likes_apart = dense_posteriors(gmm, features, [*selection[:-1], selection[-1][:2]])
    np.testing.assert_array_equal(together[:-1], apart[:-1])
    np.testing.assert_array_equal(log_likes[:-1], log_likes_apart[:-1])
    np.testing.assert_allclose(together.sum(axis=1), 1.0, rtol=1e-6)


def test_lists_that_look_like_ranges_are_taken_for_ranges() -> None:
    full = mixtures(5, 6)[0]
    x, diag = features_of(6, 1), full.to_diagonal()
    log_likes = diag.log_likelihoods(x)[0]
    listed = [np.array([1, 4, 2, 4])]
    assert preselected_log_likelihoods(diag, x, listed)[0].tolist() == log_likes[[1, 2, 3, 4]].tolist()
    assert preselected_log_likelihoods(full, x, listed)[0].tolist() == (
        full.log_likelihoods(x)[0][[1, 4, 2, 4]].tolist())
    with pytest.raises(ShapeError, match="another mixture"):
        preselected_log_likelihoods(diag, x, [np.array([1, 6])])


def test_statistics() -> None:
    full = mixtures(7)[0]
    x = features_of(8)
    for gmm, is_full in ((full, True), (full.to_diagonal(), False)):
        stats = GmmStats.zeros(5, 3, ALL, is_full)
        total = add_frames(stats, gmm, x)
        log_likes = gmm.log_likelihoods(x).astype(np.float64)
        posteriors = np.exp(log_likes - logsumexp(log_likes, axis=1)[:, None])
        assert total == pytest.approx(logsumexp(log_likes, axis=1).sum(), rel=SINGLE)
        np.testing.assert_allclose(stats.occupancy, posteriors.sum(0), rtol=SINGLE)
        np.testing.assert_allclose(stats.means, posteriors.T @ x, rtol=SINGLE, atol=SINGLE)
        double = x.astype(np.float64)
        squares = outer_products(double) if is_full else double ** 2
        np.testing.assert_allclose(stats.squares, posteriors.T @ squares, rtol=SINGLE, atol=SINGLE)
    twice = GmmStats.zeros(5, 3, ALL, False)
    add_frames(twice, full.to_diagonal(), x, np.full(len(x), 2.0))
    np.testing.assert_allclose(twice.occupancy, 2 * stats.occupancy, rtol=SINGLE)
    with pytest.raises(ShapeError, match="expected statistics of 5 Gaussians"):
        stats.add_stats(GmmStats.zeros(4, 3, ALL, False))


def test_estimates_are_better() -> None:
    full, means, covariances = mixtures(9)
    rng = np.random.default_rng(10)
    x = np.concatenate([rng.multivariate_normal(m, c, 400) for m, c in zip(means, covariances, strict=True)]).astype(
        np.float32)
    stats = GmmStats.zeros(5, 3, ALL, True)
    add_frames(stats, full, x)
    found = estimate_full(stats, full, FullOptions(), ALL)
    assert isinstance(found.gmm, FullGmm) and found.improvement > 0
    assert full_objective(stats, found.gmm) - full_objective(stats, full) == pytest.approx(found.improvement, rel=1e-3)
    np.testing.assert_allclose(found.gmm.means(), stats.means / stats.occupancy[:, None], rtol=1e-3, atol=1e-3)
    diag = full.to_diagonal()
    stats = GmmStats.zeros(5, 3, ALL, False)
    add_frames(stats, diag, x)
    for flags in (ALL, parse_flags("mw"), parse_flags("v"), parse_flags("w")):
        better = estimate_diag(stats, diag, DiagOptions(), flags)
        assert isinstance(better.gmm, DiagGmm)
        assert better.improvement == pytest.approx(diag_objective(stats, better.gmm) - diag_objective(stats, diag))
        assert better.improvement > 0
        if flags == parse_flags("v"):
            np.testing.assert_array_equal(better.gmm.weights, diag.weights)


def test_gaussians_with_little_data() -> None:
    diag = mixtures(11)[0].to_diagonal()
    stats = GmmStats.zeros(5, 3, ALL, False)
    stats.add(features_of(12, 60), np.tile(np.array([0.5, 0, 0.5, 0, 0], dtype=np.float32), (60, 1)))
    removed = estimate_diag(stats, diag, DiagOptions(), ALL).gmm
    kept = estimate_diag(stats, diag, DiagOptions(remove_low_count=False), ALL).gmm
    assert len(removed.weights) == 2 and removed.weights.sum() == pytest.approx(1.0)
    assert len(kept.weights) == 5
    nothing = GmmStats.zeros(5, 3, ALL, False)
    assert len(estimate_diag(nothing, diag, DiagOptions(), ALL).gmm.weights) == 1


def test_full_gaussians_of_statistics_alone() -> None:
    full = mixtures(15)[0]
    stats = GmmStats.zeros(5, 3, ALL, True)
    stats.add(features_of(16, 90), np.tile(np.array([0.5, 0, 0.5, 0, 0], dtype=np.float32), (90, 1)))
    options = FullOptions(min_occupancy=0.0, remove_low_count=False)
    expected = estimate_full(stats, full, options, ALL).gmm
    assert isinstance(expected, FullGmm)
    found = begin_full(stats, options, CRandom())
    for name in ("weights", "means_inv_covars", "inv_covars"):
        np.testing.assert_array_equal(getattr(found, name)[[0, 2]], getattr(expected, name)[[0, 2]])
    assert (found.weights[[1, 3, 4]] == np.float32(1e-10)).all() and np.unique(found.means()[[1, 3, 4]]).size == 9
    np.testing.assert_array_equal(found.covariances()[1], np.eye(3))
    with pytest.raises(Nnet3Error, match="no frames"):
        begin_full(GmmStats.zeros(5, 3, ALL, True), options, CRandom())
    with pytest.raises(Nnet3Error, match="statistics of full covariances, found none"):
        begin_full(GmmStats.zeros(5, 3, ALL, False), options, CRandom())


def test_training_finds_clusters() -> None:
    rng = np.random.default_rng(13)
    centers = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])
    x = np.concatenate([center + rng.standard_normal((200, 2)) for center in centers]).astype(np.float32)
    random, sample = CRandom(), FrameSample(500, CRandom())
    sample.add(x)
    assert sample.num_kept == 500 and sample.num_seen == 800 and len(sample.frames()) == 500
    iterations = [*train_mixture(x, begin_mixture(x, 2, random), 4, 4, DiagOptions(), random)]
    assert [one.split_to for one in iterations] == [3, 4, 0, 0]
    assert iterations[-1].log_like > iterations[0].log_like
    begun = begin_mixture(x, 2, random)
    for mean in begun.means_inv_vars / begun.inv_vars:
        assert np.abs(x - mean).max(axis=1).min() < SINGLE, "a frame"
    with pytest.raises(Nnet3Error, match="too few"):
        begin_mixture(x[:10], 4, random)
    with pytest.raises(Nnet3Error, match="has variance 0"):
        begin_mixture(np.ones((50, 2), dtype=np.float32), 2, random)


def test_splitting() -> None:
    diag = mixtures(14)[0].to_diagonal()
    more = split(diag, 8, 0.01, CRandom())
    assert len(more.weights) == 8 and more.weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(more.weights @ (more.means_inv_vars / more.inv_vars),
                               diag.weights @ (diag.means_inv_vars / diag.inv_vars), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("binary", [True, False])
def test_files(binary: bool, tmp_path: Path) -> None:
    full = mixtures(15)[0]
    write_object(tmp_path / "full", full.write, binary)
    again = read_object(tmp_path / "full", FullGmm.read)
    np.testing.assert_allclose(again.inv_covars, full.inv_covars, rtol=1e-6)
    for is_full in (True, False):
        stats = GmmStats.zeros(5, 3, ALL, is_full)
        add_frames(stats, full if is_full else full.to_diagonal(), features_of(16))
        write_object(tmp_path / "acc", stats.write, binary)
        back = read_object(tmp_path / "acc", GmmStats.read)
        for name in ("occupancy", "means", "squares"):
            np.testing.assert_allclose(getattr(back, name), getattr(stats, name), rtol=1e-5, atol=1e-4)
    whole = (tmp_path / "full").read_bytes()
    for damaged in (whole[:len(whole) // 2], whole.replace(b"<WEIGHTS>", b"<WAITS>  ")):
        (tmp_path / "bad").write_bytes(damaged)
        with pytest.raises(FormatError):
            read_object(tmp_path / "bad", FullGmm.read)
    with pytest.raises(FormatError, match="products of features of dimension 3, found another dimension"):
        GmmStats.read(reader_of(b"<GMMACCS> <VECSIZE> 3 <NUMCOMPONENTS> 1 <FLAGS> 7 <FULLVARACCS> [ 1 2 3 ]", False))


def test_triangles() -> None:
    matrix = np.arange(9.0).reshape(3, 3)
    matrix += matrix.T
    np.testing.assert_array_equal(unpacked(packed(matrix)), matrix)
    np.testing.assert_array_equal(outer_products(matrix[:1])[0], packed(np.outer(matrix[0], matrix[0])))
    with pytest.raises(FormatError, match="letters"):
        parse_flags("mx")
