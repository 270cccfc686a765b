"""How time and memory grow with the work: utterances, frames, outputs, layers, sequences of a minibatch, a long list.

    python benchmarks/growth.py [--rounds 3] [--threads 2] [--quick] [--write]

The network is a TDNN-F of eight layers of 512 with bottlenecks of 64 and 500 outputs, in which one thing at a time is
varied. Every figure is of a process of its own, all of them in turns; medians of the rounds. Computing is that of all
utterances by a computer that has compiled nothing yet (only a short utterance was computed before, by another one, so
that kernels are loaded); the long list has utterances of 1 to 30 seconds, the frames are those of one utterance of up
to an hour. Training is a step, the median of several. "growth" is the power of the size with which the time grew from
the line before (1: linear; time that is there at any size makes it less). Memory is the most that the process held.
With ``--write`` the table and a plot go to benchmarks/results/growth.txt and growth.svg (the extra ``plot``).
"""
from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.network.nnet import Nnet

RESULTS = Path(__file__).resolve().parent / "results"
FRAMES_A_SECOND, INPUT_DIM = 100, 40
LINEAR = 1.1                # a greater power is no longer called linear; figures vary by some percent
STEPS = 5                   # of training, after a first one that compiles


class Size(NamedTuple):
    """What is computed or trained; -1 utterances of -1 frames: see ``lengths``."""

    utterances: int = 100
    frames: int = 300               # of an utterance, or of a training sequence that have an output
    outputs: int = 500
    layers: int = 8
    sequences: int = 32             # of a minibatch
    is_list: bool = False           # utterances of 1 to 30 seconds


TRAINING = Size(frames=60)


class Axis(NamedTuple):
    """One thing that is varied: its field of Size and its values; ``base`` has all others."""

    task: str                       # "computing" or "training"
    name: str
    field: str
    values: tuple[int, ...]
    base: Size

    def sizes(self, quick: bool) -> Iterator[Size]:
        """The sizes to measure; for a first look two small ones."""
        least = max(self.values[0] // 16, 2)
        for value in (least, 2 * least) if quick else self.values:
            yield self.base._replace(**{self.field: value})


AXES = (
    Axis("computing", "utterances of 3 s", "utterances", (100, 200, 400, 800), Size()),
    Axis("computing", "frames of one utterance", "frames", (6000, 24_000, 90_000, 360_000), Size(utterances=1)),
    Axis("computing", "outputs", "outputs", (500, 1000, 2000, 4000, 8000), Size()),
    Axis("computing", "layers", "layers", (4, 8, 16, 32), Size()),
    Axis("computing", "utterances of 1 to 30 s", "utterances", (75, 150, 300), Size(is_list=True)),
    Axis("training", "sequences of a minibatch", "sequences", (16, 32, 64, 128, 256), TRAINING),
    Axis("training", "frames of a sequence", "frames", (50, 100, 200, 400), TRAINING),
    Axis("training", "outputs", "outputs", (500, 1000, 2000, 4000, 8000), TRAINING),
    Axis("training", "layers", "layers", (4, 8, 16, 32), TRAINING),
)


# -- in a process of its own -------------------------------------------------------------------------------------------

def network(size: Size) -> Nnet:
    """The network; only its first four layers look at other frames, so that all layers cost the same."""
    from computing_calls import with_statistics

    from nnet3py.network.nnet import Nnet
    from nnet3py.xconfig import expand

    layers = "\n".join(f"tdnnf-layer name=tdnnf{i} time-stride={int(i < 4)} dim=512 bottleneck-dim=64"
                       for i in range(size.layers))
    return with_statistics(Nnet.from_config(expand(f"""input name=input dim={INPUT_DIM}
relu-batchnorm-layer name=tdnn1 dim=512 input=Append(-1,0,1)
{layers}
linear-component name=prefinal dim=192
output-layer name=output dim={size.outputs}""").final, seed=0))


def lengths(size: Size) -> list[int]:
    """Frames of each utterance."""
    import numpy as np

    if not size.is_list:
        return [size.frames] * size.utterances
    seconds = np.random.default_rng(0).uniform(1, 30, size.utterances)
    return [int(one * FRAMES_A_SECOND) for one in seconds]


def features(frames: int) -> np.ndarray:
    """float32 (frames, 40)."""
    import numpy as np

    return np.random.default_rng(frames).standard_normal((frames, INPUT_DIM), dtype=np.float32)


def computing_seconds(size: Size) -> float:
    """Of computing all utterances, whose outputs are let go of one by one."""
    from nnet3py.network.inference import for_inference
    from nnet3py.runtime.compute import UtteranceComputer
    from nnet3py.runtime.cutting import Utterance
    from nnet3py.runtime.options import ComputeOptions

    nnet = for_inference(network(size))
    options = ComputeOptions(frames_per_chunk=150)
    UtteranceComputer(nnet, options).compute(features(10))
    computer = UtteranceComputer(nnet, options)
    utterances = [Utterance(str(i), features(length)) for i, length in enumerate(lengths(size))]
    start = time.perf_counter()
    for _ in computer.compute_all(iter(utterances)):
        pass
    return time.perf_counter() - start


def training_seconds(size: Size) -> float:
    """Of a step."""
    from gpu_parts import nets

    from nnet3py.training.options import TrainerOptions
    from nnet3py.training.trainer import NnetTrainer

    nnet = network(size)
    example = nets.minibatch(nnet, nets.Sizes(pdfs=size.outputs, sequences=size.sequences, frames=size.frames))
    trainer = NnetTrainer(nnet, TrainerOptions())
    trainer.train(example)
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        trainer.train(example)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(task: str, size: Size, threads: int) -> dict[str, float]:
    """Seconds and megabytes, in this process."""
    import logging

    from nnet3py.engine.threads import set_num_threads

    logging.disable(logging.WARNING)            # of networks that were never trained
    set_num_threads(threads)
    seconds = computing_seconds(size) if task == "computing" else training_seconds(size)
    unit = 2 ** 20 if sys.platform == "darwin" else 2 ** 10
    return {"seconds": seconds, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit}


# -- all of them -------------------------------------------------------------------------------------------------------

def child(task: str, size: Size, threads: int) -> dict[str, float]:
    """What a process of its own measures."""
    words = [sys.executable, __file__, f"--threads={threads}", f"--child={json.dumps([task, *size])}"]
    found: dict[str, float] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    return found


class Row(NamedTuple):
    """A size and the medians that were found for it."""

    value: int
    seconds: float
    megabytes: float


def rows(axis: Axis, found: list[list[dict[str, float]]], quick: bool) -> list[Row]:
    """The medians of the rounds, a row for each size."""
    return [Row(getattr(size, axis.field), *(statistics.median(one[kind] for one in turns)
                                             for kind in ("seconds", "megabytes")))
            for size, turns in zip(axis.sizes(quick), found, strict=True)]


def power(small: Row, large: Row) -> float:
    """The power of the size with which the time grew."""
    return math.log(large.seconds / small.seconds) / math.log(large.value / small.value)


def lines(axis: Axis, table: list[Row]) -> Iterator[str]:
    """The table as text."""
    yield f"{axis.task + ': ' + axis.name:40}{'seconds':>10}{'ms each':>12}{'growth':>8}{'MB':>8}"
    for before, row in zip([None, *table[:-1]], table, strict=True):
        grown = f"{power(before, row):8.2f}" if before else " " * 8
        yield (f"{row.value:>40}{row.seconds:10.3f}{1e3 * row.seconds / row.value:12.4f}{grown}"
               f"{row.megabytes:8.0f}")


def draw(tables: dict[Axis, list[Row]], path: Path) -> None:
    """Time and memory of each, as parts of the smallest size's: a line that rises grows worse than linear."""
    from nnet3py.extras import load

    load("matplotlib", "plots need", "plot")
    from matplotlib.figure import Figure

    tasks = ("computing", "training")
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    panes: Any = figure.subplots(2, 2, sharex="col")
    for column, task in enumerate(tasks):
        for axis, table in tables.items():
            if axis.task == task:
                sizes = [row.value / table[0].value for row in table]
                for pane, values in zip(panes[:, column], ([row.seconds for row in table],
                                                           [row.megabytes for row in table]), strict=True):
                    each = [value / size / values[0] for value, size in zip(values, sizes, strict=True)]
                    pane.plot(sizes, each, marker="o", markersize=4,
                              label=f"{axis.name} ({table[0].value:,} to {table[-1].value:,})")
        for pane, what in zip(panes[:, column], ("time", "memory"), strict=True):
            pane.set_xscale("log", base=2)
            pane.set_ylim(0, 1.3)
            pane.axhline(1.0, color="#666666", linewidth=0.8, linestyle="--")
            pane.set_title(f"{task}: {what} of each, the smallest size's being 1")
            pane.xaxis.set_major_formatter("{x:g}")
        panes[1, column].legend(fontsize=8, frameon=False, loc="upper right")
        panes[1, column].set_xlabel("times the smallest size (dashed: linear growth)")
    figure.savefig(path, metadata={"Date": None})


def report(options: argparse.Namespace) -> dict[Axis, list[Row]]:
    """Measure all sizes in turns."""
    points = [(axis, size) for axis in AXES for size in axis.sizes(options.quick)]
    found: dict[tuple[Axis, Size], list[dict[str, float]]] = {point: [] for point in points}
    for _ in range(options.rounds):
        for axis, size in points:
            found[axis, size].append(child(axis.task, size, options.threads))
    return {axis: rows(axis, [found[axis, size] for size in axis.sizes(options.quick)], options.quick) for axis in AXES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="two small sizes of each, for a first look")
    parser.add_argument("--write", action="store_true", help="keep the table, and draw it")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child[0], Size(*options.child[1:]), options.threads)))
        return
    load = os.getloadavg()[0]
    tables = report(options)
    text = [line for axis, table in tables.items() for line in (*lines(axis, table), "")]
    worse = [f"{axis.task}, {axis.name}: {large.value} ({power(small, large):.2f})" for axis, table in tables.items()
             for small, large in zip(table[:-1], table[1:], strict=True) if power(small, large) > LINEAR]
    text.append(f"Worse than linear (a power above {LINEAR}): {'; '.join(worse) or 'none'}. {os.cpu_count()} cores, "
                f"{options.threads} threads, load {load:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end, "
                "with our own")
    print("\n".join(text))
    if options.write:
        RESULTS.joinpath("growth.txt").write_text(
            f"$ python benchmarks/growth.py --rounds={options.rounds} --write\n" + "\n".join(text) + "\n")
        draw(tables, RESULTS / "growth.svg")


if __name__ == "__main__":
    main()
