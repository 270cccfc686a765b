"""HCL and G composed while decoding, so that G may be large, or differ for each utterance."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.decoding import lookahead_layout as layout
from nnet3py.decoding import search_layout
from nnet3py.decoding.decoding_graph import address, check_epsilons, check_tables, tables_of
from nnet3py.decoding.growing_graph import MOST_ARCS, GrowingGraph
from nnet3py.decoding.lookahead import MOST_WORDS, Lookahead, find_parts
from nnet3py.decoding.lookahead_grammar import GrammarTables
from nnet3py.decoding.phrase_grammar import bigram_grammar, phrase_grammar
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_text import read_fst_file

_HERE = "nnet3py.decoding.lookahead_loops"
_USES = ["nnet3py.decoding.search_layout", "nnet3py.decoding.lookahead_layout", "nnet3py.decoding.growing_loops",
         "nnet3py.engine.inline"]
_MADE = "i8* f4* i4* i4* i8 i4* f4*"            # keys, potentials, ranges, table, states
_GRAMMAR = "u4* f4* i4* i4* f4* i4* i8 i8 f4* i4* i4* f8* f8"
_expand = Loop(_HERE, "expand",
               f"u4* f4* i4* f4* {_GRAMMAR} i4* i4* i8 u1* u1* {_MADE} i8 i4* f4* i8 i8* i4* i8", _USES)
_add_state = Loop(_HERE, "add_state", f"f4* u4* f4* u1* {_MADE} i8* i8 i8 f4 i8 i8", _USES)
_find_free_arcs = Loop("nnet3py.decoding.graph_loops", "find_free_arcs", "u4* i4* i8 i8 u1[] i4[,]",
                       ["nnet3py.decoding.search_layout"])

_FIRST_COMPOSED = 20_000        # states near the start: a twentieth of a second, and 10 MB


class LookaheadGraph:
    """HCL and one G. Immutable, so decoders may share it; each composes what it needs for itself.

    Attributes
    ----------
    lookahead : HCL
    grammar : G
    pdfs, num_columns : as in :class:`DecodingGraph`
    """

    def __init__(self, lookahead: Lookahead, grammar: Fst | GrammarTables, disambig: Iterable[int],
                 model: TransitionModel, like: LookaheadGraph | None = None) -> None:
        """Use HCL, and a G whose input labels are HCL's output labels (:meth:`of_words` for one of words).

        ``disambig`` are input labels of HCL to treat as epsilons. ``like``: a graph of the same HCL, which has been
        checked already. ShapeError for graphs that no decoder can use.
        """
        self.lookahead, self.disambig, self.model = lookahead, list(disambig), model
        self.num_columns = model.num_pdfs
        largest = max([model.num_transition_ids, *self.disambig])
        self.is_disambig = np.zeros(largest + 1, dtype=np.uint8)
        self.is_disambig[[label for label in self.disambig if label > 0]] = 1
        self.pdfs = np.concatenate((model.transition_id_to_pdf, np.zeros(
            largest - model.num_transition_ids, dtype=np.int32))).astype(np.int32)
        if like is None:
            check_tables(lookahead.states, lookahead.arcs, largest)
            self.traits, self._cyclic = self._free_cycles()
        else:
            self.traits, self._cyclic = like.traits, like._cyclic
        self.grammar = grammar if isinstance(grammar, GrammarTables) else GrammarTables.of_fst(grammar)
        if self.grammar.largest_word() >= MOST_WORDS:
            raise ShapeError(f"the grammar has the word {self.grammar.largest_word()}; words are below {MOST_WORDS}")
        self._check_cycles()

    def _free_cycles(self) -> tuple[np.ndarray, np.ndarray]:
        """uint8, the traits of HCL's states; int32, output labels on its cycles of arcs without transition-ids, and 0.

        ShapeError for such a cycle without output labels.
        """
        free = self._free_arcs()
        is_final = self.lookahead.states[:, search_layout.FINAL].view(np.float32) != NO_WEIGHT
        traits = is_final.astype(np.uint8) * np.uint8(layout.CAN_END)
        traits[free[:, 0]] |= layout.HAS_FREE_ARCS
        labels = np.zeros(1, dtype=np.int32)
        if len(free):
            numbers, places = np.unique(free[:, :2], return_inverse=True)
            sources, targets = places.reshape(-1, 2).T
            nothing = np.zeros(len(free))
            start, states, arcs = tables_of(Fst.from_arcs(0, np.zeros(len(numbers)), sources, free[:, 2], nothing,
                                                          nothing, targets))
            check_epsilons(states, arcs)
            part = find_parts(states, arcs)[0]
            labels = np.append(free[part[sources] == part[targets], 2], labels)
        return traits, np.unique(labels)

    def _check_cycles(self) -> None:
        """ShapeError if composed arcs without transition-ids can make a cycle.

        That takes a cycle in G of labels that HCL has on such cycles, as on loops of #0.
        """
        labels = self._cyclic
        grammar = self.grammar
        if grammar.is_ngram:
            if np.isin(labels, grammar.arrays.future_words).any():
                raise ShapeError("the graph has a cycle of arcs without transition-ids, in which decoding would not "
                                 "end")
        elif len(labels) == 1:
            check_epsilons(grammar.states, grammar.arrays)
        else:
            free_in_g = np.isin(grammar.arrays[:, search_layout.ARC_INPUT], labels)
            check_epsilons(*_with_epsilons(grammar.states, grammar.arrays, free_in_g))

    def _free_arcs(self) -> np.ndarray:
        """int32 (arcs, 3): source, target and output label of HCL's arcs without transition-id."""
        states, arcs = self.lookahead.states, self.lookahead.arcs
        edges = np.empty((0, 3), dtype=np.int32)
        while (count := _find_free_arcs(address(states), address(arcs), len(states), self.model.num_transition_ids,
                                        self.is_disambig, edges)) > len(edges):
            edges = np.empty((count, 3), dtype=np.int32)
        if count < 0:
            raise ShapeError(f"the graph has the input label {-count}, which is neither a transition-id (1 to "
                             f"{self.model.num_transition_ids}) nor a disambiguation symbol")
        return edges

    @classmethod
    def of_words(cls, lookahead: Lookahead, grammar: Fst, disambig: Iterable[int],
                 model: TransitionModel) -> LookaheadGraph:
        """The same for a G of words. Nnet3Error if the labels of words in HCL are not known."""
        return cls(lookahead, relabeled(grammar, lookahead.label_of_word), disambig, model)

    @classmethod
    def read(cls, hcl: str | os.PathLike[str], grammar: str | os.PathLike[str], disambig: Iterable[int],
             model: TransitionModel) -> LookaheadGraph:
        """Read HCLr.fst and Gr.fst; or HCL.fst and G.fst, of words, where HCL has no look-ahead data."""
        lookahead = Lookahead.read(hcl)
        if lookahead.takes_words:
            return cls.of_words(lookahead, read_fst_file(grammar), disambig, model)
        return cls(lookahead, GrammarTables.read(grammar), disambig, model)

    def with_grammar(self, grammar: Fst) -> LookaheadGraph:
        """The same HCL with another G, of HCL's labels."""
        return LookaheadGraph(self.lookahead, grammar, self.disambig, self.model, self)

    @cached_property
    def grammar_fst(self) -> Fst:
        """G as arrays of arcs."""
        return self.grammar.to_fst()

    @cached_property
    def label_of_word(self) -> np.ndarray:
        """int32, the label of each word in HCL, 0 for none: from HCL's file, or else from G's arcs."""
        if self.lookahead.label_of_word is not None:
            return self.lookahead.label_of_word
        if self.grammar.is_ngram:
            return self.lookahead.labels_of_words()
        inputs, outputs = (self.grammar.arrays[:, word] for word in (search_layout.ARC_INPUT, search_layout.ARC_OUTPUT))
        labels = np.zeros(int(outputs.max(initial=0)) + 1, dtype=np.int32)
        labels[outputs] = inputs
        labels[0] = 0
        return labels

    def hcl_of_words(self) -> Fst:
        """HCL from transition-ids to words, without other labels such as #0, where G backs off."""
        lookahead, labels = self.lookahead, self.label_of_word
        arcs, num_arcs = lookahead.arcs, lookahead.states[:, search_layout.NUM_ARCS]
        outputs = arcs[:, search_layout.ARC_OUTPUT].astype(np.int64)
        word_of_label = np.zeros(int(max(outputs.max(initial=0), labels.max(initial=0))) + 1, dtype=np.int32)
        word_of_label[labels] = np.arange(len(labels))
        no_words = self.grammar.labels_without_word()
        word_of_label[no_words[no_words < len(word_of_label)]] = 0
        inputs = arcs[:, search_layout.ARC_INPUT].astype(np.int32)
        inputs = np.where(self.is_disambig[inputs] != 0, 0, inputs)
        targets, sources = arcs[:, search_layout.ARC_NEXT], np.repeat(np.arange(len(num_arcs)), num_arcs)
        word_of_label[outputs[(inputs == 0) & (sources == targets)]] = 0        # of loops, on which there is no word
        words = word_of_label[outputs]
        stays = (inputs != 0) | (words != 0) | (sources != targets)
        return Fst.from_arcs(lookahead.start, lookahead.states[:, search_layout.FINAL].view(np.float32).copy(),
                             sources[stays], inputs[stays], words[stays],
                             arcs[:, search_layout.ARC_COST].view(np.float32)[stays], targets[stays])

    def with_phrases(self, phrases: Sequence[Sequence[int]]) -> LookaheadGraph:
        """A graph that allows only these phrases (numbers of words), any number of times.

        ShapeError for a word that HCL does not have.
        """
        labels = self.label_of_word
        unknown = [word for phrase in phrases for word in phrase if not (0 < word < len(labels) and labels[word])]
        if unknown:
            raise ShapeError(f"a phrase has the word {unknown[0]}, which the graph does not have",
                             "words must be in the lexicon that the graph was made of")
        return self.with_grammar(relabeled(phrase_grammar(phrases), labels))

    def with_phrase_list(self, phrases: Sequence[Sequence[int]]) -> LookaheadGraph:
        """A graph of pairs of words in these phrases (numbers of words), as vosk makes it, without words HCL lacks."""
        return self.with_grammar(relabeled(bigram_grammar(phrases), self.label_of_word))

    def with_boosted(self, boosts: Mapping[int, float]) -> LookaheadGraph:
        """The same HCL and G with the costs of these words reduced by so much."""
        fst = self.grammar_fst
        less = np.zeros(max([int(fst.output_labels.max(initial=0)), *boosts]) + 1, dtype=np.float32)
        for word, boost in boosts.items():
            less[word] = boost
        return self.with_grammar(dataclasses.replace(fst, weights=fst.weights - less[fst.output_labels], stored=None))

    def for_decoder(self) -> ComposedGraph:
        """A graph that one decoder composes for itself; what is near the start has been composed already."""
        graph = ComposedGraph(self)
        graph.continue_from(self._beginning)
        return graph

    @cached_property
    def _beginning(self) -> ComposedGraph:
        """What all decoders begin with: otherwise an utterance's first frames, with most new states, take longest."""
        graph = ComposedGraph(self)
        graph.expand_first(_FIRST_COMPOSED)
        return graph


def relabeled(grammar: Fst, label_of_word: np.ndarray | None) -> Fst:
    """G with HCL's labels instead of words on its input side, without arcs of words unknown to HCL."""
    if label_of_word is None:
        raise ShapeError("the labels of HCL are not known as words", "give a G with HCL's labels on its input side")
    words = grammar.input_labels
    has_label = words < len(label_of_word)
    labels = np.where(has_label, label_of_word[np.where(has_label, words, 0)], 0)
    stays = (labels != 0) | (words == 0)
    return Fst.from_arcs(grammar.start, grammar.final_weights, grammar.sources[stays], labels[stays],
                         grammar.output_labels[stays], grammar.weights[stays], grammar.next_states[stays])


def _with_epsilons(states: np.ndarray, arcs: np.ndarray, is_epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tables in which exactly the arcs for which ``is_epsilon`` is true have no input label."""
    states, arcs = states.copy(), arcs.copy()
    arcs[:, search_layout.ARC_INPUT] = ~is_epsilon
    before = np.concatenate(([0], np.cumsum(is_epsilon)))
    first = states[:, search_layout.FIRST_ARC].astype(np.int64)
    counts = before[first + states[:, search_layout.NUM_ARCS]] - before[first]
    states[:, search_layout.NUM_EPSILONS] = counts
    return states, arcs


class ComposedGraph(GrowingGraph):
    """What a decoder has composed so far."""

    def __init__(self, graph: LookaheadGraph, most_arcs: int = MOST_ARCS) -> None:
        super().__init__(graph.pdfs, graph.num_columns, most_arcs)
        self._graph = graph
        hcl = graph.lookahead
        self._hcl = (address(hcl.states), address(hcl.states), address(hcl.arcs), address(hcl.arcs))
        self._g = graph.grammar.arguments()
        self._reach = (address(hcl.spans), address(hcl.intervals), hcl.final_label, address(graph.traits))
        self.start = self._add_start()

    def _add_start(self) -> int:
        """The state of both starts."""
        key = (self._graph.lookahead.start << 32) | (self._graph.grammar.start << 1)
        return self._add(key, 0, np.float32(0.0), 0, 0)

    def _add(self, key: int, label: int, potential: np.float32, first: int, end: int) -> int:
        return int(_add_state(self._hcl[0], *self._g[:2], self._reach[-1], *self._pools(), address(self._counts), key,
                              label, potential, first, end))

    def _pools(self) -> tuple[int, ...]:
        states = address(self._states)
        return (address(self._keys), address(self._potentials), address(self._ranges), address(self._table),
                len(self._table) - 1, states, states)

    def _expand(self, wanted: np.ndarray) -> int:
        arcs = address(self._arcs)
        return int(_expand(*self._hcl, *self._g, *self._reach, address(self._graph.is_disambig), *self._pools(),
                           len(self._states), arcs, arcs, len(self._arcs), address(self._counts), address(wanted),
                           len(wanted)))
