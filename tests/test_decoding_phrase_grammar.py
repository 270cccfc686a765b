"""Grammars of phrases: exactly these; and pairs of their words, with the costs that counts give them."""
from __future__ import annotations

import numpy as np
import pytest
from graph_paths import path_costs

from nnet3py.decoding.composed_graphs import bigram_grammar, phrase_grammar
from nnet3py.fst.operations import is_sorted

COST = 1e-5          # sums of float32


def test_only_the_phrases() -> None:
    paths = path_costs(phrase_grammar([[3, 4], [5]]), 4)
    assert {words for words, _ in paths} == {(), (3, 4), (5,), (5, 5), (3, 4, 5), (5, 3, 4), (5, 5, 5), (5, 5, 5, 5),
                                             (3, 4, 3, 4), (5, 5, 3, 4), (3, 4, 5, 5), (5, 3, 4, 5)}
    assert paths[(3, 4), (3, 4)] == pytest.approx(2 * np.log(3.0), abs=COST)


def test_pairs_of_words_have_the_costs_of_their_counts() -> None:
    """By hand: [] has 3 twice, 5 once, and of all states 4, 4 and three ends; 3 has 4 twice; 4 and 5 end or go on."""
    fst = bigram_grammar([[3, 4], [3, 4, 4], [5]])
    assert fst.is_acceptor and is_sorted(fst) and fst.start == 0 and fst.num_states == 4
    empty = {3: 2, 5: 1, 4: 3, 0: 3}
    arcs = {(int(source), int(word)): float(cost) for source, word, cost in
            zip(fst.sources, fst.input_labels, fst.weights, strict=True)}
    for word in (3, 4, 5):
        assert arcs[0, word] == pytest.approx(-np.log(0.5 * empty[word] / 9), abs=COST)
    assert fst.final_weights[0] == pytest.approx(-np.log(0.5 * 3 / 9), abs=COST)
    assert arcs[1, 4] == pytest.approx(-np.log(0.5), abs=COST)                  # 3: always 4
    assert arcs[2, 4] == pytest.approx(-np.log(0.5 / 3), abs=COST)              # 4: 4 once, the end twice
    assert fst.final_weights[2] == pytest.approx(-np.log(0.5 * 2 / 3), abs=COST)
    assert [arcs[state, 0] for state in (1, 2, 3)] == pytest.approx([np.log(2.0)] * 3, abs=COST)
    assert (0, 0) not in arcs and np.isinf(fst.final_weights[1])


def test_nothing_but_empty_phrases() -> None:
    fst = bigram_grammar([[], []])
    assert (fst.num_states, fst.num_arcs) == (1, 0) and fst.final_weights[0] == pytest.approx(np.log(2.0))
