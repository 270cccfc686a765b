"""Scoring sentences with an RNN language model, many together; what begins alike is computed once."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3py.rnnlm.network import RnnlmNetwork


def sentence_log_probs(network: RnnlmNetwork, sentences: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The log-probabilities of the words of sentences and of their ends, float64 (words + 1,) for each.

    Sentences go without the words for their beginning and end. ShapeError for a number that is no word's.
    """
    scores = [np.empty(len(sentence) + 1) for sentence in sentences]
    nodes = {0: network.start}                     # histories by number, of as many words as the loop has come to
    at = dict.fromkeys(range(len(sentences)), 0)   # where the sentences are that have not ended
    place = 0
    while at:
        histories = list(nodes.values())
        numbers = {number: k for k, number in enumerate(nodes)}
        nexts = {i: sentences[i][place] if place < len(sentences[i]) else network.options.eos for i in at}
        values = network.log_probs(histories, np.array([numbers[node] for node in at.values()]),
                                   np.array(list(nexts.values()), dtype=np.int64))
        for i, value in zip(at, values, strict=True):
            scores[i][place] = value
        steps = {i: (node, nexts[i]) for i, node in at.items() if place < len(sentences[i])}
        distinct = {step: number for number, step in enumerate(dict.fromkeys(steps.values()))}
        longer = network.advance([nodes[node] for node, _ in distinct], [word for _, word in distinct])
        nodes = dict(enumerate(longer))
        at = {i: distinct[step] for i, step in steps.items()}
        place += 1
    return scores
