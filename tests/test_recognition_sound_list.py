"""Which sounds are transcribed, under which names, by which job."""
from __future__ import annotations

from pathlib import Path

import pytest

from nnet3py.errors import UsageError
from nnet3py.recognition.sound import (
    Listed,
    find_sounds,
    listed_sounds,
    read_list,
    result_path,
    split,
    to_do,
    write_list,
)


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
