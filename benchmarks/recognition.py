"""Recognition of streams: latency, start, many streams at once, memory; beside the package vosk in the same run.

    python benchmarks/recognition.py                                   # the demo's model, and one widened to 20 million
    python benchmarks/recognition.py --seconds=20 --hours=0.05         # a quick look
    python benchmarks/recognition.py --model=FOLDER --no-wide a.wav b.flac   # another model, in vosk's layout
    python benchmarks/recognition.py --only=memory --no-wide           # ten hours of sound; --only may be repeated
    python benchmarks/recognition.py --profile                         # where the time of a stream goes

Every figure is of a process of its own; ours and vosk's (pip install vosk) take turns, on the same cores, with the same
bytes, in blocks of 100 ms. After each block partial words are asked for. A widened model (recognition_parts/
wide_model.py) has the words of the model it is made of at the cost of a TDNN-F of 20 million parameters.

  start     seconds from the beginning of the process, Python's start included, to the first word; kernels, compiled
            computations and Python's own byte code are on disk
  loading   seconds from the beginning of the process to the loaded model; megabytes held then, those of them that are
            mapped files, which processes share, and the most until then; megabytes that two streams add
  latency   milliseconds that a block takes, on one core, fed as fast as possible; the factor is seconds for each second
            of sound
  streams   8 streams in real time on two cores: milliseconds from the end of a block to its answer; how many cores
            are busy
  batch     milliseconds that the network takes for a chunk of each stream where several are computed together; one core
  memory    megabytes held after a tenth of the sound, and at the end. The sound is the recordings in random order,
            louder or not, with pauses and noise of random length and level, as fast as it is recognized; the factor is
            processor time
  profile   seconds of processor time that each part of a stream takes for a second of sound, one core
"""
from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import wave
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from recognition_parts.measure import RATE
from recognition_parts.wide_model import make_wide_model

from nnet3py.feat.sound import resample
from nnet3py.recognition.sound import open_sound

ROOT = Path(__file__).resolve().parent.parent
MEASURE = Path(__file__).resolve().parent / "recognition_parts" / "measure.py"
DEMO = ROOT / "nnet3py" / "recognition" / "demo_model"
SMALL = ROOT / "tests" / "data" / "recognition"
LATENCY, START, STREAMS = 50.0, 1.0, 8        # goals: milliseconds, seconds; how many streams
BEHIND = 1000.0                               # milliseconds: a stream that is later than this is not in real time
ALL = ("start", "loading", "latency", "streams", "batch", "memory")
WITHOUT_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"   # where it is set, each start would compile all of Python's files again


def as_waves(sounds: list[Path], folder: Path) -> list[Path]:
    """The sounds as WAVE files of 16 kHz, in ``folder``: all recognizers are given the same samples."""
    found = []
    for number, path in enumerate(sounds):
        sound = open_sound(str(path))
        samples = resample(np.concatenate(list(sound.blocks())), int(sound.rate), RATE)
        found.append(folder / f"{number}.wav")
        with wave.open(str(found[-1]), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(np.clip(np.round(32768 * samples), -32768, 32767).astype("<i2").tobytes())
    return found


def measure(which: str, what: str, folder: Path, seconds: float, sounds: list[Path], cores: int) -> dict[str, Any]:
    """One measurement, by ``cores`` cores."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    environment = {**os.environ, "OMP_NUM_THREADS": str(cores), "PYTHONPATH": str(ROOT)}
    environment.pop(WITHOUT_BYTE_CODE, None)
    command = [sys.executable, str(MEASURE), which, what, str(folder), str(seconds), str(STREAMS), *map(str, sounds)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          preexec_fn=lambda: os.sched_setaffinity(0, allowed))
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class Comparison:
    """Prints the figures of one model.

    Parameters
    ----------
    folder, sounds : the model and what it recognizes
    rivals : who takes turns
    seconds, hours, runs : as the options
    """

    def __init__(self, folder: Path, sounds: list[Path], rivals: list[str], seconds: float, hours: float,
                 runs: int) -> None:
        self.folder, self.sounds, self.rivals = folder, sounds, rivals
        self.seconds, self.hours, self.runs = seconds, hours, runs

    def run(self, name: str, parts: tuple[str, ...]) -> None:
        """Print the parts, in the order in which :data:`ALL` has them."""
        click.echo(f"\n{name}")
        for part in ALL:
            if part in parts:
                getattr(self, part)()

    def _measure(self, which: str, what: str, cores: int, seconds: float | None = None) -> dict[str, Any]:
        return measure(which, what, self.folder, self.seconds if seconds is None else seconds, self.sounds, cores)

    def _in_turns(self, what: str, seconds: float) -> dict[str, list[dict[str, Any]]]:
        """Several runs of each, by two cores; one before brings kernels and files into caches."""
        found: dict[str, list[dict[str, Any]]] = {which: [] for which in self.rivals}
        for _ in range(self.runs + 1):
            for which in self.rivals:
                found[which].append(self._measure(which, what, 2, seconds))
        return {which: runs[1:] for which, runs in found.items()}

    def start(self) -> None:
        for which, found in self._in_turns("start", 10.0).items():
            first = statistics.median(one["first_word"] or float("nan") for one in found)
            loaded, busy = (statistics.median(one[name] for one in found) for name in ("loaded", "busy"))
            goal = f"  (goal: {START} s)" if which == "nnet3py" else ""
            click.echo(f"  start    {which:8} first word {first:6.2f} s, model loaded {loaded:6.2f} s, "
                       f"processor time {busy:.2f} s{goal}")

    def loading(self) -> None:
        for which, found in self._in_turns("loading", 5.0).items():
            one = {name: statistics.median(run[name] for run in found) for name in found[0]}
            click.echo(f"  loading  {which:8} {one['loaded']:6.2f} s, {one['held']:6.0f} MB, {one['mapped']:6.0f} of "
                       f"them mapped files, at most {one['most']:6.0f} until then; two streams {one['streams']:6.0f} "
                       "more")

    def latency(self) -> None:
        words = {}
        for which in self.rivals:
            one = self._measure(which, "latency", 1)
            words[which] = one["words"]
            goal = f"  (goal: p99 {LATENCY:.0f})" if which == "nnet3py" else ""
            click.echo(f"  latency  {which:8} p50 {one['p50']:7.1f}  p99 {one['p99']:7.1f}  max {one['max']:7.1f} ms, "
                       f"factor {one['factor']:.4f}, processor time {one['busy']:.4f}{goal}")
        click.echo(f"  words    {'the same' if len(set(words.values())) == 1 else 'different'}, "
                   f"{len(words[self.rivals[0]].split())} of them")

    def streams(self) -> None:
        for which in self.rivals:
            one = self._measure(which, "streams", 2)
            in_time = "in real time" if one["max"] < BEHIND else "NOT in real time"
            click.echo(f"  streams  {which:8} {STREAMS} {in_time}: p50 {one['p50']:7.1f}  p99 {one['p99']:7.1f}  "
                       f"max {one['max']:7.1f} ms late, {one['busy']:.2f} cores busy")

    def batch(self) -> None:
        found = self._measure("nnet3py", "batch", 1, 0.0)
        click.echo("  batch    nnet3py  a chunk of each of " + ", ".join(
            f"{count} streams {taken:.2f} ms" for count, taken in found.items()) + " for each stream")

    def memory(self) -> None:
        for which in self.rivals if self.hours else []:
            one = self._measure(which, "memory", 1, 3600 * self.hours)
            click.echo(f"  memory   {which:8} {one['early']:6.0f} MB after {self.hours / 10:g} hours, "
                       f"{one['late']:6.0f} MB after {self.hours:g}, factor {one['factor']:.4f}")

    def profile(self) -> None:
        """Print where the time goes."""
        parts = self._measure("nnet3py", "profile", 1)
        total = sum(one["seconds"] for one in parts.values())
        for name, one in sorted(parts.items(), key=lambda item: -item[1]["seconds"]):
            click.echo(f"  {name:34} {one['seconds'] / self.seconds:.5f}  {100 * one['seconds'] / total:3.0f} %  "
                       f"{one['calls']:6d} times, {1e6 * one['seconds'] / one['calls']:7.1f} µs each")
        click.echo(f"  {'all':34} {total / self.seconds:.5f}")


@click.command()
@click.option("--model", type=click.Path(path_type=Path), help="A model folder in vosk's layout [the demo's].")
@click.option("--seconds", default=60.0, show_default=True, help="Sound of each stream.")
@click.option("--hours", default=10.0, show_default=True, help="Sound for the measurement of memory; 0: none.")
@click.option("--runs", default=5, show_default=True, help="Starts of each.")
@click.option("--wide/--no-wide", default=True, show_default=True, help="Measure the widened model, too.")
@click.option("--only", multiple=True, type=click.Choice(ALL), help="Take only this measurement.")
@click.option("--rival/--no-rival", default=True, show_default=True, help="Measure vosk, too, if it is there.")
@click.option("--profile", is_flag=True, help="Print where the time of a stream goes, and nothing else.")
@click.argument("sounds", nargs=-1, type=click.Path(exists=True, path_type=Path))
def main(model: Path | None, seconds: float, hours: float, runs: int, wide: bool, only: tuple[str, ...], rival: bool,
         profile: bool, sounds: tuple[Path, ...]) -> None:
    """Print the figures of a model, and of the same widened."""
    if model is None:
        model = DEMO if (DEMO / "am" / "final.mdl").exists() else SMALL / "package"
    name = str(model.relative_to(ROOT) if model.is_relative_to(ROOT) else model)
    rivals = ["nnet3py", *(["vosk"] if rival and not profile and find_spec("vosk") else [])]
    if rival and not profile and len(rivals) < 2:
        click.echo("the package vosk is not there to compare with: pip install vosk")
    with tempfile.TemporaryDirectory() as temp:
        recordings = as_waves(list(sounds) or sorted((SMALL / "wav").glob("*.wav")), Path(temp))
        given = Comparison(model, recordings, rivals, seconds, hours, runs)
        if profile:
            click.echo(f"{name}: seconds of processor time for a second of sound")
            given.profile()
            return
        given.run(name, only or ALL)
        if wide:
            count = make_wide_model(model, Path(temp) / "wide")
            Comparison(Path(temp) / "wide", recordings, rivals, seconds, min(hours, 0.5), runs).run(
                f"the same, widened to {count / 1e6:.1f} million parameters", only or ALL)


if __name__ == "__main__":
    main()
