"""benchmarks/engine.py: what stands in for a part of the engine computes the same, and figures are put together."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import engine
import pytest
from engine_parts.replaced import PARTS
from paths import ROOT

PROGRAM = """
import sys
import numpy as np
from engine_parts.replaced import PARTS
PARTS[sys.argv[1]]()
from nnet3py.ops import get_ops
ops, rng = get_ops("cpu"), np.random.default_rng(0)
sizes = (900, 300), (900, 300), (900, 50), (50, 300)
dst, src, a, b = (rng.integers(-9, 9, size).astype(np.float32) for size in sizes)
wanted = dst + 2 * src + a @ b
ops.add_mat(dst, src, 2.0)
ops.add_mat_mat(dst, a, b, 1.0, 1.0)
assert np.array_equal(dst, wanted), abs(dst - wanted).max()
"""


def test_every_part_can_be_replaced() -> None:
    assert set(PARTS) == {engine.AS_IT_IS, *engine.PARTS}
    assert all(engine.concerned(part, "tdnn") for part in engine.PARTS)


def test_figures() -> None:
    steps = {"step": [3.0, 1.0, 2.0], engine.CPU: [4.0, 5.0, 9.0]}
    assert engine.summaries(steps) == {"median": 2.0, "least": 1.0, engine.CPU: 5.0}
    assert engine.summaries({engine.WALL: [1.0, 5.0, 3.0], engine.CPU: [1.0]}) == {engine.WALL: 3.0, engine.CPU: 1.0}


@pytest.mark.slow
@pytest.mark.parametrize("part", [part for part in PARTS if part != "layouts"])
def test_numbers_are_the_same(part: str, tmp_path: Path) -> None:
    environment = {**os.environ, "NNET3PY_CACHE": str(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}",
                   "NNET3PY_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    for _ in range(2):          # compiled, and found
        subprocess.run([sys.executable, "-c", PROGRAM, part], check=True, env=environment)
