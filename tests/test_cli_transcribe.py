"""nnet3py transcribe: formats, folders, results that are there already, jobs, what goes wrong."""
from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from recognition_cases import DATA, PACKAGE, SOUNDS

from nnet3py.cli.recognition.transcribe import transcribe
from nnet3py.recognition import model_folder

TEXTS = ["five two nine five", "seven zero three", "eight five six two one"]


def run(*words: object) -> int:
    return transcribe.execute([str(word) for word in words])


@pytest.fixture
def sounds(tmp_path: Path) -> Path:
    """A folder with two sounds in it, one of them in a folder of its own, and something else."""
    (tmp_path / "sounds" / "b").mkdir(parents=True)
    shutil.copy(SOUNDS[0], tmp_path / "sounds")
    shutil.copy(SOUNDS[1], tmp_path / "sounds" / "b")
    (tmp_path / "sounds" / "notes.md").write_text("no sound")
    return tmp_path / "sounds"


def test_one_sound_is_its_words(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(PACKAGE, SOUNDS[0]) == 0
    assert capfd.readouterr().out == TEXTS[0] + "\n"


def test_several_sounds_have_their_names(capfd: pytest.CaptureFixture[str], sounds: Path) -> None:
    assert run(PACKAGE, sounds) == 0
    assert capfd.readouterr().out == f"{sounds}/utt1.wav {TEXTS[0]}\n{sounds}/b/utt2.wav {TEXTS[1]}\n"


def test_standard_input_and_ctm(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SOUNDS[1].read_bytes())))
    assert run("--format=ctm", PACKAGE, "-") == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert [line[4] for line in lines] == TEXTS[1].split() and lines[0][:3] == ["standard-input", "1", "0.00"]


def test_results_in_a_folder_are_not_made_again(sounds: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("--format=json", f"--out={out}", PACKAGE, sounds) == 0
    results = {path: json.loads(path.read_text()) for path in (out / "utt1.json", out / "b" / "utt2.json")}
    assert [result["text"] for result in results.values()] == TEXTS[:2]
    first, second = results
    before = second.stat().st_mtime_ns
    first.unlink()
    os.utime(sounds / "b" / "utt2.wav", (0, 0))
    assert run("--format=json", f"--out={out}", PACKAGE, sounds) == 0
    assert json.loads(first.read_text()) == results[first] and second.stat().st_mtime_ns == before


def test_jobs_share_sounds(capfd: pytest.CaptureFixture[str], sounds: Path) -> None:
    (sounds / "a.wav").write_text("no sound")
    assert run("--num-jobs=2", PACKAGE, sounds) == 1
    captured = capfd.readouterr()
    assert captured.out == f"{sounds}/utt1.wav {TEXTS[0]}\n{sounds}/b/utt2.wav {TEXTS[1]}\n"
    assert "Transcribed 2 sounds, 3.2 s, in " in captured.err and "; 1 failed" in captured.err
    assert captured.err.count("a.wav could not be transcribed: ") == 1


@pytest.mark.slow
def test_workers_of_dask_share_sounds(sounds: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra dask")
    assert run("--num-jobs=2", "--scheduler=local", f"--out={tmp_path / 'out'}", PACKAGE, sounds) == 0
    assert (tmp_path / "out" / "b" / "utt2.txt").read_text() == TEXTS[1] + "\n"


def test_a_sound_that_cannot_be_read_does_not_stop_others(capfd: pytest.CaptureFixture[str], sounds: Path) -> None:
    (sounds / "a.wav").write_text("no sound")
    assert run(PACKAGE, sounds) == 1
    captured = capfd.readouterr()
    assert TEXTS[0] in captured.out and "a.wav could not be transcribed" in captured.err


@pytest.mark.parametrize(("words", "message"), [
    ([PACKAGE], "no sound file was given"),
    ([PACKAGE, "none.wav"], "there is no file or folder none.wav"),
    ([PACKAGE, DATA / "package"], "has no files of sound"),
    (["--num-jobs=0", PACKAGE, SOUNDS[0]], "--num-jobs=0"),
    (["--model-option=beam", PACKAGE, SOUNDS[0]], "--model-option=beam: expected NAME=VALUE"),
    (["--model-option=baem=3", PACKAGE, SOUNDS[0]], "--baem is not an option"),
    (["--scheduler=local", PACKAGE, SOUNDS[0]], "--scheduler needs --out"),
    (["--format=srt", PACKAGE, *SOUNDS], "give a folder with --out"),
    (["--out=a", "--results=b", PACKAGE, SOUNDS[0]], "--out and --results cannot both"),
    (["--format=srt", "--results=b", PACKAGE, SOUNDS[0]], "--results writes JSON"),
    (["--files-from=/dev/null", PACKAGE], "the list of files of sound is empty"),
    (["--phrases=/dev/null", PACKAGE, SOUNDS[0]], "expected lines of phrases or words"),
    ([DATA, SOUNDS[0]], "there is no acoustic model"),
])
def test_wrong_usage(capfd: pytest.CaptureFixture[str], words: list[object], message: str) -> None:
    assert run(*words) == 255
    assert message in capfd.readouterr().err


def test_boosted_words_need_a_lookahead_graph(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "boost").write_text("five 2.5\n\n")
    assert run(f"--boost-words={tmp_path / 'boost'}", PACKAGE, SOUNDS[0]) == 255
    assert "composed while decoding" in capfd.readouterr().err
    (tmp_path / "boost").write_text("five\n")
    assert run(f"--boost-words={tmp_path / 'boost'}", PACKAGE, SOUNDS[0]) == 255
    assert "expected lines 'WORD COST'" in capfd.readouterr().err


def test_demo(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "DEMO", str(PACKAGE))
    assert run("--demo", "--model-option=beam=13", SOUNDS[1]) == 0
    assert capfd.readouterr().out == TEXTS[1] + "\n"
    monkeypatch.setattr(model_folder, "DEMO", "none")
    assert run("--demo", SOUNDS[1]) == 255


def test_a_gpu_is_taken_if_there_is_one(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3py.cli.process.option_groups.why_no_gpu", lambda busy=None: "there is none")
    assert run("--use-gpu=optional", PACKAGE, SOUNDS[0]) == 0
    assert capfd.readouterr().out == TEXTS[0] + "\n"
    assert run("--device=cuda", PACKAGE, SOUNDS[0]) != 0
    assert "A GPU was asked for, but there is none" in capfd.readouterr().err


def test_how_a_network_is_prepared_is_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(PACKAGE, SOUNDS[0]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and "Transcribed 1 sound," in lines[0]
