"""nnet3py/gaussians/: likelihoods against scipy, selection and posteriors against slow twins, estimation, files."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from io_samples import reader_of, written
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
    x = features_of(2, 2003)               # not all of them in memory at a time
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
    log_likes[4:] = log_likes[4:].round()            # equal ones: that with the higher number is first
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


@pytest.mark.parametrize(("least", "expected"), [
    (0.0, {0: 0.6, 1: 0.3, 2: 0.1}), (0.09, {0: 0.6, 1: 0.3, 2: 0.1}), (0.2, {0: 2 / 3, 1: 1 / 3}), (0.35, {0: 1.0}),
    (0.9, {0: 1.0})])
def test_small_posteriors_of_selected_gaussians_are_left_out(least: float, expected: dict[int, float]) -> None:
    gmm = DiagGmm(np.array([0.6, 0.3, 0.1], np.float32), np.zeros((3, 1), np.float32), np.ones((3, 1), np.float32))
    [frame], total = selected_posteriors(gmm, np.zeros((1, 1)), [np.arange(3)], least)
    assert dict(frame) == pytest.approx(expected) and total == pytest.approx(-0.5 * np.log(2 * np.pi))
    assert select(gmm, np.zeros((1, 1)), 2).numbers.tolist() == [[0, 1]]
    alike = DiagGmm(np.full(3, 1 / 3, np.float32), gmm.means_inv_vars, gmm.inv_vars)
    assert select(alike, np.zeros((1, 1)), 2).numbers.tolist() == [[2, 1]], "of equal ones the higher number"
    assert select_among(alike, np.zeros((1, 1)), [np.array([0, 2, 1])], 2)[0][0].tolist() == [2, 1]


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
    for bad in ([1, 6], [-1], []):
        with pytest.raises(ShapeError, match=rf"from 0 to 5, found {re.escape(str(bad))}.*another mixture"):
            preselected_log_likelihoods(diag, x, [np.array(bad, dtype=int)])


def test_statistics() -> None:
    full = mixtures(7)[0]
    x = features_of(8, 4003)               # not all of them at a time
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
    weights, weighted = np.linspace(0.0, 2.0, len(x)), GmmStats.zeros(5, 3, ALL, False)
    total = add_frames(weighted, full.to_diagonal(), x, weights)
    assert total == pytest.approx(weights @ logsumexp(log_likes, axis=1), rel=SINGLE)
    np.testing.assert_allclose(weighted.occupancy, weights @ posteriors, rtol=SINGLE)
    both = GmmStats.zeros(5, 3, ALL, False)
    for part in (weighted, stats):
        both.add_stats(part)
    for name in ("occupancy", "means", "squares"):
        np.testing.assert_array_equal(getattr(both, name), getattr(weighted, name) + getattr(stats, name))
    for other, found in ((GmmStats.zeros(4, 3, ALL, False), "4 of dimension 3 with flags 7"),
                         (GmmStats.zeros(5, 2, ALL, False), "5 of dimension 2 with flags 7"),
                         (GmmStats.zeros(5, 3, MEANS, False), "5 of dimension 3 with flags 5"),
                         (GmmStats.zeros(5, 3, ALL, True), "5 of dimension 3 with flags 7")):
        with pytest.raises(ShapeError, match=f"statistics of 5 Gaussians of dimension 3 with flags 7, found {found}"):
            stats.add_stats(other)


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


OCCUPANCY = np.array([10.0, 50.0, 0.0, 200.0, 10.5, 30.0])


def little_and_much(gmm: DiagGmm | FullGmm, is_full: bool) -> GmmStats:
    """Statistics of six Gaussians, of which the last has features that hardly differ."""
    rng, stats = np.random.default_rng(17), GmmStats.zeros(6, 2, ALL, is_full)
    for number, frames in enumerate(OCCUPANCY):
        posteriors = np.zeros((40, 6), dtype=np.float32)
        posteriors[:, number] = frames / 40
        stats.add((rng.standard_normal((40, 2)) * (1e-3 if number == 5 else 2.0) + number).astype(np.float32),
                  posteriors)
    return stats


def slow_moments(stats: GmmStats, gmm: FullGmm, flags: int, min_occupancy: float, min_weight: float
                 ) -> tuple[list[float], list[np.ndarray], list[np.ndarray], list[bool]]:
    """Weights, means, covariances before flooring, and whether they are estimated, Gaussian by Gaussian."""
    total, weights, means, covariances, learned = stats.occupancy.sum(), [], [], [], []
    for number, frames in enumerate(stats.occupancy.tolist()):
        mean, covariance = gmm.means()[number], gmm.covariances()[number]
        enough = frames > min_occupancy and frames > min_weight * total
        if enough:
            first = stats.means[number] / frames
            square = unpacked(stats.squares)[number] / frames if stats.is_full else np.diag(
                stats.squares[number] / frames)
            mean = first if flags & MEANS else mean
            if flags & VARIANCES:
                covariance = square - np.outer(first, mean) - np.outer(mean, first) + np.outer(mean, mean)
        share = frames / total if enough else max(frames / total, min_weight)
        weights.append(share if flags & WEIGHTS else float(gmm.weights[number]))
        means.append(mean)
        covariances.append(covariance)
        learned.append(enough)
    return weights, means, covariances, learned


@pytest.mark.parametrize("letters", ["mvw", "mw", "v", "w", "m", "vw"])
@pytest.mark.parametrize("min_weight", [1e-5, 0.1])
def test_estimates_are_those_of_a_slow_twin(letters: str, min_weight: float) -> None:
    flags, full = parse_flags(letters), mixtures(18, 6, 2)[0]
    diag = full.to_diagonal()
    options = DiagOptions(min_weight=min_weight, min_variance=0.01, remove_low_count=False)
    stats = little_and_much(diag, False)
    weights, means, covariances, learned = slow_moments(stats, FullGmm.of_diagonal(diag), flags, 10.0, min_weight)
    assert learned == ([False, True, False, True, True, True] if min_weight < 0.1 else [False, True, False, True,
                                                                                        False, False])
    variances = np.array([np.maximum(np.diag(covariance), 0.01 if enough and flags & VARIANCES else 0)
                          for covariance, enough in zip(covariances, learned, strict=True)])
    found = estimate_diag(stats, diag, options, flags)
    assert isinstance(found.gmm, DiagGmm) and found.frames == pytest.approx(OCCUPANCY.sum())
    np.testing.assert_allclose(found.gmm.weights, weights, rtol=SINGLE)
    np.testing.assert_allclose(1 / found.gmm.inv_vars, variances, rtol=SINGLE)
    np.testing.assert_allclose(found.gmm.means_inv_vars / found.gmm.inv_vars, means, rtol=SINGLE)

    stats = little_and_much(full, True)
    weights, means, covariances, learned = slow_moments(stats, full, flags, 15.0, min_weight)
    for number in np.flatnonzero(learned) if flags & VARIANCES else ():
        values, vectors = np.linalg.eigh(covariances[number])
        floor = max(0.01, np.abs(values).max() / 3.0)
        covariances[number] = vectors @ np.diag(np.maximum(values, floor)) @ vectors.T
    found = estimate_full(stats, full, FullOptions(min_weight=min_weight, min_occupancy=15.0, variance_floor=0.01,
                                                   max_condition=3.0, remove_low_count=False), flags)
    assert isinstance(found.gmm, FullGmm) and found.frames == pytest.approx(OCCUPANCY.sum())
    np.testing.assert_allclose(found.gmm.weights, weights, rtol=SINGLE)
    np.testing.assert_allclose(found.gmm.covariances(), covariances, rtol=SINGLE, atol=SINGLE)
    np.testing.assert_allclose(found.gmm.means(), means, rtol=SINGLE, atol=SINGLE)


def test_statistics_that_do_not_fit_a_mixture() -> None:
    full = mixtures(18, 6, 2)[0]
    with pytest.raises(Nnet3Error, match="statistics of 4 Gaussians of dimension 3 do not fit a mixture of 6 of "
                                         "dimension 2$"):
        estimate_diag(GmmStats.zeros(4, 3, ALL, False), full.to_diagonal(), DiagOptions(), ALL)
    for other in (GmmStats.zeros(4, 3, ALL, True), GmmStats.zeros(6, 2, ALL, False)):
        with pytest.raises(Nnet3Error, match="do not fit a mixture of 6 of dimension 2 with full covariances"):
            estimate_full(other, full, FullOptions(), ALL)


def test_gaussians_with_little_data() -> None:
    diag = mixtures(11)[0].to_diagonal()
    stats = GmmStats.zeros(5, 3, ALL, False)
    stats.add(features_of(12, 60), np.tile(np.array([0.5, 0, 0.5, 0, 0], dtype=np.float32), (60, 1)))
    removed = estimate_diag(stats, diag, DiagOptions(), ALL).gmm
    kept = estimate_diag(stats, diag, DiagOptions(remove_low_count=False), ALL).gmm
    assert isinstance(removed, DiagGmm) and isinstance(kept, DiagGmm)
    assert removed.weights.tolist() == [0.5, 0.5]
    assert kept.weights.tolist() == pytest.approx([0.5, 1e-5, 0.5, 1e-5, 1e-5])
    np.testing.assert_array_equal(removed.inv_vars, kept.inv_vars[[0, 2]])
    nothing = GmmStats.zeros(5, 3, ALL, False)
    last = estimate_diag(nothing, diag, DiagOptions(), ALL).gmm
    assert isinstance(last, DiagGmm) and last.weights.tolist() == [1.0]
    np.testing.assert_allclose(last.inv_vars, diag.inv_vars[4:], rtol=1e-6)


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
    begun = begin_mixture(x, 2, random)
    iterations = [*train_mixture(x, begun, 4, 4, DiagOptions(), random)]
    assert [one.split_to for one in iterations] == [3, 4, 0, 0] and [one.number for one in iterations] == [0, 1, 2, 3]
    assert [len(one.gmm.weights) for one in iterations] == [3, 4, 4, 4]
    assert iterations[0].log_like == pytest.approx(logsumexp(begun.log_likelihoods(x), axis=1).mean(), rel=SINGLE)
    assert iterations[-1].log_like > iterations[0].log_like
    last, before = iterations[-1], iterations[-2].gmm
    assert last.log_like == pytest.approx(logsumexp(before.log_likelihoods(x), axis=1).mean(), rel=SINGLE)
    stats = GmmStats.zeros(4, 2, ALL, False)
    add_frames(stats, before, x)
    assert last.improvement == pytest.approx(estimate_diag(stats, before, DiagOptions(), ALL).improvement / 800)


@pytest.mark.parametrize(("num_iters", "split_to"), [
    (1, [0]), (2, [6, 0]), (3, [6, 0, 0]), (4, [4, 6, 0, 0]), (5, [4, 6, 0, 0, 0]), (8, [3, 4, 5, 6, 0, 0, 0, 0])])
def test_gaussians_are_split_in_the_first_half_of_the_iterations(num_iters: int, split_to: list[int]) -> None:
    x = features_of(19, 400)
    iterations = train_mixture(x, begin_mixture(x, 2, CRandom()), 6, num_iters, DiagOptions(), CRandom())
    assert [one.split_to for one in iterations] == split_to


def test_a_first_mixture_has_random_frames_and_their_variance() -> None:
    random, x = CRandom(), features_of(20, 20)
    chosen = set()
    for _ in range(60):
        begun = begin_mixture(x, 2, random)
        assert begun.weights.tolist() == [0.5, 0.5]
        np.testing.assert_allclose(1 / begun.inv_vars, [x.var(axis=0)] * 2, rtol=SINGLE)
        pair = [int(np.abs(x - mean).max(axis=1).argmin()) for mean in begun.means_inv_vars / begun.inv_vars]
        np.testing.assert_allclose(begun.means_inv_vars / begun.inv_vars, x[pair], rtol=SINGLE)
        assert pair[0] != pair[1]
        chosen.update(pair)
    assert chosen == set(range(20))
    with pytest.raises(Nnet3Error, match="19 frames are too few for 2 Gaussians.*at least 20"):
        begin_mixture(x[:19], 2, random)
    x[:, 1] = 1.0
    with pytest.raises(Nnet3Error, match="column 1 of the features has variance 0"):
        begin_mixture(x, 2, random)


def test_a_sample_does_not_depend_on_the_parts_in_which_frames_come() -> None:
    x, samples = features_of(21, 90), []
    for parts in (1, 4, 90):
        sample = FrameSample(7, CRandom())
        for part in np.array_split(x, parts):
            sample.add(part)
        assert (sample.num_kept, sample.num_seen) == (7, 90)
        samples.append(sample.frames())
    assert all(np.array_equal(samples[0], other) for other in samples)
    assert set(map(tuple, samples[0].tolist())) <= set(map(tuple, x.tolist()))
    everything = FrameSample(90, CRandom())
    everything.add(x)
    np.testing.assert_array_equal(everything.frames(), x)
    with pytest.raises(Nnet3Error, match="expected features of dimension 3, found 2"):
        everything.add(x[:, :2])
    with pytest.raises(Nnet3Error, match="of one frame or more, found none"):
        FrameSample(3, CRandom()).frames()


def test_splitting() -> None:
    diag = mixtures(14)[0].to_diagonal()
    more, random = split(diag, 8, 0.25, CRandom()), CRandom()
    parts = [*zip(diag.weights, diag.means_inv_vars / diag.inv_vars, 1 / diag.inv_vars, strict=True)]
    while len(parts) < 8:
        heaviest = max(range(len(parts)), key=lambda number: parts[number][0])
        weight, mean, variance = parts[heaviest]
        away = 0.25 * np.sqrt(variance) * [random.normal() for _ in range(3)]
        parts[heaviest] = weight / 2, mean - away, variance
        parts.append((weight / 2, mean + away, variance))
    weights, means, variances = zip(*parts, strict=True)
    np.testing.assert_allclose(more.weights, weights, rtol=SINGLE)
    np.testing.assert_allclose(more.means_inv_vars / more.inv_vars, means, rtol=SINGLE, atol=SINGLE)
    np.testing.assert_allclose(1 / more.inv_vars, variances, rtol=SINGLE)


def test_statistics_as_text() -> None:
    """What was not accumulated is empty; products of features are written about the mean."""
    x, posteriors = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([[0.5, 0], [1.5, 0]], np.float32)
    head = "<GMMACCS> <VECSIZE> 2 <NUMCOMPONENTS> 2 <FLAGS> {} <OCCUPANCY>  [ 2 0 ]\n<MEANACCS> "
    means = " [\n  5 7 \n  0 0 ]\n"
    for letters, is_full, rest in (
            ("w", False, "4| [ ]\n<DIAGVARACCS>  [ ]\n"), ("m", False, f"5|{means}<DIAGVARACCS>  [ ]\n"),
            ("v", False, f"7|{means}<DIAGVARACCS>  [\n  14 26 \n  0 0 ]\n"), ("m", True, f"5|{means}"),
            ("v", True, f"7|{means}<FULLVARACCS> [\n1.5 \n1.5 1.5 ]\n[\n0 \n0 0 ]\n")):
        stats = GmmStats.zeros(2, 2, parse_flags(letters), is_full)
        stats.add(x, posteriors)
        flags, text = rest.split("|")
        assert written(stats.write, binary=False).decode() == head.format(flags) + text + "</GMMACCS> "


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
    assert [parse_flags(letters) for letters in ("", "m", "v", "w", "t", "mvw", "a")] == [0, 1, 2, 4, 8, 7, 15]
    with pytest.raises(FormatError, match="expected some of the letters m, v and w, found 'mx'"):
        parse_flags("mx")
