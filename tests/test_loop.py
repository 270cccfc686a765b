"""nnet3py/engine/loop.py: loops are compiled once, found again without numba, and made anew if damaged."""
from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from paths import ROOT

from nnet3py.engine.loop import Loop
from nnet3py.formats.compressed_code import LOOPS

RUN = """
import ctypes, struct, sys
from nnet3py.formats.compressed_code import decode_uniform
target = (ctypes.c_float * 3)()
decode_uniform(bytes([0, 1, 255]), 1, -1.0, 0.5, 3, ctypes.addressof(target))
print(*target, "numba" in sys.modules)
"""


def run(cache: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, timeout=120, check=True,
                          env={**kept, "PYTHONPATH": str(ROOT), "NNET3PY_CACHE": str(cache)})
    return done.stdout.strip()


def test_code_is_kept_on_disk(tmp_path: Path) -> None:
    assert run(tmp_path) == "-1.0 -0.5 126.5 True"
    (kept,) = tmp_path.rglob("*.kernel")
    whole = kept.read_bytes()
    assert run(tmp_path) == "-1.0 -0.5 126.5 False"
    kept.write_bytes(whole[:-100])
    assert run(tmp_path) == "-1.0 -0.5 126.5 True"
    assert run(tmp_path).endswith("False")
    assert list(tmp_path.rglob("*.tmp")) == [] and len(list(tmp_path.rglob("*.kernel"))) == 1


@pytest.mark.parametrize("loop", LOOPS)
def test_loops_are_loaded_once(loop: Loop) -> None:
    loop.prepare()
    known = loop._function
    loop.prepare()
    assert known is not None and loop._function is known


def test_numbers_and_addresses() -> None:
    import ctypes

    from nnet3py.formats.compressed_code import decode_uniform

    target = (ctypes.c_float * 2)()
    codes = struct.pack("=2H", 0, 65535)
    decode_uniform(codes, 2, 1.0, 2.0, 2, ctypes.addressof(target))
    assert list(target) == [1.0, 131071.0]


def test_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNET3PY_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_helper.py").write_text("""
from nnet3py.engine.inline import inline

@inline
def weighted(value, factor):
    return value * factor
""")
    source = tmp_path / "own_loops.py"
    source.write_text("""
from own_helper import weighted

def total(values, table, factor, flag):
    result = 0.0
    for i in range(len(values)):
        result += weighted(values[i], factor)
    table[0, 1] = result
    return len(values) if flag else -1
""")
    total = Loop("own_loops", "total", "f4[] f8[,] f8 b1", uses=["own_helper"])
    table = np.zeros((2, 2))
    assert total(np.arange(4, dtype=np.float32), table, 0.5, True) == 4 and table[0, 1] == 3.0
    assert total(np.arange(4, dtype=np.float32), table, 2.0, False) == -1 and table[0, 1] == 12.0
    with pytest.raises(TypeError, match="values: expected a float32 vector"):
        total(np.arange(4), table, 0.5, True)
    with pytest.raises(TypeError, match="table: expected a float64 matrix"):
        total(np.arange(4, dtype=np.float32), table[:, :1], 0.5, True)
