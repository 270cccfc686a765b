"""Servers: streams in real time over WebSockets, memory of a process and of several; beside vosk-server in one run.

    python benchmarks/serving.py                                    # 20 streams, the demo's model
    python benchmarks/serving.py --model=FOLDER a.wav b.flac        # another model, in vosk's layout
    python benchmarks/serving.py --vosk-server=vosk-server/websocket/asr_server.py    # its program, too: a checkout of
                                                                    # alphacep/vosk-server, and pip install vosk
    python benchmarks/serving.py --num-processes=2                  # also several processes
    python benchmarks/serving.py --streams=5 --seconds=10           # a quick look

Each server is a process of its own that may use two cores; clients are in this process, which shares the machine with
it. A client sends each block of 100 ms when its last sample has been spoken, whatever has been answered.

  streams    milliseconds from the end of a block to its answer; processor time for a second of sound, and the cores
             that this takes in real time: where the machine has other work, too, these say more than the times;
             megabytes of the server before and at the end
  processes  megabytes of servers of the same model: one, two
Megabytes are proportional: what processes share counts by halves. With --num-processes there is also our server with
that option, and so many of vosk's, which the streams take in turn.
"""
from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import click
from recognition import DEMO, ROOT, SMALL, as_waves
from recognition_parts.measure import read_sound
from recognition_parts.serving_client import memory_of, our_server, running, talk, vosk_server

CORES = 2
LATENCY = 200.0                # milliseconds: goal for 99 of 100 blocks
BEHIND = 1000.0                # milliseconds: a stream that is later than this is not in real time
Command = Callable[[Path, int], list[str]]


class Server(NamedTuple):
    """A program that serves: its command, and how many of it serve the streams together."""

    command: Command
    copies: int = 1


@contextmanager
def all_running(server: Server, model: Path) -> Iterator[list[tuple[int, int]]]:
    """Run a server, or several of them; processes and ports."""
    with ExitStack() as stack:
        yield [stack.enter_context(running(server.command, model, CORES)) for _ in range(server.copies)]


def streams(name: str, server: Server, model: Path, sound: bytes, seconds: float, count: int) -> None:
    """Print how late answers are."""
    with all_running(server, model) as servers:
        processes = [process for process, _ in servers]
        before = memory_of(*processes)
        late = talk(servers, sound, seconds, count)
        after = memory_of(*processes)
    most = late.milliseconds[-1]
    in_time = "in real time" if most < BEHIND else "NOT in real time"
    in_time += f", {late.cut_off} cut off by the server" if late.cut_off else ""
    click.echo(f"  streams    {name:13} {count} {in_time}: p50 {late.percentile(0.5):.0f}  "
               f"p99 {late.percentile(0.99):.0f}  max {most:.0f} ms (goal: p99 {LATENCY:.0f}), "
               f"processor time for a second of sound: server {late.server_seconds / (count * seconds):.3f} s "
               f"({late.server_seconds / seconds:.2f} cores for all), clients "
               f"{late.client_seconds / (count * seconds):.3f} s, "
               f"{before.proportional:.0f} MB before, {after.proportional:.0f} at the end, "
               f"{sum(len(words.split()) for words in late.words)} words; load {os.getloadavg()[0]:.1f}")


def processes(name: str, server: Server, model: Path) -> None:
    """Print the memory of one and of two."""
    with all_running(server, model) as one:
        alone = memory_of(*(process for process, _ in one))
        with all_running(server, model) as two:
            both = memory_of(*(process for process, _ in (*one, *two)))
            first = memory_of(*(process for process, _ in one))
    click.echo(f"  processes  {name:13} one {alone.proportional:.0f} MB ({alone.resident:.0f} resident), "
               f"two {both.proportional:.0f} MB; each has {first.own:.0f} MB of its own")


@click.command()
@click.option("--model", type=click.Path(exists=True, path_type=Path), help="A model folder in vosk's layout [the "
              "demo's].")
@click.option("--streams", "count", default=20, show_default=True, help="Streams at once.")
@click.option("--seconds", default=60.0, show_default=True, help="Sound of each stream.")
@click.option("--num-processes", default=1, show_default=True, help="Measure also servers of so many processes.")
@click.option("--vosk-server", "program", type=click.Path(exists=True, path_type=Path), help="vosk-server's "
              "asr_server.py, to be measured, too.")
@click.option("--only", multiple=True, type=click.Choice(["streams", "processes"]), help="Take only this measurement.")
@click.option("--turns", default=1, show_default=True, help="Times that the servers take turns.")
@click.argument("sounds", nargs=-1, type=click.Path(exists=True, path_type=Path))
def main(model: Path | None, count: int, seconds: float, num_processes: int, program: Path | None,
         only: tuple[str, ...], turns: int, sounds: tuple[Path, ...]) -> None:
    """Print the figures of the servers of a model."""
    model = model or DEMO
    servers = {"nnet3py": Server(our_server())}
    if num_processes > 1:
        servers[f"nnet3py x {num_processes}"] = Server(our_server(num_processes))
    if program is not None:
        if not find_spec("vosk"):
            raise click.ClickException("the package vosk, which its server needs, is not there: pip install vosk")
        servers["vosk-server"] = Server(vosk_server(program))
        if num_processes > 1:
            servers[f"vosk x {num_processes}"] = Server(vosk_server(program), num_processes)
    click.echo(str(model.relative_to(ROOT) if model.is_relative_to(ROOT) else model.name))
    with tempfile.TemporaryDirectory() as temp:
        waves = as_waves(list(sounds) or sorted((SMALL / "wav").glob("*.wav")), Path(temp))
        sound = read_sound([str(wave) for wave in waves])
        for _ in range(turns):
            for name, server in servers.items():
                if not only or "streams" in only:
                    streams(name, server, model, sound, seconds, count)
                if not only or "processes" in only:
                    processes(name, server, model)


if __name__ == "__main__":
    main()
