"""nnet3-compute: outputs of utterances, i-vectors, priors, and what happens when something fails on the way."""
from __future__ import annotations

import re

import numpy as np
import pytest
from command_lines import write_table
from paths import DATA, shared_golden
from runtime_cases import TDNN, assert_close, parameters

import nnet3py
from nnet3py.acoustic_model import read_model
from nnet3py.cli.nnet.compute import compute
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, read_matrices
from nnet3py.network.nnet import Nnet

KALDI_OUTPUT = 2e-4       # of the largest value: float32 sums in another order than Kaldi's

WITH_IVECTOR = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=a type=AffineComponent input-dim=5 output-dim=4
component-node name=a component=a input=Append(input, ReplaceIndex(ivector, t, 0))
output-node name=output input=a
"""


def features(frames: int, seed: int = 0, dim: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((frames, dim), dtype=np.float32)


FEATS = {"u1": features(23), "u2": features(7, 1), "u3": features(60, 2)}


def write(path: str, matrices: dict[str, np.ndarray]) -> None:
    write_table(f"ark:{path}", FLOAT_MATRIX, matrices)


@pytest.fixture
def folder(here):
    """The current folder, with n.raw, i.raw (with i-vectors) and feats.ark."""
    Nnet.from_config(TDNN).write("n.raw")
    Nnet.from_config(WITH_IVECTOR).write("i.raw")
    write("feats.ark", FEATS)
    return here


def read(path: str = "out.ark") -> dict[str, np.ndarray]:
    return dict(read_matrices(f"ark:{path}"))


@pytest.mark.parametrize("chunk", [7, 50])
def test_outputs_and_log(folder, capfd, chunk):
    assert compute.execute([f"--frames-per-chunk={chunk}", "n.raw", "ark:feats.ark", "ark:out.ark"]) == 0
    found, nnet = read(), Nnet.from_config(TDNN)
    assert list(found) == list(FEATS)
    for key, feats in FEATS.items():
        assert_close(found[key], nnet3py.compute(nnet, feats))
    err = capfd.readouterr().err
    assert re.search(r"LOG \(nnet3-compute\[\S+\]:\S+\) Time taken \S+s: real-time factor assuming 100 frames/sec is "
                     r"\S+$", err, re.MULTILINE)
    assert re.search(r"\) Done 3 utterances, failed for 0$", err, re.MULTILINE)


def test_options_change_the_output(folder):
    assert compute.execute(["--apply-exp=true", "n.raw", "ark:feats.ark", "ark:exp.ark"]) == 0
    assert compute.execute(["--acoustic-scale=0.5", "n.raw", "ark:feats.ark", "ark:half.ark"]) == 0
    assert compute.execute(["--frame-subsampling-factor=3", "n.raw", "ark:feats.ark", "ark:third.ark"]) == 0
    assert compute.execute(["n.raw", "ark:feats.ark", "ark:out.ark"]) == 0
    for key, whole in read().items():
        np.testing.assert_allclose(read("exp.ark")[key].sum(axis=1), 1.0, atol=1e-5)     # of a log-softmax
        assert_close(read("exp.ark")[key], np.exp(whole))
        assert_close(read("half.ark")[key], 0.5 * whole)
        assert_close(read("third.ark")[key], whole[::3])


def test_priors_of_an_acoustic_model(folder):
    model = read_model(str(DATA / "network" / "am-priors.mdl"))
    dim = model.nnet.input_dim("input")
    write("feats.ark", {"u": features(20, dim=dim)})
    words = [str(DATA / "network" / "am-priors.mdl"), "ark:feats.ark"]
    assert compute.execute([*words, "ark:out.ark"]) == 0
    assert compute.execute(["--use-priors=true", *words, "ark:priors.ark"]) == 0
    assert_close(read("priors.ark")["u"], read()["u"] - np.log(model.priors))


def test_priors_need_an_acoustic_model(folder, capfd):
    assert compute.execute(["--use-priors=true", "n.raw", "ark:feats.ark", "ark:out.ark"]) == 255
    assert "ERROR (nnet3-compute" in capfd.readouterr().err and not (folder / "out.ark").exists()


def test_ivectors_of_speakers(folder, capfd):
    (folder / "utt2spk").write_text("u1 s1\nu2 s2\nu3 s1\n")
    ivectors = {"s1": np.array([1, 2], np.float32), "s2": np.array([-3, 0.5], np.float32)}
    write_table("ark:iv.ark", FLOAT_VECTOR, ivectors)
    assert compute.execute(["--ivectors=ark:iv.ark", "--utt2spk=ark:utt2spk", "i.raw", "ark:feats.ark",
                            "ark:out.ark"]) == 0
    affine = parameters(Nnet.from_config(WITH_IVECTOR))
    for key, speaker in (("u1", "s1"), ("u2", "s2"), ("u3", "s1")):
        x = np.hstack([FEATS[key], np.tile(ivectors[speaker], (len(FEATS[key]), 1))])
        assert_close(read()[key], x @ affine["a.linear_params"].T + affine["a.bias_params"])


def test_online_ivectors(folder, capfd):
    write("iv.ark", {"u1": features(3, 5, 2), "u3": features(6, 6, 2)})
    assert compute.execute(["--online-ivectors=ark:iv.ark", "--online-ivector-period=10", "--frames-per-chunk=10",
                            "i.raw", "ark:feats.ark", "ark:out.ark"]) == 0
    assert list(read()) == ["u1", "u3"]
    err = capfd.readouterr().err
    assert "No online iVector available for utterance u2" in err and "Done 2 utterances, failed for 1" in err
    affine = parameters(Nnet.from_config(WITH_IVECTOR))
    x = np.hstack([FEATS["u3"], np.repeat(features(6, 6, 2), 10, axis=0)])
    assert_close(read()["u3"], x @ affine["a.linear_params"].T + affine["a.bias_params"])


def test_faults_of_one_utterance_are_counted(folder, capfd):
    bad = features(9)
    bad[3, 2] = np.nan
    write("feats.ark", {"empty": np.zeros((0, 0), np.float32), "bad": bad, **FEATS})
    assert compute.execute(["n.raw", "ark:feats.ark", "ark:out.ark"]) == 0
    err = capfd.readouterr().err
    assert "WARNING" in err and "Zero-length utterance: empty" in err
    assert re.search(r"Skipping utterance bad: .*nan in row 3, column 2", err)
    assert "Done 3 utterances, failed for 2" in err and list(read()) == list(FEATS)


def test_no_success_at_all(folder, capfd):
    write("feats.ark", {"empty": np.zeros((0, 0), np.float32)})
    assert compute.execute(["n.raw", "ark:feats.ark", "ark:out.ark"]) == 1
    assert "Done 0 utterances, failed for 1" in capfd.readouterr().err


@pytest.mark.parametrize(("words", "message"), [
    (["i.raw", "ark:feats.ark"], "Neural net expects 'ivector' features with dimension 2 but you provided 0"),
    (["n.raw", "ark:wide.ark"], "Neural net expects 'input' features with dimension 3 but you provided 4"),
    (["missing.raw", "ark:feats.ark"], "missing.raw"),
    (["n.raw", "ark:missing.ark"], "missing.ark"),
    (["n.raw", "ark:cut.ark"], "cut.ark"),
    (["n.raw", "ark:cat feats.ark; exit 2|"], "exit"),
    (["--online-ivectors=ark:none.ark", "--online-ivector-period=10", "i.raw", "ark:feats.ark"], "none.ark"),
])
def test_errors_leave_no_output(folder, capfd, words, message):
    """Also where the first utterances were written already, and for the error that a pipe's end shows."""
    write("wide.ark", {"u1": FEATS["u1"], "u2": features(5, 0, 4)})
    (folder / "cut.ark").write_bytes((folder / "feats.ark").read_bytes()[:-50])
    (folder / "old.ark").write_text("what was there before")
    for out in ("out.ark", "old.ark"):
        assert compute.execute([*words, f"ark:{out}"]) == 255
        err = capfd.readouterr().err
        assert err.count("ERROR (nnet3-compute") == 1 and message in err and "internal error" not in err
    assert not (folder / "out.ark").exists() and (folder / "old.ark").read_text() == "what was there before"
    assert not [p.name for p in folder.iterdir() if ".ark." in p.name or p.name.startswith((".", "tmp"))]


@pytest.mark.parametrize("words", [
    ["n.raw", "ark:feats.ark"], ["n.raw", "ark:feats.ark", "ark:o", "x"],
    ["--ivectors=ark:a", "--online-ivectors=ark:b", "i.raw", "ark:feats.ark", "ark:out.ark"],
    ["--online-ivectors=ark:b", "i.raw", "ark:feats.ark", "ark:out.ark"],
    ["--frames-per-chunk=0", "n.raw", "ark:feats.ark", "ark:out.ark"]])
def test_wrong_usage(folder, words):
    assert compute.execute(words) == (255 if words[0].startswith("--") else 1)
    assert not (folder / "out.ark").exists()


def test_kaldi_s_numbers(tmp_path, monkeypatch):
    golden = shared_golden() / "tools" / "compute-chunk-20"
    monkeypatch.chdir(golden)
    words = (golden / "command").read_text().split()
    assert words[0] == "nnet3-compute"
    out = tmp_path / "out.ark"
    assert compute.execute([*words[1:-1], f"ark:{out}"]) == 0
    expected = next(path for path in golden.iterdir() if path.suffix == ".ark")
    for key, matrix in read_matrices(f"ark:{expected}"):
        assert_close(read(str(out))[key], np.asarray(matrix), KALDI_OUTPUT)
