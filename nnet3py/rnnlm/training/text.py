"""Text to train on or to measure with: sentences as numbers of words, and minibatches of sequences of one length.

A sequence is a sentence from its beginning on, since recognition, too, begins there with an empty state. Sequences of
nearly the same length share a minibatch, and the shorter ones are padded. A sentence that is too long is cut: its later
pieces begin with ``<brk>`` and a few words of context, which are not predicted. Kaldi: rnnlm-get-egs, whose sequences
run on over the ends of sentences instead.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nnet3py.decoding.symbols import EPSILON, SENTENCE_END, SENTENCE_START
from nnet3py.errors import FormatError, UsageError
from nnet3py.io.streams import complete_input, open_input
from nnet3py.rnnlm.training.vocabulary import BREAK, Vocabulary

CONTEXT = 3                      # words before a piece of a sentence. Kaldi: --min-split-context
_STEPS_PER_DOUBLING = 4          # of the lengths of sequences
_BLOCK = 1 << 22                 # bytes read at a time
_ARPA = b"\\data\\"              # a line of every ARPA file
_RESERVED = (EPSILON, SENTENCE_START, SENTENCE_END, BREAK)


@dataclass
class Sentences:
    """Sentences as numbers of words, each followed by ``</s>``."""

    words: np.ndarray   # int32 (tokens,), numbers of all words and ends
    starts: np.ndarray  # int64 (sentences + 1,); sentence i is ``words[starts[i]:starts[i + 1]]``, its end included
    # number of words outside the vocabulary, replaced by the unknown word or left out with their sentence
    num_unknown: int = 0
    num_left_out: int = 0  # number of sentences left out

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Lengths of sentences, int64 (sentences,), ends included."""
        return np.diff(self.starts)

    @property
    def num_tokens(self) -> int:
        """Number of words and ends of sentences."""
        return len(self.words)

    def chosen(self, sentences: np.ndarray) -> Sentences:
        """Return the sentences with the given numbers."""
        lengths = self.lengths[sentences]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        places = np.arange(starts[-1]) + np.repeat(self.starts[sentences] - starts[:-1], lengths)
        return Sentences(self.words[places], starts)


def is_arpa(path: str) -> bool:
    """Return whether a file is an ARPA file, by its header line."""
    with open_input(path) as stream:
        return any(line.strip() == _ARPA for line in stream.read(_BLOCK).splitlines())


def _blocks(path: str) -> Iterator[bytes]:
    """Yield a file's text in blocks of whole lines, each of which ends with a line feed."""
    with complete_input(path) as stream:
        rest = b""
        while piece := stream.read(_BLOCK):
            end = piece.rfind(b"\n") + 1
            if end:
                yield rest + piece[:end]
                rest = piece[end:]
            else:
                rest += piece
        if rest:
            yield rest + b"\n"


def count_words(paths: Sequence[str]) -> Counter[str]:
    """Count the words of some texts.

    Raises FormatError for ``<s>``, ``</s>``, ``<brk>`` or ``<eps>`` in a text; UsageError if there are no words.
    """
    counts: Counter[bytes] = Counter()
    for path in paths:
        for block in _blocks(path):
            counts.update(block.split())
        for word in _RESERVED:
            if word.encode() in counts:
                raise FormatError(f"expected sentences without {word}, one a line, but it is among their words",
                                  path=path, hint="remove it: beginnings and ends of sentences are added here")
    if not counts:
        raise UsageError(f"there are no words in {', '.join(paths)}")
    return Counter({word.decode("utf-8", "surrogateescape"): count for word, count in counts.items()})


def read_sentences(paths: Sequence[str], vocabulary: Vocabulary) -> Sentences:
    """Read the sentences of some texts, without empty lines.

    Words outside the vocabulary become its unknown word; if there is none, their sentences are left out. Raises as
    ``open_input``.
    """
    ids = {word.encode("utf-8", "surrogateescape"): number for word, number in vocabulary.table.ids.items()}
    eos, unk = vocabulary.eos, vocabulary.unk
    parts = []
    for path in paths:
        for block in _blocks(path):
            tokens = block.replace(b"\n", b" </s> ").split()
            parts.append(np.fromiter((ids.get(token, -1) for token in tokens), dtype=np.int32, count=len(tokens)))
    words = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
    num_unknown = int((words < 0).sum())
    if unk >= 0:
        words[words < 0] = unk
    starts = np.concatenate(([0], np.flatnonzero(words == eos) + 1))
    lengths = np.diff(starts)
    lacks = np.add.reduceat(words < 0, starts[:-1]) > 0 if len(lengths) else np.zeros(0, dtype=bool)
    kept = np.flatnonzero((lengths > 1) & ~lacks)
    sentences = Sentences(words, starts).chosen(kept)
    sentences.num_unknown, sentences.num_left_out = num_unknown, int(lacks.sum())
    return sentences


@dataclass
class WordMinibatch:
    """Minibatch of sequences of one length."""

    # inputs, targets: int32 (sequences, length), words, and the word after each of them
    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray  # float32 (sequences, length), 1 for targets, 0 for context and padding

    @property
    def num_words(self) -> int:
        """Number of targets, without context and padding."""
        return int(self.weights.sum())


@dataclass
class _Pieces:
    """Pieces of sentences."""

    starts: np.ndarray    # int64 (pieces,), index of the first target among all words
    lengths: np.ndarray   # int64 (pieces,), numbers of targets
    contexts: np.ndarray  # int64 (pieces,), numbers of words before them that are context


def _cut(sentences: Sentences, chunk_length: int, rng: np.random.Generator | None = None) -> _Pieces:
    """Cut sentences into pieces of at most ``chunk_length`` targets; with ``rng``, the first piece is randomly shorter.
    """
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
    """Return the lengths, up to ``longest``, that sequences are padded to; few, since each needs a compilation."""
    lengths, length = [], 1
    while length < longest:
        lengths.append(length)
        length += max(1, 2 ** max(0, length.bit_length() - 1) // _STEPS_PER_DOUBLING)
    return np.array([*lengths, longest])


def minibatches(sentences: Sentences, vocabulary: Vocabulary, chunk_length: int, num_words: int,
                rng: np.random.Generator | None = None) -> Iterator[WordMinibatch]:
    """Yield the minibatches of one pass over some sentences.

    Parameters
    ----------
    chunk_length : largest number of targets; longer sentences are cut
    num_words : size of a minibatch, padding included: it has ``num_words // length`` sequences, but at least one
    rng : random order of sentences and minibatches; None: the shortest first
    """
    parts = _cut(sentences, chunk_length, rng)
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
        left = members[num_full * size:]            # they join the longer ones
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
