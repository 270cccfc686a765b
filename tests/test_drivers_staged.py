"""nnet3py/drivers/staged.py: steps that are done once, in whatever way the work was interrupted."""
from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from job_recorder import Recorder

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
