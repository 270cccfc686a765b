"""nnet3py/io/compiled_loop.py: loops are compiled once, found again without numba, and made anew if damaged."""
from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

from nnet3py.io.compiled_loop import Loop
from nnet3py.io.compressed_code import LOOPS

RUN = """
import ctypes, struct, sys
from nnet3py.io.compressed_code import decode_uniform
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
    assert loop._function is loop._function


def test_numbers_and_addresses() -> None:
    import ctypes

    from nnet3py.io.compressed_code import decode_uniform

    target = (ctypes.c_float * 2)()
    codes = struct.pack("=2H", 0, 65535)
    decode_uniform(codes, 2, 1.0, 2.0, 2, ctypes.addressof(target))
    assert list(target) == [1.0, 131071.0]
