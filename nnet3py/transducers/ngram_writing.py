"""Making OpenFst's FSTs of type ``ngram`` of acceptors that are back-off language models."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.io.tokens import TokenWriter
from nnet3py.transducers.fst import NO_WEIGHT, Fst, Stored, binary_header
from nnet3py.transducers.fst_properties import ACCEPTOR, EXPANDED, INPUT_SORTED, OUTPUT_SORTED
from nnet3py.transducers.ngram_fst import KIND, VERSION, NgramFst

_PROPERTIES = EXPANDED | 1 << ACCEPTOR | 1 << INPUT_SORTED | 1 << OUTPUT_SORTED      # of every n-gram model
_HINT = "an n-gram model has words in ascending order, and an arc without label to a shorter history"


def ngram_of_fst(fst: Fst) -> NgramFst:
    """The n-gram model that an acceptor is, its states numbered anew.

    Raises FormatError for one that is none: a state with two arcs of a word or two back-offs, a start state without a
    back-off, states whose histories contradict each other.
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
    """int64 and float32 (states,): where each state backs off to, -1 for the one that does not, and at what cost."""
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
    """The words of each state's history, the oldest first; 0 stands for a sentence's beginning."""
    depths = np.zeros(fst.num_states, dtype=np.int64)
    state = np.arange(fst.num_states)
    for _ in range(fst.num_states):
        state = np.where(state >= 0, backoffs[np.maximum(state, 0)], -1)
        if (state < 0).all():
            break
        depths += state >= 0
    else:
        raise _error("its states back off in a circle")
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
    """Histories by length, then by words, from the newest to the oldest: level order of the tree."""
    return len(histories[state]), histories[state][::-1]


def write_ngram(writer: TokenWriter, ngram: NgramFst) -> None:
    """Write an n-gram model with its properties and symbols, those that its file had."""
    stored = ngram.stored or Stored(KIND, _PROPERTIES, 0)
    writer.raw(binary_header(KIND, "standard", stored.properties, ngram.start, ngram.num_states, 0, stored.flags,
                             stored.symbols, VERSION))
    writer.raw(ngram_body(ngram))


def ngram_body(ngram: NgramFst) -> bytes:
    """The bytes of an ``ngram`` FST after its header."""
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
    """As many ones as each count says, and a zero after them; ``leading``: and a zero before all."""
    ends = np.cumsum(counts + 1) - 1 + leading
    bits = np.ones(int(ends[-1]) + 1, dtype=np.uint8)
    bits[ends] = 0
    if leading:
        bits[0] = 0
    return _packed(bits)


def _packed(bits: np.ndarray) -> bytes:
    """Bits in words of 64, the lowest first."""
    packed = np.packbits(bits, bitorder="little")
    return packed.tobytes() + bytes(-len(packed) % 8)
