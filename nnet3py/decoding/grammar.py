"""Grammars: which words may follow each other, and at what cost."""
from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nnet3py.decoding.arcs import GraphBuilder, cost
from nnet3py.decoding.lexicon import BACKOFF, NONTERMINAL_BEGIN, NONTERMINAL_END, SENTENCE_END, SENTENCE_START
from nnet3py.decoding.symbols import EPSILON, SymbolTable, read_text
from nnet3py.errors import FormatError
from nnet3py.transducers.fst import NO_WEIGHT, Fst


def grammar_words(words: SymbolTable) -> list[str]:
    """A table's actual words, without epsilon, ``#0``, sentence marks and nonterminals, by number."""
    special = {EPSILON, BACKOFF, SENTENCE_START, SENTENCE_END} | {words.names[n] for n in words.disambiguation}
    return [name for number, name in sorted(words.names.items())
            if number and name not in special and not name.startswith("#nonterm")]


def as_nonterminal(grammar: Fst, words: SymbolTable) -> Fst:
    """A grammar for a nonterminal: all its sentences begin with #nonterm_begin and end with #nonterm_end."""
    begin, end, first = words[NONTERMINAL_BEGIN], words[NONTERMINAL_END], grammar.num_states
    finals = np.flatnonzero(grammar.is_final)
    final_weights = np.full(first + 2, NO_WEIGHT, dtype=np.float32)
    final_weights[first + 1] = 0.0
    nothing, ends = np.zeros(len(finals)), np.full(len(finals), end)
    return Fst.from_arcs(
        first, final_weights, np.concatenate((grammar.sources, [first], finals)),
        np.concatenate((grammar.input_labels, [begin], ends)), np.concatenate((grammar.output_labels, [0], nothing)),
        np.concatenate((grammar.weights, [0.0], grammar.final_weights[finals])),
        np.concatenate((grammar.next_states, [grammar.start], nothing + first + 1)))


def word_loop(words: SymbolTable, names: Iterable[str] | None = None, penalty: float = 0.0) -> Fst:
    """Any sequence of words, all equally probable. ``penalty`` is a cost added for each word.

    ``names``: the words that may occur; None for all of the table. FormatError for one that the table lacks, or if
    there are none.
    """
    numbers = [words[name] for name in (grammar_words(words) if names is None else names)]
    if not numbers:
        raise FormatError("a grammar needs words, but the table has none", path=words.path)
    graph = GraphBuilder()
    for number in numbers:
        graph.arc(0, number, number, cost(1.0 / len(numbers)) + penalty, 0)
    graph.final(0)
    return graph.fst()


def read_transcripts(rxfilename: str) -> dict[str, list[str]]:
    """Words by utterance, from lines ``UTTERANCE WORD ...``, Kaldi's file ``text``.

    FormatError for an utterance that occurs twice.
    """
    transcripts: dict[str, list[str]] = {}
    for number, line in enumerate(read_text(rxfilename).split("\n"), 1):
        fields = line.split()
        if not fields:
            continue
        if fields[0] in transcripts:
            raise FormatError(f"line {number}: the utterance {fields[0]} occurs twice", path=str(rxfilename))
        transcripts[fields[0]] = fields[1:]
    return transcripts
