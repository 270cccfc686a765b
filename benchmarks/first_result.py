"""How soon a command that computes has its first result, beyond what importing numpy and numba takes.

usage: python benchmarks/first_result.py [--runs=7] [--only=NAME]

Kernels are compiled before (nnet3py warmup). nnet3-compute then computes one utterance of 100 frames: starting, reading
the network, compiling it for the utterance, loading kernels, computing, writing. Runs are interleaved; medians.
"""
from __future__ import annotations

import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import TableWriter
from nnet3py.network.nnet import Nnet

ROOT = Path(__file__).resolve().parent.parent
NETS = {"TDNN of the digits recipe": ROOT / "egs/digits/conf/tdnn.config",
        "LSTM of the digits recipe": ROOT / "egs/digits/conf/lstm.config",
        "TDNN-F": ROOT / "benchmarks/nets/tdnnf.config", "TDNN-LSTM": ROOT / "benchmarks/nets/tdnn-lstm.config"}
IMPORT = [sys.executable, "-c", "import numpy, numba"]
GOAL = 0.8      # seconds beyond the import


def seconds(command: list[str]) -> float:
    """The wall time of one run, which must succeed."""
    environment = {**os.environ, "NNET3PY_PYTHON": sys.executable}
    start = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


@click.command()
@click.option("--runs", default=7, show_default=True, help="Runs of each network.")
@click.option("--only", default="", help="Only networks whose name contains this.")
def main(runs: int, only: str) -> None:
    """Print the time to the first result of each network, and how much of it is beyond the import."""
    compileall.compile_dir(ROOT / "nnet3py", quiet=2)
    subprocess.run([ROOT / "bin" / "nnet3py", "warmup", "--device=cpu"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "NNET3PY_PYTHON": sys.executable})
    with tempfile.TemporaryDirectory() as temp:
        for name, config in NETS.items():
            if only not in name:
                continue
            nnet = Nnet.from_config(config.read_text(encoding="utf-8"))
            nnet.write(f"{temp}/net.raw")
            with TableWriter(f"ark:{temp}/feats.ark", FLOAT_MATRIX) as writer:
                writer.write("one", np.zeros((100, nnet.input_dim("input")), dtype=np.float32))
            command = [str(ROOT / "bin" / "nnet3-compute"), f"{temp}/net.raw", f"ark:{temp}/feats.ark",
                       f"ark:{temp}/out.ark"]
            seconds(command)      # once unmeasured: files come into the page cache
            rows = [(seconds(IMPORT), seconds(command)) for _ in range(runs)]
            imported, computed = (statistics.median(column) for column in zip(*rows, strict=True))
            beyond = statistics.median(b - a for a, b in rows)
            click.echo(f"{name:26} {computed:.2f} s, import of numpy and numba {imported:.2f} s: "
                       f"{beyond:.2f} s beyond it (goal: {GOAL})")


if __name__ == "__main__":
    main()
