"""Pushing strings and weights, and merging states: the same paths, as near to the start as can be; Kaldi's results."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from decoding_cases import table
from graph_paths import path_costs
from test_lattices_determinize import FRAMES, random_lattice

from nnet3py.lattices.determinize import determinize
from nnet3py.lattices.pruning import minimized, with_strings_pushed, with_weights_pushed
from nnet3py.lattices.states import LatticeError, trimmed
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.lattice import COMPACT_LATTICES, expanded

COST = 1e-4


def paths(lattice: CompactLattice) -> dict:
    return path_costs(expanded(lattice), FRAMES)


def test_pushed_as_kaldi_does():
    for lattice, expected in zip(*(table(name, COMPACT_LATTICES) for name in ("decode", "pushed")), strict=True):
        assert with_weights_pushed(with_strings_pushed(lattice)).equals(expected)


@pytest.mark.parametrize("change", [with_strings_pushed, with_weights_pushed, minimized,
                                    lambda one: minimized(with_weights_pushed(with_strings_pushed(one)))])
@pytest.mark.parametrize("seed", range(4))
def test_paths_stay(seed, change):
    lattice = trimmed(determinize(random_lattice(seed)))
    expected = paths(lattice)
    assert paths(change(lattice)) == {key: pytest.approx(cost, abs=10 * COST) for key, cost in expected.items()}


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_left_to_push(seed):
    lattice = with_weights_pushed(with_strings_pushed(trimmed(determinize(random_lattice(seed)))))
    for state in range(lattice.num_states):
        if state == lattice.start:
            continue
        arcs = range(lattice.arc_starts[state], lattice.arc_starts[state + 1])
        costs = [lattice.weights[arc].sum() for arc in arcs] + [lattice.final_weights[state].sum()]
        assert min(costs) == pytest.approx(0.0, abs=COST)
        firsts = [lattice.string(arc)[:1].tolist() for arc in arcs]
        if lattice.is_final[state]:
            firsts.append(lattice.final_string(state)[:1].tolist())
        assert [] in firsts or len({first[0] for first in firsts}) > 1


def test_equal_states_become_one():
    """Two words that lead to states with the same word after them."""
    weights = np.zeros((4, 2), dtype=np.float32)
    lattice = CompactLattice.from_arcs(0, [[np.inf] * 2] * 3 + [[0.0, 0.0]], [0, 0, 1, 2], [1, 2, 3, 3], weights,
                                       [1, 1, 1, 1], [5, 6, 7, 7], [1, 2, 3, 3])
    small = minimized(lattice)
    assert (small.num_states, small.num_arcs) == (3, 3)
    assert paths(small) == paths(lattice)
    weights[3, 0] = 0.01
    other = dataclasses.replace(lattice, weights=weights)
    assert minimized(other).num_states == 4 == minimized(other, delta=1.0).num_states       # of final weights only


def test_empty_lattices_and_cycles():
    for change in (with_strings_pushed, with_weights_pushed, minimized):
        assert change(CompactLattice.empty()).num_states == 0
        lattice = table("decode", COMPACT_LATTICES)[0]
        with pytest.raises(LatticeError, match="cycle"):
            change(dataclasses.replace(lattice, next_states=np.zeros_like(lattice.next_states)))
