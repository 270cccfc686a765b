"""Kaldi's reference computations on the GPU: ``pytest tests/gpu_cases.py``; part of ``make test-gpu``."""
from __future__ import annotations

import sys

import pytest
from golden_cases import check_cases

from nnet3py.ops import device

_IN_SIMULATOR = """import gpu_device, runpy, sys
with gpu_device.simulate_quickly():
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name='__main__')
"""


@pytest.mark.parametrize("flags", [["--no-optimize", "--no-shortcut"], ["--updated"]], ids=["plain", "updated"])
def test_every_case_holds(flags: list[str]) -> None:
    check_cases([*flags, "--device", "cuda"],
                python=(sys.executable, "-c", _IN_SIMULATOR) if device.is_simulated() else (sys.executable,))
