"""Graphs as decoders search them: two tables of states and arcs, complete or expanded while decoding.

Tables of OpenFst's ``const`` files are mapped into memory, not copied.
"""
from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

import numpy as np

from nnet3py.advice import AdvisingType
from nnet3py.decoding import layout
from nnet3py.decoding.layout import ARC_WORDS, FINAL, NUM_EPSILONS, STATE_WORDS
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError, UsageError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import FileContent
from nnet3py.io.streams import complete_input
from nnet3py.transducers.fst import NO_STATE, Fst
from nnet3py.transducers.fst_binary import const_tables, find_const_tables
from nnet3py.transducers.fst_text import read_fst
from nnet3py.transducers.state_graphs import enlarged

_LOOPS, _USES = "nnet3py.decoding.graph_loops", ["nnet3py.decoding.layout"]
_check_tables = Loop(_LOOPS, "check_tables", "u4* f4* i4* f4* i8 i8 i8 i8[]", _USES)
_find_epsilon_cycle = Loop(_LOOPS, "find_epsilon_cycle", "u4* i4* i8 u1[] i4[] i8[]", _USES)
_rebuild_table = Loop(_LOOPS, "rebuild_table", "i8[] i4[] i8", _USES)

MOST_ARCS = 8_000_000          # made arcs that are kept, 16 bytes each
_FIRST_STATES, _FIRST_ARCS = 1 << 12, 1 << 14


class DecodingGraph(metaclass=AdvisingType):
    """A graph from input labels, mostly transition-ids, to words. Immutable, so decoders may share it.

    :meth:`read` makes one of a file, :meth:`of_fst` of an FST. Raises ShapeError for tables that no decoder can use:
    states or labels that do not exist, invalid costs, a cycle of arcs without input labels.

    Parameters
    ----------
    start : the start state
    states, arcs : int32 (states, 5) and (arcs, 4), tables of 32-bit words, laid out as in OpenFst's ``const`` files
    pdfs : int32 (input labels + 1,), the column of the log-likelihoods for each input label
    num_columns : number of columns of the log-likelihoods

    Attributes
    ----------
    num_states, num_arcs : numbers of states and arcs
    states, arcs : int, the memory addresses of the tables (states, 5) and (arcs, 4)
    """

    _FROM_FILE: ClassVar[str] = "nnet3py.DecodingGraph.read('HCLG.fst', transition_model) reads a file"

    def __init__(self, start: int, states: np.ndarray, arcs: np.ndarray, pdfs: np.ndarray, num_columns: int) -> None:
        self._tables = states, arcs        # kept alive: the addresses point into them; may be read-only and unaligned
        self.start, self.num_states, self.num_arcs = start, len(states), len(arcs)
        self.pdfs, self.num_columns = np.ascontiguousarray(pdfs, dtype=np.int32), num_columns
        if not 0 <= start < self.num_states or not self.num_arcs:
            raise ShapeError("a graph for decoding needs states and arcs; this graph has none")
        self.states, self.arcs = address(states), address(arcs)
        check_tables(states, arcs, len(self.pdfs) - 1)
        check_epsilons(states, arcs)

    def __repr__(self) -> str:
        return f"<DecodingGraph: {self.num_states:,} states, {self.num_arcs:,} arcs>"

    @classmethod
    def of_fst(cls, fst: Fst, model: TransitionModel) -> DecodingGraph:
        """Make a graph of an FST whose input labels are transition-ids of a model."""
        return cls(*tables_of(fst), *_columns(model))

    @classmethod
    def read(cls, rxfilename: str | os.PathLike[str], model: TransitionModel) -> DecodingGraph:
        """Read a graph whose input labels are transition-ids of a model. A ``const`` file is mapped, not copied.

        Raises FormatError for a file that is not an FST, ShapeError as the class does.
        """
        with opened_content(rxfilename) as content:
            mapped = mapped_tables(content)
            tables = mapped[:3] if mapped is not None else tables_of(read_fst(content.reader()))
        return cls(*tables, *_columns(model))

    @property
    def final_costs(self) -> np.ndarray:
        """Final costs, float32 (states,); infinity: not final."""
        costs: np.ndarray = self._tables[0][:, FINAL].view(np.float32)
        return costs

    def for_decoder(self) -> DecodingGraph:
        """Return the graph itself: decoders change nothing in it."""
        return self


def check_tables(states: np.ndarray, arcs: np.ndarray, largest: int) -> None:
    """Raise ShapeError for tables of a graph, (states, 5) and (arcs, 4), with invalid states, labels or costs.

    ``largest`` is the largest possible input label.
    """
    place = np.zeros(3, dtype=np.int64)
    problem = _check_tables(address(states), address(states), address(arcs), address(arcs), len(states), len(arcs),
                            largest, place)
    state, arc, value = place.tolist()
    where = f"arc {arc} of the graph, of state {state}"
    if problem == layout.BAD_INPUT:
        raise ShapeError(f"{where} has the input label {value}, but the model's transition-ids are 1 to {largest}",
                         "use the model that the graph was made with")
    if problem:
        raise ShapeError({
            layout.BAD_RANGE: f"state {state} of the graph has {value} arcs from arc {arc}, but there are "
                                   f"{len(arcs)} arcs",
            layout.BAD_NEXT: f"{where} leads to state {value}, but there are {len(states)} states",
            layout.BAD_OUTPUT: f"{where} has the output label {value}",
            layout.BAD_COST: f"{where}, or this state's end, has a cost that is not a number",
            layout.BAD_EPSILONS: f"state {state} of the graph has {value} arcs without input labels, but its "
                                      "table has another number",
        }[problem], "the file is damaged" if problem != layout.BAD_COST else "")


def check_epsilons(states: np.ndarray, arcs: np.ndarray) -> None:
    """Raise ShapeError for a cycle of arcs without input labels."""
    most = int(np.count_nonzero(states[:, NUM_EPSILONS]))
    cycle = _find_epsilon_cycle(address(states), address(arcs), len(states), np.zeros(len(states), dtype=np.uint8),
                                np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int64))
    if cycle >= 0:
        raise ShapeError("the graph has a cycle of arcs without transition-ids, in which decoding would not end",
                         f"state {cycle} is on it")


class MappedTables(NamedTuple):
    """The start state, states and arcs of a ``const`` FST, mapped from its file, and the position after it."""

    start: int
    states: np.ndarray
    arcs: np.ndarray
    end: int


@contextmanager
def opened_content(rxfilename: str | os.PathLike[str]) -> Iterator[FileContent]:
    """Yield the content of a file or of a command's output; Nnet3Error if the command fails."""
    with complete_input(rxfilename) as stream:
        yield FileContent(stream)


def tables_of(fst: Fst) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the start state of an FST, and its tables, int32 (states, 5) and (arcs, 4)."""
    states, arcs = (np.frombuffer(table, dtype=np.int32) for table in const_tables(fst))
    return fst.start, states.reshape(-1, STATE_WORDS), arcs.reshape(-1, ARC_WORDS)


def address(array: np.ndarray) -> int:
    """Return the memory address of an array's first element."""
    return int(array.__array_interface__["data"][0])


def _columns(model: TransitionModel) -> tuple[np.ndarray, int]:
    if not isinstance(model, TransitionModel):
        raise UsageError(f"expected a transition model, found {type(model).__name__}",
                         "model.transition_model is that of an acoustic model; nnet3py.read_transition_model(path)")
    return model.transition_id_to_pdf, model.num_pdfs


def mapped_tables(content: FileContent, offset: int = 0) -> MappedTables | None:
    """Return the tables of the ``const`` FST at byte ``offset`` of a file; None for other FSTs."""
    reader = content.reader(offset)
    places = find_const_tables(reader) if reader.peek(1) == b"\xd6" else None
    if places is None:
        return None
    header = places.header
    end = places.arcs + header.num_arcs * ARC_WORDS * 4
    if header.num_arcs < 0 or end > content.size:
        raise reader.error(f"expected a graph of {header.num_states} states and {header.num_arcs} arcs, which takes "
                           f"{end} bytes, but the file has {content.size}")
    if not NO_STATE <= header.start < header.num_states:
        raise reader.error(f"expected a graph's start state, found {header.start} where there are {header.num_states} "
                           "states")
    states = content.array(np.int32, places.states, header.num_states * STATE_WORDS).reshape(-1, STATE_WORDS)
    arcs = content.array(np.int32, places.arcs, header.num_arcs * ARC_WORDS).reshape(-1, ARC_WORDS)
    return MappedTables(header.start, states, arcs, end)


class LazyGraph(ABC):
    """A graph like :class:`DecodingGraph` whose states are expanded when one decoder's search reaches them.

    States and arcs are kept for the next utterance. Once there are more than ``most_arcs`` arcs, all are dropped and
    made again, even in the middle of an utterance.

    Attributes
    ----------
    pdfs, num_columns : as in :class:`DecodingGraph`
    start : the start state
    """

    def __init__(self, pdfs: np.ndarray, num_columns: int, most_arcs: int) -> None:
        self.pdfs, self.num_columns, self._most_arcs = pdfs, num_columns, most_arcs
        self._counts = np.zeros(layout.NUM_GRAPH_COUNTS, dtype=np.int64)
        self._keys = np.empty(2 * _FIRST_STATES, dtype=np.int64)
        self._ranges = np.empty(2 * _FIRST_STATES, dtype=np.int32)
        self._potentials = np.empty(_FIRST_STATES, dtype=np.float32)
        self._states = np.empty((_FIRST_STATES, layout.STATE_WORDS), dtype=np.int32)
        self._arcs = np.empty((_FIRST_ARCS, layout.ARC_WORDS), dtype=np.int32)
        self._table = np.full(4 * _FIRST_STATES, -1, dtype=np.int32)
        self.start = 0

    @property
    def states(self) -> int:
        """Memory address of the table of states, which changes when states are added."""
        return address(self._states)

    @property
    def arcs(self) -> int:
        """Memory address of the table of arcs, which changes when arcs are added."""
        return address(self._arcs)

    @property
    def final_costs(self) -> np.ndarray:
        """Final costs, float32 (states so far,); infinity: not final."""
        costs: np.ndarray = self._states[:, layout.FINAL].view(np.float32)
        return costs

    @property
    def num_states(self) -> int:
        """The number of states so far."""
        return int(self._counts[layout.NUM_STATES])

    @property
    def num_arcs(self) -> int:
        """The number of arcs so far."""
        return int(self._counts[layout.NUM_MADE_ARCS])

    @property
    def is_full(self) -> bool:
        """True if there are too many arcs, and :meth:`restart` must be called."""
        return self.num_arcs > self._most_arcs

    def expand(self, wanted: np.ndarray) -> None:
        """Make the arcs of the states ``wanted`` (int32) that have none yet."""
        wanted = np.ascontiguousarray(wanted, dtype=np.int32)
        self._counts[layout.PLACE] = 0
        while status := self._expand(wanted):
            self._make_room(status)

    def expand_first(self, count: int) -> None:
        """Make the arcs of about ``count`` states, the nearest to the start."""
        done = 0
        while done < min(count, self.num_states):
            wanted = np.arange(done, min(count, self.num_states), dtype=np.int32)
            done += len(wanted)
            self.expand(wanted)

    def copy_states(self, other: LazyGraph) -> None:
        """Copy all states and arcs of another graph of the same kind."""
        for name in ("_counts", "_keys", "_potentials", "_ranges", "_states", "_arcs", "_table"):
            setattr(self, name, getattr(other, name).copy())

    @abstractmethod
    def _expand(self, wanted: np.ndarray) -> int:
        """Call the loop that expands states; return 0, or which array it needs enlarged to continue."""

    @abstractmethod
    def _add(self, key: int, label: int, potential: np.float32, first: int, end: int) -> int:
        """Add a composed state, identified by ``key`` and ``label``; return its number.

        Only compositions with G use the arguments after ``key``; see ``lookahead_loops.py``.
        """

    @abstractmethod
    def _add_start(self) -> int:
        """Add the start state; return its number."""

    def _make_room(self, status: int) -> None:
        if status == layout.MORE_ARCS:
            self._arcs = enlarged(self._arcs)
        elif status == layout.MORE_STATES:
            self._keys, self._potentials = enlarged(self._keys), enlarged(self._potentials)
            self._ranges, self._states = enlarged(self._ranges), enlarged(self._states)
            self._table = np.empty(4 * len(self._states), dtype=np.int32)
            _rebuild_table(self._keys, self._table, self.num_states)

    def restart(self, wanted: np.ndarray) -> np.ndarray:
        """Drop all arcs, and all states but the start and ``wanted`` (int32); return the new numbers of ``wanted``."""
        keys, ranges = (array.reshape(-1, 2)[wanted].tolist() for array in (self._keys, self._ranges))
        states = zip(keys, self._potentials[wanted], ranges, strict=True)
        self._counts[[layout.NUM_STATES, layout.NUM_MADE_ARCS, layout.PLACE]] = 0
        self._table[:] = -1
        self.start = self._add_start()
        return np.array([self._add(key, label, potential, first, end)
                         for (key, label), potential, (first, end) in states], dtype=np.int32)

    def to_fst(self, most_arcs: int = MOST_ARCS) -> Fst:
        """Expand all states; return the graph as an FST. ShapeError for more than ``most_arcs`` arcs.

        A grammar in which a nonterminal contains itself has infinitely many.
        """
        done = 0
        while done < self.num_states:
            states = np.arange(done, self.num_states, dtype=np.int32)
            done = self.num_states
            self.expand(states)
            if self.num_arcs > most_arcs:
                raise ShapeError(f"the graph has more than {most_arcs} arcs as one FST",
                                 "such a graph, as of a grammar that calls itself, can only be made while decoding")
        states, arcs = self._states[:self.num_states], self._arcs[:self.num_arcs]
        firsts, counts = states[:, layout.FIRST_ARC].astype(np.int64), states[:, layout.NUM_ARCS]
        order = np.argsort(firsts, kind="stable")
        sources = np.repeat(order, counts[order])
        return Fst.from_arcs(self.start, self.final_costs[:self.num_states], sources, arcs[:, layout.ARC_INPUT],
                             arcs[:, layout.ARC_OUTPUT],
                             self._arcs.view(np.float32)[:self.num_arcs, layout.ARC_COST],
                             arcs[:, layout.ARC_NEXT])
