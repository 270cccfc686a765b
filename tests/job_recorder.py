"""An executor that runs nothing, for tests of what drivers would run."""
from __future__ import annotations

from pathlib import Path

from nnet3py.drivers.executor import Executor, Job


class Recorder(Executor):
    """Notes the commands of jobs, and touches the marks that they end with; jobs whose log is in ``fails`` fail."""

    def __init__(self) -> None:
        super().__init__(1)
        self.ran: list[str] = []
        self.fails: set[str] = set()

    def execute(self, job: Job, threads: int, background: bool) -> str | None:
        if job.log.stem in self.fails:
            return "exit status 1"
        self.ran.append(job.command)
        command, _, mark = job.command.rpartition(" && touch ")
        if command:
            Path(mark).touch()
        return None

    def close(self) -> None:
        pass
