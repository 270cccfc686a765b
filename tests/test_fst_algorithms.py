"""nnet3py/fst/operations.py: what operations on FSTs keep and what they change."""
from __future__ import annotations

import math

import numpy as np
import pytest
from graph_paths import path_costs
from random_fsts import random_fst

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.fst import operations
from nnet3py.fst.operations import push_special, random_paths, without_local_epsilons
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import connected

ROUNDING = 1e-5
LONGEST = 6
SEEDS = range(25)


def costs(fst: Fst) -> dict:
    return path_costs(fst, LONGEST)


def same(found: dict, expected: dict) -> bool:
    return found.keys() == expected.keys() and all(abs(found[key] - expected[key]) < ROUNDING for key in expected)


@pytest.mark.parametrize("by_output", [False, True])
def test_sorted_arcs(by_output: bool) -> None:
    for seed in SEEDS:
        fst = random_fst(seed)
        found = operations.arc_sorted(fst, by_output)
        assert operations.is_sorted(found, by_output) and same(costs(found), costs(fst))
        labels = found.output_labels if by_output else found.input_labels
        for first, end in zip(found.arc_starts[:-1], found.arc_starts[1:], strict=True):
            assert (np.diff(labels[first:end]) >= 0).all()
    assert not operations.is_sorted(Fst.from_arcs(0, [0.0], [0, 0], [2, 1], [1, 1], [0, 0], [0, 0]))


def test_sides() -> None:
    fst = random_fst(3)
    assert costs(operations.inverted(fst)) == {(b, a): cost for (a, b), cost in costs(fst).items()}
    for on_output in (False, True):
        projected = operations.projected(fst, on_output)
        assert projected.is_acceptor
        assert {one for one, _ in costs(projected)} == {pair[on_output] for pair in costs(fst)}
    other = operations.relabeled(fst, {1: 7, 5: 9}, {2: 1, 1: 2})
    assert set(other.input_labels.tolist()) == {0, 7, 2}
    assert np.array_equal(other.output_labels, np.array([0, 2, 1])[fst.output_labels])


def test_symbols_that_go() -> None:
    fst = random_fst(4)
    assert set(operations.without_symbols(fst, [2]).input_labels.tolist()) == {0, 1}
    assert set(operations.without_symbols(fst, [1, 2], on_output=True).output_labels.tolist()) == {0}
    dropped = operations.without_arcs_of(fst, [2])
    assert costs(dropped) == {pair: cost for pair, cost in costs(dropped).items() if 2 not in pair[0]}
    heavier = operations.with_penalty(fst, [2], 3.0)
    assert np.allclose(heavier.weights - fst.weights, np.where(fst.input_labels == 2, 3.0, 0.0))


def test_loops() -> None:
    fst = Fst.from_arcs(0, [np.inf, np.inf, 0.0], [0, 1], [1, 1], [0, 5], [0, 0], [1, 2])
    looped = operations.with_loops(fst, [8, 9], [3, 4])
    assert looped.sources.tolist() == [0, 1, 1, 1, 2, 2]
    assert looped.input_labels.tolist() == [1, 1, 8, 9, 8, 9] and looped.output_labels.tolist() == [0, 5, 3, 4, 3, 4]
    with pytest.raises(FormatError, match="found 1 and 2"):
        operations.with_loops(fst, [1, 2], [1])


def test_union_concatenation_closure_reversal() -> None:
    for seed in SEEDS:
        one, two = random_fst(seed, 5, 8), random_fst(seed + 100, 5, 8)
        first, second = costs(one), costs(two)
        both = {pair: min(first.get(pair, math.inf), second.get(pair, math.inf)) for pair in {*first, *second}}
        assert same(costs(operations.union(one, two)), both)
        backwards = {(a[::-1], b[::-1]): cost for (a, b), cost in first.items()}
        assert same(costs(operations.reversed_fst(one)), backwards)
    letter = Fst.from_arcs(0, [np.inf, 0.5], [0], [1], [2], [1.0], [1])
    assert same(costs(operations.closure(letter)), {((1,) * n, (2,) * n): 1.5 * n for n in range(LONGEST + 1)})
    once_or_more = {((1,) * n, (2,) * n): 1.5 * n for n in range(1, LONGEST + 1)}
    assert same(costs(operations.closure(letter, plus=True)), once_or_more)


def test_replacement() -> None:
    root = Fst.from_arcs(0, [np.inf, np.inf, 0.0], [0, 0, 1], [1, 2, 1], [1, 9, 9], [0.1, 0.2, 0.3], [1, 1, 2])
    part = Fst.from_arcs(0, [np.inf, 0.5], [0, 0], [0, 0], [3, 4], [0.0, 1.0], [1, 1])
    found = costs(operations.replaced(root, 9, part))
    expected = {((1, 1), (1, 3)): 0.9, ((1, 1), (1, 4)): 1.9, ((2, 1), (3, 3)): 1.5, ((2, 1), (3, 4)): 2.5,
                ((2, 1), (4, 3)): 2.5, ((2, 1), (4, 4)): 3.5}
    assert same(found, expected)
    from_one = Fst.from_arcs(1, [0.5, np.inf], [1, 1], [0, 0], [3, 4], [0.0, 1.0], [0, 0])
    assert same(costs(operations.replaced(root, 9, from_one)), expected)
    assert operations.replaced(root, 7, part).num_arcs == root.num_arcs
    empty = Fst.from_arcs(-1, np.zeros(0), [], [], [], [], [])
    assert operations.replaced(root, 9, empty).output_labels.tolist() == [1]


def test_sums_of_states() -> None:
    fst = Fst.from_arcs(0, [math.log(4), np.inf], [0, 0], [1, 2], [1, 2], [math.log(2), math.log(4)], [0, 1])
    assert operations.sums_of_states(fst).tolist() == [pytest.approx(0.0, abs=ROUNDING), math.inf]
    assert operations.sums_of_states(fst, in_log=False).tolist() == [pytest.approx(math.log(2)), math.inf]


def test_special_push() -> None:
    fst = connected(random_fst(5, 6, 10, cyclic=True, epsilons=0.0))
    pushed = push_special(fst, 1e-4)
    assert np.ptp(operations.sums_of_states(pushed)) < 1e-3 < np.ptp(operations.sums_of_states(fst))
    assert same(path_costs(pushed, 4), path_costs(fst, 4))


def test_local_epsilons_keep_all_paths() -> None:
    removed = 0
    for seed in range(80):
        fst = connected(random_fst(seed, epsilons=0.6))
        if fst.start < 0:
            continue
        smaller = without_local_epsilons(fst)
        assert smaller.num_arcs <= fst.num_arcs
        assert same(costs(smaller), costs(fst)), seed
        removed += fst.num_arcs - smaller.num_arcs
    assert removed > 20


def test_local_epsilons_of_cycles_end() -> None:
    for seed in range(200):
        fst = connected(random_fst(seed, epsilons=0.7, cyclic=True))
        assert without_local_epsilons(fst).num_arcs <= fst.num_arcs


def test_local_epsilons_keep_the_sums_of_probabilities() -> None:
    half, quarter = math.log(2), math.log(4)
    # 0 -eps-> 1 with probability 1/2; 1 goes on by an epsilon and by a label on the other side, which cannot be joined
    fst = Fst.from_arcs(0, [np.inf, np.inf, 0.0], [0, 0, 1, 1], [0, 1, 0, 1], [5, 0, 0, 6],
                        [half, half, quarter, -math.log(0.75)], [1, 2, 2, 2])
    smaller = without_local_epsilons(fst)
    assert same(costs(smaller), costs(fst))
    assert np.allclose(operations.sums_of_states(smaller)[:2], 0.0, atol=ROUNDING)


def test_random_paths() -> None:
    fst = connected(random_fst(1))
    known = costs(fst)
    paths = random_paths(fst, 20, longest=5, seed=1)
    assert paths.is_final.sum() == 20 and set(costs(paths)) <= set(known)
    assert random_paths(fst, 20, seed=1).equals(random_paths(fst, 20, seed=1))
    with pytest.raises(Nnet3Error, match="no path of at most 0 arcs"):
        random_paths(Fst.from_arcs(0, [np.inf, 0.0], [0], [1], [1], [0.0], [1]), longest=0)
    chosen = random_paths(Fst.from_arcs(0, [np.inf, 0.0], [0, 0], [1, 2], [1, 2], [0.0, 50.0], [1, 1]), 30, seed=2,
                          by_cost=True)
    assert set(chosen.input_labels.tolist()) == {1}
