"""The network of an RNN language model, computed a word at a time for many histories together; scores of sentences."""
from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Sequence

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.rnnlm.folder import RnnlmOptions
from nnet3py.rnnlm.word_embedding import WordEmbedding
from nnet3py.runtime.chunk_batch import StreamState
from nnet3py.runtime.looped import BATCH_SIZES, Chunk, LoopedComputer

MOST_TOGETHER = BATCH_SIZES[-1]
_SCORES_AT_ONCE = 4096


class History:
    """State and output of the network after the words since the beginning of a sentence. Kaldi: RnnlmComputeState.

    Immutable: any number of longer histories can be computed from it, each with recurrent values of its own.

    Attributes
    ----------
    state : recurrent values of the network
    output : float32 (dim,), the network's output; its product with a word's vector is the word's score
    log_sum : log of the sum of exp(score) over all words; 0 where probabilities are not normalized
    """

    __slots__ = ("log_sum", "output", "state")

    def __init__(self, state: StreamState, output: np.ndarray, log_sum: float) -> None:
        self.state, self.output, self.log_sum = state, output, log_sum


class RnnlmNetwork:
    """A network with the embedding of its words, compiled for histories that grow by one word at a time.

    Parameters
    ----------
    nnet : a simple network whose input and output have the dimension of the embedding. Earlier words reach it only by
        recurrences and IfDefined offsets; it needs no context otherwise. Computed in test mode
    embedding : the vectors of the words
    options : special words and normalization
    device : "cpu" or "cuda"
    optimize, debug, cache_dir, training_mode : as for :class:`~nnet3py.runtime.looped.LoopedComputer`

    Raises ShapeError, UsageError for network, embedding and options whose dimensions or numbers of words do not match.
    """

    def __init__(self, nnet: Nnet, embedding: WordEmbedding, options: RnnlmOptions, device: str = "cpu", *,
                 optimize: OptimizeOptions | None = None, debug: bool = False,
                 cache_dir: str | os.PathLike[str] | None = None, training_mode: bool = False) -> None:
        _check_network(nnet, embedding)
        options.check(embedding.num_words)
        self.options, self.embedding = options, embedding
        self._looped = LoopedComputer(nnet, 1, frame_subsampling_factor=1, device=device, optimize=optimize,
                                      debug=debug, cache_dir=cache_dir, training_mode=training_mode,
                                      max_batch=MOST_TOGETHER)
        context = self._looped.left_context, self._looped.right_context
        if context != (0, 0) or self._looped.frames_per_chunk != 1:
            raise UsageError(f"the network needs {context[0]} frames before and {context[1]} after each, and repeats "
                             f"itself every {self._looped.frames_per_chunk}: expected one that computes word by "
                             "word", "is it an acoustic model? Earlier words must come by IfDefined(Offset(…))")

    def __repr__(self) -> str:
        return f"<RnnlmNetwork: {self.embedding.num_words:,} words, {self.embedding.dim} dimensions>"

    def normalized(self) -> RnnlmNetwork:
        """Return the same network with normalized probabilities; itself if its probabilities are normalized already."""
        if self.options.normalize:
            return self
        other = copy.copy(self)
        other.options = dataclasses.replace(self.options, normalize=True)
        vars(other).pop("start", None)
        return other

    @cached_property
    def start(self) -> History:
        """The history at the beginning of a sentence, which contains only ``<s>``."""
        return self._compute([Chunk(self._looped.new_state(), self.embedding.rows(np.array([self.options.bos])))])[0]

    def advance(self, histories: Sequence[History], words: Sequence[int]) -> list[History]:
        """Compute each history with one more word; raise ShapeError for a number that no word has."""
        longer: list[History] = []
        for begin in range(0, len(words), MOST_TOGETHER):
            part = slice(begin, begin + MOST_TOGETHER)
            rows = self.embedding.rows(np.array(words[part], dtype=np.int64))
            longer += self._compute([Chunk(history.state, row[None], None, self._looped.new_state())
                                     for history, row in zip(histories[part], rows, strict=True)])
        return longer

    def _compute(self, chunks: list[Chunk]) -> list[History]:
        rows = self._looped.compute_chunks(chunks)
        for row in rows:
            if isinstance(row, NumericError):
                raise row
        outputs = np.concatenate([row for row in rows if not isinstance(row, NumericError)])
        if not np.isfinite(outputs).all():                  # rows are checked for NaN only
            raise NumericError("the network's output has infinite values", "has its training diverged?")
        sums = self.embedding.log_sums(outputs).tolist() if self.options.normalize else [0.0] * len(chunks)
        return [History(chunk.result or chunk.state, output, log_sum)
                for chunk, output, log_sum in zip(chunks, outputs, sums, strict=True)]

    def log_prob(self, history: History, word: int) -> float:
        """Compute the log-probability of a word after a history; raise ShapeError for a number that no word has."""
        return float(np.dot(history.output, self.embedding.row(word))) - history.log_sum

    def log_probs(self, histories: Sequence[History], which: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Compute log-probabilities of words, float64 (n,), each after one of ``histories``.

        ``which``: int (n,), for each word the index of its history. ``words``: int (n,), numbers of words.
        """
        outputs = np.stack([history.output for history in histories])
        sums = np.array([history.log_sum for history in histories])
        distinct, places = np.unique(words, return_inverse=True)
        rows = self.embedding.rows(distinct)
        scores = np.empty(len(words))
        for begin in range(0, len(words), _SCORES_AT_ONCE):
            part = slice(begin, begin + _SCORES_AT_ONCE)
            scores[part] = np.einsum("nd,nd->n", outputs[which[part]], rows[places[part]])
        return scores - sums[which]


def _check_network(nnet: Nnet, embedding: WordEmbedding) -> None:
    if not nnet.is_simple() or nnet.input_dim("ivector") > 0:
        raise UsageError("expected the network of a language model, with one input, 'input', and one output, 'output'",
                         "is it an acoustic model?")
    dims = nnet.input_dim("input"), nnet.output_dim("output")
    if dims != (embedding.dim, embedding.dim):
        raise ShapeError(f"the network has {dims[0]} inputs and {dims[1]} outputs, but words have vectors of "
                         f"{embedding.dim} numbers: all three must be equal",
                         "do the network and the embedding belong to one model?")


def sentence_log_probs(network: RnnlmNetwork, sentences: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Compute log-probabilities of the words of sentences and of their ends, float64 (words + 1,) for each sentence.

    ``sentences`` are numbers of words, without ``<s>`` and ``</s>``. Histories that several sentences share are
    computed once. Raises ShapeError for a number that no word has.
    """
    scores = [np.empty(len(sentence) + 1) for sentence in sentences]
    nodes = {0: network.start}                     # histories of ``place`` words, by number
    at = dict.fromkeys(range(len(sentences)), 0)   # for each sentence that has not ended the number of its history
    place = 0
    while at:
        histories = list(nodes.values())
        numbers = {number: k for k, number in enumerate(nodes)}
        nexts = {i: sentences[i][place] if place < len(sentences[i]) else network.options.eos for i in at}
        values = network.log_probs(histories, np.array([numbers[node] for node in at.values()]),
                                   np.array(list(nexts.values()), dtype=np.int64))
        for i, value in zip(at, values, strict=True):
            scores[i][place] = value
        steps = {i: (node, nexts[i]) for i, node in at.items() if place < len(sentences[i])}
        distinct = {step: number for number, step in enumerate(dict.fromkeys(steps.values()))}
        longer = network.advance([nodes[node] for node, _ in distinct], [word for _, word in distinct])
        nodes = dict(enumerate(longer))
        at = {i: distinct[step] for i, step in steps.items()}
        place += 1
    return scores
