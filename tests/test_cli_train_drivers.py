"""train-dnn and its like on the command line: Kaldi's options, defaults and manners."""
from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from command_lines import read
from paths import ROOT

from nnet3py.cli.process.options import Option, Options, declared, fields_from
from nnet3py.drivers.options import CommonOptions, DnnOptions, RawDnnOptions, RawRnnOptions, RnnOptions
from nnet3py.errors import UsageError
from nnet3py.option_fields import settings_of

O = "trainer.optimization."         # noqa: E741

# spec: names and defaults of Kaldi's train_dnn.py; "" for unset
OF_TRAIN_DNN = {
    "feat.online-ivector-dir": "", "feat.cmvn-opts": "", "egs.dir": "", "egs.stage": 0, "egs.opts": "",
    "egs.frames-per-eg": 8, "trainer.srand": 0, "trainer.num-epochs": 8.0, "trainer.shuffle-buffer-size": 5000,
    "trainer.max-param-change": 2.0, "trainer.samples-per-iter": 400000, "trainer.lda.rand-prune": 4.0,
    "trainer.lda.max-lda-jobs": 10, "trainer.presoftmax-prior-scale-power": -0.25, f"{O}proportional-shrink": 0.0,
    f"{O}initial-effective-lrate": 0.0003, f"{O}final-effective-lrate": 0.00003, f"{O}num-jobs-initial": 1,
    f"{O}num-jobs-final": 8, f"{O}num-jobs-step": 1, f"{O}max-models-combine": 20, "trainer.max-models-combine": 20,
    f"{O}max-objective-evaluations": 30, f"{O}do-final-combination": True, f"{O}combine-sum-to-one-penalty": 0.0,
    f"{O}momentum": 0.0, f"{O}minibatch-size": "512", "trainer.dropout-schedule": "", "trainer.add-option": (),
    f"{O}backstitch-training-scale": 0.0, f"{O}backstitch-training-interval": 1,
    "trainer.compute-per-dim-accuracy": False, "trainer.input-model": "", "trainer.prior-subset-size": 20000,
    "trainer.num-jobs-compute-prior": 10, "exit-stage": "", "egs.cmd": "", "use-gpu": "yes", "cleanup": True,
    "cleanup.remove-egs": True, "cleanup.preserve-model-interval": 100, "reporting.email": "",
    "reporting.interval": 0.1, "feat-dir": "", "lang": "", "ali-dir": "", "dir": ""}
OURS = {"scheduler", "num-threads", "cmd", "stage"}                  # not in Kaldi, or with another default
OF_RAW = {"use-dense-targets": True, "targets-scp": "", "image.augmentation-opts": "",
          "compute-average-posteriors": False, "nj": 4}
OF_RNN = {"egs.chunk-width": "20", "egs.chunk-left-context": 40, "egs.chunk-right-context": 0,
          "egs.chunk-left-context-initial": -1, "egs.chunk-right-context-final": -1, "trainer.samples-per-iter": 20000,
          f"{O}momentum": 0.5, f"{O}shrink-value": 0.99, f"{O}shrink-saturation-threshold": 0.40,
          "trainer.rnn.num-chunk-per-minibatch": "100", "trainer.deriv-truncate-margin": "8"}


def option_list(declared_class: type[CommonOptions]) -> tuple[Option, ...]:
    return declared(settings_of(declared_class))


def defaults(options: type[CommonOptions]) -> dict[str, Any]:
    return {one.name: one.default for one in option_list(options)}


def values(declared: type[CommonOptions], *words: str) -> Any:
    options = option_list(declared)
    rest, parsed = read(options, words, detached_values=True)
    assert rest == [] and isinstance(parsed, Options)
    return fields_from(parsed, declared())


def test_options_of_train_dnn_are_kaldis() -> None:
    found = defaults(DnnOptions)
    assert found.keys() - OURS == OF_TRAIN_DNN.keys()
    assert {name: found[name] for name in OF_TRAIN_DNN} == OF_TRAIN_DNN


@pytest.mark.parametrize("declared, more", [(RawDnnOptions, OF_RAW), (RnnOptions, OF_RNN),
                                            (RawRnnOptions, {**OF_RAW, **OF_RNN})])
def test_options_of_the_others(declared: type[CommonOptions], more: dict[str, Any]) -> None:
    found = defaults(declared)
    assert {name: found[name] for name in more} == more
    assert found.keys() - OURS - OF_TRAIN_DNN.keys() <= more.keys()


def test_values_come_attached_and_detached() -> None:
    found = values(DnnOptions, "--stage", "-10", "--trainer.num-epochs=2", "--cleanup", "false", "--dir", "exp/a",
                   "--trainer.optimization.initial-effective-lrate=0.001", "--cmd", "queue.pl --mem 4G")
    assert (found.stage, found.num_epochs, found.cleanup, found.dir, found.cmd) == (
        -10, 2.0, False, "exp/a", "queue.pl --mem 4G")
    assert found.initial_effective_lrate == 0.001


def test_blank_values_unset() -> None:
    found = values(RawRnnOptions, "--stage=", "--egs.dir=", "--trainer.deriv-truncate-margin=", "--exit-stage=5")
    assert (found.stage, found.egs_dir, found.deriv_truncate_margin, found.exit_stage) == (None, None, None, 5)
    assert values(RawRnnOptions).deriv_truncate_margin == 8
    with pytest.raises(UsageError, match="--stage=x: expected a whole number"):
        values(DnnOptions, "--stage=x")


def test_options_for_the_training_program_add_up() -> None:
    found = values(DnnOptions, "--trainer.add-option=--optimization.memory-compression-level=2",
                   "--trainer.add-option=--verbose=1")
    assert found.add_option == ("--optimization.memory-compression-level=2", "--verbose=1")


def test_an_option_has_two_names() -> None:
    assert values(DnnOptions, "--trainer.max-models-combine=7").max_models_combine == 7
    assert values(DnnOptions, "--trainer.optimization.max-models-combine=6").max_models_combine == 6


@pytest.mark.parametrize("name", ["train-dnn", "train-rnn", "train-raw-dnn", "train-raw-rnn"])
def test_help_and_a_folder_that_is_missing(run_launcher: Callable[..., subprocess.CompletedProcess[str]],
                                           name: str) -> None:
    found = run_launcher(name, "--help")
    assert found.returncode == 0 and f"\n{name} --feat-dir=" in found.stderr
    found = run_launcher(name, "--use-gpu=no")
    assert found.returncode == 255 and "no folder was given" in found.stderr


def test_the_drivers_can_be_called_from_python() -> None:
    code = ("import sys; from nnet3py.drivers import RawDnnOptions, train_raw_dnn\n"
            "from nnet3py.errors import UsageError\n"
            "assert 'numba' not in sys.modules\n"
            "try: train_raw_dnn(RawDnnOptions())\n"
            "except UsageError as error: print(error.message)")
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "no folder was given\n"
