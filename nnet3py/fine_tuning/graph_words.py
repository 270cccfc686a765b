"""Phones, words and pronunciations of a decoding graph, and random sentences from it.

Phones are named by their position in the word, in ``phones/word_boundary.int``, so they show where words begin and end.
A path has as many output labels as words, in the same order; a label is on the word's first phone or later, perhaps as
late as on the first phone of the next word. So the phones of a word are found from the arcs with its label: back to the
beginning of the word, and on to its end. All arrays are over all arcs or states of the graph.
"""
from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.errors import Nnet3Error
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.word_alignment import BEGIN, END, NONWORD, SINGLETON
from nnet3py.random_sequence import unsigned
from nnet3py.transducers.fst import Fst

NO_PHONE = 0
MOST_PAIRS = 20_000_000       # pairs of a state and a phone before it, or an HMM state's phones, in memory


@dataclass(frozen=True, eq=False)
class GraphPhones:
    """Phones on the arcs of a graph, from their transition-ids."""

    graph: Fst  # graph from transition-ids to words, with self-loops
    # int32 (arcs,), transition-ids; 0 for epsilons and for labels above the model's, such as disambiguation symbols
    ids: np.ndarray
    is_loop: np.ndarray  # bool (arcs,), whether the arc is a self-loop of an HMM state
    begun: np.ndarray    # int32 (arcs,), the phone whose first HMM state the arc enters; 0 for none

    @classmethod
    def of(cls, graph: Fst, model: TransitionModel) -> GraphPhones:
        """Compute the arrays for a graph. Raises Nnet3Error for a graph without phones."""
        labels = graph.input_labels
        if graph.start < 0 or not graph.num_arcs or int(labels.min()) < 0:
            raise Nnet3Error("the graph has no arcs, or input labels that are not transition-ids")
        ids = np.where(labels > model.num_transition_ids, 0, labels)
        is_loop = model.is_self_loop[ids] & (ids != 0)
        begins = (ids != 0) & ~is_loop & (model.transition_id_to_hmm_state[ids] == 0)
        if not begins.any():
            raise Nnet3Error("no phone begins in the graph", "was the graph made for this final.mdl?")
        begun = np.where(begins, model.transition_id_to_phone[ids], NO_PHONE).astype(np.int32)
        return cls(graph, ids, is_loop, begun)

    def phones_before(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs of a state and a phone that is the last one on some path to it.

        Raises Nnet3Error for more than MOST_PAIRS pairs.

        Returns states and phones, int64 (pairs,) each, sorted; the phone is 0 for a path without phones.
        """
        size = int(self.begun.max()) + 1
        begins = self.begun > 0
        first = np.append(self.graph.next_states[begins] * np.int64(size) + self.begun[begins], self.graph.start * size)
        pairs = self.spread(sorted_unique(first), size, ~begins & ~self.is_loop)
        states, phones = np.divmod(pairs, size)
        return states, phones

    def spread(self, pairs: np.ndarray, size: int, passing: np.ndarray) -> np.ndarray:
        """Propagate values of states along arcs to all states that can be reached.

        ``pairs``: int64 (pairs,), sorted, ``state * size + value``. ``passing``: bool (arcs,), whether values are
        propagated along the arc.

        Returns all pairs, int64, sorted, those given included. Raises Nnet3Error for more than MOST_PAIRS pairs.
        """
        arcs = np.flatnonzero(passing)
        sources = self.graph.sources[arcs].astype(np.int64)
        frontier = pairs
        while len(arcs) and len(frontier):
            states, values = np.divmod(frontier, size)
            taken, repeats = places_among(states, sources)
            targets = self.graph.next_states[arcs[taken]].astype(np.int64)
            moved = sorted_unique(targets * size + np.repeat(values, repeats))
            frontier = moved[pairs[np.minimum(np.searchsorted(pairs, moved), len(pairs) - 1)] != moved]
            pairs = sorted_unique(np.concatenate((pairs, frontier)))
            if len(pairs) > MOST_PAIRS:
                raise Nnet3Error(f"the graph has more than {MOST_PAIRS:,} pairs of a state and a phone before it",
                                 "put the file 'tree' of the model's training into its folder")
        return pairs


def sorted_unique(values: np.ndarray) -> np.ndarray:
    """Return the sorted distinct values, as ``numpy.unique``, which is many times slower for millions of values."""
    values = np.sort(values)
    is_new = np.ones(len(values), dtype=bool)
    is_new[1:] = values[1:] != values[:-1]
    return values[is_new]


def places_among(values: np.ndarray, sorted_keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find all occurrences of some values in a sorted array.

    Returns the indexes in ``sorted_keys`` of the keys equal to the first value, then to the second, and so on; and
    int64 (values,), the number of such keys for each value.
    """
    values = values.astype(sorted_keys.dtype, copy=False)        # otherwise numpy converts all keys
    first = np.searchsorted(sorted_keys, values)
    repeats = np.searchsorted(sorted_keys, values, side="right") - first
    offsets = np.cumsum(repeats) - repeats
    return np.repeat(first - offsets, repeats) + np.arange(int(repeats.sum())), repeats


# -- words -------------------------------------------------------------------------------------------------------------

logger = logging.getLogger(__name__)

MOST_PLACES = 300                # arcs per word from which its phones are searched; static graphs may have thousands
_AT_ONCE = 4000                  # such arcs in one vectorized search
_MOST_ARCS_OF_WORD = 400         # longest path through a word
_UNKNOWN = 1 << 30
_ROOM = 16                       # initial room for the phones of a path
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class GraphWords:
    """Word boundaries in a graph."""

    phones: GraphPhones  # phones on each arc
    # begins, ends, is_nonword: bool (arcs,), whether the phone that begins on the arc is the first of a word, the last
    # of a word, or outside words
    begins: np.ndarray
    ends: np.ndarray
    is_nonword: np.ndarray

    @classmethod
    def of(cls, phones: GraphPhones, kinds: Mapping[int, str]) -> GraphWords:
        """Compute the arrays. Raises Nnet3Error for a phone of the graph that has no entry in ``kinds``.

        ``kinds`` : position in the word (begin, end, internal, singleton, nonword) of each phone
        """
        used = sorted_unique(phones.begun)
        unknown = [phone for phone in used.tolist() if phone and phone not in kinds]
        if unknown:
            raise Nnet3Error(f"phone {unknown[0]} of the graph is not in word_boundary.int",
                             "was the graph made with the phones of this word_boundary.int?")
        names = np.array([kinds.get(phone, "") for phone in range(int(used[-1]) + 1)])
        return cls(phones, *(np.isin(names, which)[phones.begun] for which in (
            (BEGIN, SINGLETON), (END, SINGLETON), (NONWORD,))))

    @property
    def _labels(self) -> np.ndarray:
        return self.phones.graph.output_labels

    def silence(self) -> int:
        """Return the most frequent phone outside words; 0 if there is none."""
        counts = np.bincount(self.phones.begun[self.is_nonword])
        return int(counts.argmax()) if len(counts) else 0

    @cached_property
    def open_words(self) -> np.ndarray:
        """Number of words that begin before each state, minus the number of output labels before it: int32 (states,).

        It is negative where a label precedes its word, and a large number for unreachable states. Raises Nnet3Error if
        it is not the same on all paths to a state.
        """
        graph, sources = self.phones.graph, self.phones.graph.sources
        change = self.begins.astype(np.int32) - (self._labels != 0)
        opened = np.full(graph.num_states, _UNKNOWN, dtype=np.int32)
        opened[graph.start] = 0
        states = np.array([graph.start])
        while len(states):
            arcs = self.leaving(states)[0]
            arcs = arcs[opened[graph.next_states[arcs]] == _UNKNOWN]
            states = sorted_unique(graph.next_states[arcs])
            opened[graph.next_states[arcs]] = opened[sources[arcs]] + change[arcs]
        is_reached = opened[sources] != _UNKNOWN
        if (opened[sources] + change != opened[graph.next_states])[is_reached].any():
            raise Nnet3Error("on paths of the graph, output labels and beginnings of words differ in number",
                             "was the graph made with the phones of this word_boundary.int?")
        return opened

    def pronunciations(self, wanted: Collection[int] | None = None,
                       most_places: int = MOST_PLACES) -> dict[int, list[tuple[int, ...]]]:
        """Return the pronunciations of words, numbers of position-dependent phones, the most frequent ones first.

        Parameters
        ----------
        wanted : numbers of the words to look for; None for all. Words that the graph lacks are not in the result
        most_places : most arcs with a word's label from which its phones are searched; if it is small, rare
            pronunciations are missed

        Raises Nnet3Error if no complete pronunciation of any word is found.
        """
        arcs = self._places(wanted, most_places)
        counts: dict[tuple[int, tuple[int, ...]], int] = {}
        for first in range(0, len(arcs), _AT_ONCE):
            for label, spoken, count in self._spoken(arcs[first:first + _AT_ONCE]):
                counts[label, spoken] = counts.get((label, spoken), 0) + count
        if len(arcs) and not counts:
            raise Nnet3Error("no word of the graph begins and ends as word_boundary.int says")
        pronunciations: dict[int, list[tuple[int, ...]]] = {}
        for (label, spoken), _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            pronunciations.setdefault(label, []).append(spoken)
        missing = len(sorted_unique(self._labels[arcs])) - len(pronunciations)
        if missing:
            logger.warning("no pronunciation of %d words of the graph could be recovered", missing)
        return pronunciations

    def _places(self, wanted: Collection[int] | None, most: int) -> np.ndarray:
        """Return arcs with output labels in ``wanted``, at most ``most`` per label, evenly chosen from all of them."""
        arcs = np.flatnonzero(self._labels)
        if wanted is not None:
            arcs = arcs[np.isin(self._labels[arcs], np.fromiter(wanted, dtype=np.int64, count=len(wanted)))]
        arcs = arcs[np.argsort(self._labels[arcs], kind="stable")]
        counts = np.bincount(self._labels[arcs]) if len(arcs) else np.zeros(1, dtype=np.int64)
        its_count = counts[self._labels[arcs]]
        rank = np.arange(len(arcs)) - (np.cumsum(counts) - counts)[self._labels[arcs]]
        return arcs[rank % -(-its_count // most) == 0]

    # -- search along arcs ---------------------------------------------------------------------------------------------

    @cached_property
    def leaving(self) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Function that returns the arcs that leave some states, without self-loops, as :func:`by_state`."""
        return by_state(self.phones.graph.sources, np.flatnonzero(~self.phones.is_loop).astype(np.int32))

    @cached_property
    def _backward(self) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        arcs = np.flatnonzero(~self.phones.is_loop).astype(np.int32)
        return by_state(self.phones.graph.next_states,
                         arcs[np.argsort(self.phones.graph.next_states[arcs], kind="stable")])

    def _spoken(self, arcs: np.ndarray) -> Iterator[tuple[int, tuple[int, ...], int]]:
        """Search the pronunciations of the words whose labels are on ``arcs``.

        Yields the word, its phones, and the number of paths on which the word has these phones.
        """
        begun = self._phones_before_label(arcs)
        is_over = self.ends[begun.first_arcs]
        whole = [begun.chosen(is_over).reversed_phones(),
                 self._phones_after_label(begun.chosen(~is_over).reversed_phones())]
        for paths in whole:
            labels = self._labels[paths.roots]
            chosen, counts = _first_places(_hashed(labels, paths.codes))
            phones, lengths = paths.phones[chosen], paths.lengths[chosen]
            for label, spoken, length, count in zip(labels[chosen].tolist(), phones.tolist(), lengths.tolist(),
                                                    counts.tolist(), strict=True):
                yield label, tuple(spoken[:length]), count

    def _phones_before_label(self, arcs: np.ndarray) -> _Paths:
        """Search backward from arcs with labels to the first phone of the label's word; phones are in reverse order."""
        sources, begun = self.phones.graph.sources, self.phones.begun
        waiting = self.open_words[sources[arcs]] + self.begins[arcs]     # words to go back over, including the label's
        arcs, waiting = arcs[waiting > 0], waiting[waiting > 0]
        paths, finished = _Paths.of(arcs, sources[arcs]), []
        for _ in range(_MOST_ARCS_OF_WORD):
            of_word = (waiting == 1) & (begun[arcs] > 0) & ~(self.is_nonword[arcs] & (paths.lengths == 0))
            is_wrong = of_word & (paths.lengths > 0) & (self.is_nonword[arcs] | self.ends[arcs])
            paths.add(of_word, begun[arcs], arcs)
            is_done = of_word & self.begins[arcs]
            waiting = waiting - ((waiting > 1) & self.begins[arcs])
            done = np.flatnonzero(is_done & ~is_wrong)         # the same path may come from many arcs
            finished.append(paths.chosen(done[_first_places(_hashed(paths.roots[done], paths.codes[done]))[0]]))
            left = np.flatnonzero(~is_done & ~is_wrong)
            left = left[_first_places(_hashed(paths.roots[left], paths.states[left], paths.codes[left],
                                              waiting[left]))[0]]
            if not len(left):
                break
            arcs, repeats = self._backward(paths.states[left])
            left = np.repeat(left, repeats)
            paths, waiting = paths.chosen(left, sources[arcs]), waiting[left]
        return _Paths.together(finished)

    def _phones_after_label(self, paths: _Paths) -> _Paths:
        """Search forward from the arc with the label, and append phones up to the last one of the word."""
        next_states, begun = self.phones.graph.next_states, self.phones.begun
        paths, finished = paths.chosen(np.arange(len(paths.roots)), next_states[paths.roots]), []
        for _ in range(_MOST_ARCS_OF_WORD):
            if not len(paths.roots):
                break
            arcs, repeats = self.leaving(paths.states)
            paths = paths.chosen(np.repeat(np.arange(len(repeats)), repeats), next_states[arcs])
            of_word = (begun[arcs] > 0) & ~self.begins[arcs] & ~self.is_nonword[arcs]
            paths.add(of_word, begun[arcs], arcs)
            finished.append(paths.chosen(of_word & self.ends[arcs]))
            left = np.flatnonzero((begun[arcs] == 0) | of_word & ~self.ends[arcs])
            paths = paths.chosen(left[_first_places(_hashed(paths.roots[left], paths.states[left],
                                                            paths.codes[left]))[0]])
        return _Paths.together(finished)


@dataclass(eq=False)
class _Paths:
    """Partial paths of a search through a graph."""

    roots: np.ndarray       # int (paths,), the arc where the search began
    states: np.ndarray      # int (paths,), the state that the search has reached
    phones: np.ndarray      # int32 (paths, longest possible), phones in the order of the search, padded with zeros
    lengths: np.ndarray     # int64 (paths,), numbers of phones
    codes: np.ndarray       # uint64 (paths,), a hash of the phones, by which paths are compared
    first_arcs: np.ndarray  # int64 (paths,), the arc of the first phone in the order of the search

    @classmethod
    def of(cls, arcs: np.ndarray, states: np.ndarray) -> _Paths:
        """Make paths without phones."""
        nothing = np.zeros(len(arcs), dtype=np.int64)
        return cls(arcs, states, np.zeros((len(arcs), _ROOM), dtype=np.int32), nothing, nothing.astype(np.uint64),
                   nothing.copy())

    def chosen(self, which: np.ndarray, states: np.ndarray | None = None) -> _Paths:
        """Return the paths selected by a mask or by indexes; ``states``, if given, replaces their states."""
        return _Paths(self.roots[which], self.states[which] if states is None else states, self.phones[which],
                      self.lengths[which], self.codes[which], self.first_arcs[which])

    def add(self, which: np.ndarray, phones: np.ndarray, arcs: np.ndarray) -> None:
        """Append ``phones[i]``, which began on ``arcs[i]``, to each path i for which ``which[i]`` is true."""
        rows = np.flatnonzero(which)
        if len(rows) and int(self.lengths[rows].max()) == self.phones.shape[1]:
            self.phones = np.concatenate((self.phones, np.zeros_like(self.phones)), axis=1)
        self.phones[rows, self.lengths[rows]] = phones[rows]
        self.codes[rows] = _hashed(self.codes[rows], phones[rows])
        is_first = rows[self.lengths[rows] == 0]
        self.first_arcs[is_first] = arcs[is_first]
        self.lengths = self.lengths + which

    def reversed_phones(self) -> _Paths:
        """Return the paths with the phones in reverse order."""
        rows = np.arange(self.phones.shape[1])
        places = np.where(rows < self.lengths[:, None], self.lengths[:, None] - 1 - rows, rows)
        phones = np.take_along_axis(self.phones, places, axis=1)
        codes = np.zeros_like(self.codes)
        for place in range(phones.shape[1]):
            is_there = place < self.lengths
            codes[is_there] = _hashed(codes[is_there], phones[is_there, place])
        return dataclasses.replace(self, phones=phones, codes=codes)

    @classmethod
    def together(cls, parts: list[_Paths]) -> _Paths:
        """Concatenate several sets of paths; an empty list gives an empty set."""
        parts = parts or [cls.of(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
        room = max(part.phones.shape[1] for part in parts)
        phones = [np.pad(part.phones, ((0, 0), (0, room - part.phones.shape[1]))) for part in parts]
        roots, states, lengths, codes, first_arcs = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("roots", "states", "lengths", "codes", "first_arcs"))
        return cls(roots, states, np.concatenate(phones), lengths, codes, first_arcs)


def by_state(states: np.ndarray, arcs: np.ndarray) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return a function that looks up the arcs of states.

    Its argument is an array of states; its results are the arcs of all these states, concatenated, and the number of
    arcs of each state.

    ``states``: the state of each arc of the graph, such as its source. ``arcs``: the arcs to look up, sorted by their
    state.
    """
    keys = states[arcs]

    def of_states(wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places, repeats = places_among(wanted, keys)
        return arcs[places], repeats

    return of_states


def _hashed(*columns: np.ndarray) -> np.ndarray:
    """Return a hash of the i-th elements of several arrays, for each i: uint64, as long as the arrays."""
    code = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        code = (code ^ column.astype(np.uint64)) * _FACTORS[0] + _FACTORS[1]
        code ^= code >> np.uint64(29)
        code *= _FACTORS[2]
    return code


def _first_places(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each distinct key, the index of its first occurrence, and the number of its occurrences."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(is_new)
    return order[starts], np.diff(np.append(starts, len(order)))


# -- lexicon and random sentences --------------------------------------------------------------------------------------

_END = -1
_MOST_ARCS_OF_SENTENCE = 2000                  # arcs of a sentence that is drawn
_FEW_PLACES = 2                  # arcs that are followed where one pronunciation of a word is enough
_SILENCE_PROB = 0.5              # Kaldi's prepare_lang.sh


class GraphLexicon(NamedTuple):
    """Words of a graph."""

    # number of a word -> its pronunciations, each the numbers of position-dependent phones; the most frequent
    # pronunciation is first
    pronunciations: dict[int, list[tuple[int, ...]]]
    silence: int  # the most frequent phone outside words; 0 if there is none


class Sentence(NamedTuple):
    """Sentence as the numbers of its words, and of its phones including silences."""

    words: tuple[int, ...]
    phones: tuple[int, ...]


def recover_lexicon(graph: Fst, model: TransitionModel, kinds: Mapping[int, str],
                    wanted: Collection[int] | None = None, others: Collection[int] = ()) -> GraphLexicon:
    """Recover the pronunciations of the words of a graph.

    Parameters
    ----------
    graph : graph from transition-ids to words, with self-loops
    kinds : kind of each phone, as :func:`~nnet3py.lattices.word_alignment.read_word_boundaries` reads them
    wanted : numbers of the words to look for; None for all words of the graph
    others : further words, which are searched less thoroughly: rare pronunciations may be missed

    Raises Nnet3Error if the kinds of the phones do not fit the graph's words.
    """
    words = GraphWords.of(GraphPhones.of(graph, model), kinds)
    pronunciations = words.pronunciations(wanted)
    more = words.pronunciations({*others} - pronunciations.keys(), _FEW_PLACES) if others else {}
    return GraphLexicon({**more, **pronunciations}, words.silence())


def draw_texts(grammar: Fst, count: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Draw ``count`` random sentences, as numbers of words, from a grammar whose output labels are words."""
    texts = []
    for taken in draw_paths(grammar, np.arange(grammar.num_arcs), count, seed):
        labels = grammar.output_labels[taken]
        texts.append(tuple(labels[labels > 0].tolist()))
    return texts


def spoken(texts: Iterable[tuple[int, ...]], lexicon: GraphLexicon, seed: int = 0) -> Iterator[Sentence]:
    """Add phones to sentences: the first pronunciation of each word; skip sentences with words outside the lexicon.

    With probability 0.5, as in Kaldi's graphs, there is a silence at the beginning and after each word.
    """
    random = np.random.default_rng([unsigned(seed), 1])
    for words in texts:
        if all(word in lexicon.pronunciations for word in words):
            phones: list[int] = []
            for word in (0, *words):
                phones += lexicon.pronunciations[word][0] if word else ()
                if lexicon.silence and random.random() < _SILENCE_PROB:
                    phones.append(lexicon.silence)
            yield Sentence(words, tuple(phones))


def draw_sentences(graph: Fst, model: TransitionModel, count: int, seed: int = 0) -> Iterator[Sentence]:
    """Draw ``count`` random sentences from a decoding graph, by the probabilities of its arcs; skip very long ones.

    Raises Nnet3Error if no path reaches a final state.
    """
    phones = GraphPhones.of(graph, model)
    for taken in draw_paths(graph, np.flatnonzero(~phones.is_loop), count, seed):
        spoken, words = phones.begun[taken], graph.output_labels[taken]
        yield Sentence(tuple(words[words > 0].tolist()), tuple(spoken[spoken > 0].tolist()))


def draw_paths(graph: Fst, kept: np.ndarray, count: int, seed: int) -> Iterator[np.ndarray]:
    """Draw ``count`` random paths that use only the arcs ``kept``; yield the arcs of each. Skip very long paths.

    Raises Nnet3Error if no path reaches a final state.
    """
    finals = np.flatnonzero(graph.is_final)
    # Final weights count as arcs to no state.
    sources = np.concatenate((graph.sources[kept], finals))
    arcs = np.concatenate((kept, np.full(len(finals), _END)))
    costs = np.concatenate((graph.weights[kept], graph.final_weights[finals])).astype(np.float64)
    order = np.argsort(sources, kind="stable")
    sources, arcs, costs = sources[order], arcs[order], costs[order]
    least = np.full(graph.num_states, np.inf)
    np.minimum.at(least, sources, costs)
    weights = np.exp(least[sources] - costs)
    sums = np.bincount(sources, weights, minlength=graph.num_states)
    below = np.cumsum(weights) - weights
    starts = np.searchsorted(sources, np.arange(graph.num_states + 1))
    offsets = np.concatenate((below, [0.0]))[np.minimum(starts[:-1], len(below))]
    places = sources + (below - offsets[sources] + weights) / sums[sources]       # where an arc's interval ends

    random = np.random.default_rng(unsigned(seed))
    states = np.full(count, graph.start)
    going, passed = np.arange(count), []
    for _ in range(_MOST_ARCS_OF_SENTENCE):
        if not len(going):
            break
        here = states[going]
        chosen = np.searchsorted(places, here + random.random(len(going)), side="right")
        taken = arcs[np.clip(chosen, starts[here], starts[here + 1] - 1)]
        going, taken = going[taken != _END], taken[taken != _END]
        passed.append((going, taken))
        states[going] = graph.next_states[taken]
    if len(going) == count:
        raise Nnet3Error("no sentence could be drawn from the graph: its paths do not end")
    paths, taken = (np.concatenate(values) for values in zip(*passed, strict=True))
    order = np.argsort(paths, kind="stable")
    paths, taken = paths[order], taken[order]
    bounds = np.searchsorted(paths, np.arange(count + 1))
    for path in np.setdiff1d(np.arange(count), going).tolist():
        yield taken[bounds[path]:bounds[path + 1]]
