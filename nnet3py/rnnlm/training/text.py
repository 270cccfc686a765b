"""Text to train on or to measure with: one sentence a line, as numbers of words."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nnet3py.decoding.lexicon import SENTENCE_END, SENTENCE_START
from nnet3py.decoding.symbols import EPSILON
from nnet3py.errors import FormatError, UsageError
from nnet3py.io.streams import failed_command, open_input
from nnet3py.rnnlm.training.vocabulary import BREAK, Vocabulary

_BLOCK = 1 << 22                 # bytes that are read at a time
_ARPA = b"\\data\\"              # a line of every ARPA file
_RESERVED = (EPSILON, SENTENCE_START, SENTENCE_END, BREAK)


@dataclass
class Sentences:
    """Sentences, each followed by the end of a sentence.

    Attributes
    ----------
    words : int32 (tokens,), the numbers of all words and ends
    starts : int64 (sentences + 1,): sentence i is ``words[starts[i]:starts[i + 1]]``, its end included
    num_unknown : words that the vocabulary lacks; they are the unknown word, or their sentence was left out
    num_left_out : sentences that were left out
    """

    words: np.ndarray
    starts: np.ndarray
    num_unknown: int = 0
    num_left_out: int = 0

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """int64 (sentences,): words of each, the end included."""
        return np.diff(self.starts)

    @property
    def num_tokens(self) -> int:
        """Words and ends of sentences."""
        return len(self.words)

    def chosen(self, sentences: np.ndarray) -> Sentences:
        """Some of the sentences, by number."""
        lengths = self.lengths[sentences]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        places = np.arange(starts[-1]) + np.repeat(self.starts[sentences] - starts[:-1], lengths)
        return Sentences(self.words[places], starts)


def is_arpa(path: str) -> bool:
    """Whether a file's first part has the line that ARPA files begin with."""
    with open_input(path) as stream:
        return any(line.strip() == _ARPA for line in stream.read(_BLOCK).splitlines())


def _blocks(path: str) -> Iterator[bytes]:
    """A file's text in pieces of whole lines, each of which ends with a line feed."""
    with open_input(path) as stream:
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
    if stream.status:
        raise failed_command(stream.path, stream.status)


def count_words(paths: Sequence[str]) -> Counter[str]:
    """How often each word is in some texts.

    Raises
    ------
    FormatError : a text with ``<s>``, ``</s>``, ``<brk>`` or ``<eps>`` among its words
    UsageError : no words at all
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
    """The sentences of some texts; empty lines do not count.

    A word that the vocabulary lacks becomes its unknown word; if it has none, the sentence is left out.

    Raises what ``open_input`` does.
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
