"""How long commands take to start, as ratios to importing what they cannot do without.

usage: python benchmarks/startup.py [--runs=10] [--model=FILE] [--only=NAME] [--help-only | --run-only] [--profile]

With --profile: where the time of those above the goal goes (importing our modules, others', and the work itself).

Every command is measured at its --help, against a bare interpreter that imports click; and every one that does no
real work on a tiny input (startup_commands.py) at that, against one that imports numpy and click. The package is
compiled to bytecode first, as an installer does. Each run stands beside one of what it is compared with, so that a
busy machine slows both alike; of their ratios the median is shown, for the time that passed and for the processor's.
"""
from __future__ import annotations

import compileall
import contextlib
import io
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
from startup_commands import COMMANDS, LIBRARIES, NOT_MEASURED, OTHER_STATUS, write_inputs

from nnet3py.cli import registry

ROOT = Path(__file__).resolve().parent.parent
LAUNCHERS = ROOT / "bin"
IMPORT_CLICK = [sys.executable, "-c", "import click"]
IMPORT_NUMPY = [sys.executable, "-c", "import numpy, click"]
GOAL = 1.3                # times what importing takes that no command can do without


class Case(NamedTuple):
    """A command line, and what it is compared with."""

    label: str
    command: list[str]
    baseline: list[str]


class Seconds(NamedTuple):
    """What one run took: the time that passed, and the processor's (user and system)."""

    wall: float
    cpu: float


def seconds(command: list[str]) -> Seconds:
    """The times of one run; the command must do what it is expected to."""
    environment = {**os.environ, "NNET3PY_PYTHON": sys.executable}
    nothing = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (1, 2)]
    start = time.perf_counter()
    process = os.posix_spawn(command[0], command, environment, file_actions=nothing)
    _, status, used = os.wait4(process, 0)
    taken = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) not in (0, OTHER_STATUS.get(Path(command[0]).name)):
        raise click.ClickException(f"exit status {os.waitstatus_to_exitcode(status)}: {' '.join(command)}")
    return Seconds(taken, used.ru_utime + used.ru_stime)


def started(name: str) -> list[str]:
    """How a command is started: by its launcher, if it has one."""
    return [str(LAUNCHERS / name)] if registry.COMMANDS[name].launcher else [str(LAUNCHERS / "nnet3py"), name]


def help_cases() -> Iterator[Case]:
    """Every command's --help."""
    yield Case("nnet3py --help", [str(LAUNCHERS / "nnet3py"), "--help"], IMPORT_CLICK)
    for name in registry.COMMANDS:
        yield Case(f"{name} --help", [*started(name), "--help"], IMPORT_CLICK)


def run_cases(model: Path | None) -> Iterator[Case]:
    """Every command that does no real work."""
    if model is not None:
        yield Case("nnet3-info MODEL", [*started("nnet3-info"), str(model)], IMPORT_NUMPY)
    for name, *words in COMMANDS:
        yield Case(name, [*started(name), *words], with_library(LIBRARIES.get(name)))


def with_library(library: str | None) -> list[str]:
    """The imports that a command is compared with: those of all, and a library that it needs besides."""
    return [sys.executable, "-c", f"import numpy, click, {library}"] if library else IMPORT_NUMPY


_PROFILED = """
import sys, time
import numpy, click
start = time.perf_counter()
sys.stderr.write("BEGIN\\n")
from nnet3py.cli.main import collect_rarely, load
collect_rarely()
load(sys.argv[1]).execute(sys.argv[2:])
sys.stderr.write(f"TOTAL {1e3 * (time.perf_counter() - start):g}\\n")
"""


def profile(name: str, words: list[str]) -> str:
    """Milliseconds of a command beyond the imports it is compared with, by what they are spent on; the median of 5."""
    rows = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-X", "importtime", "-c", _PROFILED, name, *words],
                              capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        text = done.stderr.partition("BEGIN")[2]
        total = float(text.partition("TOTAL ")[2].split()[0])
        modules = re.findall(r"import time: *(\d+) \| *\d+ \| *(\S+)", text)
        ours, others = ([int(time) / 1e3 for time, module in modules if module.startswith("nnet3py") == mine]
                        for mine in (True, False))
        drawing = sum(int(time) for time, module in modules if module.startswith(("numpy.random", "secrets", "hmac",
                                                                                   "_hashlib", "hashlib"))) / 1e3
        rows.append((total, sum(ours), len(ours), sum(others), len(others), drawing))
    total, own, num_own, other, num_other, drawing = (statistics.median(values) for values in zip(*rows, strict=True))
    return (f"{name:32} {total:5.1f} ms: {own:4.1f} for {num_own:.0f} modules of nnet3py, {other:4.1f} for "
            f"{num_other:.0f} others ({drawing:.1f} of them numpy.random), {total - own - other:4.1f} for the work "
            "(timing imports included)")


@click.command()
@click.option("--profile", "profiled", is_flag=True, help="Profile the commands above the goal.")
@click.option("--runs", default=10, show_default=True, help="Runs of each command.")
@click.option("--model", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A model for nnet3-info.")
@click.option("--only", default="", help="Only commands whose name contains this.")
@click.option("--help-only", is_flag=True, help="Measure no more than every --help.")
@click.option("--run-only", is_flag=True, help="Measure no --help.")
def main(runs: int, model: Path | None, only: str, profiled: bool, help_only: bool, run_only: bool) -> None:
    """Print the start-up time of commands, and its ratio to that of the imports they need."""
    compileall.compile_dir(ROOT / "nnet3py", quiet=2)
    model = model.resolve() if model else None
    cases = [*([] if run_only else help_cases()), *([] if help_only else run_cases(model))]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        os.chdir(folder)
        write_inputs(Path(folder))
        missed = measure(runs, [case for case in cases if only in case.label])
        for name, *words in COMMANDS:
            if profiled and name in missed:
                click.echo(profile(name, words))
    click.echo(f"Above the goal: {', '.join(missed) or 'none'}. Measured at --help only: {', '.join(NOT_MEASURED)}")


def measure(runs: int, cases: list[Case]) -> list[str]:
    """Print a line for each command; return the labels of those above the goal, which is for the time that passes."""
    missed = []
    click.echo(f"{'milliseconds':40} {'wall':>6} {'cpu':>6}   {'compared with':44} {'wall':>6} {'cpu':>6}   "
               f"ratios (goal: {GOAL})")
    for label, command, baseline in cases:
        seconds(command)   # once unmeasured: files come into the page cache
        pairs = [(seconds(baseline), seconds(command)) for _ in range(runs)]
        theirs, ours = ([1e3 * statistics.median(pair[side][kind] for pair in pairs) for kind in (0, 1)]
                        for side in (0, 1))
        wall, cpu = (statistics.median(pair[1][kind] / pair[0][kind] for pair in pairs) for kind in (0, 1))
        click.echo(f"{label:40} {ours[0]:6.0f} {ours[1]:6.0f}   {baseline[-1]:44} {theirs[0]:6.0f} {theirs[1]:6.0f}   "
                   f"{wall:.2f} {cpu:.2f}{' above' if wall > GOAL else ''}")
        if wall > GOAL:
            missed.append(label)
    return missed


if __name__ == "__main__":
    main()
