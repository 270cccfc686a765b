"""Training on lattices, its diagnostics, and their commands."""
from __future__ import annotations

import logging

import lattice_supervisions as cases
import numpy as np
import pytest

from nnet3py.cli.main import load
from nnet3py.components.updatable import is_updatable
from nnet3py.discriminative.options import DiscriminativeOptions
from nnet3py.egs.discriminative_example import read_discriminative_egs
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import SequentialReader
from nnet3py.network.model_file import read_nnet
from nnet3py.training.discriminative_trainer import (
    DiscriminativeDiagnosticOptions,
    DiscriminativeDiagnostics,
    DiscriminativeTrainer,
)
from nnet3py.training.options import TrainerOptions

EGS, MODEL = f"ark:{cases.FOLDER}/merged.degs", str(cases.FOLDER / "am-xent.mdl")
WITHIN = 1e-4      # of the limit on a change: sums of squares are of float32


@pytest.fixture(scope="module")
def eg():
    (_, example), = read_discriminative_egs(EGS)
    return example


def trained(eg, times, trainer_options=None, **options):
    model = cases.model("am-xent.mdl")
    trainer = DiscriminativeTrainer(model, trainer_options or TrainerOptions(), DiscriminativeOptions(**options))
    for _ in range(times):
        trainer.train(eg)
    return trainer


@pytest.mark.parametrize("criterion", ["mmi", "mpfe", "smbr"])
def test_the_objective_rises(eg, criterion):
    trainer = trained(eg, 12, criterion=criterion, xent_regularize=0.1)
    model = cases.model("am-xent.mdl")
    values = []
    for nnet in (model.nnet, trainer.nnet):
        model.nnet = nnet
        diagnostics = DiscriminativeDiagnostics(model, DiscriminativeDiagnosticOptions(
            DiscriminativeOptions(criterion=criterion)))
        diagnostics.compute(eg)
        values.append(diagnostics.totals["output"].average())
    assert values[1] > values[0] + 0.005
    assert set(trainer.totals) == {"output", "output-xent"} and trainer.totals["output"].frames == 12 * 160


def size_of_change(trainer):
    """The norm of what the parameters of am-xent.mdl have changed by."""
    pairs = zip(trainer.nnet.components, cases.model("am-xent.mdl").nnet.components, strict=True)
    return np.linalg.norm(np.concatenate([mine.vectorize() - theirs.vectorize() for mine, theirs in pairs
                                          if is_updatable(mine)]))


def test_only_the_whole_change_is_limited(eg, caplog):
    """Components' own limits do not hold; Kaldi's line says by how much the change was too large."""
    with caplog.at_level(logging.INFO):
        trainer = trained(eg, 1, TrainerOptions(max_param_change=0.01), criterion="mmi")
    assert size_of_change(trainer) == pytest.approx(0.01, rel=WITHIN)
    assert "Parameter change too big: " in caplog.text and "> --max-param-change=0.01, scaling by 0." in caplog.text


def test_momentum_takes_its_share_of_the_change(eg):
    """Of the first change nine tenths wait for the next ones."""
    whole, share = (size_of_change(trained(eg, 1, TrainerOptions(max_param_change=0.0, momentum=momentum),
                                           criterion="mmi")) for momentum in (0.0, 0.9))
    assert share == pytest.approx(0.1 * whole, rel=1e-2)


def test_frames_without_weight_change_nothing(eg):
    from dataclasses import replace
    weightless = replace(eg, outputs=[replace(eg.outputs[0], deriv_weights=np.zeros(160, np.float32))])
    before = cases.model("am-xent.mdl").nnet
    trainer = trained(weightless, 1)
    for mine, theirs in zip(trainer.nnet.components, before.components, strict=True):
        if is_updatable(mine):
            np.testing.assert_array_equal(mine.vectorize(), theirs.vectorize())


def run(name, *args):
    return load(name).execute(["--print-args=false", *map(str, args)])


def test_commands(tmp_path, capfd):
    assert run("nnet3-discriminative-train", "--use-gpu=no", "--xent-regularize=0.1", "--criterion=mmi", MODEL, EGS,
               tmp_path / "1.raw") == 0
    lines = [line.split(") ", 1)[1] for line in capfd.readouterr().err.splitlines() if "(nnet3-" in line]
    assert [line.split(" is ")[0] for line in lines if "Overall" in line] == [
        f"Overall average objective function for '{name}'" for name in ("output-xent", "output")]
    assert sum("[this line is to be parsed by a script:] mmi-per-frame=" in line for line in lines) == 2
    assert f"Wrote raw nnet model to {tmp_path}/1.raw" in lines
    assert len(read_nnet(tmp_path / "1.raw").components) == len(cases.model("am-xent.mdl").nnet.components)

    assert run("nnet3-discriminative-compute-objf", "--use-gpu=no", "--l2-regularize=0.001", MODEL, EGS) == 0
    error = capfd.readouterr().err
    assert "Average num+den count of SMBR stats is " in error
    assert "Overall smbr objective for 'output' is " in error and " + -0." in error

    assert run("nnet3-discriminative-compute-from-egs", "--use-gpu=no", "--apply-exp=true", tmp_path / "1.raw", EGS,
               f"ark:{tmp_path}/out.ark") == 0
    with SequentialReader(f"ark:{tmp_path}/out.ark", FLOAT_MATRIX) as reader:
        (_, matrix), = reader
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=1e-5)
    assert matrix.shape == (160, 10)


@pytest.mark.parametrize("l2", [0.0, 0.001])
def test_the_l2_term_is_logged_where_there_is_one(eg, l2, caplog):
    trainer = trained(eg, 1, l2_regularize=l2)
    with caplog.at_level(logging.INFO):
        assert trainer.log_totals()
    assert ("Average l2 norm of output per frame is " in caplog.text) == bool(l2)


def test_outputs_of_a_network_without_the_companion(tmp_path):
    """Only what is supervised is computed: ``output``, not ``output-xent``."""
    cases.model("am.mdl").nnet.write(tmp_path / "am.raw")
    assert run("nnet3-discriminative-compute-from-egs", "--use-gpu=no", tmp_path / "am.raw", EGS,
               f"ark:{tmp_path}/out.ark") == 0
    with SequentialReader(f"ark:{tmp_path}/out.ark", FLOAT_MATRIX) as reader:
        (_, matrix), = reader
    assert matrix.shape == (160, 10) and np.ptp(matrix) > 0.1


def test_nothing_to_do(tmp_path, capfd):
    (tmp_path / "empty").write_bytes(b"")
    empty = f"ark:{tmp_path}/empty"
    assert run("nnet3-discriminative-train", "--use-gpu=no", MODEL, empty, tmp_path / "1.raw") == 1
    assert (tmp_path / "1.raw").exists()
    assert run("nnet3-discriminative-compute-objf", "--use-gpu=no", MODEL, empty) == 1
    assert run("nnet3-discriminative-compute-from-egs", "--use-gpu=no", tmp_path / "1.raw", empty,
               f"ark:{tmp_path}/out") == 0
    assert "Processed 0 examples." in capfd.readouterr().err
