"""Training a network and an embedding on minibatches of words. Kaldi: ``RnnlmTrainer``."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.egs.example import NnetIo
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_learning_rate
from nnet3py.random_sequence import philox
from nnet3py.rnnlm.training.chunks import WordMinibatch
from nnet3py.rnnlm.training.embedding import TrainedEmbedding
from nnet3py.rnnlm.training.objective import compare
from nnet3py.rnnlm.training.sampling import WordSampler
from nnet3py.runtime.computer import Computer
from nnet3py.training.trainer import MinibatchTrainer, TrainerOptions

_ROWS_TOGETHER = 128             # of the output, that are compared with the same sample of words


def words_request(num_sequences: int, length: int, trains: bool) -> ComputationRequest:
    """The computation of outputs for sequences of one length, and of derivatives if it ``trains``."""
    return ComputationRequest([IoSpecification.frames("input", num_sequences, 0, length, has_deriv=trains)],
                              [IoSpecification.frames("output", num_sequences, 0, length, has_deriv=trains)],
                              need_model_derivative=trains, store_component_stats=trains)


@dataclass
class _Group:
    """Rows of the output, and the words that they are compared with.

    Attributes
    ----------
    rows : of the output
    words : their places among the minibatch's words
    targets : int64 (rows,), for each row the place of the word that follows among those
    log_counts : as for :func:`compare`
    """

    rows: slice | np.ndarray
    words: slice | np.ndarray
    targets: np.ndarray
    log_counts: np.ndarray | None


class _Comparisons:
    """The words that a minibatch needs, the vectors that they have, and what is compared with what.

    Attributes
    ----------
    words : int64 (words,), increasing
    vectors : float32 (words, dim)
    inputs : int64 (rows,), the places of the input's words among them
    groups : what is compared
    """

    def __init__(self, eg: WordMinibatch, embedding: TrainedEmbedding, sampler: WordSampler | None,
                 rng: np.random.Generator) -> None:
        inputs, targets = eg.inputs.reshape(-1), eg.targets.reshape(-1)
        if sampler is None:
            self.words, self.inputs = np.arange(embedding.num_words), inputs
            self.groups = [_Group(slice(None), slice(1, None), targets - 1, None)]        # epsilon is no word
        else:
            before = np.column_stack((np.full(len(eg.inputs), -1), eg.inputs[:, :-1])).reshape(-1)
            rows = _rows_together(*eg.inputs.shape)
            samples = [sampler.sample(before[those], inputs[those], targets[those], rng) for those in rows]
            self.words = np.unique(np.concatenate([inputs, *(sample.words for sample in samples)]))
            self.inputs = np.searchsorted(self.words, inputs)
            self.groups = [_Group(those, np.searchsorted(self.words, sample.words),
                                  np.searchsorted(sample.words, targets[those]), sample.log_counts)
                           for those, sample in zip(rows, samples, strict=True)]
        self.vectors = embedding.vectors(self.words if sampler is not None else None)
        self._vector_deriv = np.zeros_like(self.vectors)

    def compare(self, outputs: np.ndarray, weights: np.ndarray,
                self_normalize: float) -> tuple[float, float, np.ndarray]:
        """Both parts of the objective of all rows, and its derivative with respect to the outputs."""
        log_prob, penalty, output_deriv = 0.0, 0.0, np.empty_like(outputs)
        for group in self.groups:
            compared = compare(outputs[group.rows], self.vectors[group.words], group.targets, weights[group.rows],
                               self_normalize, group.log_counts)
            log_prob += compared.log_prob
            penalty += compared.penalty
            output_deriv[group.rows] = compared.output_deriv
            self._vector_deriv[group.words] += compared.vector_deriv
        return log_prob, penalty, output_deriv

    def gradient(self, input_deriv: np.ndarray) -> np.ndarray:
        """The derivative with respect to the words' vectors, as outputs and as inputs; float32 (words, dim)."""
        rows = len(self.inputs)
        of_row = csr_matrix((np.ones(rows, dtype=np.float32), self.inputs, np.arange(rows + 1)),
                            shape=(rows, len(self.words)))
        return self._vector_deriv + of_row.T @ input_deriv


def _rows_together(num_sequences: int, length: int) -> list[np.ndarray]:
    """The rows that share a sample of words: those of a few times, whose histories have something in common."""
    steps = max(1, _ROWS_TOGETHER // num_sequences)
    rows = np.arange(num_sequences * length).reshape(num_sequences, length)
    return [rows[:, begin:begin + steps].reshape(-1) for begin in range(0, length, steps)]


class RnnlmTrainer(MinibatchTrainer[WordMinibatch]):
    """Trains a network and the embedding of words before and behind it, in place.

    Parameters
    ----------
    nnet : its input and output have the embedding's dimension
    embedding : of the words
    options : of the network's training; the device is the CPU
    self_normalize : as for :func:`compare`
    sampler : draws the words that outputs are compared with; None: all words
    """

    def __init__(self, nnet: Nnet, embedding: TrainedEmbedding, options: TrainerOptions | None = None,
                 self_normalize: float = 1.0, sampler: WordSampler | None = None) -> None:
        super().__init__(nnet, options)
        self.embedding, self.sampler, self.self_normalize = embedding, sampler, self_normalize
        self.learning_rate = 0.001
        self._requests: dict[tuple[int, ...], ComputationRequest] = {}
        self._comparisons: _Comparisons | None = None
        self._last_computer: Computer | None = None

    def set_learning_rate(self, rate: float) -> None:
        """Train network and embedding with this rate, times their factors, from now on."""
        self.learning_rate = rate
        for network in (self.nnet, self.delta):
            set_learning_rate(network, rate)

    def totals(self) -> tuple[float, float]:
        """The log-probability of all words trained on so far, each when its minibatch came; and their number."""
        stats = self.objectives.get("output")
        return (stats.total_objective, stats.total_weight) if stats else (0.0, 0.0)

    def _train(self, eg: WordMinibatch) -> None:
        rng = philox(((self.options.srand & (2**32 - 1)) << 32) + self.num_minibatches)
        self._comparisons = _Comparisons(eg, self.embedding, self.sampler, rng)
        super()._train(eg)
        assert self._last_computer is not None
        gradient = self._comparisons.gradient(self._last_computer.output("input", copy=False))
        self.embedding.update(self._comparisons.words, gradient, self.learning_rate)

    def _request(self, eg: WordMinibatch) -> ComputationRequest:
        shape = eg.inputs.shape
        if shape not in self._requests:
            self._requests[shape] = words_request(shape[0], shape[1], trains=True)
        return self._requests[shape]

    def _inputs(self, eg: WordMinibatch) -> Iterable[NnetIo]:
        assert self._comparisons is not None
        yield NnetIo("input", self._request(eg).inputs[0].indexes, self._comparisons.vectors[self._comparisons.inputs])

    def _node_rows(self, eg: WordMinibatch) -> Iterable[IoSpecification]:
        return self._request(eg).inputs

    def _process_outputs(self, computer: Computer, eg: WordMinibatch, suffix: str) -> None:
        assert self._comparisons is not None
        self._last_computer = computer
        with np.errstate(all="ignore"):            # what is not finite is refused by the next line
            log_prob, penalty, output_deriv = self._comparisons.compare(
                computer.output("output"), eg.weights.reshape(-1), self.self_normalize)
        computer.accept_input("output", output_deriv)
        self._count("output" + suffix, float(eg.weights.sum()), log_prob, penalty)
