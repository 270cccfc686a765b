"""Small programs for features: segments, files of other programs, comparison, posteriors, products, normalization."""
from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from command_lines import run
from io_samples import read_table
from paths import DATA

from nnet3py.feat.cmvn import normalize_sliding
from nnet3py.feat.frames import add_shifted_deltas
from nnet3py.formats.foreign_files import HTK_MATRIX, SPHINX_DIM
from nnet3py.formats.holders import DOUBLE_MATRIX, FLOAT_MATRIX, FLOAT_VECTOR, POSTERIOR, read_matrix_file
from nnet3py.formats.posteriors import Posterior
from nnet3py.io.tables import write_table
from nnet3py.io.tokens import TokenReader

FLOAT = 1e-5
LENGTHS = {"a": 60, "b": 9, "c": 30}
DIM = 3


@pytest.fixture
def feats(here: Path) -> dict[str, np.ndarray]:
    """Features in feats.ark and feats.scp of the current folder."""
    rng = np.random.default_rng(0)
    matrices = {key: rng.standard_normal((length, DIM)).astype(np.float32) for key, length in LENGTHS.items()}
    write("ark,scp:feats.ark,feats.scp", matrices)
    return matrices


def write(wspecifier: str, values: dict, holder=FLOAT_MATRIX) -> None:
    write_table(wspecifier, holder, values)


def read(name: str, holder=FLOAT_MATRIX) -> dict[str, np.ndarray]:
    return read_table(f"ark:{name}", holder)


def place(part: np.ndarray, whole: np.ndarray) -> tuple[int, int]:
    """Where the part is in the whole."""
    begins = [i for i in range(len(whole) - len(part) + 1) if np.array_equal(whole[i:i + len(part)], part)]
    assert len(begins) == 1
    return begins[0], begins[0] + len(part)


# -- segments ----------------------------------------------------------------------------------------------------------


def test_segments(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    Path("segments").write_text("s1 a 0.1 0.3\ns2 a 0.29 0.58\ns3 c 0.15 -1\ns4 a 0.5 0.62\ns5 a 0.5 0.62 A\n")
    run("extract-feature-segments", "scp:feats.scp", "segments", "ark:out")
    parts = read("out")
    places = {"s1": ("a", 10, 28), "s2": ("a", 29, 56), "s3": ("c", 15, 30), "s4": ("a", 50, 60), "s5": ("a", 50, 60)}
    assert {key: (places[key][0], *place(part, feats[places[key][0]])) for key, part in parts.items()} == places
    assert "Successfully processed 5 lines out of 5 in the segments file. " in capfd.readouterr().err
    run("extract-feature-segments", "--snip-edges=false", "--frame-shift=20", "scp:feats.scp", "segments", "ark:out")
    assert place(read("out")["s1"], feats["a"]) == (5, 15)
    run("extract-feature-segments", "--frame-length=40", "scp:feats.scp", "segments", "ark:out")
    assert place(read("out")["s1"], feats["a"]) == (10, 27)
    run("extract-feature-segments", "scp:feats.scp", "cat segments; exit 3 |", "ark:unfinished", status=255)
    assert "exit 3" in capfd.readouterr().err and not Path("unfinished").exists()


@pytest.mark.parametrize("line, message", [
    ("s a 0.1", "Invalid line in segments file: s a 0.1"), ("", "Invalid line"), ("s a x 1", "[bad start]"),
    ("s a 0.1 nan", "[empty or invalid segment]"), ("s a -1 1", "[empty or"), ("s a 0.5 0.5", "[empty or"),
    ("s z 0.1 0.5", "Did not find features for utterance z, skipping segment s"),
    ("s a 0.6 0.9", "Start frame out of range 60 [length:] 60"),
    ("s a 0.1 0.63", "End frame too far out of range 61 [length:] 60"),
    ("s a 0.1 0.19", "Segment s too short"), ("s a 0.55 -1", "too short"), ("s a 0.1 1e300", "too far out of range")])
def test_segments_that_cannot_be_cut(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str], line: str,
                                     message: str) -> None:
    Path("segments").write_text(line + "\n")
    run("extract-feature-segments", "scp:feats.scp", "segments", "ark:out")
    said = capfd.readouterr().err
    assert message in said and "Successfully processed 0 lines out of 1" in said and not read("out")


def test_overshoot_and_short_segments(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    Path("segments").write_text("s a 0.55 0.65\n")
    run("extract-feature-segments", "--max-overshoot=0.05", "--min-segment-length=0.01", "scp:feats.scp", "segments",
        "ark:out")
    assert place(read("out")["s"], feats["a"]) == (55, 60)


def test_one_after_the_other(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    names = [line.split()[1] for line in Path("feats.scp").read_text().splitlines()]
    run("concat-feats", names[0], names[1] + "[2:4]", names[2], "out")
    np.testing.assert_array_equal(read_matrix_file("out"), np.concatenate((feats["a"], feats["b"][2:5], feats["c"])))
    Path("other").write_text(" [\n 1 2 ]\n")
    Path("empty").write_text(" [ ]\n")
    run("concat-feats", "--binary=false", "empty", "other", "empty", "out")
    assert Path("out").read_bytes()[:1] != b"\0"
    np.testing.assert_array_equal(read_matrix_file("out"), [[1, 2]])
    run("concat-feats", "empty", "empty", "out")
    assert read_matrix_file("out").size == 0
    run("concat-feats", names[0], "other", "new", status=255)
    assert "other has 2 columns, expected 3" in capfd.readouterr().err and not Path("new").exists()


# -- files of other programs -------------------------------------------------------------------------------------------


def test_files_of_htk_and_sphinx_are_those_of_kaldi(feats: dict[str, np.ndarray],
                                                    capfd: pytest.CaptureFixture[str]) -> None:
    folder = DATA / "features" / "tools"
    run("copy-feats", "--htk-in=true", str(folder / "silence.fea"), "silence.mat")
    write("ark:silence.ark", {"silence": read_matrix_file("silence.mat")})
    Path("files").mkdir()
    run("copy-feats-to-htk", "--output-dir=files", "--output-ext=htk", "ark:silence.ark")
    run("copy-feats-to-sphinx", "--output-dir=files", "ark:silence.ark")
    assert Path("files/silence.htk").read_bytes() == (folder / "silence.fea").read_bytes()
    assert Path("files/silence.mfc").read_bytes() == (folder / "silence.mfc").read_bytes()
    said = capfd.readouterr().err
    assert "1 HTK feature files generated in the direcory: files" in said and "1 Sphinx feature files" in said


def test_values_in_the_files(feats: dict[str, np.ndarray]) -> None:
    run("copy-feats-to-htk", "--sample-period=50000", "--sample-kind=6", "ark:feats.ark")
    run("copy-feats-to-sphinx", "ark:feats.ark")
    for key, matrix in feats.items():
        assert struct.unpack(">iihH", Path(f"{key}.fea").read_bytes()[:12]) == (len(matrix), 50000, 4 * DIM, 6)
        reader = TokenReader(io.BytesIO(Path(f"{key}.fea").read_bytes()))
        np.testing.assert_array_equal(HTK_MATRIX.read_value(reader), matrix)
        data = Path(f"{key}.mfc").read_bytes()
        assert struct.unpack("<i", data[:4]) == (matrix.size,) and SPHINX_DIM != DIM
        np.testing.assert_array_equal(np.frombuffer(data, "<f4", offset=4).reshape(-1, DIM), matrix)


def test_files_that_cannot_be_written(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    write("ark:wide.ark", {"wide": np.ones((1, 9000), np.float32)})
    write("ark:slash.ark", {"../x": np.ones((1, 2), np.float32)})
    for name, words, message in (
            ("copy-feats-to-htk", ["ark:wide.ark"], "9000 columns do not fit into an HTK file, which has at most 8191"),
            ("copy-feats-to-sphinx", ["ark:slash.ark"], "the key ../x cannot be the name of a file"),
            ("copy-feats-to-sphinx", ["--output-dir=absent", "ark:feats.ark"], "absent/a.mfc")):
        run(name, *words, status=255)
        assert message in capfd.readouterr().err
    run("copy-feats-to-htk", "ark:/dev/null", status=1)
    assert not list(Path().glob("wide*.fea"))


# -- comparison --------------------------------------------------------------------------------------------------------


def test_similar_features(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    others = {key: matrix * np.array([1, 2, -1], np.float32) for key, matrix in feats.items() if key != "b"}
    write("ark:others.ark", others)
    run("compare-feats", "ark:feats.ark", "ark:feats.ark")
    assert "Features are considered similar since 1 >= 0.99" in capfd.readouterr().err
    run("compare-feats", "ark:feats.ark", "ark:others.ark", status=1)
    said = capfd.readouterr().err
    squares = sum(np.square(feats[key], dtype=np.float64).sum(axis=0) for key in others)
    shown = " ".join(f"{value:g}" for value in squares)
    assert f"self-product of 1st features for each column dimension:  [ {shown} ]" in said
    assert "Similarity metric for each dimension  [ 1 0.8 -1 ]" in said and "two feats is:0.266667 (1.0" in said
    assert "Processed 2 feature files, 1 had errors." in said and "considered dissimilar since 0.266667 < 0.99" in said
    run("compare-feats", "--threshold=0.2", "ark:feats.ark", "ark:others.ark")


def test_feat_that_cannot_be_compared(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    zeros = {"a": np.zeros((60, DIM), np.float32)}
    write("ark:zeros.ark", zeros)
    write("ark:short.ark", {"a": feats["a"][1:]})
    write("ark:narrow.ark", {"a": feats["a"][:, 1:]})
    run("compare-feats", "ark:zeros.ark", "ark:zeros.ark")
    run("compare-feats", "ark:zeros.ark", "ark:feats.ark", status=1)
    run("compare-feats", "ark:short.ark", "ark:feats.ark", status=1)
    assert "Number of frames for utterance a differs: 59 vs. 60" in capfd.readouterr().err
    run("compare-feats", "ark:narrow.ark", "ark:feats.ark", status=255)
    assert "features of a have 2 columns in the first table, and 3 in the second" in capfd.readouterr().err
    run("compare-feats", "ark:/dev/null", "ark:feats.ark", status=1)
    write("ark:nan.ark", {"a": feats["a"] * np.float32(np.nan)})
    run("compare-feats", "ark:nan.ark", "ark:feats.ark", status=1)


# -- posteriors --------------------------------------------------------------------------------------------------------


def posteriors(frames: int) -> Posterior:
    return Posterior.from_lists([[(t % 4, 0.75), (3, 0.5)] for t in range(frames)])


def columns(frames: int) -> np.ndarray:
    matrix = np.zeros((frames, 5), np.float32)
    for t in range(frames):
        matrix[t, t % 4] += 0.75
        matrix[t, 3] += 0.5
    return matrix


def test_posteriors_as_columns(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    write("ark,scp:post.ark,post.scp", {"a": posteriors(60), "b": posteriors(8)}, POSTERIOR)
    run("post-to-feats", "--post-dim=5", "ark:post.ark", "ark:out")
    for matrix in read("out").values():
        np.testing.assert_array_equal(matrix, columns(len(matrix)))
    run("append-post-to-feats", "--post-dim=5", "ark:feats.ark", "ark:post.ark", "ark:out")
    np.testing.assert_array_equal(read("out")["a"], np.hstack((feats["a"], columns(60))))
    said = capfd.readouterr().err
    assert "Utterance b: expected posteriors of 9 frames, as of the features, found 8" in said
    assert "Could not read posteriors for utterance c" in said and "Done 1 utts, errors on 2" in said
    places = [Path(name).read_text().split("\n")[0].split()[1] for name in ("feats.scp", "post.scp")]
    run("append-post-to-feats", "--post-dim=5", *places, "out")
    np.testing.assert_array_equal(read_matrix_file("out"), np.hstack((feats["a"], columns(60))))
    run("post-to-feats", "--post-dim=5", places[1], "out")
    np.testing.assert_array_equal(read_matrix_file("out"), columns(60))


def test_posteriors_that_do_not_fit(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    write("ark:post.ark", {"a": posteriors(60)}, POSTERIOR)
    for words in (["post-to-feats", "ark:post.ark"], ["append-post-to-feats", "ark:feats.ark", "ark:post.ark"]):
        run(*words, "ark:new", status=255)
        assert "You have to set the dimensionality of posteriors with '--post-dim=D'" in capfd.readouterr().err
    run("post-to-feats", "--post-dim=3", "ark:post.ark", "ark:new", status=255)
    assert "key a: expected columns from 0 to 2, found 0 to 3" in capfd.readouterr().err and not Path("new").exists()
    run("append-post-to-feats", "--post-dim=3", "ark:feats.ark", "ark:post.ark", "ark:out", status=255)
    assert "Utterance a: expected columns from 0 to 2" in capfd.readouterr().err
    run("post-to-feats", "--post-dim=3", "ark:/dev/null", "ark:out", status=255)


# -- products ----------------------------------------------------------------------------------------------------------


def test_products_of_vectors(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    tables = [{key: rng.uniform(0, 1, 10 + number).astype(np.float32) for key in "abc"[number:]} for number in range(3)]
    for number, table in enumerate(tables):
        write(f"ark:{number}.ark", table, FLOAT_VECTOR)
    run("multiply-vectors", "--length-tolerance=2", "ark:0.ark", "ark:1.ark", "ark:2.ark", "ark:out")
    products = read("out", FLOAT_VECTOR)
    assert list(products) == ["c"]
    expected = [tables[0]["c"][i] * tables[1]["c"][i] * tables[2]["c"][i] for i in range(10)]
    np.testing.assert_allclose(products["c"], expected, rtol=FLOAT)
    said = capfd.readouterr().err
    assert "Missing utt a from input ark:1.ark" in said and "Missing utt b from input ark:2.ark" in said
    assert "Done 1 utts, errors on 2" in said
    run("multiply-vectors", "ark:0.ark", "ark:1.ark", "ark:out", status=255)
    assert "Length mismatch 11 vs. 10 for utt b exceeds tolerance 0" in capfd.readouterr().err


def apply(transform: np.ndarray, x: np.ndarray) -> np.ndarray:
    return transform @ (x if transform.shape[1] == len(x) else np.append(x, 1.0))


@pytest.mark.parametrize("a_affine", [False, True])
@pytest.mark.parametrize("b_affine", [False, True])
def test_composed_transforms(feats: dict[str, np.ndarray], a_affine: bool, b_affine: bool) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.normal(0, 1, shape).astype(np.float32) for shape in ((2, 4 + a_affine), (4, 3 + b_affine)))
    write("ark,scp:a.ark,a.scp", {"u": a})
    write("ark,scp:b.ark,b.scp", {"u": b})
    files = [Path(name).read_text().split()[1] for name in ("a.scp", "b.scp")]
    words = ["compose-transforms", f"--b-is-affine={str(b_affine).lower()}"]
    run(*words, *files, "out")
    run(*words, "ark:a.ark", "ark:b.ark", "ark:both")
    run(*words, files[0], "ark:b.ark", "ark:second")
    run(*words, "ark:a.ark", files[1], "ark:first")
    composed = read_matrix_file("out")
    for name in ("both", "first", "second"):
        np.testing.assert_array_equal(read(name)["u"], composed)
    x = rng.normal(0, 1, 3)
    np.testing.assert_allclose(apply(composed, x), apply(a, apply(b, x)), rtol=1e-4, atol=FLOAT)


def test_transforms_of_utterances_and_speakers(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    square = np.eye(2, dtype=np.float32)
    write("ark:a.ark", {"u1": square, "u2": 2 * square, "u3": np.ones((2, 5), np.float32)})
    write("ark:b.ark", {"s": 3 * square})
    Path("utt2spk").write_text("u1 s\nu2 t\nu3 s\n")
    run("compose-transforms", "--utt2spk=ark:utt2spk", "ark:a.ark", "ark:b.ark", "ark:out")
    assert list(read("out")) == ["u1"]
    said = capfd.readouterr().err
    assert "No transform of the second table for key u2" in said and "Key u3: a transform of 2 x 5" in said
    for words, message in ((["--utt2spk=ark:utt2spk", "a", "ark:b.ark", "ark:new"], "two tables"),
                           (["ark:a.ark", "ark:b.ark", "new"], "Cannot mix archives"),
                           (["a", "b", "ark:new"], "Cannot mix archives")):
        run("compose-transforms", *words, status=255)
        assert message in capfd.readouterr().err


def test_extended_transforms(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(3)
    transforms = {"linear": rng.normal(0, 1, (2, 2)), "affine": rng.normal(0, 1, (2, 3))}
    write("ark:in.ark", {key: matrix.astype(np.float32) for key, matrix in transforms.items()})
    run("extend-transform-dim", "--new-dimension=4", "ark:in.ark", "ark:out")
    x = rng.normal(0, 1, 4)
    for key, matrix in read("out").items():
        assert matrix.shape == (4, 4 + (key == "affine"))
        np.testing.assert_allclose(apply(matrix, x), [*apply(transforms[key], x[:2]), *x[2:]], rtol=1e-4)
    Path("wide").write_text(" [\n 1 2 3 4 ]\n")
    for words, message in ((["--new-dimension=1", "ark:in.ark", "ark:new"], "invalid or not specified: 1 < 2"),
                           (["ark:in.ark", "ark:new"], "invalid or not specified: -1"),
                           (["--new-dimension=9", "wide", "new"], "expected a transform of 1 x 1 or 1 x 2")):
        run("extend-transform-dim", *words, status=255)
        assert message in capfd.readouterr().err
    assert not Path("new").exists()


# -- deltas and normalization ------------------------------------------------------------------------------------------


def test_shifted_deltas(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    write("ark:more.ark", {**feats, "d": np.zeros((0, 0), np.float32)})
    run("add-deltas-sdc", "--delta-window=2", "--block-shift=2", "--num-blocks=4", "--truncate=2", "ark:more.ark",
        "ark:out")
    assert list(read("out")) == ["a", "b", "c"] and "Empty feature matrix for key d" in capfd.readouterr().err
    for key, matrix in read("out").items():
        np.testing.assert_array_equal(matrix, add_shifted_deltas(feats[key][:, :2], 2, 2, 4))
    for words, message in ((["--truncate=4"], "Cannot truncate"), (["--num-blocks=0"], "found 3 and 0")):
        run("add-deltas-sdc", *words, "ark:feats.ark", "ark:new", status=255)
        assert message in capfd.readouterr().err and not Path("new").exists()
    run("add-deltas-sdc", "ark:/dev/null", "ark:out", status=1)


def test_sliding_normalization(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    run("apply-cmvn-sliding", "--cmn-window=20", "--center=true", "--norm-vars=true", "scp:feats.scp", "ark:out")
    for key, matrix in read("out").items():
        np.testing.assert_array_equal(matrix, normalize_sliding(feats[key], 20, 100, True, True))
    assert "sliding-window cepstral mean and variance normalization to 3 utterances, 0 had" in capfd.readouterr().err
    write("ark:bad.ark", {"a": np.full((2, 2), np.nan, np.float32)})
    run("apply-cmvn-sliding", "ark:bad.ark", "ark:new", status=255)
    assert "key a: the features have NaN or infinity" in capfd.readouterr().err and not Path("new").exists()


def test_statistics_of_calls(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    Path("reco2file").write_text("c call B\na call A\nb alone A\nz lost A\n")
    run("compute-cmvn-stats-two-channel", "--quieter-channel-weight=0.25", "reco2file", "scp:feats.scp", "ark:out")
    stats = read("out", DOUBLE_MATRIX)
    assert set(stats) == {"a", "b", "c"}
    for key, other in (("a", "c"), ("c", "a"), ("b", None)):
        expected = np.zeros((2, DIM + 1))
        for t, frame in enumerate(feats[key].astype(np.float64)):
            quieter = other is not None and t < LENGTHS[other] and frame[0] < feats[other][t, 0]
            weight = 0.25 if quieter else 1.0
            expected += weight * np.array([[*frame, 1.0], [*frame ** 2, 0.0]])
        np.testing.assert_allclose(stats[key], expected, rtol=1e-9)
    said = capfd.readouterr().err
    assert "Number of frames differs between the sides a and c: 60 vs. 30" in said
    assert "Did not find features of z" in said and "CMVN stats for 3 utterances; 1 had errors." in said


@pytest.mark.parametrize("text, message", [
    ("a call\n", "line 1 has 2 words"), ("a call A\nb call A\n", "line 2: expected each utterance once"),
    ("a call A\nb call B\nc call C\n", "line 3"), ("a call A\na other A\n", "line 2")])
def test_lists_of_calls_that_cannot_be(feats: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str], text: str,
                                       message: str) -> None:
    Path("reco2file").write_text(text)
    run("compute-cmvn-stats-two-channel", "reco2file", "scp:feats.scp", "ark:new", status=255)
    assert message in capfd.readouterr().err and not Path("new").exists()
