"""The decoder against a plain Viterbi search and against all paths; lattices; what cannot be decoded."""
from __future__ import annotations

import numpy as np
import pytest
from graph_paths import path_costs

from nnet3py.decoding.lattice_decoder import Decoder
from nnet3py.decoding.lexicon import GraphBuilder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.hmm.topology import HmmState, HmmTopology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import Constant, ContextDependency, Table, initial_transition_model
from nnet3py.transducers.fst import Fst

COST = 1e-4           # sums of float32
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
    assert -found.log_likelihood == pytest.approx(viterbi_cost(graph, likes), abs=COST)
    pdfs = (found.alignment - 1) // 2
    assert found.acoustic_cost == pytest.approx(-likes[np.arange(frames), pdfs].sum(), abs=COST)
    assert len(found.alignment) == frames
    costs = path_costs(found.lattice, frames)
    key = tuple(found.alignment.tolist()), tuple(found.words.tolist())
    assert costs[key] == pytest.approx(-found.log_likelihood, abs=COST)
    assert min(costs.values()) == pytest.approx(costs[key], abs=COST)
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
    wanted = {key for key, cost in every.items() if cost < best + beam - COST}
    assert len(wanted) > 1 and wanted <= in_lattice.keys() <= every.keys()
    for key, cost in in_lattice.items():
        assert cost == pytest.approx(every[key], abs=COST)


def test_narrow_search_finds_less_or_the_same():
    graph, likes = random_graph(3, 30), log_likes(3, 20)
    best = viterbi_cost(graph, likes)
    decoder = Decoder(graph, model())
    narrow = decoder.decode(likes, DecoderOptions(beam=1.0, min_active=1, max_active=2))
    assert -decoder.decode(likes, DecoderOptions()).log_likelihood == pytest.approx(best, abs=COST)
    assert narrow is None or not narrow.reached_final or -narrow.log_likelihood >= best - COST


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


def test_what_cannot_be_decoded():
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


@pytest.mark.parametrize("values", [{"beam": 0.0}, {"lattice_beam": -1.0}, {"max_active": 1}, {"max_active": 100},
                                    {"prune_interval": 0}, {"hash_ratio": 0.5}, {"beam": float("nan")}])
def test_options(values):
    with pytest.raises(UsageError):
        DecoderOptions(**values).check()
