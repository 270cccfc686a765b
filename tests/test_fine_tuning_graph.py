"""Tree and lexicon recovered from a decoding graph, and sentences drawn from it."""
from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from graph_systems import context_system, monophone_system

from nnet3py.decoding.composed_graphs import LookaheadGraph
from nnet3py.decoding.grammar import Ngram, ngram_fst
from nnet3py.decoding.graph import make_graph
from nnet3py.decoding.lexicon import Lang, Pronunciation, Silence, make_lang, with_positions
from nnet3py.decoding.lookahead import Lookahead
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.graph_tree import WiderContext, neighbors, recover_tree
from nnet3py.fine_tuning.graph_words import draw_sentences, draw_texts, recover_lexicon, spoken
from nnet3py.hmm.topology import chain_topology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency, Map, Split, Table
from nnet3py.lattices.word_alignment import BEGIN, END, INTERNAL, NONWORD, SINGLETON
from nnet3py.transducers.fst import NO_WEIGHT, Fst

pytest.importorskip("kaldifst")

# Words that sound alike, that begin others, that have two pronunciations, and one of a single phone.
LEXICON = [Pronunciation(word, tuple(phones.split())) for word, phones in (
    ("two", "t u"), ("too", "t u"), ("to", "t u"), ("to", "t a"), ("a", "a"), ("tutu", "t u t u"), ("at", "a t"))]
SENTENCES = ["to a two", "a tutu", "at two", "too a tutu at", "to to two"]
NUM_DRAWN = 400
DISAMBIG = 5000               # an input label that is not a transition-id
HALF = math.log(2)            # a cost
DRAWN_TOLERANCE = 0.12        # of a relative frequency of 400: five standard deviations of a coin's, 0.025, at most


@cache
def lang() -> Lang:
    return make_lang(with_positions(LEXICON), silence=Silence("SIL", 0.4))


@cache
def kinds() -> dict[int, str]:
    marks = {"_B": BEGIN, "_E": END, "_I": INTERNAL, "_S": SINGLETON}
    return {number: marks.get(name[-2:], NONWORD) for number, name in lang().phones.names.items()
            if number and not name.startswith("#")}


@cache
def system(kind: str) -> tuple[ContextDependency, TransitionModel, Fst]:
    topology = chain_topology(sorted(kinds()))
    tree, model = monophone_system(topology) if kind == "monophone" else (
        context_system(topology, 2, 1, 0) if kind == "biphone" else context_system(topology, 3, 1, 2))
    if kind == "biphone":
        asked = frozenset(number for number, name in lang().phones.names.items() if name.startswith("t") or not number)
        tree = ContextDependency(2, 1, with_question(tree.to_pdf, asked))
    grammar = ngram_fst(Ngram.estimate([sentence.split() for sentence in SENTENCES], 2), lang().words)
    return tree, model, make_graph(lang(), grammar, tree, model, self_loop_scale=1.0)


def with_question(tree: Map | None, asked: frozenset[int]) -> Map | None:
    if isinstance(tree, Table) and tree.key == 1:
        return Table(1, tuple(with_question(child, asked) for child in tree.children))
    return Split(tree.key, asked, tree.yes, tree.no) if isinstance(tree, Split) else tree


@pytest.mark.parametrize("kind", ["monophone", "biphone"])
def test_the_tree_of_a_graph(kind):
    tree, model, graph = system(kind)
    recovered = recover_tree(graph, model, lang().phones.names).tree
    assert recovered.num_pdfs == model.num_pdfs
    seen = neighbors(graph, model)
    assert len(seen) > len(kinds())
    width = tree.context_width
    for left, phone, _ in seen:
        for pdf_class in (0, 1):
            assert recovered.pdf((left, phone), pdf_class) == tree.pdf((left, phone)[-width:], pdf_class)
    for left in (0, *kinds()):          # what was not seen has pdfs, too, which the model knows together
        for phone in kinds():
            model.transition_state(phone, 0, *(recovered.pdf((left, phone), pdf_class) for pdf_class in (0, 1)))


def test_a_guess_is_what_similar_phones_have():
    tree, model, graph = system("biphone")
    recovered = recover_tree(graph, model, lang().phones.names).tree
    phones, seen = lang().phones, neighbors(graph, model)
    window = phones["t_E"], phones["a_S"]
    assert not any((phones[left], phones["a_S"], 0) in seen for left in ("t_B", "t_I"))
    assert recovered.pdf(window, 0) == tree.pdf(window, 0)      # as behind t at the end of a word, as a_B has it


def test_triphones_cannot_be_had():
    _, model, graph = system("triphone")
    with pytest.raises(WiderContext, match="more than one pdf"):
        recover_tree(graph, model)


def test_the_lexicon_of_a_graph():
    _, model, graph = system("biphone")
    recovered = recover_lexicon(graph, model, kinds())
    names, words = lang().phones.names, lang().words
    assert names[recovered.silence] == "SIL"
    assert {(words.names[word], tuple(names[phone] for phone in phones))
            for word, all_phones in recovered.pronunciations.items() for phones in all_phones} == {
        (entry.word, entry.phones) for entry in with_positions(LEXICON)}


def test_pronunciations_on_most_paths_are_first():
    """In the triphone graph 18 paths have "to" as t u, and 6 and 9, which are searched in two ways, as t a."""
    _, model, graph = system("triphone")
    names, to = lang().phones.names, lang().words["to"]
    assert [[names[phone] for phone in phones]
            for phones in recover_lexicon(graph, model, kinds()).pronunciations[to]] == [["t_B", "u_E"], ["t_B", "a_E"]]


def test_phones_of_another_system_are_an_error():
    _, model, graph = system("biphone")
    with pytest.raises(Nnet3Error, match="word_boundary"):
        recover_lexicon(graph, model, dict.fromkeys(list(kinds())[:3], NONWORD))
    with pytest.raises(Nnet3Error, match="no word of the graph|differ in number"):
        recover_lexicon(graph, model, dict.fromkeys(kinds(), NONWORD))


def test_sentences_are_as_probable_as_the_graph_says():
    _, model, graph = system("biphone")
    drawn = list(draw_sentences(graph, model, NUM_DRAWN, seed=2))
    assert len(drawn) == NUM_DRAWN
    names, words = lang().phones.names, lang().words
    known = {(entry.word, entry.phones) for entry in with_positions(LEXICON)}
    for sentence in drawn:
        phones = [names[phone] for phone in sentence.phones if names[phone] != "SIL"]
        for word in sentence.words:
            length = next(n for n, phone in enumerate(phones, 1) if phone[-2:] in ("_E", "_S"))
            assert (words.names[word], tuple(phones[:length])) in known
            phones = phones[length:]
        assert not phones
    begins_with_to = sum(sentence.words[:1] == (words["to"],) for sentence in drawn) / NUM_DRAWN
    once = 10 ** Ngram.estimate([sentence.split() for sentence in SENTENCES], 2).log10_prob(["<s>"], "to")
    assert abs(begins_with_to - 2 * once / (1 + once)) < DRAWN_TOLERANCE       # it has two pronunciations


def lookahead_graph() -> LookaheadGraph:
    """The graph without its language model, and a grammar of two words that backs off from one of them."""
    _, model, graph = system("biphone")
    to, two = lang().words["to"], lang().words["two"]
    unused = int(graph.output_labels.max()) + 1                    # stands for backing off, as #0 does
    hcl = Fst.from_arcs(graph.start, graph.final_weights, [*graph.sources, 0], [*graph.input_labels, DISAMBIG],
                        [*graph.output_labels, unused], [*graph.weights, 0.0], [*graph.next_states, 0])
    lookahead = Lookahead.of_fst(hcl)
    grammar = Fst.from_arcs(0, [NO_WEIGHT, 0.0], [0, 0, 1], [to, two, unused], [to, two, 0],
                            [HALF, HALF, 3.0], [1, 1, 0])
    return LookaheadGraph.of_words(lookahead, grammar, [DISAMBIG], model)


def test_the_first_part_of_a_lookahead_graph_has_words_again():
    graph, model = system("biphone")[2], system("biphone")[1]
    hcl = lookahead_graph().hcl_of_words()
    assert hcl.start == graph.start
    for name in ("sources", "input_labels", "output_labels", "next_states", "weights", "final_weights"):
        np.testing.assert_array_equal(getattr(hcl, name), getattr(graph, name))
    assert recover_lexicon(hcl, model, kinds()) == recover_lexicon(graph, model, kinds())


def test_sentences_of_a_grammar_are_pronounced():
    _, model, graph = system("biphone")
    lexicon = recover_lexicon(graph, model, kinds())
    to = lang().words["to"]
    drawn = list(spoken(draw_texts(lookahead_graph().grammar_fst, NUM_DRAWN, seed=1), lexicon, seed=1))
    assert len(drawn) == NUM_DRAWN
    assert abs(sum(sentence.words[0] == to for sentence in drawn) / NUM_DRAWN - 0.5) < DRAWN_TOLERANCE
    for sentence in drawn:
        phones = [phone for phone in sentence.phones if phone != lexicon.silence]
        assert phones == [phone for word in sentence.words for phone in lexicon.pronunciations[word][0]]
    silences = sum(phone == lexicon.silence for sentence in drawn for phone in sentence.phones)
    places = sum(len(sentence.words) + 1 for sentence in drawn)
    assert abs(silences / places - 0.5) < DRAWN_TOLERANCE
