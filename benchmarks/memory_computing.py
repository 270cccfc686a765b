"""Memory of nnet3-compute and nnet3-compute-batch over very many utterances of all lengths: it must not grow.

    python benchmarks/memory_computing.py [--utterances 20000] [--longest 2000] [--net egs/digits/conf/tdnn.config]

The utterances, of 1 to ``--longest`` frames (as many between 10 and 20 as between 1000 and 2000), go down a pipe, so
that the command is asked, at each of ten marks, how much memory it has: all of it that is in use (VmRSS).
"""
from __future__ import annotations

import argparse
import io
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nnet3py.network.nnet import Nnet

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("nnet3-compute", "nnet3-compute-batch")
MARKS = 10
DIM = 40


class Memory(NamedTuple):
    """Megabytes that a process had in use, when it had been given so many utterances."""

    utterances: int
    megabytes: float


def lengths(count: int, longest: int) -> np.ndarray:
    """Frames of utterances: every order of magnitude as often as any other."""
    return np.exp(np.random.default_rng(0).uniform(0.0, np.log(longest + 1), count)).astype(int)


def entry(key: str, matrix: np.ndarray) -> bytes:
    """An utterance's bytes in an archive."""
    sink = io.BytesIO()
    sink.write(f"{key} ".encode() + b"\0BFM " + b"".join(b"\4" + int(n).to_bytes(4, "little") for n in matrix.shape))
    sink.write(matrix.tobytes())
    return sink.getvalue()


def resident(pid: int) -> float:
    """Megabytes that a process has in use."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} is gone")


def measure(command: str, net: Path, count: int, longest: int, marks: int = MARKS, *options: str) -> list[Memory]:
    """What one command had in use at each mark, while it computed ``count`` utterances."""
    features = np.random.default_rng(1).standard_normal((longest, DIM), dtype=np.float32)
    words = [str(ROOT / "bin" / command), "--use-gpu=no", *options, str(net), "ark:-", "ark:/dev/null"]
    found = []
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=log,
                                   env={**os.environ, "NNET3PY_PYTHON": sys.executable})
        assert process.stdin is not None
        for number, length in enumerate(lengths(count, longest), 1):
            process.stdin.write(entry(f"u{number:06}", features[:length]))
            if number % (count // marks) == 0:
                found.append(Memory(number, resident(process.pid)))
        process.stdin.close()
        if process.wait():
            log.seek(0)
            sys.exit(log.read().decode()[-3000:])
    return found


def growth(found: list[Memory]) -> float:
    """Megabytes that the second half of the marks added to the most of the first half."""
    half = len(found) // 2
    return max(one.megabytes for one in found[half:]) - max(one.megabytes for one in found[:half])


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--utterances", type=int, default=20_000)
    parser.add_argument("--longest", type=int, default=2000)
    parser.add_argument("--net", type=Path, default=ROOT / "egs" / "digits" / "conf" / "tdnn.config")
    args = parser.parse_args()
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores; {args.utterances} utterances of 1 to {args.longest} "
          f"frames, {int(lengths(args.utterances, args.longest).sum())} altogether, {args.net.stem}")
    with tempfile.TemporaryDirectory() as folder:
        net = Path(folder) / "nnet.raw"
        Nnet.from_config(args.net.read_text(encoding="utf-8")).write(str(net))
        for command in COMMANDS:
            begun = time.perf_counter()
            found = measure(command, net, args.utterances, args.longest)
            print(f"{command}: MB in use after each {args.utterances // MARKS} utterances: "
                  f"{' '.join(f'{one.megabytes:.0f}' for one in found)}; the second half added {growth(found):.1f} MB "
                  f"({time.perf_counter() - begun:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
