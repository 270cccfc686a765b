"""nnet3py/decoding/graph.py: the best sequence of phones is that of a slow search over all of them."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from graph_systems import SYSTEMS, monophone_system

from nnet3py.decoding.graph import phone_loop
from nnet3py.decoding.lattice_decoder import Decoder
from nnet3py.decoding.lexicon import GraphBuilder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import UsageError
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.topology import chain_topology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.transducers.fst import Fst

WIDE = DecoderOptions(beam=1e4, max_active=100_000, lattice_beam=0.1)
FLOAT32 = 1e-3            # of sums of some hundred log-likelihoods


def slow_search(model: TransitionModel, log_likes: np.ndarray, penalty: float, scale: float) -> tuple[float, list[int]]:
    """The best log-likelihood and its phones: over transition-states and where they lead, frame by frame."""
    last = {phone: len(model.topology.entries[entry]) - 1 for phone, entry in model.topology.entry_of_phone.items()}
    phones = sorted({int(phone) for phone in model.tuples[:, 0]})
    steps = []                                            # what may be done at a frame, but staying
    for tid in range(1, model.num_transition_ids + 1):
        state = int(model.transition_id_to_state[tid])
        phone, hmm_state, forward, loop = model.tuples[state - 1].tolist()
        if not model.is_self_loop[tid]:
            index = int(model.transition_id_to_index[tid])
            target = model.topology.entries[model.topology.entry_of_phone[phone]][hmm_state].transitions[index][0]
            leaving = float(model.non_self_loop_log_probs[state])
            stay = int(model.self_loop_of[state])
            steps.append((phone, hmm_state, target, forward, loop, float(model.log_probs[tid]) - leaving,
                          scale * leaving, scale * float(model.log_probs[stay]) if stay else -np.inf))
    enter = -np.log(len(phones)) - penalty
    best = {"start": (0.0, [])}                           # where we are -> log-likelihood, phones
    for row in log_likes.astype(np.float64):
        new: dict[object, tuple[float, list[int]]] = {}
        for number, (phone, hmm_state, _, forward, loop, cost, _, staying) in enumerate(steps):
            ways = []
            for place, (score, so_far) in best.items():
                if place == number:
                    ways.append((score + staying + row[loop], so_far))
                if place == "start" or steps[place][2] == last[steps[place][0]]:      # type: ignore[index, call-overload]
                    leaving = 0.0 if place == "start" else steps[place][6]             # type: ignore[index, call-overload]
                    if hmm_state == 0:
                        ways.append((score + leaving + enter + cost + row[forward], [*so_far, phone]))
                elif steps[place][0] == phone and steps[place][2] == hmm_state:       # type: ignore[index, call-overload]
                    ways.append((score + steps[place][6] + cost + row[forward], so_far))  # type: ignore[index, call-overload]
            if ways:
                new[number] = max(ways)
        best = new                                        # type: ignore[assignment]
    return max((score + steps[place][6], so_far) for place, (score, so_far) in best.items()      # type: ignore[call-overload]
               if steps[place][2] == last[steps[place][0]])                            # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["chain", "three-states", "left-biphone", "triphone"])
@pytest.mark.parametrize(("penalty", "scale"), [(0.0, 1.0), (-1.0, 0.1)])
def test_the_best_path_is_that_of_a_slow_search(name: str, penalty: float, scale: float) -> None:
    model = SYSTEMS[name]()[1]
    log_likes = 3.0 * np.random.default_rng(1).standard_normal((12, model.num_pdfs)).astype(np.float32)
    loop = phone_loop(model, insertion_penalty=penalty, self_loop_scale=scale)
    decoded = Decoder(loop.graph, model, WIDE).decode(log_likes)
    expected, phones = slow_search(model, log_likes, penalty, scale)
    assert decoded is not None and decoded.reached_final
    assert decoded.log_likelihood == pytest.approx(expected, abs=FLOAT32)
    assert [loop.phones.names[number] for number in decoded.words.tolist()] == list(map(str, phones))
    starts, complete = phone_starts(model, decoded.alignment, reordered=True)
    assert complete and model.transition_id_to_phone[decoded.alignment[starts]].tolist() == phones


def test_with_a_tree_pdfs_are_those_of_the_neighbors() -> None:
    """The best of all sequences of three phones, with the pdfs that the tree gives them: one frame each."""
    tree, model = SYSTEMS["left-biphone"]()
    log_likes = 3.0 * np.random.default_rng(2).standard_normal((3, model.num_pdfs)).astype(np.float32)
    found = Decoder(phone_loop(model, tree=tree).graph, model, WIDE).decode(log_likes)
    assert found is not None
    first = {tuple(row[[0, 2]].tolist()): number for number, row in enumerate(model.tuples, 1)}

    def score(phones: tuple[int, ...]) -> float:
        total = 0.0
        for t, (before, phone) in enumerate(zip((0, *phones), phones, strict=False)):
            pdf = tree.pdf((before, phone), 0)
            leaves = int(model.first_transition_id[first[phone, pdf]]) + 1           # the chain topology's second
            total += float(log_likes[t, pdf]) + float(model.log_probs[leaves]) - np.log(3)
        return total

    threes = {phones: score(phones) for phones in itertools.product((1, 2, 3), repeat=3)}
    if len(found.words) == 3:
        assert found.log_likelihood == pytest.approx(max(threes.values()), abs=FLOAT32)
        assert tuple(found.words.tolist()) == max(threes, key=threes.__getitem__)
    else:                                                 # some phone lasts longer: then it is better than all of those
        assert found.log_likelihood > max(threes.values())
    anything = Decoder(phone_loop(model).graph, model, WIDE).decode(log_likes)
    assert anything is not None and anything.log_likelihood >= found.log_likelihood - FLOAT32


def line(*phones: int) -> Fst:
    graph = GraphBuilder()
    state = 0
    for phone in phones:
        graph.arc(state, phone, phone, 0.0, graph.state())
        state += 1
    graph.final(state)
    return graph.fst()


def test_a_phone_language_model_says_what_may_follow() -> None:
    tree, model = SYSTEMS["triphone"]()
    log_likes = np.random.default_rng(2).standard_normal((12, model.num_pdfs)).astype(np.float32)
    loop = phone_loop(model, {1: "a", 2: "b", 3: "c"}, tree=tree, phone_lm=line(2, 3, 3))
    decoded = Decoder(loop.graph, model, WIDE).decode(log_likes)
    assert decoded is not None and decoded.reached_final
    assert loop.phones.text(decoded.words) == "b c c"
    for wrong in ({"phone_lm": line(1)}, {"phone_lm": line(1), "tree": tree, "insertion_penalty": 1.0}):
        with pytest.raises(UsageError, match="needs the tree, and has costs of its own"):
            phone_loop(model, **wrong)                    # type: ignore[arg-type]


def test_phones_that_have_the_same_pdfs_are_one() -> None:
    topology = chain_topology([1, 2, 3, 4, 5])
    tree, model = monophone_system(topology)
    tuples = model.tuples.copy()
    tuples[3, 2:] = tuples[2, 2:]                         # phones 3 and 4
    model = TransitionModel(topology, tuples, model.log_probs)
    names = {1: "SIL", 2: "a_B", 3: "a_E", 4: "b_I", 5: "c_E"}
    loop = phone_loop(model, names)
    assert list(loop.phones.ids) == ["<eps>", "SIL", "a", "b_I", "c_E"]       # c_E is no a in another place
    entered = set(loop.graph.output_labels[loop.graph.output_labels > 0].tolist())
    assert {loop.phones.names[number] for number in entered} == {"SIL", "a", "c_E"}
    costs = loop.graph.weights[loop.graph.output_labels > 0]
    np.testing.assert_allclose(costs, np.log(4), rtol=1e-6)                   # SIL, a_B, a_E with b_I, c_E
    assert list(phone_loop(model).phones.ids) == ["<eps>", "1", "2", "3", "4", "5"]
    assert tree.num_pdfs == 10
