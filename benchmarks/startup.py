"""How long commands take to start, as ratios to importing what they cannot do without.

usage: python benchmarks/startup.py [--runs=20] [--model=FILE]

Every command is measured against a bare interpreter that imports click (for help) or numpy and click (for a command
that reads a model). The package is compiled to bytecode first, as an installer does. The runs are interleaved, so that
a busy machine slows both sides alike; medians are compared.
"""
from __future__ import annotations

import compileall
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
IMPORT_CLICK = [sys.executable, "-c", "import click"]
IMPORT_NUMPY = [sys.executable, "-c", "import numpy, click"]


def seconds(command: list[str]) -> float:
    """The wall time of one run; the command must succeed."""
    environment = {**os.environ, "NNET3PY_PYTHON": sys.executable}
    start = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def small_examples() -> Path | None:
    """Training examples among the tests' data, or None."""
    found = sorted((ROOT / "tests" / "data" / "egs").glob("*.ark"), key=lambda path: path.stat().st_size)
    return found[0] if found else None


def small_model() -> Path | None:
    """A model among the tests' data, or None."""
    found = sorted((ROOT / "tests" / "data").rglob("*.raw"), key=lambda path: path.stat().st_size)
    return found[0] if found else None


def cases(model: Path | None, examples: Path | None) -> list[tuple[str, list[str], list[str], float]]:
    """(label, command, what it is compared with, the ratio it should stay under)."""
    launchers = ROOT / "bin"
    group = [sys.executable, "-c", "from nnet3py.cli.main import main; main()", "--help"]
    found = [("nnet3py --help", group, IMPORT_CLICK, 1.5),
             ("nnet3-train --help", [str(launchers / "nnet3-train"), "--help"], IMPORT_CLICK, 1.5),
             ("feat-to-len --help", [str(launchers / "feat-to-len"), "--help"], IMPORT_CLICK, 1.5)]
    if model is not None:
        found += [("nnet3-info MODEL", [str(launchers / "nnet3-info"), str(model)], IMPORT_NUMPY, 1.3),
                  ("nnet3-copy MODEL", [str(launchers / "nnet3-copy"), str(model), os.devnull], IMPORT_NUMPY, 1.3)]
    if examples is not None:
        found += [(f"{name} EGS", [str(launchers / name), f"ark:{examples}", f"ark:{os.devnull}"], IMPORT_NUMPY, 1.3)
                  for name in ("nnet3-copy-egs", "nnet3-shuffle-egs", "nnet3-subset-egs")]
    return found


@click.command()
@click.option("--runs", default=20, show_default=True, help="Runs of each command.")
@click.option("--model", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A model for nnet3-info.")
def main(runs: int, model: Path | None) -> None:
    """Print the start-up time of commands, and its ratio to that of the imports they need."""
    compileall.compile_dir(ROOT / "nnet3py", quiet=2)
    for label, command, baseline, limit in cases(model or small_model(), small_examples()):
        seconds(command)   # once unmeasured: files come into the page cache
        ours, theirs = [], []
        for _ in range(runs):
            theirs.append(seconds(baseline))
            ours.append(seconds(command))
        ratio = statistics.median(ours) / statistics.median(theirs)
        click.echo(f"{label:22} {statistics.median(ours):.3f} s  {baseline[-1]:20} {statistics.median(theirs):.3f} s   "
                   f"ratio {ratio:.2f} (goal: {limit})")


if __name__ == "__main__":
    main()
