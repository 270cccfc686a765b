"""nnet3py align: formats, several sounds, words that the model lacks, what goes wrong."""
from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from paths import DATA

from nnet3py.cli.recognition.align import align

SOUND, TEXT = str(DATA / "demo.wav"), "set a timer for ten minutes"


def run(*words: object) -> int:
    return align.execute([str(word) for word in words])


def test_a_textgrid_opens_in_another_program(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    textgrid = pytest.importorskip("praatio.textgrid", reason="praatio")
    assert run("--demo", SOUND, 'Set a "timer" for ten minutes!') == 0
    (tmp_path / "a.TextGrid").write_text(capfd.readouterr().out, encoding="utf-8")
    grid = textgrid.openTextgrid(str(tmp_path / "a.TextGrid"), includeEmptyIntervals=False)
    words = grid.getTier("words").entries
    assert grid.tierNames == ("words", "phones") and grid.maxTimestamp == 2.7
    assert [word.label for word in words] == ["Set", "a", '"timer"', "for", "ten", "minutes!"]
    phones = grid.getTier("phones").entries
    assert (phones[0].start, phones[-1].end, phones[0].label) == (0.0, 2.7, "SIL")
    assert {word.start for word in words} <= {phone.start for phone in phones}


def test_formats_say_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("--demo", "--format=json", SOUND, TEXT) == 0
    read = json.loads(capfd.readouterr().out)
    assert read["name"] == "demo" and read["text"] == TEXT and len(read["words"]) == 6
    assert all(word["phones"][0]["start"] == word["start"] and word["phones"][-1]["end"] == word["end"]
               for word in read["words"])
    assert run("--demo", "--format=ctm", SOUND, TEXT) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert [(line[0], float(line[2]), line[4]) for line in lines] == [
        ("demo", round(word["start"], 2), word["word"]) for word in read["words"]]
    for form, point in (("srt", ","), ("vtt", ".")):
        assert run("--demo", f"--format={form}", SOUND, TEXT) == 0
        assert f"00:00:00{point}300 --> 00:00:01{point}980\n{TEXT}\n" in capfd.readouterr().out


def test_folders_and_tables(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sounds").mkdir()
    for name in ("a", "b"):
        shutil.copy(SOUND, tmp_path / "sounds" / f"{name}.wav")
        (tmp_path / "sounds" / f"{name}.txt").write_text(TEXT, encoding="utf-8-sig")
    (tmp_path / "sounds" / "c.wav").write_text("no sound")
    (tmp_path / "sounds" / "c.txt").write_text(TEXT)
    assert run("--demo", f"--out={tmp_path / 'out'}", tmp_path / "sounds") == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.TextGrid", "b.TextGrid"]
    assert "c could not be aligned" in capfd.readouterr().err
    (tmp_path / "list.csv").write_text(f"file,text,start,end\n{SOUND},{TEXT},0,2.5\n{SOUND},ten minutes,1.2,2.5\n")
    assert run("--demo", "--format=ctm", tmp_path / "list.csv") == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert [line[4] for line in lines] == [*TEXT.split(), "ten", "minutes"] and len({line[0] for line in lines}) == 2


def test_unknown_words(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("--demo", "--format=ctm", SOUND, TEXT.replace("timer", "tymer")) == 0
    similar = capfd.readouterr()
    assert run("--demo", "--format=ctm", SOUND, TEXT) == 0
    assert similar.out.replace("tymer", "timer") == capfd.readouterr().out and "words spelled alike" in similar.err
    assert run("--demo", "--format=ctm", "--unknown-words=leave-out", SOUND, TEXT.replace("timer", "tymer")) == 0
    left = capfd.readouterr()
    assert [line.split()[4] for line in left.out.splitlines()] == "set a for ten minutes".split()
    assert "'tymer', which is left out" in left.err
    assert run("--demo", "--unknown-words=error", SOUND, TEXT.replace("timer", "tymer")) == 1
    assert "did you mean 'timer'" in capfd.readouterr().err


@pytest.mark.parametrize(("words", "message"), [
    (("--demo", SOUND, "no.txt"), "there is no file no.txt"), (("--demo", "no.wav", TEXT), "there is no file no.wav"),
    (("--demo", SOUND, "..."), "there are no words to align"),
    (("--demo", SOUND, TEXT, TEXT), "expected a sound and its text"),
    (("--demo", str(DATA)), "give a folder with --out"), (("no-model", SOUND, TEXT), "no-model"),
    (("--demo", SOUND, "ten " * 90), "do not fit into the sound")])
def test_what_goes_wrong_is_said(words: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(*words) != 0
    assert message in capfd.readouterr().err
