"""Graphs pass to kaldifst and back unchanged."""
from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.fst.openfst import from_openfst, shortest_path, to_openfst
from nnet3py.transducers.fst import NO_WEIGHT, Fst, Stored

pytest.importorskip("kaldifst", reason="operations on graphs come from kaldifst")


def random_fst(seed: int, states: int = 40, arc_type: str = "standard") -> Fst:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, size=states)
    arcs = int(counts.sum())
    shape = (2,) if arc_type == "lattice4" else ()
    final = rng.random((states, *shape)).astype(np.float32)
    final[rng.random(states) < 0.5] = NO_WEIGHT
    return Fst(3, final, np.concatenate(([0], np.cumsum(counts))),
               rng.integers(0, 9, arcs).astype(np.int32), rng.integers(0, 9, arcs).astype(np.int32),
               rng.random((arcs, *shape)).astype(np.float32), rng.integers(0, states, arcs).astype(np.int32), arc_type)


@pytest.mark.parametrize("arc_type", ["standard", "lattice4"])
def test_there_and_back(arc_type: str) -> None:
    fst = random_fst(1, arc_type=arc_type)
    there = to_openfst(fst)
    back = from_openfst(there)
    assert back.equals(fst)
    assert back.stored is None


def test_empty() -> None:
    empty = Fst(-1, np.zeros(0, np.float32), np.zeros(1, np.int64), *(np.zeros(0, np.int32),) * 2,
                np.zeros(0, np.float32), np.zeros(0, np.int32))
    assert from_openfst(to_openfst(empty)).num_states == 0


@pytest.mark.parametrize(("part", "value", "message"), [
    ("input_labels", -1, "label -1, but labels are 0 or more"), ("output_labels", -7, "label -7, but"),
    ("weights", np.nan, "a cost that is not a number"), ("final_weights", np.nan, "a cost that is not a number")])
def test_what_would_crash_openfst_is_refused(part: str, value: float, message: str) -> None:
    fst = random_fst(4)
    values = getattr(fst, part).copy()
    values[1] = value
    with pytest.raises(FormatError, match=message):
        to_openfst(dataclasses.replace(fst, **{part: values}))


@pytest.mark.parametrize(("costs", "fits"), [([0.0, -1.0, 0.0], True), ([-1.0, 2.0, 0.0], False), ([0.0] * 3, True)])
def test_no_cheapest_path_through_a_cycle_with_a_negative_cost(costs: list[float], fits: bool) -> None:
    """States 0 and 1 are a cycle; the second arc leaves it."""
    fst = Fst.from_arcs(0, [NO_WEIGHT, NO_WEIGHT, 0.5], [0, 0, 1], [1, 2, 3], [1, 2, 3], costs, [1, 2, 0])
    if fits:
        best = from_openfst(shortest_path(fst))
        assert best.input_labels.tolist() == [2] and best.weights.tolist() == [costs[1]]
    else:
        with pytest.raises(Nnet3Error, match="the cycle that state 0 is in has an arc of negative cost"):
            shortest_path(fst)


def test_false_properties_do_no_harm() -> None:
    fst = random_fst(2)
    sorted_bit = 0x10000000                     # OpenFst's "input labels are sorted", which they are not
    lying = dataclasses.replace(fst, stored=Stored("vector", sorted_bit, 0))
    assert not to_openfst(lying).is_ilabel_sorted
    assert to_openfst(fst).properties(sorted_bit, True) == 0


def test_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kaldifst", None)
    with pytest.raises(Nnet3Error, match="chain"):
        to_openfst(random_fst(3))
