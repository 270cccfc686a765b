"""Texts to learn from: words that the model does not know, and what is wrong with them."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nnet3py.decoding.spelling import Spelling
from nnet3py.fine_tuning.plan import Problem, Utterance


def unknown_words(utterances: Iterable[Utterance], vocabulary: set[str]) -> Counter[str]:
    """How often unknown words occur."""
    return Counter(word for utterance in utterances for word in utterance.text if word not in vocabulary)


def text_problems(utterance: Utterance, spelling: Spelling, leave_out: bool) -> list[Problem]:
    """What is wrong with a text that is written as the model writes.

    ``leave_out``: a word that is not known makes the utterance useless.
    """
    if not utterance.text:
        return [Problem(utterance.key, "empty text", "it has no words", True)]
    unknown = sorted({word for word in utterance.text if word not in spelling.known})
    odd = [word for word in unknown if spelling.is_odd(word)]
    if odd:
        return [Problem(utterance.key, "odd text", f"{_listed(odd)}: characters that no word of the model has (write "
                        "numbers and signs as words, or give --lexicon)", True)]
    return [Problem(utterance.key, "unknown word", _listed(unknown), leave_out)] if unknown else []


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")
