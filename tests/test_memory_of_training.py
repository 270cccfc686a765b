"""Memory stays as it is while minibatches of ever other shapes are trained on: caches are bounded, nothing is kept."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

GROWTH = 4 * 1024      # kB, from the second tenth on; a computation that is kept takes some 120


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not say how large a process is")
@pytest.mark.parametrize("count, capacity", [(80, 4), pytest.param(5000, 64, marks=pytest.mark.slow)])
def test_it_does_not_grow(count: int, capacity: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT)])}
    program = str(ROOT / "tests" / "memory_of_training.py")
    done = subprocess.run([sys.executable, program, str(count), str(capacity)], env=environment, text=True,
                          capture_output=True, check=True)
    sizes = [int(line) for line in done.stdout.split()]
    assert len(sizes) == 10
    assert max(sizes[2:]) - sizes[1] < GROWTH, sizes
