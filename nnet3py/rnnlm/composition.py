"""A whole lattice composed with an RNN language model: first its states and arcs, then their costs, level by level.

Which words can follow does not depend on costs, so all histories are known before any is computed, and histories of
the same number of words are computed together.
"""
from __future__ import annotations

import numpy as np

from nnet3py.lattices.composition import ComposedArcs, composed_lattice
from nnet3py.lattices.states import LatticeError, top_sorted
from nnet3py.rnnlm.histories import CutHistories
from nnet3py.rnnlm.network import History, RnnlmNetwork
from nnet3py.transducers.compact_lattice import CompactLattice

_MOST_ARCS = 20_000_000


def composed_with_rnnlm(lattice: CompactLattice, network: RnnlmNetwork, max_ngram_order: int) -> CompactLattice:
    """The lattice with the model's costs added to its graph costs, trimmed.

    Kaldi: ComposeCompactLatticeDeterministic with KaldiRnnlmDeterministicFst. LatticeError for a lattice with a cycle,
    or one that gets too large; ShapeError for a word that the model lacks.
    """
    if lattice.start < 0:
        return lattice
    network.embedding.check(lattice.labels)
    return _Composition(top_sorted(lattice), CutHistories(network.options.bos, max_ngram_order)).scored(network)


class _Composition:
    """The states and arcs of the composition, breadth first, the arcs of a state in the order of their words.

    So the history that is met first with a cut sequence of words is the one that Kaldi takes.
    """

    def __init__(self, lattice: CompactLattice, histories: CutHistories) -> None:
        self._lattice, self._histories = lattice, histories
        order = np.lexsort((lattice.labels, lattice.sources))
        starts, targets = lattice.arc_starts.tolist(), lattice.next_states[order].tolist()
        labels, numbers = lattice.labels[order].tolist(), order.tolist()
        pairs, places = [(lattice.start, 0)], {(lattice.start, 0): 0}
        rows: list[tuple[int, int, int]] = []
        for source, (state, history) in enumerate(pairs):                # grows
            for arc in range(starts[state], starts[state + 1]):
                word = labels[arc]
                pair = targets[arc], histories.after(history, word) if word else history
                target = places.setdefault(pair, len(pairs))
                if target == len(pairs):
                    pairs.append(pair)
                rows.append((source, target, numbers[arc]))
            if len(rows) > _MOST_ARCS:
                raise LatticeError(f"a lattice composed with a language model has more than {_MOST_ARCS} arcs",
                                   "use lattice-lmrescore-kaldi-rnnlm-pruned, or a smaller --max-ngram-order")
        self._states, self._state_histories = np.array(pairs, dtype=np.int64).T
        self._sources, self._targets, self._arcs = np.array(rows, dtype=np.int64).reshape(-1, 3).T

    def scored(self, network: RnnlmNetwork) -> CompactLattice:
        """The composed lattice with the model's costs."""
        words = self._lattice.labels[self._arcs].astype(np.int64)
        is_final = self._lattice.is_final[self._states]
        # What is asked of each history: the words of arcs, and the end.
        with_word, ends = np.flatnonzero(words), np.flatnonzero(is_final)
        asked = np.concatenate((self._state_histories[self._sources[with_word]], self._state_histories[ends]))
        asked_words = np.concatenate((words[with_word], np.full(len(ends), network.options.eos)))
        scores = _log_probs(network, self._histories, asked, asked_words)
        costs = np.zeros(len(words), dtype=np.float32)
        costs[with_word] = -scores[:len(with_word)]
        end_costs = np.full(len(is_final), np.inf, dtype=np.float32)
        end_costs[ends] = -scores[len(with_word):]
        return composed_lattice(self._lattice, self._states, end_costs,
                                ComposedArcs(self._sources, self._targets, self._arcs, costs))


def _log_probs(network: RnnlmNetwork, histories: CutHistories, asked: np.ndarray, words: np.ndarray) -> np.ndarray:
    """The log-probabilities of words, float64 (n,), after the histories of the numbers ``asked``, int (n,).

    Only the histories of one length and of the next are in memory at a time.
    """
    lengths = np.zeros(len(histories), dtype=np.int64)
    for number, parent in enumerate(histories.parents):                  # a parent's number is smaller
        lengths[number] = lengths[parent] + 1 if parent >= 0 else 0
    numbers_by_length = np.split(np.argsort(lengths, kind="stable"), np.cumsum(np.bincount(lengths))[:-1])
    order = np.argsort(lengths[asked], kind="stable")
    asked_by_length = np.split(order, np.cumsum(np.bincount(lengths[asked], minlength=len(numbers_by_length)))[:-1])
    scores = np.empty(len(asked))
    computed: dict[int, History] = {}
    for numbers, questions in zip(numbers_by_length, asked_by_length, strict=True):
        if computed:
            longer = network.advance([computed[histories.parents[number]] for number in numbers.tolist()],
                                     [histories.words[number] for number in numbers.tolist()])
        else:
            longer = [network.start]
        computed = dict(zip(numbers.tolist(), longer, strict=True))
        if len(questions):
            which = np.searchsorted(numbers, asked[questions])
            scores[questions] = network.log_probs(list(computed.values()), which, words[questions])
    return scores
