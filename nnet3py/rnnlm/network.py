"""The network of an RNN language model, computed a word at a time, for many histories together."""
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
from nnet3py.rnnlm.options import RnnlmOptions
from nnet3py.rnnlm.word_embedding import WordEmbedding
from nnet3py.runtime.looped import BATCH_SIZES, Chunk, LoopedComputer
from nnet3py.runtime.stream_states import StreamState

MOST_TOGETHER = BATCH_SIZES[-1]
_SCORES_AT_ONCE = 4096


class History:
    """What the network makes of the words since the beginning of a sentence. Kaldi: RnnlmComputeState.

    It is never changed: longer histories are made of it, by any number of words. They share what is common to them but
    for the network's recurrent values, of which each has its own.

    Attributes
    ----------
    output : float32 (dim,), by which the next word is predicted
    log_sum : what is taken off the scores of words, 0 where probabilities are not normalized
    """

    __slots__ = ("log_sum", "output", "state")

    def __init__(self, state: StreamState, output: np.ndarray, log_sum: float) -> None:
        self.state, self.output, self.log_sum = state, output, log_sum


class RnnlmNetwork:
    """A network with its words, compiled for histories that grow by one word at a time.

    Parameters
    ----------
    nnet : a simple network whose input and output have the dimension of the embedding, and that needs no frames before
        or after the one it predicts from, but for recurrences and optional ones. It is computed in test mode
    embedding : the vectors of the words
    options : the words at the ends of sentences, and whether probabilities are normalized
    device : "cpu" or "cuda"
    optimize, debug, cache_dir, training_mode : as for :class:`~nnet3py.runtime.looped.LoopedComputer`

    Attributes
    ----------
    options, embedding : as given

    Raises
    ------
    ShapeError, UsageError : the network, the embedding and the options do not fit each other
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
                             f"itself every {self._looped.frames_per_chunk}: expected one that computes word by word",
                             "is it an acoustic model? Earlier words must come by IfDefined(Offset(…))")

    def __repr__(self) -> str:
        return f"<RnnlmNetwork: {self.embedding.num_words:,} words, {self.embedding.dim} dimensions>"

    def normalized(self) -> RnnlmNetwork:
        """The same network with probabilities that are divided by their sum; itself if its are."""
        if self.options.normalize:
            return self
        other = copy.copy(self)
        other.options = dataclasses.replace(self.options, normalize=True)
        vars(other).pop("start", None)
        return other

    @cached_property
    def start(self) -> History:
        """The history of a sentence's beginning."""
        return self._computed([Chunk(self._looped.new_state(), self.embedding.rows(np.array([self.options.bos])))])[0]

    def advance(self, histories: Sequence[History], words: Sequence[int]) -> list[History]:
        """The histories after one more word each; ShapeError for a number that is no word's."""
        longer: list[History] = []
        for begin in range(0, len(words), MOST_TOGETHER):
            part = slice(begin, begin + MOST_TOGETHER)
            rows = self.embedding.rows(np.array(words[part], dtype=np.int64))
            longer += self._computed([Chunk(history.state, row[None], None, self._looped.new_state())
                                      for history, row in zip(histories[part], rows, strict=True)])
        return longer

    def _computed(self, chunks: list[Chunk]) -> list[History]:
        rows = self._looped.compute_chunks(chunks)
        for row in rows:
            if isinstance(row, NumericError):
                raise row
        outputs = np.concatenate([row for row in rows if not isinstance(row, NumericError)])
        sums = self.embedding.log_sums(outputs).tolist() if self.options.normalize else [0.0] * len(chunks)
        return [History(chunk.result or chunk.state, output, log_sum)
                for chunk, output, log_sum in zip(chunks, outputs, sums, strict=True)]

    def log_prob(self, history: History, word: int) -> float:
        """The log-probability of a word after a history. ShapeError for a number that is no word's."""
        return float(np.dot(history.output, self.embedding.row(word))) - history.log_sum

    def log_probs(self, histories: Sequence[History], which: np.ndarray, words: np.ndarray) -> np.ndarray:
        """The log-probabilities of words, float64 (n,), each after one of ``histories``.

        Parameters
        ----------
        which : int (n,), the histories' places
        words : int (n,)
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
        raise UsageError("the network of a language model has an 'input' and an 'output', and no other input")
    dims = nnet.input_dim("input"), nnet.output_dim("output")
    if dims != (embedding.dim, embedding.dim):
        raise ShapeError(f"the network has {dims[0]} inputs and {dims[1]} outputs, but words have vectors of "
                         f"{embedding.dim} numbers: all three must be equal",
                         "do the network and the embedding belong to one model?")
