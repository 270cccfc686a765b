"""Lattices for tests: Kaldi's, random ones, and what is told of them by going along every path."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from io_samples import read_table
from paths import DATA

from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.lattice import COMPACT_LATTICES, LATTICES

LATTICE_DATA = DATA / "lattices"     # of three utterances, made by Kaldi; the folders are named after the steps


class Way(NamedTuple):
    """A path: its words and transition-ids, and its costs."""

    words: tuple[int, ...]
    ids: tuple[int, ...]
    graph: float
    acoustic: float

    @property
    def cost(self) -> float:
        return self.graph + self.acoustic


def kaldi_lattices(name: str) -> dict[str, CompactLattice]:
    """Compact lattices of a step, such as ``decode/lat.ark``."""
    return read_table(f"ark:{LATTICE_DATA / name}", COMPACT_LATTICES)


def kaldi_raw_lattices(name: str):    # type: ignore[no-untyped-def]
    """Lattices of a step with a transition-id on each arc."""
    return read_table(f"ark:{LATTICE_DATA / name}", LATTICES)


def transition_model() -> TransitionModel:
    """The model of Kaldi's lattices."""
    from nnet3py.io.object_files import read_object

    return read_object(str(LATTICE_DATA / "data" / "trans.mdl"), TransitionModel.read)


def random_lattice(seed: int, num_states: int = 7, num_words: int = 3, frames: int = 2,
                   no_word: float = 0.2) -> CompactLattice:
    """A lattice in which every arc that goes on by n states has n * ``frames`` transition-ids; all states are on paths.

    Weights are multiples of 1/8, so that sums have no rounding.
    """
    rng = np.random.default_rng(seed)
    arcs = [(state, state + 1) for state in range(num_states - 1)]
    arcs += [(int(source), int(target)) for source, target in
             (np.sort(rng.choice(num_states, 2, replace=False)) for _ in range(2 * num_states))]
    sources, targets = np.array(arcs).T
    lengths = (targets - sources) * frames
    labels = np.where(rng.random(len(arcs)) < no_word, 0, rng.integers(1, num_words + 1, len(arcs)))
    finals = np.full((num_states, 2), np.inf, dtype=np.float32)
    finals[-1] = rng.integers(0, 16, 2) / 8
    return CompactLattice.from_arcs(0, finals, sources, labels, rng.integers(-16, 32, (len(arcs), 2)) / 8, lengths,
                                    rng.integers(1, 50, lengths.sum()), targets)


def ways(lattice: CompactLattice) -> list[Way]:
    """All paths, by going along each."""
    found: list[Way] = []
    sources = lattice.sources

    def go_on(state: int, way: Way) -> None:
        if lattice.is_final[state]:
            graph, acoustic = lattice.final_weights[state].tolist()
            found.append(Way(way.words, way.ids + tuple(lattice.final_string(state).tolist()), way.graph + graph,
                             way.acoustic + acoustic))
        for arc in np.flatnonzero(sources == state).tolist():
            graph, acoustic = lattice.weights[arc].tolist()
            label = int(lattice.labels[arc])
            go_on(int(lattice.next_states[arc]),
                  Way(way.words + ((label,) if label else ()), way.ids + tuple(lattice.string(arc).tolist()),
                      way.graph + graph, way.acoustic + acoustic))

    if lattice.start >= 0:
        go_on(lattice.start, Way((), (), 0.0, 0.0))
    return found


def best_by_words(lattice: CompactLattice) -> dict[tuple[int, ...], Way]:
    """Of each word sequence the cheapest path."""
    best: dict[tuple[int, ...], Way] = {}
    for way in ways(lattice):
        if way.words not in best or way.cost < best[way.words].cost:
            best[way.words] = way
    return best


def check_same_words(found: CompactLattice, expected: CompactLattice, tolerance: float, inside: float = np.inf) -> None:
    """The word sequences, those within ``inside`` of the best at least, are the same, and cost the same."""
    one, other = best_by_words(found), best_by_words(expected)
    best = min(way.cost for way in other.values())
    for words in {*one, *other}:
        costs = [ways_of[words].cost if words in ways_of else np.inf for ways_of in (one, other)]
        if min(costs) <= best + inside:
            assert abs(costs[0] - costs[1]) <= tolerance, (words, costs)


def check_same_paths(found: CompactLattice, expected: CompactLattice, tolerance: float) -> None:
    """All paths are the same, with their transition-ids, and cost the same."""
    def costs(lattice: CompactLattice) -> dict[tuple[tuple[int, ...], tuple[int, ...]], list[float]]:
        table: dict[tuple[tuple[int, ...], tuple[int, ...]], list[float]] = {}
        for way in ways(lattice):
            table.setdefault((way.words, way.ids), []).append(way.cost)
        return {key: sorted(values) for key, values in table.items()}

    one, other = costs(found), costs(expected)
    assert one.keys() == other.keys()
    for key, values in other.items():
        np.testing.assert_allclose(one[key], values, atol=tolerance)
