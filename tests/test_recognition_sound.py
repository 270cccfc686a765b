"""Files of sound, with and without the package soundfile."""
from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from recognition_cases import RATE, SOUNDS, samples_of

from nnet3py.errors import Nnet3Error
from nnet3py.formats.foreign_files import Wave, write_wave
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


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0xFFFFFFFF])
def test_files_of_pipes_do_not_say_how_long_they_are(reader: str, size: int, tmp_path: Path) -> None:
    content = bytearray(SOUNDS[0].read_bytes())
    assert content[36:40] == b"data"
    content[40:44] = struct.pack("<I", size)
    (tmp_path / "a.wav").write_bytes(content)
    assert np.array_equal(whole(tmp_path / "a.wav") * 32768, samples_of(SOUNDS[0]))


def test_a_wave_file_that_ends_too_early(reader: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.wav").write_bytes(SOUNDS[0].read_bytes()[:20044])
    assert np.array_equal(whole(tmp_path / "a.wav") * 32768, samples_of(SOUNDS[0])[:10000])
    assert "bytes of samples, found the end of the file after 20000" in caplog.text and "a.wav" in caplog.text


def test_a_wave_file_without_samples(reader: str, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(SOUNDS[0].read_bytes()[:40] + bytes(4))
    with pytest.raises(Nnet3Error, match="samples"):
        whole(tmp_path / "a.wav")


@pytest.mark.parametrize("ending", ["flac", "mp3", "aiff", "au", "w64", "rf64"])
def test_other_files_that_end_too_early(ending: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What soundfile then reads comes with a warning; or it is an error. Never less without a word.

    But for Ogg, which does not say how long it is, and CAF, of which soundfile does not tell.
    """
    soundfile = pytest.importorskip("soundfile", reason="the extra sound")
    samples = np.tile(samples_of(SOUNDS[0]) / 32768, 4)
    soundfile.write(tmp_path / f"a.{ending}", samples, RATE)
    assert abs(len(whole(tmp_path / f"a.{ending}")) - len(samples)) < RATE / 10 and not caplog.records
    content = (tmp_path / f"a.{ending}").read_bytes()
    (tmp_path / f"b.{ending}").write_bytes(content[:len(content) // 2])
    try:
        found = whole(tmp_path / f"b.{ending}")
    except Nnet3Error:
        return
    assert 0.3 < len(found) / len(samples) < 0.7 and caplog.records, len(found)


def test_wave_files_need_no_other_packages() -> None:
    """Nor load them: PyAV takes longer than a short sound."""
    program = ("import sys; from nnet3py.recognition.sound import open_sound; "
               f"list(open_sound({str(SOUNDS[0])!r}).blocks()); assert 'av' not in sys.modules")
    subprocess.run([sys.executable, "-c", program], check=True)
