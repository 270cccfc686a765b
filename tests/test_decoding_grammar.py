"""N-gram models: estimates that sum to one, ARPA files, graphs that give every sentence the model's cost."""
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from graph_paths import path_costs

from nnet3py.decoding.grammar import Ngram, ngram_fst, read_grammar, word_loop
from nnet3py.decoding.symbols import SENTENCE_END, SENTENCE_START, SymbolTable, grammar_words, read_transcripts
from nnet3py.errors import FormatError, UsageError
from nnet3py.transducers.fst import Fst

SUM = 1e-6            # of probabilities, which are kept as logs
COST = 1e-4           # sums of float32
TEXT = [["a", "b"], ["a", "b", "a"], ["c"], ["a"]]
WORDS = SymbolTable.of(["a", "b", "c", "d", "#0", "<s>", "</s>"])

ARPA = """some words before

\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-99 <s> -0.3
-0.5 a -0.2
-0.7 b
-0.4 </s>

\\2-grams:
-0.1 <s> a
-0.25 a b

\\end\\
"""


@pytest.mark.parametrize("order", [1, 2, 3])
def test_probabilities_sum_to_one(order):
    model = Ngram.estimate(TEXT, order, ["d"])
    for history in itertools.product("abcd", repeat=max(order - 1, 0)):
        total = sum(10.0 ** model.log10_prob(history, word) for word in (*"abcd", SENTENCE_END))
        assert total == pytest.approx(1.0, abs=SUM)
        assert model.log10_prob(history, "d") > -3.0


def test_witten_bell_by_hand():
    model = Ngram.estimate([["a"], ["a"], ["b"]], 2)
    # unigrams: a 2, b 1, </s> 3 of 6, 3 different ones of 3
    p_a, p_b = (2 + 3 / 3) / 9, (1 + 3 / 3) / 9
    assert 10.0 ** model.log10_prob((), "b") == pytest.approx(p_b, abs=SUM)
    # after <s>: a 2, b 1, two different ones
    assert 10.0 ** model.log10_prob([SENTENCE_START], "a") == pytest.approx((2 + 2 * p_a) / 5, abs=SUM)
    assert 10.0 ** model.log10_prob(["b"], "a") == pytest.approx(1 * p_a / 2, abs=SUM)


def test_no_text_and_no_order():
    with pytest.raises(UsageError, match="without text"):
        Ngram.estimate([], 2)
    with pytest.raises(UsageError, match="order"):
        Ngram.estimate(TEXT, 0)


def sentence_cost(model: Ngram, words) -> float:
    history, cost = [SENTENCE_START], 0.0
    for word in (*words, SENTENCE_END):
        cost -= model.log10_prob(history, word) * math.log(10.0)
        history.append(word)
    return cost


def walked_cost(graph: Fst, words, back_off: int) -> float:
    """The cost of a sentence if the graph backs off only where it must."""
    state, cost, left = graph.start, 0.0, list(words)
    while True:
        leaving = range(graph.arc_starts[state], graph.arc_starts[state + 1])
        arcs = {int(graph.input_labels[arc]): arc for arc in leaving}
        if not left and np.isfinite(graph.final_weights[state]):
            return cost + float(graph.final_weights[state])
        arc = arcs[left.pop(0)] if left and left[0] in arcs else arcs[back_off]
        cost, state = cost + float(graph.weights[arc]), int(graph.next_states[arc])


@pytest.mark.parametrize("order", [1, 2, 3])
def test_graph_against_all_sentences(order):
    model = Ngram.estimate(TEXT, order)
    graph = ngram_fst(model, WORDS)
    sentences = [words for count in range(4) for words in itertools.product("abc", repeat=count)]
    found = [walked_cost(graph, [WORDS[word] for word in words], WORDS["#0"]) for words in sentences]
    np.testing.assert_allclose(found, [sentence_cost(model, words) for words in sentences], atol=COST)
    is_back_off = graph.input_labels == WORDS["#0"]
    assert (graph.output_labels == np.where(is_back_off, 0, graph.input_labels)).all()
    assert is_back_off.any() == (order > 1)


def test_arpa(tmp_path):
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA)
    words, label = WORDS.ids, np.log(10.0)
    graph = read_grammar(str(path), WORDS)
    costs = path_costs(graph, 5)
    assert costs[(words["a"], words["b"]), (words["a"], words["b"])] == pytest.approx(
        label * (0.1 + 0.25 + 0.4), abs=COST)
    assert costs[(words["#0"], words["b"]), (words["b"],)] == pytest.approx(label * (0.3 + 0.7 + 0.4), abs=COST)
    model = Ngram.estimate(TEXT, 3)
    again = tmp_path / "again.arpa"
    model.write(str(again))
    ours, theirs = ngram_fst(model, WORDS), read_grammar(str(again), WORDS)
    assert ours.num_states == theirs.num_states and np.array_equal(ours.input_labels, theirs.input_labels)
    assert np.allclose(ours.weights, theirs.weights, atol=COST)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("\\data\\", "data", "line .data"), ("\\end\\", "", "end"), ("-0.7 b", "-0.7", "line 10"),
    ("-99 <s> -0.3", "-99 z -0.3", "beginning of sentences"), ("-0.7 b", "nan b", "line 10"),
    ("-0.7 b", "x b", "line 10")])
def test_broken_arpa(tmp_path, old, new, message):
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA.replace(old, new))
    with pytest.raises(FormatError, match=message):
        read_grammar(str(path), WORDS)


def test_words_that_the_table_lacks(caplog):
    graph = ngram_fst(Ngram.estimate(TEXT, 2), SymbolTable.of(["a", "b", "#0"]))
    assert set(graph.output_labels.tolist()) == {0, 1, 2}
    assert "3 of 12 n-grams" in caplog.text
    with pytest.raises(FormatError, match="no n-gram"):
        ngram_fst(Ngram.estimate(TEXT, 2), SymbolTable.of(["z", "#0"]))


def test_word_loop():
    loop = word_loop(WORDS, penalty=0.5)
    assert grammar_words(WORDS) == ["a", "b", "c", "d"]
    costs = path_costs(loop, 2)
    assert len(costs) == 1 + 4 + 16
    assert costs[(1, 4), (1, 4)] == pytest.approx(2 * (math.log(4) + 0.5), abs=COST)
    assert path_costs(word_loop(WORDS), 1)[(1,), (1,)] == pytest.approx(math.log(4), abs=COST)
    with pytest.raises(FormatError, match="no word 'z'"):
        word_loop(WORDS, ["z"])
    with pytest.raises(FormatError, match="needs words"):
        word_loop(SymbolTable.of(["#0"]))


def test_transcripts(tmp_path):
    path = tmp_path / "text"
    path.write_text("u1 one two\nu2\n")
    assert read_transcripts(str(path)) == {"u1": ["one", "two"], "u2": []}
    path.write_text("u1 one\nu1 two\n")
    with pytest.raises(FormatError, match="u1 occurs twice"):
        read_transcripts(str(path))
