"""Determinization: against all paths of random lattices, and against Kaldi's lattices bit for bit."""
from __future__ import annotations

import dataclasses
import logging
import sys

import numpy as np
import pytest
from decoding_cases import DATA, LIKES, MODEL, table
from graph_paths import path_costs

from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.lattice_decoder import Decoder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import NumericError, ShapeError
from nnet3py.lattices.determinize import determinize, determinize_phone_pruned, determinize_pruned
from nnet3py.lattices.determinize_options import DeterminizeOptions, PhoneDeterminizeOptions
from nnet3py.lattices.states import LatticeError, trimmed
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.lattice import COMPACT_LATTICES, expanded

COST = 1e-4
FRAMES = 5
WIDE = DecoderOptions(beam=12.0, lattice_beam=5.0)


def random_lattice(seed: int, states_each: int = 3) -> Fst:
    """Layers of states, one for each frame; arcs from layer to layer, and some without transition-ids inside."""
    rng = np.random.default_rng(seed)
    arcs = []
    for frame in range(FRAMES):
        for state in range(frame * states_each, (frame + 1) * states_each):
            for _ in range(3):
                arcs.append((state, int(rng.integers(1, 5)), int(rng.integers(0, 3)),
                             int(rng.integers((frame + 1) * states_each, (frame + 2) * states_each))))
            if state + 1 < (frame + 1) * states_each and rng.random() < 0.5:
                arcs.append((state, 0, int(rng.integers(0, 3)), state + 1))
    sources, inputs, outputs, targets = zip(*arcs, strict=True)
    final = np.full(((FRAMES + 1) * states_each, 2), NO_WEIGHT, dtype=np.float32)
    final[-states_each:] = rng.random((states_each, 2))
    return Fst.from_arcs(0, final, sources, inputs, outputs, rng.random((len(arcs), 2)), targets, "lattice4")


def best_of_words(costs: dict) -> dict:
    """The cheapest transition-ids of each word sequence, with their cost."""
    best: dict = {}
    for (ids, words), cost in costs.items():
        if words not in best or cost < best[words][0]:
            best[words] = cost, ids
    return best


def is_deterministic(lattice: CompactLattice) -> bool:
    pairs = list(zip(lattice.sources.tolist(), lattice.labels.tolist(), strict=True))
    return len(set(pairs)) == len(pairs) and 0 not in lattice.labels


@pytest.mark.parametrize("beam", [0.7, 2.0, np.inf])
@pytest.mark.parametrize("seed", range(6))
def test_against_all_paths(seed, beam):
    lattice = random_lattice(seed)
    expected = best_of_words(path_costs(lattice, FRAMES))
    result = determinize_pruned(lattice, beam)
    assert result.complete and result.effective_beam == beam and is_deterministic(result.lattice)
    found = path_costs(expanded(trimmed(result.lattice)), FRAMES)
    assert len({words for _, words in found}) == len(found)
    least = min(cost for cost, _ in expected.values())
    assert {words for words, (cost, _) in expected.items() if cost < least + beam - COST} <= {w for _, w in found}
    for (ids, words), cost in found.items():
        assert expected[words] == (pytest.approx(cost, abs=1.1 * DeterminizeOptions.delta * FRAMES), ids)


def test_states_in_any_order():
    lattice = random_lattice(1)
    last = lattice.num_states - 1
    turned = Fst.from_arcs(last, lattice.final_weights[::-1], last - lattice.sources, lattice.input_labels,
                           lattice.output_labels, lattice.weights, last - lattice.next_states, "lattice4")
    for one, other in zip(*(best_of_words(path_costs(expanded(determinize(each)), FRAMES)).items()
                            for each in (lattice, turned)), strict=True):
        assert one[0] == other[0] and one[1] == (pytest.approx(other[1][0], abs=COST), other[1][1])


def test_arrays_grow(monkeypatch):
    lattice = random_lattice(2)
    expected = determinize(lattice)
    monkeypatch.setattr(sys.modules["nnet3py.lattices.determinize"], "_FIRST_ROOM", 1)
    assert determinize(lattice).equals(expected)


def test_limits_and_retries(caplog):
    lattice = random_lattice(3)
    whole = determinize(lattice)
    few = determinize_pruned(lattice, np.inf, DeterminizeOptions(max_states=3))
    assert not few.complete and few.lattice.num_states <= 5 < whole.num_states
    few = determinize_pruned(lattice, np.inf, DeterminizeOptions(max_arcs=3))
    assert not few.complete and few.lattice.num_arcs <= 4
    with caplog.at_level(logging.INFO):
        small = determinize_pruned(lattice, 4.0, DeterminizeOptions(max_mem=2000))
    assert "Did not reach requested beam in determinize-lattice" in caplog.text
    assert "pruning raw lattice with new beam" in caplog.text and small.effective_beam < 4.0
    assert best_of_words(path_costs(expanded(trimmed(small.lattice)), FRAMES))


def test_lattices_without_paths():
    lattice = random_lattice(4)
    none = dataclasses.replace(lattice, final_weights=np.full_like(lattice.final_weights, NO_WEIGHT))
    empty = Fst.from_arcs(-1, np.zeros((0, 2)), [], [], [], np.zeros((0, 2)), [], "lattice4")
    for one in (none, empty):
        result = determinize_pruned(one, 5.0)
        assert result.lattice.num_states == 0 and result.complete


def test_what_cannot_be_determinized():
    lattice = random_lattice(5)
    weights = lattice.weights.copy()
    weights[7, 1] = np.nan
    with pytest.raises(NumericError, match="NaN"):
        determinize(dataclasses.replace(lattice, weights=weights))
    targets = lattice.next_states.copy()
    targets[-1] = 0
    with pytest.raises(LatticeError, match="cycle"):
        determinize(dataclasses.replace(lattice, next_states=targets))


def test_infinite_costs_are_no_paths():
    lattice = random_lattice(5)
    weights = lattice.weights.copy()
    weights[7] = np.inf
    without = np.delete(np.arange(lattice.num_arcs), 7)
    pruned = Fst.from_arcs(0, lattice.final_weights, lattice.sources[without], lattice.input_labels[without],
                           lattice.output_labels[without], lattice.weights[without], lattice.next_states[without],
                           "lattice4")
    assert determinize(dataclasses.replace(lattice, weights=weights)).equals(determinize(pruned))


# -- after decoding ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options", "determinize_options"), [
    ("decode", WIDE, PhoneDeterminizeOptions()),
    ("max-active", DecoderOptions(12.0, max_active=60, min_active=20, lattice_beam=6.0), PhoneDeterminizeOptions()),
    ("words-only", WIDE, PhoneDeterminizeOptions(phone_determinize=False)),
    ("small-memory", WIDE, PhoneDeterminizeOptions(max_mem=30000)),
    ("minimize", WIDE, PhoneDeterminizeOptions(minimize=True))])
def test_lattices_are_kaldis(name, options, determinize_options):
    decoder = Decoder(DecodingGraph.read(DATA / "HCLG.fst", MODEL), MODEL, options)
    for matrix, expected in zip(LIKES, table(name, COMPACT_LATTICES), strict=True):
        assert decoder.determinize(decoder.decode(matrix), determinize_options).lattice.equals(expected)


def test_no_determinization_at_all(caplog):
    decoder = Decoder(DecodingGraph.read(DATA / "HCLG.fst", MODEL), MODEL, DecoderOptions(5.0, lattice_beam=3.0))
    found = decoder.decode(LIKES[0][:12])
    none = PhoneDeterminizeOptions(phone_determinize=False, word_determinize=False)
    result = decoder.determinize(found, none)
    assert "copying lattice without determinization" in caplog.text
    expected = path_costs(found.lattice, 12)
    assert path_costs(expanded(result.lattice), 12) == {key: pytest.approx(cost, abs=COST)
                                                        for key, cost in expected.items()}


def test_transition_ids_of_another_model():
    lattice = dataclasses.replace(random_lattice(0), input_labels=random_lattice(0).input_labels + 1000)
    with pytest.raises(ShapeError, match="1 to 60"):
        determinize_phone_pruned(MODEL, lattice, 5.0)
