"""Perplexity: e to the mean surprise of a word, in nats; how many equally probable words would surprise as much."""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nnet3py.compiler.cache import CachingCompiler
from nnet3py.errors import UsageError
from nnet3py.fst.arpa import Arpa
from nnet3py.fst.const_arpa import build_const_arpa
from nnet3py.network.inference import for_inference
from nnet3py.network.nnet import Nnet
from nnet3py.rnnlm.training.chunks import minibatches
from nnet3py.rnnlm.training.objective import exponentials, word_scores
from nnet3py.rnnlm.training.text import Sentences
from nnet3py.rnnlm.training.trainer import words_request
from nnet3py.rnnlm.training.vocabulary import Vocabulary
from nnet3py.runtime.computer_cache import ComputerCache

_LONGEST = 100                   # words of a sentence; a longer one is measured in pieces
_MINIBATCH = 1024                # words
_MOST_SCORES = 1 << 22           # that are in memory at a time


@dataclass(frozen=True)
class Measured:
    """How well a model predicts a text.

    Attributes
    ----------
    perplexity : of words and ends of sentences, with probabilities that sum to one
    num_words : words and ends of sentences
    mean_log_z, log_z_deviation : mean and standard deviation of log Z, what scores are above log-probabilities; both
        are 0 for scores that are normalized
    """

    perplexity: float
    num_words: int
    mean_log_z: float = 0.0
    log_z_deviation: float = 0.0


def measure(nnet: Nnet, vectors: np.ndarray, sentences: Sentences, vocabulary: Vocabulary) -> Measured:
    """Perplexity of a text, all words but epsilon being possible.

    Parameters
    ----------
    nnet : is left as it is; it is measured in test mode
    vectors : float32 (words, dim), the words' embeddings
    """
    form = for_inference(nnet)
    computers = ComputerCache(form, CachingCompiler(form))
    log_probs, log_zs = [], []
    for eg in minibatches(sentences, vocabulary, _LONGEST, _MINIBATCH):
        computer = computers.computer(words_request(eg.inputs.shape[0], eg.inputs.shape[1], trains=False))
        computer.accept_input("input", vectors[eg.inputs.reshape(-1)])
        computer.run()
        counts = np.flatnonzero(eg.weights.reshape(-1))
        outputs, targets = computer.output("output")[counts], eg.targets.reshape(-1)[counts] - 1
        step = max(1, _MOST_SCORES // len(vectors))
        for begin in range(0, len(outputs), step):
            scores = word_scores(outputs[begin:begin + step], vectors[1:])
            of_targets = scores[np.arange(len(scores)), targets[begin:begin + step]]
            log_z = exponentials(scores)[1]
            log_probs.append(of_targets - log_z)
            log_zs.append(log_z)
    log_prob, log_z = (np.concatenate(parts).astype(np.float64) for parts in (log_probs, log_zs))
    return Measured(perplexity_of(-log_prob.mean()), len(log_prob), float(log_z.mean()), float(log_z.std()))


def measure_arpa(arpa: Arpa, sentences: Sentences, vocabulary: Vocabulary) -> Measured:
    """Perplexity of a text by an n-gram model that has the vocabulary's numbers; words that it lacks do not count.

    Raises UsageError if it has none of the words.
    """
    model = build_const_arpa(arpa, vocabulary.bos, vocabulary.eos)
    log_probs = []
    for begin, end in zip(sentences.starts[:-1].tolist(), sentences.starts[1:].tolist(), strict=True):
        words = [vocabulary.bos, *sentences.words[begin:end].tolist()]
        log_probs += [model.log_prob(words[:place], words[place]) for place in range(1, len(words))]
    finite = [log_prob for log_prob in log_probs if math.isfinite(log_prob)]
    if not finite:
        raise UsageError("the n-gram model has none of the words of the held-out text")
    return Measured(perplexity_of(-sum(finite) / len(finite)), len(finite))


def perplexity_of(surprise: float) -> float:
    """e to the power of a mean surprise; infinity where that is too large."""
    return math.exp(surprise) if surprise < 700.0 else math.inf
