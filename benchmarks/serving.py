"""Servers: streams in real time over WebSockets, memory of a process and of several; beside vosk-server in one run.

    python benchmarks/serving.py                                    # 20 streams, the demo's model
    python benchmarks/serving.py --model=FOLDER a.wav b.flac        # another model, in vosk's layout
    python benchmarks/serving.py --vosk-server=vosk-server/websocket/asr_server.py    # its program, too: a checkout of
                                                                    # alphacep/vosk-server, and pip install vosk
    python benchmarks/serving.py --streams=5 --seconds=10           # a quick look

Each server is a process of its own that may use two cores; clients are in this process, which shares the machine with
it. A client sends each block of 100 ms when its last sample has been spoken, whatever has been answered.

  streams    milliseconds from the end of a block to its answer; processor time for a second of sound, and the cores
             that this takes in real time: where the machine has other work, too, these say more than the times;
             megabytes of the server before and at the end
  processes  megabytes of servers of the same model: one, two; proportional ones count what they share by halves
"""
from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import click
from recognition import DEMO, ROOT, SMALL, as_waves
from recognition_parts.measure import read_sound
from recognition_parts.serving_client import memory_of, our_server, running, talk, vosk_server

CORES = 2
LATENCY = 200.0                # milliseconds: goal for 99 of 100 blocks
BEHIND = 1000.0                # milliseconds: a stream that is later than this is not in real time
Command = Callable[[Path, int], list[str]]


def streams(name: str, command: Command, model: Path, sound: bytes, seconds: float, count: int) -> None:
    """Print how late answers are."""
    with running(command, model, CORES) as (process, port):
        before = memory_of(process)
        late = talk(process, port, sound, seconds, count)
        after = memory_of(process)
    most = late.milliseconds[-1]
    in_time = "in real time" if most < BEHIND else "NOT in real time"
    in_time += f", {late.cut_off} cut off by the server" if late.cut_off else ""
    click.echo(f"  streams    {name:11} {count} {in_time}: p50 {late.percentile(0.5):.0f}  "
               f"p99 {late.percentile(0.99):.0f}  max {most:.0f} ms (goal: p99 {LATENCY:.0f}), "
               f"processor time for a second of sound: server {late.server_seconds / (count * seconds):.3f} s "
               f"({late.server_seconds / seconds:.2f} cores for all), clients "
               f"{late.client_seconds / (count * seconds):.3f} s, "
               f"{before.resident:.0f} MB before, {after.resident:.0f} at the end, "
               f"{sum(len(words.split()) for words in late.words)} words")


def processes(name: str, command: Command, model: Path) -> None:
    """Print the memory of one and of two."""
    with running(command, model, CORES) as (one, _):
        alone = memory_of(one)
        with running(command, model, CORES) as (two, _):
            both = memory_of(one), memory_of(two)
    total = sum(memory.proportional for memory in both)
    click.echo(f"  processes  {name:11} one {alone.proportional:.0f} MB ({alone.resident:.0f} resident), "
               f"two {total:.0f} MB; each has {both[0].own:.0f} MB of its own")


@click.command()
@click.option("--model", type=click.Path(exists=True, path_type=Path), help="A model folder in vosk's layout [the "
              "demo's].")
@click.option("--streams", "count", default=20, show_default=True, help="Streams at once.")
@click.option("--seconds", default=60.0, show_default=True, help="Sound of each stream.")
@click.option("--vosk-server", "program", type=click.Path(exists=True, path_type=Path), help="vosk-server's "
              "asr_server.py, to be measured, too.")
@click.option("--only", multiple=True, type=click.Choice(["streams", "processes"]), help="Take only this measurement.")
@click.option("--turns", default=1, show_default=True, help="Times that the servers take turns.")
@click.argument("sounds", nargs=-1, type=click.Path(exists=True, path_type=Path))
def main(model: Path | None, count: int, seconds: float, program: Path | None, only: tuple[str, ...], turns: int,
         sounds: tuple[Path, ...]) -> None:
    """Print the figures of the servers of a model."""
    model = model or DEMO
    servers: dict[str, Command] = {"nnet3py": our_server}
    if program is not None:
        if not find_spec("vosk"):
            raise click.ClickException("the package vosk, which its server needs, is not there: pip install vosk")
        servers["vosk-server"] = vosk_server(program)
    click.echo(str(model.relative_to(ROOT) if model.is_relative_to(ROOT) else model.name))
    with tempfile.TemporaryDirectory() as temp:
        waves = as_waves(list(sounds) or sorted((SMALL / "wav").glob("*.wav")), Path(temp))
        sound = read_sound([str(wave) for wave in waves])
        for _ in range(turns):
            for name, command in servers.items():
                if not only or "streams" in only:
                    streams(name, command, model, sound, seconds, count)
                if not only or "processes" in only:
                    processes(name, command, model)


if __name__ == "__main__":
    main()
