"""HCL and G, grammars with nonterminals, phrases, composed while decoding: the same as composed before; damage."""
from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import numpy as np
import pytest
from decoding_cases import DATA, DISAMBIG, LIKES, MODEL, count_refused
from graph_paths import path_costs
from graph_systems import context_system
from random_fsts import random_fst

from nnet3py.cli.process.command import load
from nnet3py.decoding import composed_graphs
from nnet3py.decoding.composed_graphs import (
    ComposedGraph,
    ExpandedGrammar,
    GrammarGraph,
    LookaheadGraph,
    bigram_grammar,
    phrase_grammar,
    relabeled,
)
from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.grammar import as_nonterminal
from nnet3py.decoding.graph import read_fst_file
from nnet3py.decoding.graph_loops import check_intervals
from nnet3py.decoding.lattice_decoder import Decoder, LatticeDecoder
from nnet3py.decoding.lexicon import GraphBuilder
from nnet3py.decoding.lookahead import GrammarTables, Lookahead
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import FormatError, ShapeError, UsageError
from nnet3py.fst.operations import arc_sorted, is_sorted
from nnet3py.graphs.grammar_fst import FIRST_LABEL, LEAVES, GrammarFst, Nonterminals, prepared
from nnet3py.hmm.topology import chain_topology
from nnet3py.io.streams import open_output
from nnet3py.io.tokens import TokenWriter
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_binary import write_binary_fst

COST = 1e-3                                            # sums of float32 over an utterance
OPTIONS = DecoderOptions(beam=12.0, lattice_beam=4.0)
BACKOFF = 15                                           # the number of #0 among the words
MUTATIONS = 100
LONGEST = 4                                            # input labels of the paths that are compared one by one


def composed(left: Fst, right: Fst, disambig: list[int]) -> Fst:
    """Both graphs at once, pair by pair of states, the plain way."""
    numbers = {(left.start, right.start): 0}
    waiting, arcs, finals = [(left.start, right.start)], [], []
    while waiting:
        pair = waiting.pop(0)
        l_arcs, r_arcs = ([(int(fst.input_labels[a]), int(fst.output_labels[a]), float(fst.weights[a]),
                            int(fst.next_states[a])) for a in range(fst.arc_starts[s], fst.arc_starts[s + 1])]
                          for fst, s in zip((left, right), pair, strict=True))
        moves = [(label, 0, cost, (to, pair[1])) for label, out, cost, to in l_arcs if out == 0]
        moves += [(0, out, cost, (pair[0], to)) for label, out, cost, to in r_arcs if label == 0]
        moves += [(label, word, cost + more, (to, end)) for label, out, cost, to in l_arcs if out
                  for middle, word, more, end in r_arcs if middle == out]
        for label, word, cost, target in moves:
            if target not in numbers:
                numbers[target] = len(numbers)
                waiting.append(target)
            arcs.append((numbers[pair], 0 if label in disambig else label, word, cost, numbers[target]))
    for (h, g) in numbers:
        finals.append(left.final_weights[h] + right.final_weights[g])
    sources, inputs, outputs, costs, targets = zip(*arcs, strict=True)
    return Fst.from_arcs(0, np.array(finals, dtype=np.float32), sources, inputs, outputs, costs, targets)


def with_epsilons(grammar: Fst) -> Fst:
    """G whose back-off arcs have no labels, for an HCL without loops of #0."""
    labels = np.where(grammar.input_labels == BACKOFF, 0, grammar.input_labels).astype(np.int32)
    return dataclasses.replace(grammar, input_labels=labels, stored=None)


@pytest.mark.parametrize("epsilons", [False, True])
def test_same_as_composed_before(epsilons):
    hcl, grammar = read_fst_file(DATA / "HCL.fst"), read_fst_file(DATA / "G.fst")
    if epsilons:
        grammar = with_epsilons(grammar)
    static = Decoder(DecodingGraph.of_fst(composed(hcl, grammar, DISAMBIG), MODEL), MODEL, OPTIONS)
    graph = LookaheadGraph.of_words(Lookahead.of_fst(hcl), grammar, DISAMBIG, MODEL)
    ahead = Decoder(graph, MODEL, OPTIONS)
    for matrix in LIKES:
        expected, found = static.decode(matrix), ahead.decode(matrix)
        assert found.words.tolist() == expected.words.tolist()
        assert found.alignment.tolist() == expected.alignment.tolist()
        assert found.graph_cost == pytest.approx(expected.graph_cost, abs=COST)
        assert found.acoustic_cost == pytest.approx(expected.acoustic_cost, abs=COST)
        assert found.reached_final


def test_paths_of_random_graphs():
    """Words that are the only ones to come next are taken early, and costs come early: paths cost the same."""
    num_paths = 0
    for seed in range(60):
        hcl, grammar = random_fst(seed, epsilons=0.5), random_fst(seed + 1000, states=7, arcs=14, epsilons=0.2)
        whole = LookaheadGraph.of_words(Lookahead.of_fst(hcl), grammar, [], MODEL).for_decoder().to_fst()
        if whole.num_arcs:
            expected = path_costs(composed(hcl, grammar, []), LONGEST)
            assert path_costs(whole, LONGEST) == pytest.approx(expected, abs=COST)
            num_paths += len(expected)
    assert num_paths > 900


def test_words_are_taken_early_and_costs_summed():
    """Of a state from which the words 1 and 2 come: their sum; then of each the word itself, at the first arc."""
    hcl = Fst.from_arcs(0, [NO_WEIGHT] * 5 + [0.0], [0, 1, 1, 2, 3, 4], [1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 2, 0],
                        np.zeros(6), [1, 2, 3, 4, 4, 5])
    costs = np.array([1.0, 2.0], dtype=np.float32)
    grammar = Fst.from_arcs(0, [NO_WEIGHT, 0.0], [0, 0], [1, 2], [7, 8], costs, [1, 1])
    whole = LookaheadGraph.of_words(Lookahead.of_fst(hcl), grammar, [], MODEL).for_decoder().to_fst()
    arcs = {int(label): (int(word), float(cost)) for label, word, cost in
            zip(whole.input_labels, whole.output_labels, whole.weights, strict=True)}
    total = -np.logaddexp(-1.0, -2.0)
    assert arcs == {1: (0, pytest.approx(total)), 2: (7, pytest.approx(1.0 - total)), 4: (0, 0.0),
                    3: (8, pytest.approx(2.0 - total)), 5: (0, 0.0), 6: (0, 0.0)}


def test_nothing_is_made_from_which_nothing_follows():
    graph = LookaheadGraph.read(DATA / "HCL.fst", DATA / "G.fst", DISAMBIG, MODEL)
    search = LatticeDecoder(graph)
    search.advance(LIKES[0])
    made = search.graph
    assert isinstance(made, ComposedGraph)
    static = composed(read_fst_file(DATA / "HCL.fst"), read_fst_file(DATA / "G.fst"), DISAMBIG)
    assert 0 < made.num_arcs < static.num_arcs


def test_a_small_cache():
    graph = LookaheadGraph.read(DATA / "HCL.fst", DATA / "G.fst", DISAMBIG, MODEL)
    large, small = LatticeDecoder(graph, OPTIONS), LatticeDecoder(graph, OPTIONS)
    small.graph = ComposedGraph(graph, most_arcs=300)
    begun = []
    original = small.graph.restart
    small.graph.restart = lambda wanted: begun.append(len(wanted)) or original(wanted)   # type: ignore[method-assign]
    for matrix in LIKES:
        costs = []
        for search in (large, small):
            search.init()
            search.advance(matrix)
            path = search.best_path()
            costs.append((path.words.tolist(), path.alignment.tolist()))
        assert costs[0] == costs[1]
    assert len(begun) > 3 and max(begun) > 10


def lookahead_file(path: Path, lookahead: Lookahead, hcl: Fst, keep_words: bool) -> Path:
    """What OpenFst's fstconvert --fst_type=olabel_lookahead writes."""
    arcs = lookahead.arcs[:, 1].astype(np.int32)
    with open_output(path) as stream:
        writer = TokenWriter(stream, binary=True)
        names = b"".join(struct.pack("<i", len(name)) + name for name in (b"olabel_lookahead", b"standard"))
        writer.raw(struct.pack("<i", 2125659606) + names + struct.pack("<iiQqqq", 1, 0, 0, -1, 0, 0))
        writer.raw(struct.pack("<i", 446681434))
        write_binary_fst(writer, dataclasses.replace(hcl, output_labels=arcs, stored=None), "const")
        writer.raw(b"\1\0\1\0")
        words = np.flatnonzero(lookahead.label_of_word)
        pairs = np.stack((words, lookahead.label_of_word[words]), axis=1).astype(np.int32)
        writer.raw(b"\1" + struct.pack("<q", len(pairs)) + pairs.tobytes() if keep_words else b"\0")
        writer.raw(struct.pack("<iq", lookahead.final_label, hcl.num_states))
        for state in range(hcl.num_states):
            intervals = lookahead.intervals_of(state)
            writer.raw(struct.pack("<q", len(intervals)) + intervals.tobytes() + struct.pack("<i", 1))
    return path


@pytest.mark.parametrize("keep_words", [False, True])
def test_lookahead_files(tmp_path, keep_words):
    hcl, grammar = read_fst_file(DATA / "HCL.fst"), read_fst_file(DATA / "G.fst")
    own = Lookahead.of_fst(hcl)
    path = lookahead_file(tmp_path / "HCLr.fst", own, hcl, keep_words)
    with open_output(tmp_path / "Gr.fst") as stream:
        write_binary_fst(TokenWriter(stream, binary=True), relabeled(grammar, own.label_of_word), "vector")
    found = LookaheadGraph.read(path, tmp_path / "Gr.fst", DISAMBIG, MODEL)
    expected = LookaheadGraph.of_words(own, grammar, DISAMBIG, MODEL)
    labels = found.label_of_word
    assert labels[:len(own.label_of_word)].tolist() == own.label_of_word[:len(labels)].tolist()
    one, other = (Decoder(graph, MODEL, OPTIONS).decode(LIKES[1]) for graph in (found, expected))
    assert one.lattice.equals(other.lattice)
    with open_output(tmp_path / "again.fst") as stream:
        found.lookahead.write(TokenWriter(stream, binary=True))
    again = Lookahead.read(tmp_path / "again.fst")
    assert again.to_fst().equals(arc_sorted(found.lookahead.to_fst(), by_output=True))
    assert (again.label_of_word is not None) == keep_words and again.final_label == own.final_label
    assert not keep_words or again.label_of_word.tolist() == found.lookahead.label_of_word.tolist()
    assert all(map(np.array_equal, again.interval_table(), found.lookahead.interval_table()))


def test_states_that_reach_no_label():
    """They have no interval in a file; a number of intervals below 0 is damage."""
    words = np.array([0, 0, 1, 1, 0, 3, 5, 1], dtype=np.int32)         # of two states: none, and labels 3 and 4
    spans = np.empty((2, 2), dtype=np.int32)
    assert check_intervals(words, len(words), 2, spans) == len(words)
    assert spans.tolist() == [[-1, 2], [3, 5]]
    words[0] = -1
    assert check_intervals(words, len(words), 2, spans) == -1


def test_what_openfst_and_kaldis_script_do(here):
    """fstconvert, then fstrelabel with the pairs that it saved: the same as with both graphs' words."""
    assert load("fstconvert").execute(["--fst_type=olabel_lookahead", "--save_relabel_opairs=relabel",
                                       str(DATA / "HCL.fst"), "HCLr.fst"]) == 0
    assert load("fstrelabel").execute(["--relabel_ipairs=relabel", str(DATA / "G.fst"), "relabeled.fst"]) == 0
    assert load("fstarcsort").execute(["--sort_type=ilabel", "relabeled.fst", "sorted.fst"]) == 0
    assert load("fstconvert").execute(["--fst_type=const", "sorted.fst", "Gr.fst"]) == 0
    found = LookaheadGraph.read("HCLr.fst", "Gr.fst", DISAMBIG, MODEL)
    own = Lookahead.of_fst(read_fst_file(DATA / "HCL.fst"))
    assert found.lookahead.label_of_word is None and found.lookahead.final_label == own.final_label
    assert all(np.array_equal(found.lookahead.intervals_of(state), own.intervals_of(state))
               for state in range(len(own.states)))
    assert read_fst_file("HCLr.fst").num_arcs == len(own.arcs)
    expected = LookaheadGraph.read(DATA / "HCL.fst", DATA / "G.fst", DISAMBIG, MODEL)
    for matrix in LIKES:
        one, other = (Decoder(graph, MODEL, OPTIONS).decode(matrix) for graph in (found, expected))
        assert one.words.tolist() == other.words.tolist()
        assert one.graph_cost == pytest.approx(other.graph_cost, abs=COST)


def test_damaged_lookahead_files(tmp_path):
    """Nothing but one error, or a graph that can be searched."""
    hcl = read_fst_file(DATA / "HCL.fst")
    own = Lookahead.of_fst(hcl)
    content = lookahead_file(tmp_path / "HCLr.fst", own, hcl, True).read_bytes()
    with open_output(tmp_path / "Gr.fst") as stream:
        write_binary_fst(TokenWriter(stream, binary=True), relabeled(read_fst_file(DATA / "G.fst"),
                                                                      own.label_of_word), "const")
    path = tmp_path / "damaged.fst"
    assert count_refused(content, path, lambda: LatticeDecoder(LookaheadGraph.read(
        path, tmp_path / "Gr.fst", DISAMBIG, MODEL)).advance(LIKES[0][:5]), MUTATIONS) > MUTATIONS // 3


# -- other grammars ----------------------------------------------------------------------------------------------------


def test_phrases():
    graph = LookaheadGraph.read(DATA / "HCL.fst", DATA / "G.fst", DISAMBIG, MODEL)
    phrases = [[3, 4], [5], [8, 8, 2]]
    said = Decoder(graph.with_phrases(phrases), MODEL, OPTIONS).decode(LIKES[0]).words.tolist()
    rest = said
    while rest:
        rest = next(rest[len(phrase):] for phrase in phrases if rest[:len(phrase)] == phrase)
    assert said
    for word in (0, 99, 16):
        with pytest.raises(ShapeError, match=f"word {word}, which the graph does not have"):
            graph.with_phrases([[3], [word]])


def test_boosted_words():
    graph = LookaheadGraph.read(DATA / "HCL.fst", DATA / "G.fst", DISAMBIG, MODEL)
    plain = Decoder(graph, MODEL, OPTIONS).decode(LIKES[0]).words.tolist()
    boosted = Decoder(graph.with_boosted({11: 40.0}), MODEL, OPTIONS).decode(LIKES[0]).words.tolist()
    assert boosted.count(11) > plain.count(11)
    again = Decoder(graph.with_boosted({11: 0.0, 999: 5.0}), MODEL, OPTIONS).decode(LIKES[0]).words.tolist()
    assert again == plain


def test_what_cannot_be_composed(monkeypatch):
    hcl, grammar = read_fst_file(DATA / "HCL.fst"), read_fst_file(DATA / "G.fst")
    tables = GrammarTables.of_fst(grammar)
    monkeypatch.setattr(composed_graphs, "MOST_WORDS", tables.largest_word() + 1)
    LookaheadGraph(Lookahead.of_fst(hcl), tables, DISAMBIG, MODEL)
    monkeypatch.setattr(composed_graphs, "MOST_WORDS", tables.largest_word())
    with pytest.raises(ShapeError, match=f"the word number {tables.largest_word()}, expected numbers below"):
        LookaheadGraph(Lookahead.of_fst(hcl), tables, DISAMBIG, MODEL)
    monkeypatch.undo()
    with pytest.raises(ShapeError, match="input label 6[1-4], which is neither a transition-id"):
        LookaheadGraph.of_words(Lookahead.of_fst(hcl), grammar, [70], MODEL)
    with pytest.raises(ShapeError, match="input label 6[1-4], but the model's"):
        LookaheadGraph.of_words(Lookahead.of_fst(hcl), grammar, [], MODEL)
    empty = Fst.from_arcs(-1, np.zeros(0), [], [], [], [], [])
    with pytest.raises(ShapeError, match="needs states"):
        LookaheadGraph.of_words(Lookahead.of_fst(hcl), empty, DISAMBIG, MODEL)
    loop = Fst.from_arcs(0, [NO_WEIGHT, 0.0], [0, 1], [0, 0], [0, 0], [0.0, 0.0], [1, 0])
    with pytest.raises(ShapeError, match="cycle"):
        LookaheadGraph.of_words(Lookahead.of_fst(hcl), loop, DISAMBIG, MODEL)


PHRASE_COST = 1e-5          # sums of float32


def test_only_the_phrases() -> None:
    paths = path_costs(phrase_grammar([[3, 4], [5]]), 4)
    assert {words for words, _ in paths} == {(), (3, 4), (5,), (5, 5), (3, 4, 5), (5, 3, 4), (5, 5, 5), (5, 5, 5, 5),
                                             (3, 4, 3, 4), (5, 5, 3, 4), (3, 4, 5, 5), (5, 3, 4, 5)}
    assert paths[(3, 4), (3, 4)] == pytest.approx(2 * np.log(3.0), abs=PHRASE_COST)


def test_pairs_of_words_have_the_costs_of_their_counts() -> None:
    """By hand: [] has 3 twice, 5 once, and of all states 4, 4 and three ends; 3 has 4 twice; 4 and 5 end or go on."""
    fst = bigram_grammar([[3, 4], [3, 4, 4], [5]])
    assert fst.is_acceptor and is_sorted(fst) and fst.start == 0 and fst.num_states == 4
    empty = {3: 2, 5: 1, 4: 3, 0: 3}
    arcs = {(int(source), int(word)): float(cost) for source, word, cost in
            zip(fst.sources, fst.input_labels, fst.weights, strict=True)}
    for word in (3, 4, 5):
        assert arcs[0, word] == pytest.approx(-np.log(0.5 * empty[word] / 9), abs=PHRASE_COST)
    assert fst.final_weights[0] == pytest.approx(-np.log(0.5 * 3 / 9), abs=PHRASE_COST)
    assert arcs[1, 4] == pytest.approx(-np.log(0.5), abs=PHRASE_COST)                  # 3: always 4
    assert arcs[2, 4] == pytest.approx(-np.log(0.5 / 3), abs=PHRASE_COST)              # 4: 4 once, the end twice
    assert fst.final_weights[2] == pytest.approx(-np.log(0.5 * 2 / 3), abs=PHRASE_COST)
    assert [arcs[state, 0] for state in (1, 2, 3)] == pytest.approx([np.log(2.0)] * 3, abs=PHRASE_COST)
    assert (0, 0) not in arcs and np.isinf(fst.final_weights[1])


def test_nothing_but_empty_phrases() -> None:
    fst = bigram_grammar([[], []])
    assert (fst.num_states, fst.num_arcs) == (1, 0) and fst.final_weights[0] == pytest.approx(np.log(2.0))


pytest.importorskip("kaldifst", reason="graphs are made with kaldifst (nnet3py[decode])")

from nnet3py.decoding.graph import make_graph  # noqa: E402
from nnet3py.decoding.lexicon import Lang, Pronunciation, Silence, make_lang  # noqa: E402

GRAMMAR_COST = 1e-3                   # sums of float32 over an utterance
ROUNDED = 0.02                # graphs are made with costs rounded to 1/1024, so one graph differs from parts
GRAMMAR_OPTIONS = DecoderOptions(beam=30.0, lattice_beam=4.0)
NAME, THING = "#nonterm:name", "#nonterm:thing"
LEXICON = [Pronunciation(word, tuple(phones.split())) for word, phones in (
    ("call", "a b"), ("please", "b c"), ("anna", "a c a"), ("bob", "b b"), ("bob", "b c"), ("the", "c"), ("red", "a"))]
NUM_PHONES = 4


def lang(nonterminals: tuple[str, ...]) -> Lang:
    return make_lang(LEXICON, None, Silence("SIL", 0.3), nonterminals)


SYSTEM = context_system(chain_topology([1, 2, 3, 4]), 2, 1, 0)
WITH, WITHOUT = lang((NAME, THING)), lang(())


def line(words: str, table: Lang) -> Fst:
    """A grammar of alternatives, with bars between, of words; each costs 0.5 more than the one before."""
    graph = GraphBuilder()
    end = graph.state()
    for place, text in enumerate(words.split("|")):
        state, cost = 0, float(place) / 2
        names = text.split()
        for number, name in enumerate(names):
            target = end if number + 1 == len(names) else graph.state()
            label = table.words[name]
            graph.arc(state, label, 0 if name.startswith("#") else label, cost, target)
            state, cost = target, 0.0
    graph.final(end, 0.25)
    return graph.fst()


def part(words: str) -> Fst:
    return make_graph(WITH, as_nonterminal(line(words, WITH), WITH.words), *SYSTEM)


def grammar(top: str, **parts: str) -> GrammarFst:
    numbers = {f"#nonterm:{name}": fst for name, fst in parts.items()}
    names = WITH.nonterminals
    assert names is not None
    return GrammarFst.of(names, make_graph(WITH, line(top, WITH), *SYSTEM),
                         {WITH.phones[name]: part(words) for name, words in numbers.items()})


def grammar_likes(seed: int, frames: int = 14) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, 3.0, (frames, SYSTEM[1].num_pdfs)).astype(np.float32)


def assert_same(first: Decoder, second: Decoder, tolerance: float) -> None:
    words = set()
    for seed in range(12):
        expected, found = first.decode(grammar_likes(seed)), second.decode(grammar_likes(seed))
        assert found.words.tolist() == expected.words.tolist()
        assert found.alignment.tolist() == expected.alignment.tolist()
        assert found.graph_cost == pytest.approx(expected.graph_cost, abs=tolerance)
        assert found.acoustic_cost == pytest.approx(expected.acoustic_cost, abs=GRAMMAR_COST)
        assert found.reached_final and expected.reached_final
        words.add(tuple(found.words.tolist()))
    assert len(words) > 3


def test_same_as_one_graph() -> None:
    """Parts in parts, at the beginning, in the middle and at the end, after silence or a phone."""
    made = grammar(f"call {NAME} please|{NAME} call|please {THING}", name="anna|bob", thing=f"the {NAME}|red")
    # Each part adds its final cost, and the costs of its alternatives.
    flat = GraphBuilder()
    end = flat.state()
    names = (("anna", 0.25), ("bob", 0.75))
    for words, cost in [*((f"call {name} please", cost) for name, cost in names),
                        *((f"{name} call", 0.5 + cost) for name, cost in names),
                        *((f"please the {name}", 1.25 + cost) for name, cost in names), ("please red", 1.75)]:
        state = 0
        for number, word in enumerate(words.split()):
            target = end if number + 1 == len(words.split()) else flat.state()
            label = WITHOUT.words[word]
            flat.arc(state, label, label, 0.0 if number else cost, target)
            state = target
    flat.final(end, 0.25)
    static = DecodingGraph.of_fst(make_graph(WITHOUT, flat.fst(), *SYSTEM), SYSTEM[1])
    dynamic = GrammarGraph(made, SYSTEM[1])
    assert_same(Decoder(static, SYSTEM[1], GRAMMAR_OPTIONS), Decoder(dynamic, SYSTEM[1], GRAMMAR_OPTIONS), ROUNDED)
    whole = DecodingGraph.of_fst(ExpandedGrammar(dynamic).to_fst(), SYSTEM[1])
    assert_same(Decoder(whole, SYSTEM[1], GRAMMAR_OPTIONS), Decoder(dynamic, SYSTEM[1], GRAMMAR_OPTIONS), GRAMMAR_COST)


def test_a_grammar_that_calls_itself() -> None:
    """Any number of names, by a part that ends with itself; begun anew in the midst of utterances, too."""
    made = GrammarGraph(grammar(f"call {NAME}", name=f"anna|bob {NAME}"), SYSTEM[1])
    decoder = Decoder(made, SYSTEM[1], GRAMMAR_OPTIONS)
    small = LatticeDecoder(made, GRAMMAR_OPTIONS)
    small.graph = ExpandedGrammar(made, most_arcs=200)
    small.init()
    most = 0
    for seed in range(6):
        matrix = grammar_likes(seed, 40)
        found = decoder.decode(matrix)
        words = [WITH.words.names[word] for word in found.words.tolist()]
        assert words == ["call", *["bob"] * (len(words) - 2), "anna"]
        most = max(most, len(words))
        small.init()
        small.advance(matrix)
        best = small.best_path()
        assert best is not None and best.words.tolist() == found.words.tolist()
    assert most > 4
    with pytest.raises(ShapeError, match="has more than 5000 arcs as one"):
        ExpandedGrammar(made).to_fst(most_arcs=5000)


def test_what_is_wrong_is_said() -> None:
    endless = GrammarGraph(grammar(f"call {NAME}", name=f"anna|{NAME} bob"), SYSTEM[1])
    with pytest.raises(ShapeError, match=r"calls nonterminal \d+ in itself, more than 10000 times"):
        LatticeDecoder(endless, DecoderOptions(beam=1e6)).advance(grammar_likes(0))
    missing = GrammarGraph(grammar(f"call {THING}", name="anna"), SYSTEM[1])
    with pytest.raises(ShapeError, match=f"calls nonterminal {WITH.phones[THING]} .* no graph for it"):
        LatticeDecoder(missing, GRAMMAR_OPTIONS).advance(grammar_likes(0))
    names = WITH.nonterminals
    assert names is not None
    top = make_graph(WITH, line("call anna", WITH), *SYSTEM)
    with pytest.raises(FormatError, match="begins with #nonterm_begin"):
        GrammarFst.of(names, top, {WITH.phones[NAME]: top})
    with pytest.raises(FormatError, match="the top graph has #nonterm_begin"):
        GrammarFst.of(names, part("anna"), {})
    with pytest.raises(UsageError, match="3 is not the number of a user-defined nonterminal"):
        GrammarFst.of(names, top, {3: part("anna")})
    with pytest.raises(FormatError, match="does not encode a nonterminal and the phone before it"):
        GrammarFst.of(Nonterminals(50), part(f"anna {NAME}"), {})
    with pytest.raises(UsageError, match="a phone and the one before it"):
        make_graph(WITH, line("call", WITH), *context_system(chain_topology([1, 2, 3, 4]), 1, 0, 0))
    with pytest.raises(UsageError, match="found 'name'"):
        lang(("name",))


def test_files(tmp_path: Path) -> None:
    made = grammar(f"call {NAME}|please", name="anna|bob")
    path = str(tmp_path / "HCLG.gra")
    made.write(path)
    data = Path(path).read_bytes()
    assert data.startswith(b"\0B<GrammarFst> \x04\x01\0\0\0\x04\x01\0\0\0") and data.endswith(b"</GrammarFst> ")
    again = GrammarFst.read(path)
    assert list(again.parts) == list(made.parts)
    for first, second in zip([made.top, *made.parts.values()], [again.top, *again.parts.values()], strict=True):
        for name in ("final_weights", "arc_starts", "input_labels", "output_labels", "weights", "next_states"):
            assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert (made.top.final_weights == LEAVES).any()
    for end in (9, 30, len(data) // 2, len(data) - 1):
        (tmp_path / "damaged").write_bytes(data[:end])
        with pytest.raises(FormatError):
            GrammarFst.read(str(tmp_path / "damaged"))


def test_preparing() -> None:
    """A state with words, an end and two calls is taken apart; two entries with one phone become one."""
    names = Nonterminals(10)
    call, other, end = names.label(14, 3), names.label(15, 3), names.label(names.end, 2)
    begin, reenter = names.label(names.begin, 1), names.label(names.reenter, 1)
    inf = np.float32(np.inf)
    fst = Fst.from_arcs(0, np.array([inf, 1.0, inf, 2.0], np.float32), [0, 0, 1, 1, 1, 1, 2],
                        [begin, begin, 5, call, other, end, reenter], [7, 8, 9, 6, 0, 0, 0],
                        [0.5, 1.5, 0.0, 0.25, 0.0, 0.75, 0.0], [1, 2, 1, 2, 2, 3, 1])
    with pytest.raises(FormatError, match="state 0 of the graph has arcs of #nonterm_begin; expected"):
        prepared(Fst.from_arcs(0, fst.final_weights, [0, 0], [begin, 3], [0, 0], [0, 0], [1, 1]), names, is_top=False)
    made = prepared(fst, names, is_top=False)
    assert made.num_states == 4 + 1 + 3 + 1          # an end without a cost, what leaves, entries
    leaves = np.flatnonzero(made.final_weights == LEAVES)
    assert len(leaves) == 3
    arcs = sorted(zip(made.sources.tolist(), made.input_labels.tolist(), made.output_labels.tolist(),
                      made.weights.tolist(), strict=True))
    assert [arc[1:] for arc in arcs if arc[0] == 0] == [(begin, 0, 0.5)]
    assert {arc[1:] for arc in arcs if arc[0] == 1} == {(5, 9, 0.0), (0, 6, 0.25), (0, 0, 0.0), (0, 0, 2.75)}
    assert {arc[1:] for arc in arcs if arc[0] in leaves} == {(call, 0, 0.0), (other, 0, 0.0), (end, 0, 0.0)}
    assert {arc[1:] for arc in arcs if arc[1] == 0 and arc[2] in (7, 8)} == {(0, 7, 0.0), (0, 8, 1.0)}
    twice = prepared(made, names, is_top=False)
    assert np.array_equal(twice.input_labels, made.input_labels) and np.array_equal(twice.weights, made.weights)
    assert made.input_labels.max() > FIRST_LABEL


@pytest.mark.parametrize(("final", "word", "others", "is_moved"), [
    (NO_WEIGHT, 0, 0, False), (1.5, 0, 0, True), (NO_WEIGHT, 7, 0, True), (NO_WEIGHT, 0, 1, True)])
def test_arcs_into_other_graphs_leave_states_of_their_own(final: float, word: int, others: int, is_moved: bool) -> None:
    """Unless there is nothing else: a final cost, a word, another arc; then an epsilon leads to a new state."""
    names = Nonterminals(100)
    call, reenter = names.label(104, 3), names.label(names.reenter, 3)
    top = Fst.from_arcs(0, [final, NO_WEIGHT, 0.5], [0, 1, *[0] * others], [call, reenter, *[5] * others],
                        [word, 0, *[0] * others], [0.25, 0.0, *[0.0] * others], [1, 2, *[2] * others])
    made = prepared(top, names)
    calls = np.flatnonzero(made.input_labels == call)
    leaving, = made.sources[calls].tolist()
    assert made.final_weights[leaving] == LEAVES and made.output_labels[calls].tolist() == [0]
    assert made.next_states[calls].tolist() == [1] and leaving == (3 if is_moved else 0)
    if is_moved:
        way, = np.flatnonzero(made.next_states == leaving).tolist()
        assert (made.sources[way], made.input_labels[way], made.output_labels[way], made.weights[way]) == (
            0, 0, word, 0.25)
        assert made.final_weights[0] == np.float32(final) and made.weights[calls].tolist() == [0.0]
    assert prepared(made, names).equals(made)
