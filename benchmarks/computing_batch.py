"""Time of nnet3-compute-batch and of nnet3-compute on many short utterances.

    python benchmarks/computing_batch.py [--runs 5] [--utterances 400] [--threads 2] [--nets tdnn,lstm]

The utterances are pieces of 20 to 100 frames of the digits recipe's features. The commands take turns; the first round,
which may compile kernels, is not counted. Figures are medians of what the commands log as their time, which begins when
Python has started; what is compiled for the network is part of it. For networks without recurrence arithmetic sets the
limit: a chunk of n frames costs about n plus the network's context.
"""
from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from nnet3py.formats.holders import FLOAT_MATRIX, read_matrices
from nnet3py.io.tables import TableWriter

ROOT = Path(__file__).resolve().parent.parent
DIGITS = ROOT / "egs" / "digits"
NETS = {"tdnn": DIGITS / "conf" / "tdnn.config", "lstm": DIGITS / "conf" / "lstm.config",
        "tdnnf": ROOT / "benchmarks" / "nets" / "tdnnf.config",
        "tdnn-lstm": ROOT / "benchmarks" / "nets" / "tdnn-lstm.config"}
COMMANDS = ("nnet3-compute", "nnet3-compute-batch")


def run(*words: str) -> str:
    """What one of the launchers logs; shows that and stops if it fails."""
    done = subprocess.run([str(ROOT / "bin" / words[0]), *words[1:]], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stderr}")
    return done.stderr


def seconds(*words: str) -> float:
    """The time that one of the launchers says it took."""
    found = re.search(r"Time taken ([0-9.e+-]+)s", run(*words))
    assert found is not None
    return float(found[1])


def write_short_utterances(path: Path, count: int) -> int:
    """Cut the features into pieces; returns their frames altogether."""
    rng, written, frames = np.random.default_rng(0), 0, 0
    with TableWriter(f"ark:{path}", FLOAT_MATRIX) as writer:
        for key, feats in read_matrices(f"ark:{DIGITS}/data/train/feats.ark"):
            begin = 0
            while begin + 20 <= len(feats) and written < count:
                piece = feats[begin:begin + int(rng.integers(20, 101))]
                writer.write(f"{key}-{begin}", piece)
                begin, written, frames = begin + len(piece), written + 1, frames + len(piece)
    return frames


def main() -> None:
    """Print a line per net: the two medians, their ranges and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--utterances", type=int, default=400)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--nets", default=",".join(NETS))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temp:
        folder = Path(temp)
        frames = write_short_utterances(folder / "feats.ark", args.utterances)
        load = os.getloadavg()[0]
        print(f"machine: {platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {load:.1f}; "
              f"{args.utterances} utterances, {frames} frames, {args.threads} threads")
        for net in args.nets.split(","):
            run("nnet3-init", "--srand=1", str(NETS[net]), f"{folder}/{net}.raw")
            rounds = [[seconds(command, f"--num-threads={args.threads}", f"{folder}/{net}.raw",
                               f"ark:{folder}/feats.ark", f"ark:{folder}/out.ark") for command in COMMANDS]
                      for _ in range(args.runs + 1)][1:]
            one, batch = ([values[i] for values in rounds] for i in range(2))
            ratios = [a / b for a, b in rounds]
            print(f"{net}: nnet3-compute {statistics.median(one):.2f} s ({min(one):.2f} to {max(one):.2f}), "
                  f"nnet3-compute-batch {statistics.median(batch):.2f} s ({min(batch):.2f} to {max(batch):.2f}): "
                  f"{statistics.median(ratios):.1f} times as fast", flush=True)


if __name__ == "__main__":
    main()
