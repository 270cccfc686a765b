"""nnet3py/training/train.py: passes, validation, early stopping, checkpoints, the history."""
from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from driver_cases import NUM_CLASSES as CLASSES_OF_EGS
from driver_cases import TDNN, write_alignments, write_configs, write_egs
from paths import ROOT
from runtime_cases import TDNN as CONTEXT
from runtime_cases import class_example, parameters
from test_objectives import SUM, half_square

import nnet3py
from nnet3py.errors import UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.training.options import TrainerOptions
from nnet3py.training.train import History, Progress, rate_of_pass, train
from nnet3py.training.trainer import NnetTrainer

RNG = np.random.default_rng(0)

CLASSIFIER = """
input-node name=input dim=2
component name=a type=NaturalGradientAffineComponent input-dim=2 output-dim=8 learning-rate=0.01
component name=r type=RectifiedLinearComponent dim=8
component name=n type=BatchNormComponent dim=8
component name=b type=NaturalGradientAffineComponent input-dim=8 output-dim=2 learning-rate=0.01
component name=l type=LogSoftmaxComponent dim=2
component-node name=a component=a input=input
component-node name=r component=r input=a
component-node name=n component=n input=r
component-node name=b component=b input=n
component-node name=l component=l input=b
output-node name=output input=l
"""


def points(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of the plane, and on which side of a circle they lie."""
    feats = np.random.default_rng(seed).standard_normal((count, 2)).astype(np.float32)
    return feats, (np.linalg.norm(feats, axis=1) > 1.2).astype(np.int64)


def test_a_network_learns_from_arrays(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nnet3py.training.train")
    nnet, seen = Nnet.from_config(CLASSIFIER), []
    history = nnet3py.train(nnet, points(600, 0), validation=points(200, 1), num_epochs=6, learning_rate=0.02,
                            final_learning_rate=0.005, minibatch_size=32, callbacks=[seen.append])
    assert len(history) == 6 and history.best == 6
    accuracy = history["validation_accuracy"]
    assert accuracy.shape == (6,) and accuracy[-1] > 0.9
    assert history["objective"][-1] > history["objective"][0] and history["num_minibatches"].tolist() == [19] * 6
    np.testing.assert_allclose(history["learning_rate"], 0.02 * 0.25 ** (np.arange(6) / 6))
    feats, classes = points(200, 1)
    assert accuracy[-1] == pytest.approx((nnet(feats).argmax(axis=1) == classes).mean())
    assert [progress.epoch.epoch for progress in seen] == [1, 2, 3, 4, 5, 6] and seen[0].nnet is nnet
    assert list(history.arrays()) == ["epoch", "learning_rate", "objective", "validation_objective",
                                      "validation_accuracy", "num_minibatches", "seconds"]
    assert caplog.messages[0].startswith("pass 1: objective -0.")
    first, *passes = repr(history).splitlines()
    assert first == "<History: 6 passes, the network is as after pass 6>"
    assert passes == [str(epoch) for epoch in history.epochs] and passes[5].startswith("pass 6: objective -")
    assert "<table" in history._repr_html_() and "validation_accuracy" in history._repr_html_()
    with pytest.raises(nnet3py.Nnet3Error, match="a history has no 'loss' .-history"):
        history["loss"]


def test_it_does_what_the_trainer_does() -> None:
    egs = [class_example(3, seed=seed, in_dim=2, out_dim=2) for seed in range(3)]
    mine, theirs = Nnet.from_config(CLASSIFIER), Nnet.from_config(CLASSIFIER)
    train(mine, egs[:1], num_epochs=2, options=TrainerOptions(srand=3))
    trainer = NnetTrainer(theirs, TrainerOptions(srand=3))
    for _ in range(2):
        trainer.train(egs[0])
    for name, value in parameters(theirs).items():
        np.testing.assert_array_equal(parameters(mine)[name], value)


def test_feat_and_targets_are_told_apart_from_data() -> None:
    (feats, labels), together = points(200, 0), Nnet.from_config(CLASSIFIER)
    apart, options = together.copy(), TrainerOptions(srand=3)
    train(together, (feats, labels), num_epochs=1, minibatch_size=64, options=options)
    train(apart, feats, labels, num_epochs=1, minibatch_size=64, options=options)
    for name, value in parameters(together).items():
        np.testing.assert_array_equal(parameters(apart)[name], value)
    with pytest.raises(UsageError, match="expected data, or features and targets, found 3 arguments"):
        train(apart, feats, labels, labels)


def test_a_warning_of_natural_gradient_comes_once_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    nnet = Nnet.from_config(CLASSIFIER.replace("8", "2"))
    for name in "ab":
        nnet[name].preconditioner_in.rank = nnet[name].preconditioner_out.rank = 8
    caplog.set_level(logging.WARNING)
    for _ in range(2):           # of the network, whose own ranks stay as they are, or of two networks
        caplog.clear()
        train(nnet, points(64, 0))
        once = [f"natural gradient: rank 8 is not below the dimension {dim}; it becomes {dim - 1}" for dim in (3, 2)]
        said = [message for message in caplog.messages if "rank 8" in message]
        assert sorted(said) == sorted([*once, *(f"{message} (2 times in all)" for message in once)])
        assert said[2].endswith("(2 times in all)")


def test_a_history_without_passes() -> None:
    history = History()
    assert (len(history), history.best) == (0, 0)
    assert repr(history) == "<History: 0 passes, the network is as after pass 0>"


def test_the_best_network_is_kept() -> None:
    nnet, kept = Nnet.from_config(CLASSIFIER), []

    def spoil(progress: Progress) -> None:
        kept.append(parameters(progress.nnet))
        if progress.epoch.epoch == 2:
            progress.nnet["b"].parameters()["linear_params"][:] *= -1

    history = train(nnet, points(200, 0), validation=points(100, 1), num_epochs=9, learning_rate=0.002, patience=2,
                    callbacks=[spoil])
    assert history.best == 2 and len(history) == 4
    for name, value in parameters(nnet).items():
        np.testing.assert_array_equal(kept[1][name], value)


def test_a_callback_ends_the_training_and_checkpoints_are_networks(tmp_path: Path) -> None:
    nnet = Nnet.from_config(CLASSIFIER)
    history = train(nnet, points(64, 0), num_epochs=5, checkpoints=tmp_path / "exp" / "mine",
                    callbacks=[lambda progress: progress.epoch.epoch == 2])
    assert [Path(name).relative_to(tmp_path).as_posix() for name in history.checkpoints] == [
        "exp/mine/1.raw", "exp/mine/2.raw"]
    last = nnet3py.read_nnet(history.checkpoints[-1])
    for name, value in parameters(nnet).items():
        np.testing.assert_array_equal(parameters(last)[name], value)
    assert np.isnan(history["validation_objective"]).all() and "validation" not in str(history.epochs[0])
    train(last, points(64, 0))
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot make the folder"):
        train(nnet, points(64, 0), checkpoints=tmp_path / "file" / "mine")


@pytest.mark.parametrize(("options", "message"), [
    ({"num_epochs": 0}, "num_epochs=0 must be 1 or more"), ({"minibatch_size": 0}, "minibatch_size=0"),
    ({"patience": -1}, "patience=-1"), ({"patience": 1}, "patience=1 needs validation data"),
    ({"learning_rate": 0.0}, "learning_rate=0.0 must be above 0"),
    ({"final_learning_rate": 0.1}, "final_learning_rate needs learning_rate")])
def test_wrong_options(options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        train(Nnet.from_config(CLASSIFIER), points(8, 0), **options)


def test_rates_of_passes() -> None:
    assert [rate_of_pass(number, 2, 0.4, 0.1) for number in range(2)] == pytest.approx([0.4, 0.2])
    assert rate_of_pass(1, 2, 0.4) == 0.4


def test_a_loss_takes_the_place_of_the_objective() -> None:
    """Cross-entropy and squares of one's own: the same networks, histories, and the same best pass."""
    feats, classes = points(300, 0)
    of_numbers = CLASSIFIER.replace("input=l", "input=b objective=quadratic")
    for config, targets, loss in ((CLASSIFIER, classes, SUM),
                                  (of_numbers, np.eye(2)[classes], nnet3py.Loss(half_square, reduction="sum"))):
        validation = points(100, 1)[0], targets[:100]
        theirs, mine = Nnet.from_config(config), Nnet.from_config(config)
        settings = {"validation": validation, "num_epochs": 4, "learning_rate": 0.02, "final_learning_rate": 0.005,
                    "minibatch_size": 32, "patience": 2, "options": TrainerOptions(momentum=0.3)}
        expected = train(theirs, feats, targets, **settings)
        history = train(mine, feats, targets, loss=loss, **settings)
        for name, value in parameters(theirs).items():
            np.testing.assert_array_equal(parameters(mine)[name], value)
        for name in ("objective", "validation_objective", "validation_accuracy"):
            np.testing.assert_allclose(history[name], expected[name], rtol=1e-5)
        assert history.best == expected.best


def test_chunks_that_overlap_count_as_they_do_for_the_objective() -> None:
    """Utterances of 13 frames are two chunks of 8, whose common frames have half the weight."""
    data = [(RNG.standard_normal((13, 3)).astype(np.float32), RNG.integers(-1, 4, 13)) for _ in range(6)]
    theirs, mine = Nnet.from_config(CONTEXT, seed=2), Nnet.from_config(CONTEXT, seed=2)
    train(theirs, data, num_epochs=2)
    train(mine, data, num_epochs=2, loss=SUM)
    assert theirs == mine


def test_a_loss_for_any_targets() -> None:
    """Classes that the output does not have, numbers of another width, an output that is no log-softmax."""
    seen = []

    def distance(output: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
        seen.append((output.shape, target.shape, target.dtype, int(target.max())))
        return float((output ** 2).mean()), 2 * output / output.size

    feats, classes = points(64, 0)
    for config, frames in ((CLASSIFIER.replace("input=l", "input=b"), (32, 1)),
                           (CONTEXT.replace("input=l", "input=c").replace("dim=3", "dim=2", 1)
                            .replace("input-dim=9", "input-dim=6"), (8, 8))):
        for targets, wanted in ((classes + 70, (*frames, np.int64)), (np.ones((64, 5)), (*frames, 5, np.float32)),
                                (np.ones(64), (*frames, 1, np.float32))):
            seen.clear()
            history = train(Nnet.from_config(config), feats, targets, loss=distance, minibatch_size=32,
                            validation=(feats, targets))
            assert seen[0][:3] == ((*frames, 2 if frames[1] == 1 else 4), wanted[:-1], np.dtype(wanted[-1]))
            assert history["objective"][0] < 0 and history["validation_objective"][0] < 0
            assert np.isnan(history["validation_accuracy"][0]) or wanted[-1] is np.int64
    with pytest.raises(nnet3py.Nnet3Error, match=r"utterance 1: the targets: expected .* found float64 .4, 3."):
        train(Nnet.from_config(CLASSIFIER), [(feats[:4], np.ones((4, 5))), (feats[:4], np.ones((4, 3)))], loss=distance)


def test_losses_of_examples_by_output() -> None:
    egs = [class_example(3, seed=seed, in_dim=2, out_dim=2) for seed in range(4)]
    theirs, mine = Nnet.from_config(CLASSIFIER), Nnet.from_config(CLASSIFIER)
    train(theirs, egs)
    train(mine, egs, loss={"output": SUM})
    assert theirs == mine
    with pytest.raises(UsageError, match="a loss for 'x', which is no output"):
        train(mine, egs, loss={"x": SUM})
    with pytest.raises(nnet3py.Nnet3Error, match="minibatch 0: the loss <lambda> of 'output' is nan"):
        train(mine, egs, loss=lambda y, t: (np.nan, y))


def test_tensors_train_as_arrays() -> None:
    torch = pytest.importorskip("torch")
    feats, classes = points(200, 0)
    theirs = Nnet.from_config(CLASSIFIER)
    train(theirs, feats, classes, validation=(feats, classes))
    tensors = torch.tensor(feats), torch.tensor(classes)
    half = ([tensors[0][:100], tensors[0][100:]], [tensors[1][:100], tensors[1][100:]])
    for data in (tensors, (tensors[0].double().requires_grad_(), tensors[1].int()), half, list(zip(*half, strict=True)),
                 torch.utils.data.TensorDataset(*tensors), ({"a": tensors[0]}, {"a": tensors[1]})):
        mine = Nnet.from_config(CLASSIFIER)
        train(mine, *data if data is tensors else (data,), validation=data)
        assert mine == theirs
    loaded = Nnet.from_config(CLASSIFIER)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*tensors), batch_size=50)
    history = train(loaded, loader, validation=loader, num_epochs=8, learning_rate=0.02, loss=torch.nn.NLLLoss())
    assert history["num_minibatches"].tolist() == [4] * 8 and history["objective"][-1] > history["objective"][0]
    trainer, own = nnet3py.Trainer(stepped := Nnet.from_config(CLASSIFIER)), Nnet.from_config(CLASSIFIER)
    for x, y in loader:
        trainer.step(x[:, None], y[:, None])
    train(own, loader)
    assert stepped == own


@pytest.mark.slow
@pytest.mark.parametrize(("command", "classes"), [("train-raw-dnn", CLASSES_OF_EGS), ("train-dnn", 10)])
def test_the_drivers_go_on_from_a_checkpoint(tmp_path: Path, command: str, classes: int) -> None:
    """With the real programs: model 0 is the checkpoint, and the last one has been trained further."""
    write_egs(tmp_path / "egs", classes=classes)
    write_configs(tmp_path / "exp", TDNN, (2, 2), classes)
    if command == "train-dnn":
        write_alignments(tmp_path / "ali")
    nnet = Nnet.from_config(TDNN.format(classes=classes))
    history = nnet3py.train(nnet, f"ark:{tmp_path / 'egs' / 'egs.1.ark'}", num_epochs=2, minibatch_size=2,
                            learning_rate=0.002, checkpoints=tmp_path / "mine")
    checkpoint = Path(history.checkpoints[-1]).relative_to(tmp_path)
    words = [str(ROOT / "bin" / command), "--dir=exp", "--egs.dir=egs", f"--trainer.input-model={checkpoint}",
             "--use-gpu=no", "--num-threads=2", "--cleanup=false", "--trainer.num-epochs=0.5",
             "--trainer.optimization.num-jobs-final=2", "--trainer.optimization.minibatch-size=2"]
    words += ["--ali-dir=ali", "--trainer.num-jobs-compute-prior=2"] if command == "train-dnn" else []
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "NNET3PY_PYTHON": sys.executable})
    assert done.returncode == 0, done.stderr
    suffix = "mdl" if command == "train-dnn" else "raw"
    began, ended = (nnet3py.read_nnet(tmp_path / "exp" / f"{name}.{suffix}") for name in ("0", "final"))
    given = parameters(nnet3py.read_nnet(tmp_path / checkpoint))
    for name, value in parameters(began).items():
        np.testing.assert_array_equal(value, given[name])
    assert any((value != given[name]).any() for name, value in parameters(ended).items())
    objectives = [float(re.search(r"\btrain: (\S+)", line)[1])                             # type: ignore[index]
                  for line in done.stderr.splitlines() if "Iter: " in line]
    assert len(objectives) >= 2 and objectives[-1] > objectives[0]
