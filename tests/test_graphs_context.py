"""nnet3py/graphs/context.py: graphs of phones as graphs of windows, against windows made phone by phone."""
from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from chain_graphs import acceptor
from graph_sums import paths

from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.graphs.context import (
    check_left_biphones,
    expand_context,
    expand_grammar_context,
    read_windows,
    write_windows,
)
from nnet3py.graphs.grammar_fst import Nonterminals
from nnet3py.transducers.fst import Fst

LONGEST = 5           # arcs
SHAPES = [(1, 0), (2, 1), (3, 2), (3, 1), (2, 0), (5, 2)]


def language_model() -> Fst:
    """Three states, cycles, final costs at two of them."""
    return acceptor(3, 0, [(0, 1, 1, 0.5), (0, 2, 2, 0.25), (1, 3, 1, 0.125), (1, 2, 2, 1.0), (2, 1, 0, 0.75)],
                    {1: 0.5, 2: 2.0})


def windows_of(phones: tuple[int, ...], width: int, central: int) -> tuple[tuple[int, ...], ...]:
    padded = (0,) * central + phones + (0,) * (width - 1 - central)
    return tuple(padded[first:first + width] for first in range(len(phones)))


@pytest.mark.parametrize("width, central", SHAPES)
def test_paths_are_those_of_the_phones(width, central):
    fst = language_model()
    expanded, windows = expand_context(fst, width, central)
    right = width - 1 - central
    expected = sorted((windows_of(phones, width, central), cost) for phones, cost in paths(fst, LONGEST))
    found = sorted((tuple(windows[label - 1] for label in labels), cost)
                   for labels, cost in paths(expanded, LONGEST + right))
    assert [one for one in found if len(one[0]) <= LONGEST] == expected
    assert len(expected) > 10
    assert expanded.is_acceptor
    assert len(set(windows)) == len(windows)


@pytest.mark.parametrize("width, central", [(1, 0), (2, 1), (3, 2)])
def test_without_right_context_nothing_but_labels_changes_if_states_know_their_phones(width, central):
    """Here every state is entered by one history of two phones."""
    fst = acceptor(4, 0, [(0, 1, 1, 0.5), (1, 2, 2, 0.25), (2, 3, 3, 0.5)], {3: 0.125})
    expanded, windows = expand_context(fst, width, central)
    assert expanded.equals(dataclasses.replace(fst, input_labels=np.array([1, 2, 3], dtype=np.int32),
                                               output_labels=np.array([1, 2, 3], dtype=np.int32)))
    assert [window[central] for window in windows] == [1, 2, 3]


@pytest.mark.parametrize("width, central", [(1, 0), (2, 1), (3, 1)])
def test_as_many_states_and_arcs_as_kaldi_has(width, central):
    kaldifst = pytest.importorskip("kaldifst", reason="kaldifst (nnet3py[chain]) is the reference here")
    from nnet3py.fst.openfst import from_openfst, to_openfst

    fst = language_model()
    expanded, windows = expand_context(fst, width, central)
    reference, labels = kaldifst.compose_context([], width, central, to_openfst(fst))
    reference = from_openfst(reference)
    assert (expanded.num_states, expanded.num_arcs) == (reference.num_states, reference.num_arcs)
    assert sorted(windows) == sorted(tuple(one) for one in labels if len(one) == width)
    assert sorted(expanded.weights.tolist()) == sorted(reference.weights.tolist())


def test_transducers_keep_their_words_and_disambiguation_symbols():
    fst = acceptor(4, 0, [(0, 1, 1, 0.0), (1, 9, 2, 0.0), (2, 2, 3, 0.5)], {3: 0.0})
    fst = dataclasses.replace(fst, output_labels=np.array([77, 0, 78], dtype=np.int32))
    expanded, windows = expand_context(fst, 2, 1, disambig=[9], keep_outputs=True)
    assert windows == [(0, 1), (-9,), (1, 2)]
    assert expanded.input_labels.tolist() == [1, 2, 3]
    assert expanded.output_labels.tolist() == [77, 0, 78]


def test_epsilons_stay_where_they_are():
    fst = acceptor(3, 0, [(0, 1, 1, 0.0), (1, 0, 2, 0.5), (2, 2, 1, 0.0)], {2: 0.0})
    expanded, windows = expand_context(fst, 2, 1)
    assert windows == [(0, 1), (1, 2), (2, 2)]
    assert (expanded.input_labels == 0).sum() == 2, "the states behind phone 1 and behind phone 2 differ now"


@pytest.mark.parametrize("fst, width, central, error, complaint", [
    (language_model(), 2, 2, Nnet3Error, "inside of a window of 2 phones, found 2"),
    (acceptor(0, -1, [], {}), 1, 0, Nnet3Error, "without states"),
    (acceptor(1, 0, [(0, -3, 0, 0.0)], {0: 0.0}), 1, 0, FormatError, "found the label -3"),
])
def test_what_cannot_be_expanded(fst, width, central, error, complaint):
    with pytest.raises(error, match=complaint):
        expand_context(fst, width, central)


def reference_states(fst: Fst, width: int, central: int) -> tuple[int, int]:
    """States and arcs of a graph whose windows look to the left only, found one by one."""
    found = {((0,) * (width - 1), fst.start)}
    waiting, arcs = list(found), 0
    while waiting:
        history, state = waiting.pop()
        for arc in range(fst.arc_starts[state], fst.arc_starts[state + 1]):
            label = int(fst.input_labels[arc])
            following = ((*history, label)[1:] if label else history, int(fst.next_states[arc]))
            arcs += 1
            if following not in found:
                found.add(following)
                waiting.append(following)
    return len(found), arcs


def test_a_graph_that_outgrows_the_first_room() -> None:
    draw = np.random.default_rng(2)
    states, arcs = 400, 3000
    fst = Fst.from_arcs(0, np.zeros(states), draw.integers(0, states, arcs), draw.integers(0, 30, arcs),
                        np.arange(1, arcs + 1), draw.random(arcs), draw.integers(0, states, arcs))
    expanded, windows = expand_context(fst, 2, 1, keep_outputs=True)
    assert (expanded.num_states, expanded.num_arcs) == reference_states(fst, 2, 1) and expanded.num_states > 2048
    chosen = draw.integers(0, expanded.num_arcs, 500)
    labels = expanded.input_labels[chosen]
    came_from = expanded.output_labels[chosen] - 1              # each arc has its own output label
    phones = np.array([0, *(window[1] for window in windows)])[labels]
    order = np.argsort(fst.output_labels)
    assert np.array_equal(phones, fst.input_labels[order][came_from])
    assert np.array_equal(expanded.weights[chosen], fst.weights[order][came_from])


def test_what_comes_before_the_first_window_is_a_symbol_of_its_own() -> None:
    fst = acceptor(3, 0, [(0, 1, 1, 0.0), (1, 7, 2, 0.0)], {2: 0.0})
    _, without = expand_context(fst, 2, 0)
    expanded, windows = expand_context(fst, 2, 0, [7])
    assert (0,) not in without and windows[0] == (0,) and (-7,) in windows
    assert expanded.input_labels[expanded.arc_starts[expanded.start]] == 1
    assert expand_context(fst, 2, 1, [7])[1] == [(0, 1), (-7,)]          # windows that look to the left need none


# -- grammars with nonterminals ----------------------------------------------------------------------------------------

BOS, BEGIN, END, REENTER, NAME = range(100, 105)
DISAMBIG = 9


@pytest.mark.parametrize(("symbols", "expected"), [
    ([1, 2], [(0, 1), (1, 2)]), ([1, DISAMBIG, 2], [(0, 1), (-DISAMBIG,), (1, 2)]),
    ([BEGIN, 1, 2, END], [(-BEGIN, 1), (1, 2), (-END, 2)]), ([BEGIN, BOS, 2, END], [(-BEGIN, BOS), (0, 2), (-END, 2)]),
    ([1, NAME, 2, 3], [(0, 1), (-NAME, 1), (-REENTER, 2), (2, 3)]), ([END, DISAMBIG], [(-END, BOS), (-DISAMBIG,)]),
    ([NAME, BOS, 2, NAME + 1, 1], [(-NAME, BOS), (-REENTER, BOS), (0, 2), (-NAME - 1, 2), (-REENTER, 1)]),
    *[(refused, None) for refused in (
        [BEGIN], [NAME], [1, NAME], [BEGIN, END], [BEGIN, BEGIN, 1], [NAME, REENTER], [NAME, NAME, 1], [1, BEGIN, 1],
        [BOS], [1, BOS], [REENTER], [1, REENTER], [END, 1], [END, END], [END, NAME, 1])]], ids=str)
def test_windows_of_nonterminals(symbols: list[int], expected: list[tuple[int, ...]] | None) -> None:
    """Of a sentence of phones, nonterminals and a disambiguation symbol; None: the rules of a grammar refuse it."""
    length = len(symbols)
    sentence = acceptor(length + 1, 0, [(i, symbol, i + 1, 0.5) for i, symbol in enumerate(symbols)], {length: 2.0})
    sentence = dataclasses.replace(sentence, output_labels=np.arange(1, length + 1, dtype=np.int32))
    expanded, windows = expand_grammar_context(sentence, Nonterminals(BOS), [DISAMBIG])
    if expected is None:
        assert expanded.num_states == 0
        return
    assert [windows[label - 1] for label in expanded.input_labels if label] == expected
    assert [label > 0 for label in expanded.input_labels] == [symbol != BEGIN for symbol in symbols]
    same = dataclasses.replace(sentence, input_labels=expanded.input_labels)
    assert expanded.equals(same), "costs, words and states stay"


def test_grammars_need_left_biphones() -> None:
    check_left_biphones(2, 1)
    for width, central in ((2, 0), (3, 1), (1, 0)):
        with pytest.raises(UsageError, match=f"these have {width} phones, with place {central} for"):
            check_left_biphones(width, central)


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [True, False])
def test_windows_in_files(tmp_path: Path, binary: bool) -> None:
    path, windows = str(tmp_path / "ilabels"), [(0, 1), (-9,), (1, 2)]
    write_windows(path, windows, binary)
    assert read_windows(path) == windows
    if not binary:
        assert Path(path).read_text() == "4 [ ]\n[ 0 1 ]\n[ -9 ]\n[ 1 2 ]\n"
    write_windows(path, [], binary)
    assert read_windows(path) == []


@pytest.mark.parametrize(("text", "message"), [
    ("0 ", "the first for label 0, found 0 of them"), ("1 [ 1 2 ]\n", r"an empty window for label 0, found \(1, 2\)"),
    ("3 [ ]\n[ 1 ]\n[ ]\n", "a window of phones for label 2, found an empty one")])
def test_what_is_no_file_of_windows(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "ilabels").write_text(text)
    with pytest.raises(FormatError, match=message):
        read_windows(str(tmp_path / "ilabels"))
