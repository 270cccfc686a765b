"""The model looked up word by word: costs, shared states; guesses change nothing but the number of computations."""
from __future__ import annotations

from collections.abc import Iterator

import pytest
from rnnlm_cases import EOS, NAMES, rnnlm

from nnet3py.rnnlm.network import RnnlmNetwork
from nnet3py.rnnlm.on_demand import HistoryLm
from nnet3py.rnnlm.sentences import sentence_log_probs

ROUNDING = 1.0e-5


def cost_of(model: HistoryLm, words: list[int]) -> list[float]:
    state, costs = model.start, []
    for word in words:
        following = model.arc(state, word)
        assert following is not None
        state, cost = following
        costs.append(cost)
    return [*costs, model.final_cost(state)]


@pytest.mark.parametrize("name", NAMES)
def test_costs_are_those_of_sentences(name: str) -> None:
    words = [5, 5, 13, 2, 7]
    expected = -sentence_log_probs(rnnlm(name), [words])[0]
    assert cost_of(HistoryLm(rnnlm(name), 0), words) == pytest.approx(expected, abs=ROUNDING)
    assert cost_of(HistoryLm(rnnlm(name), 3), words) == pytest.approx(expected, abs=ROUNDING)


def test_histories_with_the_same_end_share_a_state() -> None:
    """The state of the first one: a later one ends as that does, whatever came before."""
    model = HistoryLm(rnnlm("lstm"), 3)
    first = cost_of(model, [1, 5, 13])
    later = cost_of(model, [2, 5, 13])
    assert later[3] == first[3] and later[2] != pytest.approx(first[2], abs=1e-3)
    uncut = HistoryLm(rnnlm("lstm"), 0)
    cost_of(uncut, [1, 5, 13])
    assert cost_of(uncut, [2, 5, 13])[3] != pytest.approx(first[3], abs=1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", [2, 3, 0])
def test_guesses_change_nothing(monkeypatch: pytest.MonkeyPatch, name: str, order: int) -> None:
    sizes: list[int] = []
    advance = RnnlmNetwork.advance

    def counted(network: RnnlmNetwork, histories: list, words: list[int]) -> list:
        sizes.append(len(words))
        return advance(network, histories, words)

    monkeypatch.setattr(RnnlmNetwork, "advance", counted)
    texts = [[1, 5, 13, 7], [1, 5, 2, 7], [8, 5, 13, 7], [1, 13, 13, 13], [8, 2, 5, 13]]

    def costs(guess: bool) -> tuple[list[list[float]], int, int]:
        sizes.clear()
        model, found = HistoryLm(rnnlm(name), order), []
        for text in texts:
            state, row = model.start, []
            for place, word in enumerate([*text, EOS]):
                def likely(state: int = state, place: int = place, text: list[int] = text) -> Iterator:
                    yield state, text[place:place + 3]
                    yield from ((0, other[:3]) for other in texts)
                if guess:
                    model.prepare(state, likely)
                row.append(model.final_cost(state) if word == EOS else 0.0)
                if word != EOS:
                    following = model.arc(state, word)
                    assert following is not None
                    state, row[-1] = following
            found.append(row)
        return found, sum(sizes), len(sizes)

    plain, total, times = costs(guess=False)
    guessed, more, fewer = costs(guess=True)
    for row, other in zip(guessed, plain, strict=True):
        assert row == pytest.approx(other, abs=ROUNDING)
    assert fewer < times == total <= more <= 2 * total
