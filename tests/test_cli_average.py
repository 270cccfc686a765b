"""nnet3-average."""
from __future__ import annotations

import numpy as np
import pytest
from runtime_cases import TDNN, parameters, plain

from nnet3py.cli.nnet.networks import average
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet

ROUNDING = 1e-6       # one float32 product and sum per model


@pytest.fixture
def folder(here):
    """The current folder, with 0.raw, 1.raw, 2.raw and another network p.raw."""
    for seed in range(3):
        Nnet.from_config(TDNN, seed=seed).write(f"{seed}.raw")
    plain().write("p.raw")
    return here


MODELS = ["0.raw", "1.raw", "2.raw"]


@pytest.mark.parametrize(("option", "weights"), [
    ([], [1 / 3] * 3), (["--weights=0.5:0.3:0.2"], [0.5, 0.3, 0.2]), (["--weights=2:1:1"], [0.5, 0.25, 0.25])])
def test_weighted_average(folder, capfd, option, weights):
    assert average.execute([*option, *MODELS, "out.raw"]) == 0
    models, found = [parameters(read_nnet(name)) for name in MODELS], parameters(read_nnet("out.raw"))
    for name, value in found.items():
        wanted = sum(w * model[name] for w, model in zip(weights, models, strict=True))
        np.testing.assert_allclose(value, wanted, atol=ROUNDING)
    err = capfd.readouterr().err
    assert "Averaged parameters of 3 neural nets, and wrote to out.raw" in err
    assert ("Normalizing weights to sum to one, sum was 4" in err) == (option == ["--weights=2:1:1"])


def test_one_model_and_text(folder):
    assert average.execute(["0.raw", "out.raw"]) == 0
    assert (folder / "out.raw").read_bytes() == (folder / "0.raw").read_bytes()
    assert average.execute(["--binary=false", "0.raw", "1.raw", "out.raw"]) == 0
    assert (folder / "out.raw").read_bytes().startswith(b"<Nnet3>")


def test_the_result_may_replace_a_source(folder):
    before = [parameters(read_nnet(name)) for name in MODELS[:2]]
    assert average.execute(["0.raw", "1.raw", "0.raw"]) == 0
    for name, value in parameters(read_nnet("0.raw")).items():
        np.testing.assert_allclose(value, 0.5 * (before[0][name] + before[1][name]), atol=ROUNDING)


@pytest.mark.parametrize(("words", "status", "message"), [
    (["0.raw"], 1, "Usage"),
    (["--weights=1:2", *MODELS, "out.raw"], 255, "found 2 weights, expected one for each of 3 models"),
    (["--weights=1:x:2", *MODELS, "out.raw"], 255, "--weights=1:x:2"),
    (["--weights=nan:1:1", *MODELS, "out.raw"], 255, "finite"),
    (["--weights=1:-1:0", *MODELS, "out.raw"], 255, "sum to 0"),
    (["0.raw", "p.raw", "out.raw"], 255, "p.raw has other components than 0.raw"),
    (["0.raw", "missing.raw", "out.raw"], 255, "missing.raw"),
    (["0.raw", "cut.raw", "out.raw"], 255, "cut.raw"),
])
def test_errors_leave_no_output(folder, capfd, words, status, message):
    (folder / "cut.raw").write_bytes((folder / "1.raw").read_bytes()[:-30])
    assert average.execute(words) == status
    err = capfd.readouterr().err
    assert message in err and "internal error" not in err
    assert not (folder / "out.raw").exists()
