"""The lattice decoder: bit for bit Kaldi's lattices in pieces of any size; against Viterbi and all paths."""
from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from decoding_cases import DATA, LIKES, MODEL, table
from graph_paths import path_costs

from nnet3py.decoding import lattice_decoder, layout
from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.graph import read_fst_file
from nnet3py.decoding.lattice_decoder import Decoder, LatticeDecoder
from nnet3py.decoding.lexicon import GraphBuilder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.hmm.topology import HmmState, HmmTopology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import Constant, ContextDependency, Table, initial_transition_model
from nnet3py.io.object_files import read_object
from nnet3py.lattices.states import trimmed
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.lattice import LATTICES

NARROW = DecoderOptions(beam=5.0, lattice_beam=3.0, min_active=20)
COST = 1e-3                                            # sums of float32 over an utterance


@pytest.fixture(scope="module")
def graph() -> DecodingGraph:
    return DecodingGraph.read(DATA / "HCLG.fst", MODEL)


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


def test_lattices_are_kaldis(graph):
    search = LatticeDecoder(graph, NARROW)
    for matrix, expected in zip(LIKES, table("raw", LATTICES), strict=True):
        assert decoded(search, matrix).equals(expected)


@pytest.mark.parametrize("pieces", [(1,), (7, 0, 30)])
def test_pieces_of_any_size(graph, pieces):
    search = LatticeDecoder(graph, NARROW)
    assert decoded(search, LIKES[0], *pieces).equals(decoded(search, LIKES[0]))


@pytest.mark.parametrize(("interval", "scale"), [(1, 0.1), (200, 0.1), (5, 0.5)])
def test_when_is_pruned_does_not_matter(graph, interval, scale):
    """Within rounding at the beam's edge, which these data do not meet."""
    options = DecoderOptions(5.0, lattice_beam=3.0, min_active=20, prune_interval=interval, prune_scale=scale)
    assert decoded(LatticeDecoder(graph, options), LIKES[1]).equals(decoded(LatticeDecoder(graph, NARROW), LIKES[1]))


def test_arrays_grow(graph, monkeypatch):
    expected = decoded(LatticeDecoder(graph), LIKES[0][:30])
    for name in ("_FIRST_TOKENS", "_FIRST_LINKS", "_FIRST_FRAMES", "_FIRST_STACK"):
        monkeypatch.setattr(lattice_decoder, name, 1)
    assert decoded(LatticeDecoder(graph), LIKES[0][:30]).equals(expected)


def test_threads_share_a_graph(graph):
    expected = [decoded(LatticeDecoder(graph, NARROW), matrix) for matrix in LIKES]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda matrix: decoded(LatticeDecoder(graph, NARROW), matrix), LIKES * 4))
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
def test_partial_best_paths(graph, use_final):
    search = LatticeDecoder(graph, NARROW)
    for frame, row in enumerate(LIKES[2][:40]):
        search.advance(row[None])
        path = search.best_path(use_final)
        assert search.num_frames == len(path.alignment) == frame + 1
        cost = float(path.weights.astype(np.float64).sum()) + path.final_cost
        ends_anywhere = not (use_final and search.reached_final)
        lattice = search.raw_lattice(use_final=not ends_anywhere)
        assert cost == pytest.approx(lattice_cost(lattice), abs=COST)
        acoustic = -LIKES[2][np.arange(frame + 1), graph.pdfs[path.alignment]].sum()
        assert path.weights[:, 1].sum() == pytest.approx(acoustic, abs=COST)


def test_partial_lattices_are_sorted_and_connected_to_their_frames(graph):
    search = LatticeDecoder(graph, NARROW)
    search.advance(LIKES[0][:30])
    assert repr(search) == "<LatticeDecoder: 30 frames>"
    lattice = search.raw_lattice()
    assert (lattice.next_states > lattice.sources).all() and lattice.start == 0
    times = np.zeros(lattice.num_states, dtype=int)
    for source, to, label in zip(lattice.sources, lattice.next_states, lattice.input_labels, strict=True):
        times[to] = times[source] + (label != 0)
    assert times[lattice.is_final].tolist() == [30] * int(lattice.is_final.sum())


def test_the_lattice_of_the_first_frames_ends_in_the_last_of_them(graph):
    search = LatticeDecoder(graph, NARROW)
    search.advance(LIKES[0][:30])
    firsts = search._first_tokens()
    for num_frames in (12, 29, 30):
        lattice = search.raw_lattice(False, num_frames)
        tokens = slice(*firsts[num_frames:num_frames + 2])
        extra = search._token_costs[tokens, layout.EXTRA]
        offsets = search._offsets[:num_frames].sum()
        assert lattice_cost(lattice) == pytest.approx(float(extra.min() - offsets), abs=COST)
        lattice = trimmed(lattice)
        times = np.zeros(lattice.num_states, dtype=int)
        for source, to, label in zip(lattice.sources, lattice.next_states, lattice.input_labels, strict=True):
            times[to] = times[source] + (label != 0)
        assert set(times[lattice.is_final].tolist()) == {num_frames}


def test_final_costs(graph):
    search = LatticeDecoder(graph, NARROW)
    search.advance(LIKES[0])
    relative = search.final_relative_cost()
    costs = [path.weights.sum() + path.final_cost for path in (search.best_path(False), search.best_path(True))]
    assert search.reached_final and relative == pytest.approx(costs[1] - costs[0], abs=COST) and relative >= 0.0


def test_without_final_states_all_are_final():
    fst = read_fst_file(DATA / "HCLG.fst")
    fst = dataclasses.replace(fst, final_weights=np.full(fst.num_states, np.inf, dtype=np.float32), stored=None)
    search = LatticeDecoder(DecodingGraph.of_fst(fst, read_object(DATA / "trans.mdl", TransitionModel.read)), NARROW)
    search.advance(LIKES[0])
    assert not search.reached_final and search.final_relative_cost() == np.inf
    search.finalize()
    finals = search.raw_lattice().final_weights
    assert search.best_path().final_cost == 0.0
    assert finals[np.isfinite(finals[:, 0])].tolist() == [[0.0, 0.0]] * search.num_active and search.num_active > 0


def test_max_active_narrows(graph):
    wide, narrow = LatticeDecoder(graph), LatticeDecoder(graph, DecoderOptions(max_active=10, min_active=5))
    for search in (wide, narrow):
        search.advance(LIKES[0][:20])
    assert narrow.num_active < wide.num_active
    assert lattice_cost(narrow.raw_lattice()) >= lattice_cost(wide.raw_lattice()) - COST


def test_what_cannot_be_decoded(graph):
    search = LatticeDecoder(graph)
    with pytest.raises(ShapeError, match="log-likelihoods of 56 pdfs"):
        search.advance(LIKES[0][:, 1:])
    search.advance(LIKES[0][:5])
    bad = LIKES[0][5:10].copy()
    bad[2, 3] = np.nan
    with pytest.raises(NumericError, match="frame 7"):
        search.advance(bad)
    search.finalize()
    with pytest.raises(UsageError, match="init"):
        search.advance(LIKES[0])


def test_of_equal_paths_the_newest_is_the_best_one(graph):
    """As Kaldi's programs that print what was recognized so far do it."""
    fst = Fst.from_arcs(0, [np.inf, 0.0, 0.0], [0, 0], [1, 1], [5, 6], [0.5, 0.5], [1, 2])
    model = read_object(DATA / "trans.mdl", TransitionModel.read)
    search = LatticeDecoder(DecodingGraph.of_fst(fst, model))
    search.advance(np.zeros((1, model.num_pdfs), dtype=np.float32))
    for use_final in (False, True):
        path = search.best_path(use_final)
        assert path is not None and path.words.tolist() == [6]


SMALL_COST = 1e-4           # sums of float32
WIDE = 1000.0
PHONES = 4


def model() -> TransitionModel:
    """One pdf per phone; transition-ids 2 p - 1 and 2 p belong to pdf p - 1."""
    topology = HmmTopology([[HmmState(0, 0, [(0, 0.5), (1, 0.5)]), HmmState()]], dict.fromkeys(range(1, PHONES + 1), 0))
    tree = ContextDependency(1, 0, Table(0, (None, *(Constant(pdf) for pdf in range(PHONES)))))
    return initial_transition_model(tree, topology)


def random_graph(seed: int, states: int = 8) -> Fst:
    """Arcs without transition-id lead to higher states, so that they make no cycle."""
    rng = np.random.default_rng(seed)
    graph = GraphBuilder()
    for _ in range(states - 1):
        graph.state()
    for state in range(states):
        for _ in range(3):
            graph.arc(state, int(rng.integers(1, 2 * PHONES + 1)), int(rng.integers(0, 4)), float(rng.random()),
                      int(rng.integers(0, states)))
        if state < states - 1 and rng.random() < 0.5:
            graph.arc(state, 0, int(rng.integers(0, 4)), float(rng.random()), int(rng.integers(state + 1, states)))
        if rng.random() < 0.5 or state == states - 1:
            graph.final(state, float(rng.random()))
    return graph.fst()


def log_likes(seed: int, frames: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((frames, PHONES), dtype=np.float32)


def viterbi_cost(graph: Fst, likes: np.ndarray) -> float:
    """The cost of the best path, state by state."""
    costs = np.full(graph.num_states, np.inf)
    costs[graph.start] = 0.0
    arcs = list(zip(graph.sources.tolist(), graph.input_labels.tolist(), graph.weights.tolist(),
                    graph.next_states.tolist(), strict=True))

    def follow_epsilons() -> None:
        for source, label, weight, target in arcs:        # sorted by source, and they lead upwards
            if label == 0:
                costs[target] = min(costs[target], costs[source] + weight)

    follow_epsilons()
    for row in likes:
        following = np.full(graph.num_states, np.inf)
        for source, label, weight, target in arcs:
            if label:
                following[target] = min(following[target], costs[source] + weight - row[(label - 1) // 2])
        costs = following
        follow_epsilons()
    return float((costs + graph.final_weights).min())


@pytest.mark.parametrize("lattice_beam", [1e-6, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_best_path_against_viterbi(seed, lattice_beam):
    frames = 12
    graph, likes = random_graph(seed), log_likes(seed, frames)
    found = Decoder(graph, model(), DecoderOptions(beam=WIDE, lattice_beam=lattice_beam)).decode(likes)
    assert found.reached_final
    assert -found.log_likelihood == pytest.approx(viterbi_cost(graph, likes), abs=SMALL_COST)
    pdfs = (found.alignment - 1) // 2
    assert found.acoustic_cost == pytest.approx(-likes[np.arange(frames), pdfs].sum(), abs=SMALL_COST)
    assert len(found.alignment) == frames
    costs = path_costs(found.lattice, frames)
    key = tuple(found.alignment.tolist()), tuple(found.words.tolist())
    assert costs[key] == pytest.approx(-found.log_likelihood, abs=SMALL_COST)
    assert min(costs.values()) == pytest.approx(costs[key], abs=SMALL_COST)
    assert lattice_beam == 1.0 or len(costs) == 1


@pytest.mark.parametrize("seed", range(4))
def test_lattice_has_all_paths_within_its_beam(seed):
    frames, beam = 4, 2.0
    graph, likes = random_graph(seed, 5), log_likes(seed, frames)
    found = Decoder(graph, model(), DecoderOptions(beam=WIDE, lattice_beam=beam)).decode(likes)
    in_lattice = path_costs(found.lattice, frames)
    every = {(ids, words): cost - sum(likes[frame, (one - 1) // 2] for frame, one in enumerate(ids))
             for (ids, words), cost in path_costs(graph, frames).items() if len(ids) == frames}
    best = min(every.values())
    wanted = {key for key, cost in every.items() if cost < best + beam - SMALL_COST}
    assert len(wanted) > 1 and wanted <= in_lattice.keys() <= every.keys()
    for key, cost in in_lattice.items():
        assert cost == pytest.approx(every[key], abs=SMALL_COST)


def test_narrow_search_finds_less_or_the_same():
    graph, likes = random_graph(3, 30), log_likes(3, 20)
    best = viterbi_cost(graph, likes)
    decoder = Decoder(graph, model())
    narrow = decoder.decode(likes, DecoderOptions(beam=1.0, min_active=1, max_active=2))
    assert -decoder.decode(likes, DecoderOptions()).log_likelihood == pytest.approx(best, abs=SMALL_COST)
    assert narrow is None or not narrow.reached_final or -narrow.log_likelihood >= best - SMALL_COST


def one_way(final: bool) -> Fst:
    """A line of three transition-ids."""
    graph = GraphBuilder()
    state = 0
    for label in (1, 3, 5):
        following = graph.state()
        graph.arc(state, label, 1, 0.0, following)
        state = following
    if final:
        graph.final(state)
    return graph.fst()


def test_final_state_not_reached():
    found = Decoder(one_way(True), model()).decode(log_likes(0, 2))
    assert not found.reached_final
    assert found.alignment.tolist() == [1, 3]
    assert found.lattice.is_final.sum() == 1


def test_no_path_at_all():
    assert Decoder(one_way(True), model()).decode(log_likes(0, 5)) is None


def test_utterances_that_cannot_be_decoded():
    decoder = Decoder(one_way(True), model())
    for shape in ((0, PHONES), (3, PHONES + 1), (3,)):
        with pytest.raises(ShapeError, match="log-likelihoods of 4 pdfs"):
            decoder.decode(np.zeros(shape, dtype=np.float32))
    bad = log_likes(0, 3)
    bad[1, 2] = np.nan
    with pytest.raises(NumericError, match="frame 1"):
        decoder.decode(bad)


def test_graphs_of_other_models():
    graph = GraphBuilder()
    with pytest.raises(ShapeError, match="none"):
        Decoder(graph.fst(), model())
    graph.arc(0, 2 * PHONES + 1, 0, 0.0, 0)
    with pytest.raises(ShapeError, match="arc 0 of the graph, of state 0 has the input label 9, .* 1 to 8"):
        Decoder(graph.fst(), model())


def test_circle_of_epsilons():
    graph = GraphBuilder()
    other = graph.state()
    graph.arc(0, 1, 0, 0.0, other)
    graph.arc(0, 0, 0, 0.5, other)
    Decoder(graph.fst(), model())
    graph.arc(other, 0, 1, 0.0, 0)
    with pytest.raises(ShapeError, match="cycle"):
        Decoder(graph.fst(), model())


@pytest.mark.parametrize("values, message", [
    ({"beam": 0.0}, "expected above 0"), ({"max_active": 100}, "must not be less than --min-active=200")])
def test_options(values, message):
    graph = GraphBuilder()
    graph.arc(0, 1, 0, 0.0, graph.state())
    with pytest.raises(UsageError, match=message):
        Decoder(graph.fst(), model(), DecoderOptions(**values))
