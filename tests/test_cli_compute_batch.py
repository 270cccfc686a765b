"""nnet3-compute-batch: the output of nnet3-compute, in the same order, whatever fails on the way."""
from __future__ import annotations

import re

import numpy as np
import pytest
from command_lines import write_table
from paths import DATA
from runtime_cases import TDNN, assert_close

from nnet3py.acoustic_model import read_model
from nnet3py.cli.nnet.compute import compute, compute_batch
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, read_matrices
from nnet3py.network.nnet import Nnet

WITH_IVECTOR = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=a type=AffineComponent input-dim=5 output-dim=4
component-node name=a component=a input=Append(input, ReplaceIndex(ivector, t, 0))
output-node name=output input=a
"""
MODEL = str(DATA / "network" / "am-priors.mdl")


def write(path: str, items: dict, holder=FLOAT_MATRIX) -> None:
    write_table(f"ark:{path}", holder, items)


def features(dim: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {f"u{i}": rng.standard_normal((n, dim), dtype=np.float32) for i, n in enumerate((23, 7, 60, 23, 131))}


@pytest.fixture
def folder(here):
    """The current folder, with n.raw, i.raw (with i-vectors) and feats."""
    Nnet.from_config(TDNN).write("n.raw")
    Nnet.from_config(WITH_IVECTOR).write("i.raw")
    write("feats", features())
    return here


def outputs(path: str = "out") -> dict[str, np.ndarray]:
    return dict(read_matrices(f"ark:{path}"))


@pytest.mark.parametrize("options", [
    [], ["--frames-per-chunk=10", "--minibatch-size=2"], ["--frame-subsampling-factor=3", "--apply-exp=true"],
    ["--acoustic-scale=0.5", "--extra-left-context-initial=2", "--edge-minibatch-size=1"],
    ["--ensure-exact-final-context=true", "--partial-minibatch-factor=0"]])
def test_output_of_nnet3_compute(folder, options):
    assert compute_batch.execute([*options, "n.raw", "ark:feats", "ark:out"]) == 0
    known = [word for word in options if not re.match("--(.*minibatch|ensure)", word)]
    assert compute.execute([*known, "n.raw", "ark:feats", "ark:expected"]) == 0
    found, expected = outputs(), outputs("expected")
    assert list(found) == list(expected) == list(features())
    for key, value in expected.items():
        assert_close(found[key], value)


def test_priors(folder):
    write("feats", features(read_model(MODEL).nnet.input_dim("input")))
    assert compute_batch.execute(["--use-priors=true", MODEL, "ark:feats", "ark:out"]) == 0
    assert compute.execute(["--use-priors=true", MODEL, "ark:feats", "ark:expected"]) == 0
    for key, value in outputs("expected").items():
        assert_close(outputs()[key], value)


def test_lines(folder, capfd):
    assert compute_batch.execute(["n.raw", "ark:feats", "ark:out"]) == 0
    err = capfd.readouterr().err
    assert re.search(r"^LOG \(nnet3-compute-batch\[5\.5\]:main\(\):\S+\) Time taken [0-9.e+-]+s$", err, re.MULTILINE)
    assert re.search(r"\) Done 5 utterances, failed for 0$", err, re.MULTILINE)


def test_utterances_that_fail(folder, capfd):
    feats = features()
    feats["u1"][3, 2] = np.inf
    feats["empty"] = np.zeros((0, 0), dtype=np.float32)
    write("feats", feats)
    write("iv", {key: np.ones(2, dtype=np.float32) for key in feats if key != "u3"}, FLOAT_VECTOR)
    words = ["--ivectors=ark:iv", "i.raw", "ark:feats"]
    assert compute_batch.execute([*words, "ark:out"]) == compute.execute([*words, "ark:expected"]) == 0
    err = capfd.readouterr().err
    assert list(outputs()) == list(outputs("expected")) == ["u0", "u2", "u4"]
    assert err.count(") Done 3 utterances, failed for 3\n") == err.count("Zero-length utterance: empty") == 2
    assert err.count("No iVector available for utterance u3") == 2 and "Skipping utterance u1: " in err


def test_online_ivectors(folder, capfd):
    write("iv", {key: np.tile(np.arange(len(feats) // 10 + 1, dtype=np.float32)[:, None], 2)
                 for key, feats in features().items() if key != "u1"})
    assert compute_batch.execute(["--online-ivectors=ark:iv", "--online-ivector-period=10", "--frames-per-chunk=10",
                                  "i.raw", "ark:feats", "ark:out"]) == 0
    assert list(outputs()) == ["u0", "u2", "u3", "u4"]
    assert "No online iVector available for utterance u1" in capfd.readouterr().err
    assert compute.execute(["--online-ivectors=ark:iv", "--online-ivector-period=10", "--frames-per-chunk=10",
                            "i.raw", "ark:feats", "ark:expected"]) == 0
    # Chunks of nnet3-compute take the row of their frame 4, those of the other of their frame 5: the same one here.
    assert_close(outputs()["u2"], outputs("expected")["u2"])


@pytest.mark.parametrize(("words", "status", "message"), [
    (["--minibatch-size=0", "n.raw", "ark:feats"], 255, "--minibatch-size=0 must be 1 or more"),
    (["--partial-minibatch-factor=2", "n.raw", "ark:feats"], 255, "--partial-minibatch-factor=2"),
    (["i.raw", "ark:feats"], 255, "utterance u0: Neural net expects 'ivector' features with dimension 2 but you"),
    (["--use-priors=true", "n.raw", "ark:feats"], 255, "found a raw network"),
    (["--ivectors=ark:feats", "--online-ivectors=ark:feats", "i.raw", "ark:feats"], 255, "cannot both be given"),
    (["n.raw", "ark:missing"], 255, "missing")])
def test_errors_leave_no_output(folder, capfd, words, status, message):
    assert compute_batch.execute([*words, "ark:out"]) == status
    assert message in capfd.readouterr().err and not (folder / "out").exists()


def test_nothing_done(folder):
    write("feats", {})
    assert compute_batch.execute(["n.raw", "ark:feats", "ark:out"]) == 1
