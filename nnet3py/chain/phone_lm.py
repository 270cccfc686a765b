"""The phone language model of the denominator graph: n-grams without smoothing. Kaldi: ``LanguageModelEstimator``.

A state is a history of phones. States are merged into the states of shorter histories, those first that cost the least
likelihood, until the wanted number is left. A phone that never followed a history has no arc there: the fewer arcs, the
faster the training.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from nnet3py.chain.options import PhoneLmOptions
from nnet3py.errors import Nnet3Error
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import connected

logger = logging.getLogger(__name__)

SENTENCE_BEGIN = 0     # first phone of a history at the beginning of a sentence
SENTENCE_END = 0       # key in the counts of a history: sentences that end after it
NO_STATE = -1
_NUM_STAGES = 4        # steps in which the number of states is reduced
_TOLERANCE = 0.001     # relative difference between changes of the log-likelihood that count as the same
_EMPTY_BACKOFF = -1e-15  # change of the log-likelihood per count if nothing has been moved to the shorter history


@dataclass(slots=True)
class _State:
    """A history of phones: counts of the next phones, and the states of the next shorter and of longer histories."""

    history: tuple[int, ...]
    backoff: int
    counts: dict[int, int] = field(default_factory=dict)
    next_states: dict[int, int] = field(default_factory=dict)
    total: int = 0
    total_with_children: int = 0          # the first total of this state and of all that back off to it
    likelihood: np.float32 | None = None  # log-likelihood of the counts; None if they have changed

    def log_likelihood(self) -> np.float32:
        if self.likelihood is None:
            self.likelihood = _log_likelihood(self.counts)
        return self.likelihood


class PhoneLmEstimator:
    """Estimator of a phone language model: call ``add`` for each sequence of phones, then ``estimate`` once.

    Raises UsageError for invalid orders.
    """

    def __init__(self, options: PhoneLmOptions | None = None) -> None:
        self.options = options or PhoneLmOptions()
        self.options.check()
        self._states: list[_State] = []
        self._index: dict[tuple[int, ...], int] = {}
        self._num_active = 0

    # -- counting --------------------------------------------------------------------------------------------------

    def add(self, phones: Iterable[int]) -> None:
        """Count the phones of one utterance; raise Nnet3Error, and count nothing, if a phone is 0 or less."""
        sequence = [int(phone) for phone in phones]
        if sequence and min(sequence) <= 0:
            raise Nnet3Error(f"expected phones, which are above 0, found {min(sequence)} in a sequence of "
                             f"{len(sequence)}", "phone 0 is epsilon; was this an alignment of something else?")
        states = self._states
        state = self._find_or_create((SENTENCE_BEGIN,))
        for phone in sequence:
            here = states[state]
            here.counts[phone] = here.counts.get(phone, 0) + 1
            following = here.next_states.get(phone)
            if following is None:
                following = self._find_or_create(self._following(here.history, phone))
                here.next_states[phone] = following
            state = following
        counts = states[state].counts
        counts[SENTENCE_END] = counts.get(SENTENCE_END, 0) + 1

    def _following(self, history: tuple[int, ...], phone: int) -> tuple[int, ...]:
        longer = (*history, phone)
        return longer if len(longer) < self.options.ngram_order else longer[1:]

    def _find_or_create(self, history: tuple[int, ...]) -> int:
        """Return the state of a history; if it is new, create it, and the states of its shorter histories."""
        index = self._index.get(history)
        if index is None:
            index = self._index[history] = len(self._states)
            self._states.append(_State(history, NO_STATE))
            if len(history) >= self.options.no_prune_ngram_order:
                self._states[index].backoff = self._find_or_create(history[1:])
        return index

    # -- merging states --------------------------------------------------------------------------------------------

    def estimate(self) -> Fst:
        """Return the model: an acceptor of phones with costs, deterministic, arcs sorted by phone.

        Raises Nnet3Error without any sequence.
        """
        if not self._states:
            raise Nnet3Error("found no phone sequences to make a language model of", "is the table of phones empty?")
        self._set_totals()
        options, states = self.options, self._states
        num_basic = sum(len(state.history) == options.no_prune_ngram_order - 1 for state in states)
        num_before = self._num_active = sum(state.total > 0 for state in states)
        target = num_basic + options.num_extra_lm_states
        for stage in range(1, _NUM_STAGES + 1):
            self._prune(num_before + int((target - num_before) * stage / _NUM_STAGES))
        logger.info("In LM [hard] backoff, target num states was %d + --num-extra-lm-states=%d = %d, pruned from %d "
                    "to %d", num_basic, options.num_extra_lm_states, target, num_before, self._num_active)
        count = sum(state.total for state in self._states)
        log_likelihood = sum(float(state.log_likelihood()) for state in self._states)
        logger.info("Total number of phone instances seen was %d", count)
        logger.info("Perplexity on training data is: %.6g", math.exp(-log_likelihood / count))
        fst = self._fst()
        logger.info("Created phone language model with %d states and %d arcs.", fst.num_states, fst.num_arcs)
        return fst

    def _set_totals(self) -> None:
        for state in self._states:
            state.total = sum(state.counts.values())
            state.total_with_children = 0
        for state in self._states:
            receiver: _State | None = state
            while receiver is not None:
                receiver.total_with_children += state.total
                receiver = self._states[receiver.backoff] if receiver.backoff != NO_STATE else None

    def _prune(self, target: int) -> None:
        """Merge states into those of shorter histories, the cheapest merges first, until ``target`` are active."""
        queue = [self._entry(index) for index in range(len(self._states)) if self._may_back_off(index)]
        heapify(queue)
        while self._num_active > target and queue:
            negated, negated_index = heappop(queue)
            index = -negated_index
            change = self._change(index)
            if abs(change + negated) > _TOLERANCE * (abs(change) + abs(negated)):
                heappush(queue, (-change, -index))
                continue
            backoff = self._states[index].backoff
            before = self._may_back_off(backoff)
            self._back_off(index)
            if not before and self._may_back_off(backoff):
                heappush(queue, self._entry(backoff))

    def _entry(self, index: int) -> tuple[float, int]:
        """Return the priority of a merge in the queue: the greatest change first, of equal ones the last state."""
        return -self._change(index), -index

    def _may_back_off(self, index: int) -> bool:
        """Return whether a state may be merged now: all states of longer histories that back off to it have been."""
        state, options = self._states[index], self.options
        if state.backoff == NO_STATE or state.total != state.total_with_children or state.total == 0:
            return False
        if len(state.history) == options.ngram_order - 1:
            return True
        longer = (self._index.get((*state.history, phone)) for phone in state.counts if phone != SENTENCE_END)
        return not any(self._states[history].total_with_children for history in longer if history is not None)

    def _change(self, index: int) -> float:
        """Return the change of the log-likelihood, 0 or less, from merging a state into that of its shorter history."""
        state = self._states[index]
        backoff = self._states[state.backoff]
        if backoff.total == 0:
            return float(np.float32(_EMPTY_BACKOFF * state.total))
        both = dict(backoff.counts)
        for phone, count in state.counts.items():
            both[phone] = both.get(phone, 0) + count
        return min(0.0, float(_log_likelihood(both) - state.log_likelihood() - backoff.log_likelihood()))

    def _back_off(self, index: int) -> None:
        state = self._states[index]
        backoff = self._states[state.backoff]
        self._num_active -= backoff.total != 0
        for phone, count in state.counts.items():
            backoff.counts[phone] = backoff.counts.get(phone, 0) + count
        backoff.total += state.total
        state.likelihood = backoff.likelihood = None
        state.counts, state.total, state.total_with_children = {}, 0, 0

    # -- the result ------------------------------------------------------------------------------------------------

    def _active(self, history: tuple[int, ...]) -> int:
        """Return the state that now represents a history: that of its longest suffix with counts."""
        for first in range(len(history) + 1):
            index = self._index.get(history[first:])
            if index is not None and self._states[index].total:
                return index
        raise AssertionError(f"no state is left for the history {history}")

    def _fst(self) -> Fst:
        active = [index for index, state in enumerate(self._states) if state.total]
        number = {index: place for place, index in enumerate(active)}
        finals = np.full(len(active), NO_WEIGHT, dtype=np.float32)
        sources, labels, costs, targets = [], [], [], []
        for place, index in enumerate(active):
            state = self._states[index]
            for phone, count in sorted(state.counts.items()):
                cost = -math.log(count / state.total)
                if phone == SENTENCE_END:
                    finals[place] = cost
                    continue
                sources.append(place)
                labels.append(phone)
                costs.append(cost)
                targets.append(number[self._active((*state.history, phone))])
        start = number[self._active((SENTENCE_BEGIN,))]
        return connected(Fst.from_arcs(start, finals, sources, labels, labels, costs, targets))


def _log_likelihood(counts: dict[int, int]) -> np.float32:
    """Return the log-likelihood of counts under the distribution of their relative frequencies, float32."""
    total = sum(counts.values())
    return np.float32(sum(counts[phone] * math.log(counts[phone] / total) for phone in sorted(counts)))


def estimate_phone_lm(sequences: Iterable[Iterable[int]], options: PhoneLmOptions | None = None) -> Fst:
    """Estimate the phone language model of LF-MMI: n-grams without smoothing. Kaldi: chain-est-phone-lm.

    Parameters
    ----------
    sequences : the phones of each utterance, numbers from 1 on, such as int (phones,)
    options : orders and the number of states; None: Kaldi's defaults

    Returns
    -------
    An acceptor of phones, for :func:`make_den_fst`.

    Raises
    ------
    UsageError : invalid orders or number of states
    Nnet3Error : phones of 0 or less, or no sequences
    """
    estimator = PhoneLmEstimator(options)
    for phones in sequences:
        estimator.add(phones)
    return estimator.estimate()
