"""Mixtures of n-gram models, such as an old one and one of new text."""
from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence

from nnet3py.decoding.lexicon import SENTENCE_END, SENTENCE_START
from nnet3py.decoding.ngram import Gram, Ngram
from nnet3py.decoding.symbols import EPSILON
from nnet3py.errors import UsageError
from nnet3py.fst.arpa import LN10, WordIds, read_arpa

_NEVER = -99.0                # ARPA's log10 of the probability of what is not predicted
_LEAST = 1e-12                # probability left for unseen words, below which rounding decides


def read_ngram(rxfilename: str, words: Collection[str] | None = None) -> Ngram:
    """An ARPA file as a model; n-grams with words that are not among ``words`` are left out. FormatError."""
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
    """The linear interpolation of models with weights, as one model with back-off.

    It has the n-grams of all of them, with the weighted mean of their probabilities; what none of them has seen is left
    to back-off, whose factors make probabilities sum to one. Raises UsageError for weights that do not sum to one.

    SRILM: ``ngram -mix-lm``.
    """
    if not math.isclose(sum(weight for _, weight in models), 1.0):
        raise UsageError("the weights of a mixture of language models must sum to one")
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
