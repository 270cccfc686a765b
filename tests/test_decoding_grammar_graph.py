"""Grammars put together while decoding: the same as one graph of the whole grammar; recursion, files, what is wrong."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graph_systems import context_system

from nnet3py.decoding.composed_graphs import ExpandedGrammar, GrammarGraph
from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.grammar import as_nonterminal
from nnet3py.decoding.lattice_decoder import Decoder, LatticeDecoder
from nnet3py.decoding.lexicon import GraphBuilder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import FormatError, ShapeError, UsageError
from nnet3py.graphs.grammar_fst import FIRST_LABEL, LEAVES, GrammarFst, Nonterminals, prepared
from nnet3py.hmm.topology import chain_topology
from nnet3py.transducers.fst import Fst

pytest.importorskip("kaldifst", reason="graphs are made with kaldifst (nnet3py[decode])")

from nnet3py.decoding.graph import make_graph  # noqa: E402
from nnet3py.decoding.lexicon import Lang, Pronunciation, Silence, make_lang  # noqa: E402

COST = 1e-3                   # sums of float32 over an utterance
ROUNDED = 0.02                # graphs are made with costs rounded to 1/1024, so one graph differs from parts
OPTIONS = DecoderOptions(beam=30.0, lattice_beam=4.0)
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


def likes(seed: int, frames: int = 14) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, 3.0, (frames, SYSTEM[1].num_pdfs)).astype(np.float32)


def assert_same(first: Decoder, second: Decoder, tolerance: float) -> None:
    words = set()
    for seed in range(12):
        expected, found = first.decode(likes(seed)), second.decode(likes(seed))
        assert found.words.tolist() == expected.words.tolist()
        assert found.alignment.tolist() == expected.alignment.tolist()
        assert found.graph_cost == pytest.approx(expected.graph_cost, abs=tolerance)
        assert found.acoustic_cost == pytest.approx(expected.acoustic_cost, abs=COST)
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
    assert_same(Decoder(static, SYSTEM[1], OPTIONS), Decoder(dynamic, SYSTEM[1], OPTIONS), ROUNDED)
    whole = DecodingGraph.of_fst(ExpandedGrammar(dynamic).to_fst(), SYSTEM[1])
    assert_same(Decoder(whole, SYSTEM[1], OPTIONS), Decoder(dynamic, SYSTEM[1], OPTIONS), COST)


def test_a_grammar_that_calls_itself() -> None:
    """Any number of names, by a part that ends with itself; begun anew in the midst of utterances, too."""
    made = GrammarGraph(grammar(f"call {NAME}", name=f"anna|bob {NAME}"), SYSTEM[1])
    decoder = Decoder(made, SYSTEM[1], OPTIONS)
    small = LatticeDecoder(made, OPTIONS)
    small.graph = ExpandedGrammar(made, most_arcs=200)
    small.init()
    most = 0
    for seed in range(6):
        matrix = likes(seed, 40)
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
        LatticeDecoder(endless, DecoderOptions(beam=1e6)).advance(likes(0))
    missing = GrammarGraph(grammar(f"call {THING}", name="anna"), SYSTEM[1])
    with pytest.raises(ShapeError, match=f"calls nonterminal {WITH.phones[THING]} .* no graph for it"):
        LatticeDecoder(missing, OPTIONS).advance(likes(0))
    names = WITH.nonterminals
    assert names is not None
    top = make_graph(WITH, line("call anna", WITH), *SYSTEM)
    with pytest.raises(FormatError, match="begins with #nonterm_begin"):
        GrammarFst.of(names, top, {WITH.phones[NAME]: top})
    with pytest.raises(FormatError, match="or is the top graph"):
        GrammarFst.of(names, part("anna"), {})
    with pytest.raises(UsageError, match="3 is not a nonterminal of the user"):
        GrammarFst.of(names, top, {3: part("anna")})
    with pytest.raises(FormatError, match="which is not a nonterminal after a phone"):
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
    with pytest.raises(FormatError, match="others"):
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
