"""Files of sound, with and without the package soundfile; lists of sounds, by job, names of results."""
from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from recognition_cases import RATE, SOUNDS, samples_of

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.formats.foreign_files import Wave, write_wave
from nnet3py.io.streams import open_output
from nnet3py.io.tokens import TokenWriter
from nnet3py.recognition import sound
from nnet3py.recognition.sound import (
    Listed,
    find_sounds,
    listed_sounds,
    open_sound,
    read_list,
    result_path,
    split,
    to_do,
    write_list,
)


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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, size in (("a.wav", 5), ("b/a.MP3", 9), ("b/c.flac", 1), ("b/text.txt", 3)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    return tmp_path


def test_folders_are_searched(folder: Path) -> None:
    found = find_sounds([str(folder), str(folder / "a.wav"), "-"])
    assert [sound.name for sound in found] == ["a", "b/a", "b/c", "standard-input"]
    assert result_path(found[1], "out", ".txt") == "out/b/a.txt"
    assert find_sounds([str(folder / "b" / "text.txt")])[0].name == "text.txt"


def test_what_is_passed_over_is_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "b" / "LICENSE").write_text("")
    (folder / "b" / "lost.wav").symlink_to("nothing")
    with caplog.at_level("INFO"):
        assert len(find_sounds([str(folder), str(folder / "a.wav")])) == 3
    assert [message.split(": ")[-1] for message in caplog.messages] == [
        "1 not plain files, or links to nothing, 1 with the ending .txt, 1 without an ending"]
    (folder / "again.wav").symlink_to("a.wav")
    with caplog.at_level("INFO"):
        assert len(find_sounds([str(folder)])) == 3
    assert caplog.messages[-1] == f"{folder / 'again.wav'} is passed over: it is the same file as {folder / 'a.wav'}"


def test_names_must_differ(folder: Path) -> None:
    with pytest.raises(UsageError, match="would have the same name, a"):
        find_sounds([str(folder / "a.wav"), str(folder / "b")])


def test_what_is_left_to_do(folder: Path) -> None:
    found = find_sounds([str(folder)])
    (folder / "out").mkdir()
    (folder / "out" / "a.txt").write_text("")
    assert [sound.name for sound in to_do(found, str(folder / "out"), ".txt")] == ["b/a", "b/c"]


def test_shares_are_of_about_the_same_size(folder: Path) -> None:
    found = find_sounds([str(folder)])
    assert [[sound.name for sound in part] for part in split(found, 2)] == [["b/a"], ["a", "b/c"]]
    assert len(split(found, 7)) == 3


def test_lists_are_read_back(folder: Path) -> None:
    found = find_sounds([str(folder)])
    write_list(found, str(folder / "list"))
    assert read_list(str(folder / "list")) == found
    with pytest.raises(UsageError, match="line end"):
        write_list([Listed("a\nb", "a")], str(folder / "list"))
    (folder / "list").write_text("a\n")
    with pytest.raises(UsageError, match="is not a list of sounds"):
        read_list(str(folder / "list"))


def test_names_of_sounds_of_a_list_keep_their_folders() -> None:
    sounds = listed_sounds(["a/x.wav", "", "b/x.wav\r", "../x.wav", "/data/b/x.flac", "./c/../y.MP3", "a/x.wav"])
    assert sounds == [Listed("a/x.wav", "a/x"), Listed("b/x.wav", "b/x"), Listed("../x.wav", "x"),
                      Listed("/data/b/x.flac", "data/b/x"), Listed("./c/../y.MP3", "y")]
    for lines, message in ((["a/x.wav", "./a/x.flac"], "would have the same name, a/x"), ([" ", ""], "is empty"),
                           (["a.wav", "-"], "names standard input")):
        with pytest.raises(UsageError, match=message):
            listed_sounds(lines)


def test_names_may_be_the_same_where_results_are_lines(folder: Path) -> None:
    sounds = find_sounds([str(folder / "a.wav"), str(folder / "b")], names_differ=False)
    assert [sound.name for sound in sounds] == ["a", "a", "c"]
