"""Best paths, n-best paths, pruning, depth and posteriors of random lattices, against going along every path."""
from __future__ import annotations

import collections

import numpy as np
import pytest
from lattice_cases import Way, random_lattice, ways

from nnet3py.lattices.best_path import (
    LARGEST,
    best_path,
    best_paths,
    confidence,
    linear_lattice,
    path_of,
    random_paths,
    word_times,
)
from nnet3py.lattices.forward_backward import forward_backward, frame_posteriors
from nnet3py.lattices.pruning import depth, depth_per_frame, limited_depth, pruned
from nnet3py.lattices.scaling import Scales, scaled, with_word_penalty
from nnet3py.lattices.states import LatticeError, state_times, top_sorted
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.lattice import expanded

SEEDS = range(6)
EXACT = 1e-9               # weights are multiples of 1/8
POSTERIOR = 1e-6           # sums of exponentials in double, rounded to float


def way_of(lattice: CompactLattice) -> Way:
    return ways(lattice)[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_path_is_the_cheapest(seed: int) -> None:
    lattice = random_lattice(seed)
    found = best_path(lattice)
    assert found is not None and len(ways(found)) == 1
    assert way_of(found).cost == pytest.approx(min(way.cost for way in ways(lattice)), abs=EXACT)
    path = path_of(found)
    assert path is not None and float(path.cost) == pytest.approx(way_of(found).cost)
    assert tuple(path.words) == way_of(found).words and tuple(path.ids) == way_of(found).ids


@pytest.mark.parametrize("seed", SEEDS)
def test_n_best_paths_come_in_the_order_of_their_costs(seed: int) -> None:
    lattice = random_lattice(seed)
    everything = sorted(way.cost for way in ways(lattice))
    for count in (1, 7, 10_000):
        found = [way_of(path).cost for path in best_paths(lattice, count)]
        assert found == pytest.approx(everything[:count], abs=EXACT)


def test_of_equal_paths_the_one_of_earlier_states_is_taken() -> None:
    zeros = np.zeros((4, 2))
    finals = np.array([[np.inf] * 2] * 3 + [[0, 0]])
    lattice = CompactLattice.from_arcs(0, finals, [0, 0, 1, 2], [1, 2, 3, 4], zeros, [1] * 4, [1, 2, 3, 4],
                                       [1, 2, 3, 3])
    found = best_path(lattice)
    assert found is not None and way_of(found).words == (1, 3)


def test_random_paths_are_paths() -> None:
    lattice = random_lattice(1)
    everything = ways(lattice)
    found = [way_of(path) for path in random_paths(lattice, 20, np.random.default_rng(0))]
    assert len(found) == 20 and all(way in everything for way in found) and len(set(found)) > 3


def test_empty_lattices_and_cycles() -> None:
    empty = CompactLattice.empty()
    assert best_path(empty) is None and best_paths(empty, 3) == [] and path_of(empty) is None
    assert confidence(empty) is None and depth(empty) == (1.0, 0) and not len(depth_per_frame(empty))
    cycle = CompactLattice.from_arcs(0, [[np.inf] * 2, [0, 0]], [0, 1], [1, 2], np.zeros((2, 2)), [1, 1], [1, 1],
                                      [1, 0])
    for refused in (best_path, lambda one: best_paths(one, 2), lambda one: pruned(one, 1.0), depth, top_sorted):
        with pytest.raises(LatticeError, match="cycle"):
            refused(cycle)
    with pytest.raises(LatticeError, match="no path|empty"):
        frame_posteriors(expanded(empty))


def test_confidence_is_what_the_second_path_costs_more() -> None:
    lattice = random_lattice(3)
    first, second = sorted(way.cost for way in ways(lattice))[:2]
    assert confidence(lattice) == pytest.approx(second - first)
    best = best_path(lattice)
    assert best is not None and confidence(best) == LARGEST


def test_linear_lattices() -> None:
    lattice = linear_lattice(np.array([5, 6, 7]), np.array([1, 2]), 0.5, 1.5)
    assert way_of(lattice) == Way((1, 2), (5, 6, 7), 0.5, 1.5)
    assert word_times(lattice) == [(1, 0, 1), (2, 1, 2)]
    assert word_times(random_lattice(0)) is None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("beam", [0.5, 2.0, 5.0])
def test_pruning_keeps_the_arcs_of_paths_within_the_beam(seed: int, beam: float) -> None:
    lattice = random_lattice(seed)
    everything = ways(lattice)
    limit = min(way.cost for way in everything) + beam
    kept = collections.Counter(ways(pruned(lattice, beam)))
    inside = collections.Counter(way for way in everything if way.cost <= limit)
    assert not inside - kept and not kept - collections.Counter(everything)
    # Every arc that is left is on such a path.
    result = pruned(lattice, beam)
    for arc in range(result.num_arcs):
        one = result.selected(np.arange(result.num_states), np.arange(result.num_arcs) != arc)
        assert sum(way.cost <= limit for way in ways(one)) < sum(inside.values())


def test_depths() -> None:
    lattice = random_lattice(2)
    frames = len(ways(lattice)[0].ids)
    counts = depth_per_frame(lattice)
    assert len(counts) == frames and depth(lattice) == (pytest.approx(counts.sum() / frames), frames)
    limited = limited_depth(lattice, 2)
    assert depth_per_frame(limited).max() <= 2 and len(ways(limited)) >= 1
    assert min(way.cost for way in ways(limited)) == min(way.cost for way in ways(lattice))


def test_paths_of_different_length_to_a_state_are_refused() -> None:
    finals = [[np.inf] * 2, [np.inf] * 2, [0, 0]]
    lattice = CompactLattice.from_arcs(0, finals, [0, 0, 1], [1, 2, 3], np.zeros((3, 2)), [1, 1, 1], [1, 1, 1],
                                       [1, 2, 2])
    with pytest.raises(LatticeError, match="different length"):
        state_times(lattice)


@pytest.mark.parametrize("seed", SEEDS)
def test_posteriors_are_shares_of_paths(seed: int) -> None:
    lattice = random_lattice(seed)
    everything = ways(lattice)
    total = sum(np.exp(-way.cost) for way in everything)
    expected: dict[tuple[int, int], float] = collections.defaultdict(float)
    for way in everything:
        for frame, one in enumerate(way.ids):
            expected[frame, one] += np.exp(-way.cost) / total
    found = frame_posteriors(expanded(lattice))
    assert found.total == pytest.approx(np.log(total)) and len(found.posterior) == len(everything[0].ids)
    posteriors = {(frame, one): weight for frame, row in enumerate(found.posterior) for one, weight in row}
    assert posteriors.keys() == expected.keys()
    assert all(posteriors[key] == pytest.approx(value, abs=POSTERIOR) for key, value in expected.items())
    acoustic = sum(np.exp(-way.cost) / total * -way.acoustic for way in everything)
    assert found.acoustic == pytest.approx(acoustic, abs=POSTERIOR)
    assert forward_backward(lattice).final_posteriors.sum() == pytest.approx(1.0)


def test_scaling() -> None:
    lattice = random_lattice(0)
    for one, other in zip(ways(scaled(lattice, Scales(2.0, 0.5, 0.25, 0.125))), ways(lattice), strict=True):
        assert one.graph == pytest.approx(2.0 * other.graph + 0.25 * other.acoustic)
        assert one.acoustic == pytest.approx(0.125 * other.graph + 0.5 * other.acoustic)
    for one, other in zip(ways(with_word_penalty(lattice, 0.5)), ways(lattice), strict=True):
        assert one.graph == pytest.approx(other.graph + 0.5 * len(other.words)) and one.acoustic == other.acoustic
    assert np.isinf(scaled(lattice, Scales(0.0, -1.0)).final_weights[0]).all()
