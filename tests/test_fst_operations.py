"""Concatenation, removal of epsilons and numbering of FSTs, against hand-made ones and the set of all paths."""
from __future__ import annotations

import numpy as np
import pytest
from graph_paths import path_costs
from hypothesis import given, settings
from hypothesis import strategies as st
from io_samples import reader_of
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from nnet3py.errors import Nnet3Error
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import breadth_first, concatenated, connected, without_epsilons
from nnet3py.transducers.fst_text import read_text_fst
from nnet3py.transducers.lattice import read_lattice
from nnet3py.transducers.state_graphs import starts_by, strong_parts

COST_TOLERANCE = 1e-4        # float32 sums of a few costs in another order


def fst(*lines: str) -> Fst:
    return read_text_fst(reader_of(("\n" + "\n".join(lines) + "\n\n").encode(), False))


def arcs(machine: Fst) -> list[tuple[int, ...]]:
    columns = np.stack([machine.sources, machine.next_states, machine.input_labels], axis=1)
    return [tuple(row) for row in columns.tolist()]


def language(machine: Fst) -> dict[tuple[int, ...], float]:
    """The cost of the cheapest path of every sequence of labels that an acyclic FST accepts."""
    costs = path_costs(machine, longest=50, most_epsilons=50) if machine.start >= 0 else {}
    return {labels: cost for (labels, _), cost in costs.items()}


def test_concatenation_joins_by_epsilons_behind_the_arcs() -> None:
    first = fst("0 1 5 5 0.5", "1 2 6 6", "1 0.25", "2 1")
    second = fst("0 1 7 7", "1")
    joined = concatenated([first, second])
    assert arcs(joined) == [(0, 1, 5), (1, 2, 6), (1, 3, 0), (2, 3, 0), (3, 4, 7)]
    assert joined.weights.tolist() == [0.5, 0.0, 0.25, 1.0, 0.0]
    assert joined.is_final.tolist() == [False, False, False, False, True]
    assert joined.start == 0 and joined.stored is None
    with pytest.raises(Nnet3Error, match="without states"):
        concatenated([first, connected(fst("0 1 5 5"))])


def test_epsilons_are_replaced_by_what_they_lead_to_in_reverse_order() -> None:
    machine = without_epsilons(fst("0 1 1 1", "0 1 2 2", "1 2 0 0 0.5", "2 3 3 3 1", "2 3 4 4 2", "3"))
    assert arcs(machine) == [(0, 1, 2), (0, 1, 1), (1, 2, 4), (1, 2, 3)]      # state 2 went
    assert machine.weights.tolist() == [0.0, 0.0, 2.5, 1.5]
    chain = without_epsilons(fst("0 1 0 0 1", "1 2 0 0 2", "2 3 7 7", "2 4", "3"))
    assert arcs(chain) == [(0, 1, 7)] and chain.weights.tolist() == [3.0]
    assert chain.final_weights.tolist() == [7.0, 0.0]                          # the empty sequence costs 1 + 2 + 4


def test_of_equal_arcs_the_cheapest_stays() -> None:
    machine = without_epsilons(fst("0 1 7 7 3", "0 2 0 0 0.5", "2 1 7 7 1", "1"))
    assert arcs(machine) == [(0, 1, 7)] and machine.weights.tolist() == [1.5]


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(Nnet3Error, match="cycle of epsilon arcs"):
        without_epsilons(fst("0 1 1 1", "1 2 0 0", "2 1 0 0", "2"))
    with pytest.raises(Nnet3Error, match="cycle"):
        without_epsilons(fst("0 0 0 0", "0"))
    with pytest.raises(Nnet3Error, match="FSTs whose arcs have one cost"):
        without_epsilons(read_lattice(reader_of(b"\n0 1 1 1 1,2\n1\n\n", False)))


def test_connection_and_order() -> None:
    machine = connected(fst("0 3 1 1", "0 1 2 2", "2 1 3 3", "3 1 4 4", "3 4 5 5", "1"))
    assert arcs(machine) == [(0, 2, 1), (0, 1, 2), (2, 1, 4)]      # 2 cannot be reached, 4 leads nowhere
    assert arcs(breadth_first(machine)) == [(0, 1, 1), (0, 2, 2), (1, 2, 4)]
    assert connected(machine) is machine
    nothing = connected(fst("0 1 5 5"))
    assert nothing.start == -1 and nothing.num_states == 0 and breadth_first(nothing) is nothing
    assert arcs(breadth_first(fst("0 1 2 2", "2 1 3 3", "1"))) == [(0, 1, 2)]


@st.composite
def acyclic(draw: st.DrawFn) -> Fst:
    size = draw(st.integers(2, 6))
    lines = []
    for _ in range(draw(st.integers(1, 12))):
        source = draw(st.integers(0, size - 2))
        target, label = draw(st.integers(source + 1, size - 1)), draw(st.integers(0, 3))
        lines.append(f"{source} {target} {label} {label} {draw(st.integers(0, 8)) / 4}")
    lines.sort(key=lambda line: line.split()[0] != "0")
    return fst("0 1 1 1", *lines, str(size - 1), *(["1 0.5"] if size > 2 else []))


@settings(deadline=None, max_examples=200)
@given(acyclic(), acyclic())
def test_the_accepted_sequences_and_their_costs_stay(first: Fst, second: Fst) -> None:
    joined = concatenated([first, second])
    result = breadth_first(without_epsilons(joined))
    assert not (result.input_labels == 0).any()
    expected, found = language(joined), language(result)
    assert set(found) == set(expected)
    assert all(abs(found[labels] - cost) < COST_TOLERANCE for labels, cost in expected.items())
    pairs = {(*one, *other) for one in language(first) for other in language(second)}
    assert set(expected) == pairs


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25))
def test_small_graphs_have_the_same_strong_parts_as_by_scipy(pairs: list[tuple[int, int]]) -> None:
    sources, targets = np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2).T
    parts = strong_parts(starts_by(sources, 10), np.ascontiguousarray(targets))
    graph = csr_matrix((np.ones(len(pairs)), (sources, targets)), (10, 10))
    expected = connected_components(graph, connection="strong")[1]
    np.testing.assert_array_equal(parts[:, None] == parts, expected[:, None] == expected)
