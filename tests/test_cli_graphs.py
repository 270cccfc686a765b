"""Commands that make graphs: lexicons, grammars, HCLG and its parts, phone loops, grammars of several graphs."""
from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from graph_systems import SYSTEMS, context_system
from io_samples import read_table
from paths import DATA, ROOT, shared_folder

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.cli.fst.make_graph import arpa_to_fst, make_phone_loop
from nnet3py.cli.fst.openfst import (
    fst_arc_sort,
    fst_compile,
    fst_compose,
    fst_connect,
    fst_convert,
    fst_determinize,
    fst_info,
    fst_invert,
    fst_minimize,
    fst_print,
    fst_project,
    fst_rand_gen,
    fst_relabel,
    fst_replace,
    fst_rm_epsilon,
    fst_shortest_path,
    fst_symbols,
)
from nnet3py.cli.fst.programs import (
    add_self_loops,
    fst_add_self_loops,
    fst_compose_context,
    fst_copy,
    fst_determinize_star,
    fst_is_stochastic,
    fst_minimize_encoded,
    fst_push_special,
    fst_rm_eps_local,
    fst_rm_symbols,
    fst_table_compose,
    make_h_transducer,
)
from nnet3py.cli.main import load
from nnet3py.decoding.graph import read_lang
from nnet3py.decoding.lexicon import GraphBuilder, Silence, make_lang, read_lexicon
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
from nnet3py.fst.operations import changed
from nnet3py.fst.text import symbols_of
from nnet3py.hmm.topology import HmmTopology, chain_topology
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tables import TableWriter
from nnet3py.network.nnet import Nnet
from nnet3py.recognition.model_folder import demo_folder
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import breadth_first
from nnet3py.transducers.fst_text import read_fst_file, write_fst_file

pytest.importorskip("kaldifst", reason="composition and determinization are kaldifst's (nnet3py[decode])")

KALDIS = DATA / "graphs"
COSTS = 2e-5               # how near costs are to Kaldi's


@pytest.fixture
def folder(here: Path) -> Path:
    for file in KALDIS.iterdir():
        (here / file.name).symlink_to(file)
    return here


def canonical(fst: Fst) -> Fst:
    """States numbered from the start by sorted arcs: the same for graphs that differ in numbers alone."""
    order = np.lexsort((np.round(fst.weights, 3), fst.output_labels, fst.input_labels, fst.sources))
    return breadth_first(changed(fst, input_labels=fst.input_labels[order], output_labels=fst.output_labels[order],
                                 weights=fst.weights[order], next_states=fst.next_states[order]))


def assert_same(found: str, expected: str) -> None:
    ours, theirs = (canonical(read_fst_file(name)) for name in (found, expected))
    for name in ("arc_starts", "input_labels", "output_labels", "next_states"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    for name in ("weights", "final_weights"):
        assert np.allclose(getattr(ours, name), getattr(theirs, name), atol=COSTS), name


def test_grammars(folder: Path) -> None:
    options = ["--disambig-symbol=#0", "--read-symbol-table=words.txt"]
    for model, graph in (("bigram", "G.fst"), ("trigram", "G3.fst")):
        assert arpa_to_fst.execute([*options, f"{model}.arpa", "ours.fst"]) == 0
        assert_same("ours.fst", graph)
    assert arpa_to_fst.execute(["bigram.arpa", "ours.fst"]) == 0
    assert_same("ours.fst", "G-symbols.fst")
    assert symbols_of(read_fst_file("ours.fst"))[0] == symbols_of(read_fst_file("G-symbols.fst"))[0]
    assert arpa_to_fst.execute(["--write-symbol-table=new.txt", "--disambig-symbol=#0", "bigram.arpa", "ours.fst"]) == 0
    assert Path("new.txt").read_text().split()[:8] == ["<eps>", "0", "#0", "1", "<s>", "2", "</s>", "3"]
    assert symbols_of(read_fst_file("ours.fst")) == (None, None)


def test_grammars_that_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert arpa_to_fst.execute(["--disambig-symbol=#7", "--read-symbol-table=words.txt", "bigram.arpa", "x"]) == 255
    assert arpa_to_fst.execute(["--bos-symbol=<start>", "bigram.arpa", "x"]) == 255
    assert "is --bos-symbol right?" in capsys.readouterr().err
    Path("few.txt").write_text("<eps> 0\n<s> 1\n</s> 2\n#0 3\none 4\n")
    assert arpa_to_fst.execute(["--disambig-symbol=#0", "--read-symbol-table=few.txt", "--max-arpa-warnings=3",
                                "bigram.arpa", "few.fst"]) == 0
    assert "not in symbol table" in capsys.readouterr().err
    assert set(read_fst_file("few.fst").output_labels.tolist()) <= {0, 4} and not Path("x").exists()


def test_lexicon(folder: Path) -> None:
    assert fst_compile.execute(["L_disambig.txt", "a.fst"]) == 0
    assert fst_arc_sort.execute(["--sort_type=olabel", "a.fst", "L_disambig.fst"]) == 0
    assert fst_table_compose.execute(["L_disambig.fst", "G.fst", "ours.fst"]) == 0
    ours, kaldis = read_fst_file("ours.fst"), read_fst_file("LG1.fst")
    assert ours.num_states == kaldis.num_states
    for name in ("input_labels", "output_labels", "weights", "final_weights"):
        assert np.allclose(np.sort(getattr(ours, name)), np.sort(getattr(kaldis, name)), atol=COSTS)


def test_stages_of_a_graph(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fst_determinize_star.execute(["--use-log=true", "LG1.fst", "ours.fst"]) == 0
    assert_same("ours.fst", "LG2.fst")
    assert fst_minimize_encoded.execute(["LG2.fst", "ours.fst"]) == 0
    assert_same("ours.fst", "LG3.fst")
    assert fst_push_special.execute(["LG3.fst", "ours.fst"]) == 0
    assert_same("ours.fst", "LG.fst")
    assert fst_compose_context.execute(["--context-size=1", "--central-position=0", "--read-disambig-syms=disambig.int",
                                        "--write-disambig-syms=d.int", "our_ilabels", "LG.fst", "a.fst"]) == 0
    assert Path("our_ilabels").read_bytes() == Path("ilabels").read_bytes()
    assert Path("d.int").read_text().split() == ["10", "11", "24", "25"]
    assert fst_arc_sort.execute(["a.fst", "ours.fst"]) == 0
    assert_same("ours.fst", "CLG.fst")
    assert make_h_transducer.execute(["--disambig-syms-out=tid.int", "ilabels", "tree", "trans.mdl", "ours.fst"]) == 0
    assert_same("ours.fst", "Ha.fst")
    assert Path("tid.int").read_text().split() == ["61", "62", "63", "64"]
    assert fst_table_compose.execute(["Ha.fst", "CLG.fst", "a.fst"]) == 0
    assert fst_determinize_star.execute(["--use-log", "a.fst", "b.fst"]) == 0
    assert fst_rm_symbols.execute(["tid.int", "b.fst", "a.fst"]) == 0
    assert fst_rm_eps_local.execute(["a.fst", "b.fst"]) == 0
    assert fst_minimize_encoded.execute(["b.fst", "ours.fst"]) == 0
    assert_same("ours.fst", "HCLGa.fst")
    assert add_self_loops.execute(["--self-loop-scale=1.0", "trans.mdl", "HCLGa.fst", "a.fst"]) == 0
    assert fst_convert.execute(["--fst_type=const", "a.fst", "ours.fst"]) == 0
    assert_same("ours.fst", "HCLG.fst")
    stored = read_fst_file("ours.fst").stored
    assert stored is not None and stored.kind == "const"
    capsys.readouterr()
    assert fst_is_stochastic.execute(["LG.fst"]) == 1 and fst_is_stochastic.execute(["--delta=0.5", "HCLG.fst"]) == 0
    rows = [[float(word) for word in line.split()] for line in capsys.readouterr().out.splitlines()]
    assert np.allclose(rows, [[-0.124036, -0.124273], [0.0, -0.192413]], atol=COSTS)


def test_a_graph_of_another_model_is_refused_with_the_label(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = read_fst_file("HCLGa.fst")
    labels = graph.input_labels.copy()
    labels[5] = 4711
    from nnet3py.transducers.fst_text import write_fst_file

    write_fst_file("wrong.fst", dataclasses.replace(graph, input_labels=labels, stored=None))
    assert add_self_loops.execute(["trans.mdl", "wrong.fst", "x.fst"]) == 255
    assert "label 4711" in capsys.readouterr().err
    wrong = Path("ilabels").read_bytes()[:-4] + (99).to_bytes(4, "little")
    Path("wrong_ilabels").write_bytes(wrong)
    assert make_h_transducer.execute(["wrong_ilabels", "tree", "trans.mdl", "x.fst"]) == 255
    assert "phone 99" in capsys.readouterr().err
    assert fst_compose_context.execute(["--nonterm-phones-offset=90", "i", "LG.fst", "x.fst"]) == 255
    assert "need windows of a phone and the one before it" in capsys.readouterr().err
    assert not Path("x.fst").exists()


def lines(name: str, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    capsys.readouterr()
    assert fst_print.execute([*options, name]) == 0
    return capsys.readouterr().out.splitlines()


def test_programs_of_openfst(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.txt").write_text("0 1 1 2 0.5\n0 1 3 0\n1 2 0 0 1\n2\n3 2 1 1\n")
    Path("pairs").write_text("1 7\n3 9\n")
    assert fst_compile.execute(["a.txt", "a.fst"]) == 0
    for program, options, expected in (
            (fst_invert, [], "0\t1\t2\t1\t0.5"), (fst_project, ["--project_output=true"], "0\t1\t2\t2\t0.5"),
            (fst_project, [], "0\t1\t1\t1\t0.5"), (fst_project, ["--project_type=output"], "0\t1\t2\t2\t0.5"),
            (fst_relabel, ["--relabel_ipairs=pairs"], "0\t1\t7\t2\t0.5"), (fst_rm_epsilon, [], "0\t1\t1\t2\t0.5"),
            (fst_determinize, [], "0\t1\t1\t2\t0.5"), (fst_minimize, [], "0\t1\t1\t2\t1.5")):
        assert program.execute([*options, "a.fst", "b.fst"]) == 0
        assert expected in lines("b.fst", capsys), program.name
    assert fst_connect.execute(["a.fst", "b.fst"]) == 0
    assert len(lines("b.fst", capsys)) == 4
    assert fst_shortest_path.execute(["a.fst", "b.fst"]) == 0
    assert len(lines("b.fst", capsys)) == 3
    Path("c.txt").write_text("0 0 1 1 -1\n0\n")
    assert fst_compile.execute(["c.txt", "c.fst"]) == 0 and fst_shortest_path.execute(["c.fst", "x.fst"]) == 255
    assert "no cheapest path" in capsys.readouterr().err
    assert fst_rand_gen.execute(["--seed=-3", "a.fst", "b.fst"]) == 0
    assert len(lines("b.fst", capsys)) == 3
    Path("c.txt").write_text("0 1 2 9\n1\n")
    assert fst_compile.execute(["c.txt", "c.fst"]) == 0 and fst_compose.execute(["a.fst", "c.fst", "b.fst"]) == 0
    assert lines("b.fst", capsys)[0] == "0\t1\t1\t9\t0.5"
    assert fst_info.execute(["a.fst"]) == 0
    assert capsys.readouterr().out.count("\n") == 41
    assert fst_replace.execute(["a.fst", "99", "a.fst", "2"]) == 255
    assert fst_relabel.execute(["--relabel_ipairs=a.txt", "a.fst"]) == 255


def test_symbols_in_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.txt").write_text("0 1 one\n1\n")
    assert fst_compile.execute(["--acceptor", "--isymbols=words.txt", "--keep_isymbols", "a.txt", "a.fst"]) == 0
    assert lines("a.fst", capsys, "--acceptor") == ["0\t1\tone", "1"]
    assert lines("a.fst", capsys, "--acceptor", "--numeric")[0].split()[2].isdecimal()
    assert fst_arc_sort.execute(["a.fst", "sorted.fst"]) == 0
    assert lines("sorted.fst", capsys, "--acceptor") == ["0\t1\tone", "1"]
    assert fst_symbols.execute(["--save_isymbols=saved", "--clear_isymbols", "a.fst", "b.fst"]) == 0
    assert Path("saved").read_text().split()[:2] == ["<eps>", "0"]
    assert symbols_of(read_fst_file("b.fst")) == (None, None)
    assert fst_symbols.execute(["--save_osymbols=x", "b.fst", "c.fst"]) == 255
    Path("a.txt").write_text("0 1 eleven\n1\n")
    assert fst_compile.execute(["--acceptor", "--isymbols=words.txt", "a.txt", "x.fst"]) == 255
    assert "which has no 'eleven'" in capsys.readouterr().err and not Path("x.fst").exists()


def test_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in").write_text("u1 \n0 1 1 1\n1\n\nu2 \n0 1 1 1\n0 1 1 2\n1\n\n")
    assert fst_copy.execute(["ark:in", "ark:out"]) == 0
    assert fst_table_compose.execute(["ark:in", "ark:out", "ark,t:both"]) == 0
    assert Path("both").read_text().count("\n\n") == 2
    capsys.readouterr()
    assert fst_determinize_star.execute(["ark:out", "ark,t:det"]) == 0
    captured = capsys.readouterr().err
    assert "key u2: a graph cannot be determinized: FST was not functional" in captured
    assert Path("det").read_text().startswith("u1") and "u2" not in Path("det").read_text()


def test_loops_of_symbols(folder: Path) -> None:
    Path("p.int").write_text("5\n")
    Path("w.int").write_text("6\n")
    assert fst_compile.execute(["L_disambig.txt", "a.fst"]) == 0
    assert fst_add_self_loops.execute(["p.int", "w.int", "a.fst", "b.fst"]) == 0
    added = read_fst_file("b.fst").num_arcs - read_fst_file("a.fst").num_arcs
    assert added == len(set(read_fst_file("a.fst").sources[read_fst_file("a.fst").output_labels > 0].tolist())
                        | set(np.flatnonzero(read_fst_file("a.fst").is_final).tolist()))
    Path("w.int").write_text("6 7\n")
    assert fst_add_self_loops.execute(["p.int", "w.int", "a.fst", "c.fst"]) == 255


@pytest.mark.slow
def test_kaldis_scripts_make_a_lang_folder_and_a_graph(tmp_path: Path) -> None:
    """With nothing but bin/ and the system's programs on PATH, of the digits: as our make-graph makes it."""
    scripts, golden = shared_folder("kaldi-scripts"), shared_folder("golden")
    for name in ("steps", "utils"):
        (tmp_path / name).symlink_to(scripts / name)
    (tmp_path / "path.sh").write_text(f"export LC_ALL=C\nexport PATH=$PWD/utils:{ROOT / 'bin'}:$PATH\n")
    (tmp_path / "phones.txt").write_text((golden / "chain" / "phones.txt").read_text() + "#0 29\n")
    write_dict(tmp_path / "dict", shared_folder("data") / "digits", tmp_path / "phones.txt")
    (tmp_path / "exp").mkdir()
    for source, target in (("0.trans_mdl", "final.mdl"), ("tree", "tree")):
        (tmp_path / "exp" / target).symlink_to(golden / "chain" / source)
    script = f"""set -e
utils/prepare_lang.sh --position-dependent-phones false --num-sil-states 1 --num-nonsil-states 1 \\
    --phone-symbol-table phones.txt dict zero tmp lang
arpa2fst --disambig-symbol=#0 --read-symbol-table=lang/words.txt {golden}/lattices/data/bigram.arpa lang/G.fst
utils/mkgraph.sh --self-loop-scale 1.0 lang exp exp/graph
make-graph --self-loop-scale=1.0 lang lang/G.fst exp/tree exp/final.mdl ours
"""
    done = subprocess.run(["bash", "-c", f". ./path.sh; {script}"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=300, check=False, env={**os.environ, "LC_ALL": "C"})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    made, ours = (read_fst_file(tmp_path / name) for name in ("exp/graph/HCLG.fst", "ours/HCLG.fst"))
    assert made.stored is not None and made.stored.kind == "const"
    assert made.num_states == ours.num_states and made.num_arcs == ours.num_arcs
    assert np.allclose(np.sort(made.weights), np.sort(ours.weights), atol=COSTS)
    words = set(made.output_labels.tolist())
    assert words == set(ours.output_labels.tolist()) and len(words) > 10
    assert (tmp_path / "exp/graph/num_pdfs").read_text() == "56\n"
    assert (tmp_path / "exp/graph/words.txt").read_bytes() == (tmp_path / "lang/words.txt").read_bytes()


def write_dict(folder: Path, digits: Path, phones: Path) -> None:
    """A dictionary folder of the digits: words, phones and which of them are silence."""
    folder.mkdir()
    silence, *others = [line.split()[0] for line in phones.read_text().splitlines() if line[:1] not in "<#"]
    for name, text in (("lexicon.txt", (digits / "lexicon.txt").read_text()), ("silence_phones.txt", silence),
                       ("optional_silence.txt", silence), ("nonsilence_phones.txt", "\n".join(others)),
                       ("extra_questions.txt", "")):
        (folder / name).write_text(text.rstrip("\n") + "\n" * bool(text))


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
def grammar_folder(here: Path) -> Path:
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
    return {key: words.tolist() for key, words in read_table("ark:words", INT_VECTOR).items()}


def test_from_a_lexicon_to_words(grammar_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
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


LEXICON = "one W AH N\ntwo T UW\ntwo T AH\n<UNK> SPN\n"
PHONES = ["<eps>", "SIL", "SPN", "AH", "N", "T", "UW", "W"]


@pytest.fixture
def lexicon(here: Path) -> Path:
    Path("lexicon").write_text(LEXICON)
    return here / "lexicon"


def prepare(*words: str, status: int = 0) -> None:
    assert load("prepare-lang").execute([*words]) == status


def lines_of(name: str) -> list[str]:
    return Path("lang", name).read_text().splitlines()


def test_the_folder(lexicon: Path, capfd: pytest.CaptureFixture[str]) -> None:
    prepare("--silence-phones=SIL,SPN", "--unknown-word=<UNK>", "lexicon", "lang")
    assert "of 4 pronunciations and 7 phones" in capfd.readouterr().err
    assert [line.split()[0] for line in lines_of("phones.txt")][:8] == PHONES
    assert lines_of("phones/silence.csl") == lines_of("phones/context_indep.csl") == ["1:2"]
    assert lines_of("phones/optional_silence.txt") == ["SIL"] and lines_of("phones/nonsilence.csl") == ["3:4:5:6:7"]
    assert lines_of("phones/sets.int") == list("1234567")
    assert lines_of("phones/roots.txt")[2] == "shared split AH"
    assert lines_of("phones/extra_questions.int") == ["1 2", "3 4 5 6 7"]
    words = dict(map(str.split, lines_of("words.txt")))
    assert lines_of("oov.txt") == ["<UNK>"] and lines_of("oov.int") == [words["<UNK>"]]
    assert {"<s>", "</s>", "#0"} <= {*words}
    assert lines_of("lexicon.txt") == LEXICON.splitlines()


def test_those_who_read_it(lexicon: Path) -> None:
    prepare("lexicon", "lang")
    topology = read_object("lang/topo", HmmTopology.read)
    assert topology.phones == [1, 2, 3, 4, 5, 6, 7] and len(topology.entries[0]) == 2
    found, expected = read_lang("lang"), make_lang(read_lexicon("lexicon"), silence=Silence("SIL", 0.5))
    assert found.words.names == expected.words.names
    for one, other in ((found.lexicon, expected.lexicon), (found.plain_lexicon, expected.plain_lexicon)):
        assert len(one.weights) == len(other.weights)
        np.testing.assert_array_equal(one.output_labels, other.output_labels)
    prepare("--chain=false", "lexicon", "lang3")
    speech = read_object("lang3/topo", HmmTopology.read)
    assert len(speech.entries[speech.entry_of_phone[3]]) == 4


def test_phones_that_depend_on_their_position(lexicon: Path) -> None:
    Path("lexicon").write_text("one W AH N\ntwo T UW\noh UW\n<SIL> SIL\n")
    prepare("--position-dependent-phones=true", "lexicon", "lang")
    table = {name: int(number) for name, number in map(str.split, lines_of("phones.txt"))}
    assert list(table)[:8] == ["<eps>", "SIL", "SIL_B", "SIL_E", "SIL_I", "SIL_S", "AH_B", "AH_E"]
    assert lines_of("lexicon.txt") == ["one W_B AH_I N_E", "two T_B UW_E", "oh UW_S", "<SIL> SIL_S"]
    assert lines_of("phones/silence.csl") == lines_of("phones/context_indep.csl") == ["1:2:3:4:5"]
    assert lines_of("phones/optional_silence.csl") == ["1"]
    assert lines_of("phones/sets.txt")[:2] == ["SIL SIL_B SIL_E SIL_I SIL_S", "AH_B AH_E AH_I AH_S"]
    assert lines_of("phones/roots.int")[1] == "shared split 6 7 8 9"
    boundaries = dict(map(str.split, lines_of("phones/word_boundary.int")))
    assert {name: boundaries[str(table[name])] for name in ("SIL", "SIL_S", "W_B", "AH_I", "N_E", "UW_S")} == {
        "SIL": "nonword", "SIL_S": "singleton", "W_B": "begin", "AH_I": "internal", "N_E": "end", "UW_S": "singleton"}
    assert len(boundaries) == 5 + 4 * 5 == len(read_object("lang/topo", HmmTopology.read).phones)
    questions = lines_of("phones/extra_questions.txt")
    assert "AH_B N_B T_B UW_B W_B" in questions and len(questions) == 11


def test_probabilities_are_kept(lexicon: Path) -> None:
    Path("lexicon").write_text("one 1.0 W AH N\ntwo 0.75 T UW\ntwo 0.25 T AH\n")
    prepare("lexicon", "lang")
    assert lines_of("lexicon.txt") == ["one 1 W AH N", "two 0.75 T UW", "two 0.25 T AH"]


def test_what_goes_wrong(lexicon: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for words, message in ((["--silence-phones="], "at least one phone"), (["--unknown-word=x"], "is not in lexicon"),
                           (["--silence-phones=W,AH,N,T,UW,SPN"], "no phones"), (["--silence-prob=1.5"], "1.5")):
        prepare(*words, "lexicon", "lang", status=255)
        assert message in capfd.readouterr().err
    prepare("missing", "lang", status=255)
    assert not Path("lang").exists()
