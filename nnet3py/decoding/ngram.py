"""N-gram language models with back-off: estimated from text, written to ARPA files, converted to graphs.

Kaldi: ``arpa2fst``.
"""
from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nnet3py.decoding.lexicon import BACKOFF, SENTENCE_END, SENTENCE_START
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError, UsageError
from nnet3py.fst.arpa import Arpa, Section, WordIds, natural, read_arpa
from nnet3py.fst.arpa_graph import Sentence, arpa_graph
from nnet3py.io.streams import write_text
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.ngram_fst import NgramFst

logger = logging.getLogger(__name__)

_NEVER = -99.0                      # ARPA's log10 of the probability of what is not predicted, such as <s>

Gram = tuple[str, ...]


class Ngram:
    """A back-off model.

    Attributes
    ----------
    order : the longest n-grams
    log10_probs : of each n-gram, log10 of the probability of its last word after the others
    log10_backoffs : of each history, log10 of the factor of the shorter history's probabilities; 0 if absent
    """

    def __init__(self, order: int, log10_probs: dict[Gram, float], log10_backoffs: dict[Gram, float]) -> None:
        self.order, self.log10_probs, self.log10_backoffs = order, log10_probs, log10_backoffs

    def log10_prob(self, history: Sequence[str], word: str) -> float:
        """log10 P(word | history); -infinity for an unknown word."""
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
        """Witten-Bell estimates, interpolated with shorter histories, and finally with a uniform distribution.

        After a history h that was seen c times, with t different words, P(w | h) = (c(h w) + t P(w | shorter)) /
        (c + t). ``vocabulary``: words that get a probability even if they do not occur.

        Raises UsageError if there is no text, or for an order below 1.
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
    """The grammar G of a model: an acceptor except for ``#0`` : epsilon on back-off arcs.

    N-grams with words that the table lacks are left out, with a warning that counts them. Raises FormatError if
    nothing is left, or if the table has no ``#0`` although the model backs off.
    """
    ids = _ids(words)
    return _grammar(ngram_arpa(model, ids), words, ids)


def ngram_arpa(model: Ngram, ids: Mapping[str, int]) -> Arpa:
    """The n-grams of a model as arrays, words by their numbers; those with other words are left out, with a warning."""
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
    """A model as OpenFst's type ``ngram`` has it, by the numbers (1 and more) of its words."""
    def numbered(history: Gram) -> tuple[int, ...]:
        return tuple(0 if word == SENTENCE_START else numbers[word] for word in history)

    histories = {numbered(gram[:length]) for gram in model.log10_probs for length in range(len(gram))}
    histories = {history[first:] for history in histories | {(0,)} for first in range(len(history) + 1)}
    ordered = sorted(histories, key=lambda history: (len(history), history[::-1]))
    state = {history: place for place, history in enumerate(ordered)}
    finals = np.full(len(ordered), NO_WEIGHT, dtype=np.float32)
    backoffs = np.zeros(len(ordered) + 1, dtype=np.float32)
    for history, value in model.log10_backoffs.items():
        if (its := numbered(history)) in state:
            backoffs[state[its]] = -value * math.log(10.0)
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
    """The grammar G of an ARPA file, as :func:`ngram_fst` makes it; FormatError for anything else. Kaldi: arpa2fst."""
    ids = _ids(words)
    arpa = read_arpa(rxfilename, WordIds({word.encode("utf-8", "surrogateescape"): n for word, n in ids.items()}))
    return _grammar(arpa, words, ids)


def _ids(words: SymbolTable) -> dict[str, int]:
    """Numbers of all words, and of the beginning and the end of sentences, which the table may lack."""
    largest = max(words.names, default=0)
    return {SENTENCE_START: largest + 1, SENTENCE_END: largest + 2, **words.ids}


def _grammar(arpa: Arpa, words: SymbolTable, ids: dict[str, int]) -> Fst:
    special = (ids[SENTENCE_START], ids[SENTENCE_END])
    if not any((~np.isin(section.words[:, -1], special)).any() for section in arpa.sections):
        raise FormatError("no n-gram of the language model has words of the lexicon")
    return arpa_graph(arpa, Sentence(*special, words[BACKOFF]))
