"""Time of one pass of nnet3-train over the digits recipe's examples, beside Kaldi's on a similar machine.

    python benchmarks/training.py [--runs 5] [--threads 2]

Makes the examples of egs/digits, merged by 64 (181 minibatches), and runs the whole process several times for each of
the two nets, from the same initial model. Kaldi took 5.1 s for the TDNN and 7.5 s for the LSTM on one core of an AMD
EPYC whose sgemm did 89 GFLOP/s on one thread; this machine's own sgemm rate is printed so that the two can be compared.
"""
from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KALDI_SECONDS = {"tdnn": 5.1, "lstm": 7.5}   # Kaldi master of July 2025, -O2 -march=native, OpenBLAS, one core


def run(*words: str) -> None:
    """Run one of the launchers; show its messages if it fails."""
    done = subprocess.run([str(ROOT / "bin" / words[0]), *words[1:]], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}"})
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stderr}")


def make_examples(folder: Path) -> str:
    """Merged examples of the recipe's training speakers; returns their rspecifier."""
    data = ROOT / "egs" / "digits" / "data" / "train"
    run("nnet3-get-egs", "--num-pdfs=28", "--left-context=12", "--right-context=12", "--num-frames=8",
        f"ark:{data}/feats.ark", f"ark:ali-to-post ark,t:{data}/ali.txt ark:- |", f"ark:{folder}/egs.ark")
    run("nnet3-merge-egs", "--minibatch-size=64",
        f"ark:nnet3-shuffle-egs --buffer-size=5000 ark:{folder}/egs.ark ark:- |", f"ark:{folder}/merged.ark")
    return f"ark:{folder}/merged.ark"


def sgemm_rate() -> float:
    """GFLOP/s of numpy's float32 matrix product, 2048 cubed: the median of 7."""
    import numpy as np

    a = np.random.default_rng(0).standard_normal((2048, 2048)).astype(np.float32)
    seconds = []
    for _ in range(8):
        start = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - start)
    return 2 * 2048 ** 3 / statistics.median(seconds[1:]) / 1e9


def machine() -> str:
    """A line about the machine."""
    name = platform.processor() or platform.machine()
    return f"machine: {name}, {os.cpu_count()} cores; sgemm {sgemm_rate():.0f} GFLOP/s"


def main() -> None:
    """Print a line per net: median, least and greatest seconds, and the ratio of the median to Kaldi's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as temp:
        folder = Path(temp)
        examples = make_examples(folder)
        for net, kaldi in KALDI_SECONDS.items():
            run("nnet3-init", "--srand=1", f"{ROOT}/egs/digits/conf/{net}.config", f"{folder}/{net}.raw")
            seconds = []
            for _ in range(args.runs + 1):   # the first run may compile kernels
                start = time.perf_counter()
                run("nnet3-train", f"--num-threads={args.threads}", "--max-param-change=2.0", f"{folder}/{net}.raw",
                    examples, f"{folder}/out.raw")
                seconds.append(time.perf_counter() - start)
            rest, median = seconds[1:], statistics.median(seconds[1:])
            print(f"{net}: {median:.2f} s a pass ({min(rest):.2f} to {max(rest):.2f}, {len(rest)} runs, first run "
                  f"{seconds[0]:.2f}), Kaldi {kaldi} s: ratio {median / kaldi:.2f}")


if __name__ == "__main__":
    main()
