"""chain-est-phone-lm, chain-make-den-fst, chain-make-num-fst-e2e and make-topology as commands."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chain_graphs import acceptor, three_phones
from paths import DATA

from nnet3py.chain.normalization import normalization_fst
from nnet3py.cli.main import load
from nnet3py.hmm.topology import HmmTopology, chain_topology
from nnet3py.hmm.tree import initial_transition_model, monophone_tree
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tables import SequentialReader, write_table
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import FST, read_fst, write_fst_file

CHAIN = DATA / "chain"
TREE, MODEL, SEQUENCES = (str(CHAIN / name) for name in ("tree", "0.trans_mdl", "phones.seq"))
FATAL, USAGE = 255, 1
SHEET = 2e-6          # costs are given with six decimals


pytestmark = pytest.mark.usefixtures("here")


def run(name: str, *words: str) -> int:
    return load(name).execute([*words])


def test_from_phones_to_graphs(capsys):
    assert run("chain-est-phone-lm", "--num-extra-lm-states=20", f"ark:{SEQUENCES}", "lm.fst") == 0
    assert "target num states was 141 + --num-extra-lm-states=20 = 161, pruned from 387 to" in capsys.readouterr().err
    assert run("chain-make-den-fst", TREE, MODEL, "lm.fst", "den.fst", "norm.fst") == 0
    assert "Number of states and arcs in phone-LM FST is 161 and 515" in capsys.readouterr().err
    for ours, kaldi in (("lm.fst", "phone_lm.fst"), ("den.fst", "den.fst"), ("norm.fst", "normalization.fst")):
        fst, expected = read_object(ours, read_fst), read_object(CHAIN / kaldi, read_fst)
        assert (fst.num_states, fst.num_arcs, fst.start) == (expected.num_states, expected.num_arcs, expected.start)
        assert Path(ours).stat().st_size == (CHAIN / kaldi).stat().st_size, "the same form of file"


@pytest.mark.parametrize("words, text, complaint", [
    ([], "u1 1 2\nu2 1 0 2\n", "utterance u2: expected phones, which are above 0, found 0"),
    ([], "", "no phone sequences"),
    (["--ngram-order=1"], "u1 1\n", "--ngram-order=1: expected 2 or more"),
    ([], "u1 a b\n", "u1"),
])
def test_phones_that_make_no_model(words, text, complaint, capsys):
    Path("seq").write_text(text)
    assert run("chain-est-phone-lm", *words, "ark:seq", "lm.fst") == FATAL
    assert complaint in capsys.readouterr().err
    assert not Path("lm.fst").exists()


@pytest.mark.parametrize("phone_lm, complaint", [
    (acceptor(2, 0, [(0, 29, 1, 0.5)], {1: 0.5}), "label 29, which is not a phone of the topology"),
    (acceptor(3, 0, [(0, 1, 1, 0.5), (2, 1, 1, 0.5)], {1: 0.5}), "1 of 3 states of the phone language model"),
    (acceptor(2, 0, [(0, 1, 1, 0.0), (1, 0, 1, 0.5)], {1: 0.5}), "cycle of epsilon arcs"),
])
def test_language_models_that_make_no_graph(phone_lm, complaint, capsys):
    write_fst_file("lm.fst", phone_lm)
    assert run("chain-make-den-fst", TREE, MODEL, "lm.fst", "den.fst", "norm.fst") == FATAL
    assert complaint in capsys.readouterr().err
    assert not Path("den.fst").exists() and not Path("norm.fst").exists()


def test_tree_of_another_system(capsys):
    topology = chain_topology([1, 2, 3])
    write_object("tree", monophone_tree(topology).write)
    assert run("chain-make-den-fst", "tree", MODEL, str(CHAIN / "phone_lm.fst"), "den.fst", "norm.fst") == FATAL
    assert "the tree has 6 pdfs, but the transition model 56" in capsys.readouterr().err


# -- end to end --------------------------------------------------------------------------------------------------------


def linear_graph(*phones: int) -> Fst:
    """A training graph of phones: forward transitions (2 p) with a self-loop (2 p - 1) of cost 0.69 each."""
    arcs = [arc for place, phone in enumerate(phones)
            for arc in ((place, 2 * phone, place + 1, 0.1 if place == 0 else 0.0),
                        (place + 1, 2 * phone - 1, place + 1, 0.69))]
    return acceptor(len(phones) + 1, 0, arcs, {len(phones): 0.25})


@pytest.fixture
def system(here: Path) -> None:
    topology = chain_topology([1, 2, 3])
    write_object("model", initial_transition_model(monophone_tree(topology), topology).write)
    write_fst_file("norm.fst", normalization_fst(three_phones()))


def convert(graphs: dict[str, Fst]) -> tuple[int, dict[str, Fst]]:
    write_table("ark:graphs", FST, graphs)
    status = run("chain-make-num-fst-e2e", "model", "norm.fst", "ark:graphs", "ark:out")
    with SequentialReader("ark:out", FST) as reader:
        return status, dict(reader)


@pytest.mark.usefixtures("system")
def test_numerator_graph_of_the_worked_system():
    status, graphs = convert({"u1": linear_graph(1, 2, 3, 1)})
    assert status == 0
    fst = graphs["u1"]
    first = slice(fst.arc_starts[fst.start], fst.arc_starts[fst.start + 1])
    into_two = fst.weights[first][fst.input_labels[first] == 1]
    assert 4.704516 == pytest.approx(float(into_two.max()), abs=SHEET)
    loops = fst.weights[fst.sources == fst.next_states]
    np.testing.assert_allclose(loops, 0.69 + 0.693359, atol=SHEET)
    assert set(fst.input_labels.tolist()) == {1, 2, 3, 4, 5, 6}
    np.testing.assert_allclose(fst.final_weights[fst.is_final], 0.25, atol=SHEET)


@pytest.mark.usefixtures("system")
def test_graphs_without_a_path_come_out_empty(capsys):
    impossible = acceptor(2, 0, [(0, 3, 1, 0.0)], {1: 0.0})        # phone 2 begins with its self-loop, and ends
    status, graphs = convert({"u1": linear_graph(1, 2), "u2": acceptor(0, -1, [], {}), "u3": impossible})
    assert status == 0
    assert {key: fst.num_states > 0 for key, fst in graphs.items()} == {"u1": True, "u2": False, "u3": True}
    assert "utterance u2: the training graph is empty" in capsys.readouterr().err


@pytest.mark.usefixtures("system")
def test_no_graph_at_all():
    assert convert({}) == (1, {})


@pytest.mark.usefixtures("system")
def test_graphs_of_another_model(capsys):
    write_table("ark:graphs", FST, {"u1": linear_graph(4)})
    assert run("chain-make-num-fst-e2e", "model", "norm.fst", "ark:graphs", "ark:out") == FATAL
    assert "utterance u1: expected a graph of transition-ids, 1 to 6, found labels from" in capsys.readouterr().err
    assert not Path("out").exists()


# -- topologies --------------------------------------------------------------------------------------------------------


def test_chain_topology_is_kaldis():
    phones = ":".join(str(phone) for phone in range(2, 29))
    assert run("make-topology", phones, "1", "topo") == 0
    assert read_object("topo", HmmTopology.read) == read_object(CHAIN / "topo", HmmTopology.read)


def test_topology_with_silence():
    assert run("make-topology", "--chain=false", "--binary", "2:3", "1", "topo") == 0
    topology = read_object("topo", HmmTopology.read)
    assert topology.entry_of_phone == {1: 1, 2: 0, 3: 0}
    first, silence = topology.entries
    assert [state.transitions for state in first] == [[(0, 0.75), (1, 0.25)], [(1, 0.75), (2, 0.25)],
                                                      [(2, 0.75), (3, 0.25)], []]
    assert silence[0].transitions == [(target, 0.25) for target in (0, 1, 2, 3)]
    assert silence[1].transitions == [(target, 0.25) for target in (1, 2, 3, 4)]
    assert silence[4].transitions == [(4, 0.75), (5, 0.25)]


def test_topology_without_silence_states_of_its_own():
    assert run("make-topology", "--chain=false", "--num-sil-states=1", "--num-nonsil-states=1", "2:3", "", "topo") == 0
    assert len(read_object("topo", HmmTopology.read).entries) == 1


@pytest.mark.parametrize("words, complaint", [
    (["1:a", "2"], "found 'a'"), (["1:2", "2"], "phone 2 is given twice"), (["0:1", "2"], "above 0, found 0"),
    (["", ""], "found none"), (["--chain=false", "--num-nonsil-states=0", "1", "2"], "--num-nonsil-states=0: expected"),
])
def test_phones_that_make_no_topology(words, complaint, capsys):
    assert run("make-topology", *words, "topo") == FATAL
    assert complaint in capsys.readouterr().err
    assert not Path("topo").exists()
