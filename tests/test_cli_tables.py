"""copy-feats, feat-to-dim, feat-to-len, copy-int-vector, ali-to-post and copy-matrix."""
from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from paths import shared_golden

from nnet3py.cli.alignments.posteriors import ali_to_post
from nnet3py.cli.feat.copy_feats import copy_feats, feat_to_dim, feat_to_len
from nnet3py.cli.tables.matrices import copy_int_vector, copy_matrix

MATRICES = "a  [\n  1 2 3\n  4 5 6 ]\nb  [\n  -1 0.5 0.25 ]\n"
ALIGNMENTS = "a 3 3 7 \nb 1 \nc \n"
FLOAT_TEXT = 2e-6      # relative: seven printed digits
TWO_BYTE_STEP = 1e-4   # a 65535th of the range of the values here, and its rounding


@pytest.fixture
def folder(here: Path) -> Path:
    (here / "feats.txt").write_text(MATRICES)
    (here / "ali.txt").write_text(ALIGNMENTS)
    (here / "empty").write_text("")
    (here / "one.mat").write_text(" [\n  1 2\n  3 4 ]\n")
    return here


def numbers(path: Path) -> np.ndarray:
    """The numbers of a text archive, keys and brackets left out."""
    words = path.read_text().replace("[", " ").replace("]", " ").split()
    return np.array([float(word) for word in words if word[0] in "-0123456789"])


def test_copy_feats_text_and_binary(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert copy_feats.execute(["ark,t:feats.txt", "ark,scp:feats.ark,feats.scp"]) == 0
    assert "Copied 2 feature matrices." in capsys.readouterr().err
    assert (folder / "feats.ark").read_bytes().startswith(b"a \0BFM \4\2\0\0\0\4\3\0\0\0")
    assert copy_feats.execute(["scp:feats.scp", "ark,t:back.txt"]) == 0
    assert (folder / "back.txt").read_text() == "a  [\n  1 2 3 \n  4 5 6 ]\nb  [\n  -1 0.5 0.25 ]\n"


@pytest.mark.parametrize("method", range(1, 8))
def test_copy_feats_compressed(method: int, folder: Path) -> None:
    assert copy_feats.execute(["--compress=true", f"--compression-method={method}", "ark:feats.txt", "ark:c.ark"]) == 0
    assert b"CM" in (folder / "c.ark").read_bytes()
    assert copy_feats.execute(["ark:c.ark", "ark,t:back.txt"]) == 0
    assert numbers(folder / "back.txt").shape == (9,)
    if method == 3:
        np.testing.assert_allclose(numbers(folder / "back.txt"), numbers(folder / "feats.txt"), atol=TWO_BYTE_STEP)


def test_copy_feats_decompresses_as_kaldi_does(folder: Path) -> None:
    data = shared_golden() / "data"
    for kind in ("cm", "cm2", "cm3"):
        source, decoded = data / f"feats-{kind}.ark", data / f"feats-{kind}.decoded.ark"
        if source.is_file():
            assert copy_feats.execute([f"ark:{source}", "ark:back.ark"]) == 0
            assert (folder / "back.ark").read_bytes() == decoded.read_bytes()


def test_copy_feats_num_frames(folder: Path) -> None:
    assert copy_feats.execute(["--write-num-frames=ark,t:len", "ark:feats.txt", "ark:/dev/null"]) == 0
    assert (folder / "len").read_text() == "a 2 \nb 1 \n"


def test_copy_feats_of_a_file(folder: Path) -> None:
    assert copy_feats.execute(["--binary=false", "one.mat", "two.mat"]) == 0
    assert (folder / "two.mat").read_text() == " [\n  1 2 \n  3 4 ]\n"


def test_copy_feats_from_htk_and_sphinx(folder: Path) -> None:
    values = np.arange(26, dtype=np.float32).reshape(2, 13) - 3.5
    htk = struct.pack(">iihH", 2, 100000, 52, 6) + values.astype(">f4").tobytes()
    sphinx = struct.pack(">i", 26) + values.astype(">f4").tobytes()
    (folder / "a.htk").write_bytes(htk)
    (folder / "a.mfc").write_bytes(sphinx)
    (folder / "htk.scp").write_text("a a.htk\n")
    for words in (["--htk-in", "scp:htk.scp", "ark,t:out"], ["--htk-in", "--binary=false", "a.htk", "out"],
                  ["--sphinx-in", "--binary=false", "a.mfc", "out"]):
        assert copy_feats.execute(words) == 0
        np.testing.assert_array_equal(numbers(folder / "out"), values.ravel())


def test_copy_feats_from_compressed_htk(folder: Path) -> None:
    factors = np.array([[2.0, 4.0], [1.0, -1.0]], dtype=">f4")   # x = (stored + B) / A
    stored = np.array([[1, 5], [3, -3]], dtype=">i2")
    header = struct.pack(">iihH", 2 + 4, 100000, 4, 6 | 0o2000)
    (folder / "a.htk").write_bytes(header + factors.tobytes() + stored.tobytes())
    assert copy_feats.execute(["--htk-in", "--binary=false", "a.htk", "out"]) == 0
    np.testing.assert_array_equal(numbers(folder / "out"), [1.0, 1.0, 2.0, -1.0])


@pytest.mark.parametrize("data", [
    b"", b"\0\0", struct.pack(">iihH", 1 << 30, 1, 52, 6), struct.pack(">iihH", 2, 1, 51, 6),
    struct.pack(">iihH", -1, 1, 52, 6), struct.pack(">iihH", 2, 1, 4, 6 | 0o2000)])
def test_broken_htk_is_an_error(data: bytes, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.htk").write_bytes(data)
    assert copy_feats.execute(["--htk-in", "bad.htk", "out"]) == 255
    assert "bad.htk" in capsys.readouterr().err
    assert not (folder / "out").exists()


@pytest.mark.parametrize("words, message", [
    (["ark:feats.txt", "plain"], "Cannot mix archives with regular files"),
    (["one.mat", "ark:plain"], "Cannot mix archives with regular files"),
    (["--compression-method=8", "ark:feats.txt", "ark:plain"], "=8: expected 1 or more and at most 7"),
    (["--write-num-frames=ark:n", "one.mat", "plain"], "not with plain files"),
    (["ark:missing", "ark:plain"], "missing"),
])
def test_copy_feats_refuses(words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert copy_feats.execute(words) == 255
    err = capsys.readouterr().err
    assert message in err and err.count("ERROR (copy-feats[5.5]:") == 1
    assert not (folder / "plain").exists()


def test_a_truncated_table_leaves_no_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert copy_feats.execute(["ark:feats.txt", "ark:feats.ark"]) == 0
    assert copy_int_vector.execute(["ark:ali.txt", "ark:ali.ark"]) == 0
    for name in ("feats.ark", "ali.ark"):
        (folder / name).write_bytes((folder / name).read_bytes()[:-3])
    for words in (["ark:feats.ark", "ark:out"], ["--write-num-frames=ark:out", "ark:feats.ark", "ark:out2"]):
        assert copy_feats.execute(words) == 255
    assert copy_matrix.execute(["ark:feats.ark", "ark:out"]) == 255
    assert feat_to_len.execute(["ark:feats.ark", "ark:out"]) == 255
    assert feat_to_len.execute(["ark:feats.ark"]) == 255
    assert copy_int_vector.execute(["ark:ali.ark", "ark:out"]) == 255
    assert ali_to_post.execute(["ark:ali.ark", "ark:out"]) == 255
    assert not (folder / "out").exists() and not (folder / "out2").exists()
    assert capsys.readouterr().out == ""


def test_empty_tables_are_failures(folder: Path) -> None:
    for command in (copy_feats, copy_matrix, copy_int_vector, ali_to_post):
        assert command.execute(["ark:empty", "ark:out"]) == 1


def test_feat_to_dim(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert feat_to_dim.execute(["ark:feats.txt", "-"]) == 0
    assert capfd.readouterr().out == "3\n"
    assert feat_to_dim.execute(["ark:feats.txt", "ark,t:-"]) == 0
    assert capfd.readouterr().out == "a 3 \nb 3 \n"
    assert feat_to_dim.execute(["ark:empty", "-"]) == 255
    assert "Could not read any features (empty archive?)" in capfd.readouterr().err


def test_feat_to_len(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert feat_to_len.execute(["ark:feats.txt"]) == 0
    assert capfd.readouterr().out == "3\n"
    assert feat_to_len.execute(["ark:feats.txt", "ark,t:-"]) == 0
    assert capfd.readouterr().out == "a 2 \nb 1 \n"
    assert feat_to_len.execute(["ark:empty"]) == 0
    assert capfd.readouterr().out == "0\n"


def test_feat_to_len_of_compressed_features(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert copy_feats.execute(["--compress", "ark:feats.txt", "ark:c.ark"]) == 0
    assert feat_to_len.execute(["ark:c.ark"]) == 0
    assert capfd.readouterr().out == "3\n"


def test_copy_int_vector(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert copy_int_vector.execute(["ark:ali.txt", "ark:ali.ark"]) == 0
    assert "Copied 3 vectors of int32." in capsys.readouterr().err
    assert copy_int_vector.execute(["ark:ali.ark", "ark,t:back"]) == 0
    assert (folder / "back").read_text() == ALIGNMENTS
    (folder / "one.int").write_text("4 5 6\n")
    assert copy_int_vector.execute(["one.int", "one.bin"]) == 0
    assert copy_int_vector.execute(["--binary=false", "one.bin", "two.int"]) == 0
    assert (folder / "two.int").read_text() == "4 5 6 \n"


def test_ali_to_post(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ali_to_post.execute(["ark:ali.txt", "ark,t:post"]) == 0
    assert (folder / "post").read_text() == "a [ 3 1 ] [ 3 1 ] [ 7 1 ] \nb [ 1 1 ] \nc \n"
    assert "Converted 3 alignments." in capsys.readouterr().err


@pytest.mark.parametrize("options, expected", [
    (["--scale=2"], [2, 4, 6, 8]),
    (["--apply-log"], np.log([1, 2, 3, 4])),
    (["--scale=0", "--apply-log"], [np.log(1e-20)] * 4),
    (["--apply-exp"], np.exp([1, 2, 3, 4])),
    (["--apply-softmax-per-row"], [1 / (1 + np.e), np.e / (1 + np.e)] * 2),
    (["--scale=-1", "--apply-power=2"], [1, 4, 9, 16]),
    (["--apply-exp", "--apply-power=0.5"], np.exp([0.5, 1, 1.5, 2])),
])
def test_copy_matrix_transforms(options: list[str], expected: list[float], folder: Path) -> None:
    assert copy_matrix.execute([*options, "--binary=false", "one.mat", "out"]) == 0
    np.testing.assert_allclose(numbers(folder / "out"), expected, rtol=FLOAT_TEXT)
    (folder / "one.ark").write_text("k" + (folder / "one.mat").read_text())
    assert copy_matrix.execute([*options, "ark:one.ark", "ark,t:table"]) == 0
    np.testing.assert_array_equal(numbers(folder / "table"), numbers(folder / "out"))


def test_copy_matrix_refuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert copy_matrix.execute(["--apply-log", "--apply-exp", "one.mat", "out"]) == 255
    assert "Only one of" in capsys.readouterr().err
    assert copy_matrix.execute(["--scale=-1", "--apply-power=0.5", "one.mat", "out"]) == 255
    assert "Cannot raise -1 to the power 0.5" in capsys.readouterr().err
    assert not (folder / "out").exists()
