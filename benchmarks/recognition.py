"""Recognition of streams: latency, start, many streams at once, memory; beside the package vosk in the same run.

    python benchmarks/recognition.py                                   # the demo's model, and one widened to 20 million
    python benchmarks/recognition.py --seconds=20 --hours=0.05         # a quick look
    python benchmarks/recognition.py --model=FOLDER a.wav b.wav        # another model, in vosk's layout

Every figure is of a process of its own; ours and vosk's (pip install vosk) take turns, on the same cores, with the same
bytes, in blocks of 100 ms. After each block partial words are asked for. A widened model (recognition_parts/
wide_model.py) has the words of the model it is made of at the cost of a TDNN-F of 20 million parameters.

  start     seconds from the beginning of the process, Python's start included, to the first word; kernels and compiled
            computations are on disk
  latency   milliseconds that a block takes, on one core, fed as fast as possible; the factor is seconds for each second
            of sound
  streams   8 streams in real time on two cores: milliseconds from the end of a block to its answer; how many cores
            are busy
  batch     milliseconds that the network takes for a chunk of each stream where several are computed together; one core
  memory    megabytes held after a tenth of the sound, and at the end
"""
from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from recognition_parts.wide_model import make_wide_model

ROOT = Path(__file__).resolve().parent.parent
MEASURE = Path(__file__).resolve().parent / "recognition_parts" / "measure.py"
DEMO = ROOT / "nnet3py" / "recognition" / "demo_model"
SMALL = ROOT / "tests" / "data" / "recognition"
LATENCY, START, STREAMS = 50.0, 1.0, 8        # goals: milliseconds, seconds; how many streams
BEHIND = 1000.0                               # milliseconds: a stream that is later than this is not in real time


def measure(which: str, what: str, folder: Path, seconds: float, sounds: list[Path], cores: int) -> dict[str, Any]:
    """One measurement, by ``cores`` cores."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    environment = {**os.environ, "OMP_NUM_THREADS": str(cores), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(MEASURE), which, what, str(folder), str(seconds), str(STREAMS), *map(str, sounds)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          preexec_fn=lambda: os.sched_setaffinity(0, allowed))
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(name: str, folder: Path, sounds: list[Path], rivals: list[str], seconds: float, hours: float,
            runs: int) -> None:
    """Print all figures of one model."""
    click.echo(f"\n{name}")
    for which in rivals:                                          # kernels and files come into caches
        measure(which, "start", folder, 10.0, sounds, 2)
    starts = {which: [] for which in rivals}
    for _ in range(runs):
        for which in rivals:
            starts[which].append(measure(which, "start", folder, 10.0, sounds, 2))
    for which, found in starts.items():
        first = statistics.median(one["first_word"] or float("nan") for one in found)
        loaded = statistics.median(one["loaded"] for one in found)
        goal = f"  (goal: {START} s)" if which == "nnet3py" else ""
        click.echo(f"  start    {which:8} first word {first:6.2f} s, model loaded {loaded:6.2f} s{goal}")
    words = {}
    for which in rivals:
        one = measure(which, "latency", folder, seconds, sounds, 1)
        words[which] = one["words"]
        goal = f"  (goal: p99 {LATENCY:.0f})" if which == "nnet3py" else ""
        click.echo(f"  latency  {which:8} p50 {one['p50']:7.1f}  p99 {one['p99']:7.1f}  max {one['max']:7.1f} ms, "
                   f"factor {one['factor']:.4f}{goal}")
    click.echo(f"  words    {'the same' if len(set(words.values())) == 1 else 'different'}, "
               f"{len(words[rivals[0]].split())} of them")
    for which in rivals:
        one = measure(which, "streams", folder, seconds, sounds, 2)
        in_time = "in real time" if one["max"] < BEHIND else "NOT in real time"
        click.echo(f"  streams  {which:8} {STREAMS} {in_time}: p50 {one['p50']:7.1f}  p99 {one['p99']:7.1f}  "
                   f"max {one['max']:7.1f} ms late, {one['busy']:.2f} cores busy")
    found = measure("nnet3py", "batch", folder, 0.0, sounds, 1)
    click.echo("  batch    nnet3py  a chunk of each of " + ", ".join(
        f"{count} streams {taken:.2f} ms" for count, taken in found.items()) + " for each stream")
    for which in rivals if hours else []:
        one = measure(which, "memory", folder, 3600 * hours, sounds, 1)
        click.echo(f"  memory   {which:8} {one['early']:6.0f} MB after {hours / 10:g} hours, {one['late']:6.0f} MB "
                   f"after {hours:g}, factor {one['factor']:.4f}")


@click.command()
@click.option("--model", type=click.Path(path_type=Path), help="A model folder in vosk's layout [the demo's].")
@click.option("--seconds", default=60.0, show_default=True, help="Sound of each stream.")
@click.option("--hours", default=10.0, show_default=True, help="Sound for the measurement of memory; 0: none.")
@click.option("--runs", default=5, show_default=True, help="Starts of each.")
@click.option("--wide/--no-wide", default=True, show_default=True, help="Measure the widened model, too.")
@click.argument("sounds", nargs=-1, type=click.Path(exists=True, path_type=Path))
def main(model: Path | None, seconds: float, hours: float, runs: int, wide: bool, sounds: tuple[Path, ...]) -> None:
    """Print the figures of a model, and of the same widened."""
    recordings = sorted((SMALL / "wav").glob("*.wav"))
    if model is None:
        model = DEMO if (DEMO / "am" / "final.mdl").exists() else SMALL / "package"
        recordings = sorted(DEMO.glob("*.wav")) or recordings if model == DEMO else recordings
    rivals = ["nnet3py", *(["vosk"] if find_spec("vosk") else [])]
    if len(rivals) < 2:
        click.echo("the package vosk is not there to compare with: pip install vosk")
    compare(str(model.relative_to(ROOT) if model.is_relative_to(ROOT) else model), model, list(sounds) or recordings,
            rivals, seconds, hours, runs)
    if wide:
        with tempfile.TemporaryDirectory() as temp:
            count = make_wide_model(model, Path(temp) / "wide")
            compare(f"the same, widened to {count / 1e6:.1f} million parameters", Path(temp) / "wide",
                    list(sounds) or recordings, rivals, seconds, min(hours, 0.5), runs)


if __name__ == "__main__":
    main()
