"""How GPU kernels are proven without a GPU: a test file run in numba's simulator, and kernels compiled to PTX."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

# The least there is code for, and one that is more capable: what compiles for the first compiles for the other, too.
COMPUTE_CAPABILITIES = [(7, 5), pytest.param((9, 0), marks=pytest.mark.slow)]


def check_in_simulator(file: str, comparisons: int) -> None:
    """Run ``file`` as a program in a process of its own, with the simulator; it prints how much it has compared."""
    paths = [str(folder) for folder in Path(__file__).resolve().parents[:2]]      # tests/ and the package
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": os.pathsep.join(paths)}
    program = ("import runpy, sys, simulator_turns; simulator_turns.install(); "
               "runpy.run_path(sys.argv[1], run_name='__main__')")
    result = subprocess.run([sys.executable, "-W", "error", "-c", program, file], capture_output=True, text=True,
                            env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [str(comparisons)]


def check_ptx(family: ModuleType, name: str, compute_capability: tuple[int, int], in_double: bool = False) -> None:
    """Compile a kernel; it must be an entry for that capability, and compute in float32 only unless ``in_double``."""
    try:
        ptx = getattr(family, name).ptx(compute_capability)
    except Exception as error:
        if "nvvm" in f"{type(error).__name__} {error}".lower():
            pytest.skip(f"NVVM is not installed: {error}")
        raise
    assert f".target sm_{compute_capability[0]}{compute_capability[1]}" in ptx
    assert ".entry" in ptx
    assert (".f64" in ptx) == in_double, f"{name}: float32 arithmetic only"
