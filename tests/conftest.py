"""What all tests share: fixed randomness, and a way to run a command as a script would."""
from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from nnet3py import log
from nnet3py.engine.threads import VARIABLE, bind_libraries, set_num_threads

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))      # tests import them by their names

# Examples follow from the test's own code, so a failure repeats; no deadline, because a first call compiles.
settings.register_profile("nnet3py", deadline=None, derandomize=True)
settings.load_profile("nnet3py")

# A process for each core: more threads would wait for each other, those of numpy's BLAS most of all. With two in each
# process, the eigenvalues of a matrix of 65 x 65 take 4 ms of processor time in place of 0.2.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault(VARIABLE, "1")
    bind_libraries()

# nohup, and shells that start tests in the background, leave the signal ignored: interrupts are tested all the same.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Twenty thousand tests and what they import stay: the collector of garbage need not look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Damaged input is quoted in messages; a report goes to another process as UTF-8, which has no lone surrogates."""
    report = yield
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


@pytest.fixture(autouse=True)
def _fresh_log_state() -> Iterator[None]:
    """A command that runs inside a test leaves its name, verbosity and logging handler behind; undo that."""
    yield
    log.set_program("")
    log.set_verbose(0)
    log.disconnect_logging()


@pytest.fixture(params=["numpy", "cpu"])
def ops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Operations of numpy and of the CPU, one after the other; a test may set what ``ops.random`` draws."""
    from numpy_ops import NumpyOps

    from nnet3py.ops import get_ops
    ops = NumpyOps() if request.param == "numpy" else get_ops("cpu")
    monkeypatch.setattr(ops, "random", ops.random)
    return ops


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the test alone, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rng() -> Any:
    """Random numbers, the same in each test."""
    import numpy as np
    return np.random.default_rng(6)


@pytest.fixture
def threads_as_before() -> Iterator[None]:
    """A test may set the number of threads."""
    yield
    set_num_threads(None)


@pytest.fixture
def run_launcher(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``run_launcher("nnet3-info", "model", …)`` starts ``bin/nnet3-info`` of this checkout with this Python."""
    def run(name: str, *args: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "NNET3PY_PYTHON": sys.executable}
        options: dict = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": 120}
        return subprocess.run([str(ROOT / "bin" / name), *args], **{**options, **kwargs})
    return run
