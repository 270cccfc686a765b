"""Training an extractor of i-vectors and extracting: processor seconds of each stage, beside Kaldi's programs.

    python benchmarks/ivectors.py                       # 100,000 frames, 512 Gaussians, 40 and 100 dimensions
    python benchmarks/ivectors.py --frames=6000 --gaussians=16 --ivector-dim=10

Every stage is a whole process with one thread, its start and its reading and writing included. Processor time counts,
since other work on the machine would be in any other; the rate of sgemm, in processor time too, is measured between the
stages. Kaldi's programs take turns with ours if they are on PATH. Else there is the arithmetic to compare with: the
multiplications and additions that Kaldi's formulas ask for, and what they take at that rate (twice as long in double
precision). A program that does nothing but matrix products would need as much, Kaldi's needs more: it adds frame by
frame, finds eigenvalues by plain loops, and reads and writes files as well.

Features are made of Gaussians about means of their own, shifted by speaker; a transform that changes nothing stands for
the one that a recipe estimates.
"""
from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cpu_parts import kaldi, processes

ITERATIONS, EACH, UTTERANCES = 20, 300, 8        # of the mixture; frames of an utterance; utterances of a speaker
GSELECT, GPOST, PERIOD, CG = 30, 5, 10, 15
RATE = """
import time, numpy as np
a = np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32)
seconds = []
for _ in range(6):
    start = time.process_time(); a @ a; seconds.append(time.process_time() - start)
print(2 * 1024 ** 3 / sorted(seconds[1:])[2] / 1e9)
"""
MAKE = """
import sys
import numpy as np
from nnet3py.formats.holders import FLOAT_MATRIX, TOKEN_VECTOR
from nnet3py.formats.matrices import write_matrix
from nnet3py.io.object_files import write_object
from nnet3py.io.tables import TableWriter

frames, gaussians, dim, each, utterances = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
means, count = 2.0 * rng.standard_normal((gaussians, dim)), -(-frames // each)
with TableWriter("ark:feats.ark", FLOAT_MATRIX) as writer, open("spk2utt", "w") as speakers:
    for number in range(count):
        if number % utterances == 0:
            shift = 0.5 * rng.standard_normal(dim)
            speakers.write(("\\n" if number else "") + f"s{number // utterances:05d}")
        speakers.write(f" s{number // utterances:05d}-{number:06d}")
        length = min(each, frames - number * each)
        matrix = means[rng.integers(0, gaussians, length)] + shift + rng.standard_normal((length, dim))
        writer.write(f"s{number // utterances:05d}-{number:06d}", matrix.astype(np.float32))
    speakers.write("\\n")
write_object("final.mat", lambda writer: write_matrix(writer, np.eye(dim, dtype=np.float32)), True)
stats = np.zeros((2, dim + 1)); stats[0, -1] = 1000.0; stats[1, :-1] = 1000.0
write_object("global.stats", lambda writer: write_matrix(writer, stats), True)
"""
CONF = """--cmvn-config=cmvn.conf
--splice-config=splice.conf
--lda-matrix=final.mat
--global-cmvn-stats=global.stats
--diag-ubm=1.dubm
--ivector-extractor=1.ie
"""


class Stage(NamedTuple):
    """A command, and the millions of multiplications and additions that it cannot do without, by precision."""

    words: tuple[str, ...]
    single: float = 0.0
    double: float = 0.0

    @property
    def name(self) -> str:
        """What it is called."""
        return self.words[0]


def stages(frames: int, gaussians: int, dim: int, size: int) -> Iterator[Stage]:
    """All stages in their order. ``size``: dimension of the i-vectors."""
    utterances, likelihoods = -(-frames // EACH), 4.0 * frames * gaussians * dim
    triangle, pairs = size * (size + 1) / 2, dim * (dim + 1) / 2
    mean_gaussians = 0.75 * likelihoods                    # it begins with half of them
    yield Stage(("gmm-global-init-from-feats", f"--num-gauss={gaussians}", f"--num-gauss-init={gaussians // 2}",
                 f"--num-iters={ITERATIONS}", "--num-frames=500000", "--num-threads=1", "ark:feats.ark", "0.dubm"),
                ITERATIONS * mean_gaussians, ITERATIONS * mean_gaussians)
    yield Stage(("gmm-gselect", f"--n={min(GSELECT, gaussians)}", "0.dubm", "ark:feats.ark", "ark:gselect"),
                likelihoods)
    selected = 4.0 * frames * min(GSELECT, gaussians) * dim
    yield Stage(("gmm-global-acc-stats", "--gselect=ark:gselect", "0.dubm", "ark:feats.ark", "1.acc"), selected,
                selected)
    yield Stage(("gmm-global-est", "--remove-low-count-gaussians=false", "0.dubm", "1.acc", "1.dubm"))
    yield Stage(("gmm-global-to-fgmm", "1.dubm", "1.fgmm"), 0.0, gaussians * dim ** 3)
    yield Stage(("ivector-extractor-init", f"--ivector-dim={size}", "--use-weights=false", "1.fgmm", "0.ie"))
    yield Stage(("gmm-global-get-post", f"--n={GPOST}", "--min-post=0.025", "1.dubm", "ark:feats.ark", "ark:post"),
                likelihoods)
    derived = gaussians * (2.0 * dim * dim * size + 2.0 * dim * size * size)
    first = 2.0 * frames * GPOST * dim + 2.0 * utterances * gaussians * dim * size
    quadratic = 2.0 * utterances * gaussians * triangle
    inverses = 2.0 * utterances * size ** 3
    yield Stage(("ivector-extractor-acc-stats", "--num-threads=1", "0.ie", "ark:feats.ark", "ark:post", "1.iacc"),
                0.0, derived + 2.0 * frames * GPOST * pairs + 2 * first + 2 * quadratic + inverses
                + 2.0 * utterances * gaussians * dim * dim)
    eigenvalues = 9.0                                      # times the dimension cubed, with eigenvectors
    yield Stage(("ivector-extractor-est", "--num-threads=1", "0.ie", "1.iacc", "1.ie"), 0.0, derived + gaussians * (
        (eigenvalues + 2) * size ** 3 + 8.0 * dim * size * size + 2 * (eigenvalues + 6) * dim ** 3
        + 6.0 * dim * dim * size))
    yield Stage(("ivector-extract", "1.ie", "ark:feats.ark", "ark:post", "ark:ivectors"), 0.0,
                derived + first + quadratic + inverses + 2.0 * quadratic)
    rows = frames / PERIOD
    yield Stage(("ivector-extract-online2", "--config=extractor.conf", "--num-threads=1", "ark:spk2utt",
                 "ark:feats.ark", "ark:online"), likelihoods, derived + frames * 2.0 * GPOST * dim
                + 2.0 * rows * min(gaussians, PERIOD * 2) * (dim * size + triangle) + 2.0 * rows * CG * size * size)


class Found(NamedTuple):
    """Processor seconds of all runs of a stage, with the rates of sgemm beside them."""

    ours: list[float]
    theirs: list[float]


def measure(options: argparse.Namespace) -> None:
    """Run the stages in the current folder, and print the table."""
    processes.run([sys.executable, "-c", MAKE, *map(str, (options.frames, options.gaussians, options.dim, EACH,
                                                          UTTERANCES))], 1)
    Path("extractor.conf").write_text(CONF)
    Path("splice.conf").write_text("--left-context=0\n--right-context=0\n")
    Path("cmvn.conf").write_text("")
    rates, table = [], []
    for stage in stages(options.frames, options.gaussians, options.dim, options.ivector_dim):
        found, theirs = Found([], []), kaldi.same_command(stage.words, 1)
        for _ in range(options.runs):
            rates.append(float(processes.run([sys.executable, "-c", RATE], 1).output))
            if theirs is not None:             # first, so that what the next stage reads is ours
                found.theirs.append(processes.run(theirs, 1).processor)
            found.ours.append(processes.program(*stage.words, threads=1).processor)
        table.append((stage, found))
    show(options, rates, table)


def show(options: argparse.Namespace, rates: list[float], table: list[tuple[Stage, Found]]) -> None:
    """Print the figures, processor seconds."""
    rate = statistics.median(rates)
    print(f"{options.frames} frames in utterances of {EACH}, {options.gaussians} Gaussians of dimension {options.dim}, "
          f"i-vectors of dimension {options.ivector_dim}; medians of {options.runs}, one thread")
    print(processes.describe_machine(1, rates) + " (processor time)")
    print(f"{'processor seconds':28} {'ours':>8} {'Kaldi':>8} {'ratio':>6} {'arithmetic, GFLOP':>20} {'at sgemm':>9}")
    totals = [0.0, 0.0, 0.0, 0.0]
    for stage, found in [*table, (None, Found([], []))]:
        if stage is None:
            name, (ours, theirs, work, least) = "all", totals
        else:
            name, ours = stage.name, statistics.median(found.ours)
            theirs = statistics.median(found.theirs) if found.theirs else 0.0
            work, least = (stage.single + stage.double) / 1e9, (stage.single + 2 * stage.double) / 1e9 / rate
            totals = [total + one for total, one in zip(totals, (ours, theirs, work, least), strict=True)]
        beside = f"{theirs:8.2f} {ours / theirs:6.2f}" if theirs else f"{'-':>8} {'-':>6}"
        print(f"{name:28} {ours:8.2f} {beside} {work:20.2f} {least:9.2f}")
    if not totals[1]:
        print("Kaldi's programs are not on PATH: the last two columns say what its formulas ask for")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--gaussians", type=int, default=512)
    parser.add_argument("--dim", type=int, default=40)
    parser.add_argument("--ivector-dim", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            measure(options)
        finally:
            os.chdir("/")


if __name__ == "__main__":
    main()
