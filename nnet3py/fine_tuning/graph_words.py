"""Where words begin and end in a decoding graph, and which phones they have.

A word begins and ends where its phones say so: phones are named by their position in the word, in
``phones/word_boundary.int``. A path has as many output labels as words, in the same order; a label comes on the word's
first phone or later, perhaps as late as on the first phone of the next word. So the phones of a word are found from
the arcs that have its label: back to where it began, and on to where it ends.
"""
from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.graph_phones import GraphPhones, joined, once
from nnet3py.lattices.word_alignment import BEGIN, END, NONWORD, SINGLETON

logger = logging.getLogger(__name__)

MOST_PLACES = 300                # arcs of a word that are looked at; a static graph has some words everywhere
_AT_ONCE = 4000                 # such arcs that are followed together
_LONGEST = 400                   # arcs of a word
_UNKNOWN = 1 << 30
_ROOM = 16                       # phones of a path, at first
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class GraphWords:
    """A graph's phones, and which of them words begin and end with.

    Attributes
    ----------
    phones : what begins on each arc
    begins, ends, is_nonword : bool (arcs,): a phone begins on the arc, with which a word begins, with which it ends,
        or which belongs to no word
    """

    phones: GraphPhones
    begins: np.ndarray
    ends: np.ndarray
    is_nonword: np.ndarray

    @classmethod
    def of(cls, phones: GraphPhones, kinds: Mapping[int, str]) -> GraphWords:
        """By the kind of each phone. Nnet3Error if the graph has others, or if words do not begin where labels say."""
        used = once(phones.begun)
        unknown = [phone for phone in used.tolist() if phone and phone not in kinds]
        if unknown:
            raise Nnet3Error(f"phone {unknown[0]} of the graph is not in word_boundary.int",
                             "are graph and phones of one system?")
        names = np.array([kinds.get(phone, "") for phone in range(int(used[-1]) + 1)])
        return cls(phones, *(np.isin(names, which)[phones.begun] for which in (
            (BEGIN, SINGLETON), (END, SINGLETON), (NONWORD,))))

    @property
    def _labels(self) -> np.ndarray:
        return self.phones.graph.output_labels

    def silence(self) -> int:
        """The phone outside words that the graph has most; 0 if it has none."""
        counts = np.bincount(self.phones.begun[self.is_nonword])
        return int(counts.argmax()) if len(counts) else 0

    @cached_property
    def open_words(self) -> np.ndarray:
        """int32 (states,): how many words have begun before a state whose labels are still to come.

        -1 and less where labels come before their words, a large number where no path leads. Nnet3Error if paths to a
        state differ.
        """
        graph, sources = self.phones.graph, self.phones.graph.sources
        change = self.begins.astype(np.int32) - (self._labels != 0)
        opened = np.full(graph.num_states, _UNKNOWN, dtype=np.int32)
        opened[graph.start] = 0
        states = np.array([graph.start])
        while len(states):
            arcs = self.leaving(states)[0]
            arcs = arcs[opened[graph.next_states[arcs]] == _UNKNOWN]
            states = once(graph.next_states[arcs])
            opened[graph.next_states[arcs]] = opened[sources[arcs]] + change[arcs]
        is_reached = opened[sources] != _UNKNOWN
        if (opened[sources] + change != opened[graph.next_states])[is_reached].any():
            raise Nnet3Error("paths of the graph have other numbers of words than of words' beginnings",
                             "are graph and word_boundary.int of one system?")
        return opened

    def pronunciations(self, wanted: Collection[int] | None = None,
                       most_places: int = MOST_PLACES) -> dict[int, list[tuple[int, ...]]]:
        """By word, its phones, numbers with their position in the word; the most frequent ones first.

        ``wanted``: words that are asked for; None for all. Words that the graph lacks are not in the result.
        ``most_places``: arcs of a word that are looked at; with few, rare pronunciations are missed. Nnet3Error if none
        of its words can be had.
        """
        arcs = self._places(wanted, most_places)
        counts: dict[tuple[int, tuple[int, ...]], int] = {}
        for first in range(0, len(arcs), _AT_ONCE):
            for label, spoken, count in self._spoken(arcs[first:first + _AT_ONCE]):
                counts[label, spoken] = counts.get((label, spoken), 0) + count
        if len(arcs) and not counts:
            raise Nnet3Error("no word of the graph begins and ends where word_boundary.int says that words do")
        pronunciations: dict[int, list[tuple[int, ...]]] = {}
        for (label, spoken), _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            pronunciations.setdefault(label, []).append(spoken)
        missing = len(once(self._labels[arcs])) - len(pronunciations)
        if missing:
            logger.warning("%d words of the graph have no pronunciation that could be had", missing)
        return pronunciations

    def _places(self, wanted: Collection[int] | None, most: int) -> np.ndarray:
        """Arcs with labels; of each label not too many, spread over the graph."""
        arcs = np.flatnonzero(self._labels)
        if wanted is not None:
            arcs = arcs[np.isin(self._labels[arcs], np.fromiter(wanted, dtype=np.int64, count=len(wanted)))]
        arcs = arcs[np.argsort(self._labels[arcs], kind="stable")]
        counts = np.bincount(self._labels[arcs]) if len(arcs) else np.zeros(1, dtype=np.int64)
        its_count = counts[self._labels[arcs]]
        rank = np.arange(len(arcs)) - (np.cumsum(counts) - counts)[self._labels[arcs]]
        return arcs[rank % -(-its_count // most) == 0]

    # -- walking -------------------------------------------------------------------------------------------------------

    def leaving(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The arcs that leave each of some states, without self-loops; and how many each has."""
        return self._onward(states)

    @cached_property
    def _onward(self) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        return by_state(self.phones.graph.sources, np.flatnonzero(~self.phones.is_loop).astype(np.int32))

    @cached_property
    def _backward(self) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        arcs = np.flatnonzero(~self.phones.is_loop).astype(np.int32)
        return by_state(self.phones.graph.next_states,
                         arcs[np.argsort(self.phones.graph.next_states[arcs], kind="stable")])

    def _spoken(self, arcs: np.ndarray) -> Iterator[tuple[int, tuple[int, ...], int]]:
        """Words with the phones that they have around arcs with their labels, and how often."""
        begun = self._back_to_the_beginning(arcs)
        is_over = self.ends[begun.first_arcs]
        whole = [begun.chosen(is_over).turned_round(), self._on_to_the_end(begun.chosen(~is_over).turned_round())]
        for paths in whole:
            labels = self._labels[paths.roots]
            chosen, counts = _first_of_each(_mixed(labels, paths.codes))
            phones, lengths = paths.phones[chosen], paths.lengths[chosen]
            for label, spoken, length, count in zip(labels[chosen].tolist(), phones.tolist(), lengths.tolist(),
                                                    counts.tolist(), strict=True):
                yield label, tuple(spoken[:length]), count

    def _back_to_the_beginning(self, arcs: np.ndarray) -> _Paths:
        """The phones, the last one first, of the words whose labels are on arcs, up to these arcs."""
        sources, begun = self.phones.graph.sources, self.phones.begun
        waiting = self.open_words[sources[arcs]] + self.begins[arcs]     # words to go back over, with the label's own
        arcs, waiting = arcs[waiting > 0], waiting[waiting > 0]
        paths, finished = _Paths.of(arcs, sources[arcs]), []
        for _ in range(_LONGEST):
            of_word = (waiting == 1) & (begun[arcs] > 0) & ~(self.is_nonword[arcs] & (paths.lengths == 0))
            is_wrong = of_word & (paths.lengths > 0) & (self.is_nonword[arcs] | self.ends[arcs])
            paths.add(of_word, begun[arcs], arcs)
            is_done = of_word & self.begins[arcs]
            waiting = waiting - ((waiting > 1) & self.begins[arcs])
            done = np.flatnonzero(is_done & ~is_wrong)         # after each of many phones: once is enough
            finished.append(paths.chosen(done[_first_of_each(_mixed(paths.roots[done], paths.codes[done]))[0]]))
            left = np.flatnonzero(~is_done & ~is_wrong)
            left = left[_first_of_each(_mixed(paths.roots[left], paths.states[left], paths.codes[left],
                                              waiting[left]))[0]]
            if not len(left):
                break
            arcs, repeats = self._backward(paths.states[left])
            left = np.repeat(left, repeats)
            paths, waiting = paths.chosen(left, sources[arcs]), waiting[left]
        return _Paths.together(finished)

    def _on_to_the_end(self, paths: _Paths) -> _Paths:
        """The same phones and those that come until the word ends, from the arcs with its label on."""
        next_states, begun = self.phones.graph.next_states, self.phones.begun
        paths, finished = paths.chosen(np.arange(len(paths.roots)), next_states[paths.roots]), []
        for _ in range(_LONGEST):
            if not len(paths.roots):
                break
            arcs, repeats = self.leaving(paths.states)
            paths = paths.chosen(np.repeat(np.arange(len(repeats)), repeats), next_states[arcs])
            of_word = (begun[arcs] > 0) & ~self.begins[arcs] & ~self.is_nonword[arcs]
            paths.add(of_word, begun[arcs], arcs)
            finished.append(paths.chosen(of_word & self.ends[arcs]))
            left = np.flatnonzero((begun[arcs] == 0) | of_word & ~self.ends[arcs])
            paths = paths.chosen(left[_first_of_each(_mixed(paths.roots[left], paths.states[left],
                                                            paths.codes[left]))[0]])
        return _Paths.together(finished)


@dataclass(eq=False)
class _Paths:
    """Parts of paths through a graph, each with the arc that it was looked for from.

    Attributes
    ----------
    roots : these arcs
    states : where each path has come to
    phones : (paths, room), phones in the order in which they were met
    lengths : how many
    codes : of the phones; two sequences have the same only by a chance of 1 in 2 ** 64
    first_arcs : the arc of the first phone that was met
    """

    roots: np.ndarray
    states: np.ndarray
    phones: np.ndarray
    lengths: np.ndarray
    codes: np.ndarray
    first_arcs: np.ndarray

    @classmethod
    def of(cls, arcs: np.ndarray, states: np.ndarray) -> _Paths:
        """Paths without phones."""
        nothing = np.zeros(len(arcs), dtype=np.int64)
        return cls(arcs, states, np.zeros((len(arcs), _ROOM), dtype=np.int32), nothing, nothing.astype(np.uint64),
                   nothing.copy())

    def chosen(self, which: np.ndarray, states: np.ndarray | None = None) -> _Paths:
        """Some of the paths, by a mask or by their numbers; ``states``: that have gone on to others."""
        return _Paths(self.roots[which], self.states[which] if states is None else states, self.phones[which],
                      self.lengths[which], self.codes[which], self.first_arcs[which])

    def add(self, which: np.ndarray, phones: np.ndarray, arcs: np.ndarray) -> None:
        """Add a phone each to the paths for which ``which`` is true."""
        rows = np.flatnonzero(which)
        if len(rows) and int(self.lengths[rows].max()) == self.phones.shape[1]:
            self.phones = np.concatenate((self.phones, np.zeros_like(self.phones)), axis=1)
        self.phones[rows, self.lengths[rows]] = phones[rows]
        self.codes[rows] = _mixed(self.codes[rows], phones[rows])
        is_first = rows[self.lengths[rows] == 0]
        self.first_arcs[is_first] = arcs[is_first]
        self.lengths = self.lengths + which

    def turned_round(self) -> _Paths:
        """With the phones in the opposite order."""
        rows = np.arange(self.phones.shape[1])
        places = np.where(rows < self.lengths[:, None], self.lengths[:, None] - 1 - rows, rows)
        phones = np.take_along_axis(self.phones, places, axis=1)
        codes = np.zeros_like(self.codes)
        for place in range(phones.shape[1]):
            is_there = place < self.lengths
            codes[is_there] = _mixed(codes[is_there], phones[is_there, place])
        return dataclasses.replace(self, phones=phones, codes=codes)

    @classmethod
    def together(cls, parts: list[_Paths]) -> _Paths:
        """All paths of several, of which there may be none."""
        parts = parts or [cls.of(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
        room = max(part.phones.shape[1] for part in parts)
        phones = [np.pad(part.phones, ((0, 0), (0, room - part.phones.shape[1]))) for part in parts]
        roots, states, lengths, codes, first_arcs = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("roots", "states", "lengths", "codes", "first_arcs"))
        return cls(roots, states, np.concatenate(phones), lengths, codes, first_arcs)


def by_state(states: np.ndarray, arcs: np.ndarray) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """A function that gives the arcs of each of some states, and how many each has; ``arcs``: in order of states."""
    keys = states[arcs]

    def of_states(wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places, repeats = joined(wanted, keys)
        return arcs[places], repeats

    return of_states


def _mixed(*columns: np.ndarray) -> np.ndarray:
    """uint64: a number for each row of several columns, practically never the same for two different ones."""
    code = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        code = (code ^ column.astype(np.uint64)) * _FACTORS[0] + _FACTORS[1]
        code ^= code >> np.uint64(29)
        code *= _FACTORS[2]
    return code


def _first_of_each(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of the first of equal keys, for each; and how many are equal."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(is_new)
    return order[starts], np.diff(np.append(starts, len(order)))
