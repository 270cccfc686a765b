"""Logs and folders of trainings: what is read of Kaldi's logs, and of a driver's record."""
from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from nnet3py.drivers.options import RawDnnOptions
from nnet3py.drivers.staged import FolderLock
from nnet3py.errors import UsageError
from nnet3py.report.training_logs import (
    Iteration,
    Summary,
    TrainLog,
    is_running,
    parse_component_line,
    read_compute_prob_log,
    read_iterations,
    read_overview,
    read_progress_log,
    read_train_log,
    seconds_before,
)

TRAIN = """\
# Running on host
# Started at Sat Nov 21 17:00:00 UTC 2026
# nnet3-train --print-interval=10 "nnet3-copy --learning-rate=0.0006 --scale=1.0 exp/3.mdl - |" "ark,bg:… |" exp/4.1.raw
LOG (nnet3-train[5.5]:PrintStatsForThisPhase():nnet-training.cc:278) Average objective function for 'output' for \
minibatches 0-3 is -3.1 over 2034 frames.
LOG (nnet3-train[5.5]:PrintTotalStats():nnet-training.cc:317) Overall average objective function for 'output' is \
-1.5 + -0.25 = -1.75 over 1.2e+06 frames.
LOG (nnet3-train[5.5]:PrintTotalStats():nnet-training.cc:317) Overall average objective function for 'output-xent' is \
-2 over 640 frames.
LOG (nnet3-train[5.5]:PrintMaxChangeStats():nnet-utils.cc:2265) For tdnn1.affine, per-component max-change was \
enforced 12.5 % of the time.
LOG (nnet3-train[5.5]:PrintMaxChangeStats():nnet-utils.cc:2275) The global max-change was enforced 3 % of the time.
# Accounting: time=17 threads=2
# Ended (code 0) at Sat Nov 21 17:00:17 UTC 2026, elapsed time 17 seconds
"""

PROB = """\
LOG (nnet3-compute-prob[5.5]:PrintTotalStats():nnet-diagnostics.cc:165) Overall log-likelihood for 'output' is \
-0.75 per frame, over 1000 frames.
LOG (nnet3-compute-prob[5.5]:PrintTotalStats():nnet-diagnostics.cc:165) Overall accuracy for 'output' is 0.8 per \
frame, over 1000 frames.
LOG (nnet3-chain-compute-prob[5.5]:PrintTotalStats():nnet-chain-diagnostics.cc:165) Overall log-probability for 'b' \
is -0.1 + -0.02 = -0.12 per frame, over 1000 frames.
"""

RELU = ("component name=tdnn1.relu type=RectifiedLinearComponent, dim=40, self-repair-scale=1e-05, count=8.83e+03, "
        "self-repaired-proportion=0.1, value-avg=[percentiles(0,1,2,5 10,20,50,80,90 95,98,99,100)=(0.04,0.04,0.04,"
        "0.06 0.09,0.14,0.27,0.86,1.4 1.6,2.2,2.2,2.4), mean=0.534, stddev=0.585], deriv-avg=[ 0.1 0.2 ]")
LSTM = ("component name=l type=LstmNonlinearityComponent, input-dim=200, use-dropout=false, count=24, i_t_sigmoid={ "
        "self-repair-scale=1e-05, value-avg=[percentiles(0,1 100)=(0.04,0.09 0.79), mean=0.4, stddev=0.2], "
        "deriv-avg=[ 1 2 ] }, c_t_tanh={ self-repair-scale=2e-05 }")
AFFINE = "component name=a type=AffineComponent, linear-params-rms=nan, bias-{mean,stddev}=0.5,1.5, rank-in=20"

PROGRESS = f"""\
left-context: 12
num-parameters: 4711
{AFFINE}
{RELU}
LOG (nnet3-show-progress[5.5]:main():nnet3-show-progress.cc:143) Parameter differences per layer are  [ a:0.5 l:2 ]
LOG (nnet3-show-progress[5.5]:main():nnet3-show-progress.cc:157) Relative parameter differences per layer are  [ \
a:0.05 ]
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_training_jobs_log(tmp_path: Path) -> None:
    log = read_train_log(write(tmp_path, "train.3.1.log", TRAIN))
    assert log.objectives == {"output": -1.75, "output-xent": -2.0}
    assert log.frames == {"output": 1.2e6, "output-xent": 640.0}
    assert log.max_change == {"tdnn1.affine": 12.5, "": 3.0}
    assert (log.seconds, log.threads, log.learning_rate) == (17.0, 2, 0.0006)


def test_a_log_that_is_not_finished_has_what_it_has(tmp_path: Path) -> None:
    log = read_train_log(write(tmp_path, "train.3.1.log", TRAIN[:300]))
    assert not log.objectives and math.isnan(log.seconds) and log.learning_rate == 0.0006


def test_the_log_of_a_diverged_job_says_nan(tmp_path: Path) -> None:
    log = read_train_log(write(tmp_path, "train.0.1.log", TRAIN.replace("-1.5 + -0.25 = -1.75", "-nan")))
    assert math.isnan(log.objectives["output"])


def test_objectives_and_accuracies_of_diagnostics(tmp_path: Path) -> None:
    values = read_compute_prob_log(write(tmp_path, "compute_prob_valid.3.log", PROB))
    assert values == {("output", "objective"): -0.75, ("output", "accuracy"): 0.8, ("b", "objective"): -0.12}


def test_quadratic_objectives_have_no_accuracy(tmp_path: Path) -> None:
    text = PROB + PROB.replace("'output'", "'regression'").replace("log-likelihood", "objective")
    values = read_compute_prob_log(write(tmp_path, "compute_prob_valid.3.log", text))
    assert values["regression", "objective"] == -0.75 and ("regression", "accuracy") not in values
    assert values["output", "accuracy"] == 0.8


def test_component_lines_fields() -> None:
    relu, lstm, affine = (parse_component_line(line) for line in (RELU, LSTM, AFFINE))
    assert relu is not None and lstm is not None and affine is not None
    assert relu.number("count") == 8830 and relu.fields["deriv-avg"] == "[ 0.1 0.2 ]"
    summary = relu.summary("value-avg")
    assert summary is not None and summary.mean == 0.534 and len(summary.percentiles) == 13
    assert summary.percentiles[-1] == 2.4 and relu.summary("deriv-avg") is None
    assert lstm.fields["use-dropout"] == "false" and lstm.number("count") == 24
    assert lstm.fields["i_t_sigmoid"] == {"self-repair-scale": 1e-05, "deriv-avg": "[ 1 2 ]",
                                          "value-avg": Summary((0.04, 0.09, 0.79), 0.4, 0.2)}
    assert lstm.fields["c_t_tanh"] == {"self-repair-scale": 2e-05}
    assert math.isnan(affine.number("linear-params-rms")) and affine.number("rank-in") == 20
    assert affine.number("bias-mean") == 0.5 and affine.number("bias-stddev") == 1.5
    assert parse_component_line("component-node name=a component=a input=b") is None


def test_progress_logs_have_components_and_changes(tmp_path: Path) -> None:
    log = read_progress_log(write(tmp_path, "progress.4.log", PROGRESS))
    assert list(log.components) == ["a", "tdnn1.relu"]
    assert log.numbers == {"left-context": 12, "num-parameters": 4711}
    assert log.changes == {"a": 0.5, "l": 2.0} and log.relative_changes == {"a": 0.05} and not log.norms


def test_iterations_of_a_folder_in_order(tmp_path: Path) -> None:
    for name, text in {"train.10.1.log": TRAIN, "train.2.1.log": TRAIN, "train.2.2.log": TRAIN,
                       "compute_prob_train.2.log": PROB, "compute_prob_valid.final.log": PROB,
                       "progress.10.log": PROGRESS, "other.log": "text"}.items():
        write(tmp_path, f"log/{name}", text)
    iterations = read_iterations(tmp_path)
    assert [(one.number, sorted(one.jobs)) for one in iterations] == [(2, [1, 2]), (10, [1])]
    assert iterations[0].train["output", "accuracy"] == 0.8 and not iterations[0].valid
    assert iterations[0].progress is None and iterations[1].progress is not None


def test_a_folder_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no logs of a training"):
        read_iterations(tmp_path)


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
