"""Commands on examples, and on their outputs."""
from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from io_samples import read_table
from paths import DATA
from runtime_cases import TDNN, TDNN_CONTEXT, assert_close, class_example, dense_example, plain

import nnet3py
from nnet3py.cli.egs.copy import copy_egs
from nnet3py.cli.egs.get import get_egs, get_egs_dense_targets, get_egs_simple
from nnet3py.cli.egs.outputs import acc_lda_stats, compute_from_egs
from nnet3py.cli.egs.rearrange import merge_egs, shuffle_egs, subset_egs
from nnet3py.egs.example import EXAMPLE, NnetExample, read_egs
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import to_dense
from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR, read_matrices
from nnet3py.formats.lda_stats import LdaStats
from nnet3py.formats.posteriors import posterior_of_alignment
from nnet3py.io.object_files import read_object
from nnet3py.io.tables import TableWriter, write_table
from nnet3py.network.nnet import Nnet

ARCHIVE = DATA / "egs" / "compressed.ark"
EGS = f"ark:{ARCHIVE}"
KEYS = [key for key, _ in read_egs(EGS)]


def keys(path):
    return [key for key, _ in read_egs(f"ark:{path}")]


@pytest.fixture
def out(here):
    return here / "out"


def test_copy_is_exact(out, capfd):
    assert copy_egs.execute([EGS, "ark:out"]) == 0
    assert out.read_bytes() == ARCHIVE.read_bytes()
    assert "Read 20 neural-network training examples, wrote 20, 0 examples had errors." in capfd.readouterr().err


def test_copy_distributes(out, tmp_path):
    assert copy_egs.execute([EGS, "ark:a", "ark:b", "ark:c"]) == 0
    assert keys(tmp_path / "b") == KEYS[1::3]
    assert copy_egs.execute(["--random=true", "--srand=3", EGS, "ark:a", "ark:b"]) == 0
    first, second = keys(tmp_path / "a"), keys(tmp_path / "b")
    assert sorted(first + second) == sorted(KEYS) and first != KEYS[::2]
    assert copy_egs.execute(["--keep-proportion=2", EGS, "ark:a"]) == 0
    assert keys(tmp_path / "a") == [key for key in KEYS for _ in range(2)]


def test_copy_with_weights_and_names(out, tmp_path, capfd):
    (tmp_path / "w").write_text("".join(f"{key} 0.5 \n" for key in KEYS[1:]))
    (tmp_path / "n").write_text("".join(f"{key} output-2\n" for key in KEYS))
    assert copy_egs.execute(["--weights=ark:w", "--outputs=ark:n", EGS, "ark:out"]) == 0
    found = list(read_egs("ark:out"))
    assert [key for key, _ in found] == KEYS[1:] and found[3][1].io[1].name == "output-2"
    assert "wrote 19, 1 examples had errors." in capfd.readouterr().err
    assert np.all(found[3][1].io[1].features.values <= 0.5)


def test_copy_selects_nothing(out):
    assert copy_egs.execute(["--frame=99", EGS, "ark:out"]) == 1
    assert copy_egs.execute(["--frame=x", EGS, "ark:out"]) == 255


def test_merge(out, capfd):
    assert merge_egs.execute(["--minibatch-size=8", EGS, "ark:out"]) == 0
    assert keys(out) == ["merged-0-8", "merged-1-8"]
    err = capfd.readouterr().err
    assert "15={8->2,d=4}" in err and re.search(r"^LOG \(nnet3-merge-egs\[.*Processed 20 egs", err, re.MULTILINE)
    assert merge_egs.execute(["--minibatch-size=64", EGS, "ark:out"]) == 1
    assert merge_egs.execute(["--minibatch-size=64-128", EGS, "ark:out"]) == 255


def test_shuffle(out, capfd):
    assert shuffle_egs.execute(["--srand=1", EGS, "ark:out"]) == 0
    assert sorted(keys(out)) == sorted(KEYS) != keys(out)
    assert shuffle_egs.execute(["--buffer-size=5", EGS, "ark,t:out"]) == 0
    assert sorted(keys(out)) == sorted(KEYS)
    assert "training examples using a buffer (partial randomization)" in capfd.readouterr().err
    (out.parent / "empty").write_bytes(b"")
    assert shuffle_egs.execute(["ark:empty", "ark:out"]) == 1


def test_subset(out):
    assert subset_egs.execute(["--n=5", EGS, "ark:out"]) == 0
    assert len(keys(out)) == 5 and set(keys(out)) < set(KEYS)
    assert subset_egs.execute(["--n=0", EGS, "ark:out"]) == 0
    assert out.read_bytes() == b""


def write_utterances(folder, posteriors=3):
    rng = np.random.default_rng(0)
    with (TableWriter(f"ark:{folder}/feats", FLOAT_MATRIX) as feats,
          TableWriter(f"ark:{folder}/post", POSTERIOR) as post):
        for i, frames in enumerate((30, 41, 5)):
            feats.write(f"u{i}", rng.standard_normal((frames, 4)).astype(np.float32))
            if i < posteriors:
                post.write(f"u{i}", posterior_of_alignment(rng.integers(0, 9, frames)))


def test_get(out, tmp_path, capfd):
    write_utterances(tmp_path)
    assert get_egs.execute(["--num-pdfs=9", "--num-frames=8", "--left-context=1", "ark:feats", "ark:post",
                            "ark:out"]) == 0
    err = capfd.readouterr().err
    assert "Not producing egs for utterance u2 because it is too short: 5 frames." in err
    assert "Split 3 utts, with total length 76 frames" in err
    assert [key.split("-")[0] for key in keys(out)] == ["u0"] * 4 + ["u1"] * 5
    write_utterances(tmp_path, posteriors=1)
    assert get_egs.execute(["--num-pdfs=9", "--num-frames=8", "ark:feats", "ark:post", "ark:out"]) == 0
    err = capfd.readouterr().err
    assert "No pdf-level posterior for key u1" in err and "2 utterances had errors" in err
    assert get_egs.execute(["--num-pdfs=9", "--num-frames=90", "ark:feats", "ark:post", "ark:out"]) == 1
    assert get_egs.execute(["ark:feats", "ark:post", "ark:out"]) == 255
    assert get_egs.execute(["--num-pdfs=4", "--num-frames=8", "ark:feats", "ark:post", "ark:none"]) == 255
    assert not (tmp_path / "none").exists()


def test_get_with_ivectors(out, tmp_path):
    write_utterances(tmp_path)
    write_table("ark:iv", FLOAT_MATRIX, {
        key: np.full((rows, 2), rows, dtype=np.float32) for key, rows in (("u0", 3), ("u1", 1))})
    assert get_egs.execute(["--num-pdfs=9", "--num-frames=8", "--online-ivectors=ark:iv", "--online-ivector-period=10",
                            "--length-tolerance=10", "ark:feats", "ark:post", "ark:out"]) == 0
    found = list(read_egs("ark:out"))
    assert {key.split("-")[0] for key, _ in found} == {"u0"}
    assert [io.name for io in found[0][1].io] == ["input", "ivector", "output"]


def test_a_truncated_archive_is_an_error(out, tmp_path, capfd):
    (tmp_path / "bad").write_bytes(ARCHIVE.read_bytes()[:-7])
    for command in (copy_egs, merge_egs, shuffle_egs, subset_egs):
        assert command.execute(["ark:bad", "ark:out"]) == 255
    assert KEYS[-1] in capfd.readouterr().err and not out.exists()


def test_moving_examples_imports_little():
    code = ("import sys\nfrom nnet3py.cli.egs.copy import copy_egs\n"
            f"assert copy_egs.execute([{EGS!r}, 'ark:/dev/null']) == 0\n"
            "assert not {'numba', 'scipy', 'kaldi_io'} & set(sys.modules), sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def write_targets(folder, dims=3):
    rng = np.random.default_rng(1)
    write_table(f"ark:{folder}/targets", FLOAT_MATRIX, {
        f"u{i}": rng.standard_normal((frames, dims)).astype(np.float32) for i, frames in enumerate((30, 41, 5))})


def test_get_dense_targets(out, tmp_path, capfd):
    write_utterances(tmp_path)
    write_targets(tmp_path)
    assert get_egs_dense_targets.execute(["--num-targets=3", "--num-frames=10", "--compress=false", "ark:feats",
                                          "ark:targets", "ark:out"]) == 0
    err = capfd.readouterr().err
    assert "1 utterances had errors and could not be processed." in err      # too short
    assert "Split 3 utts, with total length 76 frames" in err and "nnet3-get-egs-dense-targets.cc" in err
    found = dict(read_egs("ark:out"))
    assert list(found)[:3] == ["u0-0", "u0-10", "u0-20"] and len(found) == 7
    targets = read_table("ark:targets", FLOAT_MATRIX)
    assert np.array_equal(found["u0-10"].io[1].features, targets["u0"][10:20])
    assert get_egs_dense_targets.execute(["--num-frames=10", "ark:feats", "ark:targets", "ark:out"]) == 0
    assert isinstance(next(read_egs("ark:out"))[1].io[1].features, CompressedMatrix)


def test_get_dense_targets_that_do_not_fit(out, tmp_path, capfd):
    write_utterances(tmp_path)
    write_targets(tmp_path)
    assert get_egs_dense_targets.execute(["--num-targets=2", "ark:feats", "ark:targets", "ark:none"]) == 255
    assert "utterance u0: found 3 targets, expected --num-targets=2" in capfd.readouterr().err
    write_table("ark:targets", FLOAT_MATRIX, {
        "u0": np.zeros((27, 3), dtype=np.float32), "u1": np.full((41, 3), np.nan, dtype=np.float32)})
    assert get_egs_dense_targets.execute(["ark:feats", "ark:targets", "ark:out"]) == 1
    err = capfd.readouterr().err
    assert "expected length = 30, got 27" in err and "No target matrix for key u2" in err
    assert "Skipping utterance u1: the target matrix" in err and "3 utterances had errors" in err


def test_get_simple(out, tmp_path, capfd):
    write_utterances(tmp_path)
    write_table("ark:labels", FLOAT_MATRIX, {key: np.ones((1, 2), dtype=np.float32) for key in ("u0", "u2")})
    assert get_egs_simple.execute(["input=ark:feats", "output=ark:labels", "ark:out"]) == 0
    assert "Could not find input for key u1 for io-name=output" in capfd.readouterr().err
    found = dict(read_egs("ark:out"))
    assert list(found) == ["u0", "u2"] and [io.name for io in found["u0"].io] == ["input", "output"]
    assert found["u2"].io[0].indexes.tolist() == [[0, t, 0] for t in range(5)]
    assert get_egs_simple.execute(["input=ark:feats", "output=ark:none", "ark:none2"]) == 255


@pytest.mark.parametrize("source", ["ark:feats", "=ark:feats", "in put=ark:feats", "input=feats", "input="])
def test_get_simple_wants_names_and_tables(out, tmp_path, capfd, source):
    write_utterances(tmp_path)
    assert get_egs_simple.execute([source, "ark:out"]) == 255
    assert "Expected name=rspecifier" in capfd.readouterr().err and not out.exists()


TRAINING_MODE = """
input-node name=input dim=3
component name=n type=BatchNormComponent dim=3
component name=d type=DropoutComponent dim=3 dropout-proportion=0.5
component-node name=n component=n input=input
component-node name=d component=d input=n
output-node name=output input=d
output-node name=other input=Scale(2.0, n)
"""
SEQUENCES, FRAMES = 3, 4


def write(path: str, examples: list[NnetExample]) -> None:
    write_table(f"ark:{path}", EXAMPLE, {f"e{i}": eg for i, eg in enumerate(examples)})


def examples() -> list[NnetExample]:
    left, right = TDNN_CONTEXT
    return [class_example(SEQUENCES, FRAMES, seed=seed, left=left, right=right) for seed in range(3)]


def outputs(nnet: Nnet, eg: NnetExample) -> np.ndarray:
    """What ``nnet3-compute`` gives for each sequence, as rows of the example."""
    left = TDNN_CONTEXT[0]
    feats = to_dense(eg.io[0].features).reshape(-1, SEQUENCES, 3)
    whole = [nnet3py.compute(nnet, feats[:, n])[left:left + FRAMES] for n in range(SEQUENCES)]
    return np.stack(whole, axis=1).reshape(SEQUENCES * FRAMES, -1)


@pytest.fixture
def folder(here):
    """The current folder, with n.raw, t.raw (in training mode), egs and an empty table."""
    Nnet.from_config(TDNN).write("n.raw")
    Nnet.from_config(TRAINING_MODE).write("t.raw")
    write("egs", examples())
    write("empty", [])
    return here


def test_outputs(folder, capfd):
    assert compute_from_egs.execute(["n.raw", "ark:egs", "ark:out"]) == 0
    assert compute_from_egs.execute(["--apply-exp=true", "n.raw", "ark:egs", "ark:exp"]) == 0
    found, exponentials = dict(read_matrices("ark:out")), dict(read_matrices("ark:exp"))
    assert list(found) == ["e0", "e1", "e2"]
    for key, eg in zip(found, examples(), strict=True):
        assert_close(found[key], outputs(Nnet.from_config(TDNN), eg))
        assert_close(exponentials[key], np.exp(found[key]))
    assert ") Processed 3 examples.\n" in capfd.readouterr().err


def test_components_are_in_training_mode(folder):
    """Batch normalization sees the example, and dropout drops."""
    eg = dense_example(10, 20, out_dim=3)
    both = NnetExample([*eg.io, type(eg.io[1])("other", eg.io[1].indexes, eg.io[1].features)])
    write("both", [both])
    assert compute_from_egs.execute(["--output-name=other", "t.raw", "ark:both", "ark:out"]) == 0
    x = to_dense(eg.io[0].features)
    normal = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-3)
    assert_close(dict(read_matrices("ark:out"))["e0"], 2.0 * normal, 1e-4)
    assert compute_from_egs.execute(["t.raw", "ark:both", "ark:out"]) == 0
    dropped = dict(read_matrices("ark:out"))["e0"]
    is_zero = dropped == 0
    assert 0.4 < is_zero.mean() < 0.6
    assert_close(dropped[~is_zero], normal[~is_zero], 1e-4)


def test_no_examples_are_no_error(folder, capfd):
    assert compute_from_egs.execute(["n.raw", "ark:empty", "ark:out"]) == 0
    assert (folder / "out").read_bytes() == b"" and ") Processed 0 examples.\n" in capfd.readouterr().err


@pytest.mark.parametrize(("words", "message"), [
    (["--output-name=other", "n.raw", "ark:egs", "ark:out"], "example e0: the example does not supervise an output"),
    (["n.raw", "ark:missing", "ark:out"], "missing"), (["missing", "ark:egs", "ark:out"], "missing")])
def test_errors(folder, capfd, words, message):
    assert compute_from_egs.execute(words) == 255
    assert message in capfd.readouterr().err and not (folder / "out").exists()


@pytest.mark.parametrize("binary", ["true", "false"])
def test_lda_statistics(folder, capfd, binary):
    assert acc_lda_stats.execute([f"--binary={binary}", "n.raw", "ark:egs", "lda.acc"]) == 0
    stats = read_object("lda.acc", LdaStats.read)
    nnet = Nnet.from_config(TDNN)
    x = np.vstack([outputs(nnet, eg) for eg in examples()]).astype(np.float64)
    weights = np.vstack([to_dense(eg.io[1].features) for eg in examples()]).astype(np.float64)
    assert stats.num_classes == 4 and stats.dim == 4
    np.testing.assert_array_equal(stats.counts, weights.sum(axis=0))
    np.testing.assert_allclose(stats.sums, weights.T @ x, rtol=1e-4)
    means = (weights.T @ x) / stats.counts[:, None]
    centered = x - means[weights.argmax(axis=1)]
    np.testing.assert_allclose(stats.scatter, (centered.T @ centered)[np.tril_indices(4)], rtol=1e-3, atol=1e-4)
    err = capfd.readouterr().err
    assert ") Processed 3 examples.\n" in err
    assert ":WriteStats():" in err and f"Accumulated stats, soft frame count = {len(x)}.  Wrote to lda.acc\n" in err


def test_lda_statistics_with_pruning(folder):
    assert acc_lda_stats.execute(["--rand-prune=4", "n.raw", "ark:egs", "lda.acc"]) == 0
    counts = read_object("lda.acc", LdaStats.read).counts
    assert counts.sum() > 0 and not (counts % 4.0).any()


def test_lda_errors(folder, capfd):
    assert acc_lda_stats.execute(["n.raw", "ark:empty", "lda.acc"]) == 255
    assert "Accumulated no stats." in capfd.readouterr().err
    plain().write("p.raw")
    eg = dense_example()
    eg.io[1].name = "input-2"
    write("wrong", [eg])
    assert acc_lda_stats.execute(["p.raw", "ark:wrong", "lda.acc"]) == 255
    assert "example e0: the example has no output named 'output'" in capfd.readouterr().err
    assert not (folder / "lda.acc").exists()
