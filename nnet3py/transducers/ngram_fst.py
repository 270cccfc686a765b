"""OpenFst's FSTs of type ``ngram``: back-off language models in a third of the memory, used without reading them first.

A state is a history of words. States are numbered in level order of a tree, in which a history's parent is the history
without its oldest word, the state that it backs off to; children of a state are sorted by that word. OpenFst:
``NGramFst``, after Sorensen and Allauzen, "Unary data structures for language models", Interspeech 2011.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.errors import FormatError
from nnet3py.io.object_files import FileContent
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import NO_WEIGHT, Fst, Header, Stored, binary_header, read_header, stored_facts
from nnet3py.transducers.fst_operations import ACCEPTOR, EXPANDED, INPUT_SORTED, OUTPUT_SORTED

KIND, VERSION = "ngram", 4
_START = 1                     # the state of a sentence's beginning
_DAMAGED = "the file is damaged, or is not one of OpenFst's"


@dataclass(frozen=True, eq=False)
class NgramFst:
    """An n-gram model: an acceptor whose arcs are words, and back-off arcs without a label. States are histories.

    Attributes
    ----------
    num_states, num_arcs : int, number of histories; number of words after all histories, back-off arcs not included
    parents : int32 (states,), the state that each state backs off to; -1 for state 0, the empty history
    arc_starts : int64 (states + 1,), where the words after each history begin, and the end
    final_weights : float32 (states,); infinity: not final
    context_words : int32 (states + 1,), the oldest word of each history; 0 for state 0 and the beginning of a sentence
    backoff : float32 (states + 1,), costs of backing off
    future_words, future_costs : int32 and float32 (arcs,), the words, ascending within a state, and their costs
    start : int, the start state
    stored : Stored, symbols and properties of the model's file; None for a new model
    """

    parents: np.ndarray
    arc_starts: np.ndarray
    final_weights: np.ndarray
    context_words: np.ndarray
    backoff: np.ndarray
    future_words: np.ndarray
    future_costs: np.ndarray
    start: int
    stored: Stored | None = None

    @property
    def num_states(self) -> int:
        """The number of histories."""
        return len(self.parents)

    @property
    def num_arcs(self) -> int:
        """The number of words after all histories."""
        return len(self.future_words)

    @classmethod
    def of_content(cls, content: FileContent, offset: int = 0) -> NgramFst | None:
        """Return the model at byte ``offset`` of a file in memory, its large arrays not copied; None for other files.

        FormatError for a damaged model.
        """
        reader = content.reader(offset)
        if reader.peek(1) != b"\xd6":
            return None
        header = read_header(reader)
        if header.kind != KIND:
            return None
        return read_ngram(reader, header)

    @cached_property
    def children(self) -> np.ndarray:
        """First child of each state, int32 (states + 1,); children are numbered one after the other."""
        return (np.searchsorted(self.parents[1:], np.arange(self.num_states + 1)) + 1).astype(np.int32)

    def to_fst(self) -> Fst:
        """Return the model as an Fst; the back-off arc of a state comes before its words."""
        sources = np.repeat(np.arange(self.num_states), np.diff(self.arc_starts))
        histories = np.arange(1, self.num_states)
        words = np.concatenate((np.zeros(len(histories), dtype=np.int32), self.future_words))
        fst = Fst.from_arcs(self.start, self.final_weights, np.concatenate((histories, sources)), words, words,
                            np.concatenate((self.backoff[1:self.num_states], self.future_costs)),
                            np.concatenate((self.parents[1:], self._next_states(sources))))
        return replace(fst, stored=self.stored)

    def _next_states(self, sources: np.ndarray) -> np.ndarray:
        """Return the targets of arcs, whose source states are given: the longest suffix of history and word."""
        words = self.context_words[:self.num_states]
        keys = (self.parents[1:].astype(np.int64) << 32) | words[1:].astype(np.int64)

        def child(states: np.ndarray, oldest: np.ndarray) -> np.ndarray:
            wanted = (states.astype(np.int64) << 32) | oldest.astype(np.int64)
            places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            return np.where(keys[places] == wanted, places + 1, -1)

        if not len(keys):
            return np.zeros(len(sources), dtype=np.int64)
        children = child(np.zeros(len(sources), dtype=np.int64), self.future_words)
        next_states = np.maximum(children, 0)
        going_on = np.flatnonzero(children > 0)
        for newest_first in self._histories():
            going_on = going_on[newest_first[sources[going_on]] >= 0]
            children = child(next_states[going_on], words[newest_first[sources[going_on]]])
            going_on, children = going_on[children > 0], children[children > 0]
            next_states[going_on] = children
        return next_states

    def _histories(self) -> list[np.ndarray]:
        """Return the words of all histories, newest first: one int64 (states,) array per word.

        A word is given as the state (a suffix of the history) whose oldest word it is; -1 beyond the history's length.
        """
        levels, depth = [], np.zeros(self.num_states, dtype=np.int64)
        ancestors = np.arange(self.num_states)
        while (ancestors > 0).any():
            levels.append(np.where(ancestors > 0, ancestors, -1))
            depth[ancestors > 0] += 1
            ancestors = np.where(ancestors > 0, self.parents[ancestors], 0)
        # a state of depth d has its newest word d - 1 steps up
        steps = np.stack(levels) if levels else np.zeros((0, self.num_states), dtype=np.int64)
        return [np.where(depth > word, steps[np.maximum(depth - 1 - word, 0), np.arange(self.num_states)], -1)
                for word in range(len(levels))]


def read_ngram(reader: TokenReader, header: Header) -> NgramFst:
    """Read an n-gram model after its header; arrays are not copied if the file is in memory. FormatError for damage."""
    if header.arc_type != "standard" or header.version != VERSION:
        raise reader.error(f"expected an FST of type 'ngram' of version {VERSION} with arcs of type 'standard', found "
                           f"version {header.version} and arcs of type '{header.arc_type}'")
    num_states, num_words, num_final = reader.array("<u8", 3, "sizes of an n-gram model").tolist()
    bits = [2 * num_states + 1, num_states + num_words + 1, num_states]
    length = sum(8 * -(-size // 64) for size in bits) + 4 * (2 * (num_states + 1) + 2 * num_words + num_final + 1)
    if not 0 < num_final <= num_states < 1 << 30 or num_words >= 1 << 31 or num_states != header.num_states:
        raise reader.error(f"expected an n-gram model of {header.num_states} histories, found one of {num_states}, "
                           f"with {num_words} words and {num_final} ends", hint=_DAMAGED)
    reader.check_count(length, 1, "bytes of an n-gram model")
    data: Any = reader.raw(length) if reader.content is None else reader.content[reader.offset:reader.offset + length]
    if reader.content is not None:
        reader.skip(length)
    at, vectors, arrays = 0, [], list[Any]()
    for size in bits:
        words = np.frombuffer(data, np.uint8, 8 * -(-size // 64), at)
        vectors.append(np.unpackbits(words, count=size, bitorder="little"))
        at += words.nbytes
    for dtype, count in ((np.int32, num_states + 1), (np.int32, num_words), (np.float32, num_states + 1),
                         (np.float32, num_final), (np.float32, num_words + 1)):
        arrays.append(np.frombuffer(data, dtype, count, at))
        at += 4 * count
    context_words, future_words, backoff, final_costs, future_costs = arrays
    parents, arc_starts = _parents(vectors[0], num_states), _starts(vectors[1], num_states)
    finals = np.flatnonzero(vectors[2])
    if parents is None or arc_starts is None or int(arc_starts[-1]) != num_words or len(finals) != num_final:
        raise reader.error("expected an n-gram model, but its histories are no tree, or do not have the words and ends "
                           "that there are", hint=_DAMAGED)
    problem = _problem(parents, arc_starts, context_words, future_words,
                       (backoff[1:num_states], final_costs, future_costs[:-1]))
    if problem:
        raise reader.error(f"expected an n-gram model, but {problem}", hint=_DAMAGED)
    final_weights = np.full(num_states, NO_WEIGHT, dtype=np.float32)
    final_weights[finals] = final_costs
    return NgramFst(parents, arc_starts, final_weights, context_words, backoff, future_words, future_costs[:-1],
                    min(_START, num_states - 1), stored_facts(header))


def _parents(bits: np.ndarray, num_states: int) -> np.ndarray | None:
    """Parse the tree of histories; return the parent of each, int32, -1 for the root; None for bits that are no tree.

    The bits are ``10``, then for each state a 1 for each child, and a 0.
    """
    edges = np.flatnonzero(bits)
    if len(edges) != num_states:
        return None
    parents = edges - np.arange(num_states) - 1                # zeros before an edge, less that of the root's parent
    is_tree = bits[0] == 1 and bits[1] == 0 and (parents[1:] < np.arange(1, num_states)).all()
    return parents.astype(np.int32) if is_tree and (parents[1:] >= 0).all() else None


def _starts(bits: np.ndarray, num_states: int) -> np.ndarray | None:
    """Parse the numbers of words after histories; return ``arc_starts``, or None if the number of states is wrong.

    The bits are a 0, then for each state a 1 for each word, and a 0.
    """
    ends = np.flatnonzero(bits == 0)
    return ends - np.arange(len(ends)) if len(ends) == num_states + 1 and bits[0] == 0 else None


def _problem(parents: np.ndarray, arc_starts: np.ndarray, context_words: np.ndarray, future_words: np.ndarray,
             costs: tuple[np.ndarray, ...]) -> str:
    """Describe invalid words or costs of a model as text; empty if all are valid."""
    histories = context_words[1:len(parents)]
    same_parent = parents[2:] == parents[1:-1]
    if (histories < 0).any() or (histories[1:] <= histories[:-1])[same_parent].any():
        return "the histories after a state are not sorted by their words"
    if len(future_words) and int(future_words.min()) <= 0:
        return f"a history is followed by the word {future_words.min()}"
    descends = np.flatnonzero(future_words[1:] <= future_words[:-1]) + 1
    if len(descends) and not np.isin(descends, arc_starts).all():
        return "the words after a history are not sorted"
    if any(np.isnan(values).any() or np.isneginf(values).any() for values in costs):
        return "a cost is not a number"
    return ""


_PROPERTIES = EXPANDED | 1 << ACCEPTOR | 1 << INPUT_SORTED | 1 << OUTPUT_SORTED      # of every n-gram model
_HINT = "an n-gram model has words in ascending order, and an arc without label to a shorter history"


def ngram_of_fst(fst: Fst) -> NgramFst:
    """Convert an acceptor with back-off arcs to an n-gram model; states get new numbers.

    Raises FormatError if it is no n-gram model: a state has two arcs of a word or two back-off arcs, the start state no
    back-off arc, or histories of states contradict each other.
    """
    backoffs, costs = _backoffs(fst)
    histories = _histories(fst, backoffs)
    order = sorted(range(fst.num_states), key=lambda state: _level_key(histories, backoffs, state))
    number = np.empty(fst.num_states, dtype=np.int64)
    number[order] = np.arange(fst.num_states)
    parents = np.where(backoffs[order] >= 0, number[np.maximum(backoffs[order], 0)], -1).astype(np.int32)
    if (np.diff(parents) < 0).any() or (fst.start >= 0 and number[fst.start] != 1):
        raise _error("its histories are no tree whose first is that of a sentence's beginning")
    is_word = fst.input_labels != 0
    leaving = number[fst.sources[is_word]]
    arcs = np.lexsort((fst.input_labels[is_word], leaving))
    words = fst.input_labels[is_word][arcs]
    context_words = np.array([histories[state][0] if histories[state] else 0 for state in order] + [0], dtype=np.int32)
    ngram = NgramFst(parents, np.concatenate(([0], np.cumsum(np.bincount(leaving, minlength=fst.num_states)))),
                     fst.final_weights[order].astype(np.float32), context_words,
                     np.append(costs[order], 0).astype(np.float32), words.astype(np.int32),
                     fst.weights[is_word][arcs].astype(np.float32), 1, fst.stored)
    sources = leaving[arcs]
    if (words < 0).any() or ((np.diff(words) <= 0) & (np.diff(sources) == 0)).any():
        raise _error("a state has two arcs of one word")
    if not np.array_equal(ngram._next_states(sources), number[fst.next_states[is_word]][arcs]):
        raise _error("an arc does not lead to the longest history of its words")
    return ngram


def _error(what: str) -> FormatError:
    return FormatError(f"an FST cannot be written as ngram: {what}", hint=_HINT)


def _backoffs(fst: Fst) -> tuple[np.ndarray, np.ndarray]:
    """Return the target of each state's back-off arc, int64 (states,), -1 for the empty history; and its cost, float32.
    """
    if not fst.is_acceptor or not fst.num_states:
        raise _error("it is not an acceptor" if fst.num_states else "it has no states")
    epsilons = np.flatnonzero(fst.input_labels == 0)
    sources = fst.sources[epsilons]
    if len(np.unique(sources)) != len(sources) or len(sources) != fst.num_states - 1:
        raise _error(f"{fst.num_states} states have {len(sources)} arcs without label, not one each but for the "
                     "shortest history")
    backoffs, costs = np.full(fst.num_states, -1, dtype=np.int64), np.zeros(fst.num_states, dtype=np.float32)
    backoffs[sources], costs[sources] = fst.next_states[epsilons], fst.weights[epsilons]
    if fst.start < 0 or backoffs[fst.start] < 0:
        raise _error("its start state does not back off")
    return backoffs, costs


def _histories(fst: Fst, backoffs: np.ndarray) -> list[tuple[int, ...]]:
    """Return the words of each state's history, the oldest first; 0 stands for the beginning of a sentence."""
    depths = np.zeros(fst.num_states, dtype=np.int64)
    state = np.arange(fst.num_states)
    for _ in range(fst.num_states):
        state = np.where(state >= 0, backoffs[np.maximum(state, 0)], -1)
        if (state < 0).all():
            break
        depths += state >= 0
    else:
        raise _error("its back-off arcs form a cycle")
    histories: dict[int, tuple[int, ...]] = {int(np.flatnonzero(backoffs < 0)[0]): ()}
    histories[fst.start] = (0,) * int(depths[fst.start])
    waiting = list(histories)
    starts = fst.arc_starts
    while waiting:
        state_ = waiting.pop()
        for arc in range(int(starts[state_]), int(starts[state_ + 1])):
            to, word = int(fst.next_states[arc]), int(fst.input_labels[arc])
            if word == 0:
                history = histories[state_][1:]
            else:
                whole = (*histories[state_], word)
                if len(whole) < depths[to]:
                    raise _error("an arc leads to a history that is longer than its words")
                history = whole[len(whole) - int(depths[to]):]
            if to not in histories:
                histories[to] = history
                waiting.append(to)
            elif histories[to] != history:
                raise _error("two ways to a state have different words")
    if len(histories) != fst.num_states:
        raise _error("there are states that its start does not lead to")
    return [histories[state_] for state_ in range(fst.num_states)]


def _level_key(histories: list[tuple[int, ...]], backoffs: np.ndarray, state: int) -> tuple[int, tuple[int, ...]]:
    """Return the key by which states are sorted in level order: length of the history, its words from the newest on."""
    return len(histories[state]), histories[state][::-1]


def write_ngram(writer: TokenWriter, ngram: NgramFst) -> None:
    """Write an n-gram model, with the properties and symbols of the file that it was read from."""
    stored = ngram.stored or Stored(KIND, _PROPERTIES, 0)
    writer.raw(binary_header(KIND, "standard", stored.properties, ngram.start, ngram.num_states, 0, stored.flags,
                             stored.symbols, VERSION))
    writer.raw(ngram_body(ngram))


def ngram_body(ngram: NgramFst) -> bytes:
    """Return the bytes of an ``ngram`` FST after its header."""
    size, words = ngram.num_states, ngram.num_arcs
    children = np.bincount(ngram.parents[1:], minlength=size)
    context = _bits(np.concatenate(([1], children)), leading=False)
    future = _bits(np.diff(ngram.arc_starts), leading=True)
    is_final = ngram.final_weights != NO_WEIGHT
    counts = np.array([size, words, int(is_final.sum())], dtype="<u8")
    return b"".join([counts.tobytes(), context, future, _packed(is_final.astype(np.uint8)),
                     np.ascontiguousarray(ngram.context_words, "<i4").tobytes(),
                     np.ascontiguousarray(ngram.future_words, "<i4").tobytes(),
                     np.ascontiguousarray(ngram.backoff, "<f4").tobytes(),
                     ngram.final_weights[is_final].astype("<f4").tobytes(),
                     np.append(ngram.future_costs, 0).astype("<f4").tobytes()])


def _bits(counts: np.ndarray, leading: bool) -> bytes:
    """Return the packed bits: for each count so many ones and a zero; with ``leading``, after a zero."""
    ends = np.cumsum(counts + 1) - 1 + leading
    bits = np.ones(int(ends[-1]) + 1, dtype=np.uint8)
    bits[ends] = 0
    if leading:
        bits[0] = 0
    return _packed(bits)


def _packed(bits: np.ndarray) -> bytes:
    """Return bits packed in 64-bit words, the lowest bit first."""
    packed = np.packbits(bits, bitorder="little")
    return packed.tobytes() + bytes(-len(packed) % 8)
