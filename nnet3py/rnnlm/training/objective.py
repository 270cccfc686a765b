"""The training objective: the log-probability of the word that follows, with self-normalization; sampled words.

The score of word v after an output h is h · W[v], its probability exp(h · W[v]) / Z, where Z is the sum over all words.
Recognition takes scores as they are, without dividing by Z, so that log Z has to be nearly 0: the objective of a word
is its log-probability minus half the square of log Z. Kaldi's, with Z - 1 in place of log Z, is the same up to terms of
third order, but grows without limit where training begins. Kaldi: rnnlm-core-training.h.

For large vocabularies Z is estimated by importance sampling: words are drawn from the mean distribution of an n-gram
model over the histories of some sequences; each drawn word stands for as many words as the inverse of its probability
of being drawn. Kaldi: rnnlm/sampler.h, rnnlm/sampling-lm.h.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from nnet3py.decoding.grammar import Ngram, ngram_arpa
from nnet3py.fst.arpa import Arpa, Section
from nnet3py.ops import get_ops
from nnet3py.rnnlm.training.text import Sentences
from nnet3py.rnnlm.training.vocabulary import Vocabulary

MAX_ORDER = 3                    # longer n-grams are not needed to draw words
_UNIFORM = 0.05                  # weight of the uniform distribution, so that every word can be drawn
_MOST_WORDS = 2_000_000          # of the text that the n-gram model is estimated from


class Comparison(NamedTuple):
    """Objective of a minibatch's outputs, and its derivatives."""

    log_prob: float  # weighted sum of the words' log-probabilities, in nats
    penalty: float  # weighted sum of the penalties of log Z, at most 0; the objective is ``log_prob + penalty``
    output_deriv: np.ndarray  # float32 (rows, dim), derivative with respect to the outputs
    vector_deriv: np.ndarray  # float32 (words, dim), derivative with respect to the words' vectors


def word_scores(outputs: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Compute the score of each word after each output, float32 (rows, words)."""
    scores = np.empty((len(outputs), len(vectors)), dtype=np.float32)
    get_ops("cpu").add_mat_mat(scores, outputs, vectors, 1.0, 0.0, trans_b=True)
    return scores


def exponentials(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Replace scores by exp(score - largest score of the row), in place.

    Returns float32 (rows,), the sums of the rows; float32 (rows,), log Z of each row.
    """
    largest = scores.max(axis=1)
    scores -= largest[:, None]
    np.exp(scores, out=scores)
    sums = scores.sum(axis=1)
    return sums, np.log(sums) + largest


def compare(outputs: np.ndarray, vectors: np.ndarray, targets: np.ndarray, weights: np.ndarray,
            self_normalize: float = 1.0, log_counts: np.ndarray | None = None) -> Comparison:
    """Compute the objective and its derivatives.

    Parameters
    ----------
    outputs : float32 (rows, dim)
    vectors : float32 (words, dim), of all words, or of a sample
    targets : int (rows,), for each row the index of the following word in ``vectors``
    weights : float32 (rows,), factors of the rows' objectives
    self_normalize : factor of half the square of log Z
    log_counts : float32 (words,), log of the number of words that each word of a sample stands for; None: 1 each
    """
    ops, rows = get_ops("cpu"), np.arange(len(outputs))
    scores = word_scores(outputs, vectors)
    target_scores = scores[rows, targets]
    if log_counts is not None:
        scores += log_counts
    sums, log_z = exponentials(scores)
    log_prob = float(np.dot(weights, target_scores - log_z))
    penalty = -0.5 * self_normalize * float(np.dot(weights, log_z ** 2))
    scores *= (-weights * (1.0 + self_normalize * log_z) / sums)[:, None]      # derivative by the scores
    scores[rows, targets] += weights
    output_deriv, vector_deriv = np.empty_like(outputs), np.empty_like(vectors)
    ops.add_mat_mat(output_deriv, scores, vectors, 1.0, 0.0)
    ops.add_mat_mat(vector_deriv, scores, outputs, 1.0, 0.0, trans_a=True)
    return Comparison(log_prob, penalty, output_deriv, vector_deriv)


def estimate_arpa(sentences: Sentences, vocabulary: Vocabulary, order: int) -> Arpa:
    """Estimate an n-gram model of a text, of a long one from every n-th sentence."""
    step = -(-sentences.num_tokens // _MOST_WORDS)
    names = vocabulary.table.names

    def texts() -> Iterator[list[str]]:
        for number in range(0, len(sentences), step):
            words = sentences.words[sentences.starts[number]:sentences.starts[number + 1] - 1]
            yield [names[word] for word in words.tolist()]

    return ngram_arpa(Ngram.estimate(texts(), order), vocabulary.table.ids)


class WordDistribution:
    """Distribution of the next word by an n-gram model, averaged over several histories.

    ``arpa``: the n-gram model, with the vocabulary's numbers; n-grams of more than ``MAX_ORDER`` words are not used.
    ``vocabulary``: words and their numbers.
    """

    def __init__(self, arpa: Arpa, vocabulary: Vocabulary) -> None:
        self._size = len(vocabulary)
        self._unigram = np.zeros(self._size)
        first = arpa.sections[0]
        self._unigram[first.words[:, 0]] = np.exp(first.log_probs.astype(np.float64))
        self._unigram[vocabulary.never_predicted] = 0.0
        self._backoff = np.ones(self._size)
        self._backoff[first.words[:, 0]] = np.exp(first.backoffs.astype(np.float64))
        self._after_one = csr_matrix((self._size, self._size))
        self._pairs, self._pair_backoff = np.zeros(0, dtype=np.int64), np.ones(0)
        self._after_two = csr_matrix((0, self._size))
        if arpa.order > 1:
            second = arpa.sections[1]
            self._read_pairs(second)
            if arpa.order > 2:
                self._read_triples(arpa.sections[2])

    def _read_pairs(self, section: Section) -> None:
        """Store, for each bigram, its probability minus the one by backing off to the unigram, if that is positive."""
        before, word = section.words[:, 0].astype(np.int64), section.words[:, 1]
        probs = np.exp(section.log_probs.astype(np.float64))
        excess = np.maximum(probs - self._backoff[before] * self._unigram[word], 0.0)
        self._after_one = csr_matrix((excess, (before, word)), shape=(self._size, self._size))
        keys = before * self._size + word
        order = np.argsort(keys)
        self._pairs = keys[order]
        self._pair_backoff = np.exp(section.backoffs.astype(np.float64))[order]

    def _read_triples(self, section: Section) -> None:
        """Store, for each trigram, its probability minus the one by backing off to the bigram, if that is positive."""
        words = section.words.astype(np.int64)
        place = self._place(words[:, 0], words[:, 1])
        words, log_probs, place = (array[place >= 0] for array in (words, section.log_probs, place))
        lower = self._backoff[words[:, 1]] * self._unigram[words[:, 2]]
        lower += np.asarray(self._after_one[words[:, 1], words[:, 2]]).reshape(-1)
        excess = np.maximum(np.exp(log_probs.astype(np.float64)) - self._pair_backoff[place] * lower, 0.0)
        self._after_two = csr_matrix((excess, (place, words[:, 2])), shape=(len(self._pairs), self._size))

    def _place(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the indexes of pairs of words in ``_pairs``; -1 for pairs that the model lacks."""
        keys = first.astype(np.int64) * self._size + second
        place = np.minimum(np.searchsorted(self._pairs, keys), max(len(self._pairs) - 1, 0))
        return np.where(self._pairs[place] == keys, place, -1) if len(self._pairs) else np.full(len(keys), -1)

    def mean(self, before_last: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Compute the probability of each word, averaged over some histories: float64 (words,).

        The sum is 1, or less if the n-gram model has words that the vocabulary lacks.

        ``before_last``, ``last``: int (histories,), the last two words of each history; -1 in ``before_last`` for a
        history of one word.
        """
        place = np.where(before_last >= 0, self._place(np.maximum(before_last, 0), last), -1)
        has_pair = place >= 0
        after_one = np.ones(len(last))
        after_one[has_pair] = self._pair_backoff[place[has_pair]]
        total = self._unigram * (after_one * self._backoff[last]).sum()
        total += self._after_one[last].T @ after_one
        if has_pair.any() and self._after_two.shape[0]:
            total += self._after_two[place[has_pair]].T @ np.ones(int(has_pair.sum()))
        return total / max(len(last), 1)


class Sample(NamedTuple):
    """Sample of words."""

    words: np.ndarray       # int64 (drawn,), increasing
    log_counts: np.ndarray  # float32 (drawn,), log of the number of words that each stands for, as for :func:`compare`


def inclusion_probs(weights: np.ndarray, count: int) -> np.ndarray:
    """Compute the probability of each item to be in a sample of ``count``, proportional to ``weights``, at most 1.

    ``weights`` are positive, float64 (items,); so is the result, whose sum is ``count``.
    """
    if count >= len(weights):
        return np.ones(len(weights))
    probs = weights * (count / weights.sum())
    is_certain = np.zeros(len(weights), dtype=bool)
    while (now := probs >= 1.0).sum() > is_certain.sum():
        is_certain = now
        probs = weights * ((count - is_certain.sum()) / weights[~is_certain].sum())
        probs[is_certain] = 1.0
    return probs


def draw(probs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw indexes with given inclusion probabilities, each at most once, by systematic sampling; int64, increasing."""
    ends = np.cumsum(probs)
    count = int(round(ends[-1]))
    places = np.searchsorted(ends, np.minimum(np.arange(count) + rng.random(), ends[-1]), side="right")
    return np.unique(np.minimum(places, len(probs) - 1))


class WordSampler:
    """Sampler of the words over which the objective of a minibatch is computed.

    ``distribution``: distribution of words after some histories. ``vocabulary``: words and their numbers.
    ``num_samples``: number of words to draw, besides the targets.
    """

    def __init__(self, distribution: WordDistribution, vocabulary: Vocabulary, num_samples: int) -> None:
        self._distribution, self._num_samples = distribution, num_samples
        self._size = len(vocabulary)

    def sample(self, before_last: np.ndarray, last: np.ndarray, targets: np.ndarray,
               rng: np.random.Generator) -> Sample:
        """Draw words that are probable after some histories; the sample contains all targets.

        ``before_last``, ``last``: int (histories,), as for :meth:`WordDistribution.mean`. ``targets``: int
        (histories,), the word that follows each history.
        """
        certain = np.unique(targets)
        weights = self._distribution.mean(before_last, last) * (1.0 - _UNIFORM) + _UNIFORM / self._size
        others = np.ones(self._size, dtype=bool)
        others[0] = False                                # epsilon is no word
        others[certain] = False
        candidates = np.flatnonzero(others)
        probs = inclusion_probs(weights[candidates], self._num_samples)
        drawn = draw(probs, rng)
        words = np.concatenate((certain, candidates[drawn]))
        log_counts = np.concatenate((np.zeros(len(certain)), -np.log(probs[drawn])))
        order = np.argsort(words)
        return Sample(words[order], log_counts[order].astype(np.float32))
