"""Jobs on dask's workers: two worker processes of this machine."""
from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_drivers_executor import PATIENCE, SOON, is_alive, own_lines, read, start_driver, wait_for

from nnet3py.drivers import executors as jobs_dask
from nnet3py.drivers.executor import Job, JobsFailed, launcher_folder
from nnet3py.drivers.executors import make_executor
from nnet3py.errors import Nnet3Error

pytest.importorskip("distributed", reason="dask's workers need the extra 'dask'")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """The address of a scheduler with two workers of one thread each, as a user would start them."""
    folder = tmp_path_factory.mktemp("dask")
    address = f"tcp://127.0.0.1:{free_port()}"
    with open(folder / "log", "wb") as log:
        def start(program: str, *words: str) -> subprocess.Popen:
            return subprocess.Popen([sys.executable, "-m", f"distributed.cli.{program}", *words], cwd=folder,
                                    stdout=log, stderr=log)
        processes = [start("dask_scheduler", "--host", address, "--no-dashboard")]
        processes += [start("dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny",
                            "--local-directory", str(folder)) for _ in range(2)]
        yield address
        for one in reversed(processes):      # a worker that loses its scheduler while it closes may hang
            one.terminate()
            try:
                one.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


@pytest.fixture(scope="module")
def executor(scheduler):
    with make_executor(scheduler=scheduler) as made:
        made._client.wait_for_workers(2, timeout=30)
        yield made


def test_jobs_run_on_two_workers(executor, here, monkeypatch):
    monkeypatch.setenv("NNET3PY_OF_THE_DRIVER", "carried along")
    meeting = "touch {me}; until [ -e {other} ]; do sleep 0.02; done; "     # ends only if both run at once
    say = "pwd; command -v nnet3-info; echo $NNET3PY_NUM_THREADS $NNET3PY_OF_THE_DRIVER; echo $PPID"
    executor.run([Job(meeting.format(me="a", other="b") + say, Path("log/a.log")),
                  Job(meeting.format(me="b", other="a") + say, Path("log/b.log"))])
    first, second = own_lines(here / "log" / "a.log"), own_lines(here / "log" / "b.log")
    assert first[:3] == second[:3] == [str(here), str(launcher_folder() / "nnet3-info"), "1 carried along"]
    assert first[3] != second[3], "each worker starts one"
    assert read(here / "log" / "a.log").startswith("# Running on ")
    assert "\n# Accounting: time=" in read(here / "log" / "a.log")


def test_diagnostics_do_not_hold_up_training(executor, tmp_path):
    go = tmp_path / "go"
    started = executor.start([Job(f"until [ -e {go} ]; do sleep 0.02; done", tmp_path / f"{n}.log") for n in range(2)])
    executor.run([Job(f"touch {go}", tmp_path / "train.log")])
    started.wait()


def test_failure(executor, tmp_path):
    with pytest.raises(JobsFailed) as failed:
        executor.run([Job("true", tmp_path / "1.log"), Job("echo why; false | cat", tmp_path / "2.log")])
    assert str(failed.value) == f"1 of 2 jobs failed (exit status 1); the log {tmp_path}/2.log ends with:\nwhy"


def test_log_that_is_not_shared(executor, tmp_path, monkeypatch):
    monkeypatch.setattr(jobs_dask, "_SHARED_SECONDS", 0)
    log = tmp_path / "1.log"
    with pytest.raises(JobsFailed, match="under the same names"):
        executor.run([Job(f"rm {log}", log)])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_jobs_end_with_the_driver(executor, scheduler, tmp_path, number):
    driver, jobs = start_driver(tmp_path, scheduler=scheduler)
    start = time.monotonic()
    os.kill(driver.pid, number)
    driver.wait()
    wait_for(lambda: not any(map(is_alive, jobs)))
    assert time.monotonic() - start < SOON


def test_close_ends_jobs(executor, scheduler, tmp_path):
    ready = tmp_path / "ready"
    with make_executor(scheduler=scheduler) as other:
        other.start([Job(f"echo $$ > {ready}; sleep 100", tmp_path / "1.log")])
        process = int(wait_for(lambda: ready.exists() and read(ready)))
    wait_for(lambda: not is_alive(process))


def test_lost_worker_is_replaced(tmp_path):
    """The worker that runs the job is killed; the job is run again and succeeds."""
    first = tmp_path / "first"
    command = (f"if [ -e {first} ]; then echo again; else ps -o ppid= -p $$ > {first}.new; mv {first}.new {first}; "
               "sleep 100; fi")
    with make_executor(scheduler="local", slots=2) as own:
        started = own.start([Job(command, tmp_path / "1.log")])
        worker = int(wait_for(lambda: first.exists() and read(first)))
        os.kill(worker, signal.SIGKILL)
        started.wait()
    assert own_lines(tmp_path / "1.log") == ["again"]


def test_no_scheduler(monkeypatch):
    monkeypatch.setattr(jobs_dask, "CONNECT_SECONDS", 0.5)
    with pytest.raises(Nnet3Error, match=r"--scheduler=tcp://127.0.0.1:\d+: cannot connect"):
        make_executor(scheduler=f"tcp://127.0.0.1:{free_port()}")
    with pytest.raises(Nnet3Error, match="--scheduler=nonsense:x: cannot connect"):
        make_executor(scheduler="nonsense:x")


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(Nnet3Error, match=r"pip install .*\[dask\]"):
        make_executor(scheduler="local")
