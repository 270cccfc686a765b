"""nnet3py/ivectors/: against slow twins, exact solutions, densities of scipy's; files."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from nnet3py.errors import FormatError, Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.feat.cmvn import accumulate_stats, empty_stats
from nnet3py.formats.posteriors import Posterior
from nnet3py.gaussians.mixtures import FullGmm
from nnet3py.gaussians.symmetric import packed, symmetric_eigen, unpacked
from nnet3py.io.object_files import read_object, write_object
from nnet3py.ivectors.extractor import Distribution, IvectorExtractor, UtteranceStats, ivector_auxf
from nnet3py.ivectors.online import (
    AdaptationState,
    EstimationStats,
    OnlineIvectors,
    OnlineModels,
    Terms,
    ivectors_of_posteriors,
    terms_of_pieces,
)
from nnet3py.ivectors.options import EstimationOptions, StatsOptions
from nnet3py.ivectors.scoring import Plda, PldaTraining, dense_ratios, equal_error_rate, linear_discriminants
from nnet3py.ivectors.training import ExtractorStats, _maximize_quadratic, _new_projections, estimate, utterance_auxf
from nnet3py.random_sequence import CRandom

GAUSSIANS, DIM, IVECTOR_DIM = 4, 3, 5
DOUBLE = 1e-9          # the same sums in another order
SINGLE = 1e-5          # results are kept as float32


def extractor_of(weights_depend: bool = False, seed: int = 0) -> IvectorExtractor:
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((GAUSSIANS, DIM)) * 2
    gmm = FullGmm.of_moments(np.full(GAUSSIANS, 0.25), means, np.tile(np.eye(DIM), (GAUSSIANS, 1, 1)))
    made = IvectorExtractor.of_mixture(gmm, IVECTOR_DIM, weights_depend, CRandom())
    if weights_depend:
        made.weight_projections += 0.05 * rng.standard_normal(made.weight_projections.shape)
    return made


def utterance_of(seed: int, frames: int = 30) -> tuple[np.ndarray, Posterior]:
    rng = np.random.default_rng(seed)
    features = (rng.standard_normal((frames, DIM)) * 2).astype(np.float32)
    lists = [[(int(g), float(p)) for g, p in zip(rng.permutation(GAUSSIANS)[:2], rng.dirichlet([1, 1]), strict=True)]
             for _ in range(frames)]
    return features, Posterior.from_lists(lists)


def test_statistics() -> None:
    features, posterior = utterance_of(1)
    stats = UtteranceStats.of(GAUSSIANS, features, posterior, need_second=True)
    gamma, first, second = np.zeros(GAUSSIANS), np.zeros((GAUSSIANS, DIM)), np.zeros((GAUSSIANS, DIM, DIM))
    for row, frame in zip(features.astype(np.float64), posterior, strict=True):
        for number, value in frame:
            gamma[number] += value
            first[number] += value * row
            second[number] += value * np.outer(row, row)
    assert stats.second is not None
    for found, expected in ((stats.gamma, gamma), (stats.first, first), (unpacked(stats.second), second)):
        np.testing.assert_allclose(found, expected, rtol=DOUBLE, atol=DOUBLE)
    with pytest.raises(ShapeError, match="frames"):
        UtteranceStats.of(GAUSSIANS, features[1:], posterior)
    with pytest.raises(ShapeError, match="Gaussians"):
        UtteranceStats.of(2, features, posterior)


def test_ivector_is_the_mean_of_its_distribution() -> None:
    """The posterior of a linear model: features given Gaussians are M x plus noise, x has the prior."""
    extractor = extractor_of()
    features, posterior = utterance_of(2)
    stats = UtteranceStats.of(GAUSSIANS, features, posterior)
    found = extractor.distribution(stats)
    precision, linear = np.eye(IVECTOR_DIM), extractor.prior_mean()
    for number in range(GAUSSIANS):
        projected = extractor.projections[number].T @ extractor.inverses[number]
        precision += stats.gamma[number] * projected @ extractor.projections[number]
        linear = linear + projected @ stats.first[number]
    np.testing.assert_allclose(found.covariance, np.linalg.inv(precision), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.mean, np.linalg.solve(precision, linear), rtol=1e-6)
    best = sum(ivector_auxf(extractor, stats, found.mean))
    for axis in range(IVECTOR_DIM):
        for step in (-0.01, 0.01):
            other = found.mean.copy()
            other[axis] += step
            assert sum(ivector_auxf(extractor, stats, other)) < best


def test_auxiliary_function_is_a_likelihood() -> None:
    """With an i-vector that is known, it is the log-likelihood of the features, and of the prior."""
    extractor = extractor_of()
    features, posterior = utterance_of(3)
    stats = UtteranceStats.of(GAUSSIANS, features, posterior, need_second=True)
    at = np.random.default_rng(4).standard_normal(IVECTOR_DIM)
    tiny = 1e-9 * np.eye(IVECTOR_DIM)
    found = utterance_auxf(extractor, stats, Distribution(at, tiny))
    expected = 0.0
    for row, frame in zip(features.astype(np.float64), posterior, strict=True):
        for number, value in frame:
            density = multivariate_normal(extractor.projections[number] @ at, np.linalg.inv(extractor.inverses[number]))
            expected += value * (density.logpdf(row) + np.log(extractor.weights[number]))
    away = at - extractor.prior_mean()
    expected += -0.5 * float(away @ away) + 0.5 * (IVECTOR_DIM + np.linalg.slogdet(tiny)[1])
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("weights_depend", [False, True])
def test_training_improves(weights_depend: bool, tmp_path: Path) -> None:
    extractor, options = extractor_of(weights_depend), StatsOptions(cache_size=3)
    previous = -np.inf
    for _ in range(3):
        total, random = ExtractorStats.zeros(extractor, options), CRandom()
        parts = [ExtractorStats.zeros(extractor, options) for _ in range(2)]
        for number in range(16):
            features, posterior = utterance_of(10 + number, 60)
            stats = UtteranceStats.of(GAUSSIANS, features, posterior, need_second=True)
            found = extractor.distribution(stats)
            auxf = utterance_auxf(extractor, stats, found)
            for one in (total, parts[number % 2]):
                one.add(extractor, stats, found, auxf, options, random)
        parts[0].add_stats(parts[1])
        np.testing.assert_allclose(parts[0].cross, (total.flush(), total.cross)[1], rtol=DOUBLE, atol=1e-6)
        assert total.total_auxf > previous - (1.0 if weights_depend else 0.0)
        previous = total.total_auxf
        write_object(tmp_path / "acc", total.write)
        back = read_object(tmp_path / "acc", ExtractorStats.read)
        np.testing.assert_allclose(back.scatter, total.scatter, rtol=SINGLE)
        extractor = estimate(extractor, back, EstimationOptions(gaussian_min_count=5.0))
        write_object(tmp_path / "ie", extractor.write)
        same = read_object(tmp_path / "ie", IvectorExtractor.read)
        np.testing.assert_array_equal(same.projections, extractor.projections)
    assert previous > -np.inf


@pytest.mark.parametrize("diagonalize", [True, False])
def test_after_training_ivectors_have_the_prior(diagonalize: bool) -> None:
    """In the new coordinates their mean lies in the first dimension, and their covariance is one."""
    extractor, options = extractor_of(), StatsOptions()
    settings_of = EstimationOptions(gaussian_min_count=5.0, diagonalize=diagonalize)
    total = ExtractorStats.zeros(extractor, options)
    for number in range(12):
        stats = UtteranceStats.of(GAUSSIANS, *utterance_of(50 + number, 40), need_second=True)
        total.add(extractor, stats, extractor.distribution(stats), 0.0, options, CRandom())
    made = estimate(extractor, total, settings_of)
    before = _new_projections(extractor, total, settings_of)[0].reshape(-1, IVECTOR_DIM)
    move = np.linalg.inv(np.linalg.lstsq(before, made.projections.reshape(-1, IVECTOR_DIM), rcond=None)[0])
    mean = total.ivector_sum / total.num_ivectors
    covariance = unpacked(total.ivector_scatter) / total.num_ivectors - np.outer(mean, mean)
    np.testing.assert_allclose(move @ mean, made.prior_mean(), atol=1e-6 * made.offset)
    np.testing.assert_allclose(move @ covariance @ move.T, np.eye(IVECTOR_DIM), atol=1e-6)
    assert made.offset > 0


def test_a_maximum_stays_near_its_start_where_the_matrix_is_small() -> None:
    """The eigenvalues of the matrix with a diagonal of ones are 2 - 1e-6 and 1e-6; the smaller is floored."""
    scale, close = np.array([3.0, 1.0]), 1 - 1.0e-6
    quadratic = np.array([[1.0, close], [close, 1.0]]) * np.outer(scale, scale)
    start, linear = np.array([[0.5, -2.0]]), np.array([[1.0, 0.25]])
    moved = (_maximize_quadratic(quadratic, linear, start) - start) * scale
    steep, flat = np.array([1.0, 1.0]) / np.sqrt(2), np.array([1.0, -1.0]) / np.sqrt(2)
    slope = (linear - start @ quadratic) / scale
    np.testing.assert_allclose(moved @ steep, slope @ steep / (1 + close))
    np.testing.assert_allclose(moved @ flat, slope @ flat / ((1 + close) * 1.0e-4))


def test_gaussians_with_little_data_stay(caplog: pytest.LogCaptureFixture) -> None:
    extractor, options = extractor_of(), StatsOptions()
    total = ExtractorStats.zeros(extractor, options)
    for number in range(12):
        stats = UtteranceStats.of(GAUSSIANS, *utterance_of(50 + number, 40), need_second=True)
        total.add(extractor, stats, extractor.distribution(stats), 0.0, options, CRandom())
    rare = int(total.gamma.argmin())
    made = estimate(extractor, total, EstimationOptions(gaussian_min_count=float(total.gamma[rare]) + 1e-3,
                                                        diagonalize=False))
    stays = [np.array_equal(made.inverses[i], extractor.inverses[i]) for i in range(GAUSSIANS)]
    assert stays == [i == rare for i in range(GAUSSIANS)]
    assert f"Skipping Gaussian index {rare}" in caplog.text


def test_bad_files_and_statistics(tmp_path: Path) -> None:
    extractor = extractor_of()
    write_object(tmp_path / "ie", extractor.write)
    whole = (tmp_path / "ie").read_bytes()
    for damaged in (whole[:200], whole[:-30], whole.replace(b"<SigmaInv>", b"<SigmaXnv>")):
        (tmp_path / "bad").write_bytes(damaged)
        with pytest.raises(FormatError):
            read_object(tmp_path / "bad", IvectorExtractor.read)
    stats = ExtractorStats.zeros(extractor, StatsOptions())
    stats.second = stats.second[:, :3]
    write_object(tmp_path / "bad", stats.write)
    with pytest.raises(FormatError, match="found matrices of other sizes"):
        read_object(tmp_path / "bad", ExtractorStats.read)
    with pytest.raises(Nnet3Error, match="one utterance or more"):
        estimate(extractor, ExtractorStats.zeros(extractor, StatsOptions()), EstimationOptions())
    with pytest.raises(ShapeError, match="same extractor and options"):
        ExtractorStats.zeros(extractor, StatsOptions()).add_stats(
            ExtractorStats.zeros(extractor, StatsOptions(update_variances=False)))


# -- online ------------------------------------------------------------------------------------------------------------


def terms_of(extractor: IvectorExtractor, features: np.ndarray, posterior: Posterior) -> Terms:
    """Of a whole utterance."""
    (found,) = terms_of_pieces(extractor, features, posterior, np.array([len(features)]))
    return found


def test_pieces_of_an_utterance_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3py.ivectors.online._PIECES_AT_ONCE", 3)
    extractor = extractor_of()
    features, posterior = utterance_of(3, 20)
    stats = UtteranceStats.of(GAUSSIANS, features, posterior)
    pieces = list(terms_of_pieces(extractor, features, posterior, np.array([1, 4, 4, 9, 20])))
    assert [piece.frames for piece in pieces] == [
        pytest.approx(float(posterior.part(*ends).weights.sum())) for ends in ((0, 1), (1, 4), (4, 4), (4, 9), (9, 20))]
    np.testing.assert_allclose(sum(piece.linear for piece in pieces), extractor.terms(stats).linear, rtol=1e-9)
    np.testing.assert_allclose(unpacked(np.sum([piece.quadratic for piece in pieces], axis=0)),
                               extractor.terms(stats).quadratic, rtol=1e-9)
    with pytest.raises(ShapeError, match="expected posteriors of 19 frames"):
        next(terms_of_pieces(extractor, features[:-1], posterior, np.array([19])))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), max_count=st.sampled_from([0.0, 3.0, 10.0]))
def test_estimates_solve_the_problem(seed: int, max_count: float) -> None:
    extractor = extractor_of()
    stats = EstimationStats(IVECTOR_DIM, extractor.offset, max_count)
    features, posterior = utterance_of(seed, 20)
    stats.add(terms_of(extractor, features, posterior))
    found = stats.estimate(extractor.prior_mean())
    np.testing.assert_allclose(found, np.linalg.solve(stats.quadratic, stats.linear), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(stats.estimate(np.zeros(IVECTOR_DIM), 1), stats.estimate(extractor.prior_mean(), 1))
    if max_count == 0:
        whole = extractor.distribution(UtteranceStats.of(GAUSSIANS, features, posterior))
        np.testing.assert_allclose(found, whole.mean, rtol=1e-5, atol=1e-6)
    assert stats.objective_change(found) >= 0


@settings(max_examples=20, deadline=None)
@given(factor=st.floats(0.1, 1.0), max_count=st.sampled_from([0.0, 3.0, 100.0]))
def test_forgetting_keeps_the_prior(factor: float, max_count: float) -> None:
    """Scaled statistics are those of frames that count less."""
    extractor = extractor_of()
    features, posterior = utterance_of(7, 20)
    whole = EstimationStats(IVECTOR_DIM, extractor.offset, max_count)
    whole.add(terms_of(extractor, features, posterior))
    whole.scale(factor)
    less = Posterior(posterior.row_starts, posterior.ids, posterior.weights * np.float32(factor))
    part = EstimationStats(IVECTOR_DIM, extractor.offset, max_count)
    part.add(terms_of(extractor, features, less))
    np.testing.assert_allclose(whole.quadratic, part.quadratic, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(whole.linear, part.linear, rtol=1e-4, atol=1e-3)
    assert whole.count == pytest.approx(part.count, rel=1e-5)


def models_of(**more: object) -> OnlineModels:
    extractor = extractor_of()
    mixture = FullGmm.of_moments(np.full(GAUSSIANS, 0.25), extractor.projections[:, :, 0] * 100,
                                 np.tile(np.eye(DIM), (GAUSSIANS, 1, 1)))
    stats = empty_stats(2)
    accumulate_stats((np.random.default_rng(0).standard_normal((100, 2))).astype(np.float32), stats)
    lda = np.random.default_rng(1).standard_normal((DIM, 2 * 3 + 1)).astype(np.float32)
    made = OnlineModels(extractor, mixture.to_diagonal(), lda, stats, left_context=1, right_context=1)
    for name, value in more.items():
        setattr(made, name, value)
    made.check()
    return made


def base_features(seed: int, frames: int = 35) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((frames, 2)).astype(np.float32)


def test_ivectors_come_at_regular_frames() -> None:
    models, features = models_of(use_most_recent=False), base_features(1)
    feature = OnlineIvectors(models, features, AdaptationState.fresh(models))
    rows = [feature.at(frame) for frame in range(0, 35, 10)]
    again = OnlineIvectors(models, features, AdaptationState.fresh(models))
    every = [again.at(frame) for frame in range(35)]
    for frame, row in enumerate(every):
        np.testing.assert_array_equal(row, rows[frame // 10])
    short = OnlineIvectors(models, features[:22], AdaptationState.fresh(models))
    np.testing.assert_allclose(short.at(0), rows[0], rtol=SINGLE, atol=SINGLE)
    np.testing.assert_allclose(short.at(10), rows[1], rtol=SINGLE, atol=SINGLE)


def test_greedy_ivectors_know_the_whole_utterance() -> None:
    models = models_of(greedy=True)
    feature = OnlineIvectors(models, base_features(2), AdaptationState.fresh(models))
    first = feature.at(0)
    np.testing.assert_array_equal(feature.at(30), first)


def test_what_is_known_of_a_speaker_helps() -> None:
    models = models_of(use_most_recent=False)
    state = AdaptationState.fresh(models)
    one = OnlineIvectors(models, base_features(3), state)
    last = [one.at(frame) for frame in range(0, 35, 10)][-1]
    carried = OnlineIvectors(models, base_features(4), one.state()).at(0)
    alone = OnlineIvectors(models, base_features(4), AdaptationState.fresh(models)).at(0)
    assert np.linalg.norm(carried - last) < np.linalg.norm(alone - last)
    limited = one.state().limited(10.0, models.posterior_scale)
    assert limited.cmvn[0, -1] == pytest.approx(10.0) and limited.stats.count == pytest.approx(1.0, rel=1e-5)


def test_weights_of_frames() -> None:
    models, features = models_of(use_most_recent=False), base_features(5)
    weights = np.ones(35, dtype=np.float32)
    weights[11:20] = 0.0
    plain = OnlineIvectors(models, features, AdaptationState.fresh(models), np.ones(35, dtype=np.float32))
    fewer = OnlineIvectors(models, features, AdaptationState.fresh(models), weights)
    np.testing.assert_array_equal(plain.at(10), fewer.at(10))
    assert not np.array_equal(plain.at(20), fewer.at(20))


def test_settings_that_do_not_fit() -> None:
    for bad in ({"period": 0}, {"min_post": 0.5}, {"posterior_scale": 0.0}):
        with pytest.raises(UsageError):
            models_of(**bad)
    with pytest.raises(ShapeError, match="spliced"):
        models_of(left_context=2)
    with pytest.raises(Nnet3Error, match="online"):
        models_of(extractor=extractor_of(True))
    models = models_of()
    assert models.without_pitch(np.zeros((3, 5), dtype=np.float32)).shape == (3, 2)
    with pytest.raises(ShapeError, match="dimension 2"):
        models.without_pitch(np.zeros((3, 4), dtype=np.float32))


def test_given_posteriors() -> None:
    extractor, noted = extractor_of(), []
    features, posterior = utterance_of(8, 25)
    rows = ivectors_of_posteriors(extractor, features, posterior, 10, 15, 0.0,
                                  lambda stats, ivector: noted.append(stats.count))
    assert rows.shape == (3, IVECTOR_DIM) and noted == [pytest.approx(21.0, rel=1e-5)]
    until = Posterior.from_lists(posterior[:21])
    expected = extractor.distribution(UtteranceStats.of(GAUSSIANS, features[:21], until)).mean
    expected[0] -= extractor.offset
    np.testing.assert_allclose(rows[-1], expected, rtol=1e-4, atol=1e-4)


# -- what is done with vectors -----------------------------------------------------------------------------------------


def speakers_of(count: int, each: int, dim: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [(3 * rng.standard_normal(dim) * np.linspace(1, 0.2, dim) + rng.standard_normal((each, dim))).astype(
        np.float32) for _ in range(count)]


def test_plda_finds_the_covariances() -> None:
    training = PldaTraining(speakers_of(400, 5, 3))
    for _ in range(10):
        training.iterate()
    np.testing.assert_allclose(training.within, np.eye(3), atol=0.15)
    np.testing.assert_allclose(np.diag(training.between), (3 * np.linspace(1, 0.2, 3)) ** 2, rtol=0.25)
    plda = training.model()
    np.testing.assert_allclose(plda.transform @ training.within @ plda.transform.T, np.eye(3), atol=1e-8)
    np.testing.assert_allclose(plda.transform @ training.between @ plda.transform.T, np.diag(plda.psi), atol=1e-8)


def test_ratios_are_those_of_gaussians() -> None:
    """Of the joint density of enrolled mean and test in the model, over the product of both."""
    psi, count = np.array([4.0, 0.5]), 3
    plda = Plda(np.zeros(2), np.eye(2), psi)
    rng = np.random.default_rng(1)
    enrolled, tested = rng.standard_normal(2), rng.standard_normal((4, 2))
    found = plda.log_ratios(enrolled, count, tested)
    for row, ratio in zip(tested, found, strict=True):
        expected = 0.0
        for axis in range(2):
            joint = np.array([[psi[axis] + 1 / count, psi[axis]], [psi[axis], psi[axis] + 1]])
            expected += multivariate_normal([0, 0], joint).logpdf([enrolled[axis], row[axis]])
            expected -= multivariate_normal(0, joint[0, 0]).logpdf(enrolled[axis])
            expected -= multivariate_normal(0, joint[1, 1]).logpdf(row[axis])
        assert ratio == pytest.approx(expected, rel=1e-6)


def test_plda_changed(tmp_path: Path) -> None:
    training = PldaTraining(speakers_of(50, 4, 4))
    training.iterate()
    plda = training.model()
    within = np.linalg.inv(plda.transform) @ np.linalg.inv(plda.transform).T
    between = np.linalg.inv(plda.transform) * plda.psi @ np.linalg.inv(plda.transform).T
    smooth = plda.smoothed(0.2)
    inverse = np.linalg.inv(smooth.transform)
    np.testing.assert_allclose(inverse @ inverse.T, within + 0.2 * between, rtol=1e-6)
    matrix = np.random.default_rng(0).standard_normal((2, 4))
    less = plda.projected(matrix)
    inverse = np.linalg.inv(less.transform)
    np.testing.assert_allclose(inverse @ inverse.T, matrix @ within @ matrix.T, rtol=1e-6, atol=1e-8)
    same, values = plda.adapted(np.random.default_rng(1).multivariate_normal(plda.mean, within + between, 20000).astype(
        np.float32), 1.0, 0.3, 0.7)
    np.testing.assert_allclose(values, 1.0, atol=0.1)
    np.testing.assert_allclose(same.psi, plda.psi, rtol=0.15)
    write_object(tmp_path / "plda", plda.write, False)
    back = read_object(tmp_path / "plda", Plda.read)
    np.testing.assert_allclose(back.psi, plda.psi, rtol=1e-5)
    scores = dense_ratios(plda, speakers_of(3, 4, 4)[0], 0.9)
    np.testing.assert_allclose(scores, scores.T, rtol=1e-3, atol=1e-3)
    vectors = speakers_of(1, 5, 4)[0]
    moved, _ = plda.transformed(vectors, np.ones(5), simple=True)
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), 2.0, rtol=1e-5)


def test_too_little_for_plda() -> None:
    with pytest.raises(Nnet3Error, match="one speaker or more"):
        PldaTraining([])
    with pytest.raises(Nnet3Error, match="too few"):
        PldaTraining(speakers_of(10, 1, 3))
    with pytest.raises(NumericError, match="positive definite"):
        Plda.of_covariances(np.zeros(2), np.zeros((2, 2)), np.eye(2))


def test_discriminants() -> None:
    speakers = speakers_of(30, 10, 4)
    vectors, names = np.concatenate(speakers), [f"s{number}" for number in range(30) for _ in range(10)]
    lda = linear_discriminants(vectors, names, 2, 0.0, 1e-6)
    moved = vectors @ lda.transform[:, :4].T + lda.transform[:, 4]
    within = sum(np.cov(part.T, bias=True) for part in np.split(moved, 30)) / 30
    np.testing.assert_allclose(within, np.eye(2), atol=1e-3)
    np.testing.assert_allclose(moved.mean(0), 0.0, atol=1e-3)
    assert lda.singular_values[0] >= lda.singular_values[1]
    with pytest.raises(Nnet3Error, match="too few"):
        linear_discriminants(vectors[:3], names[:3], 2, 0.0, 1e-6)


def test_equal_error_rate() -> None:
    assert equal_error_rate(np.array([1.0, 2.0, 3.0]), np.array([-1.0, 0.0])).per_cent == 0.0
    found = equal_error_rate(np.array([0.0, 2.0, 3.0, 4.0]), np.array([-1.0, 1.0, -2.0, -3.0]))
    assert found.per_cent == 25.0 and found.threshold == 2.0
    with pytest.raises(Nnet3Error, match="nontarget"):
        equal_error_rate(np.array([1.0]), np.array([]))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), dim=st.integers(1, 12))
def test_eigenvectors(seed: int, dim: int) -> None:
    root = np.random.default_rng(seed).standard_normal((dim, dim))
    matrix = root @ root.T
    values, rows = symmetric_eigen(matrix)
    np.testing.assert_allclose(rows @ rows.T, np.eye(dim), atol=1e-12)
    np.testing.assert_allclose(rows.T * values @ rows, matrix, atol=1e-10 * max(1.0, np.abs(matrix).max()))
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(matrix), atol=1e-10 * max(1.0, values.max()))
    assert packed(matrix).shape == (dim * (dim + 1) // 2,)


def test_eigenvalues_of_nothing_finite() -> None:
    with pytest.raises(NumericError, match="NaN"):
        symmetric_eigen(np.full((3, 3), np.nan))
