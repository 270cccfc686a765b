"""The pronunciations of words, recovered from a decoding graph, and sentences drawn from it.

A word begins and ends where its phones say so: phones are named by their position in the word, in
``phones/word_boundary.int``. A path has as many output labels as words, in the same order; a label may come as late
as on the first phone of the next word.
"""
from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.word_alignment import BEGIN, END, NONWORD, SINGLETON
from nnet3py.transducers.fst import Fst

logger = logging.getLogger(__name__)

_MOST_STEPS = 3_000_000          # over arcs; more are taken only as long as words are missing
_PATIENCE = 10                   # times as many: then words that are missing stay missing
_UNKNOWN = 1 << 30
_END = -1
_LONGEST = 2000                  # arcs of a sentence that is drawn
_SILENCE_PROB = 0.5              # Kaldi's prepare_lang.sh


class GraphLexicon(NamedTuple):
    """What a graph says of words.

    Attributes
    ----------
    pronunciations : by word, its phones, numbers with their position in the word; the most frequent ones first
    silence : the phone between words that the graph has most; 0 if it has none
    """

    pronunciations: dict[int, list[tuple[int, ...]]]
    silence: int


class Sentence(NamedTuple):
    """A path through a graph: numbers of words, and of all phones with the silences between words."""

    words: tuple[int, ...]
    phones: tuple[int, ...]


def recover_lexicon(graph: Fst, model: TransitionModel, kinds: Mapping[int, str]) -> GraphLexicon:
    """The words of a graph with their phones.

    Parameters
    ----------
    graph : from transition-ids to words, with self-loops
    kinds : of each phone, as :func:`~nnet3py.lattices.word_alignment.read_word_boundaries` reads them

    Raises Nnet3Error if the graph's words and the phones' kinds do not go together.
    """
    return _Words(graph, model, kinds).lexicon()


def draw_spoken(grammar: Fst, lexicon: GraphLexicon, count: int, seed: int = 0) -> Iterator[Sentence]:
    """``count`` random sentences of a grammar whose output labels are words, as a lexicon pronounces them.

    Half of the places between words, and at both ends, have a silence, as Kaldi's graphs take it.
    """
    random = np.random.default_rng([seed, 1])
    for taken in draw_paths(grammar, np.arange(grammar.num_arcs), count, seed):
        labels = grammar.output_labels[taken]
        words = tuple(int(word) for word in labels[labels > 0])
        if all(word in lexicon.pronunciations for word in words):
            phones: list[int] = []
            for word in (0, *words):
                phones += lexicon.pronunciations[word][0] if word else ()
                if lexicon.silence and random.random() < _SILENCE_PROB:
                    phones.append(lexicon.silence)
            yield Sentence(words, tuple(phones))


def draw_sentences(graph: Fst, model: TransitionModel, count: int, seed: int = 0) -> Iterator[Sentence]:
    """``count`` random sentences of a graph, as probable as it says, except very long ones, which are left out.

    Its costs are those of the language model, pronunciations and silences. Raises Nnet3Error if it has no paths.
    """
    ids = _ids(graph, model)
    begins = (model.transition_id_to_hmm_state == 0) & ~model.is_self_loop
    phones = np.where(begins, model.transition_id_to_phone, 0)[ids]
    for taken in draw_paths(graph, np.flatnonzero(~model.is_self_loop[ids]), count, seed):
        spoken, words = phones[taken], graph.output_labels[taken]
        yield Sentence(tuple(words[words > 0].tolist()), tuple(spoken[spoken > 0].tolist()))


def draw_paths(graph: Fst, kept: np.ndarray, count: int, seed: int) -> Iterator[np.ndarray]:
    """The arcs of ``count`` random paths that take only the arcs ``kept``; very long ones are left out.

    Raises Nnet3Error if no path ends.
    """
    finals = np.flatnonzero(graph.is_final)
    # The ends are arcs, too: to no state.
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
    places = sources + (below - offsets[sources] + weights) / sums[sources]       # an arc's place ends here

    random = np.random.default_rng(seed)
    states = np.full(count, graph.start)
    going, passed = np.arange(count), []
    for _ in range(_LONGEST):
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


def _ids(graph: Fst, model: TransitionModel) -> np.ndarray:
    """The graph's input labels, those that are not transition-ids (disambiguation symbols) as epsilons."""
    return np.where(graph.input_labels > model.num_transition_ids, 0, graph.input_labels)


class _Partial(NamedTuple):
    """A word on its way: where it is in the graph, its phones, and its label once that has come.

    ``is_over``: all of its phones have come. ``before``: labels of earlier words that are still to come.
    """

    state: int
    phones: tuple[int, ...]
    is_over: bool
    before: int
    label: int


class _Words:
    def __init__(self, graph: Fst, model: TransitionModel, kinds: Mapping[int, str]) -> None:
        ids = _ids(graph, model)
        begins = (model.transition_id_to_hmm_state == 0) & ~model.is_self_loop
        phones = np.where(begins, model.transition_id_to_phone, 0)[ids]
        unknown = set(np.unique(phones[phones > 0]).tolist()) - set(kinds)
        if unknown:
            raise Nnet3Error(f"phone {min(unknown)} of the graph is not in word_boundary.int",
                             "are graph and phones of one system?")
        self._kinds = [kinds.get(phone, NONWORD) for phone in range(int(phones.max()) + 1)]
        kept = np.flatnonzero(~model.is_self_loop[ids] | (ids == 0))
        sources = graph.sources[kept]
        ends = np.searchsorted(sources, np.arange(graph.num_states + 1))
        self._phones, self._labels = phones[kept].tolist(), graph.output_labels[kept].tolist()
        self._targets, self._ends, self._start = graph.next_states[kept].tolist(), ends.tolist(), graph.start
        self._expected = set(graph.output_labels.tolist()) - {0}

    def lexicon(self) -> GraphLexicon:
        """Walk through all words of all states where words begin, or of so many that all words were met."""
        counts: Counter[tuple[int, tuple[int, ...]]] = Counter()
        silences = Counter(phone for phone in self._phones if phone and self._kinds[phone] == NONWORD)
        steps, missing = 0, set(self._expected)
        for state, open_words in self._states():
            if steps > _MOST_STEPS * (_PATIENCE if missing else 1):
                break
            for arc in range(self._ends[state], self._ends[state + 1]):
                phone = self._phones[arc]
                if open_words < 0 or not phone or self._kinds[phone] not in (BEGIN, SINGLETON):
                    continue
                words, taken = self._words_from(arc, open_words)
                counts.update(words)
                missing.difference_update(label for label, _ in words)
                steps += taken
        if not counts:
            raise Nnet3Error("no word of the graph begins and ends where word_boundary.int says that words do")
        if missing:
            logger.warning("%d of %d words of the graph have no pronunciation that could be had", len(missing),
                           len(self._expected))
        pronunciations: dict[int, list[tuple[int, ...]]] = {}
        for (label, phones), _ in counts.most_common():
            pronunciations.setdefault(label, []).append(phones)
        return GraphLexicon(pronunciations, silences.most_common(1)[0][0] if silences else 0)

    def _states(self) -> Iterator[tuple[int, int]]:
        """All states, from the start on, each with how many words have begun whose labels are still to come."""
        open_words = [_UNKNOWN] * (len(self._ends) - 1)
        open_words[self._start] = 0
        queue = deque([self._start])
        while queue:
            state = queue.popleft()
            yield state, open_words[state]
            for arc in range(self._ends[state], self._ends[state + 1]):
                phone = self._phones[arc]
                begins = phone and self._kinds[phone] in (BEGIN, SINGLETON)
                after = open_words[state] + bool(begins) - (self._labels[arc] != 0)
                target = self._targets[arc]
                if open_words[target] == _UNKNOWN:
                    open_words[target] = after
                    queue.append(target)
                elif open_words[target] != after:
                    raise Nnet3Error("paths of the graph have other numbers of words than of words' beginnings",
                                     "are graph and word_boundary.int of one system?")

    def _words_from(self, first_arc: int, before: int) -> tuple[set[tuple[int, tuple[int, ...]]], int]:
        """The words, with their phones, that begin on an arc; and how many arcs were looked at."""
        words: set[tuple[int, tuple[int, ...]]] = set()
        first = self._after(_Partial(-1, (), False, before, 0), first_arc)
        waiting, seen, steps = [first] if first else [], {first}, 0
        while waiting:
            word = waiting.pop()
            assert word is not None
            if word.is_over and word.label:
                words.add((word.label, word.phones))
                continue
            for arc in range(self._ends[word.state], self._ends[word.state + 1]):
                steps += 1
                further = self._after(word, arc)
                if further is not None and further not in seen:
                    seen.add(further)
                    waiting.append(further)
        return words, steps

    def _after(self, word: _Partial, arc: int) -> _Partial | None:
        """The word after an arc; None if it cannot go on there."""
        phone, label = self._phones[arc], self._labels[arc]
        phones, is_over = word.phones, word.is_over
        if phone and not is_over:
            kind = self._kinds[phone]
            if (kind in (BEGIN, SINGLETON)) != (not phones) or kind == NONWORD:
                return None
            phones, is_over = (*phones, phone), kind in (END, SINGLETON)
        before, own = word.before, word.label
        if label and before:
            before -= 1
        elif label:
            own = own or label
        return _Partial(self._targets[arc], phones, is_over, before, own)

