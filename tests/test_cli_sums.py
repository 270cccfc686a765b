"""matrix-sum, vector-sum, matrix-sum-rows, copy-vector, vector-scale and matrix-dim; against plain numpy."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3py.cli.main import load

A = "a  [\n  1 2\n  3 4 ]\nb  [\n  5 6 ]\n"
B = "a  [\n  10 20\n  30 40 ]\nb  [\n  50 60 ]\nc  [\n  70 80 ]\n"
VECTORS = "a  [ 1 2 3 ]\nb  [ 4 5 6 ]\n"
MORE = "a  [ 10 20 30 ]\nb  [ 7 ]\nc  [ 1 2 3 ]\n"


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    for name, text in {"A": A, "B": B, "V": VECTORS, "W": MORE, "m": "[ 1 2\n 3 4 ]\n", "n": "[ 1 1\n 1 1 ]\n",
                       "v": "[ 1 2 3 ]\n", "w": "[ 1 1 1 ]\n", "empty": ""}.items():
        Path(name).write_text(text)


def run(name: str, *words: str, status: int = 0) -> str:
    """What a command writes into ``out``."""
    Path("out").unlink(missing_ok=True)
    assert load(name).execute([*words]) == status
    return Path("out").read_text() if Path("out").exists() else ""


@pytest.mark.parametrize(("words", "a"), [
    (["ark:A"], "1 2 3 4"), (["ark:A", "ark:B"], "11 22 33 44"), (["ark:A", "ark:B", "ark:B"], "21 42 63 84"),
    (["--scale1=2", "--scale2=-1", "ark:A", "ark:B"], "-8 -16 -24 -32"),
    (["--scale1=0", "--scale2=2", "ark:A", "ark:A", "ark:B"], "12 24 36 48"),
    (["--average", "ark:A", "ark:B", "ark:B"], "7 14 21 28"),
])
def test_matrices_of_several_tables(words: list[str], a: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = run("matrix-sum", *words, "ark,t:out").split("b")[0].split()
    assert [word for word in found if word not in "a[]"] == a.split()
    tables = sum(word.startswith("ark") for word in words)
    err = capsys.readouterr().err
    assert f"Processed 2 utterances: with a total of {2 * tables} matrices across {tables} different systems" in err
    assert "Produced output for 2 utterances; 0 total missing matrices" in err


def test_missing_and_other_matrices(capsys: pytest.CaptureFixture[str]) -> None:
    Path("C").write_text("a [ 1 2 3 ]\n")
    assert run("matrix-sum", "ark:A", "ark:C", "ark,t:out", status=1) == A.replace("\n  3", " \n  3")
    err = capsys.readouterr().err
    assert "No matrix found for utterance b for system 2, rspecifier: ark:C" in err
    assert "Dimension mismatch for utterance a : 1 by 3 for system 2" in err
    run("matrix-sum", "ark:B", "ark:A", "ark,t:out")            # one of three is missing
    run("matrix-sum", "ark:empty", "ark:A", "ark,t:out", status=1)


def test_one_table_into_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("same").write_text(A.replace("b  [", "b  [\n  1 1") + "z [ ]\n")
    assert run("matrix-sum", "--binary=false", "ark:same", "out") == " [\n  2 3 \n  8 10 ]\n"
    err = capsys.readouterr().err
    assert "Zero matrix input for key z" in err and "Summed 2 matrices, 1 with errors; wrote sum to out" in err
    assert run("matrix-sum", "--binary=false", "--average", "ark:same", "out") == " [\n  1 1.5 \n  4 5 ]\n"
    run("matrix-sum", "--binary=false", "ark:A", "out", status=1)                 # one of two does not fit
    assert "Dimension mismatch for key b: 1 by 2 vs. 2 by 2" in capsys.readouterr().err
    assert run("matrix-sum", "--binary=false", "ark:empty", "out", status=1) == " [ ]\n"


def test_a_table_is_summed_in_double_precision() -> None:
    Path("many").write_text("a [ 16777216 ]\n" + "".join(f"k{i} [ 1 ]\n" for i in range(4)))
    assert run("vector-sum", "--binary=false", "ark:many", "out").split()[1] == "1.677722e+07"
    run("vector-sum", "ark:many", "out.bin")
    assert np.frombuffer(Path("out.bin").read_bytes()[-4:], dtype="<f4")[0] == 16777220


def test_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("matrix-sum", "--binary=false", "m", "n", "cat m |", "out") == " [\n  3 5 \n  7 9 ]\n"
    assert "Summed 3 matrices; wrote sum to out" in capsys.readouterr().err
    assert run("matrix-sum", "--binary=false", "--average", "m", "n", "out") == " [\n  1 1.5 \n  2 2.5 ]\n"
    assert run("vector-sum", "--binary=false", "v", "w", "w", "out") == " [ 3 4 5 ]\n"
    Path("short").write_text("[ 1 ]\n")
    run("vector-sum", "v", "short", "out", status=255)
    assert "short has 1 elements, expected 3, as in v" in capsys.readouterr().err


def test_vectors_of_several_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("vector-sum", "ark:V", "ark:W", "ark:V", "ark,t:out") == "a  [ 12 24 36 ]\nb  [ 8 10 12 ]\n"
    assert "Dimension mismatch for utterance b : 1 for system 2" in capsys.readouterr().err
    assert run("vector-sum", "ark:W", "ark:V", "ark,t:out") == "a  [ 11 22 33 ]\nb  [ 7 ]\nc  [ 1 2 3 ]\n"


def test_average_of_vectors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("vector-sum", "--binary=false", "--average", "ark:V", "out") == " [ 2.5 3.5 4.5 ]\n"
    run("vector-sum", "--average", "v", "w", "out", status=255)
    assert "one table that is summed into a file" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["m", "ark:out"], ["ark:A", "m", "out"], ["ark:A", "ark:B", "out"],
                                   ["m", "ark:A", "out"], ["out"]])
def test_tables_and_files_do_not_mix(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("matrix-sum", *words, status=1) == ""
    err = capsys.readouterr().err
    assert "ERROR" not in err and "Usage: matrix-sum" in err


def test_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("matrix-sum-rows", "ark:A", "ark,t:out") == "a  [ 4 6 ]\nb  [ 5 6 ]\n"
    assert "Summed rows 2 matrices, 3 rows in total." in capsys.readouterr().err
    run("matrix-sum-rows", "ark:empty", "ark,t:out", status=1)


@pytest.mark.parametrize(("words", "expected"), [
    ([], "a  [ 1 2 3 ]\nb  [ 4 5 6 ]\n"), (["--scale=-2"], "a  [ -2 -4 -6 ]\nb  [ -8 -10 -12 ]\n"),
    (["--change-dim=2"], "a  [ 1 2 ]\nb  [ 4 5 ]\n"), (["--change_dim=4"], "a  [ 1 2 3 0 ]\nb  [ 4 5 6 0 ]\n"),
    (["--change-dim=0"], "a  [ ]\nb  [ ]\n")])
def test_copy_vector(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("copy-vector", *words, "ark:V", "ark,t:out") == expected
    assert "Copied 2 vectors" in capsys.readouterr().err
    found = run("copy-vector", "--binary=false", *words, "v", "out")
    assert "a " + found == expected.split("\n")[0] + "\n"
    assert "Copied vector to out" in capsys.readouterr().err


def test_copy_vector_of_nothing_and_of_other_things(capsys: pytest.CaptureFixture[str]) -> None:
    run("copy-vector", "ark:empty", "ark:out", status=1)
    run("copy-vector", "ark:V", "out", status=255)
    assert "Cannot mix archives with regular files" in capsys.readouterr().err


def test_scale() -> None:
    assert run("vector-scale", "--scale=0.5", "ark:V", "ark,t:out") == "a  [ 0.5 1 1.5 ]\nb  [ 2 2.5 3 ]\n"
    assert run("vector-scale", "--scale=3", "v", "out") == " [ 3 6 9 ]\n"      # text is the default here
    run("vector-scale", "--scale=3", "ark:empty", "ark:out", status=1)


def test_dim(capfd: pytest.CaptureFixture[str]) -> None:
    run("matrix-dim", "ark:A")
    assert capfd.readouterr().out == "a\t2\t2\nb\t1\t2\n"
    run("matrix-dim", "m")
    assert capfd.readouterr().out == "2\t2\n"
    run("matrix-dim", "ark:empty", status=1)
    assert "No features read from rspecifier 'ark:empty'" in capfd.readouterr().err
