"""The sums over paths of numerators against their slow reference."""
from __future__ import annotations

import numpy as np
import ops_cases
import pytest
from chain_graphs import forward_graph, layered, random_graph, supervision

from nnet3py.chain.numerator import cyclic_graphs, timed_graphs
from nnet3py.ops import get_ops

RECURSION = 2e-5      # float32 over a few frames, against float64

ops = get_ops("cpu")


@pytest.mark.parametrize("num_sequences, num_frames", [(1, 1), (1, 4), (3, 3)])
def test_numerator(rng, num_sequences, num_frames):
    fst = (supervision(rng, num_sequences, num_frames, 4).fst if num_sequences > 1 else layered(rng, num_frames, 4))
    graphs = timed_graphs(fst, num_sequences, num_frames)
    num_arcs, num_nodes = len(graphs.costs), len(graphs.finals)
    assert graphs.num_graphs == num_sequences
    ops_cases.check(ops, "chain_numerator", np.zeros(num_arcs, np.float32), np.zeros(num_nodes), np.zeros(num_nodes),
                    np.zeros((num_sequences, 2)), 3 * ops_cases.vector(rng, num_arcs), graphs.costs, graphs.finals,
                    *graphs.tables, graphs.num_levels, np.float32(0.5), tolerance=RECURSION)


@pytest.mark.parametrize("num_sequences, num_frames", [(1, 1), (1, 4), (3, 3)])
def test_accuracies(rng, num_sequences, num_frames):
    fst = (supervision(rng, num_sequences, num_frames, 4).fst if num_sequences > 1 else layered(rng, num_frames, 4))
    graphs = timed_graphs(fst, num_sequences, num_frames)
    num_arcs, num_nodes = len(graphs.costs), len(graphs.finals)
    ops_cases.check(ops, "lattice_accuracies", np.zeros(num_arcs, np.float32), *[np.zeros(num_nodes) for _ in range(4)],
                    np.zeros((num_sequences, 4)), 3 * ops_cases.vector(rng, num_arcs), graphs.costs, graphs.finals,
                    rng.integers(0, 2, num_arcs).astype(np.float32), *graphs.tables, graphs.num_levels,
                    np.float32(0.5), tolerance=RECURSION)


def cyclic(graphs, scores):
    """The operation's arguments for these scores."""
    num_frames, num_sequences = len(scores), len(graphs.first_columns) - 1
    return [np.zeros_like(scores), np.zeros((num_frames + 3, graphs.num_states), np.float32),
            np.zeros((num_frames, num_sequences), np.float32), np.zeros((num_sequences, 2)), scores, *graphs.weights,
            *graphs.tables, np.float32(0.5)]


@pytest.mark.parametrize("num_frames, sizes", [(1, [1]), (2, [5]), (5, [4, 1, 6])])
def test_cyclic_numerator(rng, num_frames, sizes):
    fsts = [random_graph(rng, size, 3) for size in sizes]
    for fst in fsts:
        fst.final_weights[...] = np.where(np.arange(fst.num_states) % 2, np.inf, 0.25)
    graphs = cyclic_graphs(fsts, 3)
    arguments = cyclic(graphs, 2 * ops_cases.matrix(rng, num_frames, len(graphs.columns)))
    wide = [ops_cases.double_copy(argument) for argument in arguments]
    ops_cases.reference.chain_cyclic_numerator(*wide)
    ops.chain_cyclic_numerator(*arguments)
    for place in (0, 3):
        np.testing.assert_allclose(arguments[place], wide[place], atol=RECURSION)


def test_sequences_without_a_sum(rng):
    """One that is too short for its phones, one of which a score is not a number, and one that is neither."""
    graphs = cyclic_graphs([forward_graph(rng, states, 2) for states in (9, 2, 2)], 3)
    scores = ops_cases.matrix(rng, 2, len(graphs.columns))
    scores[1, graphs.first_columns[1]] = np.nan
    arguments = cyclic(graphs, scores)
    with np.errstate(all="ignore"):
        ops.chain_cyclic_numerator(*arguments)
    found = arguments[3][:, 0]
    assert found[0] == -np.inf and np.isnan(found[1]) and np.isfinite(found[2])
