"""nnet3-compute-prob: its lines, its options and its exit status."""
from __future__ import annotations

import re

import numpy as np
import pytest
from command_lines import write_table
from runtime_cases import PLAIN, TDNN, TDNN_CONTEXT, class_example, dense_example, plain

from nnet3py.cli.training.train import compute_prob
from nnet3py.egs.example import EXAMPLE
from nnet3py.network.nnet import Nnet
from nnet3py.training.diagnostics import NnetDiagnostics

NORMALIZED = TDNN.replace("component name=s type=SigmoidComponent dim=4",
                          "component name=s type=BatchNormComponent dim=4")


def examples() -> list:
    left, right = TDNN_CONTEXT
    return [class_example(4, 3, seed=i, left=left, right=right) for i in range(3)]


@pytest.fixture
def folder(here):
    """The current folder, with n.raw and its examples n.egs."""
    Nnet.from_config(TDNN).write("n.raw")
    write_table("ark:n.egs", EXAMPLE, {f"eg{i}": eg for i, eg in enumerate(examples())})
    return here


def numbers(err: str, what: str) -> tuple[float, float]:
    match = re.search(r"^LOG \(nnet3-compute-prob\[\S+\]:PrintTotalStats\(\):nnet-diagnostics.cc:\d+\) Overall "
                      rf"{what} for 'output' is (\S+) per frame, over (\S+) frames\.$", err, re.MULTILINE)
    assert match, err
    return float(match[1]), float(match[2])


@pytest.mark.parametrize("collapse", ["true", "false"])
def test_lines(folder, capfd, collapse):
    diagnostics = NnetDiagnostics(Nnet.from_config(TDNN))
    for eg in examples():
        diagnostics.compute(eg)
    totals = diagnostics.outputs["output"]
    assert compute_prob.execute([f"--collapse-model={collapse}", "n.raw", "ark:n.egs"]) == 0
    err = capfd.readouterr().err
    assert numbers(err, "log-likelihood") == (pytest.approx(totals.objective / 36, rel=1e-5), 36)
    assert numbers(err, "accuracy") == (pytest.approx(totals.num_correct / 36, rel=1e-5), 36)


def test_accuracy_is_optional(folder, capfd):
    assert compute_prob.execute(["--compute-accuracy=false", "n.raw", "ark:n.egs"]) == 0
    assert "accuracy for" not in capfd.readouterr().err
    assert compute_prob.execute(["--compute-per-dim-accuracy=true", "n.raw", "ark:n.egs"]) == 0
    err = capfd.readouterr().err
    assert re.search(r"Overall per-dim accuracy vector for 'output' is  \[( \S+){4} \]\n per frame, over 36 frames\.$",
                     err, re.MULTILINE)


def test_a_quadratic_output_has_an_objective(folder, capfd):
    plain().write("q.raw")
    write_table("ark:q.egs", EXAMPLE, {"eg": dense_example()})
    assert compute_prob.execute(["q.raw", "ark:q.egs"]) == 0
    err = capfd.readouterr().err
    assert numbers(err, "objective")[0] < 0 and numbers(err, "objective")[1] == 6
    assert "Overall accuracy for 'output'" in err


def test_batchnorm_test_mode_uses_stored_statistics(folder, capfd):
    nnet = Nnet.from_config(NORMALIZED)
    norm = vars(nnet.component("s"))
    norm["count"][:], norm["sum"][:], norm["sumsq"][:] = 10.0, 50.0, 300.0
    nnet.write("b.raw")
    found = []
    for mode in ("true", "false"):
        assert compute_prob.execute([f"--batchnorm-test-mode={mode}", "b.raw", "ark:n.egs"]) == 0
        found.append(numbers(capfd.readouterr().err, "log-likelihood")[0])
    assert abs(found[0] - found[1]) > 0.05


def test_exit_status_without_weight(folder, capfd):
    (folder / "empty.egs").write_bytes(b"")
    assert compute_prob.execute(["n.raw", "ark:empty.egs"]) == 1
    eg = examples()[0]
    eg.io[1].features = np.zeros((12, 4), dtype=np.float32)
    write_table("ark:zero.egs", EXAMPLE, {"eg": eg})
    assert compute_prob.execute(["n.raw", "ark:zero.egs"]) == 1
    assert "Overall log-likelihood for 'output' is nan per frame, over 0 frames." in capfd.readouterr().err


@pytest.mark.parametrize(("words", "status"), [
    (["n.raw"], 1), (["n.raw", "ark:n.egs", "x"], 1), (["n.raw", "ark:missing"], 255), (["missing", "ark:n.egs"], 255),
    (["n.raw", "ark:cut.egs"], 255), (["p.raw", "ark:n.egs"], 255)])
def test_errors(folder, capfd, words, status):
    (folder / "cut.egs").write_bytes((folder / "n.egs").read_bytes()[:-9])
    Nnet.from_config(PLAIN.format(settings="", objective="linear").replace("dim=4", "dim=5")).write("p.raw")
    assert compute_prob.execute(words) == status
    err = capfd.readouterr().err
    assert "internal error" not in err and (status == 1 or err.count("ERROR (nnet3-compute-prob") == 1)
