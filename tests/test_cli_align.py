"""nnet3py align and listen: formats, several sounds, words that the model lacks, a microphone, what goes wrong."""
from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_recognition import DIGITS, RATE
from paths import DATA
from recognition_cases import PACKAGE, SOUNDS, samples_of
from test_listening import FakeSounddevice

from nnet3py.cli.recognition.align import align, listen, stopped_by_interrupt

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


def test_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    assert listen.execute([f"--file={SOUNDS[0]}", str(PACKAGE)]) == 0
    out, err = capfd.readouterr()
    assert out.split()[0] == "five" and out.count("\n") >= 1 and "ERROR" not in err


def test_what_is_missing(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert listen.execute([]) == 255
    assert "no model folder was given" in capfd.readouterr().err
    assert listen.execute([f"--file={tmp_path / 'none.wav'}", str(PACKAGE)]) == 255
    assert "none.wav" in capfd.readouterr().err
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    assert listen.execute(["--list-devices"]) == 255
    assert "needs the package sounddevice" in capfd.readouterr().err


@pytest.fixture
def python_stops() -> Iterator[None]:
    """Ctrl-C does what it does in a new process, whatever other tests have left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_devices(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", FakeSounddevice())
    assert listen.execute(["--list-devices"]) == 0
    assert capfd.readouterr().out == "> 0 A microphone\n"


@pytest.mark.usefixtures("python_stops")
def test_a_microphone(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It hears a recording; Ctrl-C, pressed when that is over, lets what was said be recognized to its end."""
    sound = samples_of(SOUNDS[1])[::2].tobytes() + bytes(RATE)

    class Speaking(FakeSounddevice):
        def RawInputStream(self, **options: Any) -> Any:  # noqa: N802
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            return super().RawInputStream(**options)

    monkeypatch.setitem(sys.modules, "sounddevice", Speaking(sound=sound))
    assert listen.execute(["--print-args=false", str(PACKAGE)]) == 0
    out, err = capfd.readouterr()
    assert out.split() and set(out.split()) <= set(DIGITS) and "Listening to A microphone" in err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("python_stops")
def test_ctrl_c_stops_once() -> None:
    class Source:
        stopped = 0

        def stop(self) -> None:
            self.stopped += 1

    source = Source()
    with pytest.raises(KeyboardInterrupt), stopped_by_interrupt(source):
        os.kill(os.getpid(), signal.SIGINT)
        assert source.stopped == 1
        os.kill(os.getpid(), signal.SIGINT)
    assert source.stopped == 1 and signal.getsignal(signal.SIGINT) is signal.default_int_handler
