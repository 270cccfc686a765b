"""Lattices rescored: cut histories, whole compositions, lookups word by word, Kaldi's costs of word sequences."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from lattice_cases import LATTICE_DATA, check_same_words, random_lattice, ways
from rnnlm_cases import EOS, NAMES, rnnlm, rnnlm_lattices

from nnet3py.errors import Nnet3Error
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.lattices.pruned_composition import ConstArpaLm, DeterministicLm, FstLm
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.lattices.states import LatticeError
from nnet3py.rnnlm import rescoring
from nnet3py.rnnlm.network import RnnlmNetwork, sentence_log_probs
from nnet3py.rnnlm.rescoring import (
    CutHistories,
    HistoryLm,
    composed_with_rnnlm,
    rescored_with_rnnlm,
    rescored_within_beam,
)
from nnet3py.transducers.compact_lattice import CompactLattice

BEGIN = 9
ROUNDING = 1.0e-5
COST = 2.0e-3             # Kaldi's costs are sums of floats
INSIDE = 0.9              # of the beam: what is near its border depends on rounding


def test_the_first_one_stands_for_all() -> None:
    histories = CutHistories(BEGIN, 3)
    first = histories.after(histories.after(0, 1), 2)           # <s> 1 2
    other = histories.after(histories.after(histories.after(0, 3), 1), 2)     # <s> 3 1 2
    assert first == other and histories.sequences[first] == (1, 2)
    assert histories.words[first] == 2 and histories.sequences[histories.parents[first]] == (BEGIN, 1)
    assert histories.number_of((1, 2)) == first and histories.number_of((2, 1)) is None
    assert len(histories) == len(histories.sequences) == len(histories.words) == 5


def test_the_beginning_counts() -> None:
    histories = CutHistories(BEGIN, 2)
    assert histories.sequences == [(BEGIN,)] and histories.parents == [-1]
    one = histories.after(0, 1)
    assert histories.sequences[one] == (1,) and histories.after(histories.after(0, 2), 1) == one


def test_nothing_is_kept_or_nothing_is_cut() -> None:
    nothing = CutHistories(BEGIN, 1)
    assert nothing.after(0, 5) == nothing.after(nothing.after(0, 4), 3) == 1 and nothing.sequences == [(BEGIN,), ()]
    everything = CutHistories(BEGIN, 0)
    number = 0
    for word in range(1, 30):
        number = everything.after(number, word)
    assert everything.sequences[number] == (BEGIN, *range(1, 30)) and everything.longer((1,), 2) == (1, 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", NAMES)
def test_paths_cost_what_their_words_cost(name: str, seed: int) -> None:
    lattice = random_lattice(seed, num_states=7, num_words=14)
    before = ways(lattice)
    costs = -np.array([each.sum() for each in sentence_log_probs(rnnlm(name), [way.words for way in before])])
    expected = sorted((way.words, way.ids, round(way.graph + cost, 2), way.acoustic)
                      for way, cost in zip(before, costs, strict=True))
    after = sorted((way.words, way.ids, round(way.graph, 2), way.acoustic)
                   for way in ways(composed_with_rnnlm(lattice, rnnlm(name), 0)))
    assert [(words, ids) for words, ids, *_ in after] == [(words, ids) for words, ids, *_ in expected]
    np.testing.assert_allclose([row[2:] for row in after], [row[2:] for row in expected], atol=0.011)


def test_cut_histories_make_fewer_states() -> None:
    lattice = rnnlm_lattices("decoded")["en-029-belinda-03"]
    whole, cut = (composed_with_rnnlm(lattice, rnnlm("lstm"), order) for order in (0, 2))
    assert cut.num_states < whole.num_states and len(ways(cut)) == len(ways(whole)) == len(ways(lattice))


def test_lattices_that_cannot_be_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert composed_with_rnnlm(CompactLattice.empty(), rnnlm("lstm"), 3).start == -1
    lattice = random_lattice(1, num_words=14)
    wrong = CompactLattice.from_arcs(0, [[np.inf] * 2, [0, 0]], [0], [18], [[0, 0]], [1], [1], [1])
    with pytest.raises(Nnet3Error, match="no word 18"):
        composed_with_rnnlm(wrong, rnnlm("lstm"), 3)
    cyclic = CompactLattice.from_arcs(0, [[np.inf] * 2, [0, 0]], [0, 1], [1, 2], [[0, 0]] * 2, [1, 1], [1, 1], [1, 0])
    with pytest.raises(LatticeError, match="cycl"):
        composed_with_rnnlm(cyclic, rnnlm("lstm"), 3)
    monkeypatch.setattr(rescoring, "_MOST_ARCS", 10)
    with pytest.raises(LatticeError, match="more than 10 arcs"):
        composed_with_rnnlm(lattice, rnnlm("lstm"), 0)


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


@pytest.mark.parametrize(("name", "source", "result", "scale", "order"), [
    ("lstm", "no-lm", "rescore-lstm", 1.0, 3), ("tdnn", "decoded", "rescore-tdnn-order4", 0.6, 4)])
def test_all_paths(name: str, source: str, result: str, scale: float, order: int) -> None:
    expected, network = rnnlm_lattices(result), rnnlm(name, normalize=source == "no-lm")
    for key, lattice in rnnlm_lattices(source).items():
        check_same_words(rescored_with_rnnlm(lattice, network, scale, order), expected[key], COST, 4.0)
        assert rescored_with_rnnlm(lattice, network, 0.0, order) is lattice


@pytest.mark.parametrize(("name", "old", "result", "acoustic", "scale", "order", "beam"), [
    ("lstm", FstLm.read(str(LATTICE_DATA / "graph-grammar" / "G.fst")), "pruned-lstm", 1.0, 0.5, 3, 6.0),
    ("tdnn", ConstArpaLm.read(str(LATTICE_DATA / "const-arpa" / "G.carpa")), "pruned-tdnn-const-arpa", 0.5, 0.8, 4,
     4.0)])
def test_paths_within_a_beam(name: str, old: DeterministicLm, result: str, acoustic: float, scale: float, order: int,
                             beam: float) -> None:
    expected, network = rnnlm_lattices(result), rnnlm(name, normalize=name == "lstm")
    scales = Scales(1.0, acoustic)
    for key, lattice in rnnlm_lattices("decoded").items():
        found = rescored_within_beam(scaled(lattice, scales), old, network, scale, order,
                                     PrunedCompositionOptions(beam=beam))
        check_same_words(found, scaled(expected[key], scales), COST, INSIDE * beam)
