"""N-gram language models with back-off: estimated from text, read from and written to ARPA files, made into graphs.

Kaldi: ``arpa2fst``.
"""
from __future__ import annotations

import logging
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from nnet3py.decoding.arcs import GraphBuilder
from nnet3py.decoding.lexicon import BACKOFF, SENTENCE_END, SENTENCE_START
from nnet3py.decoding.symbols import SymbolTable, read_text
from nnet3py.errors import FormatError, UsageError
from nnet3py.io.fst import Fst
from nnet3py.io.streams import write_text

logger = logging.getLogger(__name__)

_LN10 = math.log(10.0)
_NEVER = -99.0                      # ARPA's log10 of the probability of what is not predicted, such as <s>
_COUNT = re.compile(r"ngram\s+([0-9]+)\s*=\s*([0-9]+)")
_SECTION = re.compile(r"\\([0-9]+)-grams:")

Gram = tuple[str, ...]


class Ngram:
    """A back-off model.

    Attributes
    ----------
    order : the longest n-grams
    log10_probs : of each n-gram, log10 of the probability of its last word after the others
    log10_backoffs : of each history, log10 of the factor of what is taken from the shorter history; 0 if not there
    """

    def __init__(self, order: int, log10_probs: dict[Gram, float], log10_backoffs: dict[Gram, float]) -> None:
        self.order, self.log10_probs, self.log10_backoffs = order, log10_probs, log10_backoffs

    def log10_prob(self, history: Sequence[str], word: str) -> float:
        """log10 P(word | history); -infinity for a word that is not known."""
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
        """Witten-Bell estimates, interpolated with shorter histories, in the end with a uniform distribution.

        After a history h that was seen c times, with t different words, P(w | h) = (c(h w) + t P(w | shorter)) /
        (c + t). ``vocabulary``: words that get a probability though they may not occur.

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

    @classmethod
    def read(cls, rxfilename: str) -> Ngram:
        """Read an ARPA file; FormatError for what is none."""
        lines = read_text(rxfilename).split("\n")
        wanted: dict[int, int] = {}
        found: Counter[int] = Counter()
        probs: dict[Gram, float] = {}
        backoffs: dict[Gram, float] = {}
        section = -1                                    # -1: before \data\, 0: the counts, then the n of the n-grams
        for number, line in enumerate(lines, 1):
            line = line.strip()
            heading = _SECTION.fullmatch(line)
            if not line or section < 0 and line != "\\data\\":
                continue
            if line == "\\end\\":
                break
            if line == "\\data\\":
                section = 0
            elif heading:
                section = int(heading[1])
            elif section == 0 and (count := _COUNT.fullmatch(line)):
                wanted[int(count[1])] = int(count[2])
            elif section == 0 or not _add_gram(line.split(), section, probs, backoffs):
                raise FormatError(f"line {number} of an ARPA file cannot be read: {line[:80]!r}", path=str(rxfilename))
            else:
                found[section] += 1
        else:
            raise FormatError("expected \\end\\ at the end of an ARPA file" if section >= 0 else
                              "expected an ARPA file, which has a line \\data\\", path=str(rxfilename))
        if not found or {n: found[n] for n in wanted} != wanted or set(found) - set(wanted):
            raise FormatError(f"expected as many n-grams as the head of an ARPA file says, {wanted}, found "
                              f"{dict(found)}", path=str(rxfilename))
        return cls(max(found), probs, backoffs)

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


def _add_gram(fields: list[str], order: int, probs: dict[Gram, float], backoffs: dict[Gram, float]) -> bool:
    """Take a line of n-grams; False if it is none."""
    try:
        gram = tuple(fields[1:order + 1])
        numbers = [float(field) for field in (fields[0], *fields[order + 1:])]
    except (ValueError, IndexError):
        return False
    if len(gram) != order or len(numbers) > 2 or any(math.isnan(number) for number in numbers):
        return False
    probs[gram] = numbers[0]
    if len(numbers) == 2:
        backoffs[gram] = numbers[1]
    return True


def ngram_fst(model: Ngram, words: SymbolTable) -> Fst:
    """The grammar G of a model: an acceptor but for ``#0`` : epsilon on back-off arcs.

    N-grams with words that the table lacks are left out, with a warning that counts them. Raises FormatError if
    nothing is left, or if the table has no ``#0`` though there is something to back off to.
    """
    special = (SENTENCE_START, SENTENCE_END)
    grams = {gram: value for gram, value in model.log10_probs.items()
             if all(word in words or word in special for word in gram)}
    if len(grams) < len(model.log10_probs):
        logger.warning("%d of %d n-grams have words that the table of words lacks, and are left out",
                       len(model.log10_probs) - len(grams), len(model.log10_probs))
    if not any(gram[-1] not in special for gram in grams):
        raise FormatError("no n-gram of the language model has words of the lexicon")
    graph = GraphBuilder()
    # a state for each history that something follows, or that costs something to back off from
    histories = {gram[:-1] for gram in grams} | {()} | {
        gram for gram in grams if len(gram) < model.order and model.log10_backoffs.get(gram, 0.0)}
    start = _longest((SENTENCE_START,) if model.order > 1 else (), histories)
    states = {start: 0}
    for history in sorted(histories - {start}, key=lambda gram: (len(gram), gram)):
        states[history] = graph.state()
    for gram, value in grams.items():
        history, word = gram[:-1], gram[-1]
        weight = -value * _LN10
        if word == SENTENCE_END:
            graph.final(states[history], weight)
        elif word != SENTENCE_START:
            reached = gram[-(model.order - 1):] if model.order > 1 else ()
            graph.arc(states[history], words[word], words[word], weight, states[_longest(reached, histories)])
    for history, state in states.items():
        if history:
            target = states[_longest(history[1:], histories)]
            graph.arc(state, words[BACKOFF], 0, -model.log10_backoffs.get(history, 0.0) * _LN10, target)
    return graph.fst()


def _longest(history: Gram, known: set[Gram]) -> Gram:
    """The longest end of a history that has a state of its own."""
    while history not in known:
        history = history[1:]
    return history
