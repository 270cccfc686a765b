"""Commands about trees, voiced frames and posteriors: Kaldi's own steps where they are there, options and faults."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_lines import run
from paths import DATA

from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import SequentialReader, write_table

TREES = DATA / "trees"


pytestmark = pytest.mark.usefixtures("here")


def test_from_statistics_to_a_model(capfd: pytest.CaptureFixture[str]) -> None:
    context = ("--context-width=2", "--central-position=1")
    run("sum-tree-stats", "sum", TREES / "bi.treeacc")
    assert Path("sum").read_bytes() == (TREES / "bi.treeacc").read_bytes()
    run("cluster-phones", *context, "sum", TREES / "sets.int", "questions")
    run("compile-questions", *context, TREES / "topo.chain", "questions", "qst")
    assert Path("qst").read_bytes() == (TREES / "bi.qst").read_bytes()
    run("build-tree", *context, "--verbose=1", "--max-leaves=90", "sum", TREES / "roots.int", "qst",
        TREES / "topo.chain", "tree")
    assert Path("tree").read_bytes() == (TREES / "bi.tree").read_bytes()
    err = capfd.readouterr().err
    assert "BuildTree: before building trees, map has 28 leaves." in err and "Num-leaves is now 48" in err
    run("gmm-init-model", "--write-occs=occs", "tree", "sum", TREES / "topo.chain", "1.mdl")
    assert Path("occs").read_bytes() == (TREES / "bi.occs").read_bytes()
    run("copy-tree", "--binary=false", "tree", "text")
    run("copy-tree", "text", "again")
    assert Path("again").read_bytes() == Path("tree").read_bytes()
    run("draw-tree", "--use-tooltips=true", TREES / "phones.txt", "tree")
    assert capfd.readouterr().out == (TREES / "bi.dot").read_text()
    run("hmm-info", "1.mdl")
    assert capfd.readouterr().out.startswith("number of phones 28\nnumber of pdfs 48\n")


def test_gathering_counts_what_was_used(capfd: pytest.CaptureFixture[str]) -> None:
    write_table("ark:feats", FLOAT_MATRIX, {
        key: np.ones((frames, 2), dtype=np.float32) for key, frames in (("a", 3), ("b", 4), ("c", 3))})
    Path("ali").write_text("a 2 1 1\nb 2 1 1\n")
    run("acc-tree-stats", "--binary=false", TREES / "mono.mdl", "ark:feats", "ark:ali", "acc")
    err = capfd.readouterr().err
    assert "Accumulated stats for 1 files, 1 failed due to no alignment, 1 failed for other reasons." in err
    assert Path("acc").read_text().startswith("BTS 2 EV 4 -1 0 0 0 1 1 2 0 \nT GCL 1 0.01")


@pytest.mark.parametrize("words", [
    ("acc-tree-stats", "--context-width=2", "--central-position=2", "m", "ark:f", "ark:a", "o"),
    ("acc-tree-stats", "--ci-phones=1:x", "m", "ark:f", "ark:a", "o"),
    ("acc-tree-stats", "--ci-phones=1:1", "m", "ark:f", "ark:a", "o"),
    ("cluster-phones", "--num-classes=3", TREES / "bi.treeacc", TREES / "sets.int", "o"),
    ("cluster-phones", "--mode=k-means", TREES / "bi.treeacc", TREES / "sets.int", "o"),
    ("build-tree", TREES / "bi.treeacc", TREES / "sets.int", TREES / "bi.qst", TREES / "topo.chain", "o"),
    ("gmm-init-mono", TREES / "topo.chain", "0", "o", "p"),
    ("gmm-init-mono", TREES / "topo.chain", "x", "o", "p"),
    ("gmm-init-model", TREES / "bi.tree", TREES / "text.treeacc", TREES / "topo.chain", "o"),
    ("draw-tree", "--query=0/x", TREES / "phones.txt", TREES / "bi.tree"),
])
def test_faults_are_one_line(words: tuple[object, ...], capfd: pytest.CaptureFixture[str]) -> None:
    run(*map(str, words), status=255)
    err = capfd.readouterr().err
    assert err.count("ERROR (") == 1 and "internal error" not in err and "Traceback" not in err
    assert not Path("o").exists()


def test_voiced_frames(capfd: pytest.CaptureFixture[str]) -> None:
    write_table("ark:feats", FLOAT_MATRIX, {"a": np.array([[20.0, 1], [0, 2], [30, 3]], dtype=np.float32),
                                            "b": np.array([[1.0, 1], [1, 2]], dtype=np.float32)})
    run("compute-vad", "ark:feats", "ark,t:vad")
    assert Path("vad").read_text() == "a  [ 1 0 1 ]\nb  [ 0 0 ]\n"
    assert "processed 1 utterances successfully; 0 had empty features, and 1 were completely unvoiced" in (
        capfd.readouterr().err)
    run("select-voiced-frames", "ark:feats", "ark:vad", "ark:voiced")
    with SequentialReader("ark:voiced", FLOAT_MATRIX) as voiced:
        assert [(key, matrix[:, 1].tolist()) for key, matrix in voiced] == [("a", [1.0, 3.0])]
    run("compute-vad", "--omit-unvoiced-utts=true", "ark:feats", "ark,t:vad")
    assert Path("vad").read_text() == "a  [ 1 0 1 ]\n"


def test_posteriors() -> None:
    Path("post").write_text("u [ 1 0.5 3 0.5 ] [ 2 1 ] \n")
    run("post-to-weights", "ark:post", "ark,t:out")
    assert Path("out").read_text() == "u  [ 1 1 ]\n"
    run("weight-silence-post", "0", "1", TREES / "mono.mdl", "ark:post", "ark,t:out")
    assert Path("out").read_text() == "u [ 3 0.5 ] [ ] \n"
    run("post-to-pdf-post", TREES / "mono.mdl", "ark:post", "ark,t:out")
    assert Path("out").read_text().count("[") == 2
    Path("logprobs").write_text("u [ -0.1 -9\n -9 -0.1 ]\n")
    run("logprob-to-post", "--random-prune=false", "ark:logprobs", "ark,t:out")
    assert Path("out").read_text() == "u [ 0 0.9048374 ] [ 1 0.9048374 ] \n"


def test_posteriors_of_alignments(capfd: pytest.CaptureFixture[str]) -> None:
    Path("post").write_text("u [ 1 0.5 3 0.25 ] [ 2 1 ] [ ]\nv [ 1 1 ] \nw [ 1 1 ] \n")
    Path("ali").write_text("u 3 1 1\nw 1 1\n")
    run("get-post-on-ali", "ark:post", "ark:ali", "ark,t:out")
    assert Path("out").read_text() == "u  [ 0.25 0 0 ]\n"
    text = capfd.readouterr().err
    assert "There is no alignment of utterance v" in text and "w has 2 frames, but its posteriors have 1" in text
    assert "Done 1 utterances, failed for 2" in text


def test_alignments_to_look_at(capfd: pytest.CaptureFixture[str]) -> None:
    Path("ali").write_text("u 2 1 1 4\n")
    run("show-alignments", TREES / "phones.txt", TREES / "mono.mdl", "ark:ali")
    above, below, *rest = capfd.readouterr().out.split("\n")
    assert above == "u  [ 2 1 1 ] [ 4 ] " and below.split() == ["u", "SIL", "0"] and rest == ["", ""]
    assert len(above) == len(below) and below.index("0 ") == above.index("[ 4")
