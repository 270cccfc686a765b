"""The graph that a decoder searches: its states and arcs as two tables, mapped into memory where a file has them so."""
from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from nnet3py.decoding import graph_loops
from nnet3py.decoding.search_layout import ARC_WORDS, FINAL, NUM_EPSILONS, STATE_WORDS
from nnet3py.engine.loop import Loop
from nnet3py.errors import FormatError, ShapeError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import token_reader
from nnet3py.io.streams import InputStream, failed_command, open_input
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_binary import const_tables, find_const_tables
from nnet3py.transducers.fst_text import read_fst

_check_tables = Loop("nnet3py.decoding.graph_loops", "check_tables", "u4* f4* i4* f4* i8 i8 i8 i8[]",
                     ["nnet3py.decoding.search_layout"])
_find_epsilon_cycle = Loop("nnet3py.decoding.graph_loops", "find_epsilon_cycle", "u4* i4* i8 u1[] i4[] i8[]",
                           ["nnet3py.decoding.search_layout"])


class DecodingGraph:
    """A graph from input labels, transition-ids mostly, to words. It never changes, so decoders may share it.

    Attributes
    ----------
    start : the start state
    num_states, num_arcs : how large it is
    pdfs : int32, the column of the log-likelihoods that each input label takes
    num_columns : how many columns there are
    states, arcs : the addresses of the tables, laid out as in OpenFst's ``const`` files
    """

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
        states, arcs = const_tables(fst)
        return cls(fst.start, table_words(states, STATE_WORDS), table_words(arcs, ARC_WORDS), *_columns(model))

    @classmethod
    def read(cls, rxfilename: str | os.PathLike[str], model: TransitionModel) -> DecodingGraph:
        """Read a graph of transition-ids of a model. A ``const`` file is not copied but mapped into memory.

        Raises FormatError for a file that is not an FST, ShapeError as above.
        """
        with open_input(rxfilename) as stream:
            mapped = _mapped(stream)
            if mapped is not None:
                return cls(*mapped, *_columns(model))
            fst = read_fst(token_reader(stream))
        if stream.status:
            raise failed_command(stream.path, stream.status)
        return cls.of_fst(fst, model)

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


def address(array: np.ndarray) -> int:
    """Where an array's elements begin."""
    return int(array.__array_interface__["data"][0])


def table_words(records: np.ndarray, width: int) -> np.ndarray:
    """Records of ``width`` words of 32 bits each, as rows of int32; no copy."""
    return np.frombuffer(records, dtype=np.int32).reshape(-1, width)


def _columns(model: TransitionModel) -> tuple[np.ndarray, int]:
    return model.transition_id_to_pdf, model.num_pdfs


def _mapped(stream: InputStream) -> tuple[int, np.ndarray, np.ndarray] | None:
    """The start state and the tables of a ``const`` file; None for other files, pipes, and FSTs inside other files.

    Then nothing has been read.
    """
    if stream.size is None or stream.tell() != 0:
        return None
    reader = token_reader(stream)
    places = find_const_tables(reader) if reader.peek(1) == b"\xd6" else None
    if places is None:
        stream.seek(0)
        return None
    header = places.header
    end = places.arcs + header.num_arcs * ARC_WORDS * 4
    if header.num_arcs < 0 or end > stream.size:
        raise FormatError(f"expected a graph of {header.num_states} states and {header.num_arcs} arcs, which takes "
                          f"{end} bytes, but the file has {stream.size}", path=stream.path)
    content: Any = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    tables = [np.frombuffer(content, dtype=np.int32, count=count * width, offset=first).reshape(-1, width)
              for count, width, first in ((header.num_states, STATE_WORDS, places.states),
                                          (header.num_arcs, ARC_WORDS, places.arcs))]
    return header.start, tables[0], tables[1]
