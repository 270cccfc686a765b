"""Const-ARPA files: n-gram models with back-off as one array, used as it is in the file. Kaldi: ``ConstArpaLm``.

The array (``pool``) has a *record* for each unigram, and for each longer n-gram that something follows or that has a
back-off: the bits of its log-probability and of its back-off, the number of its children, and for each child a word and
an *info*, sorted by word. An even info has the bits of the log-probability of a child without a record (the lowest bit
is lost); an odd one is 2 * (address of the child's record - own address) + 1, or, where that is too large, -(2 * i + 1)
for entry i of a table of addresses. Records are in the order of their words, so a child comes after its parent.
"""
from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import FormatError
from nnet3py.fst.arpa import MISSING, Arpa, Histories
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tokens import TokenReader, TokenWriter

_LOOPS = "nnet3py.fst.const_arpa_loops"
_log_prob = Loop(_LOOPS, "log_prob", "i8[] i4[] f4[] i8[] i8 i4[] i8")
_longest_state = Loop(_LOOPS, "longest_state", "i8[] i4[] i8[] i8 i4[]")
_first_damage = Loop(_LOOPS, "first_damage", "i8[] i4[] i8[]")

_HEAD = 3                                   # int32 of a record before its children
_LARGEST_OFFSET = (1 << 30) - 1             # of a child's record that fits in an info
_BAD_ADDRESS = -2
_LARGEST_ORDER = 1000


class ConstArpa:
    """A const-ARPA model. Compiled functions for it take its arrays; see ``const_arpa_loops.py``.

    Attributes
    ----------
    bos, eos, unk : int, words that begin and end sentences, and that stand for unknown words; -1 for none
    order : int, length of the longest n-grams
    unigrams : int64 (words,), address of each word's record + 1; 0 for words that the model lacks
    pool : int32, records
    scores : float32, the memory of ``pool`` viewed as floats
    overflow : int64, addresses + 1 of children that are too far from their parent's record
    """

    def __init__(self, bos: int, eos: int, unk: int, order: int, unigrams: np.ndarray, pool: np.ndarray,
                 overflow: np.ndarray, path: str = "") -> None:
        """Make a model of the arrays of a file; FormatError for arrays that contradict each other."""
        self.bos, self.eos, self.unk, self.order, self._path = bos, eos, unk, order, path
        self.unigrams, self.pool, self.overflow = (
            np.require(values, dtype=dtype, requirements=["C", "W"])
            for values, dtype in ((unigrams, np.int64), (pool, np.int32), (overflow, np.int64)))
        self.scores = self.pool.view(np.float32)
        self._check()

    def _check(self) -> None:
        if not 1 <= self.order <= _LARGEST_ORDER:
            raise FormatError(f"expected an n-gram order from 1 to {_LARGEST_ORDER}, found {self.order}",
                              path=self._path)
        damage = _first_damage(self.unigrams, self.pool, self.overflow)
        if damage == _BAD_ADDRESS:
            raise FormatError("a const-ARPA model has a word whose address is outside of the model", path=self._path,
                              hint="the file is damaged")
        if damage >= 0:
            raise FormatError(f"a const-ARPA model has no valid record at place {damage}", path=self._path,
                              hint="the file is damaged")
        for name in ("bos", "eos", "unk"):
            word = getattr(self, name)
            if not (name == "unk" and word == -1 or 0 < word < len(self.unigrams)):
                raise FormatError(f"a const-ARPA model has word {word} as its symbol '{name}'; expected a word from 1 "
                                  f"to {len(self.unigrams) - 1}", path=self._path)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Arrays ``unigrams``, ``pool``, ``scores`` and ``overflow``, the arguments of compiled functions."""
        return self.unigrams, self.pool, self.scores, self.overflow

    def log_prob(self, history: Sequence[int], word: int) -> float:
        """Return natural log P(word | history); minus infinity for a word that the model lacks. Kaldi: GetNgramLogprob.

        ``history`` has the oldest word first.
        """
        kept = np.array(history[max(0, len(history) - self.order + 1):], dtype=np.int32)
        return float(_log_prob(*self.arrays, self.unk, kept, int(word)))

    def state(self, history: Sequence[int]) -> tuple[int, ...]:
        """Return the longest suffix of a history that begins an n-gram; probabilities of next words depend only on it.
        """
        kept = np.array(history[max(0, len(history) - self.order + 1):], dtype=np.int32)
        begin = _longest_state(self.unigrams, self.pool, self.overflow, self.unk, kept)
        return tuple(kept[begin:].tolist())

    # -- files -------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, rxfilename: str | os.PathLike[str]) -> ConstArpa:
        """Read a const-ARPA file, also one in the older format without tokens; FormatError for other bytes."""
        return read_object(rxfilename, _read)

    def write(self, wxfilename: str | os.PathLike[str]) -> None:
        """Write a const-ARPA file."""
        write_object(wxfilename, self._write)

    def _write(self, writer: TokenWriter) -> None:
        writer.token("<ConstArpaLm>")
        writer.token("<LmInfo>")
        for number in (self.bos, self.eos, self.unk, self.order):
            writer.integer(number)
        writer.token("</LmInfo>")
        for name, values, kind in (("LmStates", self.pool, "int64"), ("LmUnigram", self.unigrams, "int32"),
                                   ("LmOverflow", self.overflow, "int32")):
            writer.token(f"<{name}>")
            writer.integer(len(values), kind)
            writer.array(values, values.dtype)
            writer.token(f"</{name}>")
        writer.token("</ConstArpaLm>")


def _read(reader: TokenReader) -> ConstArpa:
    if not reader.binary:
        raise reader.error("expected a const-ARPA file, which is binary", hint="arpa-to-const-arpa makes one")
    named = reader.peek(1) != b"\4"

    def token(text: str) -> None:
        if named:
            reader.expect(text)

    def values(name: str, kind: str, dtype: str) -> np.ndarray:
        token(f"<{name}>")
        array = reader.array(dtype, reader.integer(kind), "numbers of a const-ARPA model")
        token(f"</{name}>")
        return array

    token("<ConstArpaLm>")
    token("<LmInfo>")
    bos, eos, unk, order = (reader.integer() for _ in range(4))
    token("</LmInfo>")
    pool = values("LmStates", "int64", "<i4")
    unigrams = values("LmUnigram", "int32", "<i8")
    overflow = values("LmOverflow", "int32", "<i8")
    token("</ConstArpaLm>")
    return ConstArpa(bos, eos, unk, order, unigrams, pool, overflow, reader.path)


# -- building ----------------------------------------------------------------------------------------------------------


def build_const_arpa(arpa: Arpa, bos: int, eos: int, unk: int = -1) -> ConstArpa:
    """Convert a model to const-ARPA. Kaldi: ConstArpaLmBuilder.

    Raises FormatError for n-grams whose prefix is not an n-gram, n-grams given twice, and ``bos``, ``eos`` or ``unk``
    that the model lacks.
    """
    tree = _Tree(arpa)
    has_record = (tree.length == 1) | (tree.length < arpa.order) & ((tree.backoff != 0.0) | (tree.num_children > 0))
    records = np.flatnonzero(has_record)
    records = records[np.lexsort(tree.words[records, ::-1].T)]
    sizes = _HEAD + 2 * tree.num_children[records]
    ends = np.cumsum(sizes)
    address = np.full(len(tree.length), -1, dtype=np.int64)
    address[records] = ends - sizes
    pool = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.int32)
    at = address[records]
    pool[at] = tree.log_prob[records].view(np.int32)
    pool[at + 1] = tree.backoff[records].view(np.int32)
    pool[at + 2] = tree.num_children[records]
    children, places = tree.children(address)
    pool[places] = tree.last_word[children]
    pool[places + 1], overflow = _infos(tree, address, children)
    words = tree.last_word[tree.length == 1]
    unigrams = np.zeros(int(words.max(initial=0)) + 1, dtype=np.int64)
    unigrams[words] = address[tree.length == 1] + 1
    return ConstArpa(bos, eos, unk, arpa.order, unigrams, pool, overflow)


def _infos(tree: _Tree, address: np.ndarray, children: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the info of each child, int32, and the table of addresses + 1 of children that are too far away, int64."""
    infos = (tree.log_prob[children].view(np.int32) & ~1).astype(np.int64)
    with_record = np.flatnonzero(address[children] >= 0)
    offsets = address[children[with_record]] - address[tree.parent[children[with_record]]]
    infos[with_record] = 2 * offsets + 1
    far = with_record[offsets > _LARGEST_OFFSET]
    infos[far] = -(2 * np.arange(len(far)) + 1)
    return infos.astype(np.int32), address[children[far]] + 1


class _Tree:
    """The n-grams of a model: for each its last word, its parent (the n-gram without that word), and its scores."""

    def __init__(self, arpa: Arpa) -> None:
        histories = Histories()
        nodes = [histories.add(section.words) for section in arpa.sections]
        size = histories.num_nodes
        self.length = np.zeros(size, dtype=np.int64)
        self.last_word = np.zeros(size, dtype=np.int32)
        self.parent = np.zeros(size, dtype=np.int64)
        self.log_prob, self.backoff = np.zeros(size, dtype=np.float32), np.zeros(size, dtype=np.float32)
        self.words = np.zeros((size, arpa.order), dtype=np.int32)
        for order, (section, at) in enumerate(zip(arpa.sections, nodes, strict=True), 1):
            self.words[at, :order], self.last_word[at] = section.words, section.words[:, -1]
            self.log_prob[at], self.backoff[at] = section.log_probs, section.backoffs
            self.parent[at] = histories.find(section.words[:, :-1])
            self.length[at] = order
        self._check(arpa, nodes)
        self.num_children = np.bincount(self.parent[self.length > 1], minlength=size)

    def _check(self, arpa: Arpa, nodes: list[np.ndarray]) -> None:
        for section, at in zip(arpa.sections, nodes, strict=True):
            order = section.words.shape[1]
            orphans = (self.length[self.parent[at]] != order - 1) | (self.parent[at] == MISSING)
            if orphans.any():
                raise FormatError(f"an ARPA model has the n-gram of words {section.words[orphans.argmax()].tolist()}, "
                                  "but not its beginning", hint="is the file complete?")
            if len(np.unique(at)) != len(at):
                values, counts = np.unique(at, return_counts=True)
                raise FormatError("an ARPA model has an n-gram twice, of the words "
                                  f"{self.words[values[counts.argmax()], :order].tolist()}")

    def children(self, address: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the n-grams of two or more words, by parent and word, and their indexes in the pool, int64."""
        inner = np.flatnonzero(self.length > 1)
        inner = inner[np.lexsort((self.last_word[inner], self.parent[inner]))]
        parents = self.parent[inner]
        first = np.searchsorted(parents, parents)                  # of the same parent
        return inner, address[parents] + _HEAD + 2 * (np.arange(len(inner)) - first)
