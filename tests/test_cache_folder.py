"""nnet3py/engine/cache_folder.py: which folder is chosen, and which is not taken."""
from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnet3py.engine import cache_folder

ANOTHER = 54321            # a user whom no system has
pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners on this system")


@pytest.fixture(autouse=True)
def _only_what_a_test_names(monkeypatch: pytest.MonkeyPatch, here: Path) -> Iterator[None]:
    for name in ("NUMBA_CACHE_DIR", "NNET3PY_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(here / "home"))
    yield


def chosen() -> Path:
    return cache_folder.cache_folder.__wrapped__()


def test_the_first_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert chosen() == tmp_path / "home" / ".cache" / "nnet3py"
    for name, value in (("XDG_CACHE_HOME", "xdg/nnet3py"), ("NNET3PY_CACHE", "ours"), ("NUMBA_CACHE_DIR", "numbas")):
        monkeypatch.setenv(name, str(tmp_path / value.removesuffix("/nnet3py")))
        assert chosen() == tmp_path / value and (tmp_path / value).is_dir()
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o700


def test_a_relative_platform_folder_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                            caplog: pytest.LogCaptureFixture) -> None:
    """As XDG's standard says: whoever starts a command in a folder of others would execute what lies there."""
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert chosen() == tmp_path / "home" / ".cache" / "nnet3py" and not caplog.records
    monkeypatch.setenv("HOME", "home")
    assert chosen() == cache_folder.private_folder() and "the home directory is no absolute path" in caplog.text


def make_anothers(folder: Path) -> str:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.chown(folder, ANOTHER, ANOTHER)
    return f"{folder} belongs to another user"


def open_to_all(folder: Path) -> str:
    folder.chmod(0o777)
    return f"{folder} can be written by all users"


def open_above(folder: Path) -> str:
    return open_to_all(folder.parent)


@pytest.mark.parametrize("spoil", [make_anothers, open_to_all, open_above])
@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "NNET3PY_CACHE", "XDG_CACHE_HOME"])
def test_a_folder_where_others_can_plant_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str,
                                                      spoil, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "above"))
    folder = chosen()
    fault = spoil(folder)
    with caplog.at_level(logging.WARNING):
        taken = chosen()
    assert taken == cache_folder.private_folder() and taken.stat().st_mode & 0o777 == 0o700
    assert len(caplog.records) == 1 and fault in caplog.text and "NNET3PY_CACHE" in caplog.text
    open_again = folder.parent if spoil is open_above else folder
    open_again.chmod(0o700)
    os.chown(folder, os.geteuid(), os.getegid())
    assert chosen() == folder


def test_a_folder_that_cannot_be_written_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                      caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "file/below"):
        caplog.clear()
        monkeypatch.setenv("NNET3PY_CACHE", str(tmp_path / name))
        assert chosen() == cache_folder.private_folder()
        assert len(caplog.records) == 1 and "it cannot be written: File exists;" in caplog.text


@pytest.mark.parametrize("how", ["return 0", "raise KeyboardInterrupt", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_the_private_folder_goes_with_its_process(tmp_path: Path, how: str) -> None:
    """Not with a child that it forks."""
    program = f"""
import os, signal
from nnet3py.engine.cache_folder import private_folder
from nnet3py.cli.process.run import run_process
def body():
    made = private_folder()
    if os.fork() == 0:
        raise SystemExit
    os.wait()
    assert made.is_dir()
    {how}
run_process(body)
"""
    (tmp_path / "tmp").mkdir()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "TMPDIR": str(tmp_path / "tmp")})
    expected = {"return 0": 0, "raise KeyboardInterrupt": 130}.get(how, -signal.SIGTERM)
    assert done.returncode == expected and os.listdir(tmp_path / "tmp") == [], done.stderr
