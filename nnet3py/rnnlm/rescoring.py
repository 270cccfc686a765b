"""Lattices rescored with RNN language models. Kaldi: lattice-lmrescore-kaldi-rnnlm, and -pruned.

``rescored_with_rnnlm`` composes a whole lattice with the model. Which words can follow does not depend on costs, so all
histories are known before any is computed, and histories of the same number of words are computed together.

``rescored_within_beam`` follows the best paths only and looks up one word at a time (``HistoryLm``). The lookups to
come are guessed, so that the network computes several histories together: one history of a large network takes hardly
less time than eight. Guesses change no result.
"""
from __future__ import annotations

import numpy as np

from nnet3py.lattices.composition import ComposedArcs, composed_lattice
from nnet3py.lattices.determinize import determinize
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.lattices.pruned_composition import DeterministicLm, Likely, LmDifference, PrunedComposition
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.lattices.states import LatticeError, top_sorted
from nnet3py.rnnlm.network import History, RnnlmNetwork
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.lattice import expanded

_MOST_ARCS = 20_000_000     # of a composition
_FEW = 16              # fewer guessed histories are not worth a computation of their own


class CutHistories:
    """Numbers of histories, each cut to its last ``max_ngram_order - 1`` words. Kaldi: KaldiRnnlmDeterministicFst.

    All histories with the same last words get the number of the first of them, which is the one that is computed.

    ``bos``: the number of ``<s>``, which counts as a word. ``max_ngram_order``: at most this number minus 1 words are
    kept; 0 or less: all.

    Attributes
    ----------
    sequences : the last words of each history
    parents, words : for each history the number of the one-word-shorter history that it was made from, and the word
        that was appended; -1 and ``bos`` for history 0, the beginning of a sentence
    """

    def __init__(self, bos: int, max_ngram_order: int) -> None:
        self._most = max_ngram_order - 1 if max_ngram_order > 0 else None
        self.sequences: list[tuple[int, ...]] = [(bos,)]
        self._numbers: dict[tuple[int, ...], int] = {(bos,): 0}
        self.parents, self.words = [-1], [bos]

    def __len__(self) -> int:
        return len(self.parents)

    def longer(self, sequence: tuple[int, ...], word: int) -> tuple[int, ...]:
        """Append a word to a sequence of words, and keep its last ``max_ngram_order - 1`` words."""
        whole = (*sequence, word)
        return whole if self._most is None else whole[max(0, len(whole) - self._most):]

    def number_of(self, sequence: tuple[int, ...]) -> int | None:
        """Return the number of the history with these last words, or None if there is no such history yet."""
        return self._numbers.get(sequence)

    def after(self, history: int, word: int) -> int:
        """Return the number of a history with one more word; number it if it is new."""
        sequence = self.longer(self.sequences[history], word)
        number = self._numbers.setdefault(sequence, len(self.sequences))
        if number == len(self.sequences):
            self.sequences.append(sequence)
            self.parents.append(history)
            self.words.append(word)
        return number


def composed_with_rnnlm(lattice: CompactLattice, network: RnnlmNetwork, max_ngram_order: int) -> CompactLattice:
    """Compose a lattice with a model: the result has the model's costs added to the graph costs, and is trimmed.

    Raises LatticeError for a lattice with a cycle or a composition that is too large, ShapeError for a word that the
    model lacks. Kaldi: ComposeCompactLatticeDeterministic with KaldiRnnlmDeterministicFst.
    """
    if lattice.start < 0:
        return lattice
    network.embedding.check(lattice.labels)
    return _Composition(top_sorted(lattice), CutHistories(network.options.bos, max_ngram_order)).scored(network)


class _Composition:
    """States and arcs of the composition of a lattice with a model: pairs of a lattice state and a history.

    They are visited breadth first, with the arcs of a state ordered by word. Thus the first of several histories with
    the same last words, which stands for all of them, is the same as in Kaldi.
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
        """Compute the model's costs, and return the composed lattice with them."""
        words = self._lattice.labels[self._arcs].astype(np.int64)
        is_final = self._lattice.is_final[self._states]
        with_word, ends = np.flatnonzero(words), np.flatnonzero(is_final)
        before = np.concatenate((self._state_histories[self._sources[with_word]], self._state_histories[ends]))
        following = np.concatenate((words[with_word], np.full(len(ends), network.options.eos)))
        scores = _log_probs(network, self._histories, before, following)
        costs = np.zeros(len(words), dtype=np.float32)
        costs[with_word] = -scores[:len(with_word)]
        end_costs = np.full(len(is_final), np.inf, dtype=np.float32)
        end_costs[ends] = -scores[len(with_word):]
        return composed_lattice(self._lattice, self._states, end_costs,
                                ComposedArcs(self._sources, self._targets, self._arcs, costs))


def _log_probs(network: RnnlmNetwork, histories: CutHistories, before: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Compute the log-probability of each word after its history: float64 (n,).

    Only the histories of two consecutive lengths are in memory at a time.

    ``before``: int (n,), numbers of the histories. ``words``: int (n,), numbers of the words.
    """
    lengths = np.zeros(len(histories), dtype=np.int64)
    for number, parent in enumerate(histories.parents):                  # a parent's number is smaller
        lengths[number] = lengths[parent] + 1 if parent >= 0 else 0
    numbers_by_length = np.split(np.argsort(lengths, kind="stable"), np.cumsum(np.bincount(lengths))[:-1])
    order = np.argsort(lengths[before], kind="stable")
    words_by_length = np.split(order, np.cumsum(np.bincount(lengths[before], minlength=len(numbers_by_length)))[:-1])
    scores = np.empty(len(before))
    computed: dict[int, History] = {}
    for numbers, places in zip(numbers_by_length, words_by_length, strict=True):
        if computed:
            longer = network.advance([computed[histories.parents[number]] for number in numbers.tolist()],
                                     [histories.words[number] for number in numbers.tolist()])
        else:
            longer = [network.start]
        computed = dict(zip(numbers.tolist(), longer, strict=True))
        if len(places):
            which = np.searchsorted(numbers, before[places])
            scores[places] = network.log_probs(list(computed.values()), which, words[places])
    return scores


class _Node:
    """Node of the tree of histories, in which each history extends its parent by one word.

    Attributes
    ----------
    parent, word : the one-word-shorter history, and the word appended to it
    longer : appended word -> the one-word-longer history
    history : state and output of the network; None before they are computed
    """

    __slots__ = ("history", "longer", "parent", "word")

    def __init__(self, parent: _Node | None, word: int, history: History | None = None) -> None:
        self.parent, self.word, self.history = parent, word, history
        self.longer: dict[int, _Node] = {}

    def after(self, word: int) -> _Node:
        """Return the node of the history with one more word."""
        node = self.longer.get(word)
        if node is None:
            node = self.longer[word] = _Node(self, word)
        return node


class HistoryLm:
    """An RNN language model as a :class:`~nnet3py.lattices.pruned_composition.DeterministicLm`, for one lattice.

    Histories with the same last ``max_ngram_order - 1`` words share a state; 0 or less: none do. State 0 is the first.
    """

    def __init__(self, network: RnnlmNetwork, max_ngram_order: int) -> None:
        self._network = network
        self._cut = CutHistories(network.options.bos, max_ngram_order)
        self._nodes = [_Node(None, network.options.bos, network.start)]      # of each state
        self.start = 0

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Return the next state after a word, and the word's cost; raise ShapeError for a number that no word has."""
        cost = -self._network.log_prob(self._history(state), word)
        target = self._cut.after(state, word)
        if target == len(self._nodes):
            self._nodes.append(self._nodes[state].after(word))
        return target, cost

    def final_cost(self, state: int) -> float:
        """Return the cost of the sentence's end."""
        return -self._network.log_prob(self._history(state), self._network.options.eos)

    def _history(self, state: int) -> History:
        node = self._nodes[state]
        if node.history is None:
            self._compute([node])
        assert node.history is not None
        return node.history

    def prepare(self, state: int, likely: Likely) -> None:
        """Compute the history of a state unless it has been, together with those for probable later lookups.

        ``likely()`` yields these lookups, each a state and words after it; it is called only if it is needed.
        """
        if self._nodes[state].history is not None:
            return
        levels: dict[_Node, int] = {}
        self._want(self._nodes[state], levels)
        for other, words in likely():
            node, sequence = self._nodes[other], self._cut.sequences[other]
            self._want(node, levels)
            for word in words:
                sequence = self._cut.longer(sequence, word)
                number = self._cut.number_of(sequence)
                node = node.after(word) if number is None else self._nodes[number]
                self._want(node, levels)
        by_level: list[list[_Node]] = [[] for _ in range(max(levels.values()) + 1)]
        for node, level in levels.items():
            by_level[level].append(node)
        for level, nodes in enumerate(by_level):
            if level and len(nodes) < _FEW:
                break
            self._compute(nodes)

    @staticmethod
    def _want(node: _Node, levels: dict[_Node, int]) -> None:
        """Add a history that is not computed yet to ``levels``: at level 0, or one level above its parent's."""
        if node.history is None and node not in levels:
            levels[node] = levels[node.parent] + 1 if node.parent in levels else 0

    def _compute(self, nodes: list[_Node]) -> None:
        """Compute histories together; those of their parents must have been computed."""
        shorter = [node.parent.history for node in nodes if node.parent is not None]
        histories = self._network.advance([history for history in shorter if history is not None],
                                          [node.word for node in nodes])
        for node, history in zip(nodes, histories, strict=True):
            node.history = history


def rescored_with_rnnlm(lattice: CompactLattice, network: RnnlmNetwork, scale: float,
                        max_ngram_order: int) -> CompactLattice:
    """Add ``scale`` times the model's costs to a lattice's graph costs, and determinize it.

    Raises LatticeError as :func:`composed_with_rnnlm`, ShapeError for a word that the model lacks.
    """
    if scale == 0.0:
        return lattice
    composed = composed_with_rnnlm(scaled(lattice, Scales(1.0 / scale)), network, max_ngram_order)
    return scaled(determinize(expanded(top_sorted(composed))), Scales(scale))


def rescored_within_beam(lattice: CompactLattice, old: DeterministicLm, network: RnnlmNetwork, scale: float,
                         max_ngram_order: int, options: PrunedCompositionOptions) -> CompactLattice:
    """Replace ``scale`` times the old model's costs by the RNN's in a lattice; keep only paths within a beam.

    The acoustic costs must be scaled already. The result is not determinized, and empty if the old model has none of
    the lattice's paths. Raises ShapeError for a word that the RNN lacks.
    """
    network.embedding.check(lattice.labels)
    model = LmDifference(old, HistoryLm(network, max_ngram_order), scale)
    return PrunedComposition(lattice, model, options).compose()
