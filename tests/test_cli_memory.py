"""Too little memory is said plainly, whatever library finds it out and however it puts it."""
from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_lines import write_table
from digits_cases import CONFIG

from nnet3py.cli.process import run as process
from nnet3py.cli.process.run import FATAL
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.network.nnet import Nnet

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
