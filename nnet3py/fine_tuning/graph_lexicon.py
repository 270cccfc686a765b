"""The pronunciations of words, recovered from a decoding graph, and sentences drawn from it.

``graph_words.py`` says how words are found.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.graph_phones import GraphPhones
from nnet3py.fine_tuning.graph_words import GraphWords
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.transducers.fst import Fst

_END = -1
_LONGEST = 2000                  # arcs of a sentence that is drawn
_FEW_PLACES = 2                  # arcs of words of which one pronunciation is enough
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


def recover_lexicon(graph: Fst, model: TransitionModel, kinds: Mapping[int, str],
                    wanted: Collection[int] | None = None, others: Collection[int] = ()) -> GraphLexicon:
    """The words of a graph with their phones.

    Parameters
    ----------
    graph : from transition-ids to words, with self-loops
    kinds : of each phone, as :func:`~nnet3py.lattices.word_alignment.read_word_boundaries` reads them
    wanted : numbers of the words that are asked for; None for all of the graph
    others : further words, of which one pronunciation or a few are enough

    Raises Nnet3Error if the graph's words and the phones' kinds do not go together.
    """
    words = GraphWords.of(GraphPhones.of(graph, model), kinds)
    pronunciations = words.pronunciations(wanted)
    more = words.pronunciations({*others} - pronunciations.keys(), _FEW_PLACES) if others else {}
    return GraphLexicon({**more, **pronunciations}, words.silence())


def draw_texts(grammar: Fst, count: int, seed: int = 0) -> list[tuple[int, ...]]:
    """``count`` random sentences of a grammar whose output labels are words, as numbers of words."""
    texts = []
    for taken in draw_paths(grammar, np.arange(grammar.num_arcs), count, seed):
        labels = grammar.output_labels[taken]
        texts.append(tuple(labels[labels > 0].tolist()))
    return texts


def spoken(texts: Iterable[tuple[int, ...]], lexicon: GraphLexicon, seed: int = 0) -> Iterator[Sentence]:
    """Sentences as a lexicon pronounces them; those with other words are left out.

    Half of the places between words, and at both ends, have a silence, as Kaldi's graphs take it.
    """
    random = np.random.default_rng([seed, 1])
    for words in texts:
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
    phones = GraphPhones.of(graph, model)
    for taken in draw_paths(graph, np.flatnonzero(~phones.is_loop), count, seed):
        spoken, words = phones.begun[taken], graph.output_labels[taken]
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
