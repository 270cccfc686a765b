"""nnet3py/io/text_lines.py: lines of numbers, and what is no such line."""
from __future__ import annotations

from pathlib import Path

import pytest

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.io.streams import read_integer_lines, read_text


def test_numbers_of_each_line(tmp_path: Path) -> None:
    (tmp_path / "sets.int").write_text("1 20 3\n\n0\n999999999\n")
    path = str(tmp_path / "sets.int")
    assert read_integer_lines(path) == [[1, 20, 3], [0], [999999999]]
    assert read_integer_lines(path, keep_empty=True) == [[1, 20, 3], [], [0], [999999999]]


@pytest.mark.parametrize("word", ["-1", "x", "1.0", "1000000000", "\u0663", "\u00b2"])
def test_what_is_no_number(tmp_path: Path, word: str) -> None:
    (tmp_path / "sets.int").write_text(f"1 2\n\n3 {word}\n", encoding="utf-8")
    with pytest.raises(FormatError, match="line 3 is not a list of numbers"):
        read_integer_lines(str(tmp_path / "sets.int"))


def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"a \xff\n")
    assert read_text(tmp_path / "text") == "a \udcff\n"


def test_a_command_that_fails() -> None:
    assert read_text("echo a |") == "a\n"
    with pytest.raises(Nnet3Error, match="failed with status 3"):
        read_text("echo a; exit 3 |")
