"""prepare-lang, make-graph, make-grammar-fst and nnet3-latgen-grammar: a grammar in parts from lexicon to words."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graph_systems import context_system

from nnet3py.acoustic_model import AcousticModel
from nnet3py.cli.main import load
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
from nnet3py.hmm.topology import chain_topology
from nnet3py.io.object_files import write_object
from nnet3py.io.tables import SequentialReader, TableWriter
from nnet3py.network.nnet import Nnet

pytest.importorskip("kaldifst", reason="graphs are made with kaldifst (nnet3py[decode])")

NAME = "#nonterm:name"
NUM_UTTERANCES = 4
ARPA = f"""\\data\\
ngram 1=5
ngram 2=5

\\1-grams:
-99 <s> 0
-1 </s>
-1 call 0
-1 please 0
-1 {NAME} 0

\\2-grams:
-0.3 <s> call
-0.3 <s> {NAME}
-0.01 call {NAME}
-0.01 {NAME} please
-0.01 please </s>

\\end\\
"""


def run(*words: object, status: int = 0) -> None:
    name, *args = map(str, words)
    assert load(name).execute(args) == status


@pytest.fixture
def folder(here: Path) -> Path:
    """A folder to work in: lexicon, names of nonterminals, a model of left biphones, features."""
    Path("lexicon").write_text("anna a c a\nbob b b\ncall a b\nplease b c\n")
    Path("nonterminals").write_text(f"{NAME}\n")
    Path("names").write_text("u1 anna\nu2 bob\n")
    tree, transitions = context_system(chain_topology([1, 2, 3, 4]), 2, 1, 0)
    write_object("tree", tree.write)
    network = Nnet.from_config(f"input-node name=input dim={transitions.num_pdfs}\n"
                               "output-node name=output input=input objective=linear\n", seed=0)
    AcousticModel(transitions, network, np.zeros(0, np.float32)).write("final.mdl")
    random = np.random.default_rng(2)
    with TableWriter("ark:feats.ark", FLOAT_MATRIX) as writer:
        for number in range(NUM_UTTERANCES):
            writer.write(f"u{number}", random.normal(0.0, 3.0, (14, transitions.num_pdfs)).astype(np.float32))
    return here


def decoded(program: str, graph: str) -> dict[str, list[int]]:
    run(program, "--acoustic-scale=1.0", "--beam=30", "final.mdl", graph, "ark:feats.ark", "ark:lat", "ark:words")
    with SequentialReader("ark:words", INT_VECTOR) as reader:
        return {key: words.tolist() for key, words in reader}


def test_from_a_lexicon_to_words(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run("prepare-lang", "--nonterminals=nonterminals", "lexicon", "lang")
    offset = Path("lang/phones/nonterm_phones_offset.int").read_text().strip()
    number = Path("lang/phones/nonterminals.int").read_text().strip()
    assert int(number) == int(offset) + 4 and Path("lang/phones/nonterminals.txt").read_text() == f"{NAME}\n"
    phones = dict(line.split() for line in Path("lang/phones.txt").read_text().splitlines())
    words = dict(line.split() for line in Path("lang/words.txt").read_text().splitlines())
    assert phones[NAME] == number and {"#nonterm_begin", "#nonterm_end", NAME} <= {*words}
    # An n-gram of text has the nonterminal among its words, which comes out with them.
    Path("top.arpa").write_text(ARPA)
    run("make-graph", "--self-loop-scale=1.0", "lang", "top.arpa", "tree", "final.mdl", "top")
    Path("name.txt").write_text(f"0 1 {words['anna']} {words['anna']}\n0 1 {words['bob']} {words['bob']}\n1\n")
    run("fstcompile", "name.txt", "name.fst")
    run("make-graph", "--self-loop-scale=1.0", "--as-nonterminal=true", "lang", "name.fst", "tree", "final.mdl", "name")
    run("make-graph", "--self-loop-scale=1.0", "--as-nonterminal=true", "lang", "text:names", "tree", "final.mdl",
        "silent")
    option = f"--nonterm-phones-offset={offset}"
    run("make-grammar-fst", option, "top/HCLG.fst", number, "name/HCLG.fst", "HCLG.gra")
    run("make-grammar-fst", option, "--write-as-grammar=false", "top/HCLG.fst", number, "name/HCLG.fst", "HCLG.fst")
    found = decoded("nnet3-latgen-grammar", "HCLG.gra")
    assert len(found) == NUM_UTTERANCES and found == decoded("nnet3-latgen-faster", "HCLG.fst")
    names = {int(value): key for key, value in words.items()}
    for sequence in found.values():
        text = [names[word] for word in sequence]
        place = text.index(NAME)
        assert text[place + 1] in ("anna", "bob")
    assert "accepts the empty sequence" not in capfd.readouterr().err
    run("make-grammar-fst", option, "top/HCLG.fst", number, "silent/HCLG.fst", "silent.gra")
    assert f"Nonterminal {number} accepts the empty sequence" in capfd.readouterr().err
    run("nnet3-latgen-faster", "final.mdl", "top/HCLG.fst", "ark:feats.ark", "ark:lat", status=255)
    assert "but the model's transition-ids are 1 to" in capfd.readouterr().err
    run("make-grammar-fst", option, "top/HCLG.fst", "twelve", "name/HCLG.fst", "x.gra", status=255)
    assert "expected the number of a nonterminal, found 'twelve'" in capfd.readouterr().err
    run("make-grammar-fst", option, "top/HCLG.fst", "name/HCLG.fst", "x.gra", status=255)
    run("make-grammar-fst", "top/HCLG.fst", "x.fst", status=255)
    assert "--nonterm-phones-offset=-1" in capfd.readouterr().err
    run("nnet3-latgen-grammar", "final.mdl", "HCLG.fst", "ark:feats.ark", "ark:lat", status=255)
    assert "<GrammarFst>" in capfd.readouterr().err and not Path("x.gra").exists()
    run("make-graph", "--as-nonterminal=true", "lexicon", "loop", "tree", "final.mdl", "x", status=255)
    assert "has no nonterminals" in capfd.readouterr().err
