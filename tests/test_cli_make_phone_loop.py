"""make-phone-loop: a graph of phones that what recognizes words takes, too."""
from __future__ import annotations

from pathlib import Path

import pytest
from graph_systems import SYSTEMS
from paths import DATA

import nnet3py
from nnet3py.cli.fst.make_graph import make_phone_loop
from nnet3py.decoding.lexicon import GraphBuilder
from nnet3py.io.object_files import write_object
from nnet3py.recognition.model_folder import demo_folder
from nnet3py.transducers.fst_text import read_fst_file, write_fst_file

QUIET = "--print-args=false"


def test_the_recognizer_hears_phones(tmp_path: Path) -> None:
    """With times and confidences, and about the same as decode_phones, which has all frames at once."""
    folder, sound = demo_folder(), str(DATA / "demo.wav")
    graph = tmp_path / "graph_phones"
    assert make_phone_loop.execute([QUIET, f"--phones={folder}/graph/phones.txt", f"{folder}/am/final.mdl",
                                    str(graph)]) == 0
    assert {path.name for path in graph.iterdir()} == {"HCLG.fst", "words.txt", "phones"}
    result = nnet3py.Recognizer(folder, graph).transcribe(sound)
    phones = nnet3py.decode_phones(folder, sound)
    assert nnet3py.wer([phones.names], [result.text.split()]).wer < 15.0
    assert result.words[0].word == "SIL" and result.words[0].end == pytest.approx(phones.phones[0].end, abs=0.1)
    assert all(0.0 < word.confidence <= 1.0 for word in result.words)
    assert nnet3py.decode(folder, nnet3py.compute(folder, *nnet3py.front_end(folder)(sound)), graph / "HCLG.fst",
                          options={"lattice-beam": 4}).text == phones.text


def test_with_tree_and_phone_language_model(here: Path,
                                            capfd: pytest.CaptureFixture[str]) -> None:
    tree, model = SYSTEMS["left-biphone"]()
    write_object("tree", tree.write)
    write_object("final.mdl", model.write)
    grammar = GraphBuilder()
    grammar.arc(0, 2, 2, 0.5, grammar.state())
    grammar.arc(1, 3, 3, 0.5, 0)
    grammar.final(0)
    write_fst_file("phone_lm.fst", grammar.fst())
    sizes = []
    for options in ([], ["--tree=tree"], ["--tree=tree", "--phone-lm=phone_lm.fst"]):
        assert make_phone_loop.execute([QUIET, *options, "final.mdl", "graph"]) == 0
        graph = read_fst_file("graph/HCLG.fst")
        assert f"of {graph.num_states} states and {graph.num_arcs} arcs, with 3 phones" in capfd.readouterr().err
        sizes.append(sorted({label for label in graph.output_labels.tolist() if label}))
    assert sizes == [[1, 2, 3], [1, 2, 3], [2, 3]]
    assert Path("graph/words.txt").read_text(encoding="utf-8") == "<eps> 0\n1 1\n2 2\n3 3\n"
    assert Path("graph/phones/word_boundary.int").read_text(encoding="utf-8").startswith("1 singleton\n")
    assert make_phone_loop.execute([QUIET, "--phone-lm=phone_lm.fst", "final.mdl", "x"]) == 255
    assert "needs the tree" in capfd.readouterr().err and not Path("x").exists()
    Path("file").write_text("", encoding="utf-8")
    assert make_phone_loop.execute([QUIET, "final.mdl", "file"]) == 255
    assert "cannot be made" in capfd.readouterr().err
