"""Composition of random lattices, and language models for them, against going along every path."""
from __future__ import annotations

import numpy as np
import pytest
from lattice_cases import LATTICE_DATA, Way, best_by_words, check_same_paths, random_lattice, ways

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.fst.const_arpa import ConstArpa
from nnet3py.io.object_files import read_object
from nnet3py.lattices.composition import (
    Composer,
    composed_with_const_arpa,
    concatenation,
    difference,
    rescored_with_const_arpa,
    rescored_with_fst,
    union,
    with_final_cost,
)
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.lattices.pruned_composition import ConstArpaLm, FstLm, Likely, LmDifference, PrunedComposition
from nnet3py.lattices.scaling import on_words
from nnet3py.lattices.states import LatticeError
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst

COST = 1e-3            # sums in float
DELTA = 4e-3           # of determinized lattices: subsets within 1/1024 are the same, a few times


@pytest.fixture(scope="module")
def arpa() -> ConstArpa:
    return ConstArpa.read(LATTICE_DATA / "const-arpa" / "G.carpa")


@pytest.fixture(scope="module")
def grammar() -> Fst:
    return read_object(str(LATTICE_DATA / "graph-grammar" / "G.fst"), read_fst)


def pairs(one: CompactLattice, other: CompactLattice) -> list[Way]:
    """Paths of both with the same words."""
    return sorted(Way(a.words, a.ids, a.graph + b.graph, a.acoustic + b.acoustic)
                  for a in ways(one) for b in ways(other) if a.words == b.words)


@pytest.mark.parametrize("seed", range(5))
def test_composition_pairs_paths_of_the_same_words(seed: int) -> None:
    one, other = random_lattice(seed, num_states=5), random_lattice(seed + 100, num_states=5)
    found = Composer(on_words(other)).compose(one)
    assert sorted(ways(found)) == pairs(one, other)


def test_nothing_fits() -> None:
    lattice = random_lattice(0, no_word=0.0)
    fst = Fst.from_arcs(0, [np.inf, 0.0], [0], [77], [77], [0.0], [1])
    assert Composer(fst).compose(lattice).start == -1
    assert Composer(fst).compose(CompactLattice.empty()).start == -1
    assert Composer(Fst.from_arcs(-1, [], [], [], [], [], [])).compose(lattice).start == -1


def test_rho_stands_for_other_words_and_phi_for_none() -> None:
    lattice = CompactLattice.from_arcs(0, [[np.inf] * 2] * 2 + [[0, 0]], [0, 0, 1], [1, 2, 3], np.zeros((3, 2)),
                                       [1] * 3, [5, 6, 7], [1, 1, 2])
    # State 0 knows word 1; another word goes by label 9, which costs 4. State 1 takes 3.
    sources, inputs, costs, nexts = [0, 0, 1], [1, 9, 3], [1.0, 4.0, 0.5], [1, 1, 2]
    by_rho = Fst.from_arcs(0, [np.inf, np.inf, 0.25], sources, inputs, inputs, costs, nexts)
    found = {way.words: way.cost for way in ways(Composer(by_rho, rho=9).compose(lattice))}
    assert found == {(1, 3): 1.75, (2, 3): 4.75}
    # By phi, 9 leads to state 3, which knows 2 for 0.125; being final goes back by phi as well.
    fst = Fst.from_arcs(0, [np.inf, np.inf, np.inf, 2.0], [0, 0, 1, 2, 3], [1, 9, 3, 9, 2], [1, 9, 3, 9, 2],
                        [1.0, 4.0, 0.5, 8.0, 0.125], [1, 3, 2, 3, 1])
    found = {way.words: way.cost for way in ways(Composer(fst, phi=9).compose(lattice))}
    assert found == {(1, 3): 11.5, (2, 3): 14.625}


def test_a_cycle_of_failures_is_refused() -> None:
    lattice = random_lattice(0, no_word=0.0)
    fst = Fst.from_arcs(0, [0.0], [0], [9], [9], [1.0], [0])
    with pytest.raises(LatticeError, match="cycle"):
        Composer(fst, phi=9).compose(lattice)


@pytest.mark.parametrize("seed", range(4))
def test_union_and_difference(seed: int) -> None:
    one, other = random_lattice(seed, num_states=5), random_lattice(seed + 50, num_states=5)
    assert sorted(ways(union([one, other, CompactLattice.empty()]))) == sorted(ways(one) + ways(other))
    texts = {way.words for way in ways(other)}
    assert sorted(ways(difference(one, other))) == sorted(way for way in ways(one) if way.words not in texts)
    assert min(way.cost for way in ways(with_final_cost(one, 2.5))) == min(way.cost for way in ways(one)) + 2.5


def sentence_cost(model: ConstArpa, words: tuple[int, ...]) -> float:
    history, cost = [model.bos], 0.0
    for word in (*words, model.eos):
        cost -= model.log_prob(history, word)
        history.append(word)
    return cost


@pytest.mark.parametrize("seed", range(4))
def test_const_arpa_costs(arpa: ConstArpa, seed: int) -> None:
    lattice = random_lattice(seed, num_states=6, num_words=14)
    expected = sorted((way.words, way.ids, way.cost + sentence_cost(arpa, way.words)) for way in ways(lattice))
    found = sorted((way.words, way.ids, way.cost) for way in ways(composed_with_const_arpa(lattice, arpa)))
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    np.testing.assert_allclose([row[2] for row in found], [row[2] for row in expected], atol=COST)
    rescored = best_by_words(rescored_with_const_arpa(lattice, arpa, 0.5))
    for words, way in best_by_words(lattice).items():
        assert rescored[words].cost == pytest.approx(way.cost + 0.5 * sentence_cost(arpa, words), abs=DELTA)
    assert rescored_with_const_arpa(lattice, arpa, 0.0) is lattice
    assert composed_with_const_arpa(CompactLattice.empty(), arpa).start == -1


def test_large_lattices_make_room(arpa: ConstArpa) -> None:
    """A line of 3000 places with all words at each needs more than the first arrays have room for."""
    places, words = 600, np.arange(1, 15)
    sources, labels = np.repeat(np.arange(places), len(words)), np.tile(words, places)
    finals = np.full((places + 1, 2), np.inf)
    finals[-1] = 0
    lattice = CompactLattice.from_arcs(0, finals, sources, labels, np.zeros((len(labels), 2)), np.ones(len(labels)),
                                       labels, sources + 1)
    found = composed_with_const_arpa(lattice, arpa)
    assert found.num_states > 2000 and found.num_arcs > 20 * places
    words_of_one = tuple(int(one) for one in np.random.default_rng(0).integers(1, 15, places))
    state, cost = found.start, 0.0
    for word in words_of_one:
        arcs = np.arange(found.arc_starts[state], found.arc_starts[state + 1])
        arc = int(arcs[found.labels[arcs] == word][0])
        state, cost = int(found.next_states[arc]), cost + float(found.weights[arc, 0])
    cost += float(found.final_weights[state, 0])
    assert cost == pytest.approx(sentence_cost(arpa, words_of_one), rel=1e-5)


def test_models_are_looked_up_word_by_word(arpa: ConstArpa, grammar: Fst) -> None:
    model = ConstArpaLm(arpa)
    state, cost = model.start, 0.0
    for word in (3, 5, 5, 1):
        found = model.arc(state, word)
        assert found is not None
        state, cost = found[0], cost + found[1]
    assert cost + model.final_cost(state) == pytest.approx(sentence_cost(arpa, (3, 5, 5, 1)), abs=COST)
    assert model.arc(model.start, 999) is None
    bigram = FstLm(Fst(grammar.start, grammar.final_weights, grammar.arc_starts, grammar.output_labels,
                       grammar.output_labels, grammar.weights, grammar.next_states))
    both = LmDifference(bigram, bigram, 1.0)
    found = both.arc(both.start, 5)
    assert found is not None and found[1] == 0.0 and both.final_cost(found[0]) == 0.0
    assert both.arc(both.start, 999) is None


def test_cycles_of_back_off_are_refused() -> None:
    model = FstLm(Fst.from_arcs(0, [np.inf, np.inf], [0, 1], [0, 0], [0, 0], [0.0, 0.0], [1, 0]))
    for use in (lambda: model.arc(0, 3), lambda: model.final_cost(0)):
        with pytest.raises(FormatError, match="cycle"):
            use()
    with pytest.raises(FormatError):
        FstLm(Fst.from_arcs(-1, [], [], [], [], [], []))


class Tenth:
    """A tenth of a model's costs: in rescoring they are differences between two models, and small."""

    def __init__(self, model: ConstArpaLm) -> None:
        self.model, self.start = model, model.start
        self.prepared: list[tuple[int, list[tuple[int, list[int]]]]] = []

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        found = self.model.arc(state, word)
        return None if found is None else (found[0], 0.1 * found[1])

    def final_cost(self, state: int) -> float:
        return 0.1 * self.model.final_cost(state)

    def prepare(self, state: int, likely: Likely) -> None:
        """What is asked for afterwards must be in ``likely``, in the first place if it is about ``state``."""
        self.prepared.append((state, list(likely())))


@pytest.mark.parametrize("seed", range(4))
def test_pruned_composition(arpa: ConstArpa, seed: int) -> None:
    lattice = random_lattice(seed, num_states=6, num_words=14)
    everything = PrunedComposition(lattice, ConstArpaLm(arpa), PrunedCompositionOptions(beam=1000.0)).compose()
    check_same_paths(everything, composed_with_const_arpa(lattice, arpa), COST)

    def compose(**options: float) -> list[Way]:
        how = PrunedCompositionOptions(**options)    # type: ignore[arg-type]
        return ways(PrunedComposition(lattice, Tenth(ConstArpaLm(arpa)), how).compose())

    expected = {(way.words, way.ids): way.cost + 0.1 * sentence_cost(arpa, way.words) for way in ways(lattice)}
    found = {(way.words, way.ids): way.cost for way in compose(beam=4.0)}
    assert all(cost == pytest.approx(expected[key], abs=COST) for key, cost in found.items())
    # What lies behind a state is guessed from the lattice, so paths near the beam may be missing.
    assert {key for key, cost in expected.items() if cost < min(expected.values()) + 2.0} <= found.keys()
    assert len(compose(max_arcs=1)) >= 1
    with pytest.raises(Nnet3Error):
        PrunedCompositionOptions(growth_ratio=1.0)


def test_pruned_composition_says_what_it_will_look_up(arpa: ConstArpa) -> None:
    model, lattice = Tenth(ConstArpaLm(arpa)), random_lattice(1, num_states=16, num_words=14, no_word=0.1)
    asked: list[tuple[int, int]] = []
    arc = model.arc
    model.arc = lambda state, word: (asked.append((state, word)), arc(state, word))[1]    # type: ignore[method-assign]
    PrunedComposition(lattice, model, PrunedCompositionOptions(beam=4.0)).compose()
    num_right = 0
    for (state, likely), lookup in zip([one for one in model.prepared if one[1][0][1]], asked, strict=True):
        assert likely[0][0] == state == lookup[0] and likely[0][1][0] == lookup[1]
        assert all(1 <= len(words) <= 3 or not words for _, words in likely)
    for place, (_, likely) in enumerate(model.prepared):
        later = {(state, word) for state, word in asked[place + 1:]}
        num_right += sum((state, words[0]) in later for state, words in likely[1:] if words)
    guesses = sum(len([words for _, words in likely[1:] if words]) for _, likely in model.prepared)
    assert guesses > 10 and num_right > 0.5 * guesses


@pytest.mark.parametrize("seed", range(3))
def test_back_off_of_an_fst_may_be_taken_where_it_is_cheaper(grammar: Fst, seed: int) -> None:
    """The best way through the FST counts, by its epsilons, too: as found by trying all."""
    projected = Fst(grammar.start, grammar.final_weights, grammar.arc_starts, grammar.output_labels,
                    grammar.output_labels, grammar.weights, grammar.next_states)
    lattice = random_lattice(seed, num_states=5, num_words=14)
    sources = projected.sources

    def cheapest(words: tuple[int, ...]) -> float:
        costs = {projected.start: 0.0}
        for word in (*words, None):
            for _ in range(2):                              # a bigram has one epsilon after another at most
                for arc in np.flatnonzero(projected.input_labels == 0).tolist():
                    if sources[arc] in costs:
                        target, cost = int(projected.next_states[arc]), costs[sources[arc]] + projected.weights[arc]
                        costs[target] = min(costs.get(target, np.inf), cost)
            if word is None:
                return float(min(cost + projected.final_weights[state] for state, cost in costs.items()))
            following: dict[int, float] = {}
            for arc in np.flatnonzero(projected.input_labels == word).tolist():
                if sources[arc] in costs:
                    target, cost = int(projected.next_states[arc]), costs[sources[arc]] + projected.weights[arc]
                    following[target] = min(following.get(target, np.inf), cost)
            costs = following
        return np.inf

    found = best_by_words(rescored_with_fst(lattice, Composer(projected), 1.0))
    for words, way in best_by_words(lattice).items():
        assert found[words].cost == pytest.approx(way.cost + cheapest(words), abs=DELTA)


def test_concatenation() -> None:
    """Each path of one after each path of the other, with the sums of costs; transition-ids in a row."""
    first, second = random_lattice(3, num_states=5), random_lattice(5, num_states=5)
    both = concatenation([first, CompactLattice.empty(), second])
    expected = sorted((a.words + b.words, a.ids + b.ids, round(a.cost + b.cost, 2)) for a in ways(first)
                      for b in ways(second))
    assert sorted((way.words, way.ids, round(way.cost, 2)) for way in ways(both)) == expected
    assert concatenation([]).start == -1 and concatenation([first]) is first
