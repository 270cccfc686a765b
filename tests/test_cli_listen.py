"""nnet3py listen, with files and a fake microphone in the place of a real one."""
from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_recognition import DIGITS, RATE
from recognition_cases import PACKAGE, SOUNDS, samples_of
from test_listening import FakeSounddevice

from nnet3py.cli.recognition.align import listen, stopped_by_interrupt


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
