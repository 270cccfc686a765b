"""What the folder of a training says as a whole: state, command, times, final objectives, word error rates."""
from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from nnet3py.drivers.folder import FolderLock
from nnet3py.drivers.options import RawDnnOptions
from nnet3py.report.training_logs import Iteration, TrainLog, is_running, read_overview, seconds_before

HEAD = "# Started at Tue Nov  3 23:59:30 UTC 2026\n"
TAIL = "# Ended (code 0) at Wed Nov  4 00:01:00 +03 2026, elapsed time 90 seconds\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path


def test_an_empty_folder_says_nothing(folder: Path) -> None:
    overview = read_overview(folder)
    assert not (overview.is_running or overview.is_finished or overview.command or overview.options or overview.final
                or overview.word_errors or overview.iterations)
    assert math.isnan(overview.seconds) and math.isnan(overview.epochs)
    assert overview.epochs_before([Iteration(0)]) == {}


def test_state(folder: Path) -> None:
    (folder / "final.raw").write_bytes(b"x")
    with FolderLock(folder):
        assert is_running(folder) and not read_overview(folder).is_finished
    assert not is_running(folder) and read_overview(folder).is_finished
    (folder / ".lock").write_text("process 1 on elsewhere\n", encoding="utf-8")        # of a driver that was killed
    assert not is_running(folder)


@pytest.mark.parametrize("text", ["{", "[]", '{"plan": 3}'])
def test_a_damaged_record_is_left_out(folder: Path, text: str) -> None:
    (folder / "driver_options.json").write_text(text, encoding="utf-8")
    assert math.isnan(read_overview(folder).archives) and read_overview(folder).command == ""


def test_record_and_times(folder: Path) -> None:
    options = RawDnnOptions(dir="exp/a b", num_epochs=2.0, add_option=("--x=1", "--y=2"), cleanup=False)
    command = options.command("train-raw-dnn")
    assert command == ("train-raw-dnn '--dir=exp/a b' --cleanup=false --trainer.num-epochs=2.0 "
                       "--trainer.add-option=--x=1 --trainer.add-option=--y=2")
    (folder / "driver_options.json").write_text(json.dumps(
        {"command": command, "configs/final.config": "12", "egs info": [1], "use": True, "list": ["a", "b"],
         "plan": {"archives": 8, "epochs": 2.0, "iterations": 3}}), encoding="utf-8")
    (folder / "log" / "train.0.1.log").write_text(HEAD + "x\n" * 2000 + TAIL, encoding="utf-8")
    overview = read_overview(folder)
    assert overview.command == command and overview.options == {"use": "true", "list": "a b"}
    assert overview.seconds == 90.0
    job = TrainLog(seconds=30.0)
    iterations = [Iteration(0, {1: job}), Iteration(1, {1: job, 2: TrainLog(seconds=40.0)}), Iteration(2)]
    assert overview.epochs_before(iterations) == {0: 0.0, 1: 0.25, 2: 0.75}
    assert seconds_before(iterations) == {0: 0.0, 1: 30.0, 2: 70.0}
    iterations[0].jobs[1] = TrainLog()
    assert seconds_before(iterations) == {}


def test_what_was_reached(folder: Path) -> None:
    for which, value in (("combined", -0.5), ("final", -0.4)):
        (folder / "log" / f"compute_prob_valid.{which}.log").write_text(
            f"LOG (x) Overall log-likelihood for 'output' is {value} per frame, over 9\n", encoding="utf-8")
    for name, rate in (("wer_9", 7.5), ("wer_10", 6.5), ("scoring_kaldi/best_wer", 6.25)):
        path = folder / "decode_dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"compute-wer x\n%WER {rate:.2f} [ 5 / 80, 1 ins ]\n%SER 3 [ 1 / 2 ]\n", encoding="utf-8")
    (folder / "decode_dev" / "wer_details").mkdir()
    overview = read_overview(folder)
    assert overview.final == {"valid": {("output", "objective"): -0.4}}
    assert overview.word_errors == {"decode_dev": (6.25, 5, 80)}
