"""The network word by word: its outputs, networks that do not fit; scores of sentences."""
from __future__ import annotations

import numpy as np
import pytest
from rnnlm_cases import BOS, DIM, EOS, NAMES, RNNLM_DATA, embedding, rnnlm, scores, sentences

from nnet3py.errors import Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.rnnlm.folder import RnnlmOptions
from nnet3py.rnnlm.network import MOST_TOGETHER, RnnlmNetwork, sentence_log_probs
from nnet3py.rnnlm.word_embedding import WordEmbedding
from nnet3py.runtime.compute import UtteranceComputer
from nnet3py.runtime.options import ComputeOptions

PRINTED = 1.0e-4          # Kaldi prints six digits
ROUNDING = 1.0e-5
SENTENCE = [3, 5, 5, 14, 2, 1, 9, 3]


def outputs_at_once(name: str, words: list[int]) -> np.ndarray:
    """The network's output after each beginning of a sentence, computed as any sequence is."""
    computer = UtteranceComputer(read_nnet(RNNLM_DATA / f"{name}.raw"), ComputeOptions(frames_per_chunk=50))
    return computer.compute(embedding().rows(np.array([BOS, *words])))


@pytest.mark.parametrize("name", NAMES)
def test_word_by_word_as_at_once(name: str) -> None:
    network, expected = rnnlm(name), outputs_at_once(name, SENTENCE)
    history = network.start
    for word, output in zip([*SENTENCE, EOS], expected, strict=True):
        np.testing.assert_allclose(history.output, output, atol=ROUNDING)
        assert network.log_prob(history, word) == pytest.approx(float(output @ embedding().row(word)), abs=ROUNDING)
        history, = network.advance([history], [word])


@pytest.mark.parametrize("name", NAMES)
def test_histories_branch_and_are_computed_together(name: str) -> None:
    """More than go together at a time, of one history and of others, again after those that they were made of."""
    network = rnnlm(name)
    stem = network.start
    for word in SENTENCE[:4]:
        stem, = network.advance([stem], [word])
    words = [1 + k % 15 for k in range(MOST_TOGETHER + 5)]
    branches = network.advance([stem] * len(words), words)
    longer = network.advance(branches[:3], [9, 9, 9])
    again, = network.advance([stem], [words[1]])
    for k in (0, 1, len(words) - 1):
        np.testing.assert_allclose(branches[k].output, outputs_at_once(name, [*SENTENCE[:4], words[k]])[-1],
                                   atol=ROUNDING)
    for k, history in enumerate(longer):
        np.testing.assert_allclose(history.output, outputs_at_once(name, [*SENTENCE[:4], words[k], 9])[-1],
                                   atol=ROUNDING)
    np.testing.assert_allclose(again.output, branches[1].output, atol=ROUNDING)


def test_many_scores_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3py.rnnlm.network._SCORES_AT_ONCE", 3)
    network = rnnlm("lstm", normalize=True)
    histories = [network.start, *network.advance([network.start] * 2, [3, 4])]
    which, words = np.array([2, 0, 0, 1, 2, 2, 1]), np.array([5, 5, 17, 1, 2, 3, 5])
    assert network.log_probs(histories, which, words) == pytest.approx(
        [network.log_prob(histories[k], word) for k, word in zip(which.tolist(), words.tolist(), strict=True)],
        abs=ROUNDING)


def test_probabilities_sum_to_one() -> None:
    network = rnnlm("tdnn").normalized()
    assert network.normalized() is network and rnnlm("tdnn").options.normalize is False
    for history in (network.start, *network.advance([network.start], [7])):
        total = sum(np.exp(network.log_prob(history, word)) for word in range(1, 18))
        assert total == pytest.approx(1.0, abs=1e-6)
    plain = rnnlm("tdnn")
    assert network.log_prob(network.start, 3) == pytest.approx(
        plain.log_prob(plain.start, 3) - network.start.log_sum, abs=ROUNDING)


def test_states_are_given_back() -> None:
    network = RnnlmNetwork(read_nnet(RNNLM_DATA / "lstm.raw"), embedding(), RnnlmOptions(BOS, EOS))
    for _ in range(20):
        histories = network.advance([network.start] * 10, list(range(1, 11)))
        del histories
    assert network._looped._states.buffer.size <= 32 * network._looped._states.width


def test_infinite_outputs_are_an_error() -> None:
    nnet = read_nnet(RNNLM_DATA / "tdnn.raw")
    output = next(component for name, component in reversed(list(nnet.named_components()))
                  if hasattr(component, "bias_params"))
    output.bias_params[0] = np.inf
    with pytest.raises(NumericError, match="the network's output has infinite values"):
        sentence_log_probs(RnnlmNetwork(nnet, embedding(), RnnlmOptions(BOS, EOS)), [[1]])


def test_networks_that_do_not_fit() -> None:
    nnet, options = read_nnet(RNNLM_DATA / "lstm.raw"), RnnlmOptions(BOS, EOS)
    with pytest.raises(ShapeError, match="has 12 inputs and 12 outputs, but words have vectors of 11 numbers"):
        RnnlmNetwork(nnet, WordEmbedding(np.zeros((18, 11), np.float32)), options)
    for change, message in (({"bos": 18}, "--bos-symbol=18: expected a word's number, from 1 to 17"),
                            ({"eos": 0}, "--eos-symbol=0"), ({"eos": -1}, "--eos-symbol is not given")):
        with pytest.raises(UsageError, match=message):
            RnnlmNetwork(nnet, embedding(), RnnlmOptions(**{"bos": BOS, "eos": EOS, **change}))
    wide = Nnet.from_config(f"""
        input-node name=input dim={DIM}
        component name=a type=AffineComponent input-dim={2 * DIM} output-dim={DIM}
        component-node name=a component=a input=Append(input, Offset(input, 1))
        output-node name=output input=a""")
    with pytest.raises(UsageError, match="needs 0 frames before and 1 after"):
        RnnlmNetwork(wide, embedding(), options)
    two = Nnet.from_config(f"""
        input-node name=input dim={DIM}
        input-node name=ivector dim=3
        component name=a type=AffineComponent input-dim={DIM + 3} output-dim={DIM}
        component-node name=a component=a input=Append(input, ReplaceIndex(ivector, t, 0))
        output-node name=output input=a""")
    with pytest.raises(UsageError, match="with one input, 'input', and one output"):
        RnnlmNetwork(two, embedding(), options)


def test_a_diverged_network_is_an_error() -> None:
    nnet = read_nnet(RNNLM_DATA / "tdnn.raw")
    for array in nnet.component("o").parameters().values():
        array[...] = np.nan
    with pytest.raises(Nnet3Error, match="NaN"):
        _ = RnnlmNetwork(nnet, embedding(), RnnlmOptions(BOS, EOS)).start


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
