"""nnet3py/io/random_access.py: what every way to search a table finds, refuses and says of a broken archive."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.formats.holders import INT_VECTOR, TOKEN
from nnet3py.io.tables import RandomAccessMappedReader, RandomAccessReader, write_table

KEYS = ("a", "b", "d")
OPTIONS = ("", "s,", "s,cs,", "o,", "s,o,", "s,cs,o,", "p,", "s,p,")


@pytest.fixture
def archive(tmp_path: Path) -> str:
    """An archive whose values are one number each: 1, 2, 3."""
    path = str(tmp_path / "numbers.ark")
    write_table(f"ark,t:{path}", INT_VECTOR, ((key, [number]) for number, key in enumerate(KEYS, start=1)))
    return path


def table(path: str, options: str = "") -> RandomAccessReader:
    return RandomAccessReader(f"ark,{options}t:{path}", INT_VECTOR)


def append(path: str, text: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize("options", OPTIONS)
def test_keys_in_order(archive: str, options: str) -> None:
    with table(archive, options) as reader:
        assert "b" in reader and "b" in reader        # asking whether it is there does not use it up
        assert reader["b"].tolist() == [2]
        assert "c" not in reader and reader.get("c") is None
        assert reader["d"].tolist() == [3]
        with pytest.raises(Nnet3Error, match="there is no key e in"):
            reader["e"]


@pytest.mark.parametrize("options", ["", "s,", "o,", "s,o,", "p,"])
def test_keys_in_any_order(archive: str, options: str) -> None:
    with table(archive, options) as reader:
        assert [reader[key].tolist() for key in ("d", "a", "b")] == [[3], [1], [2]]


def test_what_is_called_sorted_must_be(archive: str) -> None:
    with table(archive, "s,cs,") as reader:
        reader["b"]
        assert reader["b"].tolist() == [2]
        with pytest.raises(Nnet3Error, match="key a was asked for after b"):
            reader["a"]


@pytest.mark.parametrize("options", ["o,", "s,o,"])
def test_what_is_asked_for_once_is_dropped(archive: str, options: str) -> None:
    with table(archive, options) as reader:
        assert reader["a"].tolist() == [1] and reader["b"].tolist() == [2]
        with pytest.raises(Nnet3Error, match="key a was asked for twice"):
            reader["a"]


def test_without_once_it_is_kept(archive: str) -> None:
    for options in ("", "s,"):
        with table(archive, options) as reader:
            assert reader["a"] is reader["a"]


@pytest.mark.parametrize(("line", "options", "message"), [
    ("b 7\n", "s,", "key b follows d although the archive is said to be sorted"),
    ("d 7\n", "s,", "key d occurs twice although the archive is said to be sorted"),
    ("b 7\n", "s,cs,", "key b follows d although the archive is said to be sorted"),
    ("b 7\n", "", "key b occurs twice"),
])
def test_an_archive_out_of_order(archive: str, line: str, options: str, message: str) -> None:
    append(archive, line)
    with pytest.raises(FormatError, match=message), table(archive, options) as reader:
        reader.get("z")


@pytest.mark.parametrize("options", ["", "s,", "s,cs,"])
def test_a_broken_archive_is_an_error_when_it_is_closed(archive: str, options: str) -> None:
    append(archive, "e x\nf 4\n")
    reader = table(archive, options)
    assert reader["d"].tolist() == [3] and "f" not in reader
    with pytest.raises(FormatError):
        reader.close()
    reader.close()                                   # once is enough


def test_permission_for_a_broken_archive(archive: str, caplog: pytest.LogCaptureFixture) -> None:
    append(archive, "e x\nf 4\n")
    for options in ("p,", "s,p,", "s,cs,p,"):
        with table(archive, options) as reader:
            assert reader["d"].tolist() == [3] and "f" not in reader
        assert caplog.messages[-1].startswith("Stopped reading ark,")


def test_a_broken_archive_hides_no_other_error(archive: str) -> None:
    append(archive, "e x\n")
    with pytest.raises(ZeroDivisionError), table(archive) as reader:
        assert "f" not in reader
        raise ZeroDivisionError


def test_a_broken_first_entry_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a x\n")
    with pytest.raises(FormatError), table(str(tmp_path / "x"), "p,") as reader:
        reader.get("a")


def test_a_failing_command_is_an_error_only_if_its_end_was_read(archive: str) -> None:
    def read(key: str) -> None:
        with RandomAccessReader(f"ark:cat {archive}; exit 3 |", INT_VECTOR) as reader:
            reader.get(key)

    read("a")
    with pytest.raises(Nnet3Error, match="failed with status 3"):
        read("z")


def script_of(archive: str) -> tuple[str, Callable[[str], bool]]:
    """A script with one entry that can be read and one that cannot, and whether each is found with ``p``."""
    path = archive + ".scp"
    Path(path).write_text(f"a {archive}:2\nb {archive}.not-there\n", encoding="utf-8")
    reader = RandomAccessReader(f"scp,p:{path}", INT_VECTOR)
    return path, reader.__contains__


def test_scripts(archive: str, caplog: pytest.LogCaptureFixture) -> None:
    path, is_found = script_of(archive)
    with RandomAccessReader(f"scp:{path}", INT_VECTOR) as reader:
        assert "a" in reader and "b" in reader and "c" not in reader       # what is said is believed, until it is read
        assert reader["a"].tolist() == [1]
        with pytest.raises(Nnet3Error, match="not-there"):
            reader["b"]
        with pytest.raises(Nnet3Error, match="there is no key c"):
            reader["c"]
    assert is_found("a") and not is_found("b") and not is_found("c")
    assert [message.split(" of ")[0] for message in caplog.messages] == ["Cannot load b"]


@pytest.mark.parametrize(("lines", "options", "message"), [
    ("a x\nb\n", "", "line 2 is not KEY FILE"), ("a x\na y\n", "", "key a occurs twice"),
    ("b x\na y\n", "s,", "key a is out of order")])
def test_scripts_that_are_none(tmp_path: Path, lines: str, options: str, message: str) -> None:
    (tmp_path / "x.scp").write_text(lines)
    with pytest.raises(FormatError, match=message):
        RandomAccessReader(f"{options}scp:{tmp_path / 'x.scp'}", INT_VECTOR)


def test_keys_without_blanks(archive: str) -> None:
    with table(archive) as reader:
        for key in ("", "a b"):
            with pytest.raises(Nnet3Error, match="cannot be a key"):
                reader.get(key)


def test_utterances_of_speakers(archive: str, tmp_path: Path) -> None:
    write_table(f"ark,t:{tmp_path / 'utt2spk'}", TOKEN, (("u1", "a"), ("u2", "a"), ("u3", "missing")))
    with RandomAccessMappedReader(f"ark:{archive}", f"ark:{tmp_path / 'utt2spk'}", INT_VECTOR) as mapped:
        assert mapped["u1"].tolist() == mapped["u2"].tolist() == [1]
        assert "u1" in mapped and "u3" not in mapped and mapped.get("u3") is None
        with pytest.raises(Nnet3Error, match="utterance u4 is not in the utt2spk map"):
            mapped.get("u4")
    with RandomAccessMappedReader(f"ark:{archive}", "", INT_VECTOR) as plain:
        assert plain["b"].tolist() == [2] and plain.get("u1") is None


def test_an_archive_cannot_be_looked_up_as_a_script(tmp_path: Path) -> None:
    (tmp_path / "x.scp").write_bytes(b"\0B\4\1\0\0\0")
    with pytest.raises(FormatError, match="a script file cannot begin with the binary header"):
        RandomAccessReader(f"scp:{tmp_path / 'x.scp'}", INT_VECTOR)
