"""Graphs of a grammar that are put together while decoding: a top graph, and one for each nonterminal.

Kaldi: ``GrammarFst``.
"""
from __future__ import annotations

import numpy as np

from nnet3py.decoding import lookahead_layout as layout
from nnet3py.decoding import search_layout
from nnet3py.decoding.decoding_graph import address, check_epsilons, check_tables, table_words
from nnet3py.decoding.growing_graph import MOST_ARCS, GrowingGraph
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError, within
from nnet3py.graphs.grammar_fst import FIRST_LABEL, LEAVES, GrammarFst
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_binary import const_tables
from nnet3py.transducers.state_graphs import enlarged

_HERE = "nnet3py.decoding.grammar_loops"
_USES = ["nnet3py.decoding.search_layout", "nnet3py.decoding.lookahead_layout", "nnet3py.decoding.growing_loops",
         "nnet3py.graphs.grammar_fst"]
_MADE = "i8[] i4[] i4[,] f4[,]"          # keys, table, states
_expand = Loop(_HERE, "expand", f"u4* f4* i4* f4* i4[] i4[] i8[] {_MADE} i4[,] f4[,] i4[,] i4[] i8[] i4[]", _USES)
_add_state = Loop(_HERE, "add_state", f"f4* {_MADE} i8[] i8", _USES)
_rebuild_instances = Loop(_HERE, "rebuild_instances", "i4[,] i4[] i8", _USES)

_FIRST_INSTANCES = 1 << 8
_LARGEST = 1 << 31                 # of states: their numbers have 31 bits


class GrammarGraph:
    """The graphs of a grammar. Immutable, so decoders may share it; each expands what it needs for itself.

    Attributes
    ----------
    pdfs, num_columns : as in :class:`DecodingGraph`
    settings : int64, the number of #nonterm_bos, and the factor of nonterminals in labels
    states, arcs : tables of all graphs, one after the other
    starts : int32 (graphs,), start states, the top graph's first; -1 for an empty graph
    graph_of : int32, the graph of each user-defined nonterminal; -1 for none
    """

    def __init__(self, grammar: GrammarFst, model: TransitionModel | None) -> None:
        """ShapeError for graphs that no decoder can use. Decoding needs a model."""
        names = grammar.nonterminals
        self.pdfs, self.num_columns, largest = np.zeros(0, dtype=np.int32), 0, FIRST_LABEL - 1
        if model is not None:
            self.pdfs, self.num_columns, largest = model.transition_id_to_pdf, model.num_pdfs, model.num_transition_ids
        numbers = sorted(grammar.parts)
        self.graph_of = np.full(numbers[-1] - names.first_of_user + 1 if numbers else 0, -1, dtype=np.int32)
        self.graph_of[[number - names.first_of_user for number in numbers]] = range(1, len(numbers) + 1)
        self.settings = np.array([names.offset, names.multiple], dtype=np.int64)
        if grammar.top.start < 0:
            raise ShapeError("a graph for decoding needs states; the top graph of this one has none")
        states, arcs, starts = [], [], []
        num_states = num_arcs = 0
        for number, fst in ((0, grammar.top), *((number, grammar.parts[number]) for number in numbers)):
            with within(f"the graph of nonterminal {number}" if number else "the top graph"):
                own_states, own_arcs = _tables(fst, largest)
            own_states[:, search_layout.FIRST_ARC] += num_arcs
            own_arcs[:, search_layout.ARC_NEXT] += num_states
            starts.append(fst.start + num_states if fst.start >= 0 else -1)
            states.append(own_states)
            arcs.append(own_arcs)
            num_states, num_arcs = num_states + len(own_states), num_arcs + len(own_arcs)
            if max(num_states, num_arcs) >= _LARGEST:
                raise ShapeError("the graphs of the grammar are too large together")
        self.states, self.arcs = np.concatenate(states), np.concatenate(arcs)
        self.starts = np.array(starts, dtype=np.int32)

    @classmethod
    def read(cls, rxfilename: str, model: TransitionModel) -> GrammarGraph:
        """Read a file of ``make-grammar-fst``. FormatError for anything else, ShapeError as above."""
        return cls(GrammarFst.read(rxfilename), model)

    def for_decoder(self) -> ExpandedGrammar:
        """A graph that one decoder expands for itself."""
        return ExpandedGrammar(self)


def joined(grammar: GrammarFst) -> Fst:
    """A whole grammar as one graph. ShapeError as for :class:`GrammarGraph` and :meth:`GrowingGraph.whole`."""
    return GrammarGraph(grammar, None).for_decoder().whole()


def _tables(fst: Fst, num_transition_ids: int) -> tuple[np.ndarray, np.ndarray]:
    """Writable tables of states and arcs, int32; marks are removed from the final costs."""
    states, arcs = (table_words(table, width).copy() for table, width in
                    zip(const_tables(fst), (search_layout.STATE_WORDS, search_layout.ARC_WORDS), strict=True))
    plain = arcs.copy()
    labels = plain[:, search_layout.ARC_INPUT]
    labels[labels >= FIRST_LABEL] = 1
    check_tables(states, plain, num_transition_ids)
    check_epsilons(states, plain)
    leaves = np.zeros(len(states), dtype=bool)
    leaves[fst.sources[fst.input_labels >= FIRST_LABEL]] = True
    final = states[:, search_layout.FINAL].view(np.float32)
    final[leaves & (final == LEAVES)] = NO_WEIGHT
    return states, arcs


class ExpandedGrammar(GrowingGraph):
    """The part of a grammar's graph that a decoder has expanded so far."""

    def __init__(self, graph: GrammarGraph, most_arcs: int = MOST_ARCS) -> None:
        super().__init__(graph.pdfs, graph.num_columns, most_arcs)
        self._graph = graph
        states, arcs = address(graph.states), address(graph.arcs)
        self._tables = (states, states, arcs, arcs, graph.starts, graph.graph_of, graph.settings)
        self._instances = np.zeros((_FIRST_INSTANCES, layout.INSTANCE_WORDS), dtype=np.int32)
        self._instance_table = np.full(4 * _FIRST_INSTANCES, -1, dtype=np.int32)
        self._counts[layout.NUM_INSTANCES] = 1                # the top graph's
        self.start = self._add_start()

    def _add_start(self) -> int:
        return self._add(int(self._graph.starts[0]), 0, np.float32(0.0), 0, 0)

    def _add(self, key: int, label: int, potential: np.float32, first: int, end: int) -> int:
        return int(_add_state(self._tables[0], *self._pools(), self._counts, key))

    def _pools(self) -> tuple[np.ndarray, ...]:
        return self._keys, self._table, self._states, self._states.view(np.float32)

    def _expand(self, wanted: np.ndarray) -> int:
        return int(_expand(*self._tables, *self._pools(), self._arcs, self._arcs.view(np.float32), self._instances,
                           self._instance_table, self._counts, wanted))

    def _make_room(self, status: int) -> None:
        if status == layout.MORE_INSTANCES:
            self._instances = enlarged(self._instances)
            self._instance_table = np.empty(4 * len(self._instances), dtype=np.int32)
            _rebuild_instances(self._instances, self._instance_table, int(self._counts[layout.NUM_INSTANCES]))
        elif status in _WRONG:
            state, name, phone = self._counts[[layout.BAD_STATE, layout.BAD_NAME, layout.BAD_PHONE]].tolist()
            raise ShapeError(_WRONG[status].format(state=state, name=name, phone=phone), _HINTS[status])
        else:
            super()._make_room(status)


_WRONG = {
    layout.NO_GRAPH: "the grammar calls nonterminal {name} in state {state}, but has no graph for it",
    layout.NO_ENTRY: "nonterminal {name} is met after phone {phone} in state {state}, but the graph that is entered "
                     "there knows no such phone before it",
    layout.TOO_DEEP: "the grammar calls nonterminal {name} in itself, more than " f"{layout.MOST_DEPTH} times"}
_HINTS = {
    layout.NO_GRAPH: "give make-grammar-fst a graph for each nonterminal that is used",
    layout.NO_ENTRY: "all parts of a grammar must be made with one L, of the same phones that may come before words",
    layout.TOO_DEEP: "something must be said before a nonterminal occurs in itself"}
