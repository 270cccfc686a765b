"""What the benchmarks of the GPU print, as far as no GPU is needed."""
from __future__ import annotations

import os
import re
import subprocess
import sys

import cuda_kernels
import pytest
from paths import ROOT

BENCHMARKS = ROOT / "benchmarks"
REGISTERS, SHARED = 65536, 48 << 10      # of a multiprocessor; bytes that every block may have
MOST_THREADS = 512                      # of a block, see ops/cuda/threads.py

REPORT = """ptxas info    : 36 bytes gmem, 64 bytes cmem[4]
ptxas info    : Compiling entry function 'f' for 'sm_75'
ptxas info    : Function properties for f
    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 78 registers, used 1 barriers, 8256 bytes smem, 578 bytes cmem[0]
"""


def test_ptxas_report():
    assert cuda_kernels.parse(REPORT) == {"registers": 78, "spilled": 16, "reloaded": 24, "stack": 8, "shared": 8256}
    assert set(cuda_kernels.parse("").values()) == {0}


def test_all_kernels_are_found():
    names = {f"{family}.{name}" for family, name, _ in cuda_kernels.kernels()}
    assert names > {"rows.copy_rows", "products._tiled", "store._add_floats", "chain._forward_frame"}


def test_the_committed_table():
    lines = cuda_kernels.RESULTS.read_text().splitlines()
    rows = [line.split() for line in lines if "." in line.split(" ")[0]]
    assert len(rows) > 100 and lines[-1] == f"{len(rows)} kernels, 0 with spills"
    assert all(len(row) == 1 + 5 * len(cuda_kernels.COMPUTE_CAPABILITIES) for row in rows)
    for registers, shared in ((row[1::5], row[4::5]) for row in rows):
        assert MOST_THREADS * max(map(int, registers)) <= REGISTERS and max(map(int, shared)) <= SHARED, "a block fits"


NUMBER = r"\d+(?:\.\d+)?"
START = [r"cuda \(numba's simulator\)",
         *(rf"products in {arithmetic}: \d+\.\d TFLOP/s" for arithmetic in ("float32", "TF32"))]
STEPS = [*(rf"  {what} +{NUMBER} ms +{NUMBER} % of the rate, [1-9]\d* launches \(\d+ graphs\), 0 MB"
           for what in ("training, natural gradient", "training, plain SGD", "computing")),
         r"  PyTorch is not installed, or sees no GPU: .*"]


def short_form(*words: str) -> list[str]:
    """What gpu.py prints in the simulator, in a process of its own: all is computed once, with tiny matrices."""
    done = subprocess.run([sys.executable, BENCHMARKS / "gpu.py", *words], capture_output=True, text=True,
                          env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def assert_lines(found: list[str], patterns: list[str]) -> None:
    assert len(found) == len(patterns), found
    for line, pattern in zip(found, patterns, strict=True):
        assert re.fullmatch(pattern, line), line


def test_the_short_form_of_products() -> None:
    assert_lines(short_form("--only=products"), START)


def test_the_short_form_of_operations() -> None:
    title, *lines = short_form("--only=operations")[len(START):]
    assert title == "operations on 6 x 5 matrices, and their share of a copy's bandwidth" and len(lines) >= 20
    assert_lines(lines, [rf"  \w[\w, ]+ +{NUMBER} GB/s +{NUMBER} %(?:   below the target)?"] * len(lines))


@pytest.mark.slow
@pytest.mark.parametrize("net", ["TDNN-F", "TDNN-LSTM"])
def test_the_short_form_of_networks(net: str) -> None:
    expected = [line for arithmetic in ("float32", "TF32") for line in (f"{net}, {arithmetic}", *STEPS)]
    assert_lines(short_form(f"--only={net}", "--no-compile"), START + expected)


@pytest.mark.slow       # PyTorch takes long to load
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("net", ["TDNN-F", "TDNN-LSTM"])
def test_pytorchs_side_runs(monkeypatch, net, training):
    """On the CPU, with layers of a few units."""
    pytest.importorskip("torch")
    from gpu_parts import in_torch, nets
    monkeypatch.setattr(in_torch, "DEVICE", "cpu")
    monkeypatch.setattr(in_torch, "WARM", 1)
    monkeypatch.setattr(in_torch, "REPEATS", 1)
    text = (nets.tdnnf if net == "TDNN-F" else nets.tdnn_lstm)(nets.TINY)
    taken, _ = in_torch.step_seconds(net, text, nets.TINY, False, False, training)
    assert taken > 0
