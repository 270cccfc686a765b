"""How long commands take to start, as ratios to importing what they cannot do without.

usage: python benchmarks/startup.py [--runs=20] [--model=FILE] [--only=NAME] [--profile]

With --profile: where the time of those above their goal goes (importing our modules, others', and the work itself).

All commands are measured that need no compiled kernel (startup_commands.py).
Every command is measured against a bare interpreter that imports click (for help) or numpy and click (for a command
that reads a model). The package is compiled to bytecode first, as an installer does. The runs are interleaved, so that
a busy machine slows both sides alike; medians are compared.
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
from pathlib import Path

import click
from startup_commands import COMMANDS, LIBRARIES, NOT_MEASURED, OTHER_STATUS, write_inputs

ROOT = Path(__file__).resolve().parent.parent
IMPORT_CLICK = [sys.executable, "-c", "import click"]
IMPORT_NUMPY = [sys.executable, "-c", "import numpy, click"]
GOAL = 1.3                # times what importing takes that no command can do without


def seconds(command: list[str]) -> float:
    """The wall time of one run; the command must do what it is expected to."""
    environment = {**os.environ, "NNET3PY_PYTHON": sys.executable}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    taken = time.perf_counter() - start
    if done.returncode not in (0, OTHER_STATUS.get(Path(command[0]).name)):
        raise click.ClickException(f"exit status {done.returncode}: {' '.join(command)}")
    return taken


def cases(model: Path | None) -> list[tuple[str, list[str], list[str], float]]:
    """(label, command, what it is compared with, the ratio it should stay under)."""
    launchers = ROOT / "bin"
    group = [sys.executable, "-c", "from nnet3py.cli.main import main; main()", "--help"]
    found = [("nnet3py --help", group, IMPORT_CLICK, 1.5),
             ("nnet3-train --help", [str(launchers / "nnet3-train"), "--help"], IMPORT_CLICK, 1.5),
             ("feat-to-len --help", [str(launchers / "feat-to-len"), "--help"], IMPORT_CLICK, 1.5)]
    if model is not None:
        found.append(("nnet3-info MODEL", [str(launchers / "nnet3-info"), str(model)], IMPORT_NUMPY, GOAL))
    return found + [(name, [str(launchers / name), *words], with_library(LIBRARIES.get(name)), GOAL)
                    for name, *words in COMMANDS]


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
@click.option("--profile", "profiled", is_flag=True, help="Profile the commands above their goal.")
@click.option("--runs", default=20, show_default=True, help="Runs of each command.")
@click.option("--model", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A model for nnet3-info.")
@click.option("--only", default="", help="Only commands whose name contains this.")
def main(runs: int, model: Path | None, only: str, profiled: bool) -> None:
    """Print the start-up time of commands, and its ratio to that of the imports they need."""
    compileall.compile_dir(ROOT / "nnet3py", quiet=2)
    model = model.resolve() if model else None
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        os.chdir(folder)
        write_inputs(Path(folder))
        missed = measure(runs, [case for case in cases(model) if only in case[0]])
        for name, *words in COMMANDS:
            if profiled and name in missed:
                click.echo(profile(name, words))
    click.echo(f"Above the goal: {', '.join(missed) or 'none'}. Not measured: {', '.join(NOT_MEASURED)}")


def measure(runs: int, table: list[tuple[str, list[str], list[str], float]]) -> list[str]:
    """Print a line for each command; return the labels of those above their goal."""
    missed = []
    for label, command, baseline, limit in table:
        seconds(command)   # once unmeasured: files come into the page cache
        ours, theirs = [], []
        for _ in range(runs):
            theirs.append(seconds(baseline))
            ours.append(seconds(command))
        ratio = statistics.median(ours) / statistics.median(theirs)
        click.echo(f"{label:32} {statistics.median(ours):.3f} s  {baseline[-1]:20} {statistics.median(theirs):.3f} s   "
                   f"ratio {ratio:.2f} (goal: {limit})")
        if ratio > limit:
            missed.append(label)
    return missed


if __name__ == "__main__":
    main()
