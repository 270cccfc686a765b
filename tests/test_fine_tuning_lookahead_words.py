"""New words in graphs that are composed while decoding: the same paths as of a graph made with them from the start."""
from __future__ import annotations

import dataclasses
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from graph_paths import path_costs
from graph_systems import context_system
from test_fine_tuning_graph import LEXICON, SENTENCES, with_question

from nnet3py.decoding.composed_graphs import LookaheadGraph
from nnet3py.decoding.grammar import Ngram, mixture, ngram_fst
from nnet3py.decoding.graph import make_graph
from nnet3py.decoding.lexicon import POSITIONS, GraphBuilder, Pronunciation, Silence, make_lang, with_positions
from nnet3py.decoding.lookahead import Lookahead
from nnet3py.decoding.symbols import BACKOFF, SymbolTable
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.graph_words import GraphPhones, GraphWords
from nnet3py.fine_tuning.lookahead_words import obstacle_to_new_words, with_words
from nnet3py.fine_tuning.model import phone_names
from nnet3py.fine_tuning.plan import SHARE, FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.words import write_lookahead_graph
from nnet3py.fst.operations import arc_sorted
from nnet3py.fst.text import with_symbols
from nnet3py.hmm.topology import chain_topology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import write_object
from nnet3py.io.streams import open_output
from nnet3py.io.tokens import TokenWriter
from nnet3py.lattices.word_alignment import INTERNAL, NONWORD
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_binary import write_binary_fst

pytest.importorskip("kaldifst")

# Two that begin alike, one of which sounds like an old word; one that begins with an old word; one with two
# pronunciations, of which one is a single phone that no word ends with.
NEW = [Pronunciation(word, tuple(phones.split())) for word, phones in (
    ("tap", "t a t"), ("taa", "t a"), ("atu", "a t u"), ("uh", "u"), ("uh", "u t a"))]
OLD_TEXTS = [sentence.split() for sentence in SENTENCES]
DISAMBIG = 5000               # an input label that is not a transition-id
LONGEST = 6                   # transition-ids of the paths that are compared
COST = 5e-3                   # determinization rounds costs to multiples of 1/1024


@cache
def phones() -> SymbolTable:
    """Three phones in all positions, and silence."""
    return SymbolTable.of(["SIL", *(f"{phone}{mark}" for phone in "atu" for mark in POSITIONS)], "phone")


@cache
def kinds() -> dict[int, str]:
    return {number: POSITIONS.get(name[-2:], NONWORD) for number, name in phones().names.items() if number}


@cache
def system() -> tuple[ContextDependency, TransitionModel]:
    """Pdfs depend on whether the phone before is a t, or none."""
    tree, model = context_system(chain_topology(sorted(kinds())), 2, 1, 0)
    asked = frozenset(number for number, name in phones().names.items() if name.startswith("t") or not number)
    return ContextDependency(2, 1, with_question(tree.to_pdf, asked)), model


def word_loop(words: SymbolTable) -> Fst:
    """A grammar of words in any order that cost nothing, so that its graph is HCL."""
    loop = GraphBuilder()
    for number, name in sorted(words.names.items()):
        if number and not name.startswith(("#", "<")):
            loop.arc(0, number, number, 0.0, 0)
    loop.final(0)
    return loop.fst()


@cache
def hcl(with_new: bool) -> Fst:
    """HCL of the lexicon, its output labels being the words as the table with all words numbers them."""
    tree, model = system()
    words = make_lang(with_positions([*LEXICON, *NEW] if with_new else LEXICON), phones(), Silence("SIL", 0.4))
    graph = make_graph(words, word_loop(words.words), tree, model, self_loop_scale=1.0)
    number = np.array([0] + [all_words()[words.words.names[n]] if not words.words.names[n].startswith(("#", "<")) else 0
                             for n in range(1, max(words.words.names) + 1)])
    return dataclasses.replace(graph, output_labels=number[graph.output_labels].astype(np.int32), stored=None)


@cache
def all_words() -> SymbolTable:
    """The old words, then the new ones."""
    return SymbolTable.of(dict.fromkeys(entry.word for entry in (*LEXICON, *NEW)))


def new_words(label_of: dict[str, int]) -> list[tuple[int, tuple[int, ...]]]:
    return [(label_of[entry.word], tuple(phones()[phone] for phone in entry.phones)) for entry in with_positions(NEW)]


@cache
def wider() -> tuple[Lookahead, Lookahead, dict[str, int]]:
    """HCL as it was and with new words, and the labels of these."""
    tree, model = system()
    old = Lookahead.of_fst(hcl(False))
    places = GraphWords.of(GraphPhones.of(hcl(False), model), kinds())
    labels = {word: old.final_label + 5 + place
              for place, word in enumerate(dict.fromkeys(entry.word for entry in NEW))}
    return old, with_words(old, places, model, tree, new_words(labels)), labels


def to_words(lookahead: Lookahead, labels: dict[str, int]) -> Fst:
    """HCL with words as output labels."""
    assert lookahead.label_of_word is not None
    number = np.zeros(max([int(lookahead.arcs[:, 1].max()), *labels.values()]) + 1, dtype=np.int32)
    number[lookahead.label_of_word] = np.arange(len(lookahead.label_of_word))
    for word, label in labels.items():
        number[label] = all_words()[word]
    fst = lookahead.to_fst()
    return dataclasses.replace(fst, output_labels=number[fst.output_labels])


def test_paths_are_those_of_a_graph_made_with_all_words() -> None:
    _, lookahead, labels = wider()
    expected, made = path_costs(hcl(True), LONGEST), path_costs(to_words(lookahead, labels), LONGEST)
    new = {all_words()[word] for word in labels}
    assert sum(bool(new & set(words)) for _, words in expected) > 1000
    assert made.keys() == expected.keys()
    assert made == pytest.approx(expected, abs=COST)


def reach_by_hand(fst: Fst, final_label: int) -> list[set[int]]:
    """The labels that can come next from each state, by going everywhere."""
    reach = []
    for state in range(fst.num_states):
        labels, seen, waiting = set(), {state}, [state]
        while waiting:
            here = waiting.pop()
            if fst.is_final[here]:
                labels.add(final_label)
            for arc in range(int(fst.arc_starts[here]), int(fst.arc_starts[here + 1])):
                if fst.output_labels[arc]:
                    labels.add(int(fst.output_labels[arc]))
                elif int(fst.next_states[arc]) not in seen:
                    seen.add(int(fst.next_states[arc]))
                    waiting.append(int(fst.next_states[arc]))
        reach.append(labels)
    return reach


def test_what_can_come_next_is_what_the_arcs_say(tmp_path: Path) -> None:
    _, lookahead, _ = wider()
    with open_output(tmp_path / "HCLr.fst") as stream:
        lookahead.write(TokenWriter(stream, binary=True))
    read = Lookahead.read(tmp_path / "HCLr.fst")
    assert read.to_fst().equals(arc_sorted(lookahead.to_fst(), by_output=True))
    used = {int(label) for label in lookahead.arcs[:, 1]} | {lookahead.final_label}
    for state, expected in enumerate(reach_by_hand(read.to_fst(), lookahead.final_label)):
        intervals = read.intervals_of(state).tolist()
        assert sorted(intervals) == intervals
        labels = {label for begin, end in intervals for label in range(begin, end)}
        assert labels & used == expected, state


def test_what_was_there_stays() -> None:
    old, lookahead, labels = wider()
    assert lookahead.start == old.start and lookahead.final_label == old.final_label
    before, after = path_costs(old.to_fst(), LONGEST), path_costs(lookahead.to_fst(), LONGEST)
    kept = {key: cost for key, cost in after.items() if not set(key[1]) & set(labels.values())}
    assert kept == pytest.approx(before, abs=COST)


def test_dead_ends_are_no_words() -> None:
    """A graph that was not trimmed gets the same words: a random walk into a dead end has no cost."""
    tree, model = system()
    trimmed = hcl(False)
    places = GraphWords.of(GraphPhones.of(trimmed, model), kinds())
    end, into = trimmed.num_states, int(np.flatnonzero(
        places.begins & ~places.ends & (places.open_words[trimmed.sources] == 0))[0])
    columns = [np.append(getattr(trimmed, name), getattr(trimmed, name)[into]) for name in (
        "sources", "input_labels", "output_labels", "weights")]
    dead = Fst.from_arcs(trimmed.start, np.append(trimmed.final_weights, np.inf), *columns,
                         np.append(trimmed.next_states, end))
    old, made, labels = wider()
    wide = with_words(Lookahead.of_fst(dead), GraphWords.of(GraphPhones.of(dead, model), kinds()), model, tree,
                      new_words(labels))
    before, after = path_costs(made.to_fst(), LONGEST), path_costs(wide.to_fst(), LONGEST)
    assert after.keys() == before.keys()


WEIGHT = 0.4
TEXTS = [["tap", "to", "uh"], ["a", "tap"], ["uh", "uh"]]


def write_folder(place: Path, kind: str) -> ModelFolder:
    """A folder of the old words: with an n-gram model that backs off with #0 or without it, or a loop of words."""
    for name in ("am", "conf", "graph/phones"):
        (place / name).mkdir(parents=True)
    for name in ("am/final.mdl", "conf/model.conf", "conf/mfcc.conf"):
        (place / name).write_text("")
    old = hcl(False)
    table = SymbolTable.of([*dict.fromkeys(entry.word for entry in LEXICON), BACKOFF])
    if kind in ("backoff", "ngram with #0"):
        old = with_loops(old, table[BACKOFF])
    words = ngram_fst(Ngram.estimate(OLD_TEXTS, 2), table) if kind != "loop" else word_loop(table)
    lookahead = Lookahead.of_fst(old)
    assert lookahead.label_of_word is not None
    labels = np.append(lookahead.label_of_word, 0)
    if kind.startswith("ngram"):         # whose words are numbered as HCL's labels
        labels = np.where(np.arange(len(labels)) == table[BACKOFF], 0, labels)
        table = SymbolTable({int(labels[number]): name for number, name in table.names.items() if name != BACKOFF})
        grammar = with_symbols(dataclasses.replace(words, **dict.fromkeys(
            ("input_labels", "output_labels"), labels[words.input_labels])), *[
                {name.encode(): number for name, number in table.ids.items()}] * 2)
    else:
        table.write(str(place / "graph" / "words.txt"))
        grammar = arc_sorted(dataclasses.replace(words, input_labels=labels[words.input_labels]))
    with open_output(place / "graph" / "HCLr.fst") as stream:
        lookahead.write(TokenWriter(stream, binary=True))
    with open_output(place / "graph" / "Gr.fst") as stream:
        write_binary_fst(TokenWriter(stream, binary=True), grammar, {"backoff": "const", "loop": "vector"}.get(
            kind, "ngram"))
    (place / "graph" / "disambig_tid.int").write_text(f"{DISAMBIG}\n")
    return read_model_folder(place)


def with_loops(graph: Fst, label: int) -> Fst:
    """The graph with loops of a disambiguation symbol, with a label, at all states: words may be told late here."""
    states = np.arange(graph.num_states)
    nothing = np.zeros(len(states), dtype=np.int32)
    columns = [np.concatenate(pair) for pair in (
        (graph.sources, states), (graph.input_labels, nothing + DISAMBIG), (graph.output_labels, nothing + label),
        (graph.weights, nothing), (graph.next_states, states))]
    return Fst.from_arcs(graph.start, graph.final_weights, *columns)


@pytest.mark.parametrize("kind", ["ngram", "ngram with #0", "backoff", "loop"])
def test_new_words_in_the_files_of_a_folder(tmp_path: Path, kind: str) -> None:
    folder = write_folder(tmp_path / "model", kind)
    tree, model = system()
    work = WorkFolder(tmp_path / "work")
    work.model.mkdir(parents=True)
    write_object(work.model / "final.mdl", model.write)
    write_object(work.model / "tree", tree.write)
    (work.model / "word_boundary.int").write_text("".join(f"{phone} {its}\n" for phone, its in kinds().items()))
    options = FineTuneOptions(model=folder.path, data="data", out="new", lm_weight=WEIGHT / SHARE, lm_order=2)
    new: dict[str, list[tuple[str, ...]]] = {}
    for entry in NEW:
        new.setdefault(entry.word, []).append(entry.phones)
    write_lookahead_graph(work, folder, phones(), new, TEXTS, options)

    names = SymbolTable.read(str(work.graph / ("Gr.fst" if kind.startswith("ngram") else "words.txt")))
    before = SymbolTable.read(folder.words)
    assert {name: names[name] for name in before.ids} == before.ids and new.keys() == names.ids.keys() - before.ids
    graph = LookaheadGraph.read(work.graph / "HCLr.fst", work.graph / "Gr.fst", [DISAMBIG], model)
    assert graph.grammar.is_ngram == kind.startswith("ngram")
    learned = Ngram.estimate(TEXTS, 2, new)
    mixed = mixture([(Ngram.estimate(OLD_TEXTS, 2), 1 - WEIGHT), (learned, WEIGHT)])
    hcl_costs = path_costs(hcl(True), LONGEST)
    made = path_costs(graph.for_decoder().to_fst(), LONGEST)
    expected = {}
    for (ids, words), cost in hcl_costs.items():
        text = [all_words().names[word] for word in words]
        if kind == "loop":
            beside = -math.log(WEIGHT) + text_cost(learned, text)
            whole = min(beside, np.inf if new.keys() & set(text) else -math.log(1 - WEIGHT))
        else:
            whole = text_cost(mixed, text)
        if whole < 50.0:
            expected[ids, tuple(names[word] for word in text)] = cost + whole
    assert len(expected) > 1000 and made.keys() >= expected.keys()
    for key, cost in expected.items():
        assert made[key] == pytest.approx(cost, abs=COST), key


def text_cost(model: Ngram, text: list[str]) -> float:
    """Of a sentence, with its end."""
    history = ["<s>", *text, "</s>"]
    return -math.log(10.0) * sum(model.log10_prob(history[:place], history[place]) for place in range(1, len(history)))


def test_what_cannot_have_new_words() -> None:
    tree, model = system()
    assert not obstacle_to_new_words(model, tree)
    assert "more than the phone before" in obstacle_to_new_words(model, ContextDependency(3, 1, tree.to_pdf))
    old = Lookahead.of_fst(hcl(False))
    nowhere = {phone: INTERNAL for phone in kinds()}
    with pytest.raises(Nnet3Error, match="differ in number"):
        with_words(old, GraphWords.of(GraphPhones.of(hcl(False), model), nowhere), model, tree, [(99, (2, 5))])


def test_names_of_phones(tmp_path: Path) -> None:
    model, path = system()[1], tmp_path / "phones.txt"
    phones().write(str(path))
    table, note = phone_names(str(path), model, kinds())
    assert table.names == phones().names and not note
    by_number = {number: f"p{2 + (number - 2) // 4 * 4}{name[-2:]}" if number > 1 else "p1"
                 for number, name in phones().names.items() if number}
    assert phone_names("", model, kinds())[0].names == {0: "<eps>", **by_number}
    some = {number: name for number, name in phones().names.items() if number < 10}
    SymbolTable(some).write(str(path))
    table, note = phone_names(str(path), model, kinds())
    assert table.names == {**by_number, **some} and "does not name 4 phones" in note and "p10_B" in note
    SymbolTable({**some, 10: "#0", 11: "#1"}).write(str(path))
    table, note = phone_names(str(path), model, kinds())
    assert table.names == {0: "<eps>", **by_number} and "another model's" in note and "phone 10 (#0)" in note
    SymbolTable({**phones().names, 2: "q_E"}).write(str(path))
    assert "phone 2 (q_E) is at another place" in phone_names(str(path), model, kinds())[1]
