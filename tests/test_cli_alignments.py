"""Commands about alignments, posteriors and transition models."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paths import DATA, shared_golden

from nnet3py.cli.main import load
from nnet3py.formats.general import SparseMatrix, to_dense
from nnet3py.formats.holders import FLOAT_VECTOR, GENERAL_MATRIX
from nnet3py.io.object_files import read_object
from nnet3py.io.tables import SequentialReader

TRANS, MODEL, TREE = (str(DATA / "network" / name) for name in ("trans.mdl", "am.mdl", "tree"))
# Phone p has the transition-ids 4p-3 (loop), 4p-2, 4p-1 (loop), 4p, and the pdfs 2p-2 and 2p-1.
ALIGNMENTS = "u1 1 1 2 3 4 6 5 8 \nu2 2 4 2 4 \nu3 \n"
POSTERIORS = "u1 [ 1 0.5 4 0.25 ] [ 20 1 ] [ ] \nu2 [ 4 1 ] \n"


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    assert load("make-mono-tree").execute([str(DATA / "chain" / "topo"), "tree", "final.mdl"]) == 0
    Path("ali").write_text(ALIGNMENTS)
    Path("post").write_text(POSTERIORS)
    Path("phones.txt").write_text("".join(f"p{number} {number}\n" for number in range(6)))


def run(name: str, *words: str, status: int = 0) -> str:
    """What a command writes into ``out``."""
    Path("out").unlink(missing_ok=True)
    assert load(name).execute([*words]) == status
    return Path("out").read_text() if Path("out").exists() else ""


@pytest.mark.parametrize("model", [TRANS, MODEL])
def test_pdfs(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ali-to-pdf", model, "ark:ali", "ark,t:out") == "u1 0 0 0 1 1 2 2 3 \nu2 0 1 0 1 \nu3 \n"
    assert "Converted 3 alignments to pdf sequences." in capsys.readouterr().err
    run("ali-to-pdf", model, "ark:/dev/null", "ark:out")


@pytest.mark.parametrize(("words", "expected"), [
    ([], "u1 1 2 \nu2 1 1 \nu3 \n"), (["--per-frame"], "u1 1 1 1 1 1 2 2 2 \nu2 1 1 1 1 \nu3 \n"),
    (["--write-lengths"], "u1 1 5 ; 2 3 \nu2 1 2 ; 1 2 \nu3 \n")])
def test_phones(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ali").write_text(ALIGNMENTS.replace("6 5 8", "5 6 8"))
    assert run("ali-to-phones", *words, TRANS, "ark:ali", "ark,t:out") == expected
    assert "Done 3 utterances." in capsys.readouterr().err
    run("ali-to-phones", *words, TRANS, "ark:/dev/null", "ark:out", status=1)


def test_phones_with_times() -> None:
    Path("ali").write_text("u1 1 1 2 3 4 6 8 \n")
    assert run("ali-to-phones", "--ctm-output", TRANS, "ark:ali", "out") == "u1 1 0.00 0.05 1\nu1 1 0.05 0.02 2\n"
    assert run("ali-to-phones", "--ctm-output", "--frame-shift=0.005", TRANS, "ark:ali", "out") == (
        "u1 1 0.000 0.025 1\nu1 1 0.025 0.010 2\n")


def test_phones_of_a_cut_alignment(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ali").write_text("u1 1 1 2\n")
    assert run("ali-to-phones", TRANS, "ark:ali", "ark,t:out") == "u1 1 \n"
    assert "utterance u1 does not consist of whole phones" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "words", "message"), [
    ("ali-to-pdf", ["ark:echo u1 0 |", "ark:out"], "key u1: Invalid transition-id 0"),
    ("ali-to-pdf", ["ark:echo u1 21 |", "ark:out"], "key u1: Invalid transition-id 21"),
    ("ali-to-phones", ["ark:echo u1 21 |", "ark:out"], "key u1: Invalid transition-id 21"),
    ("post-to-tacc", ["ark:echo u1 [ 21 1 ] |", "out"], "utterance u1: Invalid transition-id 21"),
])
def test_other_ids(name: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(name, TRANS, *words, status=255)
    assert message in capsys.readouterr().err and not Path("out").exists()


def test_formats_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    run("ali-to-phones", "--per-frame", "--write-lengths", TRANS, "ark:ali", "ark:out", status=255)
    assert "Only one of --per-frame" in capsys.readouterr().err


def test_copied_posteriors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("copy-post", "ark:post", "ark,t:out") == POSTERIORS
    expected = "u1 [ 1 -1 4 -0.5 ] [ 20 -2 ] [ ] \nu2 [ 4 -2 ] \n"
    assert run("copy-post", "--scale=-2", "ark:post", "ark,t:out") == expected
    assert run("copy-post", "--scale=0", "ark:post", "ark,t:out") == "u1 [ ] [ ] [ ] \nu2 [ ] \n"
    assert "Done copying 2 posteriors." in capsys.readouterr().err
    run("copy-post", "ark:/dev/null", "ark:out", status=1)


def test_posteriors_weighted_by_frames(capsys: pytest.CaptureFixture[str]) -> None:
    """A frame without a weight weighs nothing; more of them than the tolerance are an error."""
    Path("weights").write_text("u1 [ 2 0 ]\nu2 [ 1 1 1 1 ]\n")
    assert run("weight-post", "ark:post", "ark:weights", "ark,t:out") == "u1 [ 1 1 4 0.5 ] [ ] [ ] \n"
    assert "have wrong size 4 vs. 1" in capsys.readouterr().err
    assert run("weight-post", "--length-tolerance=3", "ark:post", "ark:weights", "ark,t:out").endswith("u2 [ 4 1 ] \n")
    run("weight-post", "ark:post", "ark:/dev/null", "ark:out", status=1)


def test_sparse_matrices(capsys: pytest.CaptureFixture[str]) -> None:
    run("post-to-smat", "--dim=21", "ark:post", "ark:smat")
    found = dict(SequentialReader("ark:smat", GENERAL_MATRIX))
    assert all(isinstance(value, SparseMatrix) for value in found.values())
    expected = np.zeros((3, 21))
    expected[0, 1], expected[0, 4], expected[1, 20] = 0.5, 0.25, 1
    np.testing.assert_array_equal(to_dense(found["u1"]), expected)
    assert run("post-to-smat", "--dim=21", "ark:post", "ark,t:out").startswith("u1 rows=3 dim=21 [ 1 0.5 4 0.25 ]")
    assert "Done converting 2 posteriors into sparse matrices." in capsys.readouterr().err
    for words in ([], ["--dim=0"], ["--dim=20"]):
        run("post-to-smat", *words, "ark:post", "ark:out", status=255)


def test_counts(capsys: pytest.CaptureFixture[str]) -> None:
    run("post-to-tacc", TRANS, "ark:post", "tacc")
    expected = np.zeros(21)
    expected[1], expected[4], expected[20] = 0.5, 1.25, 1
    np.testing.assert_array_equal(read_object("tacc", FLOAT_VECTOR.read), expected)
    assert "Done computing transition stats over 2 utterances; wrote stats to tacc" in capsys.readouterr().err
    # by pdf; the last transition-id, which is 20, does not count
    assert run("post-to-tacc", "--binary=false", "--per-pdf", TRANS, "ark:post", "out") == (
        " [ 0.5 1.25 0 0 0 0 0 0 0 0 ]\n")
    assert "accumulate counts per pdf-id" in capsys.readouterr().err
    run("post-to-tacc", TRANS, "ark:/dev/null", "out", status=1)


def test_transition_model() -> None:
    text = run("copy-transition-model", "--binary=false", MODEL, "out")
    assert text.startswith("<TransitionModel> \n<Topology>") and text.endswith("</TransitionModel> \n")
    assert load("copy-transition-model").execute([MODEL, "binary"]) == 0
    assert Path("binary").read_bytes() == Path(TRANS).read_bytes() or run(
        "copy-transition-model", "--binary=false", "binary", "out") == text


def test_kaldis_text_of_a_transition_model() -> None:
    golden = shared_golden() / "data"
    assert run("copy-transition-model", "--binary=false", str(golden / "trans.mdl"), "out") == (
        golden / "trans.txt").read_text()


def test_shown_transitions(capfd: pytest.CaptureFixture[str]) -> None:
    run("show-transitions", "phones.txt", MODEL)
    out = capfd.readouterr().out
    assert out.startswith("Transition-state 1: phone = p1 hmm-state = 0 pdf = 0\n Transition-id = 1 p = 0.75 [self-l")
    run("post-to-tacc", "--per-pdf", TRANS, "ark:post", "occs")
    run("show-transitions", "cat phones.txt |", TRANS, "occs")
    assert " Transition-id = 1 p = 0.75 count of pdf = 0.5 [self-loop]\n" in capfd.readouterr().out
    run("show-transitions", "false |", TRANS, status=255)


def test_infos(capfd: pytest.CaptureFixture[str]) -> None:
    run("am-info", MODEL)
    assert capfd.readouterr().out == ("number of phones 5\nnumber of pdfs 10\nnumber of transition-ids 20\n"
                                      "number of transition-states 10\n")
    run("tree-info", TREE)
    assert capfd.readouterr().out == "num-pdfs 10\ncontext-width 1\ncentral-position 0\n"


# -- make-mono-tree, phones-to-ali and convert-ali ---------------------------------------------------------------------


def test_the_tree_is_kaldis(capsys: pytest.CaptureFixture[str]) -> None:
    assert Path("tree").read_bytes() == (DATA / "chain" / "tree").read_bytes()
    load("make-mono-tree").execute([str(DATA / "chain" / "topo"), "tree", "final.mdl"])
    assert "Made a tree with 56 pdfs for 28 phones." in capsys.readouterr().err


def test_shared_phones(capsys: pytest.CaptureFixture[str]) -> None:
    Path("sets").write_text("1\n" + " ".join(map(str, range(2, 29))) + "\n")
    topology = str(DATA / "chain" / "topo")
    assert load("make-mono-tree").execute(["--shared-phones=sets", topology, "tree", "final.mdl"]) == 0
    assert "4 pdfs for 28 phones" in capsys.readouterr().err
    Path("sets").write_text("1 a\n")
    assert load("make-mono-tree").execute(["--shared-phones=sets", topology, "other", "final.mdl"]) == 255
    assert "line 1 is not a list of numbers" in capsys.readouterr().err and not Path("other").exists()


def test_phones_of_frames_become_alignments_and_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    Path("phones").write_text("u1 3 3 4 4 4 1 \nu2 \n")
    assert run("phones-to-ali", "final.mdl", "tree", "ark:phones", "ark,t:out") == "u1 6 5 8 7 7 2 \nu2 \n"
    assert "Made alignments of 2 utterances, failed for 0" in capsys.readouterr().err
    Path("out").rename("ali")
    assert run("ali-to-phones", "--per-frame", "final.mdl", "ark:ali", "ark,t:out") == Path("phones").read_text()
    assert run("ali-to-pdf", "final.mdl", "ark:ali", "ark,t:out") == "u1 4 5 6 7 7 0 \nu2 \n"


def test_phones_with_lengths_and_a_map(capsys: pytest.CaptureFixture[str]) -> None:
    Path("phones").write_text("u1 0 2 ; 0 1 ; 7 1 \nu2 5 1 \nu3 7 0 \n")
    Path("map").write_text("0 1\n7 2\n")
    words = ["--lengths=true", "--phone-map=map", "--reorder=false", "final.mdl", "tree", "ark:phones", "ark,t:out"]
    assert run("phones-to-ali", *words) == "u1 1 2 2 4 \n"
    said = capsys.readouterr().err
    assert "utterance u2: --phone-map=map has no line for phone 5" in said
    assert "utterance u3: a phone has 0 frames" in said
    assert "Made alignments of 1 utterances, failed for 2" in said
    Path("map").write_text("0 1\n0 2\n")
    run("phones-to-ali", *words, status=255)
    assert "each old phone once" in capsys.readouterr().err


def test_nothing_converted_is_a_failure() -> None:
    Path("phones").write_text("u1 99 \n")
    run("phones-to-ali", "final.mdl", "tree", "ark:phones", "ark,t:out", status=1)


def test_a_lower_frame_rate(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ali").write_text("u1 6 5 5 5 8 7 7 \nu2 2 4 \n")
    models = ["final.mdl", "final.mdl", "tree"]
    factor = "--frame-subsampling-factor=3"
    assert run("convert-ali", factor, *models, "ark:ali", "ark,t:out") == "u1 6 5 8 \n"
    said = capsys.readouterr().err
    assert "utterance u2: 1 frames are too few for 2 phones" in said
    assert "Succeeded converting alignments for 1 files, failed for 1" in said
    assert len(run("convert-ali", factor, "--repeat-frames", *models, "ark:ali", "ark,t:out").split()) == 1 + 7
    assert run("convert-ali", "--reorder=false", *models, "ark:ali", "ark,t:out") == "u1 5 5 5 6 7 7 8 \nu2 2 4 \n"


def test_an_alignment_of_another_model_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ali").write_text("u1 200 \n")
    run("convert-ali", "final.mdl", "final.mdl", "tree", "ark:ali", "ark,t:out", status=255)
    assert "Invalid transition-id 200" in capsys.readouterr().err
