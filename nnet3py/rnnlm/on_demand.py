"""An RNN language model that is looked up word by word, for pruned composition."""
from __future__ import annotations

from collections.abc import Callable, Iterator

from nnet3py.rnnlm.histories import CutHistories
from nnet3py.rnnlm.network import MOST_TOGETHER, History, RnnlmNetwork


class HistoryLm:
    """The model for one lattice: a :class:`~nnet3py.lattices.deterministic_lm.DeterministicLm`.

    A history is computed when something is asked of it, together with others that may be needed soon.

    Parameters
    ----------
    network : the model
    max_ngram_order : histories whose last ``max_ngram_order - 1`` words are the same share a state; 0 or less: none do

    Attributes
    ----------
    start : the state of a sentence's beginning
    num_computed : how many histories were computed
    """

    def __init__(self, network: RnnlmNetwork, max_ngram_order: int) -> None:
        self._network = network
        self._cut = CutHistories(network.options.bos, max_ngram_order)
        self._histories: dict[int, History] = {0: network.start}
        self.start, self.num_computed = 0, 0

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Where a word leads, and its cost. ShapeError for a number that is no word's."""
        cost = -self._network.log_prob(self._history(state), word)
        return self._cut.after(state, word), cost

    def final_cost(self, state: int) -> float:
        """The cost of ending."""
        return -self._network.log_prob(self._history(state), self._network.options.eos)

    def prepare(self, state: int, others: Callable[[], Iterator[int]]) -> None:
        """Compute the history of a state, unless it is, together with those of ``others()`` that are not."""
        if state not in self._histories:
            wanted = {state: None}
            for other in others():
                if other not in self._histories:
                    wanted[other] = None
                    if len(wanted) == MOST_TOGETHER:
                        break
            self._compute(list(wanted))

    def _history(self, state: int) -> History:
        if state not in self._histories:
            self._compute([state])
        return self._histories[state]

    def _compute(self, states: list[int]) -> None:
        """Compute the histories of states; those that they continue were computed when they were asked for words."""
        parents = [self._histories[self._cut.parents[state]] for state in states]
        histories = self._network.advance(parents, [self._cut.words[state] for state in states])
        self._histories.update(zip(states, histories, strict=True))
        self.num_computed += len(states)
