"""Examples of speakers: the ranges file, the pieces that it names, and nnet3-xvector-get-egs."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3py.cli.main import load
from nnet3py.egs.example import read_egs
from nnet3py.egs.speaker_ranges import SpeakerRange, read_speaker_ranges
from nnet3py.errors import FormatError, NumericError, ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import TableWriter

LINES = "u0 1 7 2 5 3\nu0 0 6 18 5 3\nu1  0\t6  0 20 1\n"


def frames(count: int) -> np.ndarray:
    return np.arange(2 * count, dtype=np.float32).reshape(count, 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ranges").write_text(LINES)
    with TableWriter("ark:feats", FLOAT_MATRIX) as writer:
        for key, count in (("u0", 20), ("u1", 12), ("u2", 5)):
            writer.write(key, frames(count))
    return tmp_path


def test_the_file(folder: Path) -> None:
    found = read_speaker_ranges("ranges", 2)
    assert found == {"u0": [SpeakerRange("u0-2-5-3", 1, 2, 5, 3), SpeakerRange("u0-18-5-3", 0, 18, 5, 3)],
                     "u1": [SpeakerRange("u1-0-20-1", 0, 0, 20, 1)]}


@pytest.mark.parametrize("line, message", [
    ("u0 1 7 2 5", "Expected 6 fields .* line 4"), ("", "found 0"), ("u0 2 7 2 5 3", "exceeds number of specified"),
    ("u0 0 7 2 99999999999 3", "number of frames"),
    ("u0 x 7 2 5 3", "relative archive index"), ("u0 0 7 -2 5 3", "first frame of 0 or more"),
    ("u0 0 7 2 0 3", "number of frames of 1"), ("u0 0 7 2 5 3.0", "label"),
])
def test_damaged_lines(folder: Path, line: str, message: str) -> None:
    (folder / "ranges").write_text(LINES + line + "\n")
    with pytest.raises(FormatError, match=message):
        read_speaker_ranges("ranges", 2)


def test_a_command_that_fails(folder: Path) -> None:
    with pytest.raises(Exception, match="status 3"):
        read_speaker_ranges("cat ranges; exit 3 |", 2)


def test_examples() -> None:
    one = SpeakerRange("k", 0, 18, 5, 3).example(frames(20), 4, compress=False)
    assert one is not None
    assert [io.name for io in one.io] == ["input", "output"]
    assert np.array_equal(one.io[0].features, frames(20)[15:])          # taken earlier: the utterance ends
    assert one.io[0].indexes.tolist() == [[0, t, 0] for t in range(5)]
    assert one.io[1].indexes.tolist() == [[0, 0, 0]]
    assert one.io[1].features.to_dense().tolist() == [[0, 0, 0, 1]]
    compressed = SpeakerRange("k", 0, 2, 5, 3).example(frames(20), 4)
    assert compressed is not None and isinstance(compressed.io[0].features, CompressedMatrix)
    assert SpeakerRange("k", 0, 0, 21, 3).example(frames(20), 4) is None
    with pytest.raises(ShapeError, match="label 3, but there are 3"):
        SpeakerRange("k", 0, 0, 5, 3).example(frames(20), 3)
    with pytest.raises(NumericError, match="feature matrix"):
        SpeakerRange("k", 0, 0, 5, 3).example(np.full((5, 2), np.nan, np.float32), 4)


def test_the_command(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = load("nnet3-xvector-get-egs")
    assert command.execute(["--num-pdfs=4", "ranges", "ark:feats", "ark:0.egs", "ark:1.egs"]) == 0
    assert [key for key, _ in read_egs("ark:0.egs")] == ["u0-18-5-3"]
    assert [key for key, _ in read_egs("ark:1.egs")] == ["u0-2-5-3"]
    err = capfd.readouterr().err
    assert ("Unable to create examples for utterance u1. Requested chunk size of 20 but utterance has only 12 frames."
            in err)
    assert "Could not create examples from utterance u2 because it has no entry" in err
    assert ("Finished generating examples, successfully processed 2 feature files, wrote 2 examples; "
            "1 files had errors." in err)


def test_when_the_command_fails(folder: Path) -> None:
    command = load("nnet3-xvector-get-egs")
    assert command.execute(["ranges", "ark:feats", "ark:0.egs", "ark:1.egs"]) == 255               # no --num-pdfs
    assert command.execute(["--num-pdfs=4", "ranges", "ark:feats", "ark:0.egs"]) == 255            # archive 1
    assert command.execute(["--num-pdfs=4", "ranges", "ark:feats"]) == 1                           # no output
    (folder / "ranges").write_text("u1 0 0 0 20 1\n")
    assert command.execute(["--num-pdfs=4", "ranges", "ark:feats", "ark:0.egs"]) == 1              # no example
    (folder / "ranges").write_text("u0 0 0 0 5 1\n")
    assert command.execute(["--num-pdfs=4", "ranges", "ark:feats", "ark:0.egs"]) == 1              # mostly errors
