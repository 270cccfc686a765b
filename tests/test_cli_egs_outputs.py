"""nnet3-compute-from-egs and nnet3-acc-lda-stats."""
from __future__ import annotations

import numpy as np
import pytest
from command_lines import write_table
from runtime_cases import TDNN, TDNN_CONTEXT, assert_close, class_example, dense_example, plain

import nnet3py
from nnet3py.cli.egs.outputs import acc_lda_stats, compute_from_egs
from nnet3py.egs.example import EXAMPLE, NnetExample
from nnet3py.formats.general import to_dense
from nnet3py.formats.holders import read_matrices
from nnet3py.formats.lda_stats import LdaStats
from nnet3py.io.object_files import read_object
from nnet3py.network.nnet import Nnet

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
    assert acc_lda_stats.execute(["--rand-prune=-1", "n.raw", "ark:egs", "lda.acc"]) == 255
    assert "--rand-prune=-1" in capfd.readouterr().err and not (folder / "lda.acc").exists()
