"""Which phones begin on a decoding graph's arcs, and which phones its states follow: arrays over all of a graph."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.transducers.fst import Fst

NO_PHONE = 0
MOST_PAIRS = 20_000_000       # graph states and what comes before them that are followed at once


@dataclass(frozen=True, eq=False)
class GraphPhones:
    """What transition-ids say of a graph's arcs.

    Attributes
    ----------
    graph : from transition-ids to words, with self-loops
    ids : int32 (arcs,), transition-ids; 0 for epsilons and for labels above the model's, such as disambiguation symbols
    is_loop : bool (arcs,), self-loops of HMM states
    begun : int32 (arcs,), the phone that begins on an arc; 0 for none
    """

    graph: Fst
    ids: np.ndarray
    is_loop: np.ndarray
    begun: np.ndarray

    @classmethod
    def of(cls, graph: Fst, model: TransitionModel) -> GraphPhones:
        """Of a graph of that model; Nnet3Error for one that has no phones."""
        labels = graph.input_labels
        if graph.start < 0 or not graph.num_arcs or int(labels.min()) < 0:
            raise Nnet3Error("a graph without arcs, or with labels that are not transition-ids, says nothing about "
                             "phones")
        ids = np.where(labels > model.num_transition_ids, 0, labels)
        is_loop = model.is_self_loop[ids] & (ids != 0)
        begins = (ids != 0) & ~is_loop & (model.transition_id_to_hmm_state[ids] == 0)
        if not begins.any():
            raise Nnet3Error("no phone begins in the graph", "are graph and model of one system?")
        begun = np.where(begins, model.transition_id_to_phone[ids], NO_PHONE).astype(np.int32)
        return cls(graph, ids, is_loop, begun)

    def phones_before(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a state and the last phone that began before it, int64 each, in order; 0 at the beginning.

        Nnet3Error for a graph with too many of them.
        """
        size = int(self.begun.max()) + 1
        begins = self.begun > 0
        first = np.append(self.graph.next_states[begins] * np.int64(size) + self.begun[begins], self.graph.start * size)
        pairs = self.spread(once(first), size, ~begins & ~self.is_loop)
        states, phones = np.divmod(pairs, size)
        return states, phones

    def spread(self, pairs: np.ndarray, size: int, passing: np.ndarray) -> np.ndarray:
        """Pairs ``state * size + value``, sorted, and what they become where values go along some arcs.

        ``passing``: bool (arcs,), which arcs. Nnet3Error for too many pairs.
        """
        arcs = np.flatnonzero(passing)
        sources = self.graph.sources[arcs].astype(np.int64)
        frontier = pairs
        while len(arcs) and len(frontier):
            states, values = np.divmod(frontier, size)
            taken, repeats = joined(states, sources)
            moved = once(self.graph.next_states[arcs[taken]].astype(np.int64) * size + np.repeat(values, repeats))
            frontier = moved[pairs[np.minimum(np.searchsorted(pairs, moved), len(pairs) - 1)] != moved]
            pairs = once(np.concatenate((pairs, frontier)))
            if len(pairs) > MOST_PAIRS:
                raise Nnet3Error(f"the graph has more than {MOST_PAIRS:,} pairs of a state and a phone before it",
                                 "put the file 'tree' of the model's training into its folder")
        return pairs


def once(values: np.ndarray) -> np.ndarray:
    """The different values, sorted. As numpy's ``unique``, which is many times slower for millions of large numbers."""
    values = np.sort(values)
    is_new = np.ones(len(values), dtype=bool)
    is_new[1:] = values[1:] != values[:-1]
    return values[is_new]


def joined(values: np.ndarray, sorted_keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each value the places of its equals among sorted keys, one after the other; and how many each has."""
    values = values.astype(sorted_keys.dtype, copy=False)        # otherwise numpy converts all keys
    first = np.searchsorted(sorted_keys, values)
    repeats = np.searchsorted(sorted_keys, values, side="right") - first
    offsets = np.cumsum(repeats) - repeats
    return np.repeat(first - offsets, repeats) + np.arange(int(repeats.sum())), repeats
