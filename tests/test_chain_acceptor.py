"""Acceptors as lists: determinized, minimized, composed, pushed; against brute force and against OpenFst."""
from __future__ import annotations

import numpy as np
import pytest
from chain_graphs import acceptor
from graph_paths import path_costs

from nnet3py.chain.acceptor import (
    Acceptor,
    SupervisionError,
    breadth_first,
    composed,
    connected,
    determinized,
    minimized,
    pushed_to_start,
)
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import connected as connected_fst

LAYERS = 6
ROUNDING = 2e-5         # minimization rounds each cost to 1e-6


def layered(seed: int, labels: int = 3, width: int = 3) -> Fst:
    """A random FST each of whose states belongs to one layer; costs are multiples of 1/64, so sums are exact."""
    rng = np.random.default_rng(seed)
    states = [[0], *(list(range(1 + width * layer, 1 + width * (layer + 1))) for layer in range(LAYERS))]
    arcs = [(source, int(rng.integers(1, labels + 1)), int(target), int(rng.integers(0, 256)) / 64)
            for before, after in zip(states, states[1:], strict=False) for source in before
            for target in rng.choice(after, size=rng.integers(1, 5))]
    finals = {state: int(rng.integers(0, 64)) / 64 for state in states[-1]}
    return connected_fst(acceptor(1 + width * LAYERS, 0, arcs, finals))


def costs(fst: Fst) -> dict[tuple[int, ...], float]:
    return {} if fst.start < 0 else {labels: cost for (labels, _), cost in path_costs(fst, LAYERS).items()}


def is_deterministic(one: Acceptor) -> bool:
    return all(len({label for label, _, _ in arcs}) == len(arcs) for arcs in one.arcs)


@pytest.mark.parametrize("seed", range(8))
def test_the_same_sequences_and_costs(seed: int) -> None:
    fst = layered(seed)
    wanted = costs(fst)
    made = determinized(Acceptor.from_fst(fst))
    assert is_deterministic(made)
    assert costs(made.fst()) == wanted
    small = minimized(made)
    assert is_deterministic(small) and small.num_states <= made.num_states
    assert costs(small.fst()) == pytest.approx(wanted, abs=ROUNDING)
    pushed = pushed_to_start(Acceptor.from_fst(fst)).fst()
    least = min(wanted.values())
    assert costs(pushed) == pytest.approx({labels: cost - least for labels, cost in wanted.items()}, abs=ROUNDING)
    assert min(cost for arcs in pushed_to_start(made).arcs for _, cost, _ in arcs) == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_as_small_as_openfst_makes_it(seed: int) -> None:
    kaldifst = pytest.importorskip("kaldifst", reason="compares with OpenFst itself")
    from nnet3py.fst.openfst import from_openfst, to_openfst

    fst = layered(seed, labels=2)
    graph = kaldifst.determinize(to_openfst(fst))
    kaldifst.minimize(graph)
    theirs = from_openfst(graph)
    ours = minimized(determinized(Acceptor.from_fst(fst))).fst()
    assert (ours.num_states, ours.num_arcs) == (theirs.num_states, theirs.num_arcs)
    assert costs(ours) == pytest.approx(costs(theirs), abs=ROUNDING)


@pytest.mark.parametrize("seed", range(4))
def test_composition_sums_costs(seed: int) -> None:
    first, second = layered(seed), layered(seed + 100)
    by_label: list[dict[int, list[tuple[np.float32, int]]]] = []
    other = Acceptor.from_fst(second)
    for arcs in other.arcs:
        by_label.append({})
        for label, cost, target in arcs:
            by_label[-1].setdefault(label, []).append((cost, target))
    both = composed(Acceptor.from_fst(first), by_label, other.finals, other.start)
    left, right = costs(first), costs(second)
    assert costs(both.fst()) == {labels: left[labels] + right[labels] for labels in left.keys() & right.keys()}
    empty = composed(Acceptor.from_fst(first), [{}] * other.num_states, other.finals, other.start)
    assert empty.start == -1 and empty.num_states == 0


def test_states_that_lead_nowhere() -> None:
    fst = acceptor(5, 0, [(0, 1, 1, 0.0), (0, 2, 2, 1.0), (1, 1, 4, 0.5)], {4: 0.25})
    kept = connected(Acceptor.from_fst(fst))
    assert kept.num_states == 3 and costs(kept.fst()) == {(1, 1): 0.75}
    backward = Acceptor(kept.arcs[::-1] + [[]], kept.finals[::-1] + [np.float32(0.0)], 2)
    backward.arcs = [[(label, cost, 2 - target) for label, cost, target in arcs] for arcs in backward.arcs]
    again = breadth_first(backward)
    assert again.arcs == kept.arcs and again.finals == kept.finals and again.start == 0
    assert connected(Acceptor.from_fst(acceptor(2, 0, [(0, 1, 1, 0.0)], {}))).start == -1
    nothing = determinized(Acceptor([], [], -1))
    assert nothing.start == -1 and minimized(nothing).start == -1


def test_too_many_states_and_cycles_are_refused() -> None:
    fst = layered(0)
    with pytest.raises(SupervisionError, match="Not attempting determinization as number of states is too large"):
        determinized(Acceptor.from_fst(fst), max_states=fst.num_states)
    with pytest.raises(SupervisionError, match="Determinization stopped early after reaching 3 states"):
        determinized(Acceptor.from_fst(acceptor(2, 0, [(0, 1, 1, 0.0), (0, 2, 0, 0.0), (1, 1, 0, 0.0), (1, 1, 1, 0.0)],
                                                {0: 0.0, 1: 0.0})), max_states=3)
    with pytest.raises(SupervisionError, match="cycle"):
        minimized(Acceptor.from_fst(acceptor(2, 0, [(0, 1, 1, 0.0), (1, 1, 0, 0.0)], {1: 0.0})))
    with pytest.raises(SupervisionError, match="the cost nan"):
        Acceptor.from_fst(acceptor(2, 0, [(0, 1, 1, np.nan)], {1: 0.0}))
