"""Files of sound, with and without the package soundfile."""
from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from recognition_cases import RATE, SOUNDS, samples_of

from nnet3py.errors import Nnet3Error
from nnet3py.formats.wave_file import Wave, write_wave
from nnet3py.io.streams import open_output
from nnet3py.io.tokens import TokenWriter
from nnet3py.recognition import sound
from nnet3py.recognition.sound import open_sound


def whole(path: str | Path, channel: int | None = None) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.float32), *open_sound(str(path), channel).blocks()])


@pytest.fixture(params=["ours", "soundfile"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "ours":
        monkeypatch.setattr(sound, "_library", lambda: None)
    else:
        pytest.importorskip("soundfile", reason="the extra sound")
    return str(request.param)


def stereo(path: Path) -> np.ndarray:
    channels = np.stack([np.arange(50.0), -np.arange(50.0) * 3]).astype(np.float32)
    with open_output(path) as output:
        write_wave(TokenWriter(output, binary=True), Wave(8000.0, channels))
    return channels / 32768


def test_samples_are_those_of_the_file(reader: str) -> None:
    opened = open_sound(str(SOUNDS[0]))
    expected = samples_of(SOUNDS[0])
    assert (opened.rate, opened.num_channels) == (RATE, 1)
    assert opened.seconds == pytest.approx(len(expected) / RATE)
    assert np.array_equal(whole(SOUNDS[0]) * 32768, expected)


def test_channels_are_averaged_or_chosen(reader: str, tmp_path: Path) -> None:
    channels = stereo(tmp_path / "two.wav")
    assert np.array_equal(whole(tmp_path / "two.wav"), channels.mean(axis=0))
    assert np.array_equal(whole(tmp_path / "two.wav", 1), channels[1])
    with pytest.raises(Nnet3Error, match="no channel 2"):
        open_sound(str(tmp_path / "two.wav"), 2)


def test_standard_input(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SOUNDS[1].read_bytes())))
    assert np.array_equal(whole("-") * 32768, samples_of(SOUNDS[1]))


def test_what_is_no_sound(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "text.mp3"
    path.write_text("no sound")
    with pytest.raises(Nnet3Error, match="text.mp3"):
        open_sound(str(path))
    (tmp_path / "cut.wav").write_bytes(SOUNDS[0].read_bytes()[:30])
    with pytest.raises(Nnet3Error, match="cut.wav"):
        whole(tmp_path / "cut.wav")
    with pytest.raises(Nnet3Error, match="there is no file"):
        open_sound(str(tmp_path / "none.wav"))
    with pytest.raises(Nnet3Error, match="is a folder"):
        open_sound(str(tmp_path))


def test_other_forms_by_soundfile(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile", reason="the extra sound")
    samples = samples_of(SOUNDS[0])
    soundfile.write(tmp_path / "a.flac", samples, RATE)
    assert np.array_equal(whole(tmp_path / "a.flac") * 32768, samples)
    soundfile.write(tmp_path / "a.ogg", samples, RATE)
    assert abs(len(whole(tmp_path / "a.ogg")) - len(samples)) < RATE // 10
