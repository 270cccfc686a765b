"""Graphs that are made while decoding: states get their arcs when the search visits them."""
from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from nnet3py.decoding import lookahead_layout as layout
from nnet3py.decoding import search_layout
from nnet3py.decoding.decoding_graph import address
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.state_graphs import enlarged

_rebuild_table = Loop("nnet3py.decoding.growing_loops", "rebuild_table", "i8[] i4[] i8")

MOST_ARCS = 8_000_000          # made arcs that are kept, 16 bytes each
_FIRST_STATES, _FIRST_ARCS = 1 << 12, 1 << 14


class GrowingGraph(ABC):
    """What a decoder has made so far: a graph like :class:`DecodingGraph` whose states get arcs when needed.

    It is kept for the next utterance. Once there are more than ``most_arcs``, it is dropped and made again, even in
    the middle of an utterance.

    Attributes
    ----------
    pdfs, num_columns : as in :class:`DecodingGraph`
    start : the start state
    """

    def __init__(self, pdfs: np.ndarray, num_columns: int, most_arcs: int) -> None:
        self.pdfs, self.num_columns, self._most_arcs = pdfs, num_columns, most_arcs
        self._counts = np.zeros(layout.NUM_COUNTS, dtype=np.int64)
        self._keys = np.empty(2 * _FIRST_STATES, dtype=np.int64)
        self._ranges = np.empty(2 * _FIRST_STATES, dtype=np.int32)
        self._potentials = np.empty(_FIRST_STATES, dtype=np.float32)
        self._states = np.empty((_FIRST_STATES, search_layout.STATE_WORDS), dtype=np.int32)
        self._arcs = np.empty((_FIRST_ARCS, search_layout.ARC_WORDS), dtype=np.int32)
        self._table = np.full(4 * _FIRST_STATES, -1, dtype=np.int32)
        self.start = 0

    @property
    def states(self) -> int:
        """The address of the table of states, which changes when states are added."""
        return address(self._states)

    @property
    def arcs(self) -> int:
        """The address of the table of arcs, which changes when arcs are added."""
        return address(self._arcs)

    @property
    def final_costs(self) -> np.ndarray:
        """float32 (states so far,); infinity: not final."""
        costs: np.ndarray = self._states[:, search_layout.FINAL].view(np.float32)
        return costs

    @property
    def num_states(self) -> int:
        """The number of states so far."""
        return int(self._counts[layout.NUM_STATES])

    @property
    def num_arcs(self) -> int:
        """The number of arcs so far."""
        return int(self._counts[layout.NUM_ARCS])

    @property
    def is_full(self) -> bool:
        """Whether to begin anew as soon as possible."""
        return self.num_arcs > self._most_arcs

    def expand(self, wanted: np.ndarray) -> None:
        """Make the arcs of those states (int32) that have none yet."""
        wanted = np.ascontiguousarray(wanted, dtype=np.int32)
        self._counts[layout.PLACE] = 0
        while status := self._expand(wanted):
            self._make_room(status)

    def expand_first(self, count: int) -> None:
        """Make the arcs of about as many states, those that are the fewest arcs away from the start."""
        done = 0
        while done < min(count, self.num_states):
            wanted = np.arange(done, min(count, self.num_states), dtype=np.int32)
            done += len(wanted)
            self.expand(wanted)

    def continue_from(self, other: GrowingGraph) -> None:
        """Begin with a copy of what another one of the same kind has made."""
        for name in ("_counts", "_keys", "_potentials", "_ranges", "_states", "_arcs", "_table"):
            setattr(self, name, getattr(other, name).copy())

    @abstractmethod
    def _expand(self, wanted: np.ndarray) -> int:
        """Call the loop that makes arcs, which returns what it needs to continue."""

    @abstractmethod
    def _add(self, key: int, label: int, potential: np.float32, first: int, end: int) -> int:
        """Add a state, which ``key`` and ``label`` tell from others, with what else is known; returns its number."""

    @abstractmethod
    def _add_start(self) -> int:
        """Add the start state; returns its number."""

    def _make_room(self, status: int) -> None:
        if status == layout.MORE_ARCS:
            self._arcs = enlarged(self._arcs)
        elif status == layout.MORE_STATES:
            self._keys, self._potentials = enlarged(self._keys), enlarged(self._potentials)
            self._ranges, self._states = enlarged(self._ranges), enlarged(self._states)
            self._table = np.empty(4 * len(self._states), dtype=np.int32)
            _rebuild_table(self._keys, self._table, self.num_states)

    def begin_anew(self, wanted: np.ndarray) -> np.ndarray:
        """Forget arcs, and states other than the start and ``wanted`` (int32); returns new numbers of ``wanted``."""
        keys, ranges = (array.reshape(-1, 2)[wanted].tolist() for array in (self._keys, self._ranges))
        states = zip(keys, self._potentials[wanted], ranges, strict=True)
        self._counts[[layout.NUM_STATES, layout.NUM_ARCS, layout.PLACE]] = 0
        self._table[:] = -1
        self.start = self._add_start()
        return np.array([self._add(key, label, potential, first, end)
                         for (key, label), potential, (first, end) in states], dtype=np.int32)

    def whole(self, most_arcs: int = MOST_ARCS) -> Fst:
        """All of it as one graph. ShapeError for more than ``most_arcs`` arcs, as of a grammar that calls itself."""
        done = 0
        while done < self.num_states:
            states = np.arange(done, self.num_states, dtype=np.int32)
            done = self.num_states
            self.expand(states)
            if self.num_arcs > most_arcs:
                raise ShapeError(f"the graph has more than {most_arcs} arcs as one",
                                 "it can only be put together while decoding, as one of a grammar that calls itself")
        states, arcs = self._states[:self.num_states], self._arcs[:self.num_arcs]
        firsts, counts = states[:, search_layout.FIRST_ARC].astype(np.int64), states[:, search_layout.NUM_ARCS]
        order = np.argsort(firsts, kind="stable")
        sources = np.repeat(order, counts[order])
        return Fst.from_arcs(self.start, self.final_costs[:self.num_states], sources, arcs[:, search_layout.ARC_INPUT],
                             arcs[:, search_layout.ARC_OUTPUT],
                             self._arcs.view(np.float32)[:self.num_arcs, search_layout.ARC_COST],
                             arcs[:, search_layout.ARC_NEXT])
