"""Grammars G: loops of words, and n-gram models with back-off: estimation, files, interpolation.

Kaldi: ``arpa2fst``. SRILM: ``ngram-count``, ``ngram -mix-lm``.
"""
from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from nnet3py.decoding.lexicon import GraphBuilder, cost
from nnet3py.decoding.symbols import (
    BACKOFF,
    EPSILON,
    NONTERMINAL_BEGIN,
    NONTERMINAL_END,
    SENTENCE_END,
    SENTENCE_START,
    SymbolTable,
    grammar_words,
)
from nnet3py.errors import FormatError, UsageError
from nnet3py.fst.arpa import LN10, Arpa, Section, WordIds, natural, read_arpa
from nnet3py.fst.arpa_graph import Sentence, arpa_graph
from nnet3py.io.streams import write_text
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.ngram_fst import NgramFst


def as_nonterminal(grammar: Fst, words: SymbolTable) -> Fst:
    """Return a grammar whose sentences begin with #nonterm_begin and end with #nonterm_end, for a nonterminal."""
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
    """Return a grammar of all sequences of words (of ``names``, or all of the table), equally probable.

    ``penalty`` (nats) is added for each word. Raises FormatError for a word that the table lacks, or no words.
    """
    numbers = [words[name] for name in (grammar_words(words) if names is None else names)]
    if not numbers:
        raise FormatError("a grammar needs words, but the table has none", path=words.path)
    graph = GraphBuilder()
    for number in numbers:
        graph.arc(0, number, number, cost(1.0 / len(numbers)) + penalty, 0)
    graph.final(0)
    return graph.fst()


logger = logging.getLogger(__name__)

_NEVER = -99.0                # ARPA's log10 of the probability of words that are never predicted, such as <s>
_LEAST = 1e-12                # probability left for unseen words, below which rounding errors dominate

Gram = tuple[str, ...]


class Ngram:
    """An n-gram model with back-off.

    Attributes
    ----------
    order : length of the longest n-grams
    log10_probs : for each n-gram, log10 of the probability of its last word after the others
    log10_backoffs : for each history, log10 of the factor of the shorter history's probabilities; absent: 0
    """

    def __init__(self, order: int, log10_probs: dict[Gram, float], log10_backoffs: dict[Gram, float]) -> None:
        self.order, self.log10_probs, self.log10_backoffs = order, log10_probs, log10_backoffs

    def log10_prob(self, history: Sequence[str], word: str) -> float:
        """Return log10 P(word | history); -infinity for an unknown word."""
        history = tuple(history)[-(self.order - 1):] if self.order > 1 else ()
        backoff = 0.0
        while history + (word,) not in self.log10_probs:
            if not history:
                return -math.inf
            backoff += self.log10_backoffs.get(history, 0.0)
            history = history[1:]
        return backoff + self.log10_probs[history + (word,)]

    # -- estimating --------------------------------------------------------------------------------------------------

    @classmethod
    def estimate(cls, sentences: Iterable[Sequence[str]], order: int, vocabulary: Iterable[str] = ()) -> Ngram:
        """Estimate a model by Witten-Bell smoothing, interpolated down to a uniform distribution.

        After a history h that was seen c times, with t different words, P(w | h) = (c(h w) + t P(w | shorter)) / (c +
        t). Raises UsageError for no text, or an order below 1.

        Parameters
        ----------
        vocabulary : words that get a probability even if they do not occur
        """
        if order < 1:
            raise UsageError(f"the order of an n-gram model must be 1 or more, not {order}")
        counts: dict[Gram, Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            words = [SENTENCE_START, *sentence, SENTENCE_END]
            for place in range(1, len(words)):
                for length in range(min(order - 1, place) + 1):
                    counts[tuple(words[place - length:place])][words[place]] += 1
        if not counts:
            raise UsageError("an n-gram model cannot be estimated without text")
        words_known = sorted({*vocabulary, *counts[()]} - {SENTENCE_START})
        probs: dict[Gram, float] = {}
        backoffs: dict[Gram, float] = {}
        for history in sorted(counts, key=len):
            seen = counts[history]
            total = sum(seen.values()) + len(seen)
            for word in words_known if not history else sorted(seen):
                lower = probs[history[1:] + (word,)] if history else 1.0 / len(words_known)
                probs[history + (word,)] = (seen[word] + len(seen) * lower) / total
            if history:
                backoffs[history] = len(seen) / total
        log10_probs = {gram: math.log10(value) for gram, value in probs.items()}
        if order > 1:
            log10_probs[(SENTENCE_START,)] = _NEVER
        return cls(order, log10_probs, {gram: math.log10(value) for gram, value in backoffs.items()})

    # -- ARPA files --------------------------------------------------------------------------------------------------

    def write(self, path: str) -> None:
        """Write an ARPA file."""
        parts = ["\\data\\\n"]
        by_order: dict[int, list[Gram]] = defaultdict(list)
        for gram in self.log10_probs:
            by_order[len(gram)].append(gram)
        parts += [f"ngram {n}={len(by_order[n])}\n" for n in range(1, self.order + 1)]
        for n in range(1, self.order + 1):
            parts.append(f"\n\\{n}-grams:\n")
            for gram in by_order[n]:
                backoff = f"\t{self.log10_backoffs[gram]:.7g}" if gram in self.log10_backoffs else ""
                parts.append(f"{self.log10_probs[gram]:.7g}\t{' '.join(gram)}{backoff}\n")
        write_text(path, "".join(parts) + "\n\\end\\\n")


def ngram_fst(model: Ngram, words: SymbolTable) -> Fst:
    """Return the grammar G of a model: an acceptor except for ``#0`` : epsilon on back-off arcs.

    N-grams with words that the table lacks are left out, with a warning that counts them. Raises FormatError if no
    n-gram is left, or the table has no ``#0`` although the model backs off.
    """
    ids = _ids(words)
    return _grammar(ngram_arpa(model, ids), words, ids)


def ngram_arpa(model: Ngram, ids: Mapping[str, int]) -> Arpa:
    """Return a model's n-grams as arrays of word numbers; a warning counts n-grams left out, with words not in ``ids``.
    """
    probs = dict(model.log10_probs)
    probs.setdefault((SENTENCE_START,), _NEVER)
    grams = {gram: value for gram, value in probs.items() if all(word in ids for word in gram)}
    if len(grams) < len(probs):
        logger.warning("%d of %d n-grams have words that the table of words lacks, and are left out",
                       len(probs) - len(grams), len(probs))
    sections = []
    for order in range(1, model.order + 1):
        chosen = sorted(gram for gram in grams if len(gram) == order)
        numbers = np.array([[ids[word] for word in gram] for gram in chosen], dtype=np.int32).reshape(-1, order)
        sections.append(Section(numbers, natural(np.array([grams[gram] for gram in chosen])),
                                natural(np.array([model.log10_backoffs.get(gram, 0.0) for gram in chosen]))))
    return Arpa(sections)


def ngram_states(model: Ngram, numbers: Mapping[str, int]) -> NgramFst:
    """Convert a model to an FST of OpenFst's type ``ngram``; ``numbers`` of words begin at 1."""
    def numbered(history: Gram) -> tuple[int, ...]:
        return tuple(0 if word == SENTENCE_START else numbers[word] for word in history)

    histories = {numbered(gram[:length]) for gram in model.log10_probs for length in range(len(gram))}
    histories = {history[first:] for history in histories | {(0,)} for first in range(len(history) + 1)}
    ordered = sorted(histories, key=lambda history: (len(history), history[::-1]))
    state = {history: place for place, history in enumerate(ordered)}
    finals = np.full(len(ordered), NO_WEIGHT, dtype=np.float32)
    backoffs = np.zeros(len(ordered) + 1, dtype=np.float32)
    for history, value in model.log10_backoffs.items():
        if (short := numbered(history)) in state:
            backoffs[state[short]] = -value * math.log(10.0)
    arcs = []
    for gram, value in model.log10_probs.items():
        if gram == (SENTENCE_START,):
            continue
        source, cost = state[numbered(gram[:-1])], -value * math.log(10.0)
        if gram[-1] == SENTENCE_END:
            finals[source] = cost
        else:
            arcs.append((source, numbers[gram[-1]], cost))
    sources, words, costs = (np.array(values) for values in zip(*sorted(arcs), strict=True))
    parents = np.array([state[history[1:]] if history else -1 for history in ordered], dtype=np.int32)
    oldest = np.array([history[0] if history else 0 for history in ordered] + [0], dtype=np.int32)
    starts = np.searchsorted(sources, np.arange(len(ordered) + 1))
    return NgramFst(parents, starts, finals, oldest, backoffs, words.astype(np.int32), costs.astype(np.float32), 1)


def read_grammar(rxfilename: str, words: SymbolTable) -> Fst:
    """Read an ARPA file as a grammar G, like that of :func:`ngram_fst`. Raises FormatError. Kaldi: arpa2fst."""
    ids = _ids(words)
    arpa = read_arpa(rxfilename, WordIds({word.encode("utf-8", "surrogateescape"): n for word, n in ids.items()}))
    return _grammar(arpa, words, ids)


def _ids(words: SymbolTable) -> dict[str, int]:
    """Return the numbers of all words, ``<s>`` and ``</s>``; the latter two need not be in the table."""
    largest = max(words.names, default=0)
    return {SENTENCE_START: largest + 1, SENTENCE_END: largest + 2, **words.ids}


def _grammar(arpa: Arpa, words: SymbolTable, ids: dict[str, int]) -> Fst:
    special = (ids[SENTENCE_START], ids[SENTENCE_END])
    if not any((~np.isin(section.words[:, -1], special)).any() for section in arpa.sections):
        raise FormatError("no n-gram of the language model has words of the lexicon")
    return arpa_graph(arpa, Sentence(*special, words[BACKOFF]))


def read_ngram(rxfilename: str, words: Collection[str] | None = None) -> Ngram:
    """Read an ARPA file as a model, without n-grams with words that are not among ``words``. Raises FormatError."""
    ids = {EPSILON.encode(): 0}
    arpa = read_arpa(rxfilename, WordIds(ids, grow=True))
    names = [word.decode("utf-8", "surrogateescape") for word in ids]
    vocabulary = set(names) if words is None else {*words, SENTENCE_START, SENTENCE_END}
    probs: dict[Gram, float] = {}
    backoffs: dict[Gram, float] = {}
    for section in arpa.sections:
        for numbers, log_prob, backoff in zip(section.words.tolist(), section.log_probs.tolist(),
                                              section.backoffs.tolist(), strict=True):
            gram = tuple(names[number] for number in numbers)
            if vocabulary.issuperset(gram):
                probs[gram] = log_prob / LN10
                if backoff:
                    backoffs[gram] = backoff / LN10
    return Ngram(arpa.order, probs, backoffs)


def mixture(models: Sequence[tuple[Ngram, float]]) -> Ngram:
    """Interpolate models linearly to one back-off model: P = sum of weight * P. SRILM: ``ngram -mix-lm``.

    The result has the n-grams of all models; other probabilities come from back-off, whose factors make the
    probabilities after a history sum to 1. Raises UsageError for weights that do not sum to 1.
    """
    if not math.isclose(sum(weight for _, weight in models), 1.0):
        raise UsageError("expected weights of language models that sum to 1, found "
                         + ", ".join(f"{weight:g}" for _, weight in models))
    order = max(model.order for model, _ in models)
    grams = {gram for model, _ in models for gram in model.log10_probs}
    following: dict[Gram, list[str]] = defaultdict(list)
    for gram in sorted(grams, key=len):
        if gram != (SENTENCE_START,):
            following[gram[:-1]].append(gram[-1])
    mixed = Ngram(order, {}, {})
    for history in sorted(following, key=len):
        seen = following[history]
        probs = [sum(weight * 10.0 ** model.log10_prob(history, word) for model, weight in models) for word in seen]
        if history:
            left = 1.0 - sum(probs)
            left_before = 1.0 - sum(10.0 ** mixed.log10_prob(history[1:], word) for word in seen)
            if left > _LEAST and left_before > _LEAST:
                mixed.log10_backoffs[history] = math.log10(left / left_before)
            else:
                mixed.log10_backoffs[history] = _NEVER
        for word, prob in zip(seen, probs, strict=True):
            mixed.log10_probs[history + (word,)] = math.log10(prob) if prob > 0.0 else _NEVER
    if order > 1:
        mixed.log10_probs[(SENTENCE_START,)] = _NEVER
    return mixed
