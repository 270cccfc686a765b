"""Graphs expanded while decoding: the composition of HCL with G, and grammars with nonterminals.

With :class:`LookaheadGraph`, G may be large, or differ between utterances, for example to recognize only a few
phrases. With :class:`GrammarGraph` (Kaldi: ``GrammarFst``), a top graph has nonterminals that stand for other graphs.
"""
from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.decoding import layout
from nnet3py.decoding.decoding_graph import (
    MOST_ARCS,
    LazyGraph,
    address,
    check_epsilons,
    check_tables,
    tables_of,
)
from nnet3py.decoding.lookahead import MOST_WORDS, GrammarTables, Lookahead, find_components
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError, within
from nnet3py.graphs.grammar_fst import FIRST_LABEL, LEAVES, GrammarFst
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.structures import types_of
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_text import read_fst_file
from nnet3py.transducers.state_graphs import enlarged

_LAYOUT, _GRAPH_LOOPS = "nnet3py.decoding.layout", "nnet3py.decoding.graph_loops"
_find_free_arcs = Loop(_GRAPH_LOOPS, "find_free_arcs", "u4* i4* i8 i8 u1[] i4[,]", [_LAYOUT])

_USES = [_LAYOUT, _GRAPH_LOOPS, "nnet3py.lattices.structures"]
_LOOKAHEAD_LOOPS, _LOOKAHEAD_USES = "nnet3py.decoding.lookahead_loops", [*_USES, "nnet3py.engine.inline"]
_COMPOSITION = types_of(layout.Hcl, layout.Grammar, layout.Composed)
_compose = Loop(_LOOKAHEAD_LOOPS, "expand", f"{_COMPOSITION} i4* i8", _LOOKAHEAD_USES)
_add_composed_state = Loop(_LOOKAHEAD_LOOPS, "add_state", f"{_COMPOSITION} i8 i8 f4 i8 i8", _LOOKAHEAD_USES)

_GRAMMAR_LOOPS, _GRAMMAR_USES = "nnet3py.decoding.grammar_loops", [*_USES, "nnet3py.graphs.grammar_fst"]
_EXPANSION = types_of(layout.Parts, layout.Expanded)
_expand_grammar = Loop(_GRAMMAR_LOOPS, "expand", f"{_EXPANSION} i4[]", _GRAMMAR_USES)
_add_grammar_state = Loop(_GRAMMAR_LOOPS, "add_state", f"{_EXPANSION} i8", _GRAMMAR_USES)
_rebuild_instances = Loop(_GRAMMAR_LOOPS, "rebuild_instances", "i4[,] i4[] i8", _GRAMMAR_USES)

_FIRST_COMPOSED = 20_000        # states near the start: they take 0.05 s and 10 MB
_DISCOUNT = 0.5                 # of counts: the rest is for backing off
_END = 0                        # end of a phrase, in place of a word
_FIRST_INSTANCES = 1 << 8
_LARGEST_TABLE = 1 << 31        # states or arcs: their numbers have 31 bits


class LookaheadGraph:
    """HCL and G, to be composed while decoding. Immutable; decoders share it and each composes states of its own.

    Raises ShapeError for labels or costs that no decoder can use, or a cycle without transition-ids.

    Parameters
    ----------
    lookahead : Lookahead, HCL
    grammar : Fst or GrammarTables, G; its input labels are HCL's output labels (:meth:`of_words` takes words)
    disambig : input labels of HCL that are treated as epsilons
    model : TransitionModel
    checked : LookaheadGraph with the same HCL, which is then not checked again; None: check HCL

    Attributes
    ----------
    lookahead : Lookahead, HCL
    grammar : GrammarTables, G
    pdfs, num_columns : as in :class:`~nnet3py.decoding.decoding_graph.DecodingGraph`
    """

    def __init__(self, lookahead: Lookahead, grammar: Fst | GrammarTables, disambig: Iterable[int],
                 model: TransitionModel, checked: LookaheadGraph | None = None) -> None:
        self.lookahead, self.disambig, self.model = lookahead, list(disambig), model
        self.num_columns = model.num_pdfs
        largest = max([model.num_transition_ids, *self.disambig])
        self.is_disambig = np.zeros(largest + 1, dtype=np.uint8)
        self.is_disambig[[label for label in self.disambig if label > 0]] = 1
        self.pdfs = np.concatenate((model.transition_id_to_pdf, np.zeros(
            largest - model.num_transition_ids, dtype=np.int32))).astype(np.int32)
        if checked is None:
            check_tables(lookahead.states, lookahead.arcs, largest)
            self.traits, self._cyclic_labels = self._epsilon_cycles()
        else:
            self.traits, self._cyclic_labels = checked.traits, checked._cyclic_labels
        self.grammar = grammar if isinstance(grammar, GrammarTables) else GrammarTables.of_fst(grammar)
        if self.grammar.largest_word() >= MOST_WORDS:
            raise ShapeError(f"the grammar has the word number {self.grammar.largest_word()}, expected numbers below "
                             f"{MOST_WORDS}")
        self._check_cycles()

    def _epsilon_cycles(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the traits of HCL's states, uint8, and the output labels on cycles without transition-ids, int32.

        Traits are the bits CAN_END and HAS_FREE_ARCS of ``layout.py``. The labels always include 0. ShapeError for such
        a cycle that also has no output labels.
        """
        free = self._free_arcs()
        is_final = self.lookahead.states[:, layout.FINAL].view(np.float32) != NO_WEIGHT
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
            component = find_components(states, arcs)[0]
            labels = np.append(free[component[sources] == component[targets], 2], labels)
        return traits, np.unique(labels)

    def _check_cycles(self) -> None:
        """Raise ShapeError if the composition can have a cycle without transition-ids.

        That needs a cycle in G of labels that HCL has on cycles without transition-ids, such as self-loops of #0.
        """
        labels, grammar = self._cyclic_labels, self.grammar
        if grammar.is_ngram:
            if np.isin(labels, grammar.arrays.future_words).any():
                raise ShapeError("the graph has a cycle of arcs without transition-ids, in which decoding would not "
                                 "end")
        elif len(labels) == 1:
            check_epsilons(grammar.states, grammar.arrays)
        else:
            free_in_g = np.isin(grammar.arrays[:, layout.ARC_INPUT], labels)
            check_epsilons(*_with_epsilons(grammar.states, grammar.arrays, free_in_g))

    def _free_arcs(self) -> np.ndarray:
        """Return source, target and output label of HCL's arcs without transition-id, int32 (arcs, 3)."""
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
        """Return the graph for a G whose input labels are words; ShapeError if HCL has no table of the labels of words.
        """
        return cls(lookahead, relabeled(grammar, lookahead.label_of_word), disambig, model)

    @classmethod
    def read(cls, hcl: str | os.PathLike[str], grammar: str | os.PathLike[str], disambig: Iterable[int],
             model: TransitionModel) -> LookaheadGraph:
        """Read the FST files of HCL and G: HCLr.fst and Gr.fst, or HCL.fst and G.fst.

        The input labels of G are HCL's output labels or, if HCL.fst was made without look-ahead data, words.
        """
        lookahead = Lookahead.read(hcl)
        if lookahead.takes_words:
            return cls.of_words(lookahead, read_fst_file(grammar), disambig, model)
        return cls(lookahead, GrammarTables.read(grammar), disambig, model)

    def with_grammar(self, grammar: Fst) -> LookaheadGraph:
        """Return a graph of the same HCL with another G, whose input labels are HCL's output labels."""
        return LookaheadGraph(self.lookahead, grammar, self.disambig, self.model, self)

    @cached_property
    def grammar_fst(self) -> Fst:
        """G as an FST."""
        return self.grammar.to_fst()

    @cached_property
    def label_of_word(self) -> np.ndarray:
        """HCL's output label of each word, int32; 0: none. From HCL's file or, if it has no such table, from G's arcs.
        """
        if self.lookahead.label_of_word is not None:
            return self.lookahead.label_of_word
        if self.grammar.is_ngram:
            return self.lookahead.labels_of_words()
        inputs, outputs = (self.grammar.arrays[:, word] for word in (layout.ARC_INPUT, layout.ARC_OUTPUT))
        labels = np.zeros(int(outputs.max(initial=0)) + 1, dtype=np.int32)
        labels[outputs] = inputs
        labels[0] = 0
        return labels

    def hcl_of_words(self) -> Fst:
        """Return HCL with words as output labels, without labels such as #0 that are not words."""
        lookahead, labels = self.lookahead, self.label_of_word
        arcs, num_arcs = lookahead.arcs, lookahead.states[:, layout.NUM_ARCS]
        outputs = arcs[:, layout.ARC_OUTPUT].astype(np.int64)
        word_of_label = np.zeros(int(max(outputs.max(initial=0), labels.max(initial=0))) + 1, dtype=np.int32)
        word_of_label[labels] = np.arange(len(labels))
        no_words = self.grammar.labels_without_word()
        word_of_label[no_words[no_words < len(word_of_label)]] = 0
        inputs = arcs[:, layout.ARC_INPUT].astype(np.int32)
        inputs = np.where(self.is_disambig[inputs] != 0, 0, inputs)
        targets, sources = arcs[:, layout.ARC_NEXT], np.repeat(np.arange(len(num_arcs)), num_arcs)
        word_of_label[outputs[(inputs == 0) & (sources == targets)]] = 0        # a loop has no word
        words = word_of_label[outputs]
        kept = (inputs != 0) | (words != 0) | (sources != targets)
        return Fst.from_arcs(lookahead.start, lookahead.states[:, layout.FINAL].view(np.float32).copy(),
                             sources[kept], inputs[kept], words[kept],
                             arcs[:, layout.ARC_COST].view(np.float32)[kept], targets[kept])

    def with_phrases(self, phrases: Sequence[Sequence[int]]) -> LookaheadGraph:
        """Return a graph with the same HCL that allows any sequence of some phrases (lists of word numbers).

        ShapeError for a word that HCL lacks.
        """
        labels = self.label_of_word
        unknown = [word for phrase in phrases for word in phrase if not (0 < word < len(labels) and labels[word])]
        if unknown:
            raise ShapeError(f"a phrase has the word {unknown[0]}, which the graph does not have",
                             "words must be in the lexicon that the graph was made of")
        return self.with_grammar(relabeled(phrase_grammar(phrases), labels))

    def with_phrase_list(self, phrases: Sequence[Sequence[int]]) -> LookaheadGraph:
        """Return a graph with the same HCL and the :func:`bigram_grammar` of some phrases (lists of word numbers).

        Words that HCL lacks are left out.
        """
        return self.with_grammar(relabeled(bigram_grammar(phrases), self.label_of_word))

    def with_boosted(self, boosts: Mapping[int, float]) -> LookaheadGraph:
        """Return a graph of the same HCL and G in which some words cost less.

        Parameters
        ----------
        boosts : dict from word number to the reduction of its cost, in nats
        """
        fst = self.grammar_fst
        less = np.zeros(max([int(fst.output_labels.max(initial=0)), *boosts]) + 1, dtype=np.float32)
        for word, boost in boosts.items():
            less[word] = boost
        return self.with_grammar(dataclasses.replace(fst, weights=fst.weights - less[fst.output_labels], stored=None))

    def for_decoder(self) -> ComposedGraph:
        """Return a graph in which one decoder composes states; states near the start are composed already."""
        graph = ComposedGraph(self)
        graph.copy_states(self._near_start)
        return graph

    @cached_property
    def _near_start(self) -> ComposedGraph:
        """States near the start, copied for each decoder, since the first frames need the most new states."""
        graph = ComposedGraph(self)
        graph.expand_first(_FIRST_COMPOSED)
        return graph


def relabeled(grammar: Fst, label_of_word: np.ndarray | None) -> Fst:
    """Return a G of words with HCL's output labels as input labels, without arcs of words that HCL lacks.

    ``label_of_word`` (int32) has the label of each word; ShapeError if it is None.
    """
    if label_of_word is None:
        raise ShapeError("the file of HCL has no table from the numbers of words to HCL's output labels, which a G of "
                         "words needs", "give a G whose input labels are HCL's output labels")
    words = grammar.input_labels
    has_label = words < len(label_of_word)
    labels = np.where(has_label, label_of_word[np.where(has_label, words, 0)], 0)
    kept = (labels != 0) | (words == 0)
    return Fst.from_arcs(grammar.start, grammar.final_weights, grammar.sources[kept], labels[kept],
                         grammar.output_labels[kept], grammar.weights[kept], grammar.next_states[kept])


def _with_epsilons(states: np.ndarray, arcs: np.ndarray, is_epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return copies of a graph's tables in which arcs marked in ``is_epsilon`` have input label 0, and all others 1."""
    states, arcs = states.copy(), arcs.copy()
    arcs[:, layout.ARC_INPUT] = ~is_epsilon
    before = np.concatenate(([0], np.cumsum(is_epsilon)))
    first = states[:, layout.FIRST_ARC].astype(np.int64)
    counts = before[first + states[:, layout.NUM_ARCS]] - before[first]
    states[:, layout.NUM_EPSILONS] = counts
    return states, arcs


class ComposedGraph(LazyGraph):
    """The states and arcs of HCL and G that one decoder has composed so far."""

    def __init__(self, graph: LookaheadGraph, most_arcs: int = MOST_ARCS) -> None:
        super().__init__(graph.pdfs, graph.num_columns, most_arcs)
        self._graph = graph
        hcl = graph.lookahead
        states, arcs = address(hcl.states), address(hcl.arcs)
        self._hcl = layout.Hcl(states, states, arcs, arcs, address(hcl.spans), address(hcl.intervals), hcl.final_label,
                               address(graph.traits), address(graph.is_disambig))
        self._g = graph.grammar.for_loops()
        self.start = self._add_start()

    def _add_start(self) -> int:
        key = (self._graph.lookahead.start << 32) | (self._graph.grammar.start << 1)
        return self._add(key, 0, np.float32(0.0), 0, 0)

    def _add(self, key: int, label: int, potential: np.float32, first: int, end: int) -> int:
        return int(_add_composed_state(*self._hcl, *self._g, *self._made(), key, label, potential, first, end))

    def _made(self) -> layout.Composed:
        states, arcs = address(self._states), address(self._arcs)
        return layout.Composed(address(self._keys), address(self._potentials), address(self._ranges),
                               address(self._table), len(self._table) - 1, states, states, len(self._states), arcs,
                               arcs, len(self._arcs), address(self._counts))

    def _expand(self, wanted: np.ndarray) -> int:
        return int(_compose(*self._hcl, *self._g, *self._made(), address(wanted), len(wanted)))


# -- G of phrases ------------------------------------------------------------------------------------------------------


def phrase_grammar(phrases: Sequence[Sequence[int]]) -> Fst:
    """Return a G that allows any sequence of some phrases (lists of word numbers), all equally probable."""
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


def bigram_grammar(phrases: Sequence[Sequence[int]]) -> Fst:
    """Return the bigram model of some phrases (numbers of words) as a G, as vosk makes it of its phrase lists.

    Half of the probability after a word goes to its successors in the phrases (among them the end), in proportion to
    their counts, and half to backing off to unigrams. So phrases may begin, and continue as other phrases, after any
    word; a sentence may be empty. In a state, the back-off arc, which has no label, precedes the arcs of words, which
    are in ascending order. vosk: ``LanguageModelEstimator``.
    """
    counts: Counter[tuple[int, int]] = Counter()
    for phrase in phrases:
        counts.update(zip((0, *phrase), (*phrase, _END), strict=True))
    histories = sorted({history for history, _ in counts} | {0})
    state_of = {history: state for state, history in enumerate(histories)}
    following: dict[int, Counter[int]] = {history: Counter() for history in histories}
    for (history, word), count in counts.items():
        following[history][word] += count
        if history:
            following[0][word] += count        # unigram counts are sums over all histories
    final = np.full(len(histories), NO_WEIGHT, dtype=np.float32)
    arcs: list[tuple[int, int, float, int]] = []
    for history in histories:
        state, total = state_of[history], following[history].total()
        if history:
            arcs.append((state, 0, -np.log(1.0 - _DISCOUNT), 0))
        for word, count in sorted(following[history].items()):
            cost = -np.log(count * _DISCOUNT / total)
            if word == _END:
                final[state] = cost
            else:
                arcs.append((state, word, cost, state_of[word]))
    sources, words, costs, targets = zip(*arcs, strict=True) if arcs else ((), (), (), ())
    return Fst.from_arcs(0, final, sources, words, words, costs, targets)


# -- grammars with nonterminals ----------------------------------------------------------------------------------------


class GrammarGraph:
    """The graphs of a grammar in one table. Immutable; decoders share it and each expands states of its own.

    Raises ShapeError for labels or costs that no decoder can use, or a cycle without transition-ids.

    Parameters
    ----------
    grammar : GrammarFst
    model : TransitionModel, which decoding needs; None: only for :meth:`LazyGraph.to_fst`

    Attributes
    ----------
    pdfs, num_columns : as in :class:`~nnet3py.decoding.decoding_graph.DecodingGraph`
    settings : int64 (2,), the number of #nonterm_bos, and the factor of nonterminals in labels
    states, arcs : int32 (states, 5) and (arcs, 4), the tables of all graphs, one after the other
    starts : int32 (graphs,), start states, the top graph's first; -1: an empty graph
    graph_of : int32, the graph of each user-defined nonterminal; -1: none
    """

    def __init__(self, grammar: GrammarFst, model: TransitionModel | None) -> None:
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
                own_states, own_arcs = _grammar_tables(fst, largest)
            own_states[:, layout.FIRST_ARC] += num_arcs
            own_arcs[:, layout.ARC_NEXT] += num_states
            starts.append(fst.start + num_states if fst.start >= 0 else -1)
            states.append(own_states)
            arcs.append(own_arcs)
            num_states, num_arcs = num_states + len(own_states), num_arcs + len(own_arcs)
            if max(num_states, num_arcs) >= _LARGEST_TABLE:
                raise ShapeError(f"the graphs of the grammar have {num_states} states and {num_arcs} arcs together, "
                                 f"but there must be fewer than {_LARGEST_TABLE}")
        self.states, self.arcs = np.concatenate(states), np.concatenate(arcs)
        self.starts = np.array(starts, dtype=np.int32)

    @classmethod
    def read(cls, rxfilename: str, model: TransitionModel) -> GrammarGraph:
        """Read a file of ``make-grammar-fst``. Raises FormatError for other files, ShapeError as the class does."""
        return cls(GrammarFst.read(rxfilename), model)

    def for_decoder(self) -> ExpandedGrammar:
        """Return a graph in which one decoder expands states."""
        return ExpandedGrammar(self)


def grammar_as_fst(grammar: GrammarFst) -> Fst:
    """Return a grammar as a single FST. Raises ShapeError as :class:`GrammarGraph` and :meth:`LazyGraph.to_fst` do."""
    return GrammarGraph(grammar, None).for_decoder().to_fst()


def _grammar_tables(fst: Fst, num_transition_ids: int) -> tuple[np.ndarray, np.ndarray]:
    """Return copies of the tables of states and arcs of a prepared graph; final costs that are only marks are infinite.
    """
    _, states, arcs = tables_of(fst)
    states, arcs = states.copy(), arcs.copy()
    plain = arcs.copy()
    labels = plain[:, layout.ARC_INPUT]
    labels[labels >= FIRST_LABEL] = 1
    check_tables(states, plain, num_transition_ids)
    check_epsilons(states, plain)
    leaves = np.zeros(len(states), dtype=bool)
    leaves[fst.sources[fst.input_labels >= FIRST_LABEL]] = True
    final = states[:, layout.FINAL].view(np.float32)
    final[leaves & (final == LEAVES)] = NO_WEIGHT
    return states, arcs


class ExpandedGrammar(LazyGraph):
    """The states and arcs of a grammar that one decoder has expanded so far."""

    def __init__(self, graph: GrammarGraph, most_arcs: int = MOST_ARCS) -> None:
        super().__init__(graph.pdfs, graph.num_columns, most_arcs)
        self._graph = graph
        states, arcs = address(graph.states), address(graph.arcs)
        self._parts = layout.Parts(states, states, arcs, arcs, graph.starts, graph.graph_of, graph.settings)
        self._instances = np.zeros((_FIRST_INSTANCES, layout.INSTANCE_WORDS), dtype=np.int32)
        self._instance_table = np.full(4 * _FIRST_INSTANCES, -1, dtype=np.int32)
        self._counts[layout.NUM_INSTANCES] = 1                # the top graph's
        self.start = self._add_start()

    def _add_start(self) -> int:
        return self._add(int(self._graph.starts[0]), 0, np.float32(0.0), 0, 0)

    def _add(self, key: int, label: int, potential: np.float32, first: int, end: int) -> int:
        return int(_add_grammar_state(*self._parts, *self._made(), key))

    def _made(self) -> layout.Expanded:
        return layout.Expanded(self._keys, self._table, self._states, self._states.view(np.float32), self._arcs,
                               self._arcs.view(np.float32), self._instances, self._instance_table, self._counts)

    def _expand(self, wanted: np.ndarray) -> int:
        return int(_expand_grammar(*self._parts, *self._made(), wanted))

    def _make_room(self, status: int) -> None:
        if status == layout.MORE_INSTANCES:
            self._instances = enlarged(self._instances)
            self._instance_table = np.empty(4 * len(self._instances), dtype=np.int32)
            _rebuild_instances(self._instances, self._instance_table, int(self._counts[layout.NUM_INSTANCES]))
        elif status in (layout.NO_GRAPH, layout.NO_ENTRY, layout.TOO_DEEP):
            state, name, phone = self._counts[[layout.BAD_STATE, layout.BAD_NAME, layout.BAD_PHONE]].tolist()
            raise ShapeError(*{
                layout.NO_GRAPH: (f"the grammar calls nonterminal {name} in state {state}, but has no graph for it",
                                  "give make-grammar-fst a graph for each nonterminal that is used"),
                layout.NO_ENTRY: (f"nonterminal {name} is met after phone {phone} in state {state}, but the graph that "
                                  "is entered there has no arc for that phone",
                                  "make all graphs of a grammar with one L, of the same phones before words"),
                layout.TOO_DEEP: (f"the grammar calls nonterminal {name} in itself, more than {layout.MOST_DEPTH} "
                                  "times", "something must be said before a nonterminal occurs in itself")}[status])
        else:
            super()._make_room(status)
