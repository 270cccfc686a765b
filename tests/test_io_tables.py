"""nnet3py/io/tables.py: entries in their order, archives and scripts that are written, and broken ones."""
from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from io_samples import read_table

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, INT_VECTOR
from nnet3py.formats.layouts import dense_runs
from nnet3py.fst.text import read_symbols
from nnet3py.io.random_access import RandomAccessReader
from nnet3py.io.streams import read_text
from nnet3py.io.tables import SequentialReader, TableWriter, write_table
from nnet3py.option_file import read_option_lines

BROKEN = "a 1\nb 2\nc x\nd 4\n"


def numbers(rspecifier: str) -> dict[str, list[int]]:
    return {key: value.tolist() for key, value in read_table(rspecifier, INT_VECTOR).items()}


def keys(reader: SequentialReader) -> list[str]:
    return [key for key, _ in reader]


def test_a_broken_archive_is_an_error_when_it_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x").write_text(BROKEN)
    reader = SequentialReader(f"ark:{tmp_path / 'x'}", INT_VECTOR)
    assert keys(reader) == ["a", "b"]
    assert caplog.messages[0].startswith("Stopped reading ark:")
    with pytest.raises(FormatError):
        reader.close()
    reader.close()                                   # once is enough


def test_permission_for_a_broken_archive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x").write_text(BROKEN)
    assert numbers(f"ark,p:{tmp_path / 'x'}") == {"a": [1], "b": [2]}
    assert caplog.messages[0].startswith("Stopped reading ark,p:")


def test_a_broken_archive_hides_no_other_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(BROKEN)
    with pytest.raises(ZeroDivisionError), SequentialReader(f"ark:{tmp_path / 'x'}", INT_VECTOR) as reader:
        assert keys(reader) == ["a", "b"]
        raise ZeroDivisionError


def test_a_broken_first_entry_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a x\n")
    with pytest.raises(FormatError):
        numbers(f"ark,p:{tmp_path / 'x'}")


def test_a_failing_command_is_an_error_only_if_its_end_was_read() -> None:
    with SequentialReader("ark:echo a 1; echo b 2; exit 3 |", INT_VECTOR) as reader:
        next(iter(reader))
    with pytest.raises(Nnet3Error, match="failed with status 3"):
        numbers("ark:echo a 1; echo b 2; exit 3 |")
    assert numbers("ark,p:echo a 1; exit 3 |") == {"a": [1]}


@pytest.mark.parametrize("background", ["", "bg,"])
def test_scripts(tmp_path: Path, background: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x").write_text("a 1\nb 2\n")
    script = tmp_path / "x.scp"
    script.write_text(f"a {tmp_path / 'x'}:2\nmissing {tmp_path / 'nothing'}\nb {tmp_path / 'x'}:6\n")
    with pytest.raises(Nnet3Error, match="nothing"):
        numbers(f"scp,{background}t:{script}")
    assert numbers(f"scp,{background}p:{script}") == {"a": [1], "b": [2]}
    assert [message.split(" of ")[0] for message in caplog.messages] == ["Skipping missing"]


def test_a_script_is_read_lazily_and_its_lines_are_checked(tmp_path: Path) -> None:
    script = tmp_path / "x.scp"
    script.write_text(f"a {tmp_path / 'nothing'}\nb\n")
    reader = SequentialReader(f"scp:{script}", INT_VECTOR)
    (key, load), = reader.lazy()
    assert key == "a" and reader.archive_size is None
    with pytest.raises(Nnet3Error, match="nothing"):
        load()
    with pytest.raises(FormatError, match="a script line is KEY FILE, found b'b"):
        reader.close()


def test_an_archive_is_no_script(tmp_path: Path) -> None:
    script = tmp_path / "x.scp"
    script.write_bytes(b"\0B\4\1\0\0\0")
    with pytest.raises(FormatError, match="a script file cannot begin with the binary header"):
        SequentialReader(f"scp:{script}", INT_VECTOR)


@pytest.mark.parametrize("form", ["", "t,"])
def test_an_archive_with_a_script(tmp_path: Path, form: str) -> None:
    matrices = {f"m{rows}": np.arange(2.0 * rows, dtype=np.float32).reshape(rows, 2) for rows in (1, 3)}
    with TableWriter(f"ark,scp,{form}f:{tmp_path / 'x.ark'},{tmp_path / 'x.scp'}", FLOAT_MATRIX) as writer:
        assert writer.takes_runs is (form == "")
        for key, matrix in matrices.items():
            writer.write(key, matrix)
    for rspecifier in (f"ark:{tmp_path / 'x.ark'}", f"scp:{tmp_path / 'x.scp'}"):
        entries = read_table(rspecifier, FLOAT_MATRIX)
        assert list(entries) == list(matrices)
        for key, matrix in matrices.items():
            np.testing.assert_array_equal(entries[key], matrix)


def test_bytes_are_moved_from_archive_to_archive(tmp_path: Path) -> None:
    write_table(f"ark:{tmp_path / 'x.ark'}", FLOAT_MATRIX,
                ((key, np.full((2, 3), ord(key), dtype=np.float32)) for key in ("a", "b")))
    with SequentialReader(f"ark:{tmp_path / 'x.ark'}", FLOAT_MATRIX) as reader, TableWriter(
            f"ark,scp:{tmp_path / 'y.ark'},{tmp_path / 'y.scp'}", FLOAT_MATRIX) as writer:
        for run in reader.runs(dense_runs):
            writer.move(reader, run)
    assert (tmp_path / "y.ark").read_bytes() == (tmp_path / "x.ark").read_bytes()
    with SequentialReader(f"scp:{tmp_path / 'y.scp'}", FLOAT_MATRIX) as reader:
        assert {key: value[1, 2] for key, value in reader} == {"a": ord("a"), "b": ord("b")}


def test_neither_archive_nor_script_is_left_of_a_failure(tmp_path: Path) -> None:
    with pytest.raises(Nnet3Error, match="'a b' cannot be a key"), \
            TableWriter(f"ark,scp:{tmp_path / 'x.ark'},{tmp_path / 'x.scp'}", INT_VECTOR) as writer:
        writer.write("a", [1])
        writer.write("a b", [1])
    with pytest.raises(Nnet3Error, match="cannot open"):
        TableWriter(f"ark,scp:{tmp_path / 'x.ark'},{tmp_path / 'no-folder' / 'x.scp'}", INT_VECTOR)
    assert os.listdir(tmp_path) == []


def test_files_that_a_script_names(tmp_path: Path) -> None:
    script = tmp_path / "targets"
    script.write_text(f"a {tmp_path / 'a.vec'}\nraw {tmp_path / 'raw.vec'}\n")
    with TableWriter(f"scp,t:{script}", INT_VECTOR) as writer:
        writer.write("a", [1, 2])
        writer.write("raw", b"5 6\n")
        with pytest.raises(Nnet3Error, match="has no entry for key b"):
            writer.write("b", [3])
    assert numbers(f"scp:{script}") == {"a": [1, 2], "raw": [5, 6]}
    write_table(f"scp,p:{script}", INT_VECTOR, {"a": [7], "b": [3]})
    assert (tmp_path / "a.vec").read_bytes().startswith(b"\0B")
    assert numbers(f"scp:{script}")["a"] == [7]
    write_table(f"scp:{script}", INT_VECTOR, {"a": [8], "raw": [9, 10]})
    assert numbers(f"scp:{script}") == {"a": [8], "raw": [9, 10]}


def test_a_script_of_a_pipe_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_table(f"ark,scp:| cat > {tmp_path / 'x.ark'},{tmp_path / 'x.scp'}", INT_VECTOR, {"a": [1]})
    assert "is not a file, so its script cannot be used" in caplog.text
    assert numbers(f"ark:{tmp_path / 'x.ark'}") == {"a": [1]}


def test_the_share_that_was_read(here: Path) -> None:
    write_table("ark,scp:a.ark,a.scp", FLOAT_VECTOR, ((f"utt{number}", np.zeros(3, np.float32)) for number in range(4)))
    with SequentialReader("scp:a.scp", FLOAT_VECTOR) as reader:
        assert reader.share_read() == 0.0
        assert [round(4 * reader.share_read()) for _ in reader] == [1, 2, 3, 4]     # a line each
    assert reader.share_read() is None
    with SequentialReader("ark:a.ark", FLOAT_VECTOR) as reader:
        shares = [reader.share_read() for _ in reader]
        assert shares == sorted(shares) and 0.0 < shares[0] <= shares[-1] == 1.0
    with SequentialReader("ark:cat a.ark |", FLOAT_VECTOR) as reader:
        assert [reader.share_read() for _ in reader] == [None] * 4


@pytest.mark.parametrize(("length", "is_key"), [(10_000, True), (10_001, False)])
def test_how_long_a_key_may_be(tmp_path: Path, length: int, is_key: bool) -> None:
    (tmp_path / "x").write_text("k" * length + " 1 2\n")
    if is_key:
        assert numbers(f"ark:{tmp_path / 'x'}") == {"k" * length: [1, 2]}
    else:
        with pytest.raises(FormatError, match="expected a key and a blank"):
            numbers(f"ark:{tmp_path / 'x'}")


@pytest.mark.parametrize("rspecifier", ["ark:{}", "scp:{}", "scp,s,cs:{}", "ark,s,cs:{}", "ark:cat {} |"])
def test_a_byte_order_mark_is_passed_over_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture,
                                                         rspecifier: str) -> None:
    values = {"a": tmp_path / "a.int", "b": tmp_path / "b.int"}
    for path in values.values():
        path.write_text(" 1 2\n")
    is_script = rspecifier.startswith("scp")
    lines = [f"{key} {path if is_script else '1 2'}\n" for key, path in values.items()]
    (tmp_path / "x").write_text("".join(lines), encoding="utf-8-sig")
    name = rspecifier.format(tmp_path / "x")
    assert numbers(name) == {"a": [1, 2], "b": [1, 2]}
    with RandomAccessReader(name, INT_VECTOR) as reader:
        assert reader["a"].tolist() == [1, 2] and "\ufeffa" not in reader
    assert [message.split(" begins ")[-1] for message in caplog.messages] == [
        "with a byte-order mark, which is skipped"] * 2


def test_a_byte_order_mark_is_not_part_of_the_first_word(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("eins 1\nzwei 2\n", encoding="utf-8-sig")
    assert read_text(tmp_path / "x") == "eins 1\nzwei 2\n"
    assert read_symbols(tmp_path / "x") == {b"eins": 1, b"zwei": 2}
    (tmp_path / "conf").write_text("--a=1\n", encoding="utf-8-sig")
    assert [line.text for line in read_option_lines(str(tmp_path / "conf"))] == ["--a=1"]
