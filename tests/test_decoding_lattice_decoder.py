"""The lattice decoder: bit for bit Kaldi's lattices, however it is fed; partial results; threads; growing arrays."""
from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from nnet3py.decoding import lattice_decoder
from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.graph import read_fst_file
from nnet3py.decoding.lattice_decoder import LatticeDecoder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object
from nnet3py.io.tables import SequentialReader
from nnet3py.lattices.states import trimmed
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.lattice import LATTICES

DATA = Path(__file__).parent / "data" / "decoding"     # of a digits recognizer; lattices made by latgen-faster-mapped
NARROW = DecoderOptions(beam=5.0, lattice_beam=3.0, min_active=20)
COST = 1e-3                                            # sums of float32 over an utterance


@pytest.fixture(scope="module")
def graph() -> DecodingGraph:
    return DecodingGraph.read(DATA / "HCLG.fst", read_object(DATA / "trans.mdl", TransitionModel.read))


@pytest.fixture(scope="module")
def likes() -> list[np.ndarray]:
    with SequentialReader(f"ark:{DATA / 'loglikes.ark'}", FLOAT_MATRIX) as reader:
        return [matrix for _, matrix in reader]


def decoded(search: LatticeDecoder, likes: np.ndarray, *pieces: int) -> Fst:
    """The lattice, after giving the log-likelihoods in pieces of so many frames in turn."""
    search.init()
    first = 0
    while first < len(likes):
        for piece in pieces or (len(likes),):
            search.advance(likes[first:first + piece])
            first += piece
    search.finalize()
    return trimmed(search.raw_lattice())


def test_lattices_are_kaldis(graph, likes):
    search = LatticeDecoder(graph, NARROW)
    with SequentialReader(f"ark:{DATA / 'raw.ark'}", LATTICES) as reader:
        for matrix, (_, expected) in zip(likes, reader, strict=True):
            assert decoded(search, matrix).equals(expected)


@pytest.mark.parametrize("pieces", [(1,), (7, 0, 30)])
def test_pieces_of_any_size(graph, likes, pieces):
    search = LatticeDecoder(graph, NARROW)
    assert decoded(search, likes[0], *pieces).equals(decoded(search, likes[0]))


@pytest.mark.parametrize(("interval", "scale"), [(1, 0.1), (200, 0.1), (5, 0.5)])
def test_when_is_pruned_does_not_matter(graph, likes, interval, scale):
    """Within rounding at the beam's edge, which these data do not meet."""
    options = DecoderOptions(5.0, lattice_beam=3.0, min_active=20, prune_interval=interval, prune_scale=scale)
    assert decoded(LatticeDecoder(graph, options), likes[1]).equals(decoded(LatticeDecoder(graph, NARROW), likes[1]))


def test_arrays_grow(graph, likes, monkeypatch):
    expected = decoded(LatticeDecoder(graph), likes[0][:30])
    for name in ("_FIRST_TOKENS", "_FIRST_LINKS", "_FIRST_FRAMES", "_FIRST_STACK"):
        monkeypatch.setattr(lattice_decoder, name, 1)
    assert decoded(LatticeDecoder(graph), likes[0][:30]).equals(expected)


def test_threads_share_a_graph(graph, likes):
    expected = [decoded(LatticeDecoder(graph, NARROW), matrix) for matrix in likes]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda matrix: decoded(LatticeDecoder(graph, NARROW), matrix), likes * 4))
    assert all(one.equals(other) for one, other in zip(found, expected * 4, strict=True))


def lattice_cost(lattice: Fst) -> float:
    """The cost of the best path through a topologically sorted lattice."""
    costs = np.full(lattice.num_states, np.inf)
    costs[lattice.start] = 0.0
    arc_costs = lattice.weights.sum(axis=1)
    for state in range(lattice.num_states):
        for arc in range(lattice.arc_starts[state], lattice.arc_starts[state + 1]):
            to = lattice.next_states[arc]
            costs[to] = min(costs[to], costs[state] + arc_costs[arc])
    return float((costs + lattice.final_weights.sum(axis=1)).min())


@pytest.mark.parametrize("use_final", [False, True])
def test_partial_best_paths(graph, likes, use_final):
    search = LatticeDecoder(graph, NARROW)
    for frame, row in enumerate(likes[2][:40]):
        search.advance(row[None])
        path = search.best_path(use_final)
        assert search.num_frames == len(path.alignment) == frame + 1
        cost = float(path.weights.astype(np.float64).sum()) + path.final_cost
        ends_anywhere = not (use_final and search.reached_final)
        lattice = search.raw_lattice(use_final=not ends_anywhere)
        assert cost == pytest.approx(lattice_cost(lattice), abs=COST)
        acoustic = -likes[2][np.arange(frame + 1), graph.pdfs[path.alignment]].sum()
        assert path.weights[:, 1].sum() == pytest.approx(acoustic, abs=COST)


def test_partial_lattices_are_sorted_and_connected_to_their_frames(graph, likes):
    search = LatticeDecoder(graph, NARROW)
    search.advance(likes[0][:30])
    assert repr(search) == "<LatticeDecoder: 30 frames>"
    lattice = search.raw_lattice()
    assert (lattice.next_states > lattice.sources).all() and lattice.start == 0
    times = np.zeros(lattice.num_states, dtype=int)
    for source, to, label in zip(lattice.sources, lattice.next_states, lattice.input_labels, strict=True):
        times[to] = times[source] + (label != 0)
    assert times[lattice.is_final].tolist() == [30] * int(lattice.is_final.sum())


def test_final_costs(graph, likes):
    search = LatticeDecoder(graph, NARROW)
    search.advance(likes[0])
    relative = search.final_relative_cost()
    costs = [path.weights.sum() + path.final_cost for path in (search.best_path(False), search.best_path(True))]
    assert search.reached_final and relative == pytest.approx(costs[1] - costs[0], abs=COST) and relative >= 0.0


def test_without_final_states_all_are_final(likes):
    fst = read_fst_file(DATA / "HCLG.fst")
    fst = dataclasses.replace(fst, final_weights=np.full(fst.num_states, np.inf, dtype=np.float32), stored=None)
    search = LatticeDecoder(DecodingGraph.of_fst(fst, read_object(DATA / "trans.mdl", TransitionModel.read)), NARROW)
    search.advance(likes[0])
    assert not search.reached_final and search.final_relative_cost() == np.inf
    search.finalize()
    finals = search.raw_lattice().final_weights
    assert search.best_path().final_cost == 0.0
    assert finals[np.isfinite(finals[:, 0])].tolist() == [[0.0, 0.0]] * search.num_active and search.num_active > 0


def test_max_active_narrows(graph, likes):
    wide, narrow = LatticeDecoder(graph), LatticeDecoder(graph, DecoderOptions(max_active=10, min_active=5))
    for search in (wide, narrow):
        search.advance(likes[0][:20])
    assert narrow.num_active < wide.num_active
    assert lattice_cost(narrow.raw_lattice()) >= lattice_cost(wide.raw_lattice()) - COST


def test_what_cannot_be_decoded(graph, likes):
    search = LatticeDecoder(graph)
    with pytest.raises(ShapeError, match="log-likelihoods of 56 pdfs"):
        search.advance(likes[0][:, 1:])
    search.advance(likes[0][:5])
    bad = likes[0][5:10].copy()
    bad[2, 3] = np.nan
    with pytest.raises(NumericError, match="frame 7"):
        search.advance(bad)
    search.finalize()
    with pytest.raises(UsageError, match="init"):
        search.advance(likes[0])


def test_of_equal_paths_the_newest_is_the_best_one(graph):
    """As Kaldi's programs that print what was recognized so far do it."""
    fst = Fst.from_arcs(0, [np.inf, 0.0, 0.0], [0, 0], [1, 1], [5, 6], [0.5, 0.5], [1, 2])
    model = read_object(DATA / "trans.mdl", TransitionModel.read)
    search = LatticeDecoder(DecodingGraph.of_fst(fst, model))
    search.advance(np.zeros((1, model.num_pdfs), dtype=np.float32))
    for use_final in (False, True):
        path = search.best_path(use_final)
        assert path is not None and path.words.tolist() == [6]
