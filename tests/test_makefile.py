"""The Makefile, run with stand-ins for Python: what it says, and what it does without."""
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from paths import ROOT

PYTHON = """#!/bin/sh
echo "python $*" >> calls
case "$*" in *pip*FAILING*) exit 1 ;; esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile with a Python and an nnet3py that only note how they are called."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    for name in ("Makefile", "setup.cfg", "setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    stand_in(tmp_path, "python", PYTHON.replace("FAILING", "nothing"))
    stand_in(tmp_path, "nnet3py", '#!/bin/sh\necho "cpu  reductions  3 compiled"\n')
    return tmp_path


def stand_in(checkout: Path, name: str, text: str) -> None:
    path = checkout / ".venv" / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def make(checkout: Path, *words: str) -> tuple[list[str], list[str]]:
    """What make printed, and how Python was called."""
    done = subprocess.run(["make", *words], cwd=checkout, capture_output=True, text=True,
                          env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")})
    assert done.returncode == 0, done.stderr
    calls = checkout / "calls"
    return done.stdout.splitlines(), calls.read_text().splitlines() if calls.exists() else []


def test_it_says_what_it_does(checkout: Path) -> None:
    said, calls = make(checkout, "test", "TEST_BUDGET=77")
    assert said[0].startswith("Installing into .venv: nnet3py")
    assert any("NVIDIA's CUDA compiler" in line and "40 MB" in line for line in said)
    assert said.count("cpu  reductions  3 compiled") == 1, "kernels are compiled before tests"
    assert "--budget=77" in calls[-1] and "-m pytest" in calls[-1]
    assert all("timeout" not in line for line in said), "the budget counts from the first test"
    again, _ = make(checkout, "test")
    assert not any("Installing" in line for line in again)


def test_installing_compiles_kernels_unless_that_is_for_later(checkout: Path) -> None:
    assert make(checkout, "install")[0][-1] == "cpu  reductions  3 compiled"
    assert make(checkout, "install")[0] == ["cpu  reductions  3 compiled"], "nnet3py knows what is there"
    assert "reductions" not in "\n".join(make(checkout, "install", "NNET3PY_KERNELS=later")[0])


def test_without_nvidias_compiler(checkout: Path) -> None:
    stand_in(checkout, "python", PYTHON.replace("FAILING", "test-ptx"))
    said, calls = make(checkout, "test")
    assert "NVIDIA's CUDA compiler cannot be had here: tests of GPU code that need it are skipped" in said
    assert "-m pytest" in calls[-1]
    _, calls = make(checkout, "test")
    assert any("test-ptx" in call for call in calls[-3:]), "it is tried again"
    _, calls = make(checkout, "test", "CUDA_COMPILER=no")
    assert not any("test-ptx" in call for call in calls[-2:])


def test_the_oldest_versions_are_asked_for(checkout: Path) -> None:
    (checkout / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "lower_bounds.py", checkout / "tests")
    said, _ = make(checkout, "-n", "test-oldest", "OLDEST_PYTHON=python3")
    line = next(line for line in said if "PIP_CONSTRAINT" in line)
    assert f"PIP_CONSTRAINT={checkout}/.venv-oldest/constraints.txt" in line and "VENV=.venv-oldest" in line
