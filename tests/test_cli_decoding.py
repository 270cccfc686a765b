"""From a lexicon and a model to words: make-graph, nnet3-latgen-faster and its sisters, alignment, lattices."""
from __future__ import annotations

import re

import numpy as np
import pytest
from graph_paths import path_costs
from io_samples import read_table

from nnet3py.acoustic_model import AcousticModel
from nnet3py.cli.alignments.align_compiled import align_compiled, compile_train_graphs, compile_train_graphs_fsts
from nnet3py.cli.decoding.latgen import (
    latgen_faster,
    latgen_faster_batch,
    latgen_faster_lookahead,
    latgen_faster_mapped,
    latgen_faster_parallel,
)
from nnet3py.cli.decoding.scoring import word_error_rate
from nnet3py.cli.fst.make_graph import make_graph
from nnet3py.cli.lattices.changes import lattice_scale
from nnet3py.cli.lattices.paths import lattice_best_path
from nnet3py.decoding.graph import read_fst_file, word_line, write_fst_file
from nnet3py.formats.holders import FLOAT, FLOAT_MATRIX, FLOAT_VECTOR, INT_VECTOR
from nnet3py.hmm.topology import HmmState, HmmTopology
from nnet3py.hmm.tree import initial_transition_model, monophone_tree
from nnet3py.io.object_files import write_object
from nnet3py.io.tables import write_table
from nnet3py.network.nnet import Nnet
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import FST
from nnet3py.transducers.lattice import LATTICES

pytest.importorskip("kaldifst", reason="graphs are made with kaldifst")

COST = 1e-3           # sums of float32 over an utterance
SCALE = 0.5
PHONES = ["SIL", "x", "y", "z"]
NET = """
input-node name=input dim=4
component name=s type=LogSoftmaxComponent dim=4
component-node name=s component=s input=input
output-node name=output input=s
"""
LEXICON = {"one": "x y", "two": "y z", "three": "z x"}
SAID = {"u1": "one two", "u2": "three", "u3": "two one three"}
FRAMES_PER_PHONE = 3


def features(words: str, seed: int) -> np.ndarray:
    """Frames in which the phone that is said stands out."""
    phones = ["SIL", *" ".join(LEXICON[word] for word in words.split()).split(), "SIL"]
    numbers = np.repeat([PHONES.index(phone) for phone in phones], FRAMES_PER_PHONE)
    return (3.0 * np.eye(4)[numbers] + 0.3 * np.random.default_rng(seed).standard_normal((len(numbers), 4))).astype(
        np.float32)


@pytest.fixture
def folder(here):
    """The current folder, with a model, a lexicon, features, and a graph."""
    topology = HmmTopology([[HmmState(0, 0, [(0, 0.5), (1, 0.5)]), HmmState()]], dict.fromkeys(range(1, 5), 0))
    tree = monophone_tree(topology)
    write_object("tree", tree.write)
    AcousticModel(initial_transition_model(tree, topology), Nnet.from_config(NET),
                  np.full(4, 0.25, dtype=np.float32)).write("final.mdl")
    (here / "lexicon.txt").write_text("".join(f"{word} {phones}\n" for word, phones in LEXICON.items()))
    (here / "phones.txt").write_text("<eps> 0\n" + "".join(f"{p} {n}\n" for n, p in enumerate(PHONES, 1)))
    (here / "text").write_text("".join(f"{key} {words}\n" for key, words in SAID.items()))
    write_table("ark:feats.ark", FLOAT_MATRIX, {key: features(words, place)
                                                for place, (key, words) in enumerate(SAID.items())})
    assert make_graph.execute([*LANG, "lexicon.txt", "loop", "tree", "final.mdl", "graph"]) == 0
    return here


LANG = ["--phones=phones.txt", "--silence-phone=SIL", "--write-lang=lang"]
DECODE = [f"--acoustic-scale={SCALE}", "--use-gpu=no"]


def number_of(line: str) -> float:
    return float(re.search(r"is (-?[0-9.e+-]+) over", line)[1])


@pytest.mark.parametrize("compact", ["true", "false"])
def test_words_alignments_lattices_and_log(folder, capfd, compact):
    assert latgen_faster.execute([
        *DECODE, f"--determinize-lattice={compact}", "--lattice-beam=0.01", "--word-symbol-table=graph/words.txt",
        "final.mdl", "graph/HCLG.fst", "ark:feats.ark", "ark:lat.ark", "ark,t:words", "ark:ali"]) == 0
    log = capfd.readouterr().err
    for key, words in SAID.items():
        assert f"\n{key} {words}\n" in log
    assert "Done 3 utterances, failed for 0" in log and "real-time factor assuming 100 frames/sec is" in log
    assert word_error_rate.execute(["--word-symbol-table=graph/words.txt", "text", "words"]) == 0
    assert "%WER 0.00 [ 0 / 6, 0 ins, 0 del, 0 sub ]" in capfd.readouterr().out
    found, alignments = read_table("ark:lat.ark", LATTICES), read_table("ark:ali", INT_VECTOR)
    frames = {key: len(feats) for key, feats in read_table("ark:feats.ark", FLOAT_MATRIX).items()}
    assert {key: len(alignment) for key, alignment in alignments.items()} == frames
    overall = number_of(next(line for line in log.splitlines() if "Overall log-likelihood per frame" in line))
    each = [number_of(re.search(rf"Log-like per frame for utterance {key} is .*", log)[0]) * frames[key]
            for key in SAID]
    assert overall == pytest.approx(sum(each) / sum(frames.values()), abs=COST)
    # the lattice's acoustic costs are unscaled
    costs = path_costs(found["u2"], frames["u2"])
    assert len(costs) == 1                    # the lattice beam is that small
    for cost in costs.values():
        weights = found["u2"].weights.sum(axis=0) + found["u2"].final_weights[found["u2"].is_final].sum(axis=0)
        assert cost == pytest.approx(weights.sum(), abs=COST)
        assert weights[0] + SCALE * weights[1] == pytest.approx(-each[1], abs=COST)
    assert lattice_best_path.execute([f"--acoustic-scale={SCALE}", "ark:lat.ark", "ark,t:again", "ark:ali2"]) == 0
    log = capfd.readouterr().err
    assert f"over {sum(frames.values())} frames." in log and "Done 3 lattices, failed for 0" in log
    cost = float(re.search(r"Overall cost per frame is (\S+) =", log)[1])
    assert cost == pytest.approx(-overall, abs=COST)
    assert (folder / "again").read_text() == (folder / "words").read_text()
    assert read_table("ark:ali2", INT_VECTOR)["u3"].tolist() == alignments["u3"].tolist()


def test_log_likelihoods_give_the_same(folder, capfd):
    from nnet3py.cli.nnet.compute import compute

    assert compute.execute(["--use-priors=true", "--use-gpu=no", "final.mdl", "ark:feats.ark", "ark:likes"]) == 0
    pools = ["--memory-pool-tokens-block-size=128", "--memory-pool-links-block-size=128"]      # Kaldi's, idle here
    assert latgen_faster_mapped.execute([f"--acoustic-scale={SCALE}", *pools, "final.mdl", "graph/HCLG.fst",
                                         "ark:likes", "ark:lat1", "ark,t:words1"]) == 0
    assert latgen_faster_parallel.execute([*DECODE, *pools, "--num-threads=2", "final.mdl", "graph/HCLG.fst",
                                           "ark:feats.ark", "ark:lat2", "ark,t:words2"]) == 0
    assert (folder / "words1").read_text() == (folder / "words2").read_text() != ""
    first, second = read_table("ark:lat1", LATTICES), read_table("ark:lat2", LATTICES)
    np.testing.assert_allclose(first["u1"].weights, second["u1"].weights, atol=COST)


def test_many_at_a_time(folder, capfd):
    feats = read_table("ark:feats.ark", FLOAT_MATRIX)
    bad = feats["u2"].copy()
    bad[3, 1] = np.nan
    write_table("ark:more.ark", FLOAT_MATRIX, feats | {"bad": bad, "empty": bad[:0]})
    assert latgen_faster_batch.execute([*DECODE, "final.mdl", "graph/HCLG.fst", "ark:more.ark", "ark:lat1",
                                        "ark,t:words1"]) == 0
    log = capfd.readouterr().err
    assert "Zero-length utterance: empty" in log and "WARNING" in log and "Done 3 utterances, failed for 2" in log
    assert latgen_faster.execute([*DECODE, "final.mdl", "graph/HCLG.fst", "ark:feats.ark", "ark:lat2",
                                  "ark,t:words2"]) == 0
    assert (folder / "words1").read_text() == (folder / "words2").read_text() != ""


def test_a_graph_for_each_utterance(folder, capfd):
    graph = read_fst_file("graph/HCLG.fst")
    write_table("ark:graphs", FST, {"u3": graph, "u4": graph})
    assert latgen_faster.execute([*DECODE, "final.mdl", "ark:graphs", "ark:feats.ark", "", "ark,t:words"]) == 0
    log = capfd.readouterr().err
    assert "Not decoding utterance u4" in log and "Done 1 utterances, failed for 1" in log
    assert (folder / "words").read_text().startswith("u3 ")


def test_hcl_and_g_composed_while_decoding(folder, capfd):
    """HCL is the graph of any sequence of words, G too."""
    table = dict(line.split() for line in (folder / "graph/words.txt").read_text().splitlines())
    words = [int(table[word]) for word in LEXICON]
    write_fst_file("G.fst", Fst.from_arcs(0, [0.0], [0] * 3, words, words, [0.0] * 3, [0] * 3))
    (folder / "none.int").write_text("")
    graphs = ["final.mdl", "graph/HCLG.fst", "G.fst", "none.int", "ark:feats.ark", "ark:lat"]
    symbols = "--word-symbol-table=graph/words.txt"
    assert latgen_faster_lookahead.execute([*DECODE, symbols, *graphs, "ark,t:words1"]) == 0
    log = capfd.readouterr().err
    for key, said in SAID.items():
        assert f"\n{key} {said}\n" in log
    (folder / "phrases").write_text("three\n\ntwo one\n")
    assert latgen_faster_lookahead.execute([*DECODE, symbols, "--phrases=phrases", *graphs]) == 0
    assert "\nu2 three\n" in capfd.readouterr().err
    (folder / "boosts").write_text("three 500\n")
    assert latgen_faster_lookahead.execute([*DECODE, symbols, "--boost-words=boosts", *graphs]) == 0
    assert re.search(r"\nu1 .*three", capfd.readouterr().err)


@pytest.mark.parametrize(("options", "message"), [
    (["--phrases=phrases"], "needs --word-symbol-table"), (["--phrases=phrases", "--boost-words=x"], "cannot both"),
    (["--phrases=phrases", "--word-symbol-table=graph/words.txt"], "no word 'four'"),
    (["--boost-words=phrases", "--word-symbol-table=graph/words.txt"], "WORD COST")])
def test_lookahead_options_that_cannot_be(folder, capfd, options, message):
    write_fst_file("G.fst", Fst.from_arcs(0, [0.0], [0], [1], [1], [0.0], [0]))
    (folder / "none.int").write_text("")
    (folder / "phrases").write_text("one two four\n")
    assert latgen_faster_lookahead.execute([*DECODE, *options, "final.mdl", "graph/HCLG.fst", "G.fst", "none.int",
                                            "ark:feats.ark", "ark:lat"]) == 255
    assert message in capfd.readouterr().err


def test_faults_of_single_utterances(folder, capfd):
    feats = read_table("ark:feats.ark", FLOAT_MATRIX)
    bad = feats["u2"].copy()
    bad[3, 1] = np.nan
    write_table("ark:bad.ark", FLOAT_MATRIX, {"u1": feats["u1"], "bad": bad, "empty": bad[:0]})
    args = ["final.mdl", "graph/HCLG.fst", "ark:bad.ark", "ark:lat", "ark,t:words"]
    assert latgen_faster.execute([*DECODE, *args]) == 0
    log = capfd.readouterr().err
    assert re.search("WARNING .*utterance bad", log) and "Zero-length utterance: empty" in log
    assert "Done 1 utterances, failed for 2" in log
    write_table("ark:bad.ark", FLOAT_MATRIX, {"bad": bad})
    assert latgen_faster.execute([*DECODE, *args]) == 1


def line_graph() -> None:
    """A graph of the word two only, as compile-train-graphs makes it."""
    write_table("ark:two.int", INT_VECTOR, {"u2": np.array([3], dtype=np.int32)})
    assert compile_train_graphs.execute(["tree", "final.mdl", "lang/L.fst", "ark:two.int", "ark:two.fsts"]) == 0


def test_training_graph_options(folder):
    """Kaldi's scripts give all of them."""
    line_graph()
    plain = read_table("ark:two.fsts", FST)["u2"]
    assert compile_train_graphs.execute([
        "--transition-scale=1.0", "--self-loop-scale=0.5", "--reorder=false", "--batch-size=1", "tree", "final.mdl",
        "lang/L.fst", "ark:two.int", "ark:scaled.fsts"]) == 0
    scaled = read_table("ark:scaled.fsts", FST)["u2"]
    is_loop = {"plain": plain.next_states == plain.sources, "scaled": scaled.next_states == scaled.sources}
    np.testing.assert_allclose(plain.weights[is_loop["plain"]], 0.0)
    np.testing.assert_allclose(scaled.weights[is_loop["scaled"]], -0.5 * np.log(0.5), rtol=1e-6)


def test_training_graphs_of_fsts(folder, capfd):
    line_graph()
    write_table("ark:words.fsts", FST, {"u2": word_line(np.array([3]))})
    args = ["tree", "final.mdl", "lang/L_disambig.fst", "ark:words.fsts", "ark:made.fsts"]
    assert compile_train_graphs_fsts.execute([
        "--rm-eps=true", "--read-disambig-syms=lang/phones/disambig.int", *args]) == 0
    assert "succeeded for 1 graphs, failed for 0" in (said := capfd.readouterr().err) and "WARNING" not in said
    made, plain = (path_costs(read_table(f"ark:{name}", FST)["u2"], 4) for name in ("made.fsts", "two.fsts"))
    assert made.keys() == plain.keys() and len(made) > 1
    assert compile_train_graphs_fsts.execute(args) == 0
    assert "--read-disambig-syms is not given" in capfd.readouterr().err


def test_partial_output(folder, capfd):
    line_graph()
    feats = read_table("ark:feats.ark", FLOAT_MATRIX)["u2"]
    write_table("ark:short.ark", FLOAT_MATRIX, {"u2": feats[:1]})
    args = ["final.mdl", "ark:two.fsts", "ark:short.ark", "ark:lat", "ark,t:words", "ark:ali"]
    capfd.readouterr()
    assert latgen_faster.execute([*DECODE, *args]) == 1
    assert "no final-state reached and --allow-partial=false" in capfd.readouterr().err
    assert latgen_faster.execute([*DECODE, "--allow-partial=true", *args]) == 0
    assert "Outputting partial output for utterance u2" in capfd.readouterr().err
    assert len(read_table("ark:ali", INT_VECTOR)["u2"]) == 1


def test_alignment(folder, capfd):
    ids = {line.split()[0]: int(line.split()[1]) for line in (folder / "lang/words.txt").read_text().splitlines()}
    write_table("ark:text.int", INT_VECTOR, {
        **{key: np.array([ids[word] for word in words.split()], dtype=np.int32) for key, words in SAID.items()},
        "u4": np.array([1], dtype=np.int32), "u5": np.array([99], dtype=np.int32)})
    assert compile_train_graphs.execute(["tree", "final.mdl", "lang/L.fst", "ark:text.int", "ark:graphs"]) == 0
    assert "succeeded for 4 graphs, failed for 1" in capfd.readouterr().err
    assert align_compiled.execute([*DECODE, "--self-loop-scale=0.1", "--write-per-frame-acoustic-loglikes=ark:frames",
                                   "final.mdl", "ark:graphs", "ark:feats.ark", "ark:ali", "ark:scores"]) == 0
    log = capfd.readouterr().err
    assert "No features for utterance u4" in log and "Done 3, errors on 1" in log
    alignments, scores = read_table("ark:ali", INT_VECTOR), read_table("ark:scores", FLOAT)
    per_frame, feats = read_table("ark:frames", FLOAT_VECTOR), read_table("ark:feats.ark", FLOAT_MATRIX)
    for key, words in SAID.items():
        said = ["SIL", *" ".join(LEXICON[word] for word in words.split()).split(), "SIL"]
        expected = np.repeat([PHONES.index(phone) for phone in said], FRAMES_PER_PHONE)
        assert ((alignments[key] - 1) // 2).tolist() == expected.tolist()
        outputs = feats[key] - np.log(np.exp(feats[key]).sum(axis=1, keepdims=True)) - np.log(0.25)
        np.testing.assert_allclose(per_frame[key], outputs[np.arange(len(expected)), expected], atol=COST)
    frames = sum(map(len, alignments.values()))
    overall = number_of(next(line for line in log.splitlines() if "Overall log-likelihood per frame" in line))
    assert overall == pytest.approx(sum(scores.values()) / SCALE / frames, abs=COST)


def test_a_second_alignment_beam_that_is_not_wider(folder, capfd):
    line_graph()
    assert align_compiled.execute([*DECODE, "--beam=10", "--retry-beam=10", "final.mdl", "ark:two.fsts",
                                   "ark:feats.ark", "ark:ali"]) != 0
    assert "--retry-beam=10: expected more than --beam=10, or 0" in capfd.readouterr().err


def test_alignment_that_fails(folder, capfd):
    line_graph()
    feats = read_table("ark:feats.ark", FLOAT_MATRIX)["u2"]
    write_table("ark:short.ark", FLOAT_MATRIX, {"u2": feats[:1]})
    args = ["final.mdl", "ark:two.fsts", "ark:short.ark", "ark:ali"]
    assert align_compiled.execute([*DECODE, "--retry-beam=400", *args]) == 1
    log = capfd.readouterr().err
    assert "Retrying utterance u2 with beam 400" in log and "Did not successfully decode file u2" in log
    assert "Retried 1 out of 1 utterances." in log
    assert align_compiled.execute([*DECODE, "--careful=true", *args]) == 255


def test_scale(folder):
    assert latgen_faster.execute([*DECODE, "final.mdl", "graph/HCLG.fst", "ark:feats.ark", "ark:lat"]) == 0
    assert lattice_scale.execute(["--acoustic-scale=10", "--lm-scale=2", "ark:lat", "ark:scaled"]) == 0
    before, after = read_table("ark:lat", LATTICES), read_table("ark:scaled", LATTICES)
    np.testing.assert_allclose(after["u1"].weights, before["u1"].weights * [2.0, 10.0], rtol=1e-6)
    assert lattice_scale.execute(["--inv-acoustic-scale=0.1", "--acoustic-scale=2", "ark:lat", "ark:scaled"]) == 255


@pytest.mark.parametrize("grammar", ["text:text", "lm.arpa", "G.fst"])
def test_grammars(folder, grammar, capfd):
    from nnet3py.decoding.grammar import Ngram, word_loop
    from nnet3py.decoding.graph import write_fst_file
    from nnet3py.decoding.symbols import SymbolTable

    Ngram.estimate([words.split() for words in SAID.values()], 2).write("lm.arpa")
    write_fst_file("G.fst", word_loop(SymbolTable.read("lang/words.txt")))
    assert make_graph.execute(["lang", grammar, "tree", "final.mdl", "graph2"]) == 0
    assert re.search(r"Wrote graph2/HCLG.fst, of \d+ states", capfd.readouterr().err)
    assert latgen_faster.execute([*DECODE, "final.mdl", "graph2/HCLG.fst", "ark:feats.ark", "", "ark,t:words"]) == 0
    assert word_error_rate.execute(["--word-symbol-table=graph2/words.txt", "text", "words"]) == 0
    assert "%WER 0.00" in capfd.readouterr().out


@pytest.mark.parametrize(("args", "message"), [
    (["--silence-phone=SIL", "lang", "loop"], "lang folder, which has its own"),
    (["nothing", "loop"], "nothing"), (["lexicon.txt", "text:nothing"], "nothing"),
    (["--phones=phones.txt", "--silence-phone=NONE", "lexicon.txt", "loop"], "no phone 'NONE'"),
    (["lexicon.txt", "lexicon.txt"], "ARPA")])
def test_graph_that_cannot_be_made(folder, capfd, args, message):
    assert make_graph.execute([*args, "tree", "final.mdl", "graph3"]) == 255
    error = capfd.readouterr().err
    assert message in error and "Traceback" not in error
    assert not (folder / "graph3").exists()


def test_options_that_cannot_be(folder, capfd):
    args = ["final.mdl", "graph/HCLG.fst", "ark:feats.ark", "ark:lat"]
    assert latgen_faster.execute([*DECODE, "--beam=0", *args]) == 255
    assert "--beam" in capfd.readouterr().err
    assert latgen_faster.execute(["--acoustic-scale=0", *args]) == 255
    assert not (folder / "lat").exists()
    assert latgen_faster.execute([*DECODE, "final.mdl", "lexicon.txt", *args[2:]]) == 255
    assert "FST" in capfd.readouterr().err
