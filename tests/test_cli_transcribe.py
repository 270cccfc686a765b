"""nnet3py transcribe: formats, models, several files, and many at a time."""
from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import wave
from pathlib import Path

import numpy as np
import pytest
from paths import ROOT
from recognition_cases import DATA, PACKAGE, RATE, SOUNDS, dialogue

from nnet3py import system
from nnet3py.cli.recognition import processes
from nnet3py.cli.recognition.transcribe import _Progress, transcribe
from nnet3py.recognition import batch, model_folder, stream_decoder
from nnet3py.recognition.sound import Listed
from nnet3py.recognition.transcribing import Transcript

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
    (["--model-option=chunk-length=inf", PACKAGE, SOUNDS[0]], "--chunk-length=inf"),
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


LONG = 90                    # times the dialogue: ten minutes
forks = pytest.mark.skipif(not system.CAN_FORK, reason="processes are not copied on this system")


def run_on_one_thread(*words: object) -> int:
    return transcribe.execute(["--num-threads=1", *(str(word) for word in words)])


def write_sound(path: Path, turns: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(np.tile(dialogue(), turns).tobytes())


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long sound, three short ones, two of them with the same name, and one that is none."""
    folder = tmp_path_factory.mktemp("sounds")
    write_sound(folder / "long.wav", LONG)
    for number, path in enumerate(SOUNDS):
        (folder / str(number)).mkdir()
        shutil.copy(path, folder / str(number) / ("same.wav" if number else "first.wav"))
    (folder / "broken.wav").write_bytes((folder / "long.wav").read_bytes()[:20])
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """What one job says of each sound, never interrupted."""
    results = tmp_path_factory.mktemp("whole") / "results.jsonl"
    assert run_on_one_thread(f"--results={results}", PACKAGE, folder) == 1
    return {line["file"]: line for line in lines(results)}


def process(folder: Path, results: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "nnet3py", "transcribe", *options, f"--results={results}",
                             str(PACKAGE), str(folder)], cwd=ROOT, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": str(ROOT)})


def wait_for(what: Path) -> None:
    end = time.monotonic() + 60
    while not list(what.parent.glob(what.name)):
        assert time.monotonic() < end, what
        time.sleep(0.01)


def test_lines_say_what_is_known_of_a_sound(whole: dict[str, dict], folder: Path) -> None:
    assert len(whole) == 4
    line = whole[str(folder / "0" / "first.wav")]
    assert list(line) == ["name", "file", "duration", "model", "text", "segments"]
    assert line["text"] == "five two nine five" and line["model"] == "package" and 1 < line["duration"] < 2
    assert set(line["segments"][0]["words"][0]) == {"word", "start", "end", "confidence"}
    assert whole[str(folder / "long.wav")]["duration"] == pytest.approx(LONG * len(dialogue()) / RATE, abs=1e-3)
    assert whole[str(folder / "long.wav")]["text"].startswith("five two nine five seven zero three")


@forks
@pytest.mark.parametrize("how", [signal.SIGINT, getattr(signal, "SIGKILL", 9), signal.SIGTERM])
def test_whatever_ends_it_the_same_command_does_the_rest(how: signal.Signals, whole: dict[str, dict], folder: Path,
                                                        tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    with process(folder, results, "--num-jobs=2") as first:
        wait_for(results.with_name("results.jsonl.kept") / "*.kept")        # in the middle of the long sound
        wait_for(results)
        time.sleep(0.2)
        if how == signal.SIGINT:
            first.send_signal(how)
            assert "the same command does the rest" in str(first.communicate()[1]) and first.returncode == 130
        else:
            first.send_signal(how)
            assert first.wait(20) == -how
    done = lines(results)
    assert {line["file"] for line in done} <= set(whole) and str(folder / "long.wav") not in [
        line["file"] for line in done]
    with process(folder, results, "--num-jobs=2") as second:
        said = str(second.communicate()[1])
        assert second.returncode == 1 and "broken.wav could not be transcribed" in said
    assert ("of 5 sounds have results in" in said) == bool(done)
    assert {line["file"]: line for line in lines(results)} == whole and len(lines(results)) == len(whole)
    assert not results.with_name("results.jsonl.kept").exists()


def test_a_long_sound_goes_on_where_it_was(whole: dict[str, dict], folder: Path, tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """The first half is not decoded again: so much less sound goes through the stream."""
    results = tmp_path / "results.jsonl"
    with process(folder / "long.wav", results) as first:
        wait_for(results.with_name("results.jsonl.kept") / "*.kept")
        first.kill()
    decoded = []
    accept = stream_decoder.StreamDecoder.accept_waveform
    monkeypatch.setattr(stream_decoder.StreamDecoder, "accept_waveform", lambda self, samples, rate: decoded.append(
        len(samples)) or accept(self, samples, rate))
    assert run_on_one_thread(f"--results={results}", PACKAGE, folder / "long.wav") == 0
    assert lines(results) == [whole[str(folder / "long.wav")]]
    assert sum(decoded) < len(dialogue()) * LONG - 120 * RATE


def test_what_was_kept_of_another_version_of_a_sound_is_not_used(whole: dict[str, dict], folder: Path, tmp_path: Path,
                                                                caplog: pytest.LogCaptureFixture) -> None:
    sound = tmp_path / "long.wav"
    shutil.copy(folder / "long.wav", sound)
    results = tmp_path / "results.jsonl"
    with process(sound, results) as first:
        wait_for(results.with_name("results.jsonl.kept") / "*.kept")
        first.kill()
    kept, = results.with_name("results.jsonl.kept").glob("*.kept")
    write_sound(sound, 1)
    assert run_on_one_thread(f"--results={results}", PACKAGE, sound) == 0
    assert len(lines(results)[0]["text"].split()) < 20
    kept.parent.mkdir()
    kept.write_bytes(b"[]\nxyz")
    assert run_on_one_thread(f"--results={tmp_path / 'again.jsonl'}", PACKAGE, sound) == 0


def test_a_line_that_is_not_whole_is_done_again(folder: Path, tmp_path: Path,
                                                capfd: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results.jsonl"
    paths = [folder / "1" / "same.wav", folder / "2" / "same.wav"]
    assert run_on_one_thread(f"--results={results}", PACKAGE, *paths) == 0
    before = lines(results)
    assert [line["name"] for line in before] == ["same", "same"]
    results.write_bytes(results.read_bytes()[:-40])
    assert run_on_one_thread(f"--results={results}", PACKAGE, *paths) == 0
    assert lines(results) == before and "is incomplete" in capfd.readouterr().err
    assert run_on_one_thread(f"--results={results}", PACKAGE, *paths) == 0 and lines(results) == before
    assert run_on_one_thread(f"--results={results}", "--model-option=beam=9", PACKAGE, *paths, folder / "0") == 0
    assert len(lines(results)) == 3


def test_files_that_are_no_results_are_left_alone(folder: Path, tmp_path: Path,
                                                  capfd: pytest.CaptureFixture[str]) -> None:
    for content in ("some notes\n", '{"a": 1}\n', "[1]\n", "notes"):
        (tmp_path / "notes").write_text(content)
        assert run_on_one_thread(f"--results={tmp_path / 'notes'}", PACKAGE, folder / "0") == 255
        assert "expected lines of JSON" in capfd.readouterr().err and (tmp_path / "notes").read_text() == content
    with batch.ResultsFile(str(tmp_path / "busy"), "package"):
        assert run_on_one_thread(f"--results={tmp_path / 'busy'}", PACKAGE, folder / "0") == 255
    assert "another process is writing results" in capfd.readouterr().err


def test_lists_of_sounds(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                         capfd: pytest.CaptureFixture[str]) -> None:
    """From standard input: names of the same kind in different folders have results of their own; order is kept."""
    monkeypatch.chdir(folder)
    said = subprocess.run([sys.executable, "-m", "nnet3py", "transcribe", "--num-jobs=2", "--files-from=-",
                           str(PACKAGE)], input="2/same.wav\r\n\n1/same.wav\nnone.wav\n2/same.wav\n",
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert said.stdout == "2/same.wav eight five six two one\n1/same.wav seven zero three\n"
    assert said.returncode == 1 and "none.wav could not be transcribed: there is no file none.wav" in said.stderr
    (tmp_path / "list").write_text(f"1/same.wav\n{folder}/2/same.wav\n")
    assert run_on_one_thread(f"--files-from={tmp_path / 'list'}", f"--out={tmp_path / 'out'}", PACKAGE) == 0
    assert (tmp_path / "out" / "1" / "same.txt").read_text() == "seven zero three\n"
    assert list((tmp_path / "out").rglob("2/same.txt"))
    assert run_on_one_thread("--out=out", PACKAGE, "1/same.wav", "2/same.wav") == 255
    assert "would have the same name" in capfd.readouterr().err


ENDED = """
import os, signal, sys
from nnet3py.cli.recognition.transcribe import transcribe
from nnet3py.recognition import transcribing
opened = transcribing.open_sound
def open_or_end(path, channel):
    if path.endswith("broken.wav"):
        os.kill(os.getpid(), signal.SIGKILL)
    return opened(path, channel)
transcribing.open_sound = open_or_end
sys.exit(transcribe.execute(sys.argv[1:]))
"""


@forks
def test_a_process_that_is_ended_is_replaced(folder: Path) -> None:
    """As one that runs out of memory: its sound is tried twice, the others are done."""
    words = ["--num-threads=1", "--num-jobs=2", *map(str, (PACKAGE, folder / "broken.wav", folder / "1", folder / "0"))]
    done = subprocess.run([sys.executable, "-c", ENDED, *words], capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [f"{folder}/1/same.wav seven zero three",
                                        f"{folder}/0/first.wav five two nine five"]
    assert done.stderr.count("ended with signal 9; another one tries again") == 1
    assert "the process that worked on it ended with signal 9, twice" in done.stderr


def test_threads_do_the_same_where_processes_cannot_be_copied(whole: dict[str, dict], folder: Path, tmp_path: Path,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes.system, "CAN_FORK", False)
    results = tmp_path / "results.jsonl"
    assert run_on_one_thread("--num-jobs=3", f"--results={results}", PACKAGE, folder) == 1
    assert {line["file"]: line for line in lines(results)} == whole


def test_what_is_done_but_waits_for_its_turn_is_printed_at_an_interrupt() -> None:
    sounds = [Listed(str(number), str(number)) for number in range(4)]

    def done() -> object:
        for place in (2, 0, 3):
            yield sounds[place], Transcript(str(place), str(place))
        raise KeyboardInterrupt

    order = []
    with pytest.raises(KeyboardInterrupt):
        for sound, _ in batch.in_order(sounds, done()):
            order.append(sound.path)
    assert order == ["0", "2", "3"]


def test_time_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Sounds that were not opened yet last as long, for their bytes, as those of their ending, or as all."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    sounds = []
    for name, size in (("a.wav", 1000), ("b.wav", 3000), ("c.mp3", 500), ("d.flac", 150)):
        (tmp_path / name).write_bytes(bytes(size))
        sounds.append(Listed(str(tmp_path / name), name))
    progress = _Progress(sounds)
    now[0] += 10
    progress(sounds[0], 50.0, 100.0)
    assert "0 of 4 sounds, 0:00:50 of sound, 5.0 times real time, 0:01:23 left" in progress._status_text()
    progress.done(sounds[0], Transcript("a", "a", 100.0))
    progress(sounds[2], 100.0, 200.0)
    now[0] += 10
    text = progress._status_text()             # b.wav: 300 s; d.flac: 30 s by (100 + 200) / 1500
    assert text == "1 of 4 sounds, 0:03:20 of sound, 10.0 times real time, 0:00:43 left"
    progress.done(sounds[2], Transcript("c", "c", error="broken"))
    now[0] += 30
    progress(sounds[1], 10.0, 300.0)
    said = capfd.readouterr().err
    assert said.count(" left\n") == 1 and "2 of 4 sounds" in said
    assert progress.end() == 1
