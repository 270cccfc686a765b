"""The process around a command: interrupts, and lack of memory."""
from __future__ import annotations

import errno
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from digits_cases import CONFIG
from process_faults import environment

from nnet3py.cli.process import run as process
from nnet3py.cli.process.run import FATAL
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import write_table
from nnet3py.network.nnet import Nnet

ROUNDS = 12
STATUSES = (0, 130, -signal.SIGINT)
BEFORE_THE_FIRST_LINE = 'Traceback (most recent call last):\n  File "<string>", line 0, in <module>\nKeyboardInterrupt'


def is_pythons_own(err: str) -> bool:
    """Whether the interpreter ended while it set itself up (paths, .pth files), before the launcher's first line.

    What it does before the first line of a program it numbers 0. Or whether the signal came in the callback by which it
    gives back the lock of an import: there it is lost, whoever imports.
    """
    return err.startswith(("Fatal Python error: init_", BEFORE_THE_FIRST_LINE)) or (
        "Exception ignored in: <function _get_module_lock" in err)


@pytest.mark.parametrize("ignored", [False, True])
def test_from_its_first_moment(tmp_path: Path, ignored: bool) -> None:
    """Also while Python starts and modules are imported; a shell has those in the background ignore it."""
    words = ["nnet3-compute", "missing.raw", "ark:missing", "ark:out"]
    handler = signal.SIG_IGN if ignored else signal.SIG_DFL

    def run(seconds: float) -> tuple[int, str, float]:
        begun = time.monotonic()
        process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment(),
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, handler))
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        return process.wait(60), process.communicate()[1], time.monotonic() - begun

    _, _, seconds = run(60)
    for number in range(ROUNDS):
        status, err, _ = run(seconds * (number + 0.5) / ROUNDS)
        while is_pythons_own(err):              # a few milliseconds, a moment later is another
            seconds *= 1.01
            status, err, _ = run(seconds * (number + 0.5) / ROUNDS)
        assert "Traceback" not in err and "Exception ignored" not in err, err
        assert status == 255 or (status in STATUSES and not ignored)


resource = pytest.importorskip("resource")

LIMIT_WITHOUT_LLVM = 250_000 << 10      # bytes: numpy can be loaded, LLVM cannot


def replaced(cause: Exception) -> Exception:
    """An error that says nothing of what it comes from, as llvmlite raises it."""
    try:
        try:
            raise cause
        except Exception:
            raise OSError("Could not find the library") from None
    except OSError as error:
        return error


@pytest.mark.parametrize(("error", "what"), [
    (MemoryError(), ""), (MemoryError("Unable to allocate 5. GiB for an array"), "Unable to allocate 5. GiB"),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), "Cannot allocate memory"),
    (OSError("/x/liby.so: failed to map segment from shared object"), "/x/liby.so: failed to map segment"),
    (ImportError("IMPORTANT: READ\n\nOriginal error was: libz.so: failed to map segment from shared object\n"),
     "libz.so: failed to map segment"),
    (RuntimeError("std::bad_alloc"), "std::bad_alloc"), (RuntimeError("can't start new thread"), "new thread"),
    (replaced(OSError("liby.so: failed to map segment from shared object")), "liby.so: failed to map segment"),
])
def test_what_libraries_say(error: Exception, what: str, capsys: pytest.CaptureFixture[str],
                            monkeypatch: pytest.MonkeyPatch) -> None:
    assert process.report(error) == FATAL
    line = capsys.readouterr().err.splitlines()[0]
    assert f") Out of memory{': ' if what else ''}" in line and what in line and "ulimit" not in line
    monkeypatch.setattr(resource, "getrlimit", lambda which: (300 << 20, 400 << 20))
    process.report(error)
    assert "(this process may have 300 MB: see ulimit -v)" in capsys.readouterr().err


@pytest.mark.parametrize("error", [OSError("no such library"), RuntimeError("segment"), ImportError("no module")])
def test_other_errors_are_not_taken_for_it(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    process.report(error)
    assert "Out of memory" not in capsys.readouterr().err


def test_a_command_with_too_little(tmp_path: Path,
                                   run_launcher: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    Nnet.from_config(CONFIG).write(str(tmp_path / "nnet.raw"))
    write_table(f"ark:{tmp_path / 'feats.ark'}", FLOAT_MATRIX, {"u": np.zeros((50, 40), np.float32)})

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_WITHOUT_LLVM, LIMIT_WITHOUT_LLVM))

    done = run_launcher("nnet3-compute", "nnet.raw", "ark:feats.ark", "ark:out.ark", preexec_fn=limit)
    assert done.returncode == FATAL and "internal error" not in done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    assert "Out of memory: " in error and "(this process may have 244 MB: see ulimit -v)" in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["feats.ark", "nnet.raw"]
