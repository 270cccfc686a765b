"""An RNN language model that is looked up word by word, for pruned composition.

What is asked next is guessed, so that the network computes several histories at a time: one takes hardly less time than
eight of a large network. Guesses change no result.
"""
from __future__ import annotations

from nnet3py.lattices.pruned_composition import Likely
from nnet3py.rnnlm.histories import CutHistories
from nnet3py.rnnlm.network import History, RnnlmNetwork

_FEW = 16              # fewer histories that need others to be computed first wait for more


class _Node:
    """A history that may be computed or not, and longer ones made of it.

    Attributes
    ----------
    parent, word : the history that it continues, and by which word
    longer : longer histories by the word that was added
    history : once it is computed
    """

    __slots__ = ("history", "longer", "parent", "word")

    def __init__(self, parent: _Node | None, word: int, history: History | None = None) -> None:
        self.parent, self.word, self.history = parent, word, history
        self.longer: dict[int, _Node] = {}

    def after(self, word: int) -> _Node:
        """The history with one more word."""
        node = self.longer.get(word)
        if node is None:
            node = self.longer[word] = _Node(self, word)
        return node


class HistoryLm:
    """The model for one lattice: a :class:`~nnet3py.lattices.pruned_composition.DeterministicLm`.

    Parameters
    ----------
    network : the model
    max_ngram_order : histories whose last ``max_ngram_order - 1`` words are the same share a state; 0 or less: none do

    Attributes
    ----------
    start : the state of a sentence's beginning
    """

    def __init__(self, network: RnnlmNetwork, max_ngram_order: int) -> None:
        self._network = network
        self._cut = CutHistories(network.options.bos, max_ngram_order)
        self._nodes = [_Node(None, network.options.bos, network.start)]      # for each state what stands for it
        self.start = 0

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Where a word leads, and its cost. ShapeError for a number that is no word's."""
        cost = -self._network.log_prob(self._history(state), word)
        target = self._cut.after(state, word)
        if target == len(self._nodes):
            self._nodes.append(self._nodes[state].after(word))
        return target, cost

    def final_cost(self, state: int) -> float:
        """The cost of ending."""
        return -self._network.log_prob(self._history(state), self._network.options.eos)

    def _history(self, state: int) -> History:
        node = self._nodes[state]
        if node.history is None:
            self._compute([node])
        assert node.history is not None
        return node.history

    def prepare(self, state: int, likely: Likely) -> None:
        """Compute the history of a state, unless it is, together with those that lookups in ``likely()`` will need."""
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
        """Have a history computed, unless it is: at level 0 if the one that it continues is, else after that one."""
        if node.history is None and node not in levels:
            levels[node] = levels[node.parent] + 1 if node.parent in levels else 0

    def _compute(self, nodes: list[_Node]) -> None:
        """Compute histories, made of such as were computed."""
        shorter = [node.parent.history for node in nodes if node.parent is not None]
        histories = self._network.advance([history for history in shorter if history is not None],
                                          [node.word for node in nodes])
        for node, history in zip(nodes, histories, strict=True):
            node.history = history
