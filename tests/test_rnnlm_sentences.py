"""Scores of sentences: Kaldi's; beginnings that sentences share are computed once."""
from __future__ import annotations

import numpy as np
import pytest
from rnnlm_cases import NAMES, rnnlm, scores, sentences

from nnet3py.errors import ShapeError
from nnet3py.rnnlm.network import RnnlmNetwork
from nnet3py.rnnlm.sentences import sentence_log_probs

PRINTED = 1.0e-4          # Kaldi prints six digits


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("normalize", [False, True])
def test_scores_are_kaldis(name: str, normalize: bool) -> None:
    expected = scores(f"{'normalized' if normalize else 'probs'}-{name}.txt")
    texts = sentences()
    found = sentence_log_probs(rnnlm(name, normalize), list(texts.values()))
    for key, values in zip(texts, found, strict=True):
        np.testing.assert_allclose(values, expected[key], atol=PRINTED)
    assert [len(values) for values in found] == [4, 2, 8, 1]


def test_scores_of_best_paths_are_kaldis() -> None:
    texts, expected = sentences("nbest.int"), scores("nbest-probs.txt")
    for key, values in zip(texts, sentence_log_probs(rnnlm("lstm", True), list(texts.values())), strict=True):
        np.testing.assert_allclose(values, expected[key], atol=PRINTED)


def test_beginnings_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    advance = RnnlmNetwork.advance

    def counted(network: RnnlmNetwork, histories: list, words: list[int]) -> list:
        sizes.append(len(words))
        return advance(network, histories, words)

    monkeypatch.setattr(RnnlmNetwork, "advance", counted)
    alone = sentence_log_probs(rnnlm("lstm"), [[5, 5, 13]])[0]
    sizes.clear()
    found = sentence_log_probs(rnnlm("lstm"), [[5, 5, 13], [5, 5, 13], [5, 5, 2, 7], [5], []])
    assert sizes == [1, 1, 2, 1, 0]
    np.testing.assert_allclose(found[0], alone, atol=1e-5)
    assert np.array_equal(found[0], found[1]) and found[0][1] == found[2][1]
    assert sentence_log_probs(rnnlm("lstm"), []) == []


def test_a_number_that_is_no_words() -> None:
    with pytest.raises(ShapeError, match="no word 99"):
        sentence_log_probs(rnnlm("lstm"), [[5, 99]])
