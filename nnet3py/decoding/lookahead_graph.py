"""HCL and G composed while decoding, so that G may be large, or differ for each utterance."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nnet3py.decoding import lookahead_layout as layout
from nnet3py.decoding import search_layout
from nnet3py.decoding.decoding_graph import address, check_epsilons, check_tables, table_words
from nnet3py.decoding.graph import read_fst_file
from nnet3py.decoding.growing_graph import MOST_ARCS, GrowingGraph
from nnet3py.decoding.lookahead import MOST_WORDS, Lookahead, find_parts
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_binary import const_tables

_HERE = "nnet3py.decoding.lookahead_loops"
_USES = ["nnet3py.decoding.search_layout", "nnet3py.decoding.lookahead_layout", "nnet3py.decoding.growing_loops"]
_STATES = "i8[] f4[] i4[] i4[,] f4[,]"          # keys, potentials, table, states
_expand = Loop(_HERE, "expand", "u4* f4* i4* f4* u4* f4* i4* f4* i4[] i8[] i4[,] i8 f4[] f4[] u1[] "
               f"{_STATES} i4[,] f4[,] i8[] i4[]", _USES)
_add_state = Loop(_HERE, "add_state", f"u4* f4* u4* f4* {_STATES} i8[] i8 f4", _USES)

_LARGEST_STATE = 1 << 30       # of G: its number and a bit share a word


class LookaheadGraph:
    """HCL and one G. Immutable, so decoders may share it; each composes what it needs for itself.

    Attributes
    ----------
    lookahead : HCL
    grammar : G, a table of states and one of arcs, sorted by label
    pdfs, num_columns : as in :class:`DecodingGraph`
    """

    def __init__(self, lookahead: Lookahead, grammar: Fst, disambig: Iterable[int], model: TransitionModel) -> None:
        """Use HCL, and a G whose input labels are HCL's output labels (:meth:`of_words` for one of words).

        ``disambig`` are input labels of HCL to treat as epsilons. ShapeError for graphs that no decoder can use.
        """
        self.lookahead, self.grammar_fst, self.disambig, self.model = lookahead, grammar, list(disambig), model
        self.num_columns = model.num_pdfs
        largest = max([model.num_transition_ids, *self.disambig])
        self.is_disambig = np.zeros(largest + 1, dtype=np.uint8)
        self.is_disambig[[label for label in self.disambig if label > 0]] = 1
        self.pdfs = np.concatenate((model.transition_id_to_pdf, np.zeros(
            largest - model.num_transition_ids, dtype=np.int32))).astype(np.int32)
        check_tables(lookahead.states, lookahead.arcs, largest)
        labels = lookahead.arcs[:, search_layout.ARC_INPUT]
        unknown = labels[(labels > model.num_transition_ids) & (self.is_disambig[labels] == 0)]
        if len(unknown):
            raise ShapeError(f"the graph has the input label {unknown[0]}, which is neither a transition-id (1 to "
                             f"{model.num_transition_ids}) nor a disambiguation symbol")
        self.grammar = _sorted_tables(grammar)
        if grammar.start < 0:
            raise ShapeError("a grammar for decoding needs states; this one has none")
        check_tables(*self.grammar, np.iinfo(np.int32).max)
        if int(grammar.output_labels.max(initial=0)) >= MOST_WORDS:
            raise ShapeError(f"the grammar has the word {grammar.output_labels.max()}; words are below {MOST_WORDS}")
        if len(self.grammar[0]) >= _LARGEST_STATE:
            raise ShapeError(f"a grammar of {len(self.grammar[0])} states is too large")
        self._check_cycles()
        self.minima = _block_minima(self.grammar[1][:, search_layout.ARC_COST].view(np.float32))

    def _check_cycles(self) -> None:
        """ShapeError if composed arcs without transition-ids can make a cycle.

        That takes a cycle in HCL without labels; or one in G of labels that HCL has on such cycles, as on loops of #0.
        """
        hcl_arcs, g_arcs = self.lookahead.arcs, self.grammar[1]
        outputs = hcl_arcs[:, search_layout.ARC_OUTPUT]
        inputs = hcl_arcs[:, search_layout.ARC_INPUT]
        is_free = (inputs == 0) | (self.is_disambig[inputs] != 0)
        check_epsilons(*_with_epsilons(self.lookahead.states, hcl_arcs, is_free & (outputs == 0)))
        edges = hcl_arcs.copy()
        edges[:, search_layout.ARC_OUTPUT] = ~is_free
        part = find_parts(self.lookahead.states, edges)[0]
        sources = np.repeat(np.arange(len(part)), self.lookahead.states[:, search_layout.NUM_ARCS])
        is_inside = is_free & (part[sources] == part[hcl_arcs[:, search_layout.ARC_NEXT]])
        free_in_g = np.isin(g_arcs[:, search_layout.ARC_INPUT], np.append(outputs[is_inside], 0))
        check_epsilons(*_with_epsilons(*self.grammar, free_in_g))

    @classmethod
    def of_words(cls, lookahead: Lookahead, grammar: Fst, disambig: Iterable[int],
                 model: TransitionModel) -> LookaheadGraph:
        """The same for a G of words. Nnet3Error if the labels of words in HCL are not known."""
        return cls(lookahead, relabelled(grammar, lookahead.label_of_word), disambig, model)

    @classmethod
    def read(cls, hcl: str | os.PathLike[str], grammar: str | os.PathLike[str], disambig: Iterable[int],
             model: TransitionModel) -> LookaheadGraph:
        """Read HCLr.fst and Gr.fst; or HCL.fst and G.fst, of words, where HCL has no look-ahead data."""
        lookahead, fst = Lookahead.read(hcl), read_fst_file(grammar)
        return (cls.of_words if lookahead.takes_words else cls)(lookahead, fst, disambig, model)

    def with_grammar(self, grammar: Fst) -> LookaheadGraph:
        """The same HCL with another G, of HCL's labels."""
        return LookaheadGraph(self.lookahead, grammar, self.disambig, self.model)

    def label_of_word(self) -> np.ndarray:
        """int32, the label of each word in HCL, 0 for none: from HCL's file, or else from G's arcs."""
        if self.lookahead.label_of_word is not None:
            return self.lookahead.label_of_word
        fst = self.grammar_fst
        labels = np.zeros(int(fst.output_labels.max(initial=0)) + 1, dtype=np.int32)
        labels[fst.output_labels] = fst.input_labels
        labels[0] = 0
        return labels

    def hcl_of_words(self) -> Fst:
        """HCL from transition-ids to words, without other labels such as #0, where G backs off."""
        lookahead, grammar = self.lookahead, self.grammar_fst
        labels = self.label_of_word()
        arcs, num_arcs = lookahead.arcs, lookahead.states[:, search_layout.NUM_ARCS]
        outputs = arcs[:, search_layout.ARC_OUTPUT].astype(np.int64)
        word_of_label = np.zeros(int(max(outputs.max(initial=0), labels.max(initial=0))) + 1, dtype=np.int32)
        word_of_label[labels] = np.arange(len(labels))
        no_words = grammar.input_labels[grammar.output_labels == 0]
        word_of_label[no_words[no_words < len(word_of_label)]] = 0
        inputs = arcs[:, search_layout.ARC_INPUT].astype(np.int32)
        inputs = np.where(self.is_disambig[inputs] != 0, 0, inputs)
        words, targets = word_of_label[outputs], arcs[:, search_layout.ARC_NEXT].astype(np.int64)
        sources = np.repeat(np.arange(len(num_arcs)), num_arcs)
        stays = (inputs != 0) | (words != 0) | (sources != targets)
        return Fst.from_arcs(lookahead.start, lookahead.states[:, search_layout.FINAL].view(np.float32).copy(),
                             sources[stays], inputs[stays], words[stays],
                             arcs[:, search_layout.ARC_COST].view(np.float32)[stays], targets[stays])

    def with_phrases(self, phrases: Sequence[Sequence[int]]) -> LookaheadGraph:
        """A graph that allows only these phrases (numbers of words), any number of times.

        ShapeError for a word that HCL does not have.
        """
        labels = self.label_of_word()
        unknown = [word for phrase in phrases for word in phrase if not (0 < word < len(labels) and labels[word])]
        if unknown:
            raise ShapeError(f"a phrase has the word {unknown[0]}, which the graph does not have",
                             "words must be in the lexicon that the graph was made of")
        return self.with_grammar(relabelled(phrase_grammar(phrases), labels))

    def with_boosted(self, boosts: Mapping[int, float]) -> LookaheadGraph:
        """The same HCL and G with the costs of these words reduced by so much."""
        fst = self.grammar_fst
        less = np.zeros(max([int(fst.output_labels.max(initial=0)), *boosts]) + 1, dtype=np.float32)
        for word, boost in boosts.items():
            less[word] = boost
        return self.with_grammar(dataclasses.replace(fst, weights=fst.weights - less[fst.output_labels], stored=None))

    def for_decoder(self) -> ComposedGraph:
        """A graph that one decoder composes for itself."""
        return ComposedGraph(self)


def relabelled(grammar: Fst, label_of_word: np.ndarray | None) -> Fst:
    """G with HCL's labels instead of words on its input side, without arcs of words unknown to HCL."""
    if label_of_word is None:
        raise ShapeError("the labels of HCL are not known as words", "give a G with HCL's labels on its input side")
    words = grammar.input_labels
    has_label = words < len(label_of_word)
    labels = np.where(has_label, label_of_word[np.where(has_label, words, 0)], 0)
    stays = (labels != 0) | (words == 0)
    return Fst.from_arcs(grammar.start, grammar.final_weights, grammar.sources[stays], labels[stays],
                         grammar.output_labels[stays], grammar.weights[stays], grammar.next_states[stays])


def phrase_grammar(phrases: Sequence[Sequence[int]]) -> Fst:
    """G of some phrases (numbers of words), which allows any number of them, all equally probable."""
    cost = float(np.log(len(phrases) + 1))
    sources: list[int] = []
    words: list[int] = []
    targets: list[int] = []
    costs: list[float] = []
    num_states = 1
    for phrase in phrases:
        state = 0
        for place, word in enumerate(phrase):
            last = place + 1 == len(phrase)
            sources.append(state)
            words.append(word)
            costs.append(0.0 if place else cost)
            state = 0 if last else num_states
            targets.append(state)
            num_states += not last
    final = np.full(num_states, NO_WEIGHT, dtype=np.float32)
    final[0] = cost
    return Fst.from_arcs(0, final, sources, words, words, costs, targets)


def _sorted_tables(fst: Fst) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((fst.input_labels, fst.sources))
    if not np.array_equal(order, np.arange(len(order))):
        fst = dataclasses.replace(
            fst, input_labels=fst.input_labels[order], output_labels=fst.output_labels[order],
            weights=fst.weights[order], next_states=fst.next_states[order], stored=None)
    states, arcs = const_tables(fst)
    return table_words(states, search_layout.STATE_WORDS), table_words(arcs, search_layout.ARC_WORDS)


def _with_epsilons(states: np.ndarray, arcs: np.ndarray, is_epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tables in which exactly the arcs for which ``is_epsilon`` is true have no input label."""
    states, arcs = states.copy(), arcs.copy()
    arcs[:, search_layout.ARC_INPUT] = ~is_epsilon
    before = np.concatenate(([0], np.cumsum(is_epsilon)))
    first = states[:, search_layout.FIRST_ARC].astype(np.int64)
    counts = before[first + states[:, search_layout.NUM_ARCS]] - before[first]
    states[:, search_layout.NUM_EPSILONS] = counts
    return states, arcs


def _block_minima(costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least costs of whole blocks of arcs, and of blocks of such blocks."""
    minima = []
    for _ in range(2):
        whole = len(costs) // layout.BLOCK
        costs = costs[:whole * layout.BLOCK].reshape(-1, layout.BLOCK).min(axis=1, initial=np.inf)
        minima.append(np.ascontiguousarray(costs, dtype=np.float32))
    return minima[0], minima[1]


class ComposedGraph(GrowingGraph):
    """What a decoder has composed so far."""

    def __init__(self, graph: LookaheadGraph, most_arcs: int = MOST_ARCS) -> None:
        super().__init__(graph.pdfs, graph.num_columns, most_arcs)
        self._graph = graph
        hcl, (g_states, g_arcs) = graph.lookahead, graph.grammar
        self._hcl = (address(hcl.states), address(hcl.states), address(hcl.arcs), address(hcl.arcs))
        self._g = (address(g_states), address(g_states), address(g_arcs), address(g_arcs))
        self._reach = (hcl.part_of_state, hcl.starts, hcl.intervals, hcl.final_label, *graph.minima)
        self.start = self._add_start()

    def _add_start(self) -> int:
        """The state of both starts. Its potential is 0, so that a whole path costs what it should."""
        g_start = self._graph.grammar_fst.start
        none = self._graph.grammar[0][g_start, search_layout.NUM_EPSILONS] == 0
        key = (self._graph.lookahead.start << 32) | (g_start << 1) | int(none)
        return self._add(key, np.float32(0.0))

    def _add(self, key: int, potential: np.float32) -> int:
        return int(_add_state(self._hcl[0], self._hcl[0], self._g[0], self._g[0], *self._pools(), self._counts, key,
                              potential))

    def _pools(self) -> tuple[np.ndarray, ...]:
        return self._keys, self._potentials, self._table, self._states, self._states.view(np.float32)

    def _expand(self, wanted: np.ndarray) -> int:
        return int(_expand(*self._hcl, *self._g, *self._reach, self._graph.is_disambig, *self._pools(), self._arcs,
                           self._arcs.view(np.float32), self._counts, wanted))
