"""Interpolation of n-gram models in OpenFst's FSTs of type ``ngram``, vectorized for millions of n-grams.

``decoding/grammar.py`` interpolates models n-gram by n-gram, matching words by name.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.transducers.fst import NO_WEIGHT
from nnet3py.transducers.ngram_fst import NgramFst

_SHIFT = 32                   # bits of a word in a key, whose upper part is a history
_LEAST = 1e-9                 # probability left for unseen words, below which rounding decides
_NEVER = 99.0 * np.log(10.0)  # the cost of backing off where nothing is left; ARPA's


@dataclass(frozen=True, eq=False)
class _Tree:
    """A tree of histories."""

    # int64 (histories,), the history without its oldest word; -1 for the empty history, which comes first
    parents: np.ndarray
    words: np.ndarray  # int64 (histories,), the oldest word

    @cached_property
    def depths(self) -> np.ndarray:
        """Number of words of each history, int64 (histories,)."""
        depths = np.zeros(len(self.parents), dtype=np.int64)
        above = self.parents
        while (above >= 0).any():
            depths += above >= 0
            above = np.where(above >= 0, self.parents[np.maximum(above, 0)], -1)
        return depths

    def levels(self) -> Iterator[np.ndarray]:
        """Yield the numbers of the histories of one word, then of two words, and so on."""
        for depth in range(1, int(self.depths.max(initial=0)) + 1):
            yield np.flatnonzero(self.depths == depth)

    def with_others(self, others: _Tree) -> tuple[_Tree, np.ndarray]:
        """Return the tree with the histories of another tree added, and the numbers of the latter in the new tree."""
        places = np.zeros(len(others.parents), dtype=np.int64)
        parents, words, count = [self.parents], [self.words], len(self.parents)
        keys = self.parents[1:] << _SHIFT | self.words[1:]
        order = np.argsort(keys)
        for level in others.levels():
            wanted = places[others.parents[level]] << _SHIFT | others.words[level]
            at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)] if len(keys) else 0
            is_there = (keys[at] == wanted) if len(keys) else np.zeros(len(level), dtype=bool)
            places[level] = np.where(is_there, np.asarray(at) + 1, 0)
            new = level[~is_there]
            places[new] = count + np.arange(len(new))
            count += len(new)
            parents.append(places[others.parents[new]])
            words.append(others.words[new])
        return _Tree(np.concatenate(parents), np.concatenate(words)), places

    def in_level_order(self) -> np.ndarray:
        """Return the numbers of the histories in level order, int64: by length, then by parent, then by oldest word."""
        number = np.zeros(len(self.parents), dtype=np.int64)
        order, count = [np.zeros(1, dtype=np.int64)], 1
        for level in self.levels():
            level = level[np.lexsort((self.words[level], number[self.parents[level]]))]
            number[level] = count + np.arange(len(level))
            count += len(level)
            order.append(level)
        return np.concatenate(order)


@dataclass(frozen=True, eq=False)
class _Model:
    """A back-off model over the histories of a tree."""

    tree: _Tree           # the histories of both models that are interpolated
    has: np.ndarray       # bool (histories,), whether this model has the history
    keys: np.ndarray      # int64 (n-grams,), sorted; ``history << _SHIFT | word``; the end of a sentence is a word, too
    probs: np.ndarray     # float64 (n-grams,), probabilities
    backoffs: np.ndarray  # float64 (histories,), factors of the probabilities after the parent history

    @classmethod
    def of(cls, ngram: NgramFst, tree: _Tree, places: np.ndarray, end: int) -> _Model:
        """Make a model from an FST whose state s is history ``places[s]`` of the tree.

        ``end`` is the number of the word for the end of a sentence.
        """
        sources = places[np.repeat(np.arange(ngram.num_states), np.diff(ngram.arc_starts))]
        finals = np.flatnonzero(ngram.final_weights != NO_WEIGHT)
        keys = np.concatenate((sources << _SHIFT | ngram.future_words, places[finals] << _SHIFT | end))
        costs = np.concatenate((ngram.future_costs, ngram.final_weights[finals])).astype(np.float64)
        order = np.argsort(keys)
        has, backoffs = np.zeros(len(tree.parents), dtype=bool), np.ones(len(tree.parents))
        has[places] = True
        backoffs[places] = np.exp(-ngram.backoff[:ngram.num_states].astype(np.float64))
        return cls(tree, has, keys[order], np.exp(-costs[order]), backoffs)

    @cached_property
    def longest(self) -> np.ndarray:
        """Longest suffix of each history of the tree that is a history of the model, int64 (histories,)."""
        longest = np.arange(len(self.has))
        for level in self.tree.levels():
            longest[level] = np.where(self.has[level], level, longest[self.tree.parents[level]])
        return longest

    def prob(self, histories: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the probabilities of words after histories of the tree, float64; 0 for words that the model lacks."""
        probs = np.zeros(len(words))
        waiting, factors, here = np.arange(len(words)), np.ones(len(words)), self.longest[histories]
        while len(waiting):
            wanted = here << _SHIFT | words[waiting]
            at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
            is_there = self.keys[at] == wanted
            probs[waiting[is_there]] = factors[is_there] * self.probs[at[is_there]]
            goes_on = ~is_there & (here > 0)
            waiting, factors, here = waiting[goes_on], factors[goes_on] * self.backoffs[here[goes_on]], here[goes_on]
            here = self.longest[self.tree.parents[here]]
        return probs

    def totals(self) -> np.ndarray:
        """Return the sum of the probabilities of all words after each history, float64; 1 unless words were removed."""
        seen, seen_shorter = self._seen()
        totals = seen.copy()
        for level in self.tree.levels():
            parents = self.tree.parents[level]
            own = seen[level] + self.backoffs[level] * (totals[parents] - seen_shorter[level])
            totals[level] = np.where(self.has[level], own, totals[parents])
        return totals

    def _seen(self) -> tuple[np.ndarray, np.ndarray]:
        """Return two sums over the n-grams of each history, float64 (histories,).

        The first is of their probabilities, the second of their words' probabilities after the parent history.
        """
        histories, words = self.keys >> _SHIFT, self.keys & ((1 << _SHIFT) - 1)
        size = len(self.has)
        is_longer = histories > 0
        shorter = self.prob(self.tree.parents[histories[is_longer]], words[is_longer])
        return (np.bincount(histories, self.probs, minlength=size),
                np.bincount(histories[is_longer], shorter, minlength=size))


def mixture(old: NgramFst, new: NgramFst, weight: float) -> NgramFst:
    """Interpolate two models: P = (1 - ``weight``) * P_old + ``weight`` * P_new. SRILM: ``ngram -mix-lm``.

    The result has the n-grams of both models; back-off factors are such that the probabilities after a history keep
    their sum. Symbols and properties of the first model's file are kept.
    """
    end = 1 + max(int(model.future_words.max(initial=0)) for model in (old, new))
    trees = [_Tree(model.parents.astype(np.int64), model.context_words[:model.num_states].astype(np.int64))
             for model in (old, new)]
    tree, places = trees[0].with_others(trees[1])
    models = [_Model.of(old, tree, np.arange(old.num_states), end), _Model.of(new, tree, places, end)]
    keys = np.sort(np.concatenate([model.keys for model in models]))
    keys = keys[np.append(True, keys[1:] != keys[:-1])]
    histories, words = keys >> _SHIFT, keys & ((1 << _SHIFT) - 1)
    parts = 1.0 - weight, weight
    probs = sum(part * model.prob(histories, words) for part, model in zip(parts, models, strict=True))
    totals = sum(part * model.totals() for part, model in zip(parts, models, strict=True))
    mixed = _Model(tree, np.ones(len(tree.parents), dtype=bool), keys, np.asarray(probs), np.ones(len(tree.parents)))
    _set_backoffs(mixed, np.asarray(totals))
    return _as_fst(mixed, end, old)


def _set_backoffs(model: _Model, totals: np.ndarray) -> None:
    """Set the back-off factors so that the probabilities after each history sum to ``totals``, shorter histories first.
    """
    histories, words = model.keys >> _SHIFT, model.keys & ((1 << _SHIFT) - 1)
    starts = np.searchsorted(histories, np.arange(len(totals) + 1))
    seen = np.bincount(histories, model.probs, minlength=len(totals))
    of_depth = model.tree.depths[histories]
    for depth, level in enumerate(model.tree.levels(), 1):
        of_level = np.flatnonzero(of_depth == depth)
        parents = model.tree.parents[level]
        shorter = np.bincount(histories[of_level], model.prob(model.tree.parents[histories[of_level]], words[of_level]),
                              minlength=len(totals))[level]
        left, left_before = totals[level] - seen[level], totals[parents] - shorter
        has_words = starts[level + 1] > starts[level]
        factors = np.where((left > _LEAST) & (left_before > _LEAST), left / np.maximum(left_before, _LEAST),
                           np.exp(-_NEVER))
        model.backoffs[level] = np.where(has_words, factors, 1.0)


def _as_fst(model: _Model, end: int, old: NgramFst) -> NgramFst:
    order = model.tree.in_level_order()
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    parents = np.where(model.tree.parents[order] >= 0, number[model.tree.parents[order]], -1)
    histories, words = number[model.keys >> _SHIFT], model.keys & ((1 << _SHIFT) - 1)
    costs = -np.log(np.maximum(model.probs, np.exp(-_NEVER)))
    is_end = words == end
    finals = np.full(len(order), NO_WEIGHT, dtype=np.float32)
    finals[histories[is_end]] = costs[is_end]
    histories, words, costs = histories[~is_end], words[~is_end], costs[~is_end]
    arcs = np.argsort(histories, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(histories, minlength=len(order)))))
    backoffs = np.append(-np.log(model.backoffs[order]), 0.0)
    backoffs[0] = 0.0
    return NgramFst(parents.astype(np.int32), starts, finals, np.append(model.tree.words[order], 0).astype(np.int32),
                    backoffs.astype(np.float32), words[arcs].astype(np.int32), costs[arcs].astype(np.float32),
                    old.start, old.stored)
