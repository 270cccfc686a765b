"""A training that is killed at any moment, and started again, ends in the same model."""
from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from driver_cases import LEFT, TDNN, write_alignments, write_configs, write_egs
from paths import ROOT

from nnet3py.drivers.diagnostics import ended_well

LONGEST = 600.0              # seconds of a training here, however busy the machine is
SEED = 20


class Case:
    """One training, in a folder of its own each time; names in commands are relative, so that logs are comparable."""

    def __init__(self, root: Path, command: str, options: list[str], classes: int) -> None:
        self.root, self.command, self.options, self.classes = root, command, options, classes

    def prepare(self, name: str) -> Path:
        folder = self.root / name
        write_egs(folder / "egs", classes=self.classes)
        write_alignments(folder / "ali")
        write_configs(folder / "exp", TDNN, (2, 2), self.classes)
        (folder / "exp" / "configs" / "init.config").write_text(
            "input-node name=input dim=40\noutput-node name=output input=Append(Offset(input, -2), input, "
            "Offset(input, 2))\n")
        config = folder / "exp" / "configs" / "final.config"
        spliced = "input=Append(Offset(input, -2), input, Offset(input, 2))"
        config.write_text(
            "component name=lda type=FixedAffineComponent matrix=exp/configs/lda.mat\n"
            f"component-node name=lda component=lda {spliced}\n"
            + config.read_text().split("\n", 1)[1].replace(spliced, "input=lda"))
        return folder

    def start(self, folder: Path) -> subprocess.Popen[bytes]:
        words = [str(ROOT / "bin" / self.command), "--dir=exp", "--egs.dir=egs", "--use-gpu=no", "--num-threads=2",
                 "--trainer.srand=3", "--trainer.optimization.minibatch-size=2",
                 "--trainer.dropout-schedule=0,0.2,0", *self.options]
        with open(folder / "driver.log", "ab") as log:
            return subprocess.Popen(words, cwd=folder, stderr=log, stdin=subprocess.DEVNULL,
                                    env={**os.environ, "NNET3PY_PYTHON": sys.executable})

    def finish(self, folder: Path) -> None:
        process = self.start(folder)
        assert process.wait(LONGEST) == 0, (folder / "driver.log").read_text()[-3000:]


def models(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "exp").iterdir())
            if re.fullmatch(r"(\d+|final|combined|init)\.(raw|mdl)|lda\.mat|post\.\w+\.vec|configs/.*", file.name)}


def check_killed_often(case: Case, num_kills: int) -> None:
    undisturbed = case.prepare("undisturbed")
    begun = time.monotonic()
    case.finish(undisturbed)
    seconds = time.monotonic() - begun

    killed = case.prepare("killed")
    choose = random.Random(SEED)
    kills = 0
    for _ in range(num_kills):
        process = case.start(killed)
        try:
            # starting takes a second or two; and what is begun again is lost, so that most runs must get somewhere
            assert process.wait(choose.uniform(0.1, 0.5) * seconds) == 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    case.finish(killed)
    assert kills >= num_kills // 2 >= 1
    expected = models(undisturbed)
    assert {"init.raw", "lda.mat", "0." + next(iter(expected)).rpartition(".")[2]} - {"0.mat"} <= {*expected, "0.raw"}
    assert models(killed) == expected
    logs = sorted(file.name for file in (undisturbed / "exp" / "log").iterdir() if file.is_file())
    assert sorted(file.name for file in (killed / "exp" / "log").iterdir() if file.is_file()) == logs
    for name in logs:
        assert ended_well(killed / "exp" / "log" / name), name
    left = [file.name for file in (killed / "exp").iterdir() if file.name.endswith(".tmp")]
    assert not left


def test_a_killed_training_ends_in_the_same_model(tmp_path: Path) -> None:
    options = ["--trainer.num-epochs=0.21", "--trainer.optimization.num-jobs-final=2"]       # 3 iterations
    check_killed_often(Case(tmp_path, "train-raw-dnn", options, 28), 3)


@pytest.mark.slow
def test_a_training_killed_twenty_times_ends_in_the_same_model(tmp_path: Path) -> None:
    options = ["--trainer.num-epochs=0.3", "--trainer.optimization.num-jobs-final=2", "--ali-dir=ali",
               "--trainer.num-jobs-compute-prior=2"]
    check_killed_often(Case(tmp_path, "train-dnn", options, 10), 20)


def test_the_examples_have_enough_context() -> None:
    assert LEFT >= 2 + 2        # of the transform in front, and of what follows it
