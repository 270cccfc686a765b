"""Many files of sound: nnet3py transcribe with one job and with two, and each file beside a stream that is alone.

    python benchmarks/transcribing.py                               # 200 files of 5 to 600 s, the demo's model
    python benchmarks/transcribing.py --model=FOLDER a.wav b.flac   # another model, and sound that files are made of
    python benchmarks/transcribing.py --files=10 --longest=20       # a quick look

The files are made of recordings, with pauses, noise and loudness that differ. Memory is that of all processes, what
they share counted once (proportional set size), at its largest. One job transcribes every tenth file.

  compared   some of the files, transcribed by one job and by two, beside a stream that gets each of them in blocks of
             100 ms and is asked for words after each, with nothing else to do. Jobs and each stream begin as copies of
             one process that has loaded the model. Ratios below 1: transcribing is faster. Two streams at a time show
             what the machine itself loses when both cores compute. On a machine with other work, processor time
             says more than time
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import wave
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from recognition import DEMO, ROOT, SMALL, as_waves
from recognition_parts.measure import RATE, blocks, varied
from recognition_parts.serving_client import memory_of

from nnet3py.recognition.transcribing import Transcript, segment_of

MODEL_OF_SOUND = 600.0        # seconds of sound that all files are cut from
POLL = 0.25                   # seconds between two looks at memory


def make_files(folder: Path, count: int, shortest: float, longest: float, sounds: list[Path]) -> list[Path]:
    """Write files whose lengths are spread evenly on a logarithmic scale, in random order."""
    whole = b"".join(varied([str(sound) for sound in sounds], MODEL_OF_SOUND))
    rng = np.random.default_rng(0)
    paths = []
    for number, seconds in enumerate(rng.permutation(np.geomspace(shortest, longest, count))):
        path = folder / f"{number:03d}.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes(b"".join(blocks(whole, float(seconds), int(rng.integers(int(MODEL_OF_SOUND * 10))))))
        paths.append(path)
    return paths


def seconds_of(path: Path) -> float:
    """Return how long a file is."""
    with wave.open(str(path)) as file:
        return file.getnframes() / file.getframerate()


def jobs(model: Path, paths: list[Path], count: int, folder: Path) -> None:
    """Print what the command takes with so many jobs."""
    listed, results = folder / f"list.{count}", folder / f"results.{count}.jsonl"
    listed.write_text("".join(f"{path}\n" for path in paths))
    begun, most = time.perf_counter(), 0.0
    with subprocess.Popen([sys.executable, "-m", "nnet3py", "transcribe", f"--num-jobs={count}", f"--results={results}",
                           f"--files-from={listed}", str(model)], env={**os.environ, "PYTHONPATH": str(ROOT)},
                          stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            time.sleep(POLL)
            try:
                most = max(most, memory_of(process.pid).proportional)
            except (OSError, TypeError):           # a process has just ended
                pass
        said = "" if process.stderr is None else process.stderr.read()
    taken, sound = time.perf_counter() - begun, sum(map(seconds_of, paths))
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    if process.returncode or {line["file"] for line in lines} != set(map(str, paths)):
        raise SystemExit(f"{len(lines)} of {len(paths)} files have a line: {said}")
    click.echo(f"  {count} job{'s' * (count > 1):1}     {len(paths)} files of {sound:.0f} s in {taken:.1f} s, "
               f"real-time factor {taken / sound:.4f}, at most {most:.0f} MB; load {os.getloadavg()[0]:.1f}")


def timed(work: Any, sound: Any, progress: Any) -> Any:
    """Do a runner's work on a sound; its transcript's model and name are the time and the processor time it took."""
    begun, busy = time.perf_counter(), time.process_time()
    transcript = work(sound, progress)
    return replace(transcript, model=str(time.perf_counter() - begun), name=str(time.process_time() - busy))


def stream_alone(recognizer: Any, sound: Any, progress: Any) -> Transcript:
    """Give a stream a file in blocks, and ask for words after each."""
    with wave.open(sound.path) as file:
        content = file.readframes(file.getnframes())
    stream, segments = recognizer.stream(RATE), []
    for block in blocks(content, len(content) / 2 / RATE):
        stream.accept_waveform(block)
        while stream.endpoint:
            segments.append(segment_of(stream.result()))
        _ = stream.partial
    segments.append(segment_of(stream.finish()))
    return Transcript(sound.path, sound.name, segments=tuple(segments))


def compared(model: Path, paths: list[Path]) -> None:
    """Print what files take in one job, in two, and as two streams at a time: ratios to each as a stream alone."""
    import nnet3py
    from nnet3py.cli.recognition.processes import in_processes
    from nnet3py.engine.threads import own_process, set_num_threads
    from nnet3py.recognition.sound import Listed
    from nnet3py.recognition.transcribing import SoundOptions, transcribe_sound

    own_process()                                                     # as the command says: BLAS has no threads
    set_num_threads(1)
    recognizer = nnet3py.Recognizer(model)
    recognizer.transcribe(paths[0])                                   # warm
    sounds = [Listed(str(path), path.name) for path in paths]

    def run(work: Any, count: int, some: list[Listed]) -> dict[str, Transcript]:
        return {sound.path: transcript for sound, transcript in in_processes(count, 1)(
            partial(timed, work), some, lambda sound, seconds, duration: None)}

    alone: dict[str, Transcript] = {}
    for sound in sounds:
        alone |= run(partial(stream_alone, recognizer), 1, [sound])
    streams, jobs = partial(stream_alone, recognizer), partial(transcribe_sound, recognizer, SoundOptions())
    for what, work, count in (("1 job", jobs, 1), ("2 jobs", jobs, 2), ("2 streams", streams, 2)):
        done = run(work, count, sounds)
        times = [float(done[path].model) / float(alone[path].model) for path in alone]
        busy = [float(done[path].name) / float(alone[path].name) for path in alone]
        alike = sum(done[path].text == alone[path].text for path in alone)
        click.echo(f"  compared   {len(paths)} files in {what}, {alike} alike: beside a stream alone, processor time "
                   f"{median(busy):.2f} (at most {max(busy):.2f}), time {median(times):.2f} "
                   f"(at most {max(times):.2f}); load {os.getloadavg()[0]:.1f}")


@click.command()
@click.option("--model", type=click.Path(exists=True, path_type=Path), help="A model folder [the demo's].")
@click.option("--files", "count", default=200, show_default=True)
@click.option("--shortest", default=5.0, show_default=True, help="Seconds.")
@click.option("--longest", default=600.0, show_default=True, help="Seconds.")
@click.option("--compared", "num_compared", default=20, show_default=True, help="Files that are compared.")
@click.option("--only", multiple=True, type=click.Choice(["1", "2", "compared"]), help="Take only this measurement.")
@click.argument("sounds", nargs=-1, type=click.Path(exists=True, path_type=Path))
def main(model: Path | None, count: int, shortest: float, longest: float, num_compared: int, only: tuple[str, ...],
         sounds: tuple[Path, ...]) -> None:
    """Print the figures of a model."""
    model = model or DEMO
    click.echo(str(model.relative_to(ROOT) if model.is_relative_to(ROOT) else model.name))
    with tempfile.TemporaryDirectory() as temp:
        waves = as_waves(list(sounds) or sorted((SMALL / "wav").glob("*.wav")), Path(temp))
        (Path(temp) / "files").mkdir()
        paths = make_files(Path(temp) / "files", count, shortest, longest, waves)
        click.echo(f"  files      {count} of {shortest:g} to {longest:g} s, {sum(map(seconds_of, paths)):.0f} s in all"
                   f"; load {os.getloadavg()[0]:.1f}")
        if not only or "1" in only:
            jobs(model, paths[::10], 1, Path(temp))
        if not only or "2" in only:
            jobs(model, paths, 2, Path(temp))
        if not only or "compared" in only:
            step = max(1, count // num_compared)
            compared(model, sorted(paths, key=seconds_of)[::step][:num_compared])


if __name__ == "__main__":
    main()
