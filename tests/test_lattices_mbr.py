"""Minimum Bayes risk and oracles of random lattices, against edit distances of every path."""
from __future__ import annotations

import numpy as np
import pytest
from lattice_cases import random_lattice, ways

from nnet3py.lattices.states import LatticeError, with_super_final
from nnet3py.lattices.word_errors import minimum_bayes_risk, oracle
from nnet3py.transducers.compact_lattice import CompactLattice

ABOVE = 1e-3          # a word against nothing costs 1.00001 while words are aligned


def distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    row = list(range(len(other) + 1))
    for i, word in enumerate(one, 1):
        last, row[0] = row[0], i
        for j, said in enumerate(other, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (word != said))
    return row[-1]


def expected_distance(lattice: CompactLattice, words: tuple[int, ...]) -> float:
    shares = [(np.exp(-way.cost), distance(way.words, words)) for way in ways(lattice)]
    return float(sum(share * far for share, far in shares) / sum(share for share, _ in shares))


@pytest.mark.parametrize("seed", range(6))
def test_risk_is_at_least_the_expected_distance_and_no_greater_than_before(seed: int) -> None:
    """In a lattice the distance is minimized state by state, so it is an upper bound."""
    lattice = random_lattice(seed, no_word=0.0)
    best = min(ways(lattice), key=lambda way: way.cost).words
    fixed = minimum_bayes_risk(lattice, list(best), decode=False)
    assert tuple(fixed.words) == best
    assert fixed.risk >= expected_distance(lattice, best) - ABOVE
    found = minimum_bayes_risk(lattice)
    assert found.risk <= fixed.risk + ABOVE
    assert found.risk >= expected_distance(lattice, tuple(found.words)) - ABOVE


@pytest.mark.parametrize("seed", range(3))
def test_places_sum_to_one_and_times_are_in_order(seed: int) -> None:
    lattice = random_lattice(seed)
    found = minimum_bayes_risk(lattice)
    assert len(found.sausages) == 2 * len(found.words) + 1 == len(found.sausage_times)
    for place in found.sausages:
        weights = [weight for _, weight in place]
        assert sum(weights) == pytest.approx(1.0, abs=1e-5) and weights == sorted(weights, reverse=True)
    edges = [edge for pair in found.times for edge in pair]
    assert edges == sorted(edges) and len(found.confidences) == len(found.words)
    assert all(found.sausages[2 * i + 1][0] == (word, pytest.approx(sure))
               for i, (word, sure) in enumerate(zip(found.words, found.confidences, strict=True)))


def test_a_single_path_is_sure() -> None:
    lattice = CompactLattice.from_arcs(0, [[np.inf] * 2] * 2 + [[1, 1]], [0, 1], [7, 8], [[1, 2], [3, 4]], [2, 3],
                                       [1, 2, 3, 4, 5], [1, 2])
    found = minimum_bayes_risk(lattice)
    assert found.words == [7, 8] and found.risk == pytest.approx(0.0) and found.confidences == [1.0, 1.0]
    assert found.times == [(0.0, 2.0), (2.0, 5.0)]
    gaps = minimum_bayes_risk(lattice, print_silence=True)
    assert gaps.words == [0, 7, 0, 8, 0]
    assert gaps.times == [(0.0, 0.0), (0.0, 2.0), (2.0, 2.0), (2.0, 5.0), (5.0, 5.0)]
    with pytest.raises(LatticeError):
        minimum_bayes_risk(CompactLattice.empty())


def test_a_super_final_state_changes_no_path() -> None:
    lattice = random_lattice(1)
    changed, state = with_super_final(lattice)
    assert sorted(ways(changed)) == sorted(ways(lattice)) and changed.is_final.tolist().count(True) == 1
    assert with_super_final(changed) == (changed, state)
    assert with_super_final(CompactLattice.empty())[1] == -1


@pytest.mark.parametrize("seed", range(6))
def test_the_oracle_is_the_nearest_path(seed: int) -> None:
    lattice, said = random_lattice(seed), (1, 3, 2, 2)
    found = oracle(lattice, np.array(said), np.array([], dtype=np.int32))
    nearest = min(distance(way.words, said) for way in ways(lattice))
    assert found.errors == nearest == distance(tuple(found.words.tolist()), said)
    assert ways(found.path)[0] in ways(lattice) and ways(found.path)[0].words == tuple(found.words)


def test_wildcards_count_nothing() -> None:
    lattice = random_lattice(0)
    found = oracle(lattice, np.array([1, 3, 1]), np.array([3]))
    assert found.errors == min(distance(tuple(w for w in way.words if w != 3), (1, 1)) for way in ways(lattice))
