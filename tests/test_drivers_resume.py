"""A training that is killed at any moment, and started again, ends in the same model."""
from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import process_faults
import pytest
from driver_cases import TDNN, write_alignments, write_configs, write_egs
from driver_chain_cases import CHAIN, WIDTH, write_chain_configs, write_chain_egs, write_tree_dir
from driver_fakes import write_programs
from paths import ROOT, TESTS
from process_faults import SIGNALS, check_nobody_is_left, kill, messages, unfinished

from nnet3py.drivers.diagnostics import ended_well

LONGEST = 600.0              # seconds of a training here, however busy the machine is
SEED = 20
PARSED = ("train.", "compute_prob_", "progress.")      # logs with figures of an iteration

Start = Callable[[Path], "subprocess.Popen[bytes]"]


def prepare(folder: Path, classes: int) -> Path:
    """A training that has an LDA-like transform. Its folders are named relatively, for their names are in files."""
    write_egs(folder / "egs", classes=classes)
    write_alignments(folder / "ali")
    write_configs(folder / "exp", TDNN, (2, 2), classes, lda=True)
    return folder


def prepare_chain(folder: Path, classes: int) -> Path:
    """A chain training with an LDA-like transform, on examples that are there."""
    write_chain_egs(folder / "egs", num_archives=3)
    write_tree_dir(folder / "tree")
    shutil.copyfile(CHAIN / "phone_lm.fst", folder / "phone_lm.fst")
    write_chain_configs(folder / "exp", lda=True)
    return folder


def finish(start: Start, folder: Path) -> float:
    """Train to the end; returns the seconds that took."""
    begun = time.monotonic()
    assert start(folder).wait(LONGEST) == 0, messages(folder)[-3000:]
    return time.monotonic() - begun


def models(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "exp").iterdir())
            if re.fullmatch(r"(\d+|final|combined|init)\.(raw|mdl)|lda\.mat|post\.\w+\.vec|srand|\w+\.fst", file.name)}


def check_killed(root: Path, start: Start, kills: int, classes: int = 28,
                 part: tuple[float, float] = (0.1, 0.5),
                 prepare: Callable[[Path, int], Path] = prepare) -> None:
    """Compare an undisturbed training with one killed ``kills`` times, after a random part of the other's time.

    By a signal that it may notice, or by one that it cannot; no process outlives it.
    """
    undisturbed, killed = prepare(root / "undisturbed", classes), prepare(root / "killed-0", classes)
    seconds = finish(start, undisturbed)
    choose = random.Random(SEED)
    done, trainings = 0, 1
    while done < kills:
        process = start(killed)
        try:
            assert process.wait(choose.uniform(*part) * seconds) == 0
            check_same(undisturbed, killed)      # it came to its end; the other kills are for another one
            killed = prepare(root / f"killed-{trainings}", classes)
            trainings += 1
        except subprocess.TimeoutExpired:
            number = choose.choice(SIGNALS)
            kill(process, number)
            assert process.wait(LONGEST) in (-number, 128 + number), messages(killed)[-3000:]
            check_nobody_is_left(killed)
            done += 1
    finish(start, killed)
    check_same(undisturbed, killed)


def check_same(undisturbed: Path, killed: Path) -> None:
    """The same models, to the byte, and the same figures for reports."""
    expected = models(undisturbed)
    assert {"init.raw", "lda.mat", "srand"} < expected.keys() and any(name.startswith("final.") for name in expected)
    assert models(killed) == expected
    logs = {file.name for file in (undisturbed / "exp" / "log").glob("*.log")}
    found = {file.name for file in (killed / "exp" / "log").glob("*.log")}
    # A step whose job was killed after its product was complete, and before its log, is not repeated.
    parsed = [name for name in found if name.startswith(PARSED)]
    assert found <= logs and parsed
    assert [name for name in parsed if not ended_well(killed / "exp" / "log" / name)] == []
    assert unfinished(killed) == [] and "internal error" not in messages(killed)


@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_a_training_killed_often_ends_in_the_same_model(tmp_path: Path, kills: int) -> None:
    """With stand-ins for the programs, so that most kills meet the driver itself between two steps."""
    programs = write_programs(tmp_path / "programs")
    script = [sys.executable, str(TESTS / "driver_fakes.py"), str(programs), "exp"]
    check_killed(tmp_path, lambda folder: process_faults.start(script, folder), kills, part=(0.15, 0.35))


@pytest.mark.slow
def test_a_chain_training_killed_often_ends_in_the_same_model(tmp_path: Path) -> None:
    programs = write_programs(tmp_path / "programs")
    script = [sys.executable, str(TESTS / "driver_fakes.py"), str(programs), "exp", "chain"]
    check_killed(tmp_path, lambda folder: process_faults.start(script, folder), 6, part=(0.15, 0.5),
                 prepare=prepare_chain)


def real_programs(command: str, *options: str, minibatch: str = "optimization.minibatch-size=2") -> Start:
    words = [str(ROOT / "bin" / command), "--dir=exp", "--egs.dir=egs", "--use-gpu=no", "--num-threads=2",
             "--trainer.srand=3", f"--trainer.{minibatch}", "--trainer.dropout-schedule=0,0.2,0",
             "--trainer.optimization.num-jobs-final=2", *options]
    return lambda folder: process_faults.start(words, folder)


RNN = ("--egs.chunk-width=8", "--egs.chunk-left-context=0")        # of these examples
RNN_MINIBATCH = {"minibatch": "rnn.num-chunk-per-minibatch=2"}


@pytest.mark.slow
def test_a_killed_training_ends_in_the_same_network(tmp_path: Path) -> None:
    check_killed(tmp_path, real_programs("train-raw-dnn", "--trainer.num-epochs=0.13"), 6)      # 2 iterations


@pytest.mark.slow
def test_a_killed_training_on_chunks_ends_in_the_same_network(tmp_path: Path) -> None:
    check_killed(tmp_path, real_programs("train-raw-rnn", "--trainer.num-epochs=1", *RNN, **RNN_MINIBATCH), 6)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train-dnn", "train-rnn"])
def test_an_acoustic_model_killed_twenty_times_is_the_same(tmp_path: Path, command: str) -> None:
    options = ["--ali-dir=ali", "--trainer.num-jobs-compute-prior=2"]
    start = (real_programs(command, "--trainer.num-epochs=0.5", *options) if command == "train-dnn" else
             real_programs(command, "--trainer.num-epochs=2", *options, *RNN, **RNN_MINIBATCH))
    check_killed(tmp_path, start, 20, classes=10, part=(0.05, 0.15))


@pytest.mark.slow
def test_a_chain_model_killed_twenty_times_is_the_same(tmp_path: Path) -> None:
    start = real_programs("train-chain", "--trainer.num-epochs=0.7", "--tree-dir=tree", f"--egs.chunk-width={WIDTH}",
                          "--chain.phone-lm=phone_lm.fst", "--chain.xent-regularize=0.1",
                          minibatch="num-chunk-per-minibatch=4,2,1")
    check_killed(tmp_path, start, 20, part=(0.05, 0.15), prepare=prepare_chain)
