"""Steps that are done once, in whatever way the work was interrupted, and killed at any moment."""
from __future__ import annotations

import io
import logging
import random
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import process_faults
import pytest
from job_recorder import Recorder
from paths import ROOT
from preparation_cases import make_data
from process_faults import SIGNALS, check_nobody_is_left, kill, messages, unfinished

from nnet3py.drivers.executor import JobsFailed
from nnet3py.drivers.staged import StagedWork, Step
from nnet3py.drivers.staged_options import IvectorOptions
from nnet3py.errors import UsageError


class Work(StagedWork):
    """Two jobs that feed a third, which leaves nothing of theirs, and a product."""

    def begin(self) -> None:
        self.written: list[str] = []

    def inputs(self) -> Iterable[Path]:
        return [Path(self.options.feat_dir)]

    @property
    def product(self) -> Path:
        return self.path / "product"

    def steps(self) -> Sequence[Step]:
        return [Step(-1, "first", "Doing the first", [self.job("echo 1", "one"), self.job("echo 2", "two")],
                     action=lambda: self._write("half")),
                Step(0, "second", "Doing the second", [self.job("echo 3", "three")], needs=[self.path / "half"],
                     leaves=[self.path / "half"], result=lambda: "a result"),
                Step(1, "last", "Doing the last", action=lambda: self._write("product"))]

    def _write(self, name: str) -> None:
        self.written.append(name)
        (self.path / name).touch()


def run(folder: Path, executor: Recorder | None = None, terminal: io.StringIO | None = None,
        **changed: Any) -> tuple[list[str], list[str]]:
    """The commands that ran, without their marks, and what was written."""
    (folder / "data").touch()
    executor = executor or Recorder()
    done = Work(IvectorOptions(**{"dir": str(folder / "exp"), "feat_dir": str(folder / "data"), "extractor_dir": "x",
                                  **changed}), executor, terminal)
    done.run()
    return [command.partition(" &&")[0] for command in executor.ran], done.written


def test_everything_is_done_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    ran, written = run(tmp_path)
    assert sorted(ran[:2]) == ["echo 1", "echo 2"] and ran[2:] == ["echo 3"] and written == ["half", "product"]
    assert not (tmp_path / "exp/half").exists() and (tmp_path / "exp/product").exists()
    assert "[2/3] Doing the second: a result" in caplog.messages
    assert caplog.messages[-1].endswith("product is complete")
    assert run(tmp_path) == ([], [])
    assert caplog.messages[-1].endswith("product is there already")


def test_it_goes_on_where_a_job_failed(tmp_path: Path) -> None:
    executor = Recorder()
    executor.fails = {"two"}
    with pytest.raises(JobsFailed):
        run(tmp_path, executor)
    assert run(tmp_path) == (["echo 2", "echo 3"], ["half", "product"])


def test_it_stops_and_begins_where_the_user_says(tmp_path: Path) -> None:
    assert run(tmp_path, exit_stage=0)[1] == ["half"]
    assert run(tmp_path, exit_stage=1) == (["echo 3"], [])
    assert run(tmp_path) == ([], ["product"])
    with pytest.raises(UsageError, match="stage 0 needs .*half, which is not there"):
        run(tmp_path, stage=0)
    assert run(tmp_path, stage=-1)[1] == ["half", "product"]
    (tmp_path / "exp/product").unlink()
    assert run(tmp_path)[1] == ["half", "product"]                    # what was marked, is not there any more


def test_other_options_or_data_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, exit_stage=1, cleanup=False)
    with pytest.raises(UsageError, match="begun with other options or data: max-count was 0.0 and is 3.0") as refused:
        run(tmp_path, max_count=3.0)
    assert "--stage=-1 to repeat all" in str(refused.value.hint)
    (tmp_path / "data").write_text("other")
    with pytest.raises(UsageError, match="data was "):
        run(tmp_path)
    assert run(tmp_path, stage=0, nj=7) == (["echo 3"], ["product"])
    assert "from stage 0 on, other options or data" in caplog.text
    assert run(tmp_path) == ([], [])


def test_options_may_be_corrected_while_nothing_is_lost(tmp_path: Path) -> None:
    executor = Recorder()
    executor.fails = {"one", "two"}
    with pytest.raises(JobsFailed):
        run(tmp_path, executor)
    assert run(tmp_path, max_count=3.0)[1] == ["half", "product"]


def test_a_terminal_shows_each_step_in_a_line(tmp_path: Path) -> None:
    terminal = io.StringIO()
    run(tmp_path, terminal=terminal)
    lines = terminal.getvalue().split("\n")
    assert len(lines) == 4 and lines[1].startswith("\r\x1b[K[2/3] Doing the second   …\r\x1b[K[2/3] Doing the second")
    assert "a result   " in lines[1] and lines[1].endswith(" s")


LONGEST = 600.0              # seconds of one work, however busy the machine is
KILLS = 10
SEED = 21
SMALL_EXTRACTOR = ["--nj=2", "--pca.dim=6", "--pca.subsample=1", "--ubm.num-gauss=4", "--ubm.num-iters=2",
                   "--ubm.num-iters-init=2", "--ivector-dim=3", "--num-iters=2"]
WORKS = {
    "train-ivector-extractor": ["--feat-dir=data", "--dir=exp", *SMALL_EXTRACTOR, "--extract-to=exp/ivectors"],
    "extract-ivectors": ["--feat-dir=data", "--extractor-dir=extractor", "--dir=exp", "--nj=2"],
    "nnet3-build-tree": ["--feat-dir=data", "--lang=lang", "--ali-dir=ali", "--dir=exp", "--frame-subsampling-factor=3",
                         "--context-opts=--context-width=2 --central-position=1", "--num-leaves=64"],
}


def prepare(folder: Path, command: str) -> Path:
    """A folder to work in, by relative names, for these stand in results."""
    made = make_data(folder)
    if command == "extract-ivectors":
        words = [str(ROOT / "bin" / "train-ivector-extractor"), "--feat-dir=data", "--dir=extractor", *SMALL_EXTRACTOR]
        assert process_faults.start(words, made).wait(LONGEST) == 0, messages(made)[-3000:]
    return made


def products(folder: Path) -> dict[str, bytes]:
    """Whatever was made but for logs, marks, and what tells one run from another."""
    exp = folder / "exp"
    return {str(path.relative_to(exp)): path.read_bytes().replace(str(folder).encode(), b".")      # in scp files
            for path in sorted(exp.rglob("*"))
            if path.is_file() and not {"log", ".steps"} & set(path.relative_to(exp).parts)
            and not path.name.startswith(".")}


@pytest.mark.slow
@pytest.mark.parametrize("command", WORKS)
def test_killed_often_it_ends_in_the_same_files(command: str, tmp_path: Path) -> None:
    words = [str(ROOT / "bin" / command), *WORKS[command]]
    first = tmp_path / "source"
    first.mkdir()
    source = prepare(first, command)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    shutil.copytree(source, undisturbed, symlinks=True)
    shutil.copytree(source, killed, symlinks=True)
    begun = time.monotonic()
    assert process_faults.start(words, undisturbed).wait(LONGEST) == 0, messages(undisturbed)[-3000:]
    seconds = time.monotonic() - begun
    choose = random.Random(SEED)
    for _ in range(KILLS):
        process = process_faults.start(words, killed)
        number = choose.choice(SIGNALS)
        try:
            status = process.wait(choose.uniform(0.1, 0.6) * seconds)
        except subprocess.TimeoutExpired:
            kill(process, number)
            status = process.wait(LONGEST)
        if status == 0:         # it came to its end: the others meet a new folder
            assert products(killed) == products(undisturbed)
            shutil.rmtree(killed)
            shutil.copytree(source, killed, symlinks=True)
        else:
            assert status in (-number, 128 + number), messages(killed)[-3000:]
            check_nobody_is_left(killed)
    assert process_faults.start(words, killed).wait(LONGEST) == 0, messages(killed)[-3000:]
    assert products(killed) == products(undisturbed)
    assert unfinished(killed) == [] and "internal error" not in messages(killed)
