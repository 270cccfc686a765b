"""make-mono-tree, phones-to-ali and convert-ali."""
from __future__ import annotations

from pathlib import Path

import pytest
from paths import DATA

from nnet3py.cli.main import load


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    assert load("make-mono-tree").execute([str(DATA / "chain" / "topo"), "tree", "final.mdl"]) == 0


def run(name: str, *words: str, status: int = 0) -> str:
    Path("out").unlink(missing_ok=True)
    assert load(name).execute([*words]) == status
    return Path("out").read_text() if Path("out").exists() else ""


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
    models = ["final.mdl", "final.mdl", "tree"]
    run("convert-ali", "--frame-subsampling-factor=0", *models, "ark:ali", "ark:out", status=255)
    assert "must be above 0" in capsys.readouterr().err
