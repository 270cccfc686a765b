"""Trainings from start to end: what they leave, what they refuse; killed at any moment, and begun again."""
from __future__ import annotations

import io
import logging
import os
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
from driver_cases import RNN, TDNN, write_alignments, write_configs, write_egs
from driver_chain_cases import CHAIN, WIDTH, write_chain_configs, write_chain_egs, write_tree_dir
from driver_fakes import write_programs
from paths import ROOT, TESTS
from process_faults import SIGNALS, check_nobody_is_left, kill, messages, unfinished

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.drivers import executor as job_process
from nnet3py.drivers import frame_level
from nnet3py.drivers.diagnostics import ended_well
from nnet3py.drivers.executor import JobsFailed
from nnet3py.drivers.options import DnnOptions, RawDnnOptions, RawRnnOptions, RnnOptions
from nnet3py.drivers.staged import FolderInUse, FolderLock
from nnet3py.errors import FormatError, Nnet3Error, UsageError


@pytest.fixture
def folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A prepared training ``exp`` with examples ``egs``; its programs are stand-ins."""
    programs = write_programs(here / "programs")
    monkeypatch.setattr(job_process, "launcher_folder", lambda: programs)
    monkeypatch.setattr(frame_level.RawTraining, "has_report", lambda self: True)
    write_egs(here / "egs")
    write_configs(here / "exp", TDNN, (2, 2))
    return here / "exp"


def train(**values: object) -> None:
    frame_level.train_raw_dnn(RawDnnOptions(**{                                  # type: ignore[arg-type]
        "dir": "exp", "egs_dir": "egs", "num_epochs": 0.2, "num_jobs_final": 1, "use_gpu": "no", "num_threads": 2,
        **values}))


def numbered(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("*.raw"))


def test_models_that_are_needed_no_more_are_removed(folder: Path) -> None:
    train(max_models_combine=2, preserve_model_interval=3)
    assert numbered(folder) == ["0.raw", "3.raw", "4.raw", "final.raw"]
    assert "exp/4.raw exp/3.raw" in (folder / "log" / "combine.log").read_text()
    report = (folder / "accuracy.output.report").read_text().splitlines()
    assert report[0] == "%Iter\tduration\ttrain_objective\tvalid_objective\tdifference"
    assert [line.split("\t")[0] for line in report[1:5]] == ["0", "1", "2", "3"]
    assert report[1].endswith("\t0.5\t0.5\t0") and report[5].startswith("Total training time is 0:00:0")
    assert (folder / "srand").read_text() == "0\n"
    assert not list(folder.glob("cache.*"))


@pytest.mark.parametrize("interrupted", [False, True])
def test_models_are_there_as_long_as_diagnostics_may_read_them(folder: Path, monkeypatch: pytest.MonkeyPatch,
                                                               interrupted: bool) -> None:
    """In an iteration the progress of the one before it is still shown, from the two models before this one's."""
    at_hand, run_jobs = {}, frame_level.RawTraining.run_jobs

    def look_and_run(training: frame_level.RawTraining, commands: dict[str, str], on_gpu: bool = False) -> None:
        at_hand.update(dict.fromkeys(commands, numbered(folder)))
        run_jobs(training, commands, on_gpu)

    if interrupted:
        train(max_models_combine=1, exit_stage=3, cleanup=False)
    monkeypatch.setattr(frame_level.RawTraining, "run_jobs", look_and_run)
    train(max_models_combine=1)
    iterations = {int(name.split(".")[1]): models for name, models in at_hand.items()
                  if name.startswith(("select.", "average."))}
    assert sorted(iterations) == ([3] if interrupted else [0, 1, 2, 3])
    for iteration, models in iterations.items():
        assert {f"{number}.raw" for number in range(max(iteration - 2, 0), iteration + 1)} <= set(models)


def test_without_cleaning_up_everything_is_kept(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    train(cleanup=False, do_final_combination=False)
    assert caplog.messages.count("nnet3-report --follow exp writes a page to watch, exp/report/report.html") == 1
    assert numbered(folder) == ["0.raw", "1.raw", "2.raw", "3.raw", "4.raw", "final.raw"]
    assert os.readlink(folder / "final.raw") == "4.raw"


def test_a_finished_training_does_nothing(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    train()
    before = (folder / "final.raw").stat().st_mtime_ns
    shutil.rmtree("egs")
    train()
    assert (folder / "final.raw").stat().st_mtime_ns == before
    assert "exp is trained already: exp/final.raw" in caplog.text


def test_other_options_are_refused(folder: Path) -> None:
    train(exit_stage=2)
    assert numbered(folder) == ["0.raw", "1.raw", "2.raw"]
    with pytest.raises(UsageError, match=r"with other options: trainer\.num-epochs was 0\.2 and is 0\.3") as error:
        train(num_epochs=0.3)
    assert "--stage=-100 to train from the beginning, or --stage=N" in str(error.value)
    (folder / "configs" / "final.config").write_text("another network\n")
    with pytest.raises(UsageError, match="configs/final.config was"):
        train()
    assert numbered(folder) == ["0.raw", "1.raw", "2.raw"]


def test_a_mistake_is_corrected_before_anything_was_trained(folder: Path) -> None:
    with pytest.raises(UsageError, match="more than the 3 archives"):
        train(num_jobs_final=4)
    train(num_jobs_final=3, num_epochs=0.3)
    assert (folder / "final.raw").exists()


def test_options_that_change_no_model_may_change(folder: Path) -> None:
    train(exit_stage=2, cleanup=False)
    train(cleanup=True, max_objective_evaluations=7, cmd="run.pl")
    assert "--max-objective-evaluations=7" in (folder / "log" / "combine.log").read_text()


def test_with_a_stage_other_options_go_on_from_there(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(cleanup=False)
    first = {name: (folder / name).read_bytes() for name in numbered(folder)}
    train(cleanup=False, stage=2, srand=5)
    second = {name: (folder / name).read_bytes() for name in numbered(folder)}
    assert "from stage 2 on, other options than before are used: trainer.srand was 0 and is 5" in caplog.text
    assert "the seed is 5, but exp/srand says it was 0 before" in caplog.text
    assert [name for name in first if first[name] == second[name]] == ["0.raw", "1.raw", "2.raw"]


def test_models_after_the_given_stage_are_not_taken_for_its_own(folder: Path) -> None:
    train(cleanup=False)
    train(cleanup=False, stage=1, exit_stage=2)
    assert numbered(folder) == ["0.raw", "1.raw", "2.raw"]
    train(cleanup=False)
    assert len(numbered(folder)) == 6


def test_models_without_a_record_are_refused(folder: Path) -> None:
    train(exit_stage=2)
    (folder / "driver_options.json").unlink()
    with pytest.raises(UsageError, match="no record of the options"):
        train()
    train(stage=2)
    assert (folder / "final.raw").exists()
    (folder / "driver_options.json").write_text("{")
    with pytest.raises(FormatError, match="expected the recorded options of an earlier run, as JSON"):
        train()


def test_the_last_stage_alone(folder: Path) -> None:
    train(cleanup=False)
    before = {name: (folder / name).read_bytes() for name in numbered(folder)}
    (folder / "log" / "train.3.1.log").unlink()
    train(cleanup=False, stage=4)
    assert {name: (folder / name).read_bytes() for name in numbered(folder)} == before
    assert not (folder / "log" / "train.3.1.log").exists()


def test_a_stage_needs_its_model(folder: Path) -> None:
    train()
    with pytest.raises(UsageError, match=r"begins with exp/2\.raw, which is not there"):
        train(stage=2)                    # removed as not needed any more
    assert (folder / "final.raw").exists()


def test_other_examples_are_refused(folder: Path) -> None:
    train(exit_stage=2)
    (folder.parent / "egs" / "info" / "num_frames").write_text("170\n")
    with pytest.raises(UsageError, match="are others than those that exp was begun with"):
        train()


def test_examples_must_fit(folder: Path) -> None:
    with pytest.raises(Nnet3Error, match="frames per example"):
        train(frames_per_eg=7)
    (folder / "configs" / "vars").write_text("model_left_context=5\nmodel_right_context=2\n")
    with pytest.raises(Nnet3Error, match="left and right context"):
        train(stage=-100)
    (folder / "configs" / "vars").write_text("left_context=x\nmodel_right_context=2\n")
    with pytest.raises(FormatError, match="expected model_left_context"):
        train(stage=-100)
    (folder / "configs" / "vars").unlink()
    with pytest.raises(UsageError, match="make the network's configs first"):
        train(stage=-100)


def test_a_failing_job_stops_the_training(folder: Path) -> None:
    program = folder.parent / "programs" / "nnet3-train"
    text = program.read_text()
    program.write_text("#!/bin/sh\necho 'ERROR: no luck' >&2\nexit 3\n")
    with pytest.raises(JobsFailed, match=r"train\.0\.1\.log(.|\n)*no luck"):
        train()
    program.write_text(text)
    train()
    assert (folder / "final.raw").exists()


def test_failing_diagnostics_are_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder.parent / "programs" / "nnet3-compute-prob").write_text("#!/bin/sh\nexit 3\n")
    train()
    assert "the diagnostics of model 1 failed; training goes on" in caplog.text
    assert (folder / "final.raw").exists()


def test_a_regression_is_shown_without_accuracy(folder: Path) -> None:
    lines = [f"LOG (nnet3-compute-prob[5.5]:x():y.cc:1) Overall {what} per frame, over 8 frames."
             for what in ("objective for 'output' is -0.75", "accuracy for 'output' is -1.1")]
    (folder.parent / "programs" / "nnet3-compute-prob").write_text(f'#!/bin/sh\necho "{lines[0]}\n{lines[1]}"\n')
    terminal = io.StringIO()
    options = RawDnnOptions(dir="exp", egs_dir="egs", num_epochs=0.1, num_jobs_final=1, use_gpu="no")
    frame_level.train_raw_dnn(options, terminal=terminal)
    rows = terminal.getvalue().replace("\r\x1b[K", "\n").split("\n")
    assert rows[-2].split()[4:7] == ["-1.5", "-0.75", "1"], "train, valid, the model's number"
    assert lines[1] in (folder / "log" / "compute_prob_valid.0.log").read_text()
    assert (folder / "accuracy.output.report").read_text().splitlines()[1].endswith("\t-0.75\t-0.75\t0")


def test_a_terminal_is_rewritten(folder: Path) -> None:
    terminal = io.StringIO()
    options = RawDnnOptions(dir="exp", egs_dir="egs", num_epochs=0.1, num_jobs_final=1, use_gpu="no")
    frame_level.train_raw_dnn(options, terminal=terminal)
    lines = terminal.getvalue().split("\n")
    assert lines[0].split()[1:] == "iter jobs epoch rate train valid accuracy of frames/s left".split()
    running, done = lines[1].split("\r\x1b[K")
    assert running == "     0/1    1   0.00 0.000300   …" and done.startswith("     0/1    1   0.00 0.000300     -1.5")
    cells = lines[2].split("\r\x1b[K")[-1].split()
    assert cells[0] == "1/1" and cells[-5:-2] == ["-1.5", "0.5", "1"] and cells[-1] == "0:00:00"


def test_two_drivers_do_not_share_a_folder(folder: Path) -> None:
    with FolderLock(folder):
        with pytest.raises(FolderInUse, match=f"already, by process {os.getpid()} on "):
            train()
    train()


def test_the_lock_of_a_dead_driver_is_no_lock(tmp_path: Path) -> None:
    code = ("import sys, os, signal; from pathlib import Path; from nnet3py.drivers.staged import FolderLock\n"
            "FolderLock(Path(sys.argv[1])).__enter__(); os.kill(os.getpid(), signal.SIGKILL)")
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT)
    assert ended.returncode == -9 and "process" in (tmp_path / ".lock").read_text()
    with FolderLock(tmp_path):
        pass


@pytest.mark.parametrize("values, what", [
    ({"dir": ""}, "no folder was given"), ({"dir": "my exp"}, "a meaning for the shell"),
    ({"max_models_combine": 0}, "--trainer.optimization.max-models-combine=0: expected 1"),
    ({"dropout_schedule": "0.3"}, "dropout-schedule"), ({"num_jobs_final": 4}, "more than the 3 archives")])
def test_options_that_cannot_be(folder: Path, values: dict, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        train(**values)


def test_an_acoustic_model_needs_alignments() -> None:
    with pytest.raises(UsageError, match="no alignments"):
        frame_level.train_dnn(DnnOptions(dir="exp"))


# -- with the real programs --------------------------------------------------------------------------------------------

def acoustic_values(root: Path) -> dict:
    write_egs(root / "egs", classes=10)
    write_alignments(root / "ali")
    return {"dir": str(root / "exp"), "egs_dir": str(root / "egs"), "ali_dir": str(root / "ali"), "use_gpu": "no",
            "num_jobs_final": 1, "num_threads": 2, "num_jobs_compute_prior": 1}


def test_an_acoustic_model(here: Path) -> None:
    write_configs(here / "exp", TDNN, (2, 2), 10, lda=True)
    frame_level.train_dnn(DnnOptions(**acoustic_values(here), num_epochs=0.05, minibatch_size="4"))
    model = nnet3py.read_model(str(here / "exp" / "final.mdl"))
    assert isinstance(model, AcousticModel)
    assert len(model.priors) == 10 and model.priors.sum() == pytest.approx(1.0, abs=1e-5)
    files = {file.name for file in (here / "exp").iterdir()}
    assert {"0.mdl", "1.mdl", "combined.mdl", "tree", "num_jobs", "lda.mat", "presoftmax_prior_scale.vec",
            "accuracy.report"} <= files
    logs = {file.name for file in (here / "exp" / "log").iterdir()}
    assert {"nnet_init.log", "get_lda_stats.1.log", "acc_pdf.1.log", "add_first_layer.log", "init_mdl.log",
            "train.0.1.log", "select.0.log", "compute_prob_valid.0.log", "compute_prob_train.combined.log",
            "combine.log", "get_post.combined.1.log", "adjust_priors.combined.log"} <= logs


@pytest.mark.slow
def test_a_recurrent_network(tmp_path: Path) -> None:
    write_egs(tmp_path / "egs")
    write_configs(tmp_path / "exp", RNN, (0, 0))
    frame_level.train_raw_rnn(RawRnnOptions(
        dir=str(tmp_path / "exp"), egs_dir=str(tmp_path / "egs"), use_gpu="no", num_jobs_final=1, num_threads=2,
        num_epochs=0.67, chunk_width="8", chunk_left_context=4, chunk_right_context=3, num_chunk_per_minibatch="2"))
    first, second = ((tmp_path / "exp" / "log" / f"train.{number}.1.log").read_text() for number in (0, 1))
    assert "--learning-rate=0.0003 --scale=0.99 " in first           # before the first iteration it counts as saturated
    assert "--optimization.min-deriv-time=-8 --optimization.max-deriv-time-relative=8 " in second
    assert "--scale=1.0 " in second or "--scale=0.99 " in second
    assert nnet3py.read_nnet(str(tmp_path / "exp" / "final.raw")).output_dim("output") == 28


@pytest.mark.slow
def test_a_recurrent_acoustic_model(tmp_path: Path) -> None:
    write_configs(tmp_path / "exp", RNN, (0, 0), 10)
    frame_level.train_rnn(RnnOptions(**acoustic_values(tmp_path), num_epochs=0.67, chunk_width="8",
                                     chunk_left_context=4, chunk_right_context=3, num_chunk_per_minibatch="2"))
    assert len(nnet3py.read_model(str(tmp_path / "exp" / "final.mdl")).priors) == 10


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


RNN_EGS = ("--egs.chunk-width=8", "--egs.chunk-left-context=0")        # of these examples
RNN_MINIBATCH = {"minibatch": "rnn.num-chunk-per-minibatch=2"}


@pytest.mark.slow
def test_a_killed_training_ends_in_the_same_network(tmp_path: Path) -> None:
    check_killed(tmp_path, real_programs("train-raw-dnn", "--trainer.num-epochs=0.13"), 6)      # 2 iterations


@pytest.mark.slow
def test_a_killed_training_on_chunks_ends_in_the_same_network(tmp_path: Path) -> None:
    check_killed(tmp_path, real_programs("train-raw-rnn", "--trainer.num-epochs=1", *RNN_EGS, **RNN_MINIBATCH), 6)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train-dnn", "train-rnn"])
def test_an_acoustic_model_killed_twenty_times_is_the_same(tmp_path: Path, command: str) -> None:
    options = ["--ali-dir=ali", "--trainer.num-jobs-compute-prior=2"]
    start = (real_programs(command, "--trainer.num-epochs=0.5", *options) if command == "train-dnn" else
             real_programs(command, "--trainer.num-epochs=2", *options, *RNN_EGS, **RNN_MINIBATCH))
    check_killed(tmp_path, start, 20, classes=10, part=(0.05, 0.15))


@pytest.mark.slow
def test_a_chain_model_killed_twenty_times_is_the_same(tmp_path: Path) -> None:
    start = real_programs("train-chain", "--trainer.num-epochs=0.7", "--tree-dir=tree", f"--egs.chunk-width={WIDTH}",
                          "--chain.phone-lm=phone_lm.fst", "--chain.xent-regularize=0.1",
                          minibatch="num-chunk-per-minibatch=4,2,1")
    check_killed(tmp_path, start, 20, part=(0.05, 0.15), prepare=prepare_chain)
