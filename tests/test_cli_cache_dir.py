"""--compiler.cache-dir and $NNET3PY_COMPUTATION_CACHE: a command's second run compiles nothing and gives the same."""
from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from command_lines import write_table
from digits_cases import CONFIG, write_digits
from runtime_cases import class_example, plain

from nnet3py.cli.nnet.compute import compute
from nnet3py.cli.training.train import compute_prob, train
from nnet3py.compiler import disk_cache
from nnet3py.egs.example import EXAMPLE
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.network.nnet import Nnet

FOLDER = "--compiler.cache-dir=computations"
TIMES = re.compile(r"breakdown: (\S+) compilation, (\S+) optimization, (\S+) shortcut expansion, (\S+) checking")


@pytest.fixture
def folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with plain.raw, examples plain.egs for it, and feats.ark for nnet.raw."""
    monkeypatch.delenv(disk_cache.ENVIRONMENT, raising=False)
    disk_cache._disk_cache.cache_clear()
    plain(objective="linear").write("plain.raw")
    Nnet.from_config(CONFIG).write("nnet.raw")
    write_table("ark:plain.egs", EXAMPLE, {f"eg{i}": class_example(seed=i) for i in range(6)})
    rng = np.random.default_rng(0)
    write_table("ark:feats.ark", FLOAT_MATRIX, {
        f"u{i}": rng.standard_normal((20 + 9 * i, 40), dtype=np.float32) for i in range(3)})
    return here


def times(text: str) -> list[float]:
    """Seconds that the last command took for compiling, optimizing, expanding and checking what it compiled."""
    return [float(number) for number in TIMES.findall(text)[-1]]


def test_training(folder: Path, capfd) -> None:
    """Also on from the model that the first run made: parameters and statistics play no part."""
    words = [FOLDER, "plain.raw", "ark:plain.egs"]
    assert train.execute([*words, "1.raw"]) == 0
    assert sum(times(capfd.readouterr().err)) > 0.0
    assert train.execute([*words, "2.raw"]) == 0
    err = capfd.readouterr().err
    assert times(err) == [0.0] * 4 and "WARNING" not in err
    assert (folder / "1.raw").read_bytes() == (folder / "2.raw").read_bytes()
    assert train.execute([FOLDER, "1.raw", "ark:plain.egs", "3.raw"]) == 0
    assert times(capfd.readouterr().err) == [0.0] * 4


def test_training_a_whole_network_on(folder: Path, capfd) -> None:
    """With statistics, batch normalization and natural gradient; every iteration begins with the last one's model."""
    write_digits(folder)
    for number, model in enumerate(("nnet.raw", "1.raw", "2.raw")):
        assert train.execute([FOLDER, "--feats=ark:feats.ark", "--targets=ark:ali.ark", "--minibatch-size=32",
                              f"--learning-rate={0.01 / (number + 1)}", f"--srand={number}", model,
                              f"{number + 1}.raw"]) == 0
        assert (sum(times(capfd.readouterr().err)) > 0.0) == (number == 0)


@pytest.mark.parametrize("by_environment", [True, False])
def test_computing(folder: Path, capfd, monkeypatch: pytest.MonkeyPatch, by_environment: bool) -> None:
    if by_environment:
        monkeypatch.setenv(disk_cache.ENVIRONMENT, str(folder / "computations"))
    options = [] if by_environment else [FOLDER]
    for number in (1, 2):
        assert compute.execute([*options, "nnet.raw", "ark:feats.ark", f"ark:{number}.ark"]) == 0
        assert (sum(times(capfd.readouterr().err)) > 0.0) == (number == 1)
    assert (folder / "1.ark").read_bytes() == (folder / "2.ark").read_bytes()
    assert len(os.listdir("computations")) == 3


def test_computing_objectives(folder: Path, capfd) -> None:
    logs = []
    for number in (1, 2):
        assert compute_prob.execute([FOLDER, "plain.raw", "ark:plain.egs"]) == 0
        err = capfd.readouterr().err
        assert (sum(times(err)) > 0.0) == (number == 1)
        logs.append(re.findall(r"Overall .*", err))
    assert logs[0] == logs[1] and logs[0]


def test_the_shortcut_can_be_switched_off(folder: Path, capfd) -> None:
    """And has entries of its own."""
    for number, value in enumerate(("true", "false"), 1):
        assert train.execute([FOLDER, f"--compiler.use-shortcut={value}", "plain.raw", "ark:plain.egs",
                              f"{number}.raw"]) == 0
        expansion = times(capfd.readouterr().err)[2]
        assert (expansion > 0.0) == (value == "true")
    assert len(os.listdir("computations")) == 2 and (folder / "1.raw").read_bytes() == (folder / "2.raw").read_bytes()


def test_a_real_second_process(folder: Path, run_launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of their own, with the folder in the environment; the second writes the same and nothing new."""
    monkeypatch.setenv(disk_cache.ENVIRONMENT, str(folder / "computations"))
    for number in (1, 2):
        done = run_launcher("nnet3-compute", "nnet.raw", "ark:feats.ark", f"ark:{number}.ark")
        assert done.returncode == 0, done.stderr
        assert (sum(times(done.stderr)) > 0.0) == (number == 1)
    assert (folder / "1.ark").read_bytes() == (folder / "2.ark").read_bytes()
    assert len(os.listdir("computations")) == 3


def test_a_folder_that_cannot_be_made_is_a_warning(folder: Path, capfd) -> None:
    assert train.execute(["--compiler.cache-dir=plain.raw/x", "plain.raw", "ark:plain.egs", "1.raw"]) == 0
    err = capfd.readouterr().err
    assert err.count("WARNING") == 1 and "computations in" in err
