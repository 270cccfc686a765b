"""Commands that change features: splicing, deltas, selections, pasting, transforms; against plain numpy."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_lines import run

from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, GENERAL_MATRIX, read_matrix_file
from nnet3py.io.tables import SequentialReader, write_table

FLOAT = 1e-5        # relative to the values, which are around 1: sums of a few float32 numbers
LENGTHS = {"a": 7, "b": 1, "c": 12}
DIM = 3


@pytest.fixture
def feats(here: Path) -> dict[str, np.ndarray]:
    """Features in feats.ark and feats.scp of the current folder."""
    rng = np.random.default_rng(0)
    matrices = {key: rng.standard_normal((length, DIM)).astype(np.float32) for key, length in LENGTHS.items()}
    write("ark,scp:feats.ark,feats.scp", matrices)
    return matrices


def write(wspecifier: str, matrices: dict[str, np.ndarray]) -> None:
    write_table(wspecifier, FLOAT_MATRIX, matrices)


def read(name: str) -> dict[str, np.ndarray]:
    return dict(SequentialReader(f"ark:{name}", FLOAT_MATRIX))


def row(matrix: np.ndarray, t: int) -> np.ndarray:
    """A frame; the outermost one beyond the ends."""
    return matrix[min(max(t, 0), len(matrix) - 1)]


def test_splice(feats: dict[str, np.ndarray]) -> None:
    run("splice-feats", "--left-context=2", "--right-context=1", "ark:feats.ark", "ark:out")
    for key, found in read("out").items():
        expected = [np.concatenate([row(feats[key], t + d) for d in (-2, -1, 0, 1)]) for t in range(LENGTHS[key])]
        np.testing.assert_array_equal(found, expected)


def test_splice_with_the_usual_context(feats: dict[str, np.ndarray]) -> None:
    run("splice-feats", "scp:feats.scp", "ark,t:out")
    assert {key: matrix.shape for key, matrix in read("out").items()} == {k: (n, 27) for k, n in LENGTHS.items()}


def slopes(matrix: np.ndarray, window: int) -> np.ndarray:
    weights = range(-window, window + 1)
    norm = sum(d * d for d in weights)
    return np.array([sum(d * row(matrix, t + d).astype(np.float64) for d in weights) / norm
                     for t in range(len(matrix))])


@pytest.mark.parametrize("window", [1, 2, 3])
def test_deltas(feats: dict[str, np.ndarray], window: int) -> None:
    run("add-deltas", f"--delta-window={window}", "ark:feats.ark", "ark:out")
    for key, found in read("out").items():
        # slopes of slopes, with the outermost frame of the features (not of their slopes) repeated
        long = np.pad(feats[key], ((3 * window, 3 * window), (0, 0)), mode="edge")
        first = slopes(long, window)
        second = slopes(first, window)
        expected = np.hstack([long, first, second])[3 * window:-3 * window]
        np.testing.assert_allclose(found, expected, rtol=FLOAT, atol=FLOAT)


def test_deltas_of_some_columns_and_other_orders(feats: dict[str, np.ndarray]) -> None:
    run("add-deltas", "--truncate=2", "--delta-order=3", "ark:feats.ark", "ark:out")
    assert {matrix.shape[1] for matrix in read("out").values()} == {8}
    run("add-deltas", "--delta-order=0", "ark:feats.ark", "ark:out")
    for key, found in read("out").items():
        np.testing.assert_array_equal(found, feats[key])


def test_select(feats: dict[str, np.ndarray]) -> None:
    run("select-feats", "2,0-1,2-0,1", "ark:feats.ark", "ark:out")
    for key, found in read("out").items():
        np.testing.assert_array_equal(found, feats[key][:, [2, 0, 1, 2, 1, 0, 1]])


def test_subset(feats: dict[str, np.ndarray]) -> None:
    Path("list").write_text("c more words\na\nz\n")
    for words, keys in ((["--n=2"], "ab"), (["--n=0"], ""), ([], "abc"), (["--include=list"], "ac"),
                        (["--exclude=list"], "b"), (["--exclude=echo b |"], "ac")):
        run("subset-feats", *words, "ark:feats.ark", "ark:out")
        found = read("out")
        assert list(found) == list(keys)
        assert all(np.array_equal(found[key], feats[key]) for key in keys)


def test_subset_does_not_read_what_it_does_not_want(feats: dict[str, np.ndarray]) -> None:
    with open("feats.scp", "a", encoding="utf-8") as script:
        script.write("d missing\n")
    run("subset-feats", "--n=3", "scp:feats.scp", "ark:out")
    run("subset-feats", "scp:feats.scp", "ark:out", status=255)


@pytest.mark.parametrize(("words", "rows"), [
    (["--n=3"], {"a": [0, 3, 6], "b": [0], "c": [0, 3, 6, 9]}), (["--n=2", "--offset=1"], {"a": [1, 3, 5],
                                                                                        "c": [1, 3, 5, 7, 9, 11]}),
    (["--n=-2"], {key: [t for t in range(n) for _ in range(2)] for key, n in LENGTHS.items()})])
def test_subsample(feats: dict[str, np.ndarray], words: list[str], rows: dict[str, list[int]],
                   capsys: pytest.CaptureFixture[str]) -> None:
    run("subsample-feats", *words, "ark:feats.ark", "ark:out")
    found = read("out")
    assert list(found) == list(rows)
    assert all(np.array_equal(found[key], feats[key][rows[key]]) for key in rows)
    err = capsys.readouterr().err
    assert f"Processed {len(rows)} feature matrices; {3 - len(rows)} with errors." in err
    assert ("For utterance b, output would have no rows" in err) == ("b" not in rows)


@pytest.mark.parametrize("by", [-20, -1, 0, 2])
def test_shift(feats: dict[str, np.ndarray], by: int) -> None:
    run("shift-feats", f"--shift={by}", "ark:feats.ark", "ark:out")
    for key, found in read("out").items():
        np.testing.assert_array_equal(found, [row(feats[key], t - by) for t in range(LENGTHS[key])])
    run("copy-feats", "ark:feats.ark", "scp:echo a a.mat; echo b b.mat; echo c c.mat |")
    run("shift-feats", f"--shift={by}", "a.mat", "out.mat")
    np.testing.assert_array_equal(read_matrix_file("out.mat"), read("out")["a"])


def test_paste(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    others = {"a": feats["a"][:5, :2], "b": feats["b"]}
    write("ark:others.ark", others)
    run("paste-feats", "--length-tolerance=2", "ark:feats.ark", "ark:others.ark", "ark:feats.ark", "ark:out")
    found, err = read("out"), capsys.readouterr().err
    assert list(found) == ["a", "b"]
    for key, matrix in found.items():
        length = len(others[key])
        np.testing.assert_array_equal(matrix, np.hstack([feats[key][:length], others[key], feats[key][:length]]))
    assert "Length mismatch 7 vs. 5 for utt a within tolerance 2" in err and "Missing utt c from input" in err
    assert "Done 2 utts, errors on 1" in err


def test_paste_nothing(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    write("ark:others.ark", {"a": feats["a"][:5]})
    run("paste-feats", "ark:feats.ark", "ark:others.ark", "ark:out", status=255)
    assert "Done 0 utts, errors on 3" in capsys.readouterr().err and not Path("out").exists()


def test_paste_files(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    Path("x").write_text("[ 1 2\n 3 4\n 5 6 ]\n")
    Path("y").write_text("[ 7\n 8 ]\n")
    run("paste-feats", "x", "y", "z", status=1)
    run("paste-feats", "--binary=false", "--length-tolerance=1", "x", "y", "z")
    assert Path("z").read_text() == " [\n  1 2 7 \n  3 4 8 ]\n"
    assert "Wrote appended features to z" in capsys.readouterr().err


def test_append_vector(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    write_table("ark:vecs", FLOAT_VECTOR, {"c": np.array([5, 6], dtype=np.float32)})
    run("append-vector-to-feats", "ark:feats.ark", "ark:vecs", "ark:out")
    found = read("out")
    assert list(found) == ["c"]
    np.testing.assert_array_equal(found["c"], [[*values, 5, 6] for values in feats["c"]])
    assert "Could not read vector for utterance a" in capsys.readouterr().err
    Path("v").write_text("[ 8 9 ]\n")
    run("copy-matrix", "--binary=false", "feats.ark:2", "m")
    run("append-vector-to-feats", "m", "v", "out.mat")
    assert read_matrix_file("out.mat").shape == (7, 5)
    run("append-vector-to-feats", "ark:feats.ark", "ark:echo z [ 1 ] |", "ark:out", status=255)


def matrix_text(matrix: np.ndarray) -> str:
    return "[ " + "\n".join(" ".join(map(str, values)) for values in matrix.tolist()) + " ]\n"


@pytest.mark.parametrize("shape", [(2, 3), (3, 3), (5, 3), (2, 4), (3, 4)])
def test_transform(feats: dict[str, np.ndarray], shape: tuple[int, int], capsys: pytest.CaptureFixture[str]) -> None:
    matrix = np.random.default_rng(1).standard_normal(shape)
    Path("t").write_text(matrix_text(matrix))
    run("transform-feats", "t", "ark:feats.ark", "ark:out")
    for key, found in read("out").items():
        expected = feats[key] @ matrix[:, :3].T + (matrix[:, 3] if shape[1] == 4 else 0)
        np.testing.assert_allclose(found, expected, rtol=FLOAT, atol=FLOAT)
    err = capsys.readouterr().err
    assert "Applied transform to 3 utterances; 0 had errors." in err
    kind = {2: "[pseudo-]logdet", 3: "logdet"}.get(shape[0])
    if kind:
        linear = matrix[:, :3]
        volume = 0.5 * np.log(np.linalg.det(linear @ linear.T))
        line = next(line for line in err.splitlines() if "Overall average" in line)
        assert f"Overall average {kind} is " in line and line.endswith(" over 20 frames.")
        assert float(line.split(" is ")[1].split()[0]) == pytest.approx(volume, rel=1e-4, abs=1e-5)
    else:
        assert "Overall" not in err


def test_transform_of_speakers(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    matrices = {"s": np.eye(3, dtype="f") * 2, "wrong": np.eye(7, dtype="f")}
    write("ark:trans", matrices)
    Path("utt2spk").write_text("a s\nb wrong\nc unknown\n")
    run("transform-feats", "--utt2spk=ark:utt2spk", "ark:trans", "ark:feats.ark", "ark:out")
    found = read("out")
    assert list(found) == ["a"]
    np.testing.assert_array_equal(found["a"], 2 * feats["a"])
    err = capsys.readouterr().err
    assert "No fMLLR transform available for utterance c" in err and "bad dimension 7x7 versus feat dim 3" in err


@pytest.mark.parametrize(("name", "words"), [
    ("splice-feats", ["--left-context=-1"]), ("add-deltas", ["--truncate=4"]), ("add-deltas", ["--delta-window=0"]),
    ("add-deltas", ["--delta-order=1000"]), ("subset-feats", ["--include=x", "--exclude=x"]),
    ("subset-feats", ["--include=x", "--n=3"]), ("subset-feats", ["--include=missing"]),
    ("subset-feats", ["--include=printf 'a\\n\\n' |"]), ("subset-feats", ["--include=false |"]),
    ("subsample-feats", ["--n=0"]), ("subsample-feats", ["--n=-2", "--offset=1"]), ("select-feats", ["3"]),
    ("select-feats", ["0-3"]), ("select-feats", [""]), ("select-feats", ["0,,1"]), ("select-feats", ["a"]),
    ("select-feats", ["1-"]), ("select-feats", ["0-99999999999"]),
    ("transform-feats", ["--utt2spk=ark:x", "feats.ark:2"])])
def test_refused(feats: dict[str, np.ndarray], name: str, words: list[str],
                 capsys: pytest.CaptureFixture[str]) -> None:
    run(name, *words, "ark:feats.ark", "ark:out", status=255)
    assert capsys.readouterr().err.count("ERROR (") == 1 and not Path("out").exists()


@pytest.mark.parametrize("name", ["splice-feats", "add-deltas", "subsample-feats", "shift-feats", "transform-feats"])
def test_an_empty_table_is_a_failure(feats: dict[str, np.ndarray], name: str) -> None:
    Path("t").write_text("[ 1 ]\n")
    run(name, *(["t"] if name == "transform-feats" else []), "ark:/dev/null", "ark:out", status=1)


@pytest.mark.parametrize("name", ["select-feats", "subset-feats"])
def test_an_empty_table_is_fine(feats: dict[str, np.ndarray], name: str) -> None:
    run(name, *(["0"] if name == "select-feats" else []), "ark:/dev/null", "ark:out")


def test_empty_matrices_are_skipped(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    write("ark:some", {"x": feats["a"][:0], "y": feats["a"]})
    for name in ("splice-feats", "add-deltas", "shift-feats"):
        run(name, "ark:some", "ark:out")
        assert list(read("out")) == ["y"]
        assert "Empty feature matrix for key x" in capsys.readouterr().err


def test_ranges_compressed_features_and_permissive_tables(feats: dict[str, np.ndarray]) -> None:
    write_table("ark,scp:c.ark,c.scp", GENERAL_MATRIX, {
        key: CompressedMatrix.compress(matrix, 3) for key, matrix in feats.items()})
    lines = Path("c.scp").read_text().splitlines()
    Path("range.scp").write_text(f"{lines[0]}[2:4]\nz missing\n{lines[2]}[0:1,1:2]\n")
    run("shift-feats", "--shift=0", "scp,p:range.scp", "ark:out")
    found = read("out")
    assert {key: matrix.shape for key, matrix in found.items()} == {"a": (3, 3), "c": (2, 2)}
    np.testing.assert_allclose(found["c"], feats["c"][:2, 1:], atol=1e-3)   # two bytes a value
