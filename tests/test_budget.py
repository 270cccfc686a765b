"""The time budget of the tests: it counts from the first test, and is named when it ends them."""
from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paths import ROOT

SLOW_TO_COLLECT = "import time\ntime.sleep(1.5)\n"


def run(folder: Path, seconds: float, *options: str) -> tuple[subprocess.CompletedProcess[str], float]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "budget",
                           f"--budget={seconds}", *options, str(folder)], capture_output=True, text=True, cwd=folder,
                          env={**environment, "PYTHONPATH": str(ROOT / "tests")}, timeout=250)
    return done, time.monotonic() - start


@pytest.mark.parametrize("options", [pytest.param(("-n0",), marks=pytest.mark.slow), ("-n2",)])
def test_it_ends_tests_and_says_so(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "test_a.py").write_text("import time\ndef test_a(): pass\ndef test_b(): time.sleep(300)\n")
    done, seconds = run(tmp_path, 1.0, *options)
    assert done.returncode == 2 and seconds < 200.0
    assert "TEST_BUDGET=1 seconds from the first test are over, after 1 tests" in done.stdout
    assert "make test TEST_BUDGET=2" in done.stdout


def test_collecting_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(f"{SLOW_TO_COLLECT}def test_a(): pass\n")
    done, _ = run(tmp_path, 1.0, "-n0")
    assert done.returncode == 0 and "1 passed" in done.stdout and "TEST_BUDGET" not in done.stdout
