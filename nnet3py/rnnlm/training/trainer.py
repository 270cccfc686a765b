"""An RNN language model's network and embedding: their initialization, training and perplexity.

Kaldi: RnnlmTrainer, RnnlmEmbeddingTrainer, rnnlm-compute-prob.
"""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.affine import TrainedAffineMap
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.egs.example import NnetIo
from nnet3py.errors import ConfigError, UsageError, within
from nnet3py.fst.arpa import Arpa
from nnet3py.fst.const_arpa import build_const_arpa
from nnet3py.io.streams import read_text
from nnet3py.network.descriptor import Source
from nnet3py.network.inference import for_inference
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_learning_rate
from nnet3py.ops import get_ops
from nnet3py.random_sequence import philox
from nnet3py.rnnlm.training.objective import WordSampler, compare, exponentials, word_scores
from nnet3py.rnnlm.training.options import DEFAULT_DIM, EmbeddingOptions, NetworkOptions
from nnet3py.rnnlm.training.text import Sentences, WordMinibatch, minibatches
from nnet3py.rnnlm.training.vocabulary import CONSTANT, SPECIAL, UNIGRAM, Feature, Vocabulary
from nnet3py.runtime.computer import Computer, ComputerCache
from nnet3py.training.options import TrainerOptions
from nnet3py.training.trainer import MinibatchTrainer
from nnet3py.xconfig import expand

_CONFIG_WORDS = ("component", "component-node", "dim-range-node", "input-node", "output-node")
_RANK, _ALPHA, _HISTORY = 30, 4.0, 10.0           # of the embedding's natural gradient; the history in minibatches
UNIT = 10.0                      # initial value of the network's first output, see initial_embedding
_ROWS_TOGETHER = 128             # rows of the output that share a sample of words
# Where perplexity is measured:
_LONGEST = 100                   # words of a sentence; longer ones are cut
_MINIBATCH = 1024                # words
_MOST_SCORES = 1 << 22           # in memory at a time


def layers(options: NetworkOptions) -> str:
    """Return the network's layers as text: those of --network, or of a TDNN-LSTM as in Kaldi's recipes."""
    if options.network:
        return read_text(options.network)
    dim = options.dim or DEFAULT_DIM
    cells = options.cell_dim or dim
    projection = options.projection_dim or -(-cells // 4)
    l2 = f" l2-regularize={options.l2:g}" if options.l2 else ""
    lines = [f"input dim={dim} name=input",
             "renorm-component name=input-renorm",        # words' vectors are short, so that scores are small
             f"relu-renorm-layer name=tdnn1 dim={dim} input=Append(0, IfDefined(-1)){l2}"]
    for number in range(1, options.num_lstm_layers + 1):
        lines += [f"fast-lstmp-layer name=lstm{number} cell-dim={cells} recurrent-projection-dim={projection} "
                  f"non-recurrent-projection-dim={projection}{l2}",
                  f"relu-renorm-layer name=tdnn{number + 1} dim={dim} input=Append(0, IfDefined(-{number + 1})){l2}"]
    lines.append(f"output-layer name=output dim={dim} include-log-softmax=false param-stddev=0.01{l2}")
    return "\n".join(lines) + "\n"


def config_of(text: str, path: str | None = None) -> str:
    """Expand layers to config lines; return a text of config lines as it is."""
    words = {line.split()[0] for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")}
    if words.intersection(_CONFIG_WORDS):
        return text
    return expand(text, path).final


def make_network(options: NetworkOptions, text: str, seed: int) -> Nnet:
    """Make the network of layers or config lines, with random parameters.

    Raises ConfigError if the network cannot be a language model: other inputs or outputs, different dimensions, later
    words.
    """
    path = options.network or None
    with within(f"--network={path}" if path else "the network"):
        nnet = Nnet.from_config(config_of(text, path), seed, path)
        check_network(nnet)
        if options.dim and nnet.input_dim("input") != options.dim:
            raise ConfigError(f"its input has dimension {nnet.input_dim('input')}, but --embedding-dim={options.dim}",
                              "leave out --embedding-dim")
    return nnet


def check_network(nnet: Nnet) -> None:
    """Raise ConfigError for a network that cannot be a language model's."""
    if not nnet.is_simple() or nnet.input_dim("ivector") > 0:
        raise ConfigError("a language model has one input, 'input', and one output, 'output'; this network has "
                          f"{', '.join(name for name, _ in nnet.named_nodes())}")
    dims = nnet.input_dim("input"), nnet.output_dim("output")
    if dims[0] != dims[1]:
        raise ConfigError(f"expected an input and an output of the same dimension, that of words' embeddings, found "
                          f"{dims[0]} and {dims[1]}")
    left, right = compute_simple_nnet_context(nnet)
    if right or left:
        raise ConfigError(f"the network needs the {left} words before and the {right} after each word, but the first "
                          "word has none before it, and later words are not known",
                          "write earlier words as IfDefined(-1) in layers, as IfDefined(Offset(input, -1)) in config "
                          "lines")
    if nnet.modulus() != 1:
        raise ConfigError(f"the network computes blocks of {nnet.modulus()} words; expected single words")


def set_first_output(nnet: Nnet, value: float) -> None:
    """Set the bias of the network's first output, in place, if the output is an affine component's."""
    parts = nnet.descriptor_of(nnet.node_index("output")).descriptor.parts
    if len(parts) == 1 and isinstance(parts[0], Source) and nnet.is_component(parts[0].node):
        component = nnet.component_of(parts[0].node)
        if isinstance(component, TrainedAffineMap):
            component.bias_params[0] = value


def initial_embedding(vocabulary: Vocabulary, features: list[Feature], dim: int, norm: float, per_word: float,
                      rng: np.random.Generator) -> np.ndarray:
    """Make the embedding of features before training, float32 (features, dim).

    Vectors are random but for the first column, in which the vector of each word is its log-probability over ``UNIT``:
    where the network's first output is ``UNIT`` and the others are 0, words have their frequencies as probabilities.
    The contribution of a feature to a word's vector does not depend on the feature's scale; ``norm`` is roughly the
    length of the vector of a word with ``per_word`` features.
    """
    scales = np.array([feature.scale for feature in features], dtype=np.float32)
    embedding = rng.standard_normal((len(features), dim)).astype(np.float32)
    embedding *= (norm / np.sqrt(per_word * dim) / scales)[:, None]
    embedding[:, 0] = 0.0
    unigram = next(feature for feature in features if feature.kind == UNIGRAM)
    probs = vocabulary.probs()
    mean = -unigram.offset / unigram.scale
    for number, feature in enumerate(features):
        if feature.kind == CONSTANT:
            embedding[number, 0] = mean / feature.scale / UNIT
        elif feature.kind == UNIGRAM:
            embedding[number, 0] = 1.0 / feature.scale / UNIT
        elif feature.kind == SPECIAL:
            log_prob = float(np.log(probs[vocabulary.table[feature.text]]))
            embedding[number, 0] = (log_prob - mean) / feature.scale / UNIT
    return embedding


class TrainedEmbedding:
    """Embedding of features that is trained; vectors of words are sums over their features.

    ``features``: float32 (words, features). ``matrix``: float32 (features, dim), trained in place.

    Attributes
    ----------
    num_limited : number of minibatches in which ``max_change`` limited the change
    """

    def __init__(self, features: csr_matrix, matrix: np.ndarray, options: EmbeddingOptions | None = None) -> None:
        self.features, self.matrix = features, matrix
        self.options = options or EmbeddingOptions()
        self.num_limited = 0
        self._preconditioner = OnlineNaturalGradient(rank=_RANK, update_period=4, alpha=_ALPHA,
                                                     num_minibatches_history=_HISTORY)
        self._ops = get_ops("cpu")

    @property
    def num_words(self) -> int:
        """Number of words, epsilon included."""
        return int(self.features.shape[0])

    @property
    def dim(self) -> int:
        """Length of a word's vector."""
        return self.matrix.shape[1]

    def vectors(self, words: np.ndarray | None = None) -> np.ndarray:
        """Compute the vectors of words by their numbers, or of all words, float32 (words, dim)."""
        features = self.features if words is None else self.features[words]
        return np.ascontiguousarray(features @ self.matrix)

    def update(self, words: np.ndarray, gradient: np.ndarray, learning_rate: float) -> None:
        """Change the embedding by one natural gradient step.

        ``words``: int (words,), different numbers of words. ``gradient``: float32 (words, dim), derivative of the
        objective, which is maximized. ``learning_rate``: learning rate of the network.
        """
        of_words = self.features[words]
        active = np.unique(of_words.indices)
        change = np.ascontiguousarray(of_words[:, active].T @ gradient, dtype=np.float32)
        rate = np.float32(learning_rate * self.options.rate_factor)
        if len(active):
            self._ops.reset_scratch()
            rate = self._preconditioner.precondition(self._ops, change, float(rate))[0]
            self._preconditioner.check(self._ops)
        size = abs(float(rate)) * float(np.linalg.norm(change))
        if self.options.max_change > 0.0 and size > self.options.max_change:
            rate *= np.float32(self.options.max_change / size)
            self.num_limited += 1
        if self.options.l2 > 0.0:
            self.matrix *= np.float32(1.0 - learning_rate * self.options.rate_factor * self.options.l2)
        self.matrix[active] += rate * change


def words_request(num_sequences: int, length: int, trains: bool) -> ComputationRequest:
    """Return the request for outputs of sequences of one length, and for derivatives if ``trains``."""
    return ComputationRequest([IoSpecification.frames("input", num_sequences, 0, length, has_deriv=trains)],
                              [IoSpecification.frames("output", num_sequences, 0, length, has_deriv=trains)],
                              need_model_derivative=trains, store_component_stats=trains)


@dataclass
class _Group:
    """Rows of the output for which the objective is computed over the same sample of words, or over all words."""

    rows: slice | np.ndarray       # indexes of the rows
    words: slice | np.ndarray      # indexes of the sampled words in the minibatch's words (:attr:`_Comparisons.words`)
    targets: np.ndarray            # int64 (rows,), for each row the index in ``words`` of the word that follows
    log_counts: np.ndarray | None  # float32 (words,), as for :func:`compare`; None for all words


class _Comparisons:
    """Objective of a minibatch: its words, their vectors, and the derivatives with respect to these.

    Attributes
    ----------
    words : int64 (words,), increasing, all words that are inputs, targets or sampled
    vectors : float32 (words, dim), their vectors
    inputs : int64 (rows,), index in ``words`` of each input
    groups : rows of the output, and the words over which their objective is computed
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
        """Compute the objective of all rows; accumulate its derivative with respect to the words' vectors.

        Parameters
        ----------
        outputs, weights, self_normalize : as for :func:`compare`

        Returns the log-probability, the penalty (as in :class:`Comparison`), and float32 (rows, dim), the derivative
        with respect to the outputs.
        """
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
        """Return the derivative of the objective with respect to the words' vectors: float32 (words, dim).

        It is the sum of that by :meth:`compare` and of ``input_deriv``, float32 (rows, dim), for the inputs.
        """
        rows = len(self.inputs)
        of_row = csr_matrix((np.ones(rows, dtype=np.float32), self.inputs, np.arange(rows + 1)),
                            shape=(rows, len(self.words)))
        return self._vector_deriv + of_row.T @ input_deriv


def _rows_together(num_sequences: int, length: int) -> list[np.ndarray]:
    """Divide the rows of a minibatch into groups that share a sample of words: each has a few consecutive times."""
    steps = max(1, _ROWS_TOGETHER // num_sequences)
    rows = np.arange(num_sequences * length).reshape(num_sequences, length)
    return [rows[:, begin:begin + steps].reshape(-1) for begin in range(0, length, steps)]


class RnnlmTrainer(MinibatchTrainer[WordMinibatch]):
    """Trainer of a network and of the embedding of its input and output words, both of which it changes in place.

    Parameters
    ----------
    nnet : network whose input and output have the embedding's dimension
    embedding : embedding of the features of words
    options : options of the network's training; the device is the CPU
    self_normalize : as for :func:`compare`
    sampler : sampler of the words over which the objective is computed; None: all words
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
        """Set the learning rate, which the factors of components and of the embedding multiply."""
        self.learning_rate = rate
        for network in (self.nnet, self.delta):
            set_learning_rate(network, rate)

    def totals(self) -> tuple[float, float]:
        """Return the sum of the log-probabilities of all words trained on so far, and the number of these words."""
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
        with np.errstate(all="ignore"):            # values that are not finite are refused below
            log_prob, penalty, output_deriv = self._comparisons.compare(
                computer.output("output"), eg.weights.reshape(-1), self.self_normalize)
        computer.accept_input("output", output_deriv)
        self._count("output" + suffix, float(eg.weights.sum()), log_prob, penalty)


@dataclass(frozen=True)
class Measured:
    """Perplexity of a text by a model."""

    perplexity: float  # exp of minus the mean normalized log-probability of words and ends of sentences
    num_words: int     # number of words and ends of sentences
    # mean_log_z, log_z_deviation: mean and standard deviation of log Z, the log of the sum of exp(score) over all
    # words, in nats; 0 for an n-gram model
    mean_log_z: float = 0.0
    log_z_deviation: float = 0.0


def measure(nnet: Nnet, vectors: np.ndarray, sentences: Sentences, vocabulary: Vocabulary) -> Measured:
    """Measure the perplexity of a text by an RNN language model.

    Parameters
    ----------
    nnet : network, used in test mode, not changed
    vectors : float32 (words, dim), the words' vectors
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
    """Measure the perplexity of a text by an n-gram model; words that the model lacks are left out.

    ``arpa`` has the numbers of words of ``vocabulary``.

    Raises UsageError if the n-gram model has none of the words.
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
    """Return the perplexity, exp(surprise), for a mean negative log-probability in nats; infinity if it overflows."""
    return math.exp(surprise) if surprise < 700.0 else math.inf
