"""Derivatives by finite differences, samples of words, and what a step changes."""
from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from nnet3py.components.updatable import is_updatable
from nnet3py.decoding.grammar import Ngram, ngram_arpa
from nnet3py.network.nnet import Nnet
from nnet3py.rnnlm.training.objective import WordDistribution, WordSampler, compare, draw, inclusion_probs
from nnet3py.rnnlm.training.options import EmbeddingOptions, FeatureOptions
from nnet3py.rnnlm.training.text import WordMinibatch
from nnet3py.rnnlm.training.trainer import RnnlmTrainer, TrainedEmbedding, config_of, initial_embedding
from nnet3py.rnnlm.training.vocabulary import Vocabulary, choose_features, word_features
from nnet3py.training.options import TrainerOptions

RNG = np.random.default_rng(5)
STEP = 1e-3                      # of finite differences, in float32
CLOSE = 2e-3                     # relative: rounding of float32 over the step
SMOOTH = """input dim={dim} name=input
renorm-component name=scaled
fast-lstmp-layer name=lstm1 cell-dim=8 recurrent-projection-dim=4 non-recurrent-projection-dim=4
output-layer name=output dim={dim} include-log-softmax=false input=Append(lstm1, IfDefined(Offset(scaled, -1)))
"""
WORDS = Vocabulary.of_counts(Counter({"aa": 6, "ab": 5, "bb": 4, "bc": 3, "c": 2, "cd": 1}), "<unk>")
SENTENCES = [["aa", "ab"], ["ab", "bb", "c"], ["aa", "ab", "cd"], ["bc"]] * 3


def directional(function, array: np.ndarray, direction: np.ndarray) -> float:      # type: ignore[no-untyped-def]
    """The derivative of a function of an array along a direction, by a difference of float64 values."""
    return (function(array + STEP * direction) - function(array - STEP * direction)) / (2.0 * STEP)


def slow_objective(outputs: np.ndarray, vectors: np.ndarray, targets: np.ndarray, weights: np.ndarray,
                   self_normalize: float, counts: np.ndarray) -> float:
    scores = outputs.astype(np.float64) @ vectors.astype(np.float64).T
    log_z = np.log((np.exp(scores) * counts).sum(axis=1))
    log_probs = scores[np.arange(len(scores)), targets] - log_z
    return float((weights * (log_probs - 0.5 * self_normalize * log_z ** 2)).sum())


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("self_normalize", [0.0, 1.0])
def test_objective_and_derivatives(sampled: bool, self_normalize: float) -> None:
    outputs, vectors = (RNG.standard_normal(shape).astype(np.float32) for shape in ((7, 4), (9, 4)))
    targets, weights = RNG.integers(0, 9, 7), RNG.random(7).astype(np.float32)
    log_counts = RNG.random(9).astype(np.float32) if sampled else None
    counts = np.ones(9) if log_counts is None else np.exp(log_counts.astype(np.float64))
    compared = compare(outputs, vectors, targets, weights, self_normalize, log_counts)

    def slow(outputs: np.ndarray, vectors: np.ndarray) -> float:
        return slow_objective(outputs, vectors, targets, weights, self_normalize, counts)

    assert compared.log_prob + compared.penalty == pytest.approx(slow(outputs, vectors), rel=1e-5)
    assert compared.penalty == (0.0 if not self_normalize else pytest.approx(
        slow(outputs, vectors) - slow_objective(outputs, vectors, targets, weights, 0.0, counts), rel=1e-4))
    for array, deriv, function in ((outputs, compared.output_deriv, lambda changed: slow(changed, vectors)),
                                   (vectors, compared.vector_deriv, lambda changed: slow(outputs, changed))):
        direction = RNG.standard_normal(array.shape)
        assert (deriv * direction).sum() == pytest.approx(directional(function, array, direction), rel=CLOSE)


# -- samples -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2, 3])
def test_distribution_is_the_model_s(order: int) -> None:
    model = Ngram.estimate(SENTENCES, order)
    distribution = WordDistribution(ngram_arpa(model, WORDS.table.ids), WORDS)
    names = WORDS.table.names
    for history in (["<s>", "aa"], ["aa", "ab"], ["bb", "aa"], ["<brk>", "ab"]):
        first, last = (np.array([WORDS.table[word]]) for word in history)
        probs = distribution.mean(first, last)
        expected = [10.0 ** model.log10_prob(history, names[n]) if n not in (0, 1, 3, 4) and names[n] != "<s>" else 0.0
                    for n in range(len(WORDS))]
        np.testing.assert_allclose(probs, expected, atol=1e-6)
        assert probs.sum() == pytest.approx(1.0, abs=1e-5)
    both = distribution.mean(np.array([-1, WORDS.table["aa"]]), np.array([WORDS.bos, WORDS.table["ab"]]))
    of_first = distribution.mean(np.array([-1]), np.array([WORDS.bos]))
    of_second = distribution.mean(np.array([WORDS.table["aa"]]), np.array([WORDS.table["ab"]]))
    np.testing.assert_allclose(both, (of_first + of_second) / 2)


def test_words_are_drawn_with_their_probabilities() -> None:
    weights = np.array([0.5, 0.2, 0.1, 0.1, 0.05, 0.05])
    probs = inclusion_probs(weights, 3)
    assert probs.sum() == pytest.approx(3.0) and probs[0] == 1.0 and probs.max() <= 1.0
    np.testing.assert_allclose(probs[1:] / probs[1], weights[1:] / weights[1])
    assert inclusion_probs(weights, 6).tolist() == [1.0] * 6
    rng, counts = np.random.default_rng(0), np.zeros(6)
    for _ in range(4000):
        places = draw(probs, rng)
        assert len(places) == 3 and (np.diff(places) > 0).all()
        counts[places] += 1
    np.testing.assert_allclose(counts / 4000, probs, atol=0.03)            # four standard deviations


def test_samples_estimate_the_sum_over_all_words() -> None:
    sampler = WordSampler(WordDistribution(ngram_arpa(Ngram.estimate(SENTENCES, 3), WORDS.table.ids), WORDS), WORDS, 3)
    values, rng = RNG.random(len(WORDS)) + 0.5, np.random.default_rng(0)
    last, targets = np.array([WORDS.bos, WORDS.table["aa"]]), np.array([WORDS.table["aa"], WORDS.eos])
    estimates = []
    for _ in range(3000):
        sample = sampler.sample(np.array([-1, WORDS.bos]), last, targets, rng)
        assert len(sample.words) == 5 and set(targets) <= set(sample.words) and 0 not in sample.words
        estimates.append((np.exp(sample.log_counts) * values[sample.words]).sum())
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert np.mean(estimates) == pytest.approx(values[1:].sum(), abs=4 * error)


def test_probable_words_are_drawn_more_often() -> None:
    """In proportion to the mean of the histories' distributions, but for the twentieth that all words share."""
    distribution = WordDistribution(ngram_arpa(Ngram.estimate(SENTENCES, 3), WORDS.table.ids), WORDS)
    sampler, rng = WordSampler(distribution, WORDS, 1), np.random.default_rng(0)
    before_last, last, targets = np.array([-1]), np.array([WORDS.bos]), np.array([WORDS.eos])
    others = np.setdiff1d(np.arange(1, len(WORDS)), targets)
    expected = 0.95 * distribution.mean(before_last, last)[others] + 0.05 / len(WORDS)
    counts = np.zeros(len(WORDS))
    for _ in range(3000):
        counts[sampler.sample(before_last, last, targets, rng).words] += 1
    np.testing.assert_allclose(counts[others] / 3000, expected / expected.sum(), atol=0.04)    # four deviations
    assert counts[WORDS.table["aa"]] > 5 * counts[WORDS.table["c"]]


# -- the trainer -------------------------------------------------------------------------------------------------------


class Watched(TrainedEmbedding):
    """An embedding that keeps what it is told, and does not change."""

    def update(self, words: np.ndarray, gradient: np.ndarray, learning_rate: float) -> None:
        self.told = words, gradient.copy()


def minibatch() -> WordMinibatch:
    inputs = np.array([[1, 5, 6, 7], [1, 8, 5, 5], [3, 6, 9, 10]], dtype=np.int32)
    targets = np.array([[5, 6, 7, 2], [8, 5, 2, 2], [6, 9, 10, 2]], dtype=np.int32)
    return WordMinibatch(inputs, targets, np.array([[1, 1, 1, 1], [1, 1, 1, 0], [0, 1, 1, 1]], dtype=np.float32))


def parts(dim: int = 6) -> tuple[Nnet, np.ndarray, object]:
    features = choose_features(WORDS, FeatureOptions(max_rms=0.5))
    values = word_features(WORDS, features)
    matrix = initial_embedding(WORDS, features, dim, 0.4, 8.0, np.random.default_rng(2))
    nnet = Nnet.from_config(config_of(SMOOTH.format(dim=dim)), 3)
    weights = nnet.component("output.affine").parameters()["linear_params"]         # type: ignore[attr-defined]
    weights[:] = 0.3 * np.random.default_rng(3).standard_normal(weights.shape)
    return nnet, matrix, values


def test_derivative_with_respect_to_vectors_as_inputs_and_outputs() -> None:
    """The objective of a minibatch, and what the embedding is told, which must be its derivative."""
    nnet, matrix, values = parts()
    eg = minibatch()

    def told(matrix: np.ndarray) -> tuple[float, np.ndarray]:
        embedding = Watched(values, matrix.astype(np.float32))       # type: ignore[arg-type]
        trainer = RnnlmTrainer(nnet.copy(), embedding, TrainerOptions())
        trainer.train(eg)
        words, gradient = embedding.told
        stats = trainer.objectives["output"]
        whole = np.zeros((len(WORDS), gradient.shape[1]))
        whole[words] = gradient
        return stats.total_objective + stats.total_aux, values.T @ whole          # type: ignore[attr-defined]

    deriv = told(matrix)[1]
    direction = np.random.default_rng(7).standard_normal(matrix.shape)
    assert (deriv * direction).sum() == pytest.approx(directional(lambda changed: told(changed)[0], matrix, direction),
                                                      rel=CLOSE)


def test_a_sample_of_all_words_is_all_words() -> None:
    """Then it says the same about each row as no sample, though rows are compared in groups."""
    sampler = WordSampler(WordDistribution(ngram_arpa(Ngram.estimate(SENTENCES, 3), WORDS.table.ids), WORDS), WORDS, 99)
    said = []
    for drawn in (None, sampler):
        nnet, matrix, values = parts()
        embedding = Watched(values, matrix)                          # type: ignore[arg-type]
        trainer = RnnlmTrainer(nnet, embedding, sampler=drawn)
        trainer.train(minibatch())
        words, gradient = embedding.told
        said.append((trainer.totals(), gradient[np.searchsorted(words, np.arange(1, len(WORDS)))]))
    np.testing.assert_allclose(said[0][0], said[1][0], rtol=1e-5)
    np.testing.assert_allclose(said[0][1], said[1][1], atol=1e-5)


def test_a_step_of_the_embedding() -> None:
    """It goes up the gradient, as far as that is long times the rate, or as far as it may; other features stay."""
    _, matrix, values = parts()
    words, gradient = np.array([2, 5]), RNG.standard_normal((2, 6)).astype(np.float32)
    full = values[words].T @ gradient                                # type: ignore[index]
    for limit, size in ((0.0, 0.01 * 5.0 * np.linalg.norm(full)), (0.01, 0.01)):
        embedding = TrainedEmbedding(values, matrix.copy(), EmbeddingOptions(max_change=limit))     # type: ignore[arg-type]
        embedding.update(words, gradient, 0.01)
        change = embedding.matrix - matrix
        assert np.linalg.norm(change) == pytest.approx(size, rel=1e-3) and (change * full).sum() > 0.0
        assert not change[~full.any(axis=1)].any() and embedding.num_limited == (limit > 0.0)
    shrinking = TrainedEmbedding(values, matrix.copy(), EmbeddingOptions(l2=0.1))                   # type: ignore[arg-type]
    shrinking.update(words, np.zeros((2, 6), dtype=np.float32), 0.01)
    np.testing.assert_allclose(shrinking.matrix, matrix * (1.0 - 0.01 * 5.0 * 0.1), rtol=1e-5)


def test_learning_rates_of_both() -> None:
    nnet, matrix, values = parts()
    trainer = RnnlmTrainer(nnet, TrainedEmbedding(values, matrix))      # type: ignore[arg-type]
    trainer.set_learning_rate(0.25)
    assert trainer.learning_rate == 0.25
    assert {c.learning_rate for c in trainer.delta.components if is_updatable(c)} == {0.25}
