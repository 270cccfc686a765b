"""Words while somebody speaks: from blocks, from files, and from a microphone that is a fake."""
from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_recognition import RATE, FakeStream, speech

from nnet3py.errors import Nnet3Error
from nnet3py.recognition import listening
from nnet3py.recognition.listening import Heard, device_list, find_microphone, heard, opened, short_blocks

BLOCK = int(RATE * listening.BLOCK_SECONDS) * 2      # bytes


def in_blocks(sound: bytes) -> list[bytes]:
    return [sound[first:first + BLOCK] for first in range(0, len(sound), BLOCK)]


def test_words_appear_before_they_are_over() -> None:
    found = list(heard(FakeStream(), in_blocks(speech("12  3"))))
    texts = [one.text for one in found if not one.is_over]
    assert texts[0] == "" and "one" in texts and texts.index("one") < texts.index("one two")
    assert [one.text for one in found if one.is_over] == ["one two", "three"]
    assert found[-1] == Heard("three", True)


def test_silence_has_no_words() -> None:
    assert {one.text for one in heard(FakeStream(), in_blocks(speech("   ")))} == {""}
    assert not any(one.is_over for one in heard(FakeStream(), in_blocks(speech("   "))))


def test_short_blocks() -> None:
    sound = np.arange(1000, dtype=np.float32)
    pieces = list(short_blocks([sound[:333], sound[333:]], 1000.0))
    assert max(map(len, pieces)) == 100 and np.array_equal(np.concatenate(pieces), sound)
    begun = time.monotonic()
    assert len(list(short_blocks([sound[:100]], 500.0, in_real_time=True))) == 2
    assert time.monotonic() - begun >= 0.2


class FakeSounddevice(SimpleNamespace):
    """The package, with a microphone that hears ``sound`` as soon as it is opened, and then calls ``after``."""

    class PortAudioError(Exception):
        pass

    def query_devices(self, device: Any = None, kind: str | None = None) -> Any:
        if kind is None:
            return "> 0 A microphone"
        if device not in (None, 0, "microphone"):
            raise ValueError(f"No input device matching {device!r}")
        return {"default_samplerate": float(RATE), "name": "A microphone"}

    def RawInputStream(self, samplerate: float, blocksize: int, device: Any, channels: int, dtype: str,  # noqa: N802
                       callback: Any) -> Any:
        assert (samplerate, blocksize, channels, dtype) == (RATE, BLOCK // 2, 1, "int16")
        self.opened = self.closed = 0

        class Opened:
            def start(opened) -> None:
                self.opened += 1
                for block in in_blocks(self.sound):
                    callback(bytearray(block), len(block) // 2, None, None)

            def __enter__(opened) -> None:
                pass

            def __exit__(opened, *args: Any) -> None:
                self.closed += 1

        return Opened()


def test_a_microphone(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeSounddevice(sound=speech("34 "))
    monkeypatch.setitem(sys.modules, "sounddevice", library)
    for name in ("", "0", "microphone"):
        source = find_microphone(name)
        with opened(source, name):
            source.stop()
            assert (source.rate, source.name) == (RATE, "A microphone")
            assert [one.text for one in heard(FakeStream(), source.blocks()) if one.is_over] == ["three four"]
        assert (library.opened, library.closed) == (1, 1)
    assert device_list() == "> 0 A microphone"


def test_sound_that_nobody_takes_is_lost(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(listening, "MOST_SECONDS_BEHIND", 0.35)
    monkeypatch.setitem(sys.modules, "sounddevice", FakeSounddevice(sound=speech("1 ")))
    source = find_microphone()
    with opened(source):
        source.stop()
        assert len(list(source.blocks())) == 4
    assert "slower than speech: 0.6 seconds are lost" in caplog.text


def test_without_a_microphone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", FakeSounddevice())
    with pytest.raises(Nnet3Error, match="no microphone 'trumpet' can be opened.*--list-devices"):
        find_microphone("trumpet")
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(Nnet3Error, match="needs the package sounddevice.*listen"):
        find_microphone()
