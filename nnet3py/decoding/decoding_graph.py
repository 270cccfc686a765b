"""The graph that a decoder searches: its states and arcs as two tables, mapped into memory where a file has them so."""
from __future__ import annotations

import os
from typing import ClassVar, NamedTuple

import numpy as np

from nnet3py.advice import AdvisingType
from nnet3py.decoding import graph_loops
from nnet3py.decoding.search_layout import ARC_WORDS, FINAL, NUM_EPSILONS, STATE_WORDS
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError, UsageError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import FileContent
from nnet3py.io.streams import failed_command, open_input
from nnet3py.transducers.fst import NO_STATE, Fst
from nnet3py.transducers.fst_binary import const_tables, find_const_tables
from nnet3py.transducers.fst_text import read_fst

_check_tables = Loop("nnet3py.decoding.graph_loops", "check_tables", "u4* f4* i4* f4* i8 i8 i8 i8[]",
                     ["nnet3py.decoding.search_layout"])
_find_epsilon_cycle = Loop("nnet3py.decoding.graph_loops", "find_epsilon_cycle", "u4* i4* i8 u1[] i4[] i8[]",
                           ["nnet3py.decoding.search_layout"])


class DecodingGraph(metaclass=AdvisingType):
    """A graph from input labels, transition-ids mostly, to words. It never changes, so decoders may share it.

    :meth:`read` reads one, :meth:`of_fst` makes one.

    Parameters
    ----------
    start : the start state
    states, arcs : int32 (states, 5) and (arcs, 4), tables of 32-bit words, laid out as in OpenFst's ``const`` files
    pdfs : int32 (input labels + 1,), the column of the log-likelihoods that each input label takes
    num_columns : how many columns there are

    Attributes
    ----------
    num_states, num_arcs : how large it is
    states, arcs : int, the addresses of the tables (states, 5) and (arcs, 4)

    Raises
    ------
    ShapeError : tables that no decoder can use: states or labels that do not exist, invalid costs, a cycle of arcs
        without input labels
    """

    _FROM_FILE: ClassVar[str] = "nnet3py.DecodingGraph.read('HCLG.fst', transition_model) reads a file"

    def __init__(self, start: int, states: np.ndarray, arcs: np.ndarray, pdfs: np.ndarray, num_columns: int) -> None:
        """Use tables of 32-bit words (states, 5) and (arcs, 4), which may be read-only and unaligned.

        ``pdfs`` (int32) has an entry for every possible label, from 0. ShapeError for tables that no decoder
        can use: states or labels that do not exist, invalid costs, a cycle of arcs without input labels.
        """
        self._tables = states, arcs                     # kept alive: the addresses point into them
        self.start, self.num_states, self.num_arcs = start, len(states), len(arcs)
        self.pdfs, self.num_columns = np.ascontiguousarray(pdfs, dtype=np.int32), num_columns
        if not 0 <= start < self.num_states or not self.num_arcs:
            raise ShapeError("a graph for decoding needs states and arcs; this one has none")
        self.states, self.arcs = address(states), address(arcs)
        check_tables(states, arcs, len(self.pdfs) - 1)
        check_epsilons(states, arcs)

    def __repr__(self) -> str:
        return f"<DecodingGraph: {self.num_states:,} states, {self.num_arcs:,} arcs>"

    @classmethod
    def of_fst(cls, fst: Fst, model: TransitionModel) -> DecodingGraph:
        """A graph of transition-ids of a model."""
        return cls(*tables_of(fst), *_columns(model))

    @classmethod
    def read(cls, rxfilename: str | os.PathLike[str], model: TransitionModel) -> DecodingGraph:
        """Read a graph of transition-ids of a model. A ``const`` file is not copied but mapped into memory.

        Raises FormatError for a file that is not an FST, ShapeError as above.
        """
        start, states, arcs = read_tables(rxfilename)
        return cls(start, states, arcs, *_columns(model))

    @property
    def final_costs(self) -> np.ndarray:
        """float32 (states,); infinity: not final."""
        costs: np.ndarray = self._tables[0][:, FINAL].view(np.float32)
        return costs

    def for_decoder(self) -> DecodingGraph:
        """What a decoder works with: the graph itself, since nothing in it changes."""
        return self


def check_tables(states: np.ndarray, arcs: np.ndarray, largest: int) -> None:
    """ShapeError for tables of a graph, (states, 5) and (arcs, 4), that do not fit, or invalid costs.

    ``largest`` is the largest possible input label.
    """
    place = np.zeros(3, dtype=np.int64)
    problem = _check_tables(address(states), address(states), address(arcs), address(arcs), len(states), len(arcs),
                            largest, place)
    state, arc, value = place.tolist()
    where = f"arc {arc} of the graph, of state {state}"
    if problem == graph_loops.BAD_INPUT:
        raise ShapeError(f"{where} has the input label {value}, but the model's transition-ids are 1 to {largest}",
                         "graph and model must belong together")
    if problem:
        raise ShapeError({
            graph_loops.BAD_RANGE: f"state {state} of the graph has {value} arcs from arc {arc}, but there are "
                                   f"{len(arcs)} arcs",
            graph_loops.BAD_NEXT: f"{where} leads to state {value}, but there are {len(states)}",
            graph_loops.BAD_OUTPUT: f"{where} has the output label {value}",
            graph_loops.BAD_COST: f"{where}, or this state's end, has a cost that is not a number",
            graph_loops.BAD_EPSILONS: f"state {state} of the graph has {value} arcs without input labels, but its "
                                      "table says another number",
        }[problem], "the file is damaged" if problem != graph_loops.BAD_COST else "")


def check_epsilons(states: np.ndarray, arcs: np.ndarray) -> None:
    """ShapeError for a cycle of arcs without input labels."""
    most = int(np.count_nonzero(states[:, NUM_EPSILONS]))
    cycle = _find_epsilon_cycle(address(states), address(arcs), len(states), np.zeros(len(states), dtype=np.uint8),
                                np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int64))
    if cycle >= 0:
        raise ShapeError("the graph has a cycle of arcs without transition-ids, in which decoding would not end",
                         f"state {cycle} is on it")


class MappedTables(NamedTuple):
    """The start state, states and arcs of a ``const`` FST where they lie in a file, and the place after it."""

    start: int
    states: np.ndarray
    arcs: np.ndarray
    end: int


def read_tables(rxfilename: str | os.PathLike[str]) -> tuple[int, np.ndarray, np.ndarray]:
    """The start state and the tables of an FST in a file; those of a ``const`` file are mapped into memory."""
    with open_input(rxfilename) as stream:
        content = FileContent(stream)
        mapped = mapped_tables(content)
        tables = mapped[:3] if mapped is not None else tables_of(read_fst(content.reader()))
    if stream.status:
        raise failed_command(stream.path, stream.status)
    return tables


def tables_of(fst: Fst) -> tuple[int, np.ndarray, np.ndarray]:
    """The start state and the tables of an FST."""
    states, arcs = const_tables(fst)
    return fst.start, table_words(states, STATE_WORDS), table_words(arcs, ARC_WORDS)


def address(array: np.ndarray) -> int:
    """Where an array's elements begin."""
    return int(array.__array_interface__["data"][0])


def table_words(records: np.ndarray, width: int) -> np.ndarray:
    """Records of ``width`` words of 32 bits each, as rows of int32; no copy."""
    return np.frombuffer(records, dtype=np.int32).reshape(-1, width)


def _columns(model: TransitionModel) -> tuple[np.ndarray, int]:
    if not isinstance(model, TransitionModel):
        raise UsageError(f"expected a transition model, found {type(model).__name__}",
                         "model.transition_model is that of an acoustic model; nnet3py.read_transition_model(path)")
    return model.transition_id_to_pdf, model.num_pdfs


def mapped_tables(content: FileContent, offset: int = 0) -> MappedTables | None:
    """The tables of a ``const`` FST at a place in a file; None for other FSTs."""
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
