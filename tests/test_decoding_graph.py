"""Graphs against all alignments of all sentences, one by one; training graphs; folders; the best sequence of phones."""
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from graph_paths import path_costs
from graph_systems import SYSTEMS, monophone_system

from nnet3py.decoding.grammar import Ngram, ngram_fst, word_loop
from nnet3py.decoding.graph import (
    make_graph,
    make_training_graph,
    phone_loop,
    read_fst_file,
    read_lang,
    with_transition_costs,
    word_line,
    write_graph,
    write_lang,
)
from nnet3py.decoding.lattice_decoder import Decoder
from nnet3py.decoding.lexicon import GraphBuilder, Lang, Pronunciation, Silence, make_lang
from nnet3py.decoding.options import DecoderOptions, TrainingGraphOptions
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.topology import HmmState, HmmTopology, chain_topology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import Constant, ContextDependency, Split, Table, initial_transition_model
from nnet3py.transducers.fst import Fst

pytest.importorskip("kaldifst", reason="operations on graphs come from kaldifst")

COST = 5e-3           # determinization and minimization round to 1/1024, several times on a path
LONGEST = 5           # frames
PDF_CLASS = -1

#         SIL 1, x 2, y 3
LEXICON = [Pronunciation("a", ("x",)), Pronunciation("b", ("x", "y")), Pronunciation("c", ("x", "y"), 0.5)]
ONE_STATE = [HmmState(0, 0, [(0, 0.3), (1, 0.7)]), HmmState()]
TWO_STATES = [HmmState(0, 0, [(0, 0.4), (1, 0.6)]), HmmState(1, 1, [(1, 0.2), (2, 0.8)]), HmmState()]
CHAIN = [HmmState(0, 1, [(0, 0.5), (1, 0.5)]), HmmState()]


def system(width: int, central: int, chain: bool = False) -> tuple[ContextDependency, TransitionModel]:
    """A tree in which x has other pdfs after y or (with a phone of right context) before y."""
    entries = [CHAIN] if chain else [ONE_STATE, TWO_STATES]
    topology = HmmTopology(entries, {1: 0, 2: 0, 3: 0 if chain else 1})

    def classes(first: int) -> Table:
        return Table(PDF_CLASS, (Constant(first), Constant(first + 1)))

    other = [place for place in range(width) if place != central]
    x = Split(other[-1], frozenset([3]), classes(2), classes(4)) if other else classes(2)
    tree = ContextDependency(width, central, Table(central, (None, classes(0), x, classes(6))))
    return tree, initial_transition_model(tree, topology)


def lang(silence_prob: float = 0.25) -> Lang:
    return make_lang(LEXICON, None, Silence("SIL", silence_prob))


def alignments(phones, tree, model, transition_scale, self_loop_scale, longest):
    """Transition-ids, self-loops after the transitions that leave their states, and costs, of phones that follow."""
    def of_state(phone, window, number):
        state = model.topology.entries[model.topology.entry_of_phone[phone]][number]
        forward, loop = tree.pdf(window, state.forward_pdf_class), tree.pdf(window, state.self_loop_pdf_class)
        first = model.transition_id(model.transition_state(phone, number, forward, loop), 0)
        p_loop = state.transitions[0][1]
        leaving = -self_loop_scale * math.log(1.0 - p_loop)     # all transitions but one are self-loops here
        for loops in range(longest):
            yield (first + 1,) + (first,) * loops, leaving - loops * self_loop_scale * math.log(p_loop)

    padded = (0,) * tree.central_position + phones + (0,) * (tree.context_width - 1 - tree.central_position)
    found = [((), 0.0)]
    for place, phone in enumerate(phones):
        for number in range(len(model.topology.entries[model.topology.entry_of_phone[phone]]) - 1):
            parts = list(of_state(phone, padded[place:place + tree.context_width], number))
            found = [(ids + part, cost + more) for ids, cost in found for part, more in parts
                     if len(ids) + len(part) <= longest]
    return found


def expected_paths(lexicon: Fst, grammar_costs, tree, model, self_loop_scale):
    """All alignments of all phone sequences of the lexicon whose words the grammar allows."""
    found = {}
    for (phones, words), cost in path_costs(lexicon, LONGEST).items():
        if words not in grammar_costs:
            continue
        for ids, more in alignments(phones, tree, model, 1.0, self_loop_scale, LONGEST):
            total = cost + grammar_costs[words] + more
            found[ids, words] = min(found.get((ids, words), math.inf), total)
    return found


def assert_same_paths(graph: Fst, expected) -> None:
    found = path_costs(graph, LONGEST)
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[key] for key in expected], list(expected.values()), atol=COST)


@pytest.mark.parametrize(("width", "central", "chain"), [(1, 0, False), (2, 1, True), (3, 1, False)])
@pytest.mark.parametrize("self_loop_scale", [0.1, 1.0])
def test_graph_against_all_alignments(width, central, chain, self_loop_scale):
    tree, model = system(width, central, chain)
    a_lang = lang()
    grammar = word_loop(a_lang.words)
    graph = make_graph(a_lang, grammar, tree, model, 1.0, self_loop_scale)
    expected = expected_paths(a_lang.plain_lexicon, {
        key[1]: cost for key, cost in path_costs(grammar, LONGEST).items()}, tree, model, self_loop_scale)
    assert len(expected) > 100
    assert_same_paths(graph, expected)


def test_back_off():
    """Words that an n-gram model has not seen beside each other are reached through #0."""
    tree, model = system(1, 0)
    a_lang = lang(0.0)
    grammar = ngram_fst(Ngram.estimate([["a", "b"], ["c"]], 2), a_lang.words)
    grammar_costs: dict = {}
    for (_, words), cost in path_costs(grammar, 2 * LONGEST + 2).items():
        grammar_costs[words] = min(grammar_costs.get(words, math.inf), cost)
    graph = make_graph(a_lang, grammar, tree, model)
    found = path_costs(graph, LONGEST)
    expected = expected_paths(a_lang.plain_lexicon, grammar_costs, tree, model, 0.1)
    assert found.keys() == expected.keys()
    best = np.array([[found[key], cost] for key, cost in expected.items()])
    # the ways to one sentence, through #0 and not, are added, as logs
    assert (best[:, 0] <= best[:, 1] + COST).all() and (best[:, 1] - best[:, 0]).max() < 1.0


def test_nothing_can_be_said():
    tree, model = system(1, 0)
    a_lang = lang()
    grammar = GraphBuilder()
    grammar.arc(0, 77, 77, 0.0, 0)
    grammar.final(grammar.state())
    with pytest.raises(Nnet3Error, match="no phones for any sentence"):
        make_graph(a_lang, grammar.fst(), tree, model)


def test_phones_that_the_model_lacks():
    tree, model = system(1, 0)
    other = make_lang([Pronunciation("a", ("p", "q", "r", "s"))])
    with pytest.raises(FormatError, match="phone 4 of the graph"):
        make_graph(other, word_loop(other.words), tree, model)


def test_training_graph():
    tree, model = system(3, 1)
    a_lang = lang()
    words = (a_lang.words["b"], a_lang.words["a"])
    line = word_line(np.array(words))
    plain = make_training_graph(a_lang.plain_lexicon, line, tree, model)
    graph = with_transition_costs(plain, model, 1.0, 0.5)
    expected = expected_paths(a_lang.plain_lexicon, {words: 0.0}, tree, model, 0.5)
    assert_same_paths(graph, expected)
    symbols = a_lang.phones.disambiguation
    disambig = make_training_graph(a_lang.lexicon, line, tree, model, symbols)
    assert_same_paths(with_transition_costs(disambig, model, 1.0, 0.5), expected)
    small = make_training_graph(a_lang.lexicon, line, tree, model, symbols, TrainingGraphOptions(rm_eps=True))
    assert_same_paths(with_transition_costs(small, model, 1.0, 0.5), expected)
    assert small.num_arcs < disambig.num_arcs
    assert make_training_graph(a_lang.plain_lexicon, line, tree, model, (), TrainingGraphOptions(rm_eps=True)).equals(
        plain)
    with pytest.raises(Nnet3Error, match="no phones for the words"):
        make_training_graph(a_lang.plain_lexicon, word_line(np.array([77])), tree, model)


def test_training_graph_of_several_sentences():
    tree, model = system(1, 0)
    a_lang = lang()
    words = GraphBuilder()
    end = words.state()
    for name, cost in (("a", 0.5), ("c", 1.5)):
        words.arc(0, a_lang.words[name], a_lang.words[name], cost, end)
    words.final(end, 0.25)
    graph = make_training_graph(a_lang.lexicon, words.fst(), tree, model, a_lang.phones.disambiguation,
                                TrainingGraphOptions(1.0, 0.5))
    assert_same_paths(graph, expected_paths(a_lang.plain_lexicon, {
        (a_lang.words["a"],): 0.75, (a_lang.words["c"],): 1.75}, tree, model, 0.5))


@pytest.mark.parametrize("reorder", [True, False])
def test_training_graph_with_costs_of_transitions(reorder):
    tree, model = system(3, 1)
    a_lang = lang()
    words = (a_lang.words["b"], a_lang.words["a"])
    graph = make_training_graph(a_lang.plain_lexicon, word_line(np.array(words)), tree, model,
                                options=TrainingGraphOptions(1.0, 0.5, reorder))
    expected = expected_paths(a_lang.plain_lexicon, {words: 0.0}, tree, model, 0.5)
    if not reorder:
        expected = {(loops_first(model, alignment), said): cost for (alignment, said), cost in expected.items()}
    assert_same_paths(graph, expected)


def loops_first(model: TransitionModel, alignment: tuple[int, ...]) -> tuple[int, ...]:
    """A reordered alignment with each state's self-loops before the transition that leaves the state."""
    result: list[int] = []
    place = 0
    for one in alignment:
        if not model.is_self_loop[one]:
            place = len(result)
        result.insert(place if model.is_self_loop[one] else len(result), one)
    return tuple(result)


def test_costs_for_other_labels():
    _, model = system(1, 0)
    graph = GraphBuilder()
    graph.arc(0, 1000, 0, 0.0, 0)
    with pytest.raises(FormatError, match="1000"):
        with_transition_costs(graph.fst(), model)


def test_folders(tmp_path):
    tree, model = system(1, 0)
    a_lang = lang()
    write_lang(tmp_path / "lang", a_lang)
    again = read_lang(tmp_path / "lang")
    assert again.words.names == a_lang.words.names and again.phones.names == a_lang.phones.names
    assert again.lexicon.equals(a_lang.lexicon) and again.plain_lexicon.equals(a_lang.plain_lexicon)
    graph = make_graph(again, word_loop(again.words), tree, model)
    write_graph(tmp_path / "graph", graph, a_lang, model)
    assert read_fst_file(tmp_path / "graph" / "HCLG.fst").equals(graph)
    assert (tmp_path / "graph" / "num_pdfs").read_text() == f"{model.num_pdfs}\n"
    assert (tmp_path / "graph" / "phones" / "disambig.txt").read_text().split() == ["#0", "#1", "#2", "#3"]
    assert (tmp_path / "graph" / "phones" / "silence.csl").read_text() == "1\n"
    (tmp_path / "lang" / "L.fst").unlink()
    with pytest.raises(FormatError, match=r"no L\.fst"):
        read_lang(tmp_path / "lang")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(FormatError, match="found nothing"):
        read_fst_file(tmp_path / "empty")


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
