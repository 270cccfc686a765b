"""Sentences as minibatches of sequences of one length.

A sequence is a sentence from its beginning on, since that is where recognition begins, too, with an empty state. Those
of nearly the same length are put together, and the shorter ones filled up. A sentence that is too long is cut: each of
the other pieces begins with ``<brk>`` and a few words of context, which are not predicted. Kaldi: rnnlm-get-egs, which
instead lets the sequences of a minibatch run on over the ends of sentences.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nnet3py.rnnlm.training.text import Sentences
from nnet3py.rnnlm.training.vocabulary import Vocabulary

CONTEXT = 3                      # words before a piece of a sentence. Kaldi: --min-split-context
_STEPS_PER_DOUBLING = 4          # lengths of sequences between a length and its double


@dataclass
class WordMinibatch:
    """Sequences of one length.

    Attributes
    ----------
    inputs, targets : int32 (sequences, length), words, and the words that follow them
    weights : float32 (sequences, length), 1 where the target counts, else 0
    """

    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray

    @property
    def num_words(self) -> int:
        """Targets that count."""
        return int(self.weights.sum())


@dataclass
class _Pieces:
    """Pieces of sentences: place of the first target, number of targets, words of context before it; int64 each."""

    starts: np.ndarray
    lengths: np.ndarray
    contexts: np.ndarray


def cut(sentences: Sentences, chunk_length: int, rng: np.random.Generator | None = None) -> _Pieces:
    """Pieces of at most ``chunk_length`` targets; with ``rng`` the first piece of a long sentence has any length."""
    lengths = sentences.lengths
    short = lengths <= chunk_length
    starts, sizes = [sentences.starts[:-1][short]], [lengths[short]]
    contexts = [np.zeros(int(short.sum()), dtype=np.int64)]
    for number in np.flatnonzero(~short):
        length = int(lengths[number])
        first = chunk_length if rng is None else int(rng.integers(-(-chunk_length // 2), chunk_length + 1))
        borders = np.array([0, *range(first, length, chunk_length), length])
        starts.append(sentences.starts[number] + borders[:-1])
        sizes.append(np.diff(borders))
        contexts.append(np.minimum(borders[:-1], CONTEXT))
    return _Pieces(np.concatenate(starts), np.concatenate(sizes), np.concatenate(contexts))


def sequence_lengths(longest: int) -> np.ndarray:
    """The lengths that sequences are filled up to: each computation is compiled for one of them."""
    lengths, length = [], 1
    while length < longest:
        lengths.append(length)
        length += max(1, 2 ** max(0, length.bit_length() - 1) // _STEPS_PER_DOUBLING)
    return np.array([*lengths, longest])


def minibatches(sentences: Sentences, vocabulary: Vocabulary, chunk_length: int, num_words: int,
                rng: np.random.Generator | None = None) -> Iterator[WordMinibatch]:
    """One pass over some sentences.

    Parameters
    ----------
    chunk_length : longer sentences are cut
    num_words : of a minibatch, filling included: it has ``num_words // length`` sequences, but one at least
    rng : for the order of the sentences and of the minibatches; None: shorter ones come first
    """
    parts = cut(sentences, chunk_length, rng)
    totals = parts.lengths + parts.contexts
    allowed = sequence_lengths(int(totals.max(initial=1)))
    of_length = np.searchsorted(allowed, totals)
    batches: list[tuple[np.ndarray, int, int]] = []
    left = np.zeros(0, dtype=np.int64)
    for k, length in enumerate(allowed.tolist()):
        members = np.flatnonzero(of_length == k)
        if rng is not None:
            members = rng.permutation(members)
        members = np.concatenate((left, members))
        size = max(1, num_words // length)
        num_full = len(members) // size
        batches += [(members[i * size:(i + 1) * size], length, size) for i in range(num_full)]
        left = members[num_full * size:]            # they go with the longer ones
        if len(left) and k + 1 == len(allowed):
            batches.append((left, length, size))
    order = range(len(batches)) if rng is None else rng.permutation(len(batches))
    for number in order:
        members, length, size = batches[number]
        yield _minibatch(sentences.words, vocabulary, _Pieces(parts.starts[members], parts.lengths[members],
                                                              parts.contexts[members]), length, size)


def _minibatch(words: np.ndarray, vocabulary: Vocabulary, parts: _Pieces, length: int, size: int) -> WordMinibatch:
    times = np.arange(length)
    first = parts.starts - parts.contexts
    last = parts.starts + parts.lengths
    places = np.minimum(first[:, None] + times, last[:, None] - 1)
    counts = (times >= parts.contexts[:, None]) & (times < (parts.contexts + parts.lengths)[:, None])
    inputs, targets = words[places - 1], words[places]
    inputs[:, 0] = np.where(parts.contexts > 0, vocabulary.brk, vocabulary.bos)
    filling = size - len(first)
    if filling:
        inputs, targets, counts = (np.concatenate((array, np.repeat(array[:1], filling, axis=0)))
                                   for array in (inputs, targets, counts))
        counts[-filling:] = False
    return WordMinibatch(inputs, targets, counts.astype(np.float32))
