"""egs/digits: run.sh with and without the packages for decoding; whole runs, here and on dask's workers."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

DIGITS = ROOT / "egs" / "digits"
TABLE = ("tdnn     177180          0.910        -0.3000", "frame accuracy 0.910\nlog-likelihood -0.3000\n")
SAME_ACCURACY = 0.01       # between two short trainings, whose roundings differ with the number of threads
SHORT = ["--nets", "tdnn", "--num-epochs", "1"]
LEARNED = 0.85              # frame accuracy, after one pass


def run(command: list[str | Path], timeout: float = 60, **variables: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "NNET3PY_PYTHON": sys.executable, **{name: str(value) for name, value in variables.items()}}
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, env=env)


@pytest.fixture
def no_packages(tmp_path: Path) -> Path:
    """A folder of launchers whose Python has none of the packages asked for."""
    launcher = tmp_path / "launchers" / "nnet3-extras"
    launcher.parent.mkdir()
    launcher.write_text('#!/bin/sh\ncase "$*" in\n*--python) echo python3 ;;\n'
                        '*) echo "decode words: a missing; install: so and so"; exit 1 ;;\nesac\n')
    launcher.chmod(0o755)
    return launcher.parent


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    """exp/ after stage 3."""
    (tmp_path / "exp" / "tdnn").mkdir(parents=True)
    (tmp_path / "exp" / "tdnn" / "info.txt").write_text("left-context: 9\nnum-parameters: 177180\n")
    (tmp_path / "exp" / "tdnn" / "frames.txt").write_text(TABLE[1])
    return tmp_path / "exp"


@pytest.mark.parametrize("script", ["run.sh", "run_quick.sh", "local/decode.sh", "local/with_dask.sh"])
def test_help_and_wrong_options(script: str) -> None:
    helped = run([DIGITS / script, "--help"])
    assert helped.returncode == 0 and script in helped.stdout and "What it makes" in helped.stdout
    wrong = run([DIGITS / script, "--no-such", "1"])
    assert wrong.returncode == 1 and "unknown option --no-such" in wrong.stderr


@pytest.mark.parametrize(("options", "message"), [
    (["--nets", "tdnn gru"], "not 'gru'"),
    (["--decode", "maybe"], "--decode is auto, true or false, not 'maybe'"),
])
def test_wrong_values(options: list[str], message: str, tmp_path: Path) -> None:
    failed = run([DIGITS / "run.sh", "--dir", tmp_path / "exp", *options])
    assert failed.returncode == 1 and message in failed.stderr and not (tmp_path / "exp").exists()


def test_decoding_that_was_asked_for_fails_before_anything_else(no_packages: Path, tmp_path: Path) -> None:
    failed = run([DIGITS / "run.sh", "--dir", tmp_path / "exp", "--decode", "true"], NNET3PY_BIN=no_packages)
    assert failed.returncode == 1 and "needs more packages (so and so)" in failed.stderr
    assert not (tmp_path / "exp").exists()


@pytest.mark.parametrize(("decode", "said"), [("auto", True), ("false", False)])
def test_without_decoding(decode: str, said: bool, no_packages: Path, scored: Path) -> None:
    (scored / "tdnn" / "decode").mkdir()
    (scored / "tdnn" / "decode" / "wer.txt").write_text("%WER 99.00 [ of an earlier network ]\n")
    done = run([DIGITS / "run.sh", "--dir", scored, "--stage", "4", "--nets", "tdnn", "--decode", decode],
               NNET3PY_BIN=no_packages)
    assert done.returncode == 0 and ("needs more packages (so and so)" in done.stderr) == said
    assert done.stdout.splitlines()[1].split() == [*TABLE[0].split(), "-"]
    assert (scored / "results.txt").read_text() == done.stdout


def test_table(scored: Path) -> None:
    (scored / "tdnn" / "decode").mkdir()
    (scored / "tdnn" / "decode" / "wer.txt").write_text("%WER 2.18 [ 13 / 596, 2 ins, 4 del, 7 sub ]\n%SER 9.17\n")
    done = run([DIGITS / "run.sh", "--dir", scored, "--stage", "5", "--nets", "tdnn"])
    assert done.stdout.splitlines()[1].split() == [*TABLE[0].split(), "2.18"]


def test_a_missing_model_is_named(scored: Path) -> None:
    failed = run([DIGITS / "run.sh", "--dir", scored, "--stage", "4", "--nets", "tdnn", "--decode", "true"])
    assert failed.returncode == 1 and f"no {scored}/tdnn/final.mdl" in failed.stderr


def test_the_quick_recipe_ends_with_what_to_do_next(tmp_path: Path) -> None:
    """make demo is this recipe."""
    net = tmp_path / "exp" / "tdnn"
    (net / "log").mkdir(parents=True)
    (net / "info.txt").write_text("num-parameters: 177180\n")
    (net / "passes.txt").write_text("6 0.0002 -0.0178\n")
    (net / "log" / "score.log").write_text("LOG Overall accuracy for 'output' is 0.91 per frame, over 9 frames.\n")
    done = run([DIGITS / "run_quick.sh", "--dir", tmp_path / "exp", "--nets", "tdnn", "--stage", "5"])
    assert done.returncode == 0, done.stderr
    assert "177180" in (table := (tmp_path / "exp" / "results.txt").read_text()) and done.stdout.startswith(table)
    rest = done.stdout[len(table):]
    assert f"lies in {tmp_path}/exp. Next:" in rest
    named = re.findall(rf"({re.escape(str(ROOT))}/\S+)", rest)
    assert {str(path) for path in (ROOT / "bin/nnet3py", ROOT / "bin/nnet3-compute", ROOT / "docs/tutorial.md",
                                   ROOT / "egs/digits/run.sh")} <= set(named)
    assert all(Path(path.removeprefix("ark:")).exists() for path in named)
    assert f"{net}/final.raw" in rest


def accuracy(table: str) -> float:
    return float(re.search(r"^tdnn +\d+ +(\S+)", table, re.MULTILINE)[1])


@pytest.mark.slow
def test_dask_workers_train_to_the_same_accuracy(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="dask's workers need the extra 'dask'")
    here = run([DIGITS / "run.sh", "--dir", tmp_path / "here", *SHORT], timeout=1800)
    assert here.returncode == 0, here.stderr[-2000:]
    there = run([DIGITS / "local/with_dask.sh", "--dir", tmp_path / "there", *SHORT], timeout=1800)
    assert there.returncode == 0, there.stderr[-2000:]
    assert accuracy(here.stdout) > LEARNED
    assert accuracy(there.stdout) == pytest.approx(accuracy(here.stdout), abs=SAME_ACCURACY)
