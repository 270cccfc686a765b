"""nnet3-compute, nnet3-compute-batch and nnet3-compile: outputs, options, what goes wrong, reports."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import CASES, RNN, read_request
from compiler_cases import TDNN as COMPILED_TDNN
from paths import DATA, shared_golden
from runtime_cases import TDNN, assert_close, parameters

import nnet3py
from nnet3py import compile as compile_request
from nnet3py.acoustic_model import read_model
from nnet3py.cli.main import load
from nnet3py.cli.nnet.compute import compute, compute_batch
from nnet3py.compiler.generate import generate_computation
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, read_matrices
from nnet3py.io.tables import write_table
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


def write(path: str, items: dict[str, np.ndarray], holder=FLOAT_MATRIX) -> None:
    write_table(f"ark:{path}", holder, items)


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


MODEL = str(DATA / "network" / "am-priors.mdl")


def utterances(dim: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {f"u{i}": rng.standard_normal((n, dim), dtype=np.float32) for i, n in enumerate((23, 7, 60, 23, 131))}


@pytest.fixture
def batch_folder(folder):
    """The folder, with the features of five utterances, feats."""
    write("feats", utterances())
    return folder


def outputs(path: str = "out") -> dict[str, np.ndarray]:
    return dict(read_matrices(f"ark:{path}"))


@pytest.mark.parametrize("options", [
    [], ["--frames-per-chunk=10", "--minibatch-size=2"], ["--frame-subsampling-factor=3", "--apply-exp=true"],
    ["--acoustic-scale=0.5", "--extra-left-context-initial=2", "--edge-minibatch-size=1"],
    ["--ensure-exact-final-context=true", "--partial-minibatch-factor=0"]])
def test_output_of_nnet3_compute(batch_folder, options):
    assert compute_batch.execute([*options, "n.raw", "ark:feats", "ark:out"]) == 0
    known = [word for word in options if not re.match("--(.*minibatch|ensure)", word)]
    assert compute.execute([*known, "n.raw", "ark:feats", "ark:expected"]) == 0
    found, expected = outputs(), outputs("expected")
    assert list(found) == list(expected) == list(utterances())
    for key, value in expected.items():
        assert_close(found[key], value)


def test_priors(batch_folder):
    write("feats", utterances(read_model(MODEL).nnet.input_dim("input")))
    assert compute_batch.execute(["--use-priors=true", MODEL, "ark:feats", "ark:out"]) == 0
    assert compute.execute(["--use-priors=true", MODEL, "ark:feats", "ark:expected"]) == 0
    for key, value in outputs("expected").items():
        assert_close(outputs()[key], value)


def test_lines(batch_folder, capfd):
    assert compute_batch.execute(["n.raw", "ark:feats", "ark:out"]) == 0
    err = capfd.readouterr().err
    assert re.search(r"^LOG \(nnet3-compute-batch\[5\.5\]:main\(\):\S+\) Time taken [0-9.e+-]+s$", err, re.MULTILINE)
    assert re.search(r"\) Done 5 utterances, failed for 0$", err, re.MULTILINE)


def test_utterances_that_fail(batch_folder, capfd):
    feats = utterances()
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


def test_online_ivectors_in_batches(batch_folder, capfd):
    write("iv", {key: np.tile(np.arange(len(feats) // 10 + 1, dtype=np.float32)[:, None], 2)
                 for key, feats in utterances().items() if key != "u1"})
    assert compute_batch.execute(["--online-ivectors=ark:iv", "--online-ivector-period=10", "--frames-per-chunk=10",
                                  "i.raw", "ark:feats", "ark:out"]) == 0
    assert list(outputs()) == ["u0", "u2", "u3", "u4"]
    assert "No online iVector available for utterance u1" in capfd.readouterr().err
    assert compute.execute(["--online-ivectors=ark:iv", "--online-ivector-period=10", "--frames-per-chunk=10",
                            "i.raw", "ark:feats", "ark:expected"]) == 0
    # Chunks of nnet3-compute take the row of their frame 4, those of the other of their frame 5: the same one here.
    assert_close(outputs()["u2"], outputs("expected")["u2"])


@pytest.mark.parametrize(("words", "status", "message"), [
    (["--minibatch-size=0", "n.raw", "ark:feats"], 255, "--minibatch-size=0: expected 1 or more"),
    (["i.raw", "ark:feats"], 255, "utterance u0: Neural net expects 'ivector' features with dimension 2 but you"),
    (["--use-priors=true", "n.raw", "ark:feats"], 255, "found a raw network"),
    (["--ivectors=ark:feats", "--online-ivectors=ark:feats", "i.raw", "ark:feats"], 255, "cannot both be given"),
    (["n.raw", "ark:missing"], 255, "missing")])
def test_errors_of_batches_leave_no_output(batch_folder, capfd, words, status, message):
    assert compute_batch.execute([*words, "ark:out"]) == status
    assert message in capfd.readouterr().err and not (batch_folder / "out").exists()


def test_nothing_done(batch_folder):
    write("feats", {})
    assert compute_batch.execute(["n.raw", "ark:feats", "ark:out"]) == 1


COMMAND = load("nnet3-compile")


@pytest.fixture
def model(here: Path) -> str:
    Nnet.from_config(COMPILED_TDNN).write("tdnn.raw")
    return "tdnn.raw"


def report(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert COMMAND.execute(words) == 0
    return capfd.readouterr().out


def test_the_natural_request(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = report(["--frames=6", "--frame-subsampling-factor=3", "--num-sequences=2", "--train", model], capfd)
    assert "input-0: name=input, has-deriv=false, indexes=[(0,-4:7), (1,-4:7)]" in text
    assert "output-0: name=output, has-deriv=true, indexes=[(0,0), (0,3), (1,0), (1,3)]" in text
    for heading in ("# Passes", "# Commands by kind", "# Listing: optimized", "# Matrices", "# Peak memory",
                    "# Operations"):
        assert f"\n{heading}" in text
    assert "need-model-derivative: true" in text and "\nmove-sizing-commands " in text
    short = report(["--summary", "--frames=6", model], capfd)
    assert "# Passes" in short and "# Listing" not in short and "# Matrices" not in short


def test_recorded_requests(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nnet = Nnet.from_config((CASES / "rnn-simple" / "config.txt").read_text())
    nnet.write(str(tmp_path / "raw"))
    asked = CASES / "rnn-simple" / "request.txt"
    text = report(["--passes=unoptimized", f"--request={asked}", str(tmp_path / "raw")], capfd)
    assert generate_computation(nnet, read_request(asked)).describe(nnet) in text
    assert compile_request(nnet, read_request(asked), shortcut=False).describe(nnet) in text


def test_ranges_passes_and_drawings(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--input=input:-4:4", "--output=output:0:2", "--input-derivs=input", "--svg=drawn"]
    text = report([*words, "--passes=convert-addition,unoptimized", model], capfd)
    assert "# Listing: unoptimized\n" in text and "# Listing: convert-addition\n" in text
    assert "name=input, has-deriv=true" in text and "need-model-derivative: false" in text
    assert sorted(path.name for path in Path("drawn").iterdir()) == ["graph.svg", "memory.svg", "network.svg"]
    COMMAND.execute([*words, "--summary", model])
    said = capfd.readouterr().err
    assert all(f"Wrote drawn/{name}.svg\n" in said for name in ("network", "graph", "memory"))
    everything = report([*words, "--verbose-passes", model], capfd)
    assert everything.count("# Listing: ") > text.count("# Listing: ") and "(it changed nothing)" in everything


def test_passes_can_be_switched_off(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = report(["--train", "--optimization.convert-addition=false", model], capfd)
    assert "convert-addition" not in text and "optimize-row-ops" in text
    assert "optimize-row-ops" not in report(["--optimization.optimize=false", model], capfd)


def test_statistics_are_asked_for(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert "store-component-stats: true" in report(["--store-stats", model], capfd)


@pytest.mark.parametrize("words, message", [
    (["--passes=nonsense"], "no pass 'nonsense' ran"), (["--input=input:0:5"], "give --output"),
    (["--input=input:5:0", "--output=output:0"], "holds no times"), (["--frames=0"], "expected 1 or more"),
    (["--output=output:0"], "has a range of frames, but --input was not given"), (["--request=nowhere"], "nowhere"),
    (["--request=tdnn.raw"], "line 1 of the request is not understood"),
    (["--request=nowhere", "--frames=3"], "--frames has no effect with --request"),
    (["--input=input:0:9", "--output=output:4", "--frames=3"], "--frames has no effect with --input"),
    (["--input=x:0", "--output=output:0"], "no input with name x"), (["--output=x"], "no output with name x"),
    (["--input=input:0:3", "--output=output:0:5"], "output(0,0) needs b(0,0) needs r(0,-3) needs a(0,-3) needs input"),
    (["--train", "--input-derivs=x"], "is not an input of the request"),
    (["--num-sequences=2000000000"], "are the most"), (["--frames=2000000000"], "are the most"),
    (["--svg=tdnn.raw/x"], "cannot be made"), (["--svg=tdnn.raw"], "cannot be made")])
def test_what_is_refused(model: str, words: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert COMMAND.execute([*words, model]) == 255
    captured = capfd.readouterr()
    errors = [line for line in captured.err.splitlines() if line.startswith("ERROR")]
    assert len(errors) == 1 and message in errors[0] and "Traceback" not in captured.err and not captured.out


def test_files_that_are_no_model(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("text").write_text("hello\n")
    for name in ("text", "nowhere"):
        assert COMMAND.execute([name]) == 255
    assert COMMAND.execute([]) == 1
    assert "Traceback" not in capfd.readouterr().err


def test_recurrent_networks(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    Nnet.from_config(RNN).write("rnn.raw")
    text = report(["--frames=4", "--extra-left-context=3", "--train", "rnn.raw"], capfd)
    assert "indexes=[(0,-3:3)]" in text and "kBackpropNoModelUpdate" in text
