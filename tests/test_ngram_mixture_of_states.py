"""Mixtures of n-gram models as OpenFst's type ngram has them: the same as of models of words, and as files."""
from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from nnet3py.decoding.grammar import Ngram, ngram_states
from nnet3py.decoding.grammar import mixture as mixture_of_words
from nnet3py.decoding.symbols import SENTENCE_END, SENTENCE_START, SymbolTable
from nnet3py.io.object_files import FileContent
from nnet3py.io.streams import open_input, open_output
from nnet3py.io.tokens import TokenWriter
from nnet3py.transducers.fst import INPUT_SYMBOLS, OUTPUT_SYMBOLS, Stored, tables_with
from nnet3py.transducers.ngram_fst import KIND, NgramFst, ngram_of_fst, write_ngram
from nnet3py.transducers.ngram_mixture import mixture

ROUNDING = 1e-5               # costs are float32
NUMBERS = {word: number for number, word in enumerate("abcdefgh", 1)}
TABLE = bytes.fromhex("74fbb27e") + (1).to_bytes(4, "little") + b"t" + (2).to_bytes(8, "little") + (2).to_bytes(
    8, "little") + b"".join(len(name).to_bytes(4, "little") + name + key.to_bytes(8, "little")
                            for name, key in ((b"<eps>", 0), (b"a", 1)))


def texts(seed: int, words: str, count: int) -> list[list[str]]:
    """Sentences in which words like to follow each other in the alphabet."""
    rng = np.random.default_rng(seed)
    return [[words[(first + step + rng.integers(2)) % len(words)] for step in range(rng.integers(1, 6))]
            for first in rng.integers(len(words), size=count)]


def prob(ngram: NgramFst, history: tuple[int, ...], word: int) -> float:
    """P(word | history), the plain way; the word 0 stands for the end."""
    states: dict[tuple[int, ...], int] = {(): 0}
    for state in range(1, ngram.num_states):
        its = [shorter for shorter, number in states.items() if number == ngram.parents[state]][0]
        states[(int(ngram.context_words[state]), *its)] = state
    factor = 0.0
    while history not in states:
        history = history[1:]
    while True:
        state = states[history]
        arcs = slice(int(ngram.arc_starts[state]), int(ngram.arc_starts[state + 1]))
        costs = dict(zip(ngram.future_words[arcs].tolist(), ngram.future_costs[arcs].tolist(), strict=True))
        if np.isfinite(ngram.final_weights[state]):
            costs[0] = float(ngram.final_weights[state])
        if word in costs:
            return math.exp(-factor - costs[word])
        if not history:
            return 0.0
        factor += float(ngram.backoff[state])
        history = history[1:]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_states_of_a_model_have_its_probabilities(order: int) -> None:
    model = Ngram.estimate(texts(1, "abcde", 30), order)
    ngram = ngram_states(model, NUMBERS)
    assert ngram_of_fst(ngram.to_fst()).to_fst().equals(ngram.to_fst()), "as OpenFst numbers them"
    for history in ((), (SENTENCE_START,), ("a",), ("a", "b"), (SENTENCE_START, "c"), ("h", "h")):
        numbers = tuple(0 if word == SENTENCE_START else NUMBERS[word] for word in history)
        for word in (*"abcde", SENTENCE_END):
            expected = 10.0 ** model.log10_prob(history, word)
            assert prob(ngram, numbers, NUMBERS.get(word, 0)) == pytest.approx(expected, rel=ROUNDING)


@pytest.mark.parametrize(("old_order", "new_order", "weight"), [(3, 3, 0.3), (2, 3, 0.1), (3, 1, 0.5)])
def test_a_mixture_is_that_of_the_words(old_order: int, new_order: int, weight: float) -> None:
    old, new = Ngram.estimate(texts(1, "abcdef", 60), old_order), Ngram.estimate(texts(2, "cdgh", 8), new_order)
    expected = mixture_of_words([(old, 1.0 - weight), (new, weight)])
    mixed = mixture(ngram_states(old, NUMBERS), ngram_states(new, NUMBERS), weight)
    assert ngram_of_fst(mixed.to_fst()).to_fst().equals(mixed.to_fst())
    histories = {gram[:-1] for gram in expected.log10_probs} | {("g", "h"), ("h", "a")}
    for history in histories:
        numbers = tuple(0 if word == SENTENCE_START else NUMBERS[word] for word in history)
        total = 0.0
        for word in (*"abcdefgh", SENTENCE_END):
            value = prob(mixed, numbers, NUMBERS.get(word, 0))
            assert value == pytest.approx(10.0 ** expected.log10_prob(history, word), rel=1e-3), (history, word)
            total += value
        assert total == pytest.approx(1.0, abs=1e-4)


def test_what_a_model_lacks_of_one_it_lacks_in_the_mixture() -> None:
    """A model of which words were taken out gives the others as much as before; nothing is put in their place."""
    old = ngram_states(Ngram.estimate(texts(1, "abcdef", 60), 2), NUMBERS)
    kept = old.future_words != NUMBERS["a"]
    starts = np.concatenate(([0], np.cumsum(kept)))[old.arc_starts]
    poorer = NgramFst(old.parents, starts, old.final_weights, old.context_words, old.backoff, old.future_words[kept],
                      old.future_costs[kept], old.start)
    mixed = mixture(poorer, ngram_states(Ngram.estimate([["g"]], 2), NUMBERS), 0.25)
    for history in ((), (NUMBERS["b"],), (0,)):
        before, after = (sum(prob(model, history, word) for word in range(9)) for model in (poorer, mixed))
        assert before < 0.99 and after == pytest.approx(0.75 * before + 0.25, abs=1e-4)


def test_a_table_with_more_symbols_counts_them_and_goes_on_after_the_largest() -> None:
    """The bytes between the name and the symbols: the next number that is free, and the number of symbols."""
    for number, free in ((1, 2), (5, 6)):
        head = tables_with(TABLE, [{"b": number}])[len(b"....") + len(b"....t"):][:16]
        assert [int.from_bytes(head[place:place + 8], "little") for place in (0, 8)] == [free, 3]


def test_a_file_keeps_symbols_and_gets_more(tmp_path: Path) -> None:
    ngram = ngram_states(Ngram.estimate(texts(1, "abc", 9), 2), NUMBERS)
    stored = Stored(KIND, 0, 0, INPUT_SYMBOLS | OUTPUT_SYMBOLS, tables_with(TABLE + TABLE, [{"b": 2}, {"c": 7}]))
    path = tmp_path / "G.fst"
    with open_output(path) as stream:
        write_ngram(TokenWriter(stream, binary=True),
                    NgramFst(**{**{name: getattr(ngram, name) for name in ngram.__dataclass_fields__},
                                "stored": stored}))
    assert dict(SymbolTable.read(str(path)).names) == {0: "<eps>", 1: "a", 7: "c"}
    with open_input(path) as stream:
        read = NgramFst.of_content(FileContent(stream))
    assert read is not None and read.to_fst().equals(ngram.to_fst()) and read.stored == stored
