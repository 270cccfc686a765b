"""Mean and variance normalization: statistics, whole utterances, and frame by frame; against plain numpy."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from command_lines import run

from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.holders import DOUBLE_MATRIX, FLOAT_MATRIX, FLOAT_VECTOR, GENERAL_MATRIX, read_matrix_file
from nnet3py.io.tables import SequentialReader, write_table

FLOAT = 1e-5        # float32 features of size around 10, normalized in float32
DOUBLE = 1e-12
LENGTHS = {"a": 9, "b": 14, "c": 5}
SPEAKERS = {"s": ["a", "c"], "t": ["b"]}
DIM = 3


@pytest.fixture
def feats(here: Path) -> dict[str, np.ndarray]:
    """Features in feats.ark, and the maps of speakers."""
    rng = np.random.default_rng(0)
    matrices = {key: (rng.standard_normal((length, DIM)) * [1, 4, 0.1] + [5, -3, 0]).astype(np.float32)
                for key, length in LENGTHS.items()}
    write("feats.ark", matrices)
    Path("spk2utt").write_text("".join(f"{speaker} {' '.join(keys)}\n" for speaker, keys in SPEAKERS.items()))
    Path("utt2spk").write_text("".join(f"{key} {speaker}\n" for speaker, keys in SPEAKERS.items() for key in keys))
    return matrices


def write(name: str, matrices: dict[str, np.ndarray]) -> None:
    write_table(f"ark:{name}", FLOAT_MATRIX, matrices)


def read(name: str, holder: object = FLOAT_MATRIX) -> dict[str, np.ndarray]:
    return dict(SequentialReader(f"ark:{name}", holder))    # type: ignore[arg-type]


def stats_of(frames: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    x = frames.astype(np.float64)
    w = np.ones(len(x)) if weights is None else weights.astype(np.float64)
    return np.vstack([np.append(w @ x, w.sum()), np.append(w @ x ** 2, 0.0)])


def test_statistics_of_utterances_are_double(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    run("compute-cmvn-stats", "ark:feats.ark", "ark:stats")
    assert Path("stats").read_bytes().startswith(b"a \0BDM ")
    for key, found in read("stats", DOUBLE_MATRIX).items():
        np.testing.assert_allclose(found, stats_of(feats[key]), rtol=DOUBLE)
    assert "Done accumulating CMVN stats for 3 utterances; 0 had errors." in capsys.readouterr().err


def test_statistics_of_speakers(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    Path("spk2utt").write_text("s a missing c\nt b\nu nobody\n")
    run("compute-cmvn-stats", "--spk2utt=ark:spk2utt", "ark:feats.ark", "ark:stats")
    found = read("stats", DOUBLE_MATRIX)
    assert list(found) == ["s", "t"]
    np.testing.assert_allclose(found["s"], stats_of(np.vstack([feats["a"], feats["c"]])), rtol=DOUBLE)
    err = capsys.readouterr().err
    assert "Did not find features for utterance missing" in err and "No stats accumulated for speaker u" in err
    assert "for 3 utterances; 2 had errors." in err


def test_statistics_of_everything_are_float(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    run("compute-cmvn-stats", "ark:feats.ark", "stats")
    assert Path("stats").read_bytes().startswith(b"\0BFM ")
    expected = stats_of(np.vstack(list(feats.values()))).astype(np.float32)
    np.testing.assert_array_equal(read_matrix_file("stats"), expected)
    assert "Wrote global CMVN stats to stats" in capsys.readouterr().err
    run("compute-cmvn-stats", "--binary=false", "ark:feats.ark", "stats")
    np.testing.assert_allclose(read_matrix_file("stats"), expected, rtol=FLOAT)


def test_weights(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    weights = {"a": np.linspace(0, 1, 9, dtype="f"), "b": np.ones(3, dtype="f")}
    write_table("ark:weights", FLOAT_VECTOR, weights)
    run("compute-cmvn-stats", "--weights=ark:weights", "ark:feats.ark", "ark:stats")
    found = read("stats", DOUBLE_MATRIX)
    assert list(found) == ["a"]
    np.testing.assert_allclose(found["a"], stats_of(feats["a"], weights["a"]), rtol=DOUBLE)
    err = capsys.readouterr().err
    assert "Weights for utterance b have wrong dimension 3 vs. 14" in err
    assert "No weights available for utterance c" in err and "for 1 utterances; 2 had errors." in err


def normalized(frames: np.ndarray, of: np.ndarray, norm_vars: bool) -> np.ndarray:
    x, y = frames.astype(np.float64), of.astype(np.float64)
    return (x - y.mean(axis=0)) / (y.std(axis=0) if norm_vars else 1.0)


@pytest.mark.parametrize("norm_vars", [False, True])
def test_apply(feats: dict[str, np.ndarray], norm_vars: bool, capsys: pytest.CaptureFixture[str]) -> None:
    run("compute-cmvn-stats", "ark:feats.ark", "ark:stats")
    run("apply-cmvn", f"--norm-vars={norm_vars}", "ark:stats", "ark:feats.ark", "ark:out")
    for key, found in read("out").items():
        np.testing.assert_allclose(found, normalized(feats[key], feats[key], norm_vars), rtol=FLOAT, atol=FLOAT)
    what = "mean and variance" if norm_vars else "mean"
    assert f"Applied cepstral {what} normalization to 3 utterances, errors on 0" in capsys.readouterr().err
    run("apply-cmvn", f"--norm-vars={norm_vars}", "--reverse", "ark:stats", "ark:out", "ark:back")
    for key, found in read("back").items():
        np.testing.assert_allclose(found, feats[key], rtol=FLOAT, atol=FLOAT)


def test_apply_by_speaker(feats: dict[str, np.ndarray]) -> None:
    run("compute-cmvn-stats", "--spk2utt=ark:spk2utt", "ark:feats.ark", "ark:stats")
    run("apply-cmvn", "--utt2spk=ark:utt2spk", "--norm-vars", "ark:stats", "ark:feats.ark", "ark:out")
    found, both = read("out"), np.vstack([feats["a"], feats["c"]])
    for key in ("a", "c"):
        np.testing.assert_allclose(found[key], normalized(feats[key], both, True), rtol=FLOAT, atol=FLOAT)


def test_apply_global_statistics_from_a_pipe(feats: dict[str, np.ndarray]) -> None:
    run("compute-cmvn-stats", "--binary=false", "ark:feats.ark", "stats")
    run("apply-cmvn", "cat stats |", "ark:feats.ark", "ark:out")
    for key, found in read("out").items():
        expected = normalized(feats[key], np.vstack(list(feats.values())), False)
        np.testing.assert_allclose(found, expected, rtol=FLOAT, atol=FLOAT)


def test_skipped_dimensions_stay(feats: dict[str, np.ndarray]) -> None:
    run("compute-cmvn-stats", "ark:feats.ark", "ark:stats")
    run("apply-cmvn", "--skip-dims=2:0", "--norm-vars", "ark:stats", "ark:feats.ark", "ark:out")
    for key, found in read("out").items():
        np.testing.assert_array_equal(found[:, [0, 2]], feats[key][:, [0, 2]])
        expected = normalized(feats[key], feats[key], True)[:, 1]
        np.testing.assert_allclose(found[:, 1], expected, rtol=FLOAT, atol=FLOAT)
    run("modify-cmvn-stats", "2:0", "ark:stats", "ark:modified")
    run("apply-cmvn", "--norm-vars", "ark:modified", "ark:feats.ark", "ark:same")
    assert Path("same").read_bytes() == Path("out").read_bytes()


def test_modified_statistics(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    run("compute-cmvn-stats", "ark:feats.ark", "ark:stats")
    run("modify-cmvn-stats", "--convert-to-mean-and-var", "ark:stats", "ark:out")
    for key, found in read("out", DOUBLE_MATRIX).items():
        x = feats[key].astype(np.float64)
        np.testing.assert_allclose(found, [x.mean(axis=0), x.var(axis=0)], rtol=1e-9)   # a difference of squares
    run("modify-cmvn-stats", "ark:stats", "ark:copy")
    assert Path("copy").read_bytes() == Path("stats").read_bytes()
    assert "Modified 3 sets of stats." in capsys.readouterr().err
    run("modify-cmvn-stats", "ark:/dev/null", "ark:out", status=1)


def test_a_constant_feature_is_floored(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    constant = np.ones((4, 1), dtype="f")
    write("constant", {"x": constant})
    run("compute-cmvn-stats", "ark:constant", "ark:stats")
    run("apply-cmvn", "--norm-vars", "ark:stats", "ark:constant", "ark:out")
    np.testing.assert_array_equal(read("out")["x"], constant * 0)
    assert "Flooring cepstral variance from 0 to 1e-20" in capsys.readouterr().err


def test_without_means_features_are_copied_as_they_are(feats: dict[str, np.ndarray],
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    write_table("ark:compressed", GENERAL_MATRIX, {
        key: CompressedMatrix.compress(matrix) for key, matrix in feats.items()})
    run("apply-cmvn", "--norm-means=false", "ark:is-not-read", "ark:compressed", "ark:out")
    assert Path("out").read_bytes() == Path("compressed").read_bytes()
    assert "Copied 3 utterances." in capsys.readouterr().err


def test_utterances_without_statistics_are_dropped(feats: dict[str, np.ndarray],
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    run("compute-cmvn-stats", "ark:feats.ark", "ark:stats")
    run("subset-feats", "--n=1", "ark:stats", "ark:one")
    run("apply-cmvn", "ark:one", "ark:feats.ark", "ark:out")
    assert list(read("out")) == ["a"]
    err = capsys.readouterr().err
    assert "No normalization statistics available for key b, producing no output for this utterance" in err
    assert "to 1 utterances, errors on 2" in err
    run("apply-cmvn", "ark:/dev/null", "ark:feats.ark", "ark:out", status=1)


@pytest.mark.parametrize(("name", "words", "message"), [
    ("apply-cmvn", ["--norm-vars", "--norm-means=false", "stats"], "normalize the variance but not the mean"),
    ("apply-cmvn", ["--skip-dims=1:x", "stats"], "whole numbers with colons"),
    ("apply-cmvn", ["--skip-dims=3", "stats"], "key a: expected dimensions to skip from 0 to 2"),
    ("apply-cmvn", ["--utt2spk=ark:utt2spk", "stats"], "not compatible with rxfilename"),
    ("apply-cmvn", ["echo '[ 0 0 0 0.5; 1 1 1 0 ]' |"], "key a: Insufficient stats .*count = 0.5"),
    ("apply-cmvn", ["--norm-vars", "echo '[ nan 0 0 5; 1 1 1 0 ]' |"], "NaN or infinity"),
    ("apply-cmvn", ["echo '[ 0 0 5; 1 1 0 ]' |"], "key a: normalization statistics of 2 x 3"),
    ("apply-cmvn-online", ["--cmn-window=100", "stats"], "global-frames <= speaker-frames <= cmn-window"),
    ("apply-cmvn-online", ["--norm-vars", "--norm-means=false", "stats"], "the variance but not the mean"),
    ("apply-cmvn-online", ["--skip-dims=3", "stats"], "expected dimensions to skip from 0 to 2"),
    ("apply-cmvn-online", ["echo '[ 0 0 0 0; 1 1 1 0 ]' |"], "global normalization statistics of some frames, found 0"),
    ("apply-cmvn-online", ["echo '[ 0 0 5; 1 1 0 ]' |"], "utterance a: expected features of dimension 2"),
])
def test_refused(feats: dict[str, np.ndarray], name: str, words: list[str], message: str,
                 capsys: pytest.CaptureFixture[str]) -> None:
    run("compute-cmvn-stats", "ark:feats.ark", "stats")
    run(name, *words, "ark:feats.ark", "ark:out", status=255)
    err = capsys.readouterr().err
    assert re.search(message, err), err
    assert not Path("out").exists()


def test_speakers_need_a_table(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    run("compute-cmvn-stats", "--spk2utt=ark:spk2utt", "ark:feats.ark", "stats", status=255)
    assert "not compatible with wxfilename" in capsys.readouterr().err


# -- online ----------------------------------------------------------------------------------------------------------


def slow_online(frames: np.ndarray, speaker: np.ndarray, world: np.ndarray, window: int, most_speaker: int,
                most_world: int, norm_vars: bool) -> np.ndarray:
    """Frame by frame, as the fact sheet says it."""
    result = []
    for t in range(len(frames)):
        stats = stats_of(frames[max(0, t + 1 - window):t + 1])
        for source, most in ((speaker, min(most_speaker, speaker[0, -1])), (world, most_world)):
            taken = min(window - stats[0, -1], most)
            if taken > 0:
                stats += source * taken / source[0, -1]
        mean = stats[0, :-1] / stats[0, -1]
        deviation = np.sqrt(stats[1, :-1] / stats[0, -1] - mean ** 2) if norm_vars else 1.0
        result.append((frames[t] - mean) / deviation)
    return np.array(result)


@pytest.mark.parametrize("norm_vars", [False, True])
@pytest.mark.parametrize(("window", "most_speaker", "most_world"), [(600, 600, 200), (6, 4, 2), (6, 6, 6), (20, 3, 0)])
def test_online(feats: dict[str, np.ndarray], window: int, most_speaker: int, most_world: int, norm_vars: bool,
                capsys: pytest.CaptureFixture[str]) -> None:
    if norm_vars and most_world == 0:
        return      # a variance of one frame
    run("compute-cmvn-stats", "ark:feats.ark", "stats")
    world = read_matrix_file("stats", np.float64)
    words = [f"--cmn-window={window}", f"--speaker-frames={most_speaker}", f"--global-frames={most_world}",
             f"--norm-vars={norm_vars}"]
    settings = world, window, most_speaker, most_world, norm_vars
    nothing = np.zeros((2, DIM + 1))
    run("apply-cmvn-online", *words, "stats", "ark:feats.ark", "ark:out")
    for key, found in read("out").items():
        np.testing.assert_allclose(found, slow_online(feats[key], nothing, *settings), rtol=FLOAT, atol=FLOAT)
    run("apply-cmvn-online", *words, "--spk2utt=ark:spk2utt", "stats", "ark:feats.ark", "ark:out")
    found = read("out")
    assert list(found) == ["a", "c", "b"]
    for key, before in (("a", nothing), ("c", stats_of(feats["a"])), ("b", nothing)):
        np.testing.assert_allclose(found[key], slow_online(feats[key], before, *settings), rtol=FLOAT, atol=FLOAT)
    assert capsys.readouterr().err.count("Applied online CMVN to 3 files, or 28 frames.") == 2


def test_online_without_some_dimensions_or_means(feats: dict[str, np.ndarray]) -> None:
    run("compute-cmvn-stats", "ark:feats.ark", "stats")
    run("apply-cmvn-online", "--skip-dims=1", "stats", "ark:feats.ark", "ark:out")
    run("apply-cmvn-online", "stats", "ark:feats.ark", "ark:all")
    for key, found in read("out").items():
        np.testing.assert_array_equal(found[:, 1], feats[key][:, 1])
        np.testing.assert_array_equal(found[:, [0, 2]], read("all")[key][:, [0, 2]])
    run("apply-cmvn-online", "--norm-means=false", "stats", "ark:feats.ark", "ark:out")
    assert Path("out").read_bytes() == Path("feats.ark").read_bytes()


def test_online_with_missing_utterances(feats: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    run("compute-cmvn-stats", "ark:feats.ark", "stats")
    run("apply-cmvn-online", "--spk2utt=ark:echo s a x |", "stats", "ark:feats.ark", "ark:out")
    assert list(read("out")) == ["a"] and "No features for utterance x" in capsys.readouterr().err
    run("apply-cmvn-online", "stats", "ark:/dev/null", "ark:out", status=1)
