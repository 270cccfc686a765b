"""Whole processes, timed as a user sees them, and what is measured beside them: the sgemm rate.

This process imports neither numpy nor nnet3py: the peak memory that the system reports of a child begins with what its
parent held when it was started.
"""
from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
BLAS_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

SGEMM = """
import time, numpy as np
a = np.random.default_rng(0).standard_normal((2048, 2048)).astype(np.float32)
seconds = []
for _ in range(8):
    start = time.perf_counter(); a @ a; seconds.append(time.perf_counter() - start)
print(2 * 2048 ** 3 / sorted(seconds[1:])[3] / 1e9)
"""
IMPORTS = [sys.executable, "-c", "import numpy"]


class Run(NamedTuple):
    """One process: wall-clock seconds, peak resident memory in bytes, what it wrote to standard output and error.

    ``processor``: seconds of processor time, of all its threads.
    """

    seconds: float
    peak_bytes: int
    output: str
    log: str
    processor: float = 0.0


@dataclass
class Runs:
    """The counted runs of one command; the first one is left out of all but ``first``."""

    first: Run
    counted: list[Run] = field(default_factory=list)

    def median(self, value: Callable[[Run], float] = lambda run: run.seconds) -> float:
        """The median of what ``value`` takes from each run."""
        return statistics.median(value(run) for run in self.counted or [self.first])

    def spread(self, value: Callable[[Run], float] = lambda run: run.seconds) -> str:
        """The least and the greatest."""
        values = [value(run) for run in self.counted or [self.first]]
        return f"{min(values):.2f} to {max(values):.2f}"

    def peak(self) -> int:
        """The most memory of any run, in bytes; the first, which may compile kernels, does not count."""
        return max(run.peak_bytes for run in self.counted or [self.first])


def environment(threads: int) -> dict[str, str]:
    """The environment of all processes: our launchers first, BLAS with ``threads`` threads, no stored computations."""
    left_out = ("NNET3PY_COMPUTATION_CACHE", "NNET3PY_NUM_THREADS", *BLAS_VARIABLES)
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "PATH": f"{ROOT / 'bin'}:{kept.get('PATH', '')}", "NNET3PY_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **dict.fromkeys(BLAS_VARIABLES, str(threads))}


def run(command: Sequence[str | Path], threads: int) -> Run:
    """Run a command to its end and time it; SystemExit with its messages if it fails."""
    words = [str(word) for word in command]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as log:
        start = time.perf_counter()
        process = subprocess.Popen(words, stdout=output, stderr=log, env=environment(threads))
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = [(stream.seek(0), stream.read())[1] for stream in (output, log)]
    if process.returncode:
        sys.exit(f"exit status {process.returncode}: {' '.join(words)}\n{texts[1]}")
    unit = 1 if platform.system() == "Darwin" else 1024
    return Run(seconds, usage.ru_maxrss * unit, texts[0], texts[1], usage.ru_utime + usage.ru_stime)


def program(name: str, *words: str | Path, threads: int) -> Run:
    """Run one of our launchers."""
    return run([ROOT / "bin" / name, *words], threads)


def sgemm_rate(threads: int) -> float:
    """GFLOP/s of numpy's float32 product of two matrices of 2048 x 2048: the median of 7, in a process of its own."""
    return float(run([sys.executable, "-c", SGEMM], threads).output)


def take_turns(commands: dict[str, list[str | Path]], runs: int, threads: int) -> dict[str, Runs]:
    """Run all commands in turns: a first time, which does not count, and ``runs`` times more."""
    found: dict[str, Runs] = {}
    for i in range(runs + 1):
        for name, command in commands.items():
            done = run(command, threads)
            if i == 0:
                found[name] = Runs(done)
            else:
                found[name].counted.append(done)
    return found


def describe_machine(threads: int, rates: list[float]) -> str:
    """A line about processor, cores, sgemm rate and versions."""
    name = platform.processor() or platform.machine()
    vectors = ""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        models = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
        name = models[0] if models else name
        vectors = ", AVX-512" if " avx512f" in text else ", AVX2" if " avx2" in text else ""
    except OSError:
        pass
    if os.environ.get("NNET3PY_CPU"):
        vectors += f", code for {os.environ['NNET3PY_CPU']}"
    versions = run([sys.executable, "-c", "import numba, numpy, scipy; print(', '.join("
                    "f'{m.__name__} {m.__version__}' for m in (numpy, scipy, numba)))"], threads).output.strip()
    return (f"{name}{vectors}, {os.cpu_count()} cores; {threads} threads: sgemm {statistics.median(rates):.0f} GFLOP/s "
            f"({min(rates):.0f} to {max(rates):.0f}); Python {platform.python_version()}, {versions}")
