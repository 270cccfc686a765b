"""Lattices: best paths against all paths, scaling, tables."""
from __future__ import annotations

import numpy as np
import pytest
from graph_paths import path_costs

from nnet3py.decoding.lattices import LATTICES, best_path, linear_lattice, scaled, sorted_lattice
from nnet3py.errors import Nnet3Error
from nnet3py.io.fst import NO_WEIGHT, Fst
from nnet3py.io.fst_properties import is_top_sorted
from nnet3py.io.lattice import LATTICE
from nnet3py.io.tables import SequentialReader, TableWriter

COST = 1e-5           # sums of float32


def random_lattice(seed: int, states: int = 7) -> Fst:
    """Numbered at random; every arc leads on along one order of the states."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(states)
    arcs = [(order[place], order[int(rng.integers(place + 1, states))]) for place in range(states - 1)
            for _ in range(3)]
    final = np.full((states, 2), NO_WEIGHT, dtype=np.float32)
    final[order[-1]] = rng.random(2)
    final[order[-2]] = rng.random(2)
    return Fst.from_arcs(int(order[0]), final, [a for a, _ in arcs], rng.integers(0, 5, len(arcs)),
                         rng.integers(0, 5, len(arcs)), rng.standard_normal((len(arcs), 2)), [b for _, b in arcs],
                         LATTICE)


@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.1, 1.0), (2.0, 0.5)])
@pytest.mark.parametrize("seed", range(4))
def test_best_path_against_all(seed, scales):
    acoustic, graph = scales
    lattice = sorted_lattice(random_lattice(seed))
    assert is_top_sorted(lattice)
    path = best_path(lattice, acoustic, graph)
    every = path_costs(scaled(lattice, graph, acoustic), 20)
    found = graph * path.graph_cost + acoustic * path.acoustic_cost
    assert found == pytest.approx(min(every.values()), abs=COST)
    assert every[tuple(path.alignment.tolist()), tuple(path.words.tolist())] == pytest.approx(found, abs=COST)
    line = linear_lattice(lattice, path.arcs)
    again = best_path(line)
    assert (again.graph_cost, again.acoustic_cost) == pytest.approx((path.graph_cost, path.acoustic_cost), abs=COST)
    assert again.words.tolist() == path.words.tolist() and line.num_arcs == len(path.arcs)


def test_no_path_and_cycles():
    nothing = random_lattice(0)
    nothing.final_weights[:] = NO_WEIGHT
    assert best_path(nothing) is None
    assert best_path(sorted_lattice(nothing)) is None
    circle = Fst.from_arcs(0, np.zeros((2, 2)), [0, 1], [1, 1], [0, 0], np.zeros((2, 2)), [1, 0], LATTICE)
    with pytest.raises(Nnet3Error, match="cycles"):
        sorted_lattice(circle)


def test_scaling_leaves_infinity_alone():
    lattice = scaled(random_lattice(1), 0.0, 2.0)
    assert not np.isnan(lattice.final_weights).any()
    assert (lattice.weights[:, 0] == 0.0).all()
    np.testing.assert_array_equal(lattice.weights[:, 1], 2 * random_lattice(1).weights[:, 1])
    assert lattice.is_final.sum() == 2


@pytest.mark.parametrize("kind", ["ark", "ark,t"])
def test_tables(tmp_path, kind):
    lattices = {"u1": sorted_lattice(random_lattice(1)), "u2": sorted_lattice(random_lattice(2))}
    with TableWriter(f"{kind}:{tmp_path}/lat", LATTICES) as writer:
        for key, lattice in lattices.items():
            writer.write(key, lattice)
    with SequentialReader(f"ark:{tmp_path}/lat", LATTICES) as reader:
        found = dict(reader)
    assert list(found) == ["u1", "u2"]
    for key, lattice in lattices.items():
        np.testing.assert_allclose(found[key].weights, lattice.weights, atol=COST)
        assert found[key].next_states.tolist() == lattice.next_states.tolist()
        assert found[key].start == lattice.start
